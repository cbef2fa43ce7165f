"""What every artefact of the paper needs: traces and their schedules, replays by several processes, the report."""

import csv
import io
import math
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from unison.model.evaluation import WorkerDied, read_grid
from unison.model.files import write_json, write_lines
from unison.model.load import default_load
from unison.model.policies import POLICIES
from unison.model.progress import Progress
from unison.model.provenance import versions
from unison.model.schedule import cached_schedule, make_schedule
from unison.model.simulator import simulate

__all__ = [
    "COMPLETIONS",
    "ENVELOPE_NAMES",
    "GRID",
    "METRICS",
    "Artefact",
    "Claim",
    "Lab",
    "Report",
    "geometric_mean",
    "mean",
    "measured",
    "render",
    "with_workers",
    "write_report",
]

#: The pre-registered evaluation: envelopes, references, format points, gates.
GRID = read_grid()
COMPLETIONS = GRID.completions
ENVELOPE_NAMES = tuple(GRID.envelopes)
#: The metrics of one replay that the artefacts share.
METRICS = ("hr", "hr_sram", "amat", "amat_no_delta", "prefill_reduction", "prefetch_accuracy", "ttft_p50")


@dataclass(frozen=True, eq=False)
class Lab:
    """Traces under the contract's load, and the processes that replay them.

    Attributes
    ----------
    traces : tuple of Trace
    folder : Path, optional
        Where schedules are kept.
    results : Path, optional
        A results.json of the evaluation, whose cells are taken instead of new replays where an artefact can.
    quiet : bool
        No progress on stderr.
    pool : ProcessPoolExecutor, optional
        As ``with_workers`` makes it; None: this process does the work.
    """

    traces: tuple
    folder: Path | None = None
    results: Path | None = None
    quiet: bool = False
    pool: ProcessPoolExecutor | None = None
    _schedules: dict = field(default_factory=dict, repr=False)

    @property
    def names(self):
        """Names of the traces."""
        return tuple(trace.name for trace in self.traces)

    def trace(self, name):
        """The trace of a name."""
        return next(trace for trace in self.traces if trace.name == name)

    def load(self, name, completion="explicit"):
        """The contract's load of a trace."""
        return default_load(self.trace(name), completion=completion)

    def schedule(self, name, completion="explicit"):
        """The Schedule of a trace under the contract's load."""
        key = name, completion
        if key not in self._schedules:
            trace, load = self.trace(name), self.load(name, completion)
            make = make_schedule if self.folder is None else lambda *of: cached_schedule(*of, self.folder)
            self._schedules[key] = make(trace, load)
        return self._schedules[key]

    def replay(self, name, completion, capacity, policy, **options):
        """The Result of one replay; ``policy`` is a Policy or the name of one, ``options`` go to ``simulate``."""
        policy = POLICIES[policy] if isinstance(policy, str) else policy
        return simulate(self.schedule(name, completion), policy, capacity, **options)

    def map(self, function, tasks, label):
        """``[function(lab, *task) for task in tasks]``; ``function`` is a module's own.

        Raises
        ------
        WorkerDied
        """
        tasks = list(tasks)
        quiet = {"file": io.StringIO()} if self.quiet else {}
        made = []
        with Progress(label, len(tasks), unit="steps", **quiet) as progress:
            if self.pool is None:
                for task in tasks:
                    made.append(function(self, *task))
                    progress.advance()
                return made
            futures = [self.pool.submit(_call, function, task) for task in tasks]
            try:
                for future in futures:
                    made.append(future.result())
                    progress.advance()
            except BrokenProcessPool:
                raise WorkerDied("a worker process died, perhaps for want of memory") from None
            finally:
                for future in futures:
                    future.cancel()
        return made


_adopted = []


def _adopt(lab):
    # An interrupt goes to the whole group; the parent alone answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _adopted.append(lab)


def _call(function, task):
    return function(_adopted[0], *task)


