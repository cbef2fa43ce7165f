"""AgServe: the session that is estimated to arrive last leaves (Ren et al., NeurIPS 2025)."""

from functools import partial

import numba
import numpy as np

from unison.model.policies.base import ARRIVE, COMPLETED, NEVER, PAUSE, SCAN, STEPPED, Policy, event, expires, score
from unison.model.policies.learned import WAIT_MEMORY, began_wait, ended_wait, learn_mean, mean_of, mean_table

__all__ = ["agserve"]

#: ``own``: the estimated time of arrival.
_ETA = 0
#: ``shared``: tool classes, the means, then for the conditional rule counts and sums by class and half octave of waits.
_CLASSES, _MEANS = 0, 1
_BINS = 128
OVERDUE = ("now", "late", "conditional")


@numba.njit(cache=True)
def _bin(wait):
    return min(int(2 * np.log2(max(wait, 1))), _BINS - 1)


@numba.njit(cache=True)
def _histogram(shared, tool):
    classes = int(shared[_CLASSES])
    at = _MEANS + 2 * (1 + classes) + (tool + 1) * 2 * _BINS
    return shared[at : at + 2 * _BINS]


@numba.njit(cache=True)
def _add(histogram, wait):
    histogram[_bin(wait)] += 1
    histogram[_BINS + _bin(wait)] += wait


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    tool = slots[i].tool
    if kind == ARRIVE:
        wait = ended_wait(slots, i, now, memory)
        if wait >= 0:
            learn_mean(shared, _MEANS, tool, wait)
            if len(_histogram(shared, -1)):
                _add(_histogram(shared, -1), wait)
                if tool >= 0:
                    _add(_histogram(shared, tool), wait)
    elif kind == PAUSE:
        began_wait(slots, i, now, memory)
        own[i, _ETA] = now + max(mean_of(shared, _MEANS, tool), 0.0)
    return 0


@score
def _eta(slots, i, now, own, memory, shared):
    if slots[i].completed:
        return COMPLETED
    # At any one time ETA - now orders as ETA does.
    return own[i, _ETA] if now < own[i, _ETA] else -1.0


@expires
def _overdue(slots, i, now, own, memory, shared):
    due = np.int64(np.ceil(own[i, _ETA]))
    return due if due > now else NEVER


@score
def _eta_late(slots, i, now, own, memory, shared):
    return COMPLETED if slots[i].completed else abs(own[i, _ETA] - now)


@score
def _eta_conditional(slots, i, now, own, memory, shared):
    if slots[i].completed:
        return COMPLETED
    if now < own[i, _ETA]:
        return own[i, _ETA] - now
    idle = now - slots[i].paused_us
    table = _histogram(shared, slots[i].tool)
    longer = _bin(idle) + 1
    count = table[longer:_BINS].sum()
    return table[_BINS + longer :].sum() / count - idle if count else idle


def _table(setting, histograms):
    schedule = setting.schedule
    classes = len(schedule.tools)
    return np.array([classes, *mean_table(schedule)] + [0.0] * (histograms * (1 + classes) * 2 * _BINS))


def agserve(name="agserve", *, overdue="now"):
    """AgServe.

    Parameters
    ----------
    name : str
    overdue : str
        What a session is worth that is waited for longer than the mean; open. ``"now"``: it arrives at any moment,
        max(mean - idle, 0). ``"late"``: it is as far away as it is late, \\|mean - idle\\|. ``"conditional"``: the mean
        of those waits of its tool that were longer (in half octaves), less the idle time; the idle time if there were
        none.

    Raises
    ------
    ValueError
        For another rule.
    """
    if overdue not in OVERDUE:
        raise ValueError(f"overdue must be one of {', '.join(OVERDUE)}, not {overdue!r}")
    rule = {
        "now": "An overdue session counts as arriving now",
        "late": "An overdue session counts as that far away as it is late",
        "conditional": "An overdue session counts with the mean of the longer waits seen",
    }[overdue]
    return Policy(
        name=name,
        summary="Completed first, then the latest estimated arrival: end of the answer plus the mean wait of the tool, "
        f"learned online (of all tools for an unseen one, 0 at first). {rule}: open. Without tools one mean for all, "
        "so the session that paused last leaves first. Source: Ren et al., NeurIPS 2025 (AgServe).",
        score={"now": _eta, "late": _eta_late, "conditional": _eta_conditional}[overdue],
        event=_learn,
        expires=_overdue,
        mode=STEPPED if overdue == "now" else SCAN,
        needs={"completion", "tool"},
        own=1,
        memory=WAIT_MEMORY,
        prepare=partial(_table, histograms=overdue == "conditional"),
    )
