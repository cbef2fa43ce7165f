"""Measures the tables that ``index-trained`` starts from: ``python -m unison.model.train_index TRACE...``."""

import argparse
import json

from unison.formats import TOKENS_MAX
from unison.model.load import default_load
from unison.model.policies.index import TABLES, index, learned
from unison.model.schedule import make_schedule
from unison.model.simulator import simulate
from unison.model.trace import read_trace
from unison.params import N64

__all__ = ["train", "write_tables"]

_ABOUT = (
    "Waits by class (all, then the sixteen gap classes) and bin of unison.model.policies.index: returns, and ends "
    "without return, counted by a replay of each trace under its default load with memory for every slot."
)


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


def main():
    """Replays the traces given and rewrites the stored tables."""
    parser = argparse.ArgumentParser(prog="python -m unison.model.train_index", description=__doc__)
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    traces = map(read_trace, parser.parse_args().traces)
    write_tables(TABLES, {trace.name: train(trace) for trace in traces})


if __name__ == "__main__":
    main()
