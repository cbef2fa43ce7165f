"""CacheScout: who is kept is learned from how agent roles follow one another (arXiv 2605.27744, 2608.14624)."""

import math
from functools import partial

import numba
import numpy as np

from unison.model.policies.base import ARRIVE, COMPLETE, COMPLETED, PAUSE, SCAN, Policy, event, score
from unison.model.policies.learned import ROLE_MEMORY, ended_role, learn_role, role_chances, role_table

__all__ = ["cachescout"]

#: ``own``: the chance of reuse, the scheduler step of the pause.
_CHANCE, _STEP, _OWN = range(3)
#: ``shared``: steps so far, smallest chance, chance that makes an edge, longest path, decay a step, floor, the counts.
_STEPS, _LEAST, _EDGE, _HOPS, _DECAY, _FLOOR, _ROLES = range(7)


@numba.njit(cache=True)
def _hops_back(chances, edge, role):
    """Length of the shortest path from a role back to itself over edges of at least ``edge``; 0 if there is none."""
    roles = len(chances)
    reached = np.zeros(roles, dtype=np.bool_)
    front = np.zeros(roles, dtype=np.bool_)
    front[role] = True
    for hop in range(1, roles + 1):
        after = np.zeros(roles, dtype=np.bool_)
        for a in range(roles):
            if front[a]:
                for b in range(roles):
                    if chances[a, b] >= edge and not reached[b]:
                        reached[b] = after[b] = True
        if reached[role]:
            return hop
        front = after
    return 0


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    counts = shared[_ROLES:]
    if kind == ARRIVE:
        shared[_STEPS] += 1
        learn_role(slots, i, memory, counts)
    elif kind == COMPLETE:
        shared[_STEPS] += 1
        ended_role(slots, i, counts)
    elif kind == PAUSE:
        shared[_STEPS] += 1
        hops = _hops_back(role_chances(counts), shared[_EDGE], slots[i].role + 1)
        near = 1 - (hops - 1) / shared[_HOPS] if hops else 0.0
        own[i, _CHANCE] = max(near, shared[_LEAST])
        own[i, _STEP] = shared[_STEPS]
    return 0


@score
def _worth(slots, i, now, own, memory, shared):
    if slots[i].completed:
        return COMPLETED
    recency = math.exp(-shared[_DECAY] * (shared[_STEPS] - own[i, _STEP]))
    return -(own[i, _CHANCE] + shared[_FLOOR]) * (recency + shared[_FLOOR]) * slots[i].tokens


def _table(setting, least, edge, hops, decay, floor):
    return np.array([0.0, least, edge, hops, decay, floor, *role_table(setting.schedule)])


def cachescout(name="cachescout", *, least=0.01, edge=0.1, hops=6, decay=0.005, floor=0.01):
    """CacheScout at the granularity of a session.

    Parameters
    ----------
    name : str
    least, edge, hops, decay, floor : float
        epsilon, tau, E_max, lambda a scheduler step and delta, as tuned in the replication. That epsilon bounds the
        chance and E_max the path are our readings.

    Raises
    ------
    ValueError
        Unless all are positive.
    """
    parameters = {"least": least, "edge": edge, "hops": hops, "decay": decay, "floor": floor}
    for parameter, value in parameters.items():
        if not value > 0:
            raise ValueError(f"{parameter} must be positive, not {value!r}")
    return Policy(
        name=name,
        summary="Completed first, then the lowest (p + delta)(exp(-lambda age) + delta) tokens; age in scheduler steps "
        "(an arrival or an answer each), p = 1 - (h - 1) / E_max with h the hops from the session's role back to "
        "itself in the graph of roles learned online. With one role p is the same for all and recency times size is "
        "left; so it is without roles. Source: arXiv 2605.27744, 2608.14624; the form of p and the step are ours.",
        score=_worth,
        event=_learn,
        mode=SCAN,
        needs={"completion", "role"},
        own=_OWN,
        memory=ROLE_MEMORY,
        prepare=partial(_table, **parameters),
    )
