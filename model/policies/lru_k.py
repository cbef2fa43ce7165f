"""LRU-K with K = 2: by the time of the last request but one."""

from unison.model.policies.base import ABSENT, ARRIVE, NEVER, Policy, event, score

__all__ = ["LRU_2"]

#: Columns of ``own``: requests since it became a resident, arrival of the latest and of the one before.
REQUESTS, LATEST, BEFORE = range(3)


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    if kind == ARRIVE:
        own[i, REQUESTS] = 1 if value == ABSENT else own[i, REQUESTS] + 1
        own[i, BEFORE] = own[i, LATEST]
        own[i, LATEST] = now
    return 0


@score
def _distance(slots, i, now, own, memory, shared):
    # A session with one request has an infinite distance: before all others, the oldest first.
    if own[i, REQUESTS] < 2:
        return NEVER - own[i, LATEST]
    return -own[i, BEFORE]


LRU_2 = Policy(
    name="lru-2",
    summary="LRU-2: the session whose last request but one is the oldest; before them those requested once since they "
    "became resident. O'Neil et al., SIGMOD 1993; history ends with residence, as in libCacheSim.",
    score=_distance,
    event=_learn,
    own=3,
)
