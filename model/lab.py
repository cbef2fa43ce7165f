"""The lab's commands: ``unison replay``, ``compare`` and ``eval``."""

import json
import math
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from unison.model.evaluation import (
    Setup,
    WorkerDied,
    cluster_workers,
    document,
    evaluate,
    grid_setups,
    grid_traces,
    known,
    local_workers,
    read_grid,
    write_results,
)
from unison.model.generate import FAMILIES, open_trace
from unison.model.load import default_load
from unison.model.policies import POLICIES
from unison.model.schedule import cached_schedule
from unison.model.store import Store
from unison.model.verdict import judge

__all__ = ["WorkerDied", "compare", "evaluation", "replay"]


def _names(text):
    return [name.strip() for name in text.split(",")]


@contextmanager
def _means(args):
    """The store of cells and the workers that the options ask for."""
    workers = cluster_workers(args.dask) if args.dask else local_workers(args.workers)
    with Store(Path(args.cache) / "cells.sqlite") as store, workers as hands:
        yield store, hands


def _label(load, args):
    """What tells a load from another, but for seed and completion."""
    parts = [f"service x {load.scale}"]
    if args.concurrency is not None:
        parts.append(f"{load.concurrency} sessions")
    if args.rate is not None:
        parts.append(f"{load.rate:g} starts/s")
    if args.recorded:
        parts.append("recorded starts")
    if args.slots is not None:
        parts.append(f"{args.slots} slots")
    return ", ".join(parts)


def _setups(args, grid, sources, completions):
    """A Setup for each trace and completion, and where each trace is from by name."""
    setups, origin = [], {}
    for source in sources:
        trace = open_trace(source)
        if trace.name in origin:
            raise ValueError(f"two traces are named {trace.name!r}: {origin[trace.name]} and {source}")
        origin[trace.name] = str(source)
        for completion in completions:
            load = default_load(
                trace,
                concurrency=args.concurrency,
                rate=args.rate,
                scale=args.scale,
                completion=completion,
                seed=args.seed,
                **({"arrivals": "recorded"} if args.recorded else {}),
            )
            schedule = cached_schedule(trace, load, Path(args.cache) / "schedules")
            slots = grid.slots if args.slots is None else args.slots
            setups.append(Setup(schedule, _label(load, args), grid.costs, grid.rate, slots))
    return setups, origin


def _envelopes(names, grid):
    return {name: grid.envelopes.get(name, name) for name in names}


def _print_json(content):
    print(json.dumps(content, indent=1, allow_nan=False))


def replay(args):
    """One cell."""
    grid = read_grid()
    (policy,) = known([args.policy], POLICIES, "policy")
    setups, origin = _setups(args, grid, [args.trace], [args.completion])
    with _means(args) as (store, workers):
        (outcome,), _ = evaluate(setups, (policy,), _envelopes([args.envelope], grid), grid, store, workers)
    (cell,) = (cell for cell in outcome.cells if cell["policy"] == policy)
    if args.json:
        _print_json({"meta": document([outcome], grid, origin)["meta"], "cells": [cell]})
        return
    for name, value in cell.items():
        shown = f"{value:,.6g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
        print(f"{name:18} {'-' if value is None else shown}")


def _table(outcome, floor):
    """Lines: AMAT over the floor's by policy, the best first, and envelope."""
    base = outcome.policies.index(floor)
    ratios = outcome.sums[0] / outcome.sums[0][:, [base]]
    rows = []
    for place, name in enumerate(outcome.policies):
        mean = math.exp(sum(map(math.log, ratios[:, place])) / len(ratios))
        notes = ["looks ahead"] * (not POLICIES[name].causal)
        degraded = next(cell["degraded"] for cell in outcome.cells if cell["policy"] == name)
        notes += [f"without {', '.join(degraded)}"] * bool(degraded)
        rows.append((mean, name, ratios[:, place], "; ".join(notes)))
    rows.sort(key=lambda row: row[0])
    width = max(map(len, outcome.policies))
    columns = [*outcome.envelopes, "mean"]
    yield f"{f'AMAT / {floor}':{width}}  " + "  ".join(f"{name:>11}" for name in columns)
    for mean, name, each, note in rows:
        numbers = "  ".join(f"{value:11.4f}" for value in (*each, mean))
        yield f"{name:{width}}  {numbers}  {note}".rstrip()


def _verdicts(outcomes, policies, grid):
    candidates = tuple(name for name in policies if POLICIES[name].causal)
    return [judge(outcome, candidates, grid.references, grid.level) for outcome in outcomes]


def _print_verdicts(verdicts):
    for verdict in verdicts:
        print(f"{verdict.trace}, {verdict.completion}: {verdict.text}")


def compare(args):
    """All cells of some traces, and a verdict on each."""
    grid = read_grid()
    policies = tuple(POLICIES) if args.policies == "all" else known(_names(args.policies), POLICIES, "policy")
    completions = ("explicit", "silent") if args.completion == "both" else (args.completion,)
    envelopes = grid.envelopes if args.envelopes == "all" else _envelopes(_names(args.envelopes), grid)
    setups, origin = _setups(args, grid, args.trace, completions)
    with _means(args) as (store, workers):
        outcomes, _ = evaluate(setups, policies, envelopes, grid, store, workers, label="compare")
    verdicts = _verdicts(outcomes, policies, grid)
    if args.json:
        _print_json({**document(outcomes, grid, origin), "verdicts": [asdict(verdict) for verdict in verdicts]})
        return
    for outcome, verdict in zip(outcomes, verdicts, strict=True):
        print(f"{verdict.trace}, completion {verdict.completion}, {verdict.load}, seed {verdict.seed}")
        print("\n".join(_table(outcome, verdict.floor)))
        print()
    _print_verdicts(verdicts)


def evaluation(args):
    """The whole grid, into a results file."""
    begin = time.monotonic()
    grid = read_grid(args.grid) if args.grid else read_grid()
    policies = known(_names(args.policies), POLICIES, "policy") if args.policies else grid.policies
    sourced = grid_traces(grid, _names(args.traces) if args.traces else None)
    if not any(source == "the real trace" for _, source in sourced.values()):
        print(
            f"unison: NO REAL TRACES: these are drawn from the families {', '.join(FAMILIES)}; UNISON_TRACES names the "
            "folder of the real ones",
            file=sys.stderr,
        )
    traces = {name: trace for name, (trace, _) in sourced.items()}
    setups = grid_setups(grid, traces, Path(args.cache) / "schedules", sensitivity=args.sensitivity)
    with _means(args) as (store, workers):
        outcomes, counts = evaluate(setups, policies, grid.envelopes, grid, store, workers)
    verdicts = _verdicts(outcomes, policies, grid)
    content = document(
        outcomes,
        grid,
        {trace.name: source for trace, source in sourced.values()},
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        seconds=round(time.monotonic() - begin, 1),
        workers=args.dask or args.workers,
        **counts,
        verdicts=[asdict(verdict) for verdict in verdicts],
    )
    write_results(args.output, content)
    _print_verdicts(verdicts)
    computed, found = counts["computed"], counts["found"]
    print(f"{args.output}: {computed + found:,} cells, {computed:,} computed and {found:,} found in {args.cache}")
