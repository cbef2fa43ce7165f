"""W-TinyLFU: a small LRU window; who falls out of it stays only if it is asked for more often than the main victim."""

from functools import partial

from unison.model.policies.base import ABSENT, ARRIVE, COMPLETE, EVICT, PAUSE, SRAM, VICTIM, Policy, event, victim
from unison.model.policies.queues import (
    COLUMNS,
    QUEUE,
    TOKENS,
    enters,
    first,
    longest_absent,
    oldest,
    pool,
    push,
    remove,
    state,
    tokens_in,
    touch,
)

__all__ = ["tinylfu"]

WINDOW, PROBATION, PROTECTED = 1, 2, 3
#: Column of ``memory``: requests counted.
COUNT = 0
#: Places in ``shared``; SAMPLE: requests between two halvings of all counts, SEEN: requests since the last one.
WINDOW_SIZE, MAIN_SIZE, PROTECTED_SIZE, SAMPLE, SEEN = range(5)


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    if kind == ARRIVE:
        memory[slots[i].session, COUNT] += 1
        shared[SEEN] += 1
        if shared[SEEN] == shared[SAMPLE]:
            shared[SEEN] = 0
            for session in range(len(memory)):
                memory[session, COUNT] = memory[session, COUNT] // 2
        if value >= SRAM and own[i, QUEUE] == PROBATION:
            touch(own, shared, PROTECTED, i, own[i, TOKENS])
    elif kind in (PAUSE, COMPLETE):
        if enters(slots, i, own, shared):
            push(own, shared, WINDOW, i, slots[i].held)
        elif own[i, QUEUE]:
            touch(own, shared, int(own[i, QUEUE]), i, slots[i].held)
        while tokens_in(shared, PROTECTED) > shared[PROTECTED_SIZE]:
            demoted = oldest(shared, PROTECTED)
            touch(own, shared, PROBATION, demoted, own[demoted, TOKENS])
    elif kind == EVICT:
        remove(own, shared, i)
    return 0


@victim
def _choose(slots, residencies, now, own, memory, shared):
    if residencies == 1 << ABSENT:
        return longest_absent(slots)
    while True:
        new = first(slots, residencies, own, shared, WINDOW)
        main = first(slots, residencies, own, shared, PROBATION)
        if main < 0:
            main = first(slots, residencies, own, shared, PROTECTED)
        if new < 0 or (main >= 0 and tokens_in(shared, WINDOW) <= shared[WINDOW_SIZE]):
            return main
        used = tokens_in(shared, PROBATION) + tokens_in(shared, PROTECTED)
        if used + own[new, TOKENS] > shared[MAIN_SIZE]:
            if main < 0 or memory[slots[new].session, COUNT] <= memory[slots[main].session, COUNT]:
                return new
            touch(own, shared, PROBATION, new, own[new, TOKENS])
            return main
        touch(own, shared, PROBATION, new, own[new, TOKENS])


def _queues(setting, window, protected, sample):
    size = pool(setting)
    return state(3, size * window, size - size * window, (size - size * window) * protected, sample * setting.slots)


def tinylfu(name="w-tinylfu", *, window=0.01, protected=0.8, sample=10):
    """W-TinyLFU with these shares of the capacity, halving all counts every ``sample`` requests a slot.

    Raises
    ------
    ValueError
        Unless ``0 <= window < 1``, ``0 <= protected <= 1`` and ``sample`` is a positive integer.
    """
    if not (0 <= window < 1 and 0 <= protected <= 1 and isinstance(sample, int) and sample >= 1):
        raise ValueError(
            f"window must be in [0, 1), protected in [0, 1], sample >= 1, not {window!r}, {protected!r}, {sample!r}"
        )
    return Policy(
        name=name,
        summary=f"W-TinyLFU in tokens: LRU window of {window:.0%}, then segmented LRU ({protected:.0%} protected) for "
        f"who was requested more often than its victim; exact counts, halved every {sample} requests a slot, where the "
        "paper has a sketch. Einziger et al., TOS 2017.",
        event=_learn,
        victim=_choose,
        mode=VICTIM,
        own=COLUMNS,
        memory=1,
        prepare=partial(_queues, window=window, protected=protected, sample=sample),
    )
