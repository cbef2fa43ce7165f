"""The figures of cosimulation runs: ``report.json`` and the table on the terminal."""

import platform
from collections import Counter
from dataclasses import asdict

from unison import __version__
from unison.model.files import write_json
from unison.sim.runner import tools

__all__ = ["entry", "write_report", "print_table", "decision_figures", "params_fields"]

#: Cycles of a pass over one slot: not what a search takes.
_RESCORE_CYCLES = 6


def params_fields(p):
    """The parameters as plain JSON values."""
    return asdict(p) | {"epsilon": str(p.epsilon)}


def decision_figures(histogram):
    """mean, p50, p99 and max of ``histogram``, which counts decisions by their cycles; None where there is none."""
    counts = Counter({int(cycles): count for cycles, count in histogram.items()})
    total = counts.total()
    if not total:
        return {"mean": None, "p50": None, "p99": None, "max": None}
    ordered = sorted(counts.elements())
    return {
        "mean": round(sum(ordered) / total, 2),
        "p50": ordered[(total - 1) // 2],
        "p99": ordered[(99 * total + 99) // 100 - 1],
        "max": ordered[-1],
    }


def entry(result, *, trace, simulator, n, **more):
    """One of the report's runs, from the ``result`` of a simulation."""
    lengths = sorted(int(length) for length in result["scan_lengths"] if int(length) != _RESCORE_CYCLES)
    figures = ("events", "decisions", "answers", "mismatches", "cycles")
    extra = ("evict_events", "migrate_events", "error_events", "refused", "checks", "mismatch")
    return {
        "trace": trace,
        "simulator": simulator,
        "n": n,
        **{name: result[name] for name in figures},
        "wall_s": round(result["wall_s"], 2),
        "scan_cycles": lengths[0] if len(lengths) == 1 else lengths,
        "decision_cycles": decision_figures(result["decision_histogram"]),
        **{name: result[name] for name in extra if name in result},
        **more,
    }


def write_report(path, params, runs):
    """Writes ``{"tools", "params", "runs"}``; ``params`` is an instance or a list of them."""
    many = isinstance(params, list | tuple)
    sizes = [params_fields(p) for p in params] if many else params_fields(params)
    used = {"unison": __version__, "python": platform.python_version(), **tools()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"tools": used, "params": sizes, "runs": runs})


def print_table(runs):
    """One line a run."""
    head = ["trace", "completion", "simulator", "host", "N", "events", "decisions", "EVICT", "MIGRATE", "mismatches"]
    head += ["scan", "mean", "p50", "p99", "max", "events/s"]
    rows = [head]
    for run in runs:
        cycles = run["decision_cycles"]
        rows.append(
            [
                run["trace"],
                run.get("completion", "-"),
                run["simulator"],
                "stalls" if run.get("stalls") else "prompt",
                run["n"],
                f"{run['events']:,}",
                f"{run['decisions']:,}",
                f"{run['evict_events']:,}",
                f"{run['migrate_events']:,}",
                run["mismatches"],
                run["scan_cycles"],
                *("-" if cycles[name] is None else cycles[name] for name in ("mean", "p50", "p99", "max")),
                f"{run['events'] / max(run['wall_s'], 0.01):,.0f}",
            ]
        )
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(head))]
    for row in rows:
        cells = [
            f"{cell!s:>{width}}" if column > 3 else f"{cell!s:<{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
