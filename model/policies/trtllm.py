"""TensorRT-LLM's retention: the application says what matters, for a while."""

from functools import partial

import numpy as np

from unison.model.policies.base import (
    ABSENT,
    COMPLETED,
    HBM,
    NEVER,
    PAUSE,
    STEPPED,
    Policy,
    event,
    expires,
    place,
    score,
)

__all__ = ["trtllm"]

#: A time in microseconds below this orders sessions inside a class; 8 bits of class above it are exact.
_TIMES = 1 << 44
#: ``own``: priority and end of its time, us. ``shared``: default priority, least priority of the lower tier, completed
#: first, then by tool class (the unknown one first) priority and duration, us.
_PRIORITY, _UNTIL, _OWN = range(3)
_DEFAULT, _OFFLOAD, _COMPLETION, _CLASSES = range(4)


@event
def _retain(kind, slots, i, now, value, own, memory, shared):
    if kind == PAUSE:
        row = _CLASSES + 2 * (slots[i].tool + 1)
        own[i, _PRIORITY], own[i, _UNTIL] = shared[row], now + shared[row + 1]
    return 0


@score
def _priority(slots, i, now, own, memory, shared):
    if shared[_COMPLETION] and slots[i].completed:
        return COMPLETED
    retained = now < own[i, _UNTIL] and not slots[i].completed
    return (100 - (own[i, _PRIORITY] if retained else shared[_DEFAULT])) * float(_TIMES) - slots[i].paused_us


@expires
def _reverts(slots, i, now, own, memory, shared):
    due = np.int64(min(own[i, _UNTIL], float(NEVER)))
    return due if due > now else NEVER


@place
def _offload(slots, i, now, own, memory, shared):
    return ABSENT if slots[i].residency == HBM and own[i, _PRIORITY] < shared[_OFFLOAD] else slots[i].residency


def _retention_table(setting, retain, default, offload, completion):
    rows = [(retain or {}).get(tool, (default, None)) for tool in (None, *setting.schedule.tools)]
    classes = [(priority, NEVER if duration is None else duration * 1e6) for priority, duration in rows]
    return np.array([default, offload, completion, *np.ravel(classes)], dtype=np.float64)


def trtllm(name="trtllm", *, retain=None, default=35, offload=30, completion=False):
    """TensorRT-LLM's retention by priority.

    Parameters
    ----------
    name : str
    retain : dict, optional
        By tool name, priority (0 to 100) and duration (seconds, None without end) that the application asks for; open,
        as no trace has any.
    default, offload : int
        Priority of what nobody set, and from which on the lower tier keeps a session.
    completion : bool
        Whether completed sessions leave first; the source does not hear of them.

    Raises
    ------
    ValueError
        For a priority out of range.
    """
    for priority in (default, *(asked for asked, _ in (retain or {}).values())):
        if not 0 <= priority <= 100:
            raise ValueError(f"a priority must be 0 to 100, not {priority!r}")
    return Policy(
        name=name,
        summary=("Completed first, then the" if completion else "The")
        + f" lowest priority, {default} unless the application set one for a time, then "
        f"idle time; below {offload} a session is not kept in HBM. No trace has priorities: LRU. "
        "Source: TensorRT-LLM, KV cache retention.",
        score=_priority,
        event=_retain,
        expires=_reverts,
        place=_offload,
        mode=STEPPED,
        needs=({"tool"} if retain else set()) | ({"completion"} if completion else set()),
        own=_OWN,
        prepare=partial(_retention_table, retain=retain, default=default, offload=offload, completion=completion),
    )
