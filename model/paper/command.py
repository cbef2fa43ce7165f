"""The command ``unison paper``."""

import time
from pathlib import Path

from unison.model.evaluation import grid_traces, known
from unison.model.generate import open_trace
from unison.model.paper import ARTEFACTS
from unison.model.paper.lab import GRID, Lab, render, with_workers, write_report

__all__ = ["paper"]


def _traces(names):
    """The named files or families; without names the grid's traces, and where they are from if that must be said."""
    if names:
        return tuple(open_trace(name) for name in names), ()
    sourced = grid_traces(GRID)
    return tuple(trace for trace, _ in sourced.values()), tuple(sorted({source for _, source in sourced.values()}))


def paper(args):
    """Makes the artefacts asked for, or lists all; each is written as soon as it is finished."""
    if not args.names:
        print("\n".join(f"{artefact.name:12}{artefact.title}" for artefact in ARTEFACTS.values()))
        return
    names = tuple(ARTEFACTS) if "all" in args.names else known(args.names, ARTEFACTS, "artefact")
    traces, sources = _traces(args.traces)
    lab = Lab(traces, folder=Path(args.cache) / "schedules", results=Path(args.results))
    command = " ".join(("unison paper {}", *(f"--traces {name}" for name in args.traces or ())))
    with with_workers(lab, args.workers) as lab:
        for name in names:
            begin = time.monotonic()
            report = ARTEFACTS[name].make(lab)
            report.notes.extend(f"Traces: {source}." for source in sources)
            fields = write_report(
                args.output,
                ARTEFACTS[name],
                report,
                lab,
                command=command.format(name),
                seconds=time.monotonic() - begin,
            )
            print(render(fields), flush=True)
