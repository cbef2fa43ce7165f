"""Replays a schedule under a policy: the contract's events, FIT and TIDE in one compiled loop.

The golden model (``engine.Engine`` driven by ``load.play``) is the reference: under fixed-point Spear both take the
same decisions, one by one. ``python -m unison.model.simulator`` measures the speed.
"""

import time
from collections import namedtuple

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from unison.formats import BUDGET_MAX, OPERAND_MAX, AnswerKind, Opcode
from unison.model.accounting import COSTS, Result
from unison.model.arithmetic import quantise
from unison.model.policies.base import (
    ABSENT,
    ARRIVE,
    CHOICE,
    COMPLETE,
    DROP,
    EVENT,
    EVICT,
    FORGET,
    GAP_END,
    HBM,
    NEVER,
    PAUSE,
    SCAN,
    SCORE,
    SLOT,
    SLOTS,
    SRAM,
    STATIC,
    STEPPED,
    VICTIM,
    Setting,
    is_candidate,
    no_event,
)
from unison.model.schedule import MOMENT
from unison.params import N64

__all__ = ["simulate"]

#: Trees of the tournament: three named by the residency of their slots, then live HBM residents lowest score first,
#: then all paused slots by the time at which their score expires.
LIVE_HBM, EXPIRY, TREES = 4, 5, 6
#: Places in ``counts``: used tokens and those of busy residents by residency, then what the name says.
USED, BUSY_USED = 0, 4
TAKEN, DMA_DONE_US, STALE, FRESH_US, SEARCHED, LOGGED, FAULT = range(8, 15)
EVENTS, EVICTIONS, EVICTED_TOKENS, FORGETS, PROMOTIONS, SWAPS, USEFUL, MOVES, PAUSE_BYPASSES, DECISIONS = range(15, 25)
COUNTS = 25
#: Up to so many slots all keys are compared at a search, which takes less time than to keep trees of them.
FEW_SLOTS = 128

NOBODY = -np.inf
OUTCOME_KIND, FORGET_KIND, EVICT_KIND, MOVED_KIND, MIGRATE_KIND = (
    kind.value
    for kind in (AnswerKind.OUTCOME, AnswerKind.FORGET, AnswerKind.EVICT, AnswerKind.MOVED, AnswerKind.MIGRATE)
)
ARRIVE_OP, ARRIVE_ANY_OP, GAP_START_OP, GAP_END_OP, COMPLETE_OP = (
    code.value for code in (Opcode.ARRIVE, Opcode.ARRIVE_ANY, Opcode.GAP_START, Opcode.GAP_END, Opcode.COMPLETE)
)
#: One line of the log: kind, slot, then for OUTCOME opcode, found, placed; MOVED tier, tokens; MIGRATE demoted slot or
#: -1, tokens, demoted tokens.
LOG_WIDTH = 5

#: The settings of one replay, all integers; flags are 0 or 1. ``placed``: the policy has a place function, ``learns``:
#: an event function. ``width``: leaves of a tree, 0 without trees.
Rules = namedtuple(
    "Rules",
    (
        "mode", "learns", "placed", "drops", "block", "fixed", "explicit", "true_delta", "cap_sram", "cap_hbm", "tide",
        "numerator", "denominator", "moves", "ignore_dma", "swap_completed", "gap_unit_ns", "gap_max", "gap_prior",
        "turn_limit", "width", "tier_first",
    ),
)  # fmt: skip
#: All that the loop works on.
World = namedtuple(
    "World",
    (
        "slots", "own", "memory", "shared", "winner", "key", "counts", "log", "evicted_us", "chosen",
        "score", "event", "expires", "victim", "place", "rules",
    ),
)  # fmt: skip


@intrinsic
def _borrowed(typing_context, array):
    """The array without its reference count, which would be changed atomically around every call of a policy."""

    def make(context, builder, signature, arguments):
        view = make_array(array)(context, builder, arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), make


