"""SIEVE: one queue in order of entry, and a hand that takes the first session not hit since it last came by."""

from unison.model.policies.base import (
    ABSENT,
    ARRIVE,
    COMPLETE,
    EVICT,
    PAUSE,
    SRAM,
    VICTIM,
    Policy,
    event,
    is_candidate,
    victim,
)
from unison.model.policies.queues import (
    COLUMNS,
    FREE,
    QUEUE,
    enters,
    longest_absent,
    newer,
    oldest,
    push,
    remove,
    state,
)

__all__ = ["SIEVE"]

ENTERED = 1
#: Column of ``own``: hit since the hand came by.
HIT = FREE
#: Place in ``shared``: slot + 1 at which the hand stands, 0: at the oldest.
HAND = 0


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    if kind == ARRIVE and value >= SRAM:
        own[i, HIT] = 1
    elif kind in (PAUSE, COMPLETE, EVICT):
        if own[i, QUEUE] and slots[i].residency == ABSENT and shared[HAND] == i + 1:
            shared[HAND] = newer(own, i) + 1
        if kind == EVICT:
            remove(own, shared, i)
        elif enters(slots, i, own, shared):
            push(own, shared, ENTERED, i, slots[i].held)
            own[i, HIT] = 0
    return 0


@victim
def _choose(slots, residencies, now, own, memory, shared):
    if residencies == 1 << ABSENT:
        return longest_absent(slots)
    i = int(shared[HAND]) - 1
    while True:
        if i < 0:
            i = oldest(shared, ENTERED)
        if is_candidate(slots, i, residencies):
            if not own[i, HIT]:
                shared[HAND] = i + 1
                return i
            own[i, HIT] = 0
        i = newer(own, i)


SIEVE = Policy(
    name="sieve",
    summary="SIEVE: a hand goes round from old to new, spares who was hit since it came by, and takes the next. "
    "Zhang et al., NSDI 2024; as libCacheSim.",
    event=_learn,
    victim=_choose,
    mode=VICTIM,
    own=COLUMNS + 1,
    prepare=lambda setting: state(1),
)
