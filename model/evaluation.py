"""The evaluation: replays of traces x envelopes x policies, on processes or a Dask cluster, and what they compare to.

Each replay is kept on disk under a hash of all that it depends on, so that a second run computes only what is missing.
"""

import hashlib
import inspect
import json
import signal
import tomllib
from concurrent.futures import ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unison.model.accounting import FALSE_EVICTION_S, TTFT_UNIT_US, Costs
from unison.model.files import check_keys, write_lines
from unison.model.generate import generate, read_family
from unison.model.load import Load
from unison.model.policies import POLICIES
from unison.model.progress import Progress
from unison.model.provenance import fingerprint, modules_digest, versions
from unison.model.schedule import Schedule, cached_schedule
from unison.model.simulator import simulate
from unison.model.trace import read_trace, real_traces

__all__ = [
    "GRID",
    "KEYS",
    "Grid",
    "Outcome",
    "References",
    "Setup",
    "WorkerDied",
    "Workers",
    "cluster_workers",
    "document",
    "evaluate",
    "grid_setups",
    "grid_traces",
    "known",
    "local_workers",
    "read_grid",
    "replay",
    "resampled_sums",
    "sizes",
    "write_results",
]

GRID = Path(__file__).with_name("grid.toml")
#: The keys of a cell of results.json; others follow them.
KEYS = (
    "trace", "envelope", "completion", "load", "seed", "policy", "theta", "training", "degraded", "hr", "hr_sram",
    "hr_hbm", "bypass", "amat", "amat_no_delta", "amat_vs_lru", "amat_vs_lru_ci", "prefill_reduction", "br",
    "attainment", "attainment_floor", "amat_vs_floor", "prefetch_accuracy", "ttft_p50", "evicted_tokens",
    "false_evictions", "events_per_s",
)  # fmt: skip
_COST = 2
#: Numbers in the largest table of draws that is made at once.
_DRAWS = 1 << 21
ASSUMPTIONS = (
    "Sessions start in a closed loop (a trace without completions: as recorded); gaps as recorded, services scaled.",
    "A hit finds its session in a tier with all its tokens. AMAT is the mean cost of a request with the prefill of its "
    "new tokens, equation (27); new tokens that a trace does not tell are the whole prompt.",
    f"ttft_p50, s: read and prefill at {TTFT_UNIT_US} us a unit of cost, no waiting for a server.",
    f"A false eviction: the session is back within {FALSE_EVICTION_S:g} s.",
    "br is over belady, farthest next arrival, which is no bound where sizes differ or busy sessions fill the memory. "
    "attainment is over lru, attainment_floor over the floor, both up to the oracle of the lowest AMAT (key oracle); "
    "null where it is no better than what it is compared with. Where it is hardly better an attainment is noise: "
    "nothing_to_win says so for the floor, nothing_to_win_vs_lru for lru.",
    "The floor is LRU that evicts completed sessions first with explicit completion, LRU with silent. amat_vs_floor is "
    "null where the floor's AMAT equals the oracle's.",
    "Intervals: paired bootstrap over sessions, their costs as in the one replay: how sessions would have shared the "
    "memory in another mix is not in them.",
    "events_per_s: the loop alone, on whatever else the machine did.",
    "Policies that need hints that a trace lacks are marked degraded.",
)


class WorkerDied(RuntimeError):
    """A worker process ended in the middle of its work; what was finished is kept."""


