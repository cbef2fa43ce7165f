"""Continuum: a paused session is pinned for a while, longer the likelier it returns in time (arXiv 2511.02230)."""

import math
from functools import partial

import numba
import numpy as np

from unison.model.policies.base import ARRIVE, COMPLETE, COMPLETED, NEVER, PAUSE, STEPPED, Policy, event, expires, score
from unison.model.policies.learned import (
    began_wait,
    ended_wait,
    learn_mean,
    mean_of,
    mean_table,
    tool_calls,
    us_per_token,
)

__all__ = ["continuum", "continuum_released"]

#: ``own``: the pin ends at this time. ``memory``: after the wait, the program's first arrival plus 1, its turns.
_PIN_ENDS = 0
_FIRST, _TURNS, _MEMORY = 1, 2, 3
#: Above every time, so that the unpinned leave before the pinned.
_UNPINNED = 1 << 51

#: ``shared`` of the paper's rule: queueing delay T and prefill time of a token in seconds, samples that make a law,
#: samples kept, tool classes, the sums over ended programs that make eta, then which class is a call, then the rows.
_QUEUE, _PREFILL, _ENOUGH, _WINDOW, _CLASSES = range(5)
_PAIRS, _K, _R, _KK, _RR, _KR = range(5, 11)
_CALLS = 11


@score
def _pinned(slots, i, now, own, memory, shared):
    if slots[i].completed:
        return COMPLETED
    if now < own[i, _PIN_ENDS]:
        # Stuck: the program that came last loses its pin first.
        return memory[slots[i].session, _FIRST]
    return _UNPINNED - slots[i].paused_us


@expires
def _pin_ends(slots, i, now, own, memory, shared):
    due = np.int64(own[i, _PIN_ENDS])
    return due if due > now else NEVER


@numba.njit(cache=True)
def _begin_turn(slots, i, now, memory):
    session = slots[i].session
    if memory[session, _FIRST] == 0:
        memory[session, _FIRST] = now + 1
    memory[session, _TURNS] += 1


@numba.njit(cache=True)
def _observe(row, value):
    """Adds a sample to a row: samples ever, next place, the last samples in order of arrival, the same in order."""
    window = (len(row) - 2) // 2
    ring, ordered = row[2 : 2 + window], row[2 + window :]
    kept, place = min(int(row[0]), window), int(row[1])
    if kept == window:
        kept -= 1
        for j in range(np.searchsorted(ordered, ring[place]), kept):
            ordered[j] = ordered[j + 1]
    at = np.searchsorted(ordered[:kept], value)
    for j in range(kept, at, -1):
        ordered[j] = ordered[j - 1]
    ordered[at] = ring[place] = value
    row[0] += 1
    row[1] = (place + 1) % window


@numba.njit(cache=True)
def _best_pin(row, gain):
    """argmax over tau of P(tau) * gain - tau, tau among the samples of the row and 0; the shortest of equals."""
    window = (len(row) - 2) // 2
    kept = min(int(row[0]), window)
    ordered = row[2 + window :]
    best, pin = 0.0, 0.0
    for j in range(kept):
        value = (j + 1) / kept * gain - ordered[j]
        if value > best:
            best, pin = value, ordered[j]
    return pin


@numba.njit(cache=True)
def _eta(shared):
    """-Corr(k, N - k) over the turns k of the programs of N turns that ended; 1 before there is any spread."""
    n = shared[_PAIRS]
    spread = (n * shared[_KK] - shared[_K] ** 2) * (n * shared[_RR] - shared[_R] ** 2)
    return (shared[_K] * shared[_R] - n * shared[_KR]) / math.sqrt(spread) if spread > 0 else 1.0


@numba.njit(cache=True)
def _end_program(shared, turns):
    k, kk = turns * (turns + 1) / 2, turns * (turns + 1) * (2 * turns + 1) / 6
    shared[_PAIRS] += turns
    shared[_K] += k
    shared[_R] += turns * (turns - 1) / 2
    shared[_KK] += kk
    shared[_RR] += (turns - 1) * turns * (2 * turns - 1) / 6
    shared[_KR] += turns * k - kk


