"""SAGA's WA-LRU: a weighted sum of idle time, chance of reuse and size (arXiv 2605.00528)."""

import numpy as np

from unison.model.policies.base import VICTIM, Policy, is_candidate, victim

__all__ = ["saga"]

#: ``shared``: the weights.
_RECENCY, _REUSE, _SIZE = range(3)


@victim
def _weighted(slots, residencies, now, own, memory, shared):
    longest = largest = 1
    for i in range(len(slots)):
        if is_candidate(slots, i, residencies):
            longest = max(longest, now - slots[i].paused_us)
            largest = max(largest, slots[i].tokens)
    best, best_score = -1, -1.0
    for i in range(len(slots)):
        if is_candidate(slots, i, residencies):
            value = shared[_RECENCY] * (now - slots[i].paused_us) / longest
            value += shared[_REUSE] * slots[i].completed
            value += shared[_SIZE] * slots[i].tokens / largest
            if value > best_score:
                best, best_score = i, value
    return best


def saga(name="saga", *, recency=0.3, reuse=0.5, size=0.2):
    """SAGA's WA-LRU with its three weights.

    Raises
    ------
    ValueError
        If a weight is negative.
    """
    for weight in (recency, reuse, size):
        if not weight >= 0:
            raise ValueError(f"a weight must not be negative, not {weight!r}")
    return Policy(
        name=name,
        summary=f"The highest {recency:g} idle time + {reuse:g} (1 - P_reuse) + {size:g} tokens, each as a share of "
        "the highest among the candidates (open). Without a step graph P_reuse is 1 while a session lives and 0 once "
        "it completed, which puts it ahead by a weight, not always first. Source: SAGA, arXiv 2605.00528.",
        victim=_weighted,
        mode=VICTIM,
        needs={"completion", "step_graph"},
        prepare=lambda setting: np.array([recency, reuse, size]),
    )
