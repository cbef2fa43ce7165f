"""LRB: gradient-boosted trees that predict when a session is requested next; LightGBM grows them, they run compiled."""

from dataclasses import dataclass
from functools import lru_cache, partial

import numba
import numpy as np

from unison.model.policies.base import ABSENT, ARRIVE, COMPLETE, PAUSE, VICTIM, Policy, event, is_candidate, victim
from unison.model.policies.queues import longest_absent

__all__ = ["Learner", "features", "grow", "lrb", "predict", "samples"]

#: Past distances between requests that are features, and decayed counters of requests.
DISTANCES, COUNTERS = 31, 10
#: Columns of a session's row in ``memory``: requests, number of the latest, tokens, then distances and counters.
SEEN, LATEST, SIZE, DISTANCE, COUNTER = 0, 1, 2, 3, 3 + DISTANCES
COLUMNS = COUNTER + COUNTERS
#: Features, in the order of the released code: age, past distances (latest first), tokens, how many of the distances
#: lie within the window, counters. What is not there is 0.
_TOKENS, _WITHIN, _COUNTER = 1 + DISTANCES, 2 + DISTANCES, 3 + DISTANCES
FEATURES = _COUNTER + COUNTERS
#: Places in ``shared``. MODEL: the model in use; MODELS: pairs of its first instant and of the place of its roots.
REQUESTS, WINDOW, BASE, CANDIDATES, THETA, RANDOM, MODEL, MODELS, TREES, SCRATCH, HEAD = range(11)
#: A node: feature (-1: a leaf), threshold or the leaf's value, places of the two nodes below (at most, above).
NODE = 4
_MODULUS = (1 << 31) - 1
_ROOT = 16807


