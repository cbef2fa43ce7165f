"""PBKV: the workflow that is predicted to call its agents least leaves (arXiv 2605.06472)."""

import numpy as np

from unison.model.policies.base import ARRIVE, COMPLETE, COMPLETED, PAUSE, Policy, event, score
from unison.model.policies.learned import ROLE_MEMORY, ended_role, learn_role, role_chances, role_table

__all__ = ["pbkv"]

#: A time in microseconds below this orders sessions inside a class; 8 bits of class above it are exact.
_TIMES = 1 << 44


@event
def _learn_visits(kind, slots, i, now, value, own, memory, shared):
    if kind == ARRIVE:
        learn_role(slots, i, memory, shared[1:])
    elif kind == COMPLETE:
        ended_role(slots, i, shared[1:])
    elif kind == PAUSE:
        chances = role_chances(shared[1:])
        at = np.zeros(len(chances))
        at[slots[i].role + 1] = 1.0
        visits = 0.0
        for _ in range(int(shared[0])):
            at = at @ chances
            visits += at.sum()
        own[i, 0] = visits / shared[0]
    return 0


@score
def _visits(slots, i, now, own, memory, shared):
    if slots[i].completed:
        return COMPLETED
    return np.floor(255 * (1 - own[i, 0])) * _TIMES - slots[i].paused_us


def pbkv(name="pbkv", *, horizon=3):
    """PBKV with a Markov chain of roles for its predictor, ``horizon`` steps ahead; both are ours.

    Raises
    ------
    ValueError
        Unless ``horizon`` is positive.
    """
    if not horizon >= 1:
        raise ValueError(f"horizon must be positive, not {horizon!r}")
    return Policy(
        name=name,
        summary="Retired workflows first, then the fewest predicted visits (in 1/255), then idle time. The predictor, "
        f"a neural network over workflows, has no public code; a Markov chain of roles, {horizon} steps ahead, stands "
        "in for it. With one role, or if no end is told, all predictions are alike: LRU. Prefetch is left out. "
        "Source: arXiv 2605.06472.",
        score=_visits,
        event=_learn_visits,
        needs={"completion", "role", "step_graph"},
        own=1,
        memory=ROLE_MEMORY,
        prepare=lambda setting: np.array([horizon, *role_table(setting.schedule)]),
    )
