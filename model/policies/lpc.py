"""LPC: the conversation that is least likely to continue leaves (Yang et al., NeurIPS 2025)."""

import math
from functools import partial

import numpy as np

from unison.model.policies.base import ARRIVE, COMPLETED, PAUSE, SCAN, Policy, event, score
from unison.model.policies.learned import WAIT_MEMORY, began_wait, ended_wait, learn_mean

__all__ = ["lpc"]

#: ``shared``: waits and their sum, the mean before the first, us, then ln(p / (1 - p)) by turn.
_PRIOR, _ODDS = 2, 3


@event
def _learn_scale(kind, slots, i, now, value, own, memory, shared):
    if kind == ARRIVE:
        wait = ended_wait(slots, i, now, memory)
        if wait >= 0:
            learn_mean(shared, 0, -1, wait)
    elif kind == PAUSE:
        began_wait(slots, i, now, memory)
    return 0


@score
def _continuation(slots, i, now, own, memory, shared):
    if slots[i].completed:
        return COMPLETED
    mean = max(shared[1] / shared[0] if shared[0] else shared[_PRIOR], 1.0)
    # -ln of the odds p d / (1 - p): falls as p_cur rises, and does not underflow.
    return (now - slots[i].paused_us) / mean - shared[_ODDS + slots[i].turn]


def _odds_table(setting, prior_s):
    p = setting.p
    chances = [min(max(float(p.epsilon), 1 - h / p.hazard_max), 1 - float(p.epsilon)) for h in setting.hazards]
    return np.array([0.0, 0.0, prior_s * 1e6, *(math.log(chance / (1 - chance)) for chance in chances)])


def lpc(name="lpc", *, prior_s=100.0):
    """LPC, with the hazard table for its predictor; ``prior_s`` is the mean gap before the first was seen.

    Raises
    ------
    ValueError
        Unless ``prior_s`` is positive.
    """
    if not prior_s > 0:
        raise ValueError(f"prior_s must be positive, not {prior_s!r}")
    return Policy(
        name=name,
        summary="Completed first, then the lowest p d / (p d + 1 - p), d = exp(-idle time / mean gap). The published p "
        "comes from a network that reads the text, which no trace has; the chance of a next turn by turn, as in "
        "Spear's hazard table, stands in for it. Evaluated at each decision, not every 10 s. "
        "Source: Yang et al., NeurIPS 2025.",
        score=_continuation,
        event=_learn_scale,
        mode=SCAN,
        needs={"completion"},
        memory=WAIT_MEMORY,
        prepare=partial(_odds_table, prior_s=prior_s),
    )
