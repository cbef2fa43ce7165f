"""Cosimulation from the command line: ``python -m unison.sim sim|all|fuzz|wave``."""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from unison.model.generate import FAMILIES, open_trace
from unison.model.load import ENVELOPES, default_load, record
from unison.model.progress import Progress
from unison.model.stream import write_stream
from unison.model.trace import real_traces, write_trace
from unison.params import N64, Params
from unison.sim import runner
from unison.sim.report import entry, params_fields, print_table, write_report
from unison.sim.runs import Run, execute, execute_all
from unison.sim.wave import first_windows, write_view

__all__ = ["main"]

SHIPPED_TRACE = "gaia"
COMPLETIONS = ("explicit", "silent")
#: Events of each trace that Icarus replays as well in ``all``.
ICARUS_EVENTS = 2000
#: Instances that are fuzzed, and the share of the events of each: sizes that are no power of two, FIFOs of odd depths
#: and the narrowest score, whose highest live code is reached.
FUZZED = (
    (Params(sessions=4), 0.2),
    (Params(sessions=5, event_depth=5, answer_depth=7, score_bits=32), 0.2),
    (Params(sessions=16), 0.35),
    (N64, 0.25),
)
#: Most events of one fuzzing process.
FUZZ_PART = 25_000
#: Numbers of the runs of two fuzzing processes are so far apart.
FUZZ_RUNS = 1_000_000


def main(arguments=None):
    """Runs the command; returns the exit code: 0, 1 for a mismatch or a simulation that failed, 2 for bad usage."""
    options = _parser().parse_args(arguments)
    try:
        return options.function(options)
    except (ValueError, OSError) as error:
        print(f"unison.sim: {error}", file=sys.stderr)
        return 2
    except runner.SimulationError as error:
        print(f"unison.sim: {error}", file=sys.stderr)
        return 1