@numba.njit(cache=True)
def _decay(distance, base, k):
    """2 to the minus distance over the counter's half life, in whole half lives."""
    return 0.5 ** (distance // (base * 2.0**k))


@numba.njit(cache=True)
def _request(row, number, base):
    """Notes a session's request, the ``number``-th of all, in its row."""
    distance = number - row[LATEST] if row[SEEN] else 0
    if distance:
        row[DISTANCE + int(row[SEEN] - 1) % DISTANCES] = distance
    for k in range(COUNTERS):
        row[COUNTER + k] = row[COUNTER + k] * _decay(distance, base, k) + 1
    row[SEEN] += 1
    row[LATEST] = number


@numba.njit(cache=True)
def features(row, number, window, base, x):
    """Fills ``x`` with the features of a session's row as request ``number`` begins."""
    x[:] = 0.0
    age = number - row[LATEST]
    x[0] = age
    known = int(row[SEEN]) - 1
    past = 0.0
    for k in range(min(known, DISTANCES)):
        distance = row[DISTANCE + (known - 1 - k) % DISTANCES]
        past += distance
        x[1 + k] = distance
        x[_WITHIN] += past < window
    x[_TOKENS] = row[SIZE]
    for k in range(COUNTERS):
        x[_COUNTER + k] = row[COUNTER + k] * _decay(age, base, k)


@numba.njit(cache=True)
def predict(shared, roots, trees, x):
    """The sum of so many trees whose roots are in ``shared`` from ``roots`` on."""
    total = 0.0
    for tree in range(trees):
        node = int(shared[roots + tree])
        while shared[node] >= 0:
            node = int(shared[node + 2 if x[int(shared[node])] <= shared[node + 1] else node + 3])
        total += shared[node + 1]
    return total


@numba.njit(cache=True)
def _label(sample, number, beyond, time, older, y, ready, known):
    """Labels a session's samples, from its newest on, as request ``number`` ends their wait; how many labels are known.

    ``beyond``, if not 0, is the distance to write instead of the true one.
    """
    while sample >= 0:
        y[sample] = np.log1p(beyond if beyond else number - (sample + 1.0))
        ready[known, 0], ready[known, 1] = sample, time
        known += 1
        sample = older[sample]
    return known


@numba.njit(cache=True)
def samples(moments, sessions, window, base, seed):
    """Features of one session a request, drawn among those requested within the window, and labels once they are known.

    Nothing here depends on what a cache holds.

    Returns
    -------
    x, y : float64[requests, FEATURES], float64[requests]
        y: log(1 + requests until the session's next one); log(1 + 2 window) for one that outlived the window.
    ready : int64[known, 2]
        Sample and instant (us) in the order in which labels become known.
    """
    requests = 0
    for n in range(len(moments)):
        requests += moments[n].arrives
    x, y = np.zeros((requests, FEATURES)), np.zeros(requests)
    ready = np.zeros((requests, 2), dtype=np.int64)
    older, newest = np.full(requests, -1), np.full(sessions, -1)
    rows = np.zeros((sessions, COLUMNS))
    tracked, place = np.zeros(sessions, dtype=np.int64), np.full(sessions, -1)
    requester = np.full(window, -1)
    live = number = known = 0
    for n in range(len(moments)):
        time, session = moments[n].time_us, moments[n].session
        if not moments[n].arrives:
            rows[session, SIZE] = moments[n].tokens
            continue
        number += 1
        gone = requester[number % window]
        if gone >= 0 and rows[gone, LATEST] == number - window:
            known = _label(newest[gone], number, 2.0 * window, time, older, y, ready, known)
            newest[gone] = -1
            live -= 1
            tracked[place[gone]], place[tracked[live]] = tracked[live], place[gone]
            place[gone] = -1
            rows[gone, :] = 0.0
        known = _label(newest[session], number, 0.0, time, older, y, ready, known)
        newest[session] = -1
        _request(rows[session], number, base)
        requester[number % window] = session
        if place[session] < 0:
            tracked[live], place[session] = session, live
            live += 1
        seed = seed * _ROOT % _MODULUS
        drawn = tracked[seed % live]
        features(rows[drawn], number, window, base, x[number - 1])
        older[number - 1], newest[drawn] = newest[drawn], number - 1
    return x, y, ready[:known]


@dataclass(frozen=True, kw_only=True)
class Learner:
    """What LightGBM is told; as the released code unless a trace is too short for it.

    Attributes
    ----------
    batch : int
        Samples of a model; each model knows its own batch alone. 131,072 in the released code.
    trees, leaves : int
    rate : float
    """

    batch: int = 512
    trees: int = 32
    leaves: int = 32
    rate: float = 0.1

    def __post_init__(self):
        for name in ("batch", "trees", "leaves"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 2:
                raise ValueError(f"{name} must be an integer of at least 2, not {value!r}")
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate must be in (0, 1], not {self.rate!r}")


def grow(x, y, learner, seed):
    """A LightGBM booster of one batch.

    Raises
    ------
    ModuleNotFoundError
        Without LightGBM.
    """
    try:
        import lightgbm
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("policy lrb learns with LightGBM: pip install 'unison[lab]'") from error
    settings = {
        "objective": "regression",
        "num_leaves": learner.leaves,
        "learning_rate": learner.rate,
        "feature_fraction": 0.8,
        "bagging_freq": 5,
        "bagging_fraction": 0.8,
        "force_row_wise": True,
        "deterministic": True,
        "num_threads": 1,
        "seed": seed,
        "verbosity": -1,
    }
    return lightgbm.train(settings, lightgbm.Dataset(x, y), num_boost_round=learner.trees)


def _flatten(node, nodes, at):
    """Appends a tree to ``nodes``, of which the first is at ``at`` in ``shared``; the place of its root."""
    here = len(nodes)
    nodes.append(None)
    if "leaf_value" in node:
        nodes[here] = (-1.0, node["leaf_value"], 0.0, 0.0)
    else:
        below = [_flatten(node[side], nodes, at) for side in ("left_child", "right_child")]
        nodes[here] = (node["split_feature"], node["threshold"], *below)
    return at + here * NODE


def _seed(seed):
    return seed % (_MODULUS - 1) + 1


@lru_cache(maxsize=4)
def _models(schedule, learner, window, base, seed):
    """Instants from which a model may be used, and the models."""
    x, y, ready = samples(schedule.moments, schedule.sessions, window, base, _seed(seed))
    made = []
    for end in range(learner.batch, len(ready) + 1, learner.batch):
        rows = ready[end - learner.batch : end, 0]
        made.append((ready[end - 1, 1], grow(x[rows], y[rows], learner, seed).dump_model()["tree_info"]))
    return made


def _shared(setting, learner, window, base, candidates, theta):
    made = _models(setting.schedule, learner, window, base, setting.seed)
    trees = max((len(model) for _, model in made), default=0)
    models = HEAD
    scratch = models + 2 * len(made)
    parts, at = [], scratch + setting.slots
    index = []
    for since, model in made:
        index += [since, at]
        # Boosting may end early; an empty tree fills the place of one that was not grown.
        model = [tree["tree_structure"] for tree in model] + [{"leaf_value": 0.0}] * (trees - len(model))
        nodes = []
        roots = [_flatten(tree, nodes, at + trees) for tree in model]
        parts += [roots, np.array(nodes, dtype=np.float64).ravel()]
        at += trees + len(nodes) * NODE
    shared = np.concatenate([np.zeros(HEAD), index, np.zeros(setting.slots), *parts])
    shared[[WINDOW, BASE, CANDIDATES, THETA]] = window, base, candidates, theta
    shared[[RANDOM, MODEL, MODELS, TREES, SCRATCH]] = _seed(setting.seed), -1, len(made), trees, scratch
    return shared


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    row = memory[slots[i].session]
    if kind == ARRIVE:
        shared[REQUESTS] += 1
        if value == ABSENT and shared[REQUESTS] - row[LATEST] >= shared[WINDOW]:
            row[:] = 0.0
        _request(row, shared[REQUESTS], shared[BASE])
    elif kind in (PAUSE, COMPLETE):
        row[SIZE] = slots[i].tokens
    return 0


@victim
def _choose(slots, residencies, now, own, memory, shared):
    if residencies == 1 << ABSENT:
        return longest_absent(slots)
    scratch = int(shared[SCRATCH])
    count, oldest = 0, -1
    for i in range(len(slots)):
        if is_candidate(slots, i, residencies):
            shared[scratch + count] = i
            count += 1
            if oldest < 0 or memory[slots[i].session, LATEST] < memory[slots[oldest].session, LATEST]:
                oldest = i
    model = int(shared[MODEL])
    while model + 1 < shared[MODELS] and shared[HEAD + 2 * (model + 1)] < now:
        model += 1
    shared[MODEL] = model
    if model < 0 or shared[REQUESTS] - memory[slots[oldest].session, LATEST] >= shared[WINDOW]:
        return oldest
    roots = int(shared[HEAD + 2 * model + 1])
    x = np.empty(FEATURES)
    best, best_score = -1, -np.inf
    drawn = min(count, int(shared[CANDIDATES]))
    for n in range(drawn):
        if drawn < count:
            shared[RANDOM] = shared[RANDOM] * _ROOT % _MODULUS
            other = n + int(shared[RANDOM]) % (count - n)
            shared[scratch + n], shared[scratch + other] = shared[scratch + other], shared[scratch + n]
        i = int(shared[scratch + n])
        row = memory[slots[i].session]
        features(row, shared[REQUESTS], shared[WINDOW], shared[BASE], x)
        distance = predict(shared, roots, int(shared[TREES]), x) * row[SIZE] ** shared[THETA]
        if distance > best_score or (distance == best_score and i < best):
            best, best_score = i, distance
    return best


def lrb(name="lrb", *, window=4096, base=4, candidates=64, theta=0.0, learner=Learner()):
    """Learning relaxed Belady.

    Parameters
    ----------
    name : str
    window : int
        Requests after which a session counts as gone; 67,108,864 in the released code, whose traces are as much longer.
    base : int
        Half life of the fastest of the ten counters, requests, each next one twice as slow; 1024 in the released code.
    candidates : int
        Sessions drawn for a decision.
    theta : float
        The predicted log distance is multiplied by tokens ** theta: 0 for a byte, 1 for an object miss ratio.
    learner : Learner

    Raises
    ------
    ValueError
        Unless ``window``, ``base`` and ``candidates`` are positive integers and ``theta`` is not negative.
    """
    for what, value in (("window", window), ("base", base), ("candidates", candidates)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{what} must be a positive integer, not {value!r}")
    if not theta >= 0:
        raise ValueError(f"theta must not be negative, not {theta!r}")
    return Policy(
        name=name,
        summary=f"The longest predicted time to the next request of {candidates} candidates; first who is idle for "
        f"{window:,} requests; LRU until {learner.batch:,} labels are known, then a new model of {learner.trees} trees "
        "each time as many are. Song et al., NSDI 2020; as the released code, window and batch scaled to our traces.",
        event=_learn,
        victim=_choose,
        mode=VICTIM,
        memory=COLUMNS,
        # Models are grown before the replay, each from the labels that were known by the instant of its first use.
        prepare=partial(_shared, learner=learner, window=window, base=base, candidates=candidates, theta=theta),
        theta=theta,
    )