@contextmanager
def with_workers(lab, number):
    """The lab with ``number`` processes to work for it; as it is if that is 1.

    Raises
    ------
    ValueError
        Unless it is positive.
    """
    if number < 1:
        raise ValueError(f"workers must be a positive number, not {number!r}")
    if number == 1:
        yield lab
        return
    # Libraries may have threads, which a fork does not survive. What a worker has read it keeps for the next artefact.
    with ProcessPoolExecutor(number, get_context("spawn"), initializer=_adopt, initargs=(lab,)) as pool:
        yield replace(lab, pool=pool)


def mean(values):
    """Arithmetic mean of what is not None; None of nothing."""
    values = [value for value in values if value is not None]
    return math.fsum(values) / len(values) if values else None


def geometric_mean(values):
    """Geometric mean of numbers that are not negative; 0 if one is 0, None of nothing."""
    values = list(values)
    if not values:
        return None
    if min(values) <= 0:
        return 0.0
    return math.exp(math.fsum(map(math.log, values)) / len(values))


@dataclass(frozen=True)
class Claim:
    """A statement of the paper: its figure, ours, and whether it holds here; None where that is no yes or no."""

    claim: str
    paper: str
    ours: str
    holds: bool | None


@dataclass(frozen=True)
class Report:
    """What an artefact found.

    Attributes
    ----------
    rows : list of dict
        One table: all rows have the same keys.
    claims : list of Claim
    notes : list of str
    chart : dict, optional
        As ``unison.model.report.artefacts`` takes it.
    """

    rows: list
    claims: list
    notes: list = field(default_factory=list)
    chart: dict | None = None


@dataclass(frozen=True)
class Artefact:
    """One table or figure: ``make(lab)`` gives its Report."""

    name: str
    title: str
    make: Callable


def _plain(value):
    """A value as JSON and CSV take it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_report(folder, artefact, report, lab, *, command, seconds):
    """Writes ``NAME.json`` and ``NAME.csv`` into a folder; returns the JSON's fields.

    Keys: artefact, title, command, tools, seconds, traces (name, sessions, turns, load of each), claims, notes, chart,
    rows.
    """
    rows = [{key: _plain(value) for key, value in row.items()} for row in report.rows]
    described = []
    for trace in lab.traces:
        load = asdict(lab.load(trace.name))
        described.append({
            "name": trace.name,
            "sessions": len(trace.sessions),
            "turns": len(trace.turns),
            "load": {**load, "scale": str(load["scale"]), "completion": "as the rows say"},
        })  # fmt: skip
    fields = {
        "artefact": artefact.name,
        "title": artefact.title,
        "command": command,
        "tools": versions(),
        "seconds": round(seconds, 1),
        "traces": described,
        "claims": [{key: _plain(value) for key, value in asdict(claim).items()} for claim in report.claims],
        "notes": report.notes,
        "chart": report.chart,
        "rows": rows,
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{artefact.name}.json", fields)
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_lines(folder / f"{artefact.name}.csv", text.getvalue().splitlines())
    return fields


def _cell(value):
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def _columns(head, rows):
    """Lines of a table: text to the left, numbers to the right."""
    texts = [[_cell(value) for value in row] for row in rows]
    numeric = [all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(head))]
    widths = [max(map(len, column)) for column in zip(head, *texts, strict=True)]
    for line in (list(head), *texts):
        yield "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()


def render(fields):
    """The JSON's fields as text that a person reads: the table, the claims, the notes."""
    rows = fields["rows"]
    lines = [f"{fields['artefact']}: {fields['title']} ({fields['command']}, {fields['seconds']} s)", ""]
    lines += _columns(list(rows[0]), [list(row.values()) for row in rows])
    if fields["claims"]:
        words = {True: "holds", False: "does not hold", None: ""}
        table = [(of["claim"], of["paper"], of["ours"], words[of["holds"]]) for of in fields["claims"]]
        lines += ["", *_columns(("claim", "paper", "here", ""), table)]
    lines += ["", *(f"* {note}" for note in fields["notes"])]
    return "\n".join(lines) + "\n"


def measured(lab, name, completion, capacity, policy, options):
    """A task of ``Lab.map``: METRICS of one replay."""
    result = lab.replay(name, completion, capacity, policy, **options)
    return {metric: getattr(result, metric) for metric in METRICS}
