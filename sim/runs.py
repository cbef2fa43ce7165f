"""Prepares and runs cosimulations, two at a time, with progress; looks closer where RTL and model differ."""

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from pathlib import Path

from unison.hdl.verilog import emit
from unison.model.progress import Progress
from unison.params import Params
from unison.sim import runner
from unison.sim.probe import PUBLIC
from unison.sim.wave import write_view

__all__ = ["Run", "WORKERS", "build_for", "execute", "execute_all"]

#: Simulations at a time.
WORKERS = min(2, os.cpu_count() or 1)
#: Events before and after a mismatch whose waves are kept.
WINDOW = (30, 10)
_emitting = threading.Lock()


@dataclass
class Run:
    """One simulation to be: ``module`` with ``job`` on an instance ``p``; ``report`` has what its report adds."""

    name: str
    p: Params
    simulator: str
    module: str
    job: dict
    replay_command: str
    report: dict = field(default_factory=dict)
    testcase: str | None = None

    @property
    def directory(self):
        """Where job, log and result are kept."""
        return runner.BUILD_ROOT / "runs" / re.sub(r"[^\w.-]+", "_", self.name)


def build_for(p, simulator, *, waves=False):
    """The simulator binary of an instance."""
    # Amaranth keeps state in its modules while it elaborates.
    with _emitting:
        verilog = emit(p)
    return runner.build(verilog, simulator=simulator, waves=waves, public=PUBLIC if simulator == "verilator" else None)


def execute(run, *, waves=None):
    """Runs one simulation and returns its result; ``waves`` is a file for them."""
    made = build_for(run.p, run.simulator, waves=waves is not None)
    return runner.run(made, run.module, run.job, run.directory, waves=waves, testcase=run.testcase)


def _execute_and_look_closer(run):
    result = execute(run)
    mismatch = result.get("mismatch")
    if mismatch is not None:
        first, last = max(0, mismatch["event"] - WINDOW[0]), mismatch["event"] + WINDOW[1]
        mismatch["command"] = run.replay_command.format(first=first, last=last, **mismatch)
        if run.simulator == "verilator":
            waves = run.directory.resolve() / "mismatch.fst"
            again = {**run.job, "windows": [[first, last]], **({"run": mismatch["run"]} if "run" in mismatch else {})}
            closer = Run(f"{run.name}-closer", run.p, run.simulator, run.module, again, "", testcase=run.testcase)
            execute(closer, waves=waves)
            write_view(waves, run.p)
            mismatch["waves"] = str(waves)
    return result


def execute_all(runs, label, total):
    """Runs them, ``WORKERS`` at a time, and returns their results in order; ``total`` events are expected."""
    files = []
    for run in runs:
        run.directory.mkdir(parents=True, exist_ok=True)
        run.job["progress"] = str(run.directory.resolve() / "progress")
        files.append(Path(run.job["progress"]))
        files[-1].unlink(missing_ok=True)
    with Progress(label, total) as progress, ThreadPoolExecutor(WORKERS) as pool:
        futures = [pool.submit(_execute_and_look_closer, run) for run in runs]
        try:
            unfinished = set(futures)
            while unfinished:
                done, unfinished = wait_for(unfinished, timeout=0.5)
                for future in done:
                    future.result()
                if advanced := sum(map(_events_done, files)) - progress.done:
                    progress.advance(advanced)
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    return [future.result() for future in futures]


def _events_done(file):
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0