@numba.njit(forceinline=True)
def _set_key(winner, key, tree, slot, value, width):
    """Sets the key of a slot, NOBODY to take it out; the root then names the highest key, the lowest slot of equals."""
    keys = key[tree]
    if keys[slot] == value:
        return
    keys[slot] = value
    if width == 0:
        return
    winners = winner[tree]
    node = (slot + width) >> 1
    while node >= 1:
        left, right = winners[2 * node], winners[2 * node + 1]
        best = left if keys[left] >= keys[right] else right
        if winners[node] == best and best != slot:
            return
        winners[node] = best
        node >>= 1


@numba.njit(forceinline=True)
def _top(w, tree):
    """The slot of the highest key, the lowest of equals."""
    if w.rules.width:
        return np.int64(w.winner[tree, 1])
    keys = w.key[tree]
    best, highest = np.int64(0), NOBODY
    for i in range(w.counts[TAKEN]):
        if keys[i] > highest:
            best, highest = np.int64(i), keys[i]
    return best


@numba.njit(forceinline=True)
def _index(w, i):
    """Puts slot ``i`` into the trees it belongs to, and into no other."""
    if w.rules.mode == SCAN or w.rules.mode == VICTIM:
        return
    slot = w.slots[i]
    residency = 0 if slot.busy else slot.residency
    for tree in range(ABSENT, HBM + 1):
        _set_key(w.winner, w.key, tree, i, slot.score if residency == tree else NOBODY, w.rules.width)
    if w.rules.tide:
        live = residency == HBM and not slot.completed
        _set_key(w.winner, w.key, LIVE_HBM, i, -slot.score if live else NOBODY, w.rules.width)
    if w.rules.mode == STEPPED:
        _set_key(w.winner, w.key, EXPIRY, i, -float(slot.expires) if residency else NOBODY, w.rules.width)


@numba.njit(forceinline=True)
def _rescore(w, i, now):
    if w.rules.mode == STATIC or w.rules.mode == STEPPED:
        w.slots[i].score = w.score(w.slots, i, now, w.own, w.memory, w.shared)
    if w.rules.mode == STEPPED:
        w.slots[i].expires = w.expires(w.slots, i, now, w.own, w.memory, w.shared)
        if w.slots[i].expires <= now:
            w.counts[FAULT] = 2
            w.slots[i].expires = NEVER
    _index(w, i)
    if w.rules.drops and w.slots[i].score >= DROP and not w.slots[i].completed and w.slots[i].residency >= SRAM:
        _evict(w, i, now, w.slots[i].held)


@numba.njit(forceinline=True)
def _refresh(w, now):
    """Brings the scores of all paused slots up to date."""
    if w.counts[STALE]:
        w.counts[STALE] = 0
        for i in range(w.counts[TAKEN]):
            if w.slots[i].residency and not w.slots[i].busy:
                _rescore(w, i, now)
    if w.rules.mode == STEPPED and w.counts[FRESH_US] != now:
        w.counts[FRESH_US] = now
        if w.rules.width:
            top = w.winner[EXPIRY, 1]
            while w.key[EXPIRY, top] >= -now:
                _rescore(w, top, now)
                top = w.winner[EXPIRY, 1]
        else:
            for i in range(w.counts[TAKEN]):
                if w.key[EXPIRY, i] >= -now:
                    _rescore(w, i, now)


@numba.njit(forceinline=True)
def _tell(w, kind, i, now, value):
    if w.rules.learns:
        w.counts[STALE] |= w.event(kind, w.slots, i, now, value, w.own, w.memory, w.shared)


@numba.njit(forceinline=True)
def _note(w, kind, a, b, c, d):
    if len(w.log):
        line = w.log[w.counts[LOGGED]]
        line[0], line[1], line[2], line[3], line[4] = kind, a, b, c, d
        w.counts[LOGGED] += 1


