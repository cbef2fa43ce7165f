"""LHD: least hit density, hits to be expected for each token and request that a session would stay."""

from functools import partial

import numba
import numpy as np

from unison.model.policies.base import (
    ARRIVE,
    COMPLETE,
    COMPLETED,
    EVICT,
    PAUSE,
    SCAN,
    SRAM,
    Policy,
    event,
    score,
)

__all__ = ["lhd"]

#: Columns of ``own``: request count at the latest request, the ages at which it and the one before hit, class,
#: explorer.
LATEST, AGE_1, AGE_2, CLASS, EXPLORER = range(5)
#: Places in ``shared`` before the tables. REQUESTS: the clock; DUE: requests until the next update; BUDGET: tokens that
#: explorers may still take.
REQUESTS, DUE, PERIOD, SHIFT, AGES, CLASSES, BUDGET, RANDOM, THETA, HINTED, TABLES = range(11)
#: Classes by the sum of the latest two hit ages, as many each for the tool of the wait when that is a hint.
HIT_CLASSES, TOOL_CLASSES = 16, 16
_DECAY = 0.9
#: Relative error of an age that the width of a bin may cause, at one bin a resident.
_TOLERANCE = 0.01
#: One session in so many explores: it stays, to show what the others would have done.
_EXPLORE = 32
_MODULUS = (1 << 31) - 1
_ROOT = 16807


@numba.njit(cache=True)
def _age(latest, shared):
    return min((int(shared[REQUESTS]) - int(latest)) >> int(shared[SHIFT]), int(shared[AGES]) - 1)


@numba.njit(cache=True)
def _hit_class(age, ages):
    """Something like the logarithm of ``ages / age``."""
    if age == 0:
        return HIT_CLASSES - 1
    steps = 0
    while age < ages and steps < HIT_CLASSES - 1:
        age <<= 1
        steps += 1
    return steps


@numba.njit(cache=True)
def _table(shared, kind):
    """Hits, evictions or densities (0, 1, 2) by class and age."""
    classes, ages = int(shared[CLASSES]), int(shared[AGES])
    size = classes * ages
    return shared[TABLES + kind * size : TABLES + (kind + 1) * size].reshape(classes, ages)


@numba.njit(cache=True)
def _update(shared):
    """Densities anew from the decayed counts: hits at this age or later over the requests spent until then."""
    hits, evictions, densities = _table(shared, 0), _table(shared, 1), _table(shared, 2)
    for row in range(len(hits)):
        for age in range(hits.shape[1]):
            hits[row, age] *= _DECAY
            evictions[row, age] *= _DECAY
        oldest = hits.shape[1] - 1
        hit = hits[row, oldest]
        ended = lifetime = hit + evictions[row, oldest]
        for age in range(oldest - 1, -1, -1):
            hit += hits[row, age]
            ended += hits[row, age] + evictions[row, age]
            lifetime += ended
            densities[row, age] = hit / lifetime if ended > 1e-5 else 0.0


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    if kind == ARRIVE:
        if value >= SRAM:
            age = _age(own[i, LATEST], shared)
            _table(shared, 0)[int(own[i, CLASS]), age] += 1
            own[i, AGE_2], own[i, AGE_1] = own[i, AGE_1], age
        else:
            own[i, AGE_2], own[i, AGE_1] = shared[AGES], 0
        if own[i, EXPLORER]:
            shared[BUDGET] += own[i, EXPLORER]
            own[i, EXPLORER] = 0
        own[i, LATEST] = shared[REQUESTS]
        shared[REQUESTS] += 1
        shared[DUE] -= 1
        if shared[DUE] == 0:
            shared[DUE] = shared[PERIOD]
            _update(shared)
    elif kind in (PAUSE, COMPLETE):
        tool = slots[i].tool + 1
        group = (tool - 1) % (TOOL_CLASSES - 1) + 1 if shared[HINTED] and tool else 0
        own[i, CLASS] = group * HIT_CLASSES + _hit_class(int(own[i, AGE_1] + own[i, AGE_2]), int(shared[AGES]))
        shared[RANDOM] = shared[RANDOM] * _ROOT % _MODULUS
        if slots[i].held and shared[BUDGET] > 0 and shared[RANDOM] % _EXPLORE == 0:
            own[i, EXPLORER] = slots[i].held
            shared[BUDGET] -= slots[i].held
    elif kind == EVICT:
        shared[BUDGET] += own[i, EXPLORER]
        own[i, EXPLORER] = 0
        if not (slots[i].completed and shared[HINTED]):
            _table(shared, 1)[int(own[i, CLASS]), _age(own[i, LATEST], shared)] += 1
    return 0


