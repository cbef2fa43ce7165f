"""``python -m unison.model.bench``: speed of the simulator, and of LRB's decision, on one core beside libCacheSim.

The table goes to the terminal and, with the versions of all tools, to ``build/bench/report.json``. A request of the
simulator is about three events: the gap ends, the request arrives, the gap starts. Times of libCacheSim and of LRB are
of the processor, not of the clock, so that other work on the machine counts little.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import tempfile
import time
from collections import OrderedDict
from pathlib import Path

import numba
import numpy as np
from numba import types

from unison.model.flat import PEERS, flat_hits, next_requests, peer_hits
from unison.model.policies import POLICIES
from unison.model.policies.base import CHOICE, HBM, SLOT, SRAM
from unison.model.policies.lrb import (
    BASE,
    COLUMNS,
    DISTANCE,
    FEATURES,
    LATEST,
    REQUESTS,
    SEEN,
    SIZE,
    WINDOW,
    Learner,
    features,
    grow,
    lrb,
    samples,
)
from unison.model.schedule import NEVER, synthetic_schedule
from unison.model.simulator import simulate

__all__ = ["agreement", "lrb_decision", "main", "measure", "measure_peers"]

#: One request of libCacheSim's oracleGeneral format.
_ORACLE = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
#: Share of the live sessions that libCacheSim's cache holds.
_HELD = 0.5
_SHOWN = ("lru", "lru-completion", "spear", "unison", "index", "belady")


def measure(names, live, *, turns=400_000, capacity="server", repeat=5):
    """Events a second of each policy, the best of ``repeat`` replays, as a dict; slots for all ``live`` sessions."""
    schedule = synthetic_schedule(live, turns)
    capacities = schedule.capacities(capacity)
    return {
        name: max(simulate(schedule, POLICIES[name], capacities, slots=live).events_per_s for _ in range(repeat))
        for name in names
    }


def _plugin(libcachesim, capacity):
    """LRU as a plugin of Python functions."""
    return libcachesim.PluginCache(
        cache_size=capacity,
        cache_init_hook=lambda _: OrderedDict(),
        cache_hit_hook=lambda held, request: held.move_to_end(request.obj_id),
        cache_miss_hook=lambda held, request: held.__setitem__(request.obj_id, None),
        cache_eviction_hook=lambda held, request: held.popitem(last=False)[0],
        cache_remove_hook=lambda held, name: held.pop(name, None),
        cache_free_hook=lambda held: held.clear(),
        hashpower=16,
    )


def measure_peers(live, *, turns=400_000, repeat=5):
    """Requests a second of libCacheSim's LRU in C and of an LRU plugin in Python; None without its binding.

    The requests are those of ``measure``, sessions as objects of size 1.
    """
    try:
        import libcachesim
    except ModuleNotFoundError:
        return None
    moments = synthetic_schedule(live, turns).moments
    moments = moments[moments["arrives"] == 1]
    rows = np.zeros(len(moments), dtype=_ORACLE)
    following = next_requests(moments["session"])
    rows["time"], rows["object"], rows["size"] = moments["time_us"] // 1_000_000, moments["session"], 1
    rows["next"] = np.where(following == NEVER, np.iinfo(np.int64).max, following)
    capacity = max(int(live * _HELD), 1)
    caches = {
        "libcachesim lru in C": lambda: libcachesim.LRU(cache_size=capacity, hashpower=16),
        "libcachesim lru plugin in Python": lambda: _plugin(libcachesim, capacity),
    }
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.oracleGeneral"
        rows.tofile(path)
        for name, make in caches.items():
            rates[name] = 0.0
            for _ in range(repeat):
                cache = make()
                reader = libcachesim.TraceReader(str(path), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
                begin = time.process_time()
                cache.process_trace(reader)
                rates[name] = max(rates[name], len(rows) / (time.process_time() - begin))
    return rates


def agreement(*, requests=20_000, objects=2_000, held=200, seed=0):
    """Hits of each policy that libCacheSim has too, here and there, and at how many requests they differ."""
    rng = np.random.default_rng(seed)
    asked = rng.zipf(1.2, 8 * requests)
    asked = asked[asked < objects][:requests]
    # A scan of all objects now and then, which policies treat most differently.
    for begin in range(requests // 4, requests, requests // 2):
        asked[begin : begin + objects] = np.arange(objects)[: len(asked) - begin]
    rows = {}
    for name, (_, insert_first) in PEERS.items():
        here = flat_hits(POLICIES[name], asked, 1, held, insert_first=insert_first)
        there = peer_hits(name, asked, 1, held)
        rows[name] = {
            "hits": int(here.sum()),
            "hits of libcachesim": int(there.sum()),
            "requests that differ": int((here != there).sum()),
        }
    return rows


@numba.njit(types.int64(types.FunctionType(CHOICE), *CHOICE.args, types.int64))
def _decide(choose, slots, residencies, now, own, memory, shared, times):
    total = 0
    for _ in range(times):
        total += choose(slots, residencies, now, own, memory, shared)
    return total


def lrb_decision(*, slots=64, times=2_000, repeat=5, seed=0):
    """Microseconds of one decision of LRB among ``slots`` paused residents, as a dict.

    search_us: the whole victim search as the simulator runs it. lightgbm_us: LightGBM's own prediction of the same
    candidates alone, called from Python, as a server would. training_us: one model, every ``batch`` labels.
    replay_us: time of a replay beyond that of LRU, by decision, over capacities that leave fewer candidates.
    """
    policy, learner = lrb(), Learner()
    schedule = synthetic_schedule(slots, 20 * learner.batch, seed=seed)
    capacities = schedule.capacities("server")
    results = {
        which.name: min((simulate(schedule, which, capacities, slots=slots) for _ in range(repeat)), key=_seconds)
        for which in (POLICIES["lru"], policy)
    }
    beyond = results["lrb"].seconds - results["lru"].seconds

    shared = results["lrb"].shared
    rng = np.random.default_rng(seed)
    memory = np.zeros((slots, COLUMNS))
    memory[:, SEEN] = rng.integers(1, 60, slots)
    memory[:, LATEST] = shared[REQUESTS] - rng.integers(1, 500, slots)
    memory[:, SIZE] = rng.integers(1_000, 100_000, slots)
    memory[:, DISTANCE:] = rng.integers(1, 500, (slots, COLUMNS - DISTANCE))
    table = np.zeros(slots, dtype=SLOT)
    table["session"], table["residency"] = np.arange(slots), HBM
    arguments = (policy.victim, table, 1 << SRAM | 1 << HBM, NEVER, np.zeros((slots, 0)), memory, shared)
    _decide(*arguments, 1)

    window, base = int(shared[WINDOW]), shared[BASE]
    x = np.empty((slots, FEATURES))
    for row, known in zip(x, memory, strict=True):
        features(known, shared[REQUESTS], window, base, row)
    every, labels, ready = samples(schedule.moments, schedule.sessions, window, int(base), seed + 1)
    batch = ready[: learner.batch, 0]
    booster = grow(every[batch], labels[batch], learner, seed)

    def best(work, each):
        taken = []
        for _ in range(repeat):
            begin = time.process_time()
            work()
            taken.append((time.process_time() - begin) / each * 1e6)
        return min(taken)

    return {
        "candidates": slots,
        "search_us": best(lambda: _decide(*arguments, times), times),
        "lightgbm_us": best(lambda: [booster.predict(x, num_threads=1) for _ in range(100)], 100),
        "training_us": best(lambda: grow(every[batch], labels[batch], learner, seed), 1),
        "replay_us": beyond / results["lrb"].decisions * 1e6,
    }


def _seconds(result):
    return result.seconds


def _versions():
    tools = ("numpy", "numba", "llvmlite", "libcachesim", "lightgbm")
    versions = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    for name in tools:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def main(arguments=None):
    """Prints the tables and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    chosen = [name for name in _SHOWN if name in POLICIES]
    parser.add_argument("--policies", default=",".join(chosen), help="names, commas between")
    parser.add_argument("--live", default="64,1000,10000", help="live sessions, commas between")
    parser.add_argument("--turns", type=int, default=400_000, help="turns of each replay, about")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/bench/report.json"), help="the report")
    options = parser.parse_args(arguments)
    names = options.policies.split(",")
    unknown = [name for name in names if name not in POLICIES]
    if unknown:
        parser.error(f"no policy {', '.join(unknown)}; there are {', '.join(POLICIES)}")
    report = {"versions": _versions(), "turns": options.turns, "events_per_s": {}, "requests_per_s": {}}
    print(f"{'live':>8}" + "".join(f"{name:>16}" for name in names) + "   million events a second")
    for live in map(int, options.live.split(",")):
        rates = report["events_per_s"][live] = measure(names, live, turns=options.turns)
        print(f"{live:8,}" + "".join(f"{rates[name] / 1e6:16.2f}" for name in names))
        report["requests_per_s"][live] = measure_peers(live, turns=options.turns)
    for live, rates in report["requests_per_s"].items():
        for name, rate in (rates or {}).items():
            print(f"{live:8,}  {name}: {rate / 1e6:.2f} million requests a second")
    if importlib.util.find_spec("libcachesim"):
        report["agreement"] = agreement()
        for name, row in report["agreement"].items():
            print(f"{name:>16}  " + ", ".join(f"{what} {number:,}" for what, number in row.items()))
    else:
        print("libcachesim is not installed: pip install 'unison[libcachesim]'")
    if importlib.util.find_spec("lightgbm"):
        report["lrb_decision"] = lrb_decision()
        print("lrb: " + ", ".join(f"{name} {value:,.1f}" for name, value in report["lrb_decision"].items()))
    else:
        print("lightgbm is not installed: pip install 'unison[lab]'")
    report["load"] = os.getloadavg()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    print(options.output)


if __name__ == "__main__":
    main()
