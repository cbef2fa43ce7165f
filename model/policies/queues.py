"""Doubly linked queues of slots and of remembered sessions, in the arrays that a policy has; counted in tokens.

A queue of slots lives in ``own``, a ghost queue of sessions in ``memory``; both are called ``links`` here and begin
with the columns QUEUE, OLDER, NEWER and TOKENS. The ends and the tokens of queue ``q`` (1, 2, ...) are in ``shared``,
before them ``PARAMETERS`` places for whatever a policy keeps.

Both tiers count as one pool: a queue policy does not say in which of them a session lives. A session enters a queue
when its first answer in residence is complete, and is passed over, untouched, while it may not leave.
"""

import numba
import numpy as np

from unison.model.policies.base import ABSENT, is_candidate

__all__ = [
    "COLUMNS",
    "FREE",
    "PARAMETERS",
    "QUEUE",
    "TOKENS",
    "bound",
    "enters",
    "first",
    "longest_absent",
    "newer",
    "oldest",
    "pool",
    "push",
    "remove",
    "state",
    "tokens_in",
    "touch",
]

#: Columns of ``links``: queue (0: in none), neighbours (index + 1, 0: none), tokens counted; FREE: the policy's first.
QUEUE, OLDER, NEWER, TOKENS, FREE = range(5)
COLUMNS = FREE
PARAMETERS = 8
#: Places of one queue in ``shared``.
_OLDEST, _NEWEST, _TOKENS, _PLACES = range(4)


def state(queues, *parameters):
    """The first ``shared`` of a policy with so many queues, its parameters in front."""
    shared = np.zeros(PARAMETERS + queues * _PLACES)
    shared[: len(parameters)] = parameters
    return shared


def pool(setting):
    """Tokens of both tiers."""
    return sum(setting.capacities)


@numba.njit(cache=True)
def _at(q):
    return PARAMETERS + (q - 1) * _PLACES


@numba.njit(cache=True)
def tokens_in(shared, q):
    """Tokens counted in queue ``q``."""
    return shared[_at(q) + _TOKENS]


@numba.njit(cache=True)
def oldest(shared, q):
    """The oldest member of queue ``q``, or -1."""
    return int(shared[_at(q) + _OLDEST]) - 1


@numba.njit(cache=True)
def newer(links, i):
    """The next newer member of the queue of ``i``, or -1."""
    return int(links[i, NEWER]) - 1


@numba.njit(cache=True)
def push(links, shared, q, i, tokens):
    """``i``, in no queue, becomes the newest of queue ``q``."""
    at = _at(q)
    last = int(shared[at + _NEWEST])
    links[i, QUEUE], links[i, OLDER], links[i, NEWER], links[i, TOKENS] = q, last, 0, tokens
    if last:
        links[last - 1, NEWER] = i + 1
    else:
        shared[at + _OLDEST] = i + 1
    shared[at + _NEWEST] = i + 1
    shared[at + _TOKENS] += tokens


@numba.njit(cache=True)
def remove(links, shared, i):
    """``i`` leaves its queue."""
    at = _at(int(links[i, QUEUE]))
    before, after = int(links[i, OLDER]), int(links[i, NEWER])
    if before:
        links[before - 1, NEWER] = after
    else:
        shared[at + _OLDEST] = after
    if after:
        links[after - 1, OLDER] = before
    else:
        shared[at + _NEWEST] = before
    shared[at + _TOKENS] -= links[i, TOKENS]
    links[i, QUEUE] = links[i, OLDER] = links[i, NEWER] = links[i, TOKENS] = 0


@numba.njit(cache=True)
def touch(links, shared, q, i, tokens):
    """``i`` leaves its queue and becomes the newest of queue ``q``."""
    remove(links, shared, i)
    push(links, shared, q, i, tokens)


@numba.njit(cache=True)
def enters(slots, i, own, shared):
    """At the end of an answer: counts the tokens of ``i`` anew; whether it is a resident that is in no queue yet."""
    if not own[i, QUEUE]:
        return slots[i].residency != ABSENT
    if slots[i].residency == ABSENT:
        remove(own, shared, i)
    else:
        shared[_at(int(own[i, QUEUE])) + _TOKENS] += slots[i].held - own[i, TOKENS]
        own[i, TOKENS] = slots[i].held
    return False


@numba.njit(cache=True)
def bound(links, shared, q, limit):
    """The oldest leave queue ``q`` until it counts at most ``limit`` tokens."""
    while tokens_in(shared, q) > limit:
        remove(links, shared, oldest(shared, q))


@numba.njit(cache=True)
def first(slots, residencies, own, shared, q):
    """The oldest slot of queue ``q`` that may leave, or -1."""
    i = oldest(shared, q)
    while i >= 0 and not is_candidate(slots, i, residencies):
        i = newer(own, i)
    return i


@numba.njit(cache=True)
def longest_absent(slots):
    """The paused absent slot that has been idle for longest, the lowest of equals: whom queue policies forget."""
    best = -1
    for i in range(len(slots)):
        if is_candidate(slots, i, 1 << ABSENT) and (best < 0 or slots[i].paused_us < slots[best].paused_us):
            best = i
    return best
