"""Measures the tables that the trained index rankings start from, and checks how the settings of all were chosen.

``python -m unison.model.train_index TRACE...`` rewrites the stored tables. ``python -m unison.model.train_index
--check`` replays the real traces under a small grid of settings of ``index-duel`` and prints what each attains, what
the one that is best on the other traces attains on each, and the worst cells of the setting in use.
"""

import argparse
import json
from itertools import product

from unison.formats import TOKENS_MAX
from unison.model.load import ENVELOPES, default_load
from unison.model.policies import POLICIES
from unison.model.policies.index import TABLES, index, learned
from unison.model.progress import Progress
from unison.model.schedule import make_schedule
from unison.model.simulator import simulate
from unison.model.trace import read_trace, real_traces
from unison.params import N64

__all__ = ["check", "choose", "train", "write_tables"]

_ABOUT = (
    "Waits by class (all, then the sixteen gap classes) and bin of unison.model.policies.index: returns, and ends "
    "without return, counted by a replay of each trace under its default load with memory for every slot."
)
#: The grid of ``check``; its first setting is the one in use.
_GRID = {"parent": ("product", "tool", "gap"), "shrink": (6, 3, 12), "step": (2, 1, 3)}
_SETTINGS = [dict(zip(_GRID, values, strict=True)) for values in product(*_GRID.values())]
_LABELS = [" ".join(map(str, setting.values())) for setting in _SETTINGS]
#: As the evaluation's: the oracles, and how much lower than the floor's AMAT the best of them must be.
_ORACLES, _NOTHING_TO_WIN = ("belady", "belady-size", "belady-tide"), 0.99
_FLOOR = {"explicit": "lru-completion", "silent": "lru"}


def train(trace):
    """The counters of one trace, as ``learned`` gives them."""
    schedule = make_schedule(trace, default_load(trace))
    return learned(simulate(schedule, index(), (0, N64.sessions * TOKENS_MAX)).shared)


def write_tables(path, counters):
    """Writes the counters by trace, one class a line."""
    lines = []
    for name, kinds in counters.items():
        rows = {kind: ",\n".join(json.dumps(row, separators=(",", ":")) for row in kinds[kind]) for kind in kinds}
        lines.append(f'"{name}": {{' + ", ".join(f'"{kind}": [\n{text}\n]' for kind, text in rows.items()) + "}")
    body = ",\n".join(lines)
    path.write_text(f'{{"about": {json.dumps(_ABOUT)},\n"traces": {{\n{body}\n}}}}\n')


def choose(attainments):
    """The best label of ``attainments[label][trace]`` on all traces, and by trace the best on the others.

    The first of equals, here and there.
    """
    traces = list(next(iter(attainments.values())))

    def best(among):
        return max(attainments, key=lambda label: sum(attainments[label][trace] for trace in among))

    return best(traces), {out: best([trace for trace in traces if trace != out]) for out in traces}


def _mean(numbers):
    return sum(numbers) / len(numbers)


def check(traces, seed, advance):
    """Replays every setting on every trace, envelope and completion.

    Parameters
    ----------
    traces : sequence of Trace
    seed : int
        Orders the sessions.
    advance : callable
        Called after each trace, envelope and completion.

    Returns
    -------
    attainments : dict
        By label and trace of agents, the mean over the cells with something to win of the AMAT's way from the floor to
        the best oracle.
    cells : list of tuple
        AMAT of the setting in use over the floor's, over LRU's, trace, envelope, completion.
    """
    found = {label: {} for label in _LABELS}
    cells = []
    policies = [
        index(label, tide=True, tier_first=True, duel=True, **setting)
        for label, setting in zip(_LABELS, _SETTINGS, strict=True)
    ]
    references = [POLICIES[name] for name in {"lru", *_FLOOR.values(), *_ORACLES}]
    for trace, completion in product(traces, _FLOOR):
        schedule = make_schedule(trace, default_load(trace, completion=completion, seed=seed))
        for envelope in ENVELOPES:
            capacities = schedule.capacities(envelope)
            amats = {
                policy.name: simulate(schedule, policy, capacities, seed=seed).amat
                for policy in (*references, *policies)
            }
            advance()
            floor, oracle = amats[_FLOOR[completion]], min(amats[name] for name in _ORACLES)
            in_use = amats[_LABELS[0]]
            cells.append((in_use / floor, in_use / amats["lru"], trace.name, envelope, completion))
            if schedule.load.arrivals == "closed" and oracle <= _NOTHING_TO_WIN * floor:
                for label in _LABELS:
                    attained = (floor - amats[label]) / (floor - oracle)
                    found[label].setdefault(trace.name, []).append(attained)
    means = {label: {name: _mean(attained) for name, attained in by_trace.items()} for label, by_trace in found.items()}
    return means, cells


def _print_check(seeds):
    paths = real_traces()
    if not paths:
        raise SystemExit("no real traces: set UNISON_TRACES to a folder that holds them")
    traces = [read_trace(path) for path in paths.values()]
    total = len(seeds) * len(traces) * len(_FLOOR) * len(ENVELOPES)
    with Progress("check", total, unit="cells") as progress:
        for seed in seeds:
            attainments, cells = check(traces, seed, lambda: progress.advance())
            within, chosen = choose(attainments)
            print(f"seed {seed}: attainment over the floor by setting ({', '.join(_GRID)}), mean over traces of agents")
            for label, by_trace in attainments.items():
                texts = " ".join(f"{name} {value:.3f}" for name, value in by_trace.items())
                print(f"  {label:14} {_mean(by_trace.values()):.3f}  {texts}")
            without = [attainments[label][trace] for trace, label in chosen.items()]
            print(f"  in use {_mean(attainments[_LABELS[0]].values()):.3f}; best of all ({within}) "
                  f"{_mean(attainments[within].values()):.3f}; best on the other traces {_mean(without):.3f}: "
                  + ", ".join(f"{trace} {label}" for trace, label in chosen.items()))  # fmt: skip
            for name, place in (("floor", 0), ("LRU", 1)):
                worst = sorted(cells, key=lambda cell: -cell[place])[:3]
                texts = ", ".join(f"{cell[place]:.3f} {' '.join(cell[2:])}" for cell in worst)
                print(f"  worst AMAT of the setting in use over that of the {name}: {texts}", flush=True)


def main():
    """Rewrites the stored tables from the traces given, or checks the choice of the settings."""
    parser = argparse.ArgumentParser(prog="python -m unison.model.train_index", description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", metavar="TRACE", help="JSON-lines files")
    parser.add_argument("--check", action="store_true", help="replay the real traces under a grid of settings")
    parser.add_argument("--seeds", default="0,1,2", help="of --check, commas between (default %(default)s)")
    options = parser.parse_args()
    if options.check == bool(options.traces):
        parser.error("name traces, or --check")
    if options.check:
        _print_check([int(seed) for seed in options.seeds.split(",")])
        return
    write_tables(TABLES, {trace.name: train(trace) for trace in map(read_trace, options.traces)})


if __name__ == "__main__":
    main()