@score
def _sparse(slots, i, now, own, memory, shared):
    if slots[i].completed and shared[HINTED]:
        return COMPLETED
    age = _age(own[i, LATEST], shared)
    if age == int(shared[AGES]) - 1:
        return 1.0
    density = _table(shared, 2)[int(own[i, CLASS]), age] / max(slots[i].tokens, 1) ** shared[THETA]
    # As published: one hit a token and request is more than any session brings.
    return -density - (1.0 if own[i, EXPLORER] else 0.0)


def _tables(setting, hints, theta, period, ages, explorers):
    classes = HIT_CLASSES * (TOOL_CLASSES if hints else 1)
    coarse = setting.slots / (_TOLERANCE * ages)
    shared = np.zeros(TABLES + 3 * classes * ages)
    shared[[DUE, PERIOD, AGES, CLASSES, THETA, HINTED]] = period, period, ages, classes, theta, hints
    shared[SHIFT] = max(0, int(np.ceil(np.log2(coarse))))
    shared[BUDGET] = explorers * sum(setting.capacities)
    shared[RANDOM] = setting.seed % (_MODULUS - 1) + 1
    rows, columns = np.indices((classes, ages))
    shared[TABLES + 2 * classes * ages :] = ((rows + 1) / (columns + 1)).ravel()
    return shared


def lhd(name="lhd", *, hints=False, theta=1.0, period=256, ages=2000, explorers=0.01):
    """Least hit density.

    Parameters
    ----------
    name : str
    hints : bool
        Completed sessions leave first and do not count; the tool of the wait is the class of the application.
    theta : float
        Densities are divided by tokens ** theta; 1 as published, 0 for hits that are worth their tokens.
    period : int
        Requests between two updates of the densities. The released code waits for 2**20, more than a trace here has.
    ages : int
        Bins of age; 20,000 in the released code. A bin is a power of two of requests, at least so wide that as many
        requests as there are slots span no more than 1 % of the bins.
    explorers : float
        Share of the capacity that sessions take which are not evicted, one in 32 of them, so as to see later hits.

    Raises
    ------
    ValueError
        Unless ``theta`` and ``explorers`` are not negative, ``period`` and ``ages`` integers of at least 2.
    """
    for what, value in (("theta", theta), ("explorers", explorers)):
        if not value >= 0:
            raise ValueError(f"{what} must not be negative, not {value!r}")
    for what, value in (("period", period), ("ages", ages)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 2:
            raise ValueError(f"{what} must be an integer of at least 2, not {value!r}")
    return Policy(
        name=name,
        summary="The lowest hit density: hits at its age or later over tokens"
        + (f" ** {theta:g}" if theta != 1 else "")
        + f" and requests until then, learned by the ages of its last two hits{' and by tool' if hints else ''}, "
        f"every {period} requests; all candidates are ranked, where the released code samples 32. "
        + ("Completed first. " if hints else "")
        + "Beckmann et al., NSDI 2018.",
        score=_sparse,
        event=_learn,
        mode=SCAN,
        needs={"completion", "tool"} if hints else (),
        own=5,
        prepare=partial(_tables, hints=hints, theta=theta, period=period, ages=ages, explorers=explorers),
        theta=theta,
    )
