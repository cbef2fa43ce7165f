"""GDSF and PGDSF: greedy dual, by requests and by the worth of a token."""

import numpy as np

from unison.model.policies.base import (
    ABSENT,
    ARRIVE,
    COMPLETE,
    EVICT,
    PAUSE,
    VICTIM,
    Policy,
    event,
    is_candidate,
    victim,
)
from unison.model.policies.queues import longest_absent

__all__ = ["gdsf"]

#: Columns of ``own``: requests counted, time of the latest, priority.
REQUESTS, LATEST, PRIORITY = range(3)
#: Places in ``shared``; NOW: the clock, the highest priority of any session that left.
NOW, THETA, LASTING = range(3)
#: Worth of a request; it sets the scale of the priorities and nothing else.
_WORTH = 1e6


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    if kind == ARRIVE:
        if value == ABSENT and not shared[LASTING]:
            own[i, REQUESTS] = 0
        own[i, REQUESTS] += 1
        own[i, LATEST] = now
    elif kind in (PAUSE, COMPLETE):
        own[i, PRIORITY] = shared[NOW] + own[i, REQUESTS] * _WORTH / slots[i].tokens ** shared[THETA]
    elif kind == EVICT:
        shared[NOW] = max(shared[NOW], own[i, PRIORITY])
    return 0


@victim
def _choose(slots, residencies, now, own, memory, shared):
    if residencies == 1 << ABSENT:
        return longest_absent(slots)
    # Equal priorities are the rule where sizes are; then the one that was requested longest ago leaves.
    best = -1
    for i in range(len(slots)):
        if is_candidate(slots, i, residencies) and (
            best < 0
            or own[i, PRIORITY] < own[best, PRIORITY]
            or (own[i, PRIORITY] == own[best, PRIORITY] and own[i, LATEST] < own[best, LATEST])
        ):
            best = i
    return best


def gdsf(name="gdsf", *, theta=1.0, lasting=False):
    """Greedy dual: priority = clock at the latest answer + requests * worth / tokens ** theta.

    Parameters
    ----------
    name : str
    theta : float
        1: GDSF, all sessions cost the same to bring back. 0: they cost so many units a token, as prefill does, and the
        tokens cancel: PGDSF (RAGCache) under the linear costs of the contract.
    lasting : bool
        Requests are counted as long as the session has its slot, not only while it is a resident.

    Raises
    ------
    ValueError
        If ``theta`` is negative.
    """
    if not theta >= 0:
        raise ValueError(f"theta must not be negative, not {theta!r}")
    return Policy(
        name=name,
        summary="The lowest sum of the clock at its latest answer and its requests"
        + (f" over tokens to the power {theta:g}" if theta else "")
        + "; the clock is that sum of who left. "
        + ("GDSF, Cherkasova 1998; as libCacheSim." if theta else "PGDSF of RAGCache for a cost linear in tokens."),
        event=_learn,
        victim=_choose,
        mode=VICTIM,
        own=3,
        prepare=lambda setting: np.array([0.0, theta, lasting]),
        theta=theta,
    )