class References(NamedTuple):
    """Names of the policies that all are compared with; ``floor`` by completion."""

    lru: str
    floor: dict
    belady: str
    oracles: tuple
    nothing_to_win: float

    def names(self, completion):
        """All of them for loads of a completion."""
        return tuple(dict.fromkeys((self.lru, self.floor[completion], self.belady, *self.oracles)))


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A grid file, as its comments say; ``content`` is all of it.

    Attributes
    ----------
    policies, completions : tuple of str
    slots : int
    traces : dict
        By name: family, arrivals and, for a closed loop, concurrency.
    scale : Fraction
    seed : int
    costs : Costs
    rate : Fraction
        DMA tokens a microsecond.
    envelopes : dict
        By name: (f, share of SRAM), Fractions.
    references : References
    samples, bootstrap_seed, level
        Of the bootstrap.
    sensitivity : dict
    """

    policies: tuple
    completions: tuple
    slots: int
    traces: dict
    scale: Fraction
    seed: int
    costs: Costs
    rate: Fraction
    envelopes: dict
    references: References
    samples: int
    bootstrap_seed: int
    level: float
    sensitivity: dict
    content: dict = field(repr=False)

    def load(self, name, **changes):
        """The Load of the trace ``name``, with some of it changed."""
        placed = {key: value for key, value in self.traces[name].items() if key != "family"}
        return Load(**{"scale": self.scale, "seed": self.seed, **placed, **changes})


def known(names, table, what):
    """The names as a tuple, each once.

    Raises
    ------
    ValueError
        For one that is not in ``table``; the text lists those that are.
    """
    for name in names:
        if name not in table:
            raise ValueError(f"no {what} {name!r}: {', '.join(table)}")
    return tuple(dict.fromkeys(names))


def read_grid(path=GRID):
    """The Grid in a TOML file.

    Raises
    ------
    ValueError
        For a file that is not TOML, lacks a key or names an unknown policy.
    """
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file, parse_float=Fraction)
        check_keys(content, tomllib.loads(GRID.read_text()))
        references = content["references"]
        grid = Grid(
            policies=tuple(POLICIES)
            if content["policies"] == "all"
            else known(content["policies"], POLICIES, "policy"),
            completions=tuple(content["completions"]),
            slots=content["slots"],
            traces=content["traces"],
            scale=Fraction(content["load"]["scale"]),
            seed=content["load"]["seed"],
            costs=Costs(**{name: float(cost) for name, cost in content["costs"].items()}),
            rate=Fraction(content["dma"]["tokens_per_us"]),
            envelopes={name: (each["paused"], each["sram"]) for name, each in content["envelopes"].items()},
            references=References(
                references["lru"],
                references["floor"],
                references["belady"],
                tuple(references["oracles"]),
                float(references["nothing_to_win"]),
            ),
            samples=content["bootstrap"]["samples"],
            bootstrap_seed=content["bootstrap"]["seed"],
            level=float(content["bootstrap"]["level"]),
            sensitivity=content["sensitivity"],
            content=content,
        )
        for completion in grid.completions:
            known(grid.references.names(completion), POLICIES, "policy")
    except KeyError as error:
        raise ValueError(f"{path}: {error} is missing") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None
    return grid


def grid_traces(grid, names=None):
    """The traces of a grid, or those named, as a dict name -> (Trace, where it is from).

    They are the real traces at hand; if there is none at all, what their families draw.

    Raises
    ------
    ValueError
        For a name that the grid lacks, or if only some of the real traces are at hand.
    """
    names = known(grid.traces if names is None else names, grid.traces, "trace")
    paths = real_traces()
    missing = [name for name in names if name not in paths]
    if missing and len(missing) < len(names):
        raise ValueError(f"no real trace {', '.join(missing)} beside the others: name those wanted, or complete them")
    if not missing:
        return {name: (read_trace(paths[name]), "the real trace") for name in names}
    drawn = {}
    for name in names:
        family = read_family(grid.traces[name]["family"])
        drawn[name] = generate(family, seed=grid.seed), f"drawn from the family {family['name']}, not the real trace"
    return drawn


@dataclass(frozen=True, eq=False)
class Setup:
    """What a set of replays has in common: all but policy and envelope.

    Attributes
    ----------
    schedule : Schedule
    label : str
        Names load and parameters; equal for all traces of one variant, whatever the seed.
    costs : Costs
    rate : Fraction
        DMA tokens a microsecond; 0 is unlimited.
    slots : int
    """

    schedule: Schedule
    label: str
    costs: Costs
    rate: Fraction
    slots: int

    def digest(self):
        """A hash of all of it."""
        schedule = self.schedule
        digest = hashlib.sha256(schedule.moments.tobytes())
        digest.update(schedule.lengths.tobytes())
        facts = [asdict(schedule.load), schedule.name, schedule.tools, schedule.roles, schedule.footprints]
        facts += [schedule.mean_gap_us, schedule.new_tokens_known, self.label, self.costs, self.rate, self.slots]
        digest.update(json.dumps(facts, default=str).encode())
        return digest.hexdigest()


def _variants(grid, sensitivity):
    """Yields label, changes of the Load and costs and DMA rate of the main rows and, if asked for, the others."""
    scale, base = f"service x {grid.scale}", (grid.costs, grid.rate)
    yield scale, {}, *base
    if not sensitivity:
        return
    for seed in grid.sensitivity["seeds"]:
        yield scale, {"seed": seed}, *base
    for other in map(Fraction, grid.sensitivity["scales"]):
        yield f"service x {other}", {"scale": other}, *base
    for factor in map(Fraction, grid.sensitivity["factors"]):
        for name, symbol in (("sram", "t_s"), ("hbm", "t_h"), ("prefill", "t_p")):
            costs = grid.costs._replace(**{name: float(getattr(grid.costs, name) * factor)})
            yield f"{scale}, {symbol} x {factor}", {}, costs, grid.rate
        yield f"{scale}, B x {factor}", {}, grid.costs, grid.rate * factor


def grid_setups(grid, traces, folder, *, sensitivity=False):
    """The Setups of a grid for ``traces``, a dict name -> Trace; schedules are kept in ``folder``."""
    # Schedules are stored under the content of trace and load; this adds the code that makes them.
    folder = Path(folder) / modules_digest("unison.model.schedule")[:16]
    setups = []
    for label, changes, costs, rate in _variants(grid, sensitivity):
        for name, trace in traces.items():
            for completion in grid.completions:
                schedule = cached_schedule(trace, grid.load(name, completion=completion, **changes), folder)
                setups.append(Setup(schedule, label, costs, rate, grid.slots))
    return setups


def sizes(setup, envelopes):
    """SRAM and HBM tokens by name; ``envelopes`` as ``Grid.envelopes``, or a name with ``"SRAM:HBM"``."""
    return {name: setup.schedule.capacities(envelope) for name, envelope in envelopes.items()}


def replay(setup, name, capacities):
    """Replays a Setup under the policy ``name`` in some capacities, SRAM and HBM tokens by name of the envelope.

    Returns
    -------
    dict
        By envelope: the cell and the cost of each session, float64[sessions].
    """
    load = setup.schedule.load
    done = {}
    for envelope, (sram, hbm) in capacities.items():
        result = simulate(
            setup.schedule,
            POLICIES[name],
            (sram, hbm),
            slots=setup.slots,
            costs=setup.costs,
            numerator=setup.rate.numerator if setup.rate else 1,
            denominator=setup.rate.denominator if setup.rate else 0,
            seed=load.seed,
        )
        cell = {"envelope": envelope, "load": setup.label, "seed": load.seed, **result.cell()}
        cell |= {"sram_tokens": sram, "hbm_tokens": hbm, "evictions": result.evictions, "decisions": result.decisions}
        done[envelope] = cell, result.session_sums()[:, _COST]
    return done


class Workers(NamedTuple):
    """Who replays: ``submit`` as that of an Executor; ``share`` makes a Setup cheap to submit many times."""

    submit: object
    share: object


def _code():
    """The digest of all of the lab; a function of this module, so that a worker loads it all to answer."""
    return modules_digest(__name__)


@contextmanager
def local_workers(number):
    """Workers that are ``number`` processes of this machine; None, for this very process, if it is 1.

    Raises
    ------
    ValueError
        Unless it is positive.
    """
    if number < 1:
        raise ValueError(f"workers must be a positive number, not {number!r}")
    if number == 1:
        yield None
        return
    # A library's learner may have threads, which a fork does not survive.
    with ProcessPoolExecutor(number, get_context("spawn")) as pool:

        def submit(*call):
            # Ctrl-C is the parent's to handle: a process that this starts inherits the mask.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            try:
                return pool.submit(*call)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)

        yield Workers(submit, lambda setup: setup)


@contextmanager
def cluster_workers(address):
    """Workers of the Dask cluster whose scheduler has an address like ``tcp://host:8786``.

    Raises
    ------
    ValueError
        If none answers there, it has no workers, or one of them has other source code than this process.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ValueError("a Dask cluster needs the package distributed: pip install 'unison[lab]'") from None
    try:
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address!r}: {error}") from None
    with client:
        digests = client.run(_code)
        if not digests:
            raise ValueError(f"the Dask scheduler at {address!r} has no workers")
        for worker, digest in digests.items():
            if digest != _code():
                raise ValueError(f"the Dask worker {worker} has another version of unison than this process")
        executor = client.get_executor(pure=False)
        yield Workers(executor.submit, lambda setup: client.scatter(setup, hash=False))


