"""The command ``unison``: traces, workload families, hazard tables, recorded event streams and the policy lab."""

import argparse
import os
import sys
from fractions import Fraction
from importlib import import_module
from pathlib import Path

from unison import __version__
from unison.model.convert import FORMATS, convert
from unison.model.convert.export import EXPORTS
from unison.model.generate import CHECKED, FAMILIES, fit, generate, measure, open_trace, read_family, write_family
from unison.model.hazard import hazard_table, read_hazard_file, write_hazard_file
from unison.model.load import ENVELOPES, default_load, footprints, record
from unison.model.progress import Progress
from unison.model.provenance import modules_digest
from unison.model.report import write_report
from unison.model.stream import write_stream
from unison.model.trace import read_trace, write_trace
from unison.params import Params

__all__ = ["main"]

_TRACE_HELP = f"a trace file (JSON lines, gzip or plain), or a workload family: {', '.join(FAMILIES)}"
_UNITS = {"gap": 1e-6, "service": 1e-6}
_HEAD = ["s, tokens, token-s", *(f"p{level * 100:.0f}" for level in CHECKED), "mean"]


def _fraction(text):
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"must be a number or a fraction like 1/4, not {text!r}") from None


def _table(head, rows):
    """Columns of text, the first to the left, the others to the right."""
    rows = [head, *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        print("  ".join(text.rjust(width) if column else text.ljust(width)
                        for column, (text, width) in enumerate(zip(row, widths, strict=True))))  # fmt: skip


def _numbers(law, unit):
    """Quantiles and mean of a measured quantity as text; blanks if it was not measured."""
    if law is None:
        return [""] * (len(CHECKED) + 1)
    return [f"{value * unit:,.4g}" for value in (*law["quantiles"], law["mean"])]


def _generate(args):
    trace = generate(read_family(args.family), sessions=args.sessions, seed=args.seed)
    write_trace(args.output, trace)
    print(f"{args.output}: {len(trace.sessions):,} sessions, {len(trace.turns):,} turns")


def _fit(args):
    trace = read_trace(args.trace)
    family = fit(trace, args.name or trace.name, sessions=args.sessions)
    write_family(args.output, family)
    print(f"{args.output}: {family['source']}")


def _fit_check(args):
    family = read_family(args.family)
    measured = family["measured"]
    sessions = args.sessions
    if args.trace:
        trace = read_trace(args.trace)
        measured = measure(trace)
        sessions = sessions or len(trace.sessions)
    drawn = measure(generate(family, sessions=sessions, seed=args.seed))
    rows = []
    for name, law in measured.items():
        for label, each in ((name, law), ("  generated", drawn.get(name))):
            rows.append([label, *_numbers(each, _UNITS.get(name, 1))])
    print(f"{family['name']}: {family['source']}")
    _table(_HEAD, rows)


def _hazard(args):
    trace = open_trace(args.trace)
    p = Params(hazard_bits=args.hazard_bits)
    source = f"measured on {trace.name}: {len(trace.sessions)} sessions, {len(trace.turns)} turns"
    write_hazard_file(args.output, hazard_table(trace, p), p, source)
    print(f"{args.output}: {source}")


def _stream(args):
    trace = open_trace(args.trace)
    p = Params(sessions=args.slots)
    changes = {"arrivals": "recorded"} if args.recorded else {}
    load = default_load(
        trace,
        concurrency=args.concurrency,
        rate=args.rate,
        scale=args.scale,
        completion=args.completion,
        delta=args.delta,
        seed=args.seed,
        **changes,
    )
    hazards = read_hazard_file(args.hazards, p) if args.hazards else None
    config = {} if args.gap_prior is None else {"gap_prior": args.gap_prior}
    # A turn is at most three events, and a DMA_DONE now and then.
    expected = min(3 * len(trace.turns), args.max_events or sys.maxsize)
    with Progress(trace.name, expected) as progress:
        recording = record(
            trace,
            p,
            load=load,
            capacity=args.capacity,
            hazards=hazards,
            max_events=args.max_events,
            progress=progress.advance,
            **config,
        )
    write_stream(args.output, recording.stream)
    summary = recording.summary
    config = recording.stream.config
    print(f"{args.output}: {summary.events:,} events, {summary.answers:,} answers")
    print(f"capacity    SRAM {config.capacity_sram:,} tokens, HBM {config.capacity_hbm:,} tokens")
    print(f"hit rate    {summary.hit_rate:.4f}, in SRAM {summary.sram_hit_rate:.4f}, of {summary.arrivals:,} arrivals")
    print(f"decisions   {summary.decisions:,}")
    print(f"evictions   {summary.evictions:,} in {summary.events_with_eviction:,} events")
    print(f"migrations  {summary.migrations:,} in {summary.events_with_migration:,} events")
    print(f"forgotten   {summary.forgets:,}; without a place {summary.bypasses:,}")


def _check(args):
    trace = read_trace(args.trace)
    unknown = sum(turn.completion_us is None for turn in trace.turns)
    print(f"{args.trace}: {len(trace.sessions):,} sessions, {len(trace.turns):,} turns, {unknown:,} without completion")
    _table(_HEAD, [[name, *_numbers(law, _UNITS.get(name, 1))] for name, law in measure(trace).items()])
    load = default_load(trace)
    busy, paused = footprints(trace, load)
    how = f"{load.concurrency} sessions in a closed loop" if load.arrivals == "closed" else f"{load.arrivals} starts"
    print(f"mean footprint at {how}: {float(busy):,.0f} tokens busy, {float(paused):,.0f} paused")


def _convert(args):
    trace, dropped = convert(args.format, args.source)
    write_trace(args.output, trace)
    for reason, number in dropped.items():
        print(f"unison: dropped {number:,} x {reason}", file=sys.stderr)
    print(f"{args.output}: {len(trace.sessions):,} sessions, {len(trace.turns):,} turns")


def _export(args):
    trace = open_trace(args.trace)
    EXPORTS[args.format](args.output, trace)
    print(f"{args.output}: {len(trace.turns):,} accesses to {len(trace.sessions):,} sessions")


def _report(args):
    page, *tables = write_report(args.output, args.results, args.paper)
    print(f"{page}: beside it {', '.join(path.name for path in tables)}")


def _in_lab(name, module="unison.model.lab"):
    """The command ``name`` of a module of the lab, which is imported, and compiled, only when it is called."""

    def run(args):
        # Compiled code on disk is not renewed for what its module imports; a folder for each state of the source is.
        compiled = (
            Path(args.cache).resolve()
            / "numba"
            / modules_digest("unison.model.simulator", "unison.model.policies")[:16]
        )
        if "NUMBA_CACHE_DIR" not in os.environ:
            os.environ["NUMBA_CACHE_DIR"] = str(compiled)
            if not compiled.exists():
                print("unison: compiling the simulator and its policies, a minute or two, once", file=sys.stderr)
        try:
            function = getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            if error.name != "numba":
                raise
            raise ValueError(f"{args.command} needs the package numba: pip install 'unison[lab]'") from None
        from unison.model.evaluation import WorkerDied

        try:
            function(args)
        except WorkerDied as error:
            sys.exit(f"unison: error: {error}")

    return run


def _add_load(sub, completions=("explicit", "silent")):
    """The options of a load."""
    starts = sub.add_mutually_exclusive_group()
    starts.add_argument("--concurrency", type=int, metavar="C", help="closed loop of C sessions (default 64, gaia* 20)")
    starts.add_argument("--rate", type=float, metavar="R", help="Poisson starts, R sessions a second")
    starts.add_argument(
        "--recorded", action="store_true", help="starts as recorded (default for a trace without completions)"
    )
    sub.add_argument("--scale", type=_fraction, default=Fraction(1, 4), help="factor of service times (default 1/4)")
    sub.add_argument(
        "--completion",
        choices=completions,
        default=completions[0],
        help=f"whether a session's end is told (default {completions[0]})",
    )
    sub.add_argument("--seed", type=int, default=0, help="order of the sessions, random starts (default 0)")


def _add_workers(sub, dask=True):
    """The options of who replays and where results are kept."""
    workers = sub.add_mutually_exclusive_group()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    workers.add_argument("--workers", type=int, default=cores, metavar="K", help="processes (default: one a core)")
    if dask:
        workers.add_argument(
            "--dask", metavar="ADDRESS", help="replay on the Dask cluster of this scheduler, tcp://HOST:PORT"
        )
    sub.add_argument(
        "--cache",
        default="build/eval",
        metavar="FOLDER",
        help="keeps every cell, so that the same is not computed twice (default build/eval)",
    )


def _parser():
    parser = argparse.ArgumentParser(prog="unison", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(function, name, text):
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(function=function, command=name)
        return sub

    def add_output(sub, text):
        sub.add_argument("-o", "--output", required=True, metavar="FILE", help=f"{text}; .gz compresses it")

    sub = command(_generate, "generate", "write a trace drawn from a workload family")
    sub.add_argument("family", metavar="FAMILY", help=f"a family file or one of {', '.join(FAMILIES)}")
    add_output(sub, "the trace")
    sub.add_argument("--sessions", type=int, metavar="K", help="number of sessions (default: the family's)")
    sub.add_argument("--seed", type=int, default=0, help="equal seeds give equal traces (default 0)")

    sub = command(_fit, "fit", "measure a workload family on a trace")
    sub.add_argument("trace", metavar="TRACE", help="a trace file")
    add_output(sub, "the family")
    sub.add_argument("--name", help="name of the family (default: the trace's)")
    sub.add_argument("--sessions", type=int, metavar="K", help="sessions to generate by default (default: as here)")

    sub = command(_fit_check, "fit-check", "compare a family's generated trace with its source, quantile by quantile")
    sub.add_argument("family", metavar="FAMILY", help=f"a family file or one of {', '.join(FAMILIES)}")
    sub.add_argument("trace", metavar="TRACE", nargs="?", help="compare with this trace, not with the stored quantiles")
    sub.add_argument("--sessions", type=int, metavar="K", help="sessions to generate (default: as TRACE or family)")
    sub.add_argument("--seed", type=int, default=0, help="seed of the generated trace (default 0)")

    sub = command(_hazard, "hazard", "write the hazard table of a trace")
    sub.add_argument("trace", metavar="TRACE", help=_TRACE_HELP)
    add_output(sub, "the table")
    sub.add_argument("--hazard-bits", type=int, default=12, metavar="B", help="width of a hazard (default 12)")

    sub = command(_stream, "stream", "record the events of a trace, played against the golden model")
    sub.add_argument("trace", metavar="TRACE", help=_TRACE_HELP)
    add_output(sub, "the stream")
    sub.add_argument("--slots", type=int, default=64, metavar="N", help="session slots of the instance (default 64)")
    sub.add_argument(
        "--capacity",
        default="edge-tight",
        help=f"tokens as SRAM:HBM, or {', '.join(ENVELOPES)} (default edge-tight)",
    )
    _add_load(sub)
    sub.add_argument(
        "--delta",
        choices=("average", "true"),
        default="average",
        help="gap told at GAP_START: the engine's average, or the true one, an oracle bound (default average)",
    )
    sub.add_argument("--hazards", metavar="FILE", help="hazard table (default: the trace's own)")
    sub.add_argument("--gap-prior", type=int, metavar="US", help="gap of a new session (default: the trace's mean)")
    sub.add_argument("--max-events", type=int, metavar="K", help="stop after K events")

    envelopes = f"tokens as SRAM:HBM, or {', '.join(ENVELOPES)}"
    sub = command(_in_lab("replay"), "replay", "replay a trace under one policy of the lab")
    sub.add_argument("trace", metavar="TRACE", help=_TRACE_HELP)
    sub.add_argument("--policy", required=True, metavar="NAME", help="a policy; a wrong name lists them")
    sub.add_argument("--envelope", default="edge-tight", help=f"{envelopes} (default edge-tight)")
    sub.add_argument("--slots", type=int, metavar="N", help="session slots (default 64)")
    _add_load(sub)
    sub.add_argument("--json", action="store_true", help="print the cell as in results.json")
    _add_workers(sub)

    sub = command(_in_lab("compare"), "compare", "compare policies on traces and say which one to use")
    sub.add_argument("trace", metavar="TRACE", nargs="+", help=_TRACE_HELP)
    sub.add_argument("--policies", default="all", metavar="A,B,...", help="default all; a wrong name lists them")
    sub.add_argument("--envelopes", default="all", metavar="A,B,...", help=f"{envelopes} (default all of these)")
    sub.add_argument("--slots", type=int, metavar="N", help="session slots (default 64)")
    _add_load(sub, ("both", "explicit", "silent"))
    sub.add_argument("--json", action="store_true", help="print cells as in results.json, and the verdicts")
    _add_workers(sub)

    sub = command(_in_lab("evaluation"), "eval", "compute the pre-registered grid of the lab")
    sub.add_argument("-o", "--output", default="build/eval/results.json", metavar="FILE", help="default %(default)s")
    sub.add_argument("--grid", metavar="FILE", help="another grid file, TOML")
    sub.add_argument("--traces", metavar="A,B,...", help="of the grid (default all)")
    sub.add_argument("--policies", metavar="A,B,...", help="default the grid's; a wrong name lists them")
    sub.add_argument("--sensitivity", action="store_true", help="also other service times, seeds, costs and DMA rates")
    _add_workers(sub)

    sub = command(_in_lab("paper", "unison.model.paper.command"), "paper", "recompute the paper's tables and figures")
    sub.add_argument("names", metavar="NAME", nargs="*", help="artefacts, or all; without one, they are listed")
    sub.add_argument(
        "--traces", metavar="TRACE", action="append", help=f"default those of the grid; may be repeated: {_TRACE_HELP}"
    )
    sub.add_argument("-o", "--output", default="build/paper", metavar="FOLDER", help="default %(default)s")
    sub.add_argument(
        "--results",
        default="build/eval/results.json",
        metavar="FILE",
        help="the evaluation's cells, taken where they are what is needed (default %(default)s)",
    )
    _add_workers(sub, dask=False)

    sub = command(_report, "report", "make a page to read, and CSV files, of the evaluation's results")
    sub.add_argument(
        "results", nargs="?", default="build/eval/results.json", metavar="RESULTS", help="default %(default)s"
    )
    sub.add_argument(
        "--paper", default="build/paper", metavar="FOLDER", help="the paper's artefacts, if there (default %(default)s)"
    )
    sub.add_argument("-o", "--output", default="build/eval/report.html", metavar="FILE", help="default %(default)s")

    sub = command(_convert, "convert", "make a trace of logs and trajectories of other tools")
    sub.add_argument("format", choices=("auto", *FORMATS), metavar="FORMAT", help=f"auto, {', '.join(FORMATS)}")
    sub.add_argument("source", nargs="+", metavar="SOURCE", help="a file, or a folder searched for the format's files")
    add_output(sub, "the trace")

    sub = command(_export, "export", "write a trace for simulators of caches, one record a turn")
    sub.add_argument("format", choices=tuple(EXPORTS), metavar="FORMAT", help=" or ".join(EXPORTS))
    sub.add_argument("trace", metavar="TRACE", help=_TRACE_HELP)
    sub.add_argument("-o", "--output", required=True, metavar="FILE", help="the records")

    sub = command(_check, "check", "validate a trace file and print a summary")
    sub.add_argument("trace", metavar="TRACE", help="a trace file")
    return parser


def main(arguments=None):
    """Runs the command with ``arguments`` (default: the process's); returns the exit code, 2 for a user's error."""
    args = _parser().parse_args(arguments)
    try:
        args.function(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone; nothing is left to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"unison: error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"unison: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("unison: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
