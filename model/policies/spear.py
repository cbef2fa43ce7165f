"""Spear, the paper's ranking, in the hardware's integers and in floating point; Tide; each signal left out."""

from functools import partial

import numpy as np

from unison.model.policies.base import COMPLETED, SCAN, STATIC, Policy, score

__all__ = ["spear_fixed", "spear_float"]

#: ``shared`` of the float form: which signals count, idle form, gap units a microsecond, penalty, sigma by turn.
_GAP, _HAZARD, _IDLE, _UNITS, _PENALTY, _FIRST = range(6)
IDLE_FORMS = {None: 0, "max": 1, "sum": 2}


def _fixed_table(setting):
    """Lambda, the highest live score, then sigma_Z and then p_Z of every turn; equations (15) and (18)."""
    p = setting.p
    sigma = [max(p.survival_min, p.hazard_max - h) for h in setting.hazards]
    penalty = [(p.hazard_max - s) * p.penalty // p.hazard_max for s in sigma]
    return np.array([p.hazard_max, p.score_live_max, *sigma, *penalty], dtype=np.float64)


@score
def _score_fixed(slots, i, now, own, memory, shared):
    if slots[i].completed:
        return COMPLETED
    turns = (len(shared) - 2) // 2
    turn = slots[i].turn
    quotient = int(slots[i].gap) * int(shared[0]) // int(shared[2 + turn])
    return min(quotient + shared[2 + turns + turn], shared[1])


@score
def _score_float(slots, i, now, own, memory, shared):
    if slots[i].completed:
        return COMPLETED
    sigma = shared[_FIRST + slots[i].turn] if shared[_HAZARD] else 1.0
    wait = slots[i].gap if shared[_GAP] else 0.0
    idle = (now - slots[i].paused_us) * shared[_UNITS]
    if shared[_IDLE] == 1:
        wait = max(wait, idle)
    elif shared[_IDLE] == 2:
        wait += idle
    return wait / sigma + (1.0 - sigma) * shared[_PENALTY]


def _float_table(setting, gap, hazard, idle):
    p = setting.p
    sigma = [max(float(p.epsilon), 1.0 - h) for h in setting.hazard_law]
    units = 1000 / p.gap_unit_ns
    return np.array([gap, hazard, IDLE_FORMS[idle], units, p.penalty, *sigma], dtype=np.float64)


def spear_fixed(name="spear", *, tide=False):
    """Equations (13) to (20) in the integers of ``p``: the golden model's scores, exact below 2**53."""
    return Policy(
        name=name,
        summary="Completed first, then the highest gap average over survival plus penalty; without completion told, "
        "the hazard table alone says who may have ended." + (" Tide migrates." if tide else ""),
        score=_score_fixed,
        tide=tide,
        needs={"completion"},
        prepare=_fixed_table,
    )


def spear_float(name, *, gap=True, hazard=True, idle=None, tide=False):
    """Equation (7) in floating point, with hazards that are not quantised.

    Parameters
    ----------
    name : str
    gap, hazard : bool
        Whether the gap average and the survival count; left out they are 0 and 1.
    idle : str, optional
        ``"max"``: max(gap average, idle time) in place of the gap average; ``"sum"``: their sum.
    tide : bool

    Raises
    ------
    ValueError
        For another idle form.
    """
    if idle not in IDLE_FORMS:
        raise ValueError(f"idle must be None, max or sum, not {idle!r}")
    wait = {None: "gap average", "max": "max(gap average, idle time)", "sum": "gap average plus idle time"}[idle]
    if not gap:
        wait = "idle time" if idle else "nothing"
    return Policy(
        name=name,
        summary=f"Completed first, then the highest of: {wait}{' over survival plus penalty' if hazard else ''}."
        + (" Tide migrates." if tide else ""),
        score=_score_float,
        mode=SCAN if idle else STATIC,
        tide=tide,
        fixed=False,
        needs={"completion"},
        prepare=partial(_float_table, gap=gap, hazard=hazard, idle=idle),
    )
