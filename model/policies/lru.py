"""Rankings by recency and by chance: the floors."""

import numpy as np

from unison.model.policies.base import (
    COMPLETED,
    DROP,
    NEVER,
    STEPPED,
    VICTIM,
    Policy,
    expires,
    is_candidate,
    score,
    victim,
)

__all__ = ["FIFO", "LRU", "LRU_BLOCK", "LRU_COMPLETION", "RANDOM", "timeout"]

#: Tokens of a block of vLLM's paged attention.
BLOCK = 16
#: A prime modulus and a primitive root of it (Park and Miller): the products stay below 2**53.
_MODULUS = (1 << 31) - 1
_ROOT = 16807


@score
def _age(slots, i, now, own, memory, shared):
    # Orders as the idle time does, and stays the same as it grows.
    return -slots[i].paused_us


@score
def _age_completion(slots, i, now, own, memory, shared):
    return COMPLETED if slots[i].completed else -slots[i].paused_us


@score
def _stay(slots, i, now, own, memory, shared):
    return -slots[i].placed_us


@victim
def _draw(slots, residencies, now, own, memory, shared):
    while True:
        shared[0] = shared[0] * _ROOT % _MODULUS
        i = int(shared[0]) % len(slots)
        if is_candidate(slots, i, residencies):
            return i


@score
def _age_limit(slots, i, now, own, memory, shared):
    return DROP if now - slots[i].paused_us > shared[0] else -slots[i].paused_us


@expires
def _limit(slots, i, now, own, memory, shared):
    due = slots[i].paused_us + int(shared[0]) + 1
    return due if due > now else NEVER


LRU = Policy(name="lru", summary="The session that has been idle for longest.", score=_age)
LRU_COMPLETION = Policy(
    name="lru-completion",
    summary="Completed sessions first, then the one that has been idle for longest; LRU if no completion is told.",
    score=_age_completion,
    needs={"completion"},
)
LRU_BLOCK = Policy(
    name="lru-block",
    summary=f"Blocks of {BLOCK} tokens from the tail of the session that has been idle for longest, as many as needed.",
    score=_age,
    block=BLOCK,
)
FIFO = Policy(name="fifo", summary="The session that has been resident for longest.", score=_stay)
RANDOM = Policy(
    name="random",
    summary="Any session with equal chance, from the seed.",
    victim=_draw,
    mode=VICTIM,
    prepare=lambda setting: np.array([float(setting.seed % (_MODULUS - 1) + 1)]),
)


def timeout(limit_s):
    """A session leaves once it has been idle for more than ``limit_s`` seconds, needed or not; else LRU.

    Raises
    ------
    ValueError
        Unless ``limit_s`` is positive.
    """
    if not limit_s > 0:
        raise ValueError(f"the limit of a timeout must be positive, not {limit_s!r}")
    return Policy(
        name=f"timeout-{limit_s:g}s",
        summary=f"Every session idle for more than {limit_s:g} s, whether room is needed or not; else as LRU.",
        score=_age_limit,
        expires=_limit,
        mode=STEPPED,
        drops=True,
        prepare=lambda setting: np.array([limit_s * 1e6]),
    )