@numba.njit(forceinline=True)
def _highest(w, residencies, now):
    """The slot of the highest score among the paused slots of the residencies in a mask, or -1."""
    w.counts[SEARCHED] = 1
    best, best_score = np.int64(-1), NOBODY
    if w.rules.mode == STATIC or w.rules.mode == STEPPED:
        _refresh(w, now)
        for tree in range(ABSENT, HBM + 1):
            if (residencies >> tree) & 1:
                top = _top(w, tree)
                value = w.key[tree, top]
                if value > best_score or (value == best_score and value != NOBODY and top < best):
                    best, best_score = top, value
        return best
    if w.rules.mode == SCAN:
        for i in range(w.counts[TAKEN]):
            if is_candidate(w.slots, i, residencies):
                value = w.score(w.slots, i, now, w.own, w.memory, w.shared)
                if value > best_score:
                    best, best_score = np.int64(i), value
        return best
    some = False
    for i in range(w.counts[TAKEN]):
        if is_candidate(w.slots, i, residencies):
            some = True
            break
    if not some:
        return best
    best = w.victim(w.slots, residencies, now, w.own, w.memory, w.shared)
    if not (0 <= best < w.counts[TAKEN] and is_candidate(w.slots, best, residencies)):
        w.counts[FAULT] = 1
        return np.int64(i)
    return best


@numba.njit(forceinline=True)
def _lowest_live_hbm(w, now):
    w.counts[SEARCHED] = 1
    if w.rules.mode == STATIC or w.rules.mode == STEPPED:
        _refresh(w, now)
        top = _top(w, LIVE_HBM)
        return top if w.key[LIVE_HBM, top] != NOBODY else np.int64(-1)
    best, best_score = np.int64(-1), np.inf
    for i in range(w.counts[TAKEN]):
        if is_candidate(w.slots, i, 1 << HBM) and not w.slots[i].completed:
            value = w.score(w.slots, i, now, w.own, w.memory, w.shared)
            if value < best_score:
                best, best_score = np.int64(i), value
    return best


@numba.njit(forceinline=True)
def _capacity(w, tier):
    return w.rules.cap_sram if tier == SRAM else w.rules.cap_hbm


@numba.njit(forceinline=True)
def _can_fit(w, tier, tokens):
    """Whether a tier could hold ``tokens`` once all its paused residents had left."""
    return max(0, _capacity(w, tier) - w.counts[BUSY_USED + tier]) >= tokens


@numba.njit(forceinline=True)
def _has_room(w, tier, tokens):
    return w.counts[USED + tier] + tokens <= _capacity(w, tier)


@numba.njit(forceinline=True)
def _take_out(w, i):
    slot = w.slots[i]
    if slot.residency >= SRAM:
        w.counts[USED + slot.residency] -= slot.held
        if slot.busy:
            w.counts[BUSY_USED + slot.residency] -= slot.held
    w.slots[i].residency = ABSENT
    w.slots[i].held = 0


@numba.njit(forceinline=True)
def _put_in(w, i, tier, held):
    w.slots[i].residency = tier
    w.slots[i].held = held
    w.counts[USED + tier] += held
    if w.slots[i].busy:
        w.counts[BUSY_USED + tier] += held


@numba.njit(forceinline=True)
def _change_tier(w, i, tier):
    held = w.slots[i].held
    _take_out(w, i)
    _put_in(w, i, tier, held)
    _index(w, i)


@numba.njit(forceinline=True)
def _set_busy(w, i, busy):
    slot = w.slots[i]
    if slot.residency >= SRAM:
        w.counts[BUSY_USED + slot.residency] += (busy - slot.busy) * slot.held
    w.slots[i].busy = busy


