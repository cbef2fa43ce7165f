"""S3-FIFO: a small queue on probation, a main queue with second chances, ghosts of those who failed."""

from functools import partial

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

__all__ = ["s3fifo"]

SMALL, MAIN, GHOST = 1, 2, 3
#: Columns of ``own``: hits since it entered its queue; 1 if it came back from the ghosts.
HITS, RETURNED = FREE, FREE + 1
#: Places in ``shared``; FULL: something was evicted already.
SMALL_SIZE, MAIN_SIZE, GHOST_SIZE, PROMOTE, FULL = range(5)
#: Hits that count in the main queue (two bits).
_HITS_MAX = 3


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    session = slots[i].session
    if kind == ARRIVE:
        if value >= SRAM:
            own[i, HITS] += 1
        elif memory[session, QUEUE]:
            remove(memory, shared, session)
            own[i, RETURNED] = 1
    elif kind in (PAUSE, COMPLETE):
        if enters(slots, i, own, shared):
            spill = not shared[FULL] and tokens_in(shared, SMALL) >= shared[SMALL_SIZE]
            push(own, shared, MAIN if own[i, RETURNED] or spill else SMALL, i, slots[i].held)
            own[i, HITS] = own[i, RETURNED] = 0
    elif kind == EVICT:
        shared[FULL] = 1
        failed = own[i, QUEUE] == SMALL
        remove(own, shared, i)
        if failed and value <= shared[GHOST_SIZE]:
            bound(memory, shared, GHOST, shared[GHOST_SIZE] - value)
            push(memory, shared, GHOST, session, value)
    return 0


@victim
def _choose(slots, residencies, now, own, memory, shared):
    if residencies == 1 << ABSENT:
        return longest_absent(slots)
    i = first(slots, residencies, own, shared, SMALL)
    if tokens_in(shared, MAIN) <= shared[MAIN_SIZE] or first(slots, residencies, own, shared, MAIN) < 0:
        while i >= 0:
            if own[i, HITS] < shared[PROMOTE]:
                return i
            touch(own, shared, MAIN, i, own[i, TOKENS])
            own[i, HITS] = 0
            i = first(slots, residencies, own, shared, SMALL)
    while True:
        i = first(slots, residencies, own, shared, MAIN)
        if own[i, HITS] == 0:
            return i
        own[i, HITS] = min(own[i, HITS], _HITS_MAX) - 1
        touch(own, shared, MAIN, i, own[i, TOKENS])


def _queues(setting, small, ghost, promote):
    size = pool(setting)
    return state(3, int(size * small), size - int(size * small), int(size * ghost), promote, 0)


def s3fifo(name="s3-fifo", *, small=0.1, ghost=0.9, promote=2):
    """S3-FIFO with these shares of the capacity for its small and its ghost queue.

    Raises
    ------
    ValueError
        Unless ``0 < small < 1``, ``ghost >= 0`` and ``promote >= 1``.
    """
    if not (0 < small < 1 and ghost >= 0 and promote >= 1):
        raise ValueError(f"small must be in (0, 1), ghost >= 0, promote >= 1, not {small!r}, {ghost!r}, {promote!r}")
    return Policy(
        name=name,
        summary=f"S3-FIFO in tokens: enters a queue of {small:.0%}, moves on after {promote} hits, else leaves for "
        f"ghosts of {ghost:.0%}; the main queue reinserts who was hit. Yang et al., SOSP 2023; as libCacheSim.",
        event=_learn,
        victim=_choose,
        mode=VICTIM,
        own=COLUMNS + 2,
        memory=COLUMNS,
        prepare=partial(_queues, small=small, ghost=ghost, promote=promote),
    )
