"""LMCache's cost-aware policy: what is cheap to recompute for its size leaves."""

import numpy as np

from unison.model.policies.base import COMPLETED, EVICT, PAUSE, SCAN, Policy, event, score

__all__ = ["lmcache_cost"]

#: ``own``: the average of tokens to recompute. ``shared``: half-life, us; weight of the latest; completed first.
_AVERAGE = 0
_HALF_LIFE, _ALPHA, _COMPLETION = range(3)


@event
def _learn_cost(kind, slots, i, now, value, own, memory, shared):
    if kind == PAUSE:
        weight = 1.0 if own[i, _AVERAGE] == 0 else shared[_ALPHA]
        own[i, _AVERAGE] += weight * (slots[i].tokens - own[i, _AVERAGE])
    elif kind == EVICT and slots[i].held == 0:
        own[i, _AVERAGE] = 0.0
    return 0


@score
def _cost_density(slots, i, now, own, memory, shared):
    if shared[_COMPLETION] and slots[i].completed:
        return COMPLETED
    return -own[i, _AVERAGE] / slots[i].tokens / (1 + (now - slots[i].paused_us) / shared[_HALF_LIFE])


def lmcache_cost(name="lmcache-cost", *, half_life_s=60.0, alpha=0.2, completion=False):
    """LMCache's cost-aware policy, a session as one chunk.

    Parameters
    ----------
    name : str
    half_life_s, alpha : float
        As published.
    completion : bool
        Whether completed sessions leave first; the source does not hear of them.

    Raises
    ------
    ValueError
        Unless the half-life is positive and 0 < alpha <= 1.
    """
    if not half_life_s > 0 or not 0 < alpha <= 1:
        raise ValueError(f"half_life_s must be positive and alpha in (0, 1], not {half_life_s!r} and {alpha!r}")
    return Policy(
        name=name,
        summary=("Completed first, then the lowest" if completion else "The lowest")
        + f" (average tokens to recompute / tokens held) / (1 + idle time / {half_life_s:g} s), the average with "
        f"weight {alpha:g} for the latest turn, begun again after an eviction. "
        "Source: LMCache, cache_policy/cost_aware_policy.py.",
        score=_cost_density,
        event=_learn_cost,
        mode=SCAN,
        needs={"completion"} if completion else (),
        own=1,
        prepare=lambda setting: np.array([half_life_s * 1e6, alpha, completion]),
    )