@numba.njit(forceinline=True)
def _evict(w, i, now, needed):
    """A paused resident leaves; with blocks only as many of them as hold ``needed`` tokens."""
    held = w.slots[i].held
    lost = held
    if w.rules.block:
        lost = min(held, -(-needed // w.rules.block) * w.rules.block)
    w.counts[EVICTIONS] += 1
    w.counts[EVICTED_TOKENS] += lost
    w.evicted_us[w.slots[i].session] = now
    if lost < held:
        w.counts[USED + w.slots[i].residency] -= lost
        w.slots[i].held = held - lost
    else:
        _take_out(w, i)
        w.slots[i].promoted = 0
    _tell(w, EVICT, i, now, lost)
    _index(w, i)
    _note(w, EVICT_KIND, i, 0, 0, 0)


@numba.njit(forceinline=True)
def _first_with_room(w, own, tokens):
    if own >= SRAM and _has_room(w, own, tokens):
        return own
    if _has_room(w, SRAM, tokens):
        return SRAM
    if _has_room(w, HBM, tokens):
        return HBM
    return 0


@numba.njit(forceinline=True)
def _choose(w, tier, needed):
    """Lists the victims that give ``needed`` tokens of a tier; returns their number and the lowest score among them.

    From the highest score down until they suffice; then, from the lowest score up, whoever need not leave is spared.
    """
    chosen = w.chosen[tier]
    number, freed = 0, 0
    while freed < needed:
        top = _top(w, tier)
        chosen[number] = top
        number += 1
        freed += w.slots[top].held
        _set_key(w.winner, w.key, tier, top, NOBODY, w.rules.width)
    for n in range(number):
        _set_key(w.winner, w.key, tier, chosen[n], w.slots[chosen[n]].score, w.rules.width)
    lowest, kept = np.inf, 0
    for n in range(number - 1, -1, -1):
        slot = w.slots[chosen[n]]
        if freed - slot.held >= needed:
            freed -= slot.held
            chosen[n] = -1
        else:
            lowest = min(lowest, slot.score)
    for n in range(number):
        if chosen[n] >= 0:
            chosen[kept] = chosen[n]
            kept += 1
    return kept, lowest


@numba.njit(forceinline=True)
def _make_room(w, able, tokens, now):
    """Empties room for ``tokens`` in the tier whose victims' lowest score is the higher one, SRAM if they are equal."""
    w.counts[SEARCHED] = 1
    _refresh(w, now)
    best, best_number, best_score = 0, 0, NOBODY
    for tier in (SRAM, HBM):
        if (able >> tier) & 1:
            number, lowest = _choose(w, tier, w.counts[USED + tier] + tokens - _capacity(w, tier))
            if lowest > best_score:
                best, best_number, best_score = tier, number, lowest
    for n in range(best_number):
        _evict(w, w.chosen[best, n], now, w.slots[w.chosen[best, n]].held)


@numba.njit(forceinline=True)
def _fit(w, i, tokens, now):
    """FIT of a busy slot; returns where it was placed, 0 for nowhere."""
    own = w.slots[i].residency
    placed_us = w.slots[i].placed_us
    _take_out(w, i)
    w.slots[i].tokens = tokens
    able = 0
    for tier in (SRAM, HBM):
        if _can_fit(w, tier, tokens):
            able |= 1 << tier
    if not able:
        return 0
    while True:
        tier = _first_with_room(w, own, tokens)
        if tier:
            break
        if w.rules.tier_first:
            _make_room(w, able, tokens, now)
            continue
        leaves = _highest(w, able, now)
        there = w.slots[leaves].residency
        _evict(w, leaves, now, w.counts[USED + there] + tokens - _capacity(w, there))
    _put_in(w, i, tier, tokens)
    w.slots[i].placed_us = placed_us if own >= SRAM else now
    if own >= SRAM and tier != own:
        w.counts[MOVES] += 1
        _note(w, MOVED_KIND, i, tier, tokens, 0)
    return tier


@numba.njit(forceinline=True)
def _move(w, now, budget):
    """One move of TIDE; its tokens, 0 when there was nothing to do."""
    p = _lowest_live_hbm(w, now)
    if p < 0:
        return 0
    p_held = w.slots[p].held
    while not _has_room(w, SRAM, p_held):
        d = _highest(w, 1 << SRAM, now)
        if d < 0:
            return 0
        if w.slots[d].completed and not w.rules.swap_completed:
            _evict(w, d, now, w.slots[d].held)
            continue
        d_held = w.slots[d].held
        if w.rules.mode == SCAN:
            p_score = w.score(w.slots, p, now, w.own, w.memory, w.shared)
            d_score = w.score(w.slots, d, now, w.own, w.memory, w.shared)
        else:
            p_score, d_score = w.slots[p].score, w.slots[d].score
        if not (
            p_score < d_score
            and p_held + d_held <= budget
            and _has_room(w, SRAM, p_held - d_held)
            and _has_room(w, HBM, d_held - p_held)
        ):
            return 0
        _change_tier(w, p, SRAM)
        _change_tier(w, d, HBM)
        w.slots[p].promoted, w.slots[d].promoted = 1, 0
        w.counts[PROMOTIONS] += 1
        w.counts[SWAPS] += 1
        _note(w, MIGRATE_KIND, p, d, p_held, d_held)
        return p_held + d_held
    if p_held > budget:
        return 0
    _change_tier(w, p, SRAM)
    w.slots[p].promoted = 1
    w.counts[PROMOTIONS] += 1
    _note(w, MIGRATE_KIND, p, -1, p_held, 0)
    return p_held


@numba.njit(forceinline=True)
def _tide(w, now, delta):
    if now < w.counts[DMA_DONE_US] and not w.rules.ignore_dma:
        return
    budget = np.inf
    if w.rules.denominator:
        if w.rules.fixed:
            budget = float(min(np.int64(delta) * w.rules.numerator // w.rules.denominator, BUDGET_MAX))
        else:
            budget = delta * w.rules.numerator / w.rules.denominator
    moved = 0
    for _ in range(w.rules.moves):
        tokens = _move(w, now, budget)
        if tokens == 0:
            break
        moved += tokens
        budget -= tokens
    if moved:
        transfer = 0
        if w.rules.denominator:
            transfer = -(-moved * w.rules.denominator * w.rules.gap_unit_ns // (w.rules.numerator * 1000))
        w.counts[DMA_DONE_US] = max(now, w.counts[DMA_DONE_US]) + transfer


@numba.njit(forceinline=True)
def _settle(w, i, now):
    """The policy's own placement of a slot that has paused."""
    slot = w.slots[i]
    target = w.place(w.slots, i, now, w.own, w.memory, w.shared)
    if slot.residency < SRAM or target == slot.residency:
        return
    if target == ABSENT:
        _evict(w, i, now, slot.held)
    elif _has_room(w, target, slot.held):
        _change_tier(w, i, target)
        w.counts[MOVES] += 1


@numba.njit(forceinline=True)
def _gap_units(w, gap_us):
    return min(gap_us * 1000 // w.rules.gap_unit_ns, OPERAND_MAX)


@numba.njit(forceinline=True)
def _gap_end(w, i, now, gap_us):
    w.counts[EVENTS] += 1
    units = min(_gap_units(w, gap_us), w.rules.gap_max)
    if w.slots[i].turn == 1:
        w.slots[i].gap = units
    elif w.rules.fixed:
        w.slots[i].gap = (3 * units + 7 * np.int64(w.slots[i].gap)) // 10
    else:
        w.slots[i].gap = (3 * units + 7 * w.slots[i].gap) / 10
    w.slots[i].last_gap_us = gap_us
    _tell(w, GAP_END, i, now, gap_us)
    _note(w, OUTCOME_KIND, i, GAP_END_OP, 0, 0)


@numba.njit(forceinline=True)
def _take_slot(w, tokens, now):
    """The slot for ARRIVE_ANY, emptied, or -1."""
    if w.counts[TAKEN] < len(w.slots):
        w.counts[TAKEN] += 1
        return w.counts[TAKEN] - 1
    i = _highest(w, 1 << ABSENT, now)
    if i >= 0:
        w.counts[FORGETS] += 1
        _note(w, FORGET_KIND, i, 0, 0, 0)
    elif _can_fit(w, SRAM, tokens) or _can_fit(w, HBM, tokens):
        i = _highest(w, 1 << SRAM | 1 << HBM, now)
        if i >= 0:
            _evict(w, i, now, w.slots[i].held)
            # With blocks a victim may keep some of them; a slot that is taken keeps none.
            _take_out(w, i)
    if i >= 0:
        _tell(w, FORGET, i, now, 0)
        w.slots[i].residency = 0
        _index(w, i)
        w.own[i, :] = 0.0
    return i


@numba.njit(forceinline=True)
def _enter(w, i, session, now):
    """A fresh entry, absent."""
    slot = w.slots[i]
    slot.session, slot.residency, slot.busy, slot.completed = session, ABSENT, 0, 0
    slot.tokens, slot.held, slot.turn, slot.turns = 0, 0, 0, 0
    slot.gap, slot.last_gap_us, slot.promoted = w.rules.gap_prior, -1, 0
    slot.entered_us, slot.placed_us, slot.paused_us = now, now, now


@numba.njit(forceinline=True)
def _arrive(w, i, moment, now, request):
    """ARRIVE; fills in the request's record."""
    slot = w.slots[i]
    found = slot.residency
    request.found = found if found >= SRAM else 0
    request.cached = slot.held
    request.context = slot.tokens
    w.counts[USEFUL] += found == SRAM and slot.promoted
    slot.promoted = 0
    slot.turn = min(slot.turn + 1, w.rules.turn_limit)
    slot.turns += 1
    _set_busy(w, i, 1)
    slot.completed = 0
    _index(w, i)
    slot.arrived_us = now
    slot.new_tokens, slot.tool, slot.role, slot.next_us = moment.new_tokens, moment.tool, moment.role, moment.next_us
    _tell(w, ARRIVE, i, now, found)
    request.placed = _fit(w, i, moment.tokens, now)


#: What became of one request: where it was found and placed (0 nowhere), the tokens then in that tier and the
#: context the session had had, the time since it was evicted (-1: it was not), microseconds.
REQUEST = np.dtype([(name, np.int64) for name in ("found", "placed", "cached", "context", "away_us")])

_SIGNATURE = types.void(
    numba.from_dtype(MOMENT)[::1],
    numba.from_dtype(REQUEST)[::1],
    types.int64[::1],
    SLOTS,
    types.float64[:, ::1],
    types.float64[:, ::1],
    types.float64[::1],
    types.int32[:, ::1],
    types.float64[:, ::1],
    types.int64[::1],
    types.int64[:, ::1],
    types.int64[::1],
    types.int64[:, ::1],
    types.NamedUniTuple(types.int64, len(Rules._fields), Rules),
    types.FunctionType(SCORE),
    types.FunctionType(EVENT),
    types.FunctionType(CHOICE),
    types.FunctionType(CHOICE),
    types.FunctionType(CHOICE),
)


@numba.njit(_SIGNATURE, cache=True)
def _replay(moments, requests, slot_of, slots, own, memory, shared, winner, key, counts, log, evicted_us, chosen, rules,
            score, event, expires, victim, place):  # fmt: skip
    # The caller holds the arrays for as long as this runs.
    slots, counts, evicted_us = _borrowed(slots), _borrowed(counts), _borrowed(evicted_us)
    w = World(
        slots, _borrowed(own), _borrowed(memory), _borrowed(shared), _borrowed(winner), _borrowed(key), counts,
        _borrowed(log), evicted_us, _borrowed(chosen), score, event, expires, victim, place, rules,
    )  # fmt: skip
    arrived = 0
    for n in range(len(moments)):
        moment = moments[n]
        now, session = moment.time_us, moment.session
        counts[DECISIONS] += counts[SEARCHED]
        counts[SEARCHED] = 0
        if w.rules.drops:
            _refresh(w, now)
        i = slot_of[session]
        if moment.arrives:
            request = requests[arrived]
            arrived += 1
            if evicted_us[session] >= 0:
                request.away_us = now - evicted_us[session]
                evicted_us[session] = -1
            opcode = ARRIVE_OP
            if i >= 0:
                _gap_end(w, i, now, moment.gap_us)
            else:
                opcode = ARRIVE_ANY_OP
                i = _take_slot(w, moment.tokens, now)
                if i >= 0:
                    if slots[i].session >= 0:
                        slot_of[slots[i].session] = -1
                    slot_of[session] = i
                    _enter(w, i, session, now)
            counts[EVENTS] += 1
            if i >= 0:
                _arrive(w, i, moment, now, request)
            _note(w, OUTCOME_KIND, i, opcode, request.found, request.placed)
        elif i >= 0:
            counts[EVENTS] += 1
            slot = slots[i]
            found = slot.residency if slot.residency >= SRAM else 0
            slot.paused_us, slot.tool, slot.next_us = now, moment.tool, moment.next_us
            if moment.last and w.rules.explicit:
                _set_busy(w, i, 0)
                slot.completed = 1
                _tell(w, COMPLETE, i, now, 0)
                _rescore(w, i, now)
                _note(w, OUTCOME_KIND, i, COMPLETE_OP, 0, 0)
                continue
            placed = 0
            if found:
                placed = _fit(w, i, moment.tokens, now)
                counts[PAUSE_BYPASSES] += placed == 0
            else:
                slot.tokens = moment.tokens
            _set_busy(w, i, 0)
            _tell(w, PAUSE, i, now, 0)
            _rescore(w, i, now)
            if w.rules.tide:
                delta = slot.gap
                if w.rules.true_delta:
                    units = OPERAND_MAX if moment.last else max(_gap_units(w, moment.gap_us), 1)
                    delta = float(min(units, w.rules.gap_max))
                _tide(w, now, delta)
            if w.rules.placed:
                _settle(w, i, now)
            _note(w, OUTCOME_KIND, i, GAP_START_OP, found, placed)
    counts[DECISIONS] += counts[SEARCHED]


def simulate(schedule, policy, capacities, p=N64, *, slots=None, hazards=None, costs=COSTS, numerator=1, denominator=2,
             moves=1, ignore_dma=False, swap_completed=False, gap_prior=None, seed=0, log=False):  # fmt: skip
    """Replays a schedule under a policy.

    Parameters
    ----------
    schedule : Schedule
        Its load says whether completion is explicit or silent and which operand GAP_START has.
    policy : Policy
    capacities : tuple of int, str
        SRAM and HBM tokens, or what ``schedule.capacities`` reads.
    p : Params
        Formats, and the number of slots unless ``slots`` is given.
    slots : int, optional
        Session slots; may be more than hardware has.
    hazards : sequence, optional
        By turn: h_Z as integers, or h as numbers in 0 ... 1; default the schedule's own law.
    costs : Costs
    numerator, denominator : int
        DMA tokens per gap unit; denominator 0 is unlimited.
    moves, ignore_dma, swap_completed
        As in ``engine.Config``.
    gap_prior : int, optional
        Gap units; default the schedule's mean gap.
    seed : int
        For policies that draw.
    log : bool
        Keep every answer, ``Result.log``.

    Returns
    -------
    Result

    Raises
    ------
    ValueError
        For a bad size, or a policy whose victim or expires function broke its rules.
    """
    slots = p.sessions if slots is None else slots
    if isinstance(slots, bool) or not isinstance(slots, int) or slots < 1:
        raise ValueError(f"slots must be a positive integer, not {slots!r}")
    sram, hbm = schedule.capacities(capacities) if isinstance(capacities, str) else capacities
    for name, value in (("SRAM capacity", sram), ("HBM capacity", hbm)):
        if value < 0:
            raise ValueError(f"{name} must not be negative, not {value!r}")
    law = list(schedule.hazard_law(p.turns) if hazards is None else hazards)
    if len(law) != p.turns:
        raise ValueError(f"hazards must be {p.turns} numbers, not {len(law)!r}")
    if all(isinstance(h, int | np.integer) for h in law):
        quantised, law = law, [h / p.hazard_max for h in law]
    else:
        quantised = [quantise(h, p.hazard_bits) for h in law]
    setting = Setting(schedule, p, tuple(map(int, quantised)), tuple(map(float, law)), (sram, hbm), costs, slots, seed)
    shared = np.ascontiguousarray(policy.prepare(setting), dtype=np.float64)
    prior = min(schedule.mean_gap_us * 1000 // p.gap_unit_ns, p.gap_max) if gap_prior is None else gap_prior
    width = 1 << max(slots - 1, 1).bit_length() if slots > FEW_SLOTS else 0
    rules = Rules(
        mode=policy.mode,
        learns=int(policy.event is not no_event),
        tide=int(policy.tide),
        placed=int(policy.place is not None),
        drops=int(policy.drops),
        block=policy.block,
        fixed=int(policy.fixed),
        explicit=int(schedule.load.completion == "explicit"),
        true_delta=int(schedule.load.delta == "true"),
        cap_sram=sram,
        cap_hbm=hbm,
        numerator=numerator,
        denominator=denominator,
        moves=moves,
        ignore_dma=int(ignore_dma),
        swap_completed=int(swap_completed),
        gap_unit_ns=p.gap_unit_ns,
        gap_max=min(p.gap_max, NEVER),
        gap_prior=prior,
        turn_limit=p.turn_limit,
        width=width,
        tier_first=int(policy.tier_first),
    )
    table = np.zeros(slots, dtype=SLOT)
    table["session"] = -1
    arrivals = int(schedule.moments["arrives"].sum())
    requests = np.zeros(arrivals, dtype=REQUEST)
    requests["away_us"] = -1
    winner = np.zeros((TREES, 2 * width), dtype=np.int32)
    winner[:, width:] = np.arange(width)
    for node in range(width - 1, 0, -1):
        winner[:, node] = winner[:, 2 * node]
    counts = np.zeros(COUNTS, dtype=np.int64)
    counts[FRESH_US] = -1
    # Every event answers once, and evicts or moves no more than were placed before.
    lines = 12 * len(schedule.moments) + slots if log else 0
    answers = np.zeros((lines, LOG_WIDTH), dtype=np.int64)
    begin = time.perf_counter()
    _replay(
        schedule.moments,
        requests,
        np.full(schedule.sessions, -1, dtype=np.int64),
        table,
        np.zeros((slots, policy.own)),
        np.zeros((schedule.sessions, policy.memory)),
        shared,
        winner,
        np.full((TREES, max(slots, width)), NOBODY),
        counts,
        answers,
        np.full(schedule.sessions, -1, dtype=np.int64),
        np.zeros((HBM + 1, slots), dtype=np.int64),
        rules,
        policy.score,
        policy.event,
        policy.expires,
        policy.victim,
        policy.victim if policy.place is None else policy.place,
    )
    seconds = time.perf_counter() - begin
    if counts[FAULT]:
        broken = ("victim named a slot that may not leave", "expires named a time that is not in the future")
        raise ValueError(f"policy {policy.name}: {broken[counts[FAULT] - 1]}")
    return Result(
        schedule=schedule,
        policy=policy,
        costs=costs,
        requests=requests,
        events=int(counts[EVENTS]),
        decisions=int(counts[DECISIONS]),
        evictions=int(counts[EVICTIONS]),
        evicted_tokens=int(counts[EVICTED_TOKENS]),
        forgets=int(counts[FORGETS]),
        moves=int(counts[MOVES]),
        promotions=int(counts[PROMOTIONS]),
        useful_promotions=int(counts[USEFUL]),
        pause_bypasses=int(counts[PAUSE_BYPASSES]),
        seconds=seconds,
        shared=shared,
        log=answers[: counts[LOGGED]],
    )
