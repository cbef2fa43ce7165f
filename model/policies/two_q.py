"""2Q: a first-in-first-out queue for newcomers, ghosts of those who left it, LRU for those who came back."""

from functools import partial

from unison.model.policies.base import ABSENT, ARRIVE, COMPLETE, EVICT, PAUSE, SRAM, VICTIM, Policy, event, victim
from unison.model.policies.queues import (
    COLUMNS,
    FREE,
    QUEUE,
    bound,
    enters,
    first,
    longest_absent,
    pool,
    push,
    remove,
    state,
    tokens_in,
    touch,
)

__all__ = ["two_q"]

NEW, RECENT, GHOST = 1, 2, 3
#: Column of ``own``: it came back from the ghosts.
RETURNED = FREE
#: Places in ``shared``.
NEW_SIZE, GHOST_SIZE = range(2)


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    session = slots[i].session
    if kind == ARRIVE:
        if value < SRAM and memory[session, QUEUE]:
            remove(memory, shared, session)
            own[i, RETURNED] = 1
    elif kind in (PAUSE, COMPLETE):
        if enters(slots, i, own, shared):
            push(own, shared, RECENT if own[i, RETURNED] else NEW, i, slots[i].held)
            own[i, RETURNED] = 0
        elif own[i, QUEUE] == RECENT:
            touch(own, shared, RECENT, i, slots[i].held)
    elif kind == EVICT:
        new = own[i, QUEUE] == NEW
        remove(own, shared, i)
        if new and value <= shared[GHOST_SIZE]:
            bound(memory, shared, GHOST, shared[GHOST_SIZE] - value)
            push(memory, shared, GHOST, session, value)
    return 0


@victim
def _choose(slots, residencies, now, own, memory, shared):
    if residencies == 1 << ABSENT:
        return longest_absent(slots)
    new, recent = first(slots, residencies, own, shared, NEW), first(slots, residencies, own, shared, RECENT)
    if recent < 0 or (new >= 0 and tokens_in(shared, NEW) > shared[NEW_SIZE]):
        return new
    return recent


def _queues(setting, new, ghost):
    return state(3, int(pool(setting) * new), int(pool(setting) * ghost))


def two_q(name="2q", *, new=0.25, ghost=0.5):
    """2Q with these shares of the capacity for newcomers and for ghosts.

    Raises
    ------
    ValueError
        Unless ``0 < new < 1`` and ``ghost >= 0``.
    """
    if not (0 < new < 1 and ghost >= 0):
        raise ValueError(f"new must be in (0, 1) and ghost >= 0, not {new!r}, {ghost!r}")
    return Policy(
        name=name,
        summary=f"2Q in tokens: newcomers leave in order of entry while they hold more than {new:.0%}; who returns "
        f"from ghosts of {ghost:.0%} stays by recency. Johnson and Shasha, VLDB 1994; as libCacheSim.",
        event=_learn,
        victim=_choose,
        mode=VICTIM,
        own=COLUMNS + 1,
        memory=COLUMNS,
        prepare=partial(_queues, new=new, ghost=ghost),
    )
