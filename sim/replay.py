"""Replays a recorded stream on the RTL and on the golden model."""

import ctypes
import random
import time
from pathlib import Path

from unison.model.engine import Engine
from unison.sim.bench import Bench, Driver
from unison.sim.probe import now, unknown_signals
from unison.sim.scoreboard import Mismatch, Scoreboard

__all__ = ["CHECK_EVERY", "bring_up", "check_hazards", "replay", "result_of", "set_waves", "windowed"]

#: Events between two comparisons of counters and tables.
CHECK_EVERY = 500


async def bring_up(bench, config, hazards):
    """What software does after a reset: configure, write the hazards, make them live. Returns nothing."""
    await bench.configure(config)
    await bench.write_hazards(hazards)
    await bench.commit()
    await bench.until_idle()


def set_waves(on):
    """Switches the waves of this Verilator process on or off."""
    ctypes.CDLL(None).unison_waves(int(on))


def result_of(board, mismatch=None):
    """The figures of a run for its report, as plain JSON values."""
    tally = board.tally
    return {
        "events": tally.events,
        "decisions": tally.decisions,
        "answers": tally.answers,
        "mismatches": int(mismatch is not None),
        "evict_events": tally.evict_events,
        "migrate_events": tally.migrate_events,
        "error_events": tally.error_events,
        "refused": tally.refused,
        "checks": tally.checks,
        "scan_lengths": {str(length): count for length, count in board.bench.probe.scan_lengths.items()},
        "decision_histogram": {str(cycles): count for cycles, count in tally.decision_cycles.items()},
        "mismatch": None if mismatch is None else {"event": mismatch.event, "text": str(mismatch)},
    }


async def replay(dut, stream, job, *, engine=None, board_class=Scoreboard):
    """Replays ``stream``; returns ``result_of`` it with ``cycles`` and ``wall_s``.

    ``job`` may hold ``stalls`` (bool, seeded by ``seed``), ``lockstep`` (bool, where there are no stalls),
    ``check_every``, ``stop_after`` (a number of events; the run
    ends at the check that follows), ``windows`` (pairs of event numbers between which waves are written), ``identify``
    (bool: the instance must be the stream's), ``check_unknowns`` (bool: no signal may be X after reset) and
    ``progress`` (a file that is told how many events are done).
    """
    p = stream.params
    bench = Bench(dut, p)
    begin = time.monotonic()
    await bench.start()
    if job.get("identify", True):
        await bench.identify()
    if job.get("check_unknowns"):
        unknown = unknown_signals(dut)
        assert not unknown, f"X after reset: {', '.join(unknown)}"
    await bring_up(bench, stream.config, stream.hazards)
    await check_hazards(bench, stream.hazards)
    engine = Engine(p, config=stream.config, hazards=stream.hazards) if engine is None else engine
    board = board_class(bench, engine)
    rng = random.Random(job.get("seed", 0))
    driver = Driver(bench, board, rng if job.get("stalls", True) else None, lockstep=job.get("lockstep", False))
    events = stream.events
    every = job.get("check_every", CHECK_EVERY)
    progress = Path(job["progress"]) if "progress" in job else None
    first_cycle = now()
    mismatch = None
    try:
        for start in range(0, len(events), every):
            part = events[start : start + every]
            await driver.run(windowed(part, start, job.get("windows", ())))
            slots = {rng.randrange(p.sessions) for _ in range(4)} if start + every < len(events) else range(p.sessions)
            await board.check(readback=slots)
            if start + len(part) >= job.get("stop_after", len(events)):
                break
            if progress is not None:
                progress.write_text(str(start + len(part)))
    except Mismatch as difference:
        mismatch = difference
    return result_of(board, mismatch) | {"cycles": now() - first_cycle, "wall_s": time.monotonic() - begin}


async def check_hazards(bench, hazards):
    """Reads the hazard table back."""
    for turn, hazard in enumerate(hazards):
        value = await bench.read("HAZARD", turn)
        assert value == hazard, f"HAZARD[{turn}] does not keep {hazard:#x}: {value:#x}"


def windowed(events, first, windows):
    """The events, numbered from ``first``, with the waves switched where one of the ``windows`` begins and ends."""
    for number, event in enumerate(events, first):
        for begin, end in windows:
            if number == begin:
                set_waves(True)
            if number == end:
                set_waves(False)
        yield event