def _run(jobs, workers, keep):
    """Calls ``keep(job, result)`` for each of the jobs, (setup, policy's name, capacities), in any order.

    After an error or an interrupt what was begun ends, and is kept too.
    """
    if workers is None:
        for job in jobs:
            keep(job, replay(*job))
        return
    shared = {}
    futures = {}
    try:
        for job in jobs:
            setup, *arguments = job
            if setup not in shared:
                shared[setup] = workers.share(setup)
            futures[workers.submit(replay, shared[setup], *arguments)] = job
        for future in as_completed(list(futures)):
            keep(futures[future], future.result())
            del futures[future]
    except BrokenProcessPool:
        raise WorkerDied("a worker process died, perhaps for want of memory; finished cells are kept") from None
    finally:
        begun = [future for future in futures if not future.cancel()]
        wait(begun)
        for future in begun:
            if future.exception() is None:
                keep(futures[future], future.result())


def resampled_sums(costs, samples, seed):
    """Sums over sessions: of ``costs``, float64[sessions, columns], and of as many sessions drawn with replacement.

    Returns
    -------
    float64[1 + samples, columns]
        Row 0 is the sum of the costs as they are; the draws of a row are the same for all columns.
    """
    sessions = len(costs)
    rng = np.random.default_rng(seed)
    rows = max(1, _DRAWS // sessions)
    sums = [costs.sum(axis=0, keepdims=True)]
    for first in range(0, samples, rows):
        count = min(rows, samples - first)
        drawn = rng.integers(sessions, size=(count, sessions)) + sessions * np.arange(count)[:, None]
        times = np.bincount(drawn.ravel(), minlength=count * sessions).reshape(count, sessions)
        sums.append(times @ costs)
    return np.concatenate(sums)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The cells of a Setup.

    Attributes
    ----------
    setup : Setup
    policies, envelopes : tuple of str
    cells : list of dict
        Envelope by envelope, in the order of ``policies``.
    sums : numpy.ndarray of float64[1 + samples, envelopes, policies]
        As ``resampled_sums`` of the sessions' costs.
    """

    setup: Setup
    policies: tuple
    envelopes: tuple
    cells: list
    sums: np.ndarray = field(repr=False)


def _interval(ratios, level):
    """Lower and upper ends by column of float64[samples, columns]."""
    return np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2], axis=0)


def _share(part, whole):
    return part / whole if whole > 0 else None


def _compare(cells, sums, policies, references, level):
    """Completes the cells of an envelope, by policy; ``sums`` is float64[1 + samples, policies]."""
    by_name = dict(zip(policies, cells, strict=True))
    floor = references.floor[cells[0]["completion"]]
    oracle = min(references.oracles, key=lambda name: by_name[name]["amat"])
    amat = {name: by_name[name]["amat"] for name in (references.lru, floor, oracle)}
    intervals = [
        _interval(sums[1:] / sums[1:, [policies.index(name)]], level).T.tolist() for name in (references.lru, floor)
    ]
    for cell, against_lru, against_floor in zip(cells, *intervals, strict=True):
        equal = amat[floor] == amat[oracle]
        more = {
            "amat_vs_lru": cell["amat"] / amat[references.lru],
            "amat_vs_lru_ci": against_lru,
            "br": _share(cell["hr"], by_name[references.belady]["hr"]),
            "attainment": _share(amat[references.lru] - cell["amat"], amat[references.lru] - amat[oracle]),
            "attainment_floor": _share(amat[floor] - cell["amat"], amat[floor] - amat[oracle]),
            "amat_vs_floor": None if equal else cell["amat"] / amat[floor],
            "amat_vs_floor_ci": None if equal else against_floor,
            "floor": floor,
            "oracle": oracle,
            "nothing_to_win": amat[oracle] > references.nothing_to_win * amat[floor],
            "nothing_to_win_vs_lru": amat[oracle] > references.nothing_to_win * amat[references.lru],
        }
        both = cell | more
        yield {key: both[key] for key in (*KEYS, *(key for key in both if key not in KEYS))}


def evaluate(setups, policies, envelopes, grid, store, workers=None, *, label="eval"):
    """Replays what the store lacks, and compares all with the references of the grid.

    Parameters
    ----------
    setups : list of Setup
    policies : tuple of str
        The references are added.
    envelopes : dict
        As ``sizes`` takes them.
    grid : Grid
        Its references and bootstrap.
    store : Store
    workers : Workers, optional
        Default: this process.
    label : str
        Of the progress that is shown.

    Returns
    -------
    outcomes : list of Outcome
        One for each setup.
    counts : dict
        Cells ``computed`` and ``found`` in the store.
    """
    tools = versions()
    base = [inspect.getsource(replay), modules_digest(simulate.__module__), tools["numba"], tools["lightgbm"]]
    prints = {}
    plans, jobs, keys_of, total = [], [], {}, 0
    for setup in setups:
        capacities = sizes(setup, envelopes)
        names = tuple(dict.fromkeys((*policies, *grid.references.names(setup.schedule.load.completion))))
        digest = setup.digest()
        keys = {}
        for name in names:
            if name not in prints:
                prints[name] = fingerprint(POLICIES[name])
            for envelope, capacity in capacities.items():
                key = json.dumps([base, prints[name], digest, envelope, capacity])
                keys[name, envelope] = hashlib.sha256(key.encode()).hexdigest()
            missing = {envelope: size for envelope, size in capacities.items() if keys[name, envelope] not in store}
            if missing:
                jobs.append((setup, name, missing))
                total += len(missing)
        keys_of[setup] = keys
        plans.append((setup, names, keys))

    def keep(job, result):
        setup, name, _ = job
        store.keep({keys_of[setup][name, envelope]: value for envelope, value in result.items()})
        progress.advance(len(result))

    if jobs:
        with Progress(label, total, unit="cells") as progress:
            _run(jobs, workers, keep)
    outcomes = [_outcome(store, *plan, tuple(envelopes), grid) for plan in plans]
    return outcomes, {"computed": total, "found": sum(len(keys) for _, _, keys in plans) - total}


def _outcome(store, setup, names, keys, envelopes, grid):
    kept = {place: store[key] for place, key in keys.items()}
    columns = [kept[name, envelope][1] for envelope in envelopes for name in names]
    sums = resampled_sums(np.stack(columns, axis=1), grid.samples, grid.bootstrap_seed)
    sums = sums.reshape(len(sums), len(envelopes), len(names))
    cells = []
    for place, envelope in enumerate(envelopes):
        row = [kept[name, envelope][0] for name in names]
        cells += _compare(row, sums[:, place], names, grid.references, grid.level)
    return Outcome(setup, names, envelopes, cells, sums)


def _trace_facts(outcome, source):
    schedule = outcome.setup.schedule
    return {
        "from": source,
        "sessions": schedule.sessions,
        "turns": int(schedule.lengths.sum()),
        "tools": schedule.tools,
        "roles": schedule.roles,
        "new_tokens_known": schedule.new_tokens_known,
        "concurrency": schedule.load.concurrency if schedule.load.arrivals == "closed" else None,
        "arrivals": schedule.load.arrivals,
        "busy_tokens": float(schedule.footprints.busy),
        "paused_tokens": float(schedule.footprints.paused),
    }


def document(outcomes, grid, sources, **more):
    """The content of results.json: ``meta`` and ``cells``.

    ``sources`` says by trace where it is from; ``more`` is added to ``meta``.
    """
    cells = [cell for outcome in outcomes for cell in outcome.cells]
    names = dict.fromkeys(name for outcome in outcomes for name in outcome.policies)
    meta = {
        "tools": versions(),
        "code": _code(),
        "grid": json.loads(json.dumps(grid.content, default=float)),
        "assumptions": ASSUMPTIONS,
        "traces": {
            outcome.setup.schedule.name: _trace_facts(outcome, sources[outcome.setup.schedule.name])
            for outcome in outcomes
        },
        "policies": {
            name: {
                "summary": POLICIES[name].summary,
                "causal": POLICIES[name].causal,
                "needs": sorted(POLICIES[name].needs),
            }
            for name in names
        },
        **more,
    }
    return {"meta": meta, "cells": cells}


def write_results(path, content):
    """Writes a document as JSON, a cell a line; the file appears, or changes, only when all is written."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    *lines, last = (json.dumps(cell, allow_nan=False) for cell in content["cells"])
    meta = json.dumps(content["meta"], allow_nan=False)
    write_lines(path, [f'{{"meta": {meta},', '"cells": [', *(f"{line}," for line in lines), last, "]}"])
