"""ARC: recency and frequency lists whose shares adapt to where the ghosts return from."""

from unison.model.policies.base import ABSENT, ARRIVE, COMPLETE, EVICT, PAUSE, SRAM, VICTIM, Policy, event, victim
from unison.model.policies.queues import (
    COLUMNS,
    FREE,
    QUEUE,
    TOKENS,
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

__all__ = ["ARC"]

#: Sessions seen once, seen again, and the ghosts of both: T1, T2, B1, B2 of the paper.
ONCE, AGAIN, GHOST_ONCE, GHOST_AGAIN = 1, 2, 3, 4
#: Column of ``own``: it came back from the ghosts.
RETURNED = FREE
#: Places in ``shared``; SHARE: tokens that ONCE should hold, p of the paper; SECOND: the latest request was a ghost of
#: AGAIN.
SIZE, SHARE, SECOND = range(3)


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    session = slots[i].session
    if kind == ARRIVE:
        shared[SECOND] = 0
        if value >= SRAM:
            touch(own, shared, AGAIN, i, slots[i].held)
        elif memory[session, QUEUE]:
            once, again = tokens_in(shared, GHOST_ONCE), tokens_in(shared, GHOST_AGAIN)
            # The paper's pages are of one size; a session counts for as many as it has tokens.
            if memory[session, QUEUE] == GHOST_ONCE:
                step = memory[session, TOKENS] * max(again / once, 1.0)
                shared[SHARE] = min(shared[SHARE] + step, shared[SIZE])
            else:
                step = memory[session, TOKENS] * max(once / again, 1.0)
                shared[SHARE] = max(shared[SHARE] - step, 0.0)
                shared[SECOND] = 1
            remove(memory, shared, session)
            own[i, RETURNED] = 1
    elif kind in (PAUSE, COMPLETE):
        if enters(slots, i, own, shared):
            push(own, shared, AGAIN if own[i, RETURNED] else ONCE, i, slots[i].held)
            own[i, RETURNED] = 0
        elif own[i, QUEUE]:
            touch(own, shared, int(own[i, QUEUE]), i, slots[i].held)
        # The directory holds at most the capacity of sessions seen once, and twice the capacity of all.
        once, again = tokens_in(shared, ONCE), tokens_in(shared, AGAIN)
        bound(memory, shared, GHOST_ONCE, max(shared[SIZE] - once, 0.0))
        bound(memory, shared, GHOST_AGAIN, max(2 * shared[SIZE] - once - again - tokens_in(shared, GHOST_ONCE), 0.0))
    elif kind == EVICT:
        ghost = GHOST_ONCE if own[i, QUEUE] == ONCE else GHOST_AGAIN
        remove(own, shared, i)
        push(memory, shared, ghost, session, value)
    return 0


@victim
def _choose(slots, residencies, now, own, memory, shared):
    if residencies == 1 << ABSENT:
        return longest_absent(slots)
    once, again = first(slots, residencies, own, shared, ONCE), first(slots, residencies, own, shared, AGAIN)
    held = tokens_in(shared, ONCE)
    if again < 0 or (once >= 0 and (held > shared[SHARE] or (held == shared[SHARE] and shared[SECOND]))):
        return once
    return again


ARC = Policy(
    name="arc",
    summary="ARC in tokens: the oldest of those seen once while they hold more than their share, else of those seen "
    "again; the share follows returning ghosts. Megiddo and Modha, FAST 2003.",
    event=_learn,
    victim=_choose,
    mode=VICTIM,
    own=COLUMNS + 1,
    memory=COLUMNS,
    prepare=lambda setting: state(4, pool(setting)),
)