@numba.njit(cache=True)
def _row(shared, tool):
    """The samples of a class; of all classes for -1."""
    size = 2 + 2 * int(shared[_WINDOW])
    at = _CALLS + int(shared[_CLASSES]) + (tool + 1) * size
    return shared[at : at + size]


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    session, tool = slots[i].session, slots[i].tool
    if kind == ARRIVE:
        wait = ended_wait(slots, i, now, memory)
        if wait >= 0 and (tool < 0 or shared[_CALLS + tool]):
            _observe(_row(shared, -1), wait * 1e-6)
            if tool >= 0:
                _observe(_row(shared, tool), wait * 1e-6)
        _begin_turn(slots, i, now, memory)
    elif kind == PAUSE:
        began_wait(slots, i, now, memory)
        pin = 0.0
        if tool < 0 or shared[_CALLS + tool]:
            reload = slots[i].tokens * shared[_PREFILL]
            row = _row(shared, tool)
            if row[0] < shared[_ENOUGH]:
                row = _row(shared, -1)
            if row[0] >= shared[_ENOUGH]:
                pin = _best_pin(row, shared[_QUEUE] * _eta(shared) + reload)
            elif shared[_QUEUE] + reload > 1:
                pin = math.log(shared[_QUEUE] + reload)
        # A session that is back exactly when its pin ends was still pinned.
        own[i, _PIN_ENDS] = now + math.floor(pin * 1e6) + 1 if pin > 0 else 0
    elif kind == COMPLETE:
        _end_program(shared, memory[session, _TURNS])
    return 0


def _paper_table(setting, queue_s, enough, window):
    schedule = setting.schedule
    classes = len(schedule.tools)
    return np.array(
        [queue_s, us_per_token(setting.costs.prefill) * 1e-6, enough, window, classes]
        + [0] * (_CALLS - _PAIRS)
        + tool_calls(schedule)
        + [0] * ((1 + classes) * (2 + 2 * window)),
        dtype=np.float64,
    )


def continuum(name="continuum", *, queue_s=0.0, enough=100, window=1000):
    """The paper's rule.

    Parameters
    ----------
    name : str
    queue_s : float
        T, the mean queueing delay of an evicted request, seconds. Replays do not queue, hence 0; open.
    enough : int
        Samples K before a class has a law of its own, and before the pool of all classes has one.
    window : int
        Samples kept of each; open.

    Raises
    ------
    ValueError
        Unless ``queue_s`` is not negative and the others are positive.
    """
    if not queue_s >= 0 or not enough >= 1 or not window >= 1:
        raise ValueError(
            f"queue_s must not be negative, enough and window positive, not {queue_s!r}, {enough!r}, {window!r}"
        )
    return Policy(
        name=name,
        summary="Completed first, then unpinned sessions by idle time, then the pinned program that came last. A tool "
        "call pins for the tau that maximises P(tau) (T eta + prefill time) - tau, P the waits of its tool (of all "
        f"tools below {enough} samples, of Exp(1) below {enough} of these), eta = -Corr(turn, turns left); "
        f"T = {queue_s:g} s. No call, no pin. Without tools the waits of all sessions; without completion eta = 1. "
        "Source: arXiv 2511.02230 v7; T, samples kept and completed-first are ours.",
        score=_pinned,
        event=_learn,
        expires=_pin_ends,
        mode=STEPPED,
        needs={"completion", "tool"},
        own=1,
        memory=_MEMORY,
        prepare=partial(_paper_table, queue_s=queue_s, enough=enough, window=window),
    )


#: ``shared`` of the released rule: the pin, us; tool classes; which class is a call; means.
_PIN, _RELEASED_CLASSES, _RELEASED_CALLS = range(3)


@event
def _learn_released(kind, slots, i, now, value, own, memory, shared):
    tool = slots[i].tool
    means = _RELEASED_CALLS + int(shared[_RELEASED_CLASSES])
    if kind == ARRIVE:
        wait = ended_wait(slots, i, now, memory)
        if wait >= 0 and tool >= 0:
            learn_mean(shared, means, tool, wait)
        _begin_turn(slots, i, now, memory)
    elif kind == PAUSE:
        began_wait(slots, i, now, memory)
        pinned = tool >= 0 and shared[_RELEASED_CALLS + tool] != 0
        if pinned and shared[means + 2 * (tool + 1)]:
            pinned = mean_of(shared, means, tool) <= shared[_PIN]
        own[i, _PIN_ENDS] = now + shared[_PIN] + 1 if pinned else 0
    return 0


def _released_table(setting, pin_s):
    schedule = setting.schedule
    return np.array([pin_s * 1e6, len(schedule.tools), *tool_calls(schedule), *mean_table(schedule)])


def continuum_released(name="continuum-released", *, pin_s=2.0):
    """The rule of the released code: a pin of ``pin_s`` seconds if the tool's mean wait is no longer, or unknown."""
    return Policy(
        name=name,
        summary="Completed first, then unpinned sessions by idle time, then the pinned program that came last. A tool "
        f"call pins for {pin_s:g} s unless the mean wait of that tool is longer. No call, or no tool told: no pin, so "
        "LRU. Source: vllm-continuum, v1/core/estimate_with_func.py; completed-first is ours.",
        score=_pinned,
        event=_learn_released,
        expires=_pin_ends,
        mode=STEPPED,
        needs={"completion", "tool"},
        own=1,
        memory=_MEMORY,
        prepare=partial(_released_table, pin_s=pin_s),
    )