def _parser():
    parser = argparse.ArgumentParser(prog="python -m unison.sim", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name, function, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(function=function)
        sub.add_argument("--simulator", choices=runner.SIMULATORS, default="verilator")
        sub.add_argument("--sessions", type=int, help="N, session slots (default 64; fuzz: several)")
        sub.add_argument("--seed", type=int, default=0, help="of stalls, and of the load or the random events")
        sub.add_argument("--no-stalls", action="store_true", help="feed and read as fast as the bus can")
        report = runner.BUILD_ROOT / ("report.json" if name == "sim" else f"{name}.json")
        sub.add_argument("--report", type=Path, default=report, help="default %(default)s")
        return sub

    def load_options(sub):
        sub.add_argument("--concurrency", type=int, help="sessions of the closed loop (default: the trace's)")
        envelopes = ", ".join(ENVELOPES)
        sub.add_argument(
            "--capacity", default="edge-tight", help=f"SRAM:HBM in tokens, or {envelopes} (default %(default)s)"
        )
        sub.add_argument("--events", type=int, help="replay only so many")

    def trace_options(sub):
        families = ", ".join(FAMILIES)
        sub.add_argument("--trace", default=SHIPPED_TRACE, help=f"a file, or {families} (default %(default)s)")
        sub.add_argument("--completion", choices=COMPLETIONS, default="explicit")
        sub.add_argument("--from", dest="first", type=int, help="first event of the window whose waves are written")
        sub.add_argument("--to", dest="last", type=int, help="first event after that window")
        load_options(sub)

    trace_options(command("sim", _sim, "replay a trace on RTL and golden model"))
    wave = command("wave", _wave, "write the waves of a window, by default around an EVICT and a MIGRATE")
    wave.add_argument("--stalls", action="store_true", help="stall at random, as a run did (default: event by event)")
    trace_options(wave)
    everything = command("all", _all, "replay every trace of UNISON_TRACES, with explicit and silent completion")
    everything.add_argument("--completion", choices=COMPLETIONS, help="only this one")
    load_options(everything)
    fuzz = command("fuzz", _fuzz, "random and illegal events")
    fuzz.add_argument("--events", type=int, default=1_000_000)
    fuzz.add_argument("--run", type=int, help="only the run of this number, with its waves")
    return parser


def _trace_file(name):
    """The trace, and the file it is in: that of a family is written for others to look at."""
    if name not in FAMILIES:
        return open_trace(name), name
    path = Path("build/traces") / f"{name}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    trace = open_trace(name)
    write_trace(path, trace)
    return trace, path


def _prepare(options, name, completion, simulator, events, *, stalls):
    """Records the stream of a trace and returns its ``Run``, the stream and the number of its events."""
    p = N64 if options.sessions is None else N64.replace(sessions=options.sessions)
    trace, _ = _trace_file(name)
    load = default_load(trace, concurrency=options.concurrency, completion=completion, seed=options.seed)
    with Progress(f"golden model, {trace.name} {completion}") as progress:
        recording = record(
            trace, p, load=load, capacity=options.capacity, max_events=events, progress=progress.advance
        )
    count = len(recording.stream.events)
    label = f"{trace.name}-{completion}-{simulator}-n{p.sessions}{'-stalls' if stalls else ''}"
    arguments = ["--trace", str(name), "--simulator", simulator, "--completion", completion]
    arguments += ["--capacity", options.capacity, "--sessions", str(p.sessions), "--seed", str(options.seed)]
    arguments += ["--concurrency", str(options.concurrency)] if options.concurrency is not None else []
    arguments += ["--events", str(events)] if events is not None else []
    arguments += ["--stalls"] if stalls else ["--no-stalls"]
    run = Run(
        name=label,
        p=p,
        simulator=simulator,
        module="unison.sim.tb_replay",
        job={"seed": options.seed, "stalls": stalls, "check_unknowns": simulator == "icarus"},
        replay_command=f"python -m unison.sim wave {' '.join(arguments)} --from {{first}} --to {{last}}",
        report={
            "completion": completion,
            "capacity": options.capacity,
            "capacity_tokens": [recording.stream.config.capacity_sram, recording.stream.config.capacity_hbm],
            "load": asdict(load) | {"scale": str(load.scale)},
            "seed": options.seed,
            "stalls": stalls,
        },
    )
    run.directory.mkdir(parents=True, exist_ok=True)
    stream = run.directory.resolve() / "stream.jsonl.gz"
    write_stream(stream, recording.stream)
    run.job["stream"] = str(stream)
    run.report["trace"] = trace.name
    return run, recording.stream, count


def _finish(options, runs, results, params):
    """Writes and prints the report; the exit code."""
    entries = [
        entry(result, **{"simulator": run.simulator, "n": run.p.sessions} | run.report)
        for run, result in zip(runs, results, strict=True)
    ]
    write_report(options.report, params, entries)
    print_table(entries)
    failed = [each for each in entries if each["mismatches"]]
    for each in failed:
        mismatch = each["mismatch"]
        print(f"\nMISMATCH in {each['trace']} on {each['simulator']}\n{mismatch['text']}", file=sys.stderr)
        if "waves" in mismatch:
            print(f"waves: {mismatch['waves']}", file=sys.stderr)
        print(f"again: {mismatch['command']}", file=sys.stderr)
    events = sum(each["events"] for each in entries)
    print(f"{events:,} events, {len(failed)} of {len(entries)} runs with a mismatch; {options.report}")
    return 1 if failed else 0


def _sim(options):
    if options.first is not None or options.last is not None:
        return _wave(options)
    # Without stalls the cycles are those of the engine; with them both FIFOs fill and drain in every way.
    if options.simulator == "icarus":
        kinds = [not options.no_stalls]
    else:
        kinds = [False] if options.no_stalls else [False, True]
    prepared = [
        _prepare(options, options.trace, options.completion, options.simulator, options.events, stalls=stalls)
        for stalls in kinds
    ]
    runs = [run for run, _, _ in prepared]
    label = f"{options.simulator}, {runs[0].report['trace']}"
    results = execute_all(runs, label, sum(count for _, _, count in prepared))
    return _finish(options, runs, results, runs[0].p)


def _all(options):
    paths = real_traces()
    if not paths:
        raise ValueError("no trace at hand: set UNISON_TRACES to a folder of *.jsonl or *.jsonl.gz files")
    runs = []
    total = 0
    for path in paths.values():
        for completion in [options.completion] if options.completion else COMPLETIONS:
            run, _, count = _prepare(options, path, completion, options.simulator, options.events, stalls=False)
            runs.append(run)
            total += count
        if options.simulator == "verilator":
            events = min(options.events or ICARUS_EVENTS, ICARUS_EVENTS)
            run, _, count = _prepare(options, path, options.completion or "explicit", "icarus", events, stalls=True)
            runs.append(run)
            total += count
    results = execute_all(runs, "all traces", total)
    return _finish(options, runs, results, runs[0].p)


def _fuzz(options):
    if options.events < 1:
        raise ValueError(f"events must be positive, not {options.events!r}")
    instances = [(p, share) for p, share in FUZZED if options.sessions in (None, p.sessions)]
    if not instances:
        instances = [(N64.replace(sessions=options.sessions), 1.0)]
    shares = sum(share for _, share in instances)
    runs = []
    for p, share in instances:
        wanted = max(1, round(options.events * share / shares))
        for part in range(0, wanted, FUZZ_PART):
            runs.append(_fuzz_run(options, p, part // FUZZ_PART, min(FUZZ_PART, wanted - part)))
    if options.run is not None:
        if len(instances) > 1:
            raise ValueError("--run needs --sessions: runs are numbered for each instance")
        (p, _), run = instances[0], runs[0]
        run.job["run"] = options.run
        waves = None
        if options.simulator == "verilator":
            run.job["windows"] = [[0, None]]
            waves = run.directory.resolve() / "run.fst"
        result = execute(run, waves=waves)
        if waves:
            print(f"waves: {waves}, view: {write_view(waves, p)}")
        if result["mismatch"]:
            result["mismatch"]["command"] = run.replay_command.format(**result["mismatch"])
        return _finish(options, [run], [result], p)
    # The longest simulations first, so that the last ones to end are short.
    runs.sort(key=lambda run: -run.p.sessions)
    results = execute_all(runs, "fuzz", options.events)
    return _finish(options, runs, results, [p for p, _ in instances])


def _fuzz_run(options, p, part, events):
    stalls = " --no-stalls" if options.no_stalls else ""
    return Run(
        name=f"fuzz-n{p.sessions}-{part}-{options.simulator}",
        p=p,
        simulator=options.simulator,
        module="unison.sim.tb_fuzz",
        testcase="fuzzes",
        job={
            "params": params_fields(p),
            "seed": options.seed,
            "first_run": part * FUZZ_RUNS,
            "events": events,
            "stalls": not options.no_stalls,
        },
        replay_command=f"python -m unison.sim fuzz --simulator {options.simulator} --sessions {p.sessions} "
        f"--seed {options.seed}{stalls} --run {{run}}",
        report={"trace": "random", "seed": options.seed, "stalls": not options.no_stalls},
    )


def _wave(options):
    if options.simulator != "verilator":
        raise ValueError(f"waves of a window are written by verilator, not by {options.simulator!r}")
    stalls = getattr(options, "stalls", False)
    run, stream, _ = _prepare(
        options, options.trace, options.completion, options.simulator, options.events, stalls=stalls
    )
    # One event at a time, unless it is asked for otherwise: then a window holds just what its events do.
    run.job["lockstep"] = not stalls and not options.no_stalls
    if options.first is None and options.last is None:
        windows = first_windows(stream)
    else:
        first = options.first or 0
        last = len(stream.events) if options.last is None else options.last
        if not 0 <= first < last:
            raise ValueError(f"the window from event {first} to {last} is empty")
        windows = [[first, last]]
    # What follows the windows is of no interest.
    run.job |= {"windows": windows, "stop_after": windows[-1][1]}
    waves = Path("build/wave").resolve() / f"{run.report['trace']}.fst"
    waves.parent.mkdir(parents=True, exist_ok=True)
    result = execute(run, waves=waves)
    view = write_view(waves, run.p)
    shown = ", ".join(f"{first} ... {last - 1}" for first, last in windows)
    print(f"events {shown}: {waves} ({waves.stat().st_size / 1e6:.1f} MB)\ngtkwave {view}")
    if result["mismatch"]:
        result["mismatch"] |= {"command": run.replay_command.format(first=windows[0][0], last=windows[-1][1])}
    return _finish(options, [run], [result], run.p)


if __name__ == "__main__":
    sys.exit(main())
