"""Index tables: the session leaves whose return costs the most memory for what it saves, learned as the load runs.

A session idle for e in a class of waits has the index I(e) = min over x of E[min(R, x) | e] / P(R <= x | e), R being
the time until it returns: the least token-time a unit of return costs if it may be dropped again later (Gittins). The
highest index leaves. All arithmetic is in integers, as hardware and its driver would do it:

* Ages and gaps count stamps of 2**10 us. ``BINS`` bins of half an octave (second halves begin at 1.5 * 2**k); an entry
  is 16 log2(16 I) at the bin's start, I in stamps, ``ENTRY_BITS`` bits, or fewer without its lowest bits. The score
  interpolates with two bits of the age; equal indexes leave in the order of their stamps.
* A class is a tool (``TOOLS``, 0: not told) and the session's latest gap (``GAPS``: none yet, below one stamp, then
  two octaves each). The decision path holds ``TOOLS * GAPS`` tables of ``BINS`` entries, 17.5 KiB, and a slot 32 bits
  of stamp and 8 of class. It subtracts, finds a leading one, reads two entries, shifts and adds.
* Off that path two 16-bit counters a bin, returns and ends without return (the slot was given away), of each tool and
  gap, of each tool, of each gap and of all: 63 KiB. A class halves all its counters at ``HALVE`` samples.
* From the counters a refresh makes hazards, 16 bits: (returns + k * parent's hazard) / (at risk + k). The parent of all
  is a law without scale, whose index grows with the age: an empty table is LRU. The parent of a tool and of a gap is
  all; that of both together is their product over that of all, so each counts by itself until the pair is known.
"""

import json
from functools import cache, partial
from pathlib import Path

import numba
import numpy as np

from unison.model.policies.base import (
    ARRIVE,
    COMPLETE,
    COMPLETED,
    FORGET,
    GAP_END,
    NEVER,
    PAUSE,
    RESCORE,
    STEPPED,
    Policy,
    event,
    expires,
    score,
)

__all__ = ["BINS", "CLASSES", "PARENTS", "TABLES", "age_bin", "bin_edge", "index", "learned", "make_tables"]

STAMP_SHIFT = 10
STAMP_MAX = (1 << 32) - 1
BINS = 56
TOOLS = GAPS = 16
ENTRY_BITS = 10
#: Samples until the first refresh; samples at which a class halves.
FIRST, HALVE = 8, 1 << 15
#: Hazards of the law without scale, P(R > e) ~ e**-0.644, in units of 2**-16: of the first two bins, which are whole
#: octaves, and of the first and the second half of an octave.
SCALE_FREE_FIRST, SCALE_FREE = (1 << 15, 23600), (15104, 11072)
#: Largest hazard that a product may have, so that a wait never ends for sure.
HAZARD_MAX = 60000
#: Pseudo-samples a class is given by tables of other traces.
TRAINED = 32
#: The gain in saved tokens, as a shift, that LRU must have to rank instead of the index.
MARGIN_SHIFT = 6
TABLES = Path(__file__).parents[1] / "index_tables.json"

#: Classes of the counters: all, tools, gaps, tool and gap.
ALL, TOOL, GAP, BOTH = 0, 1, 1 + TOOLS, 1 + TOOLS + GAPS
CLASSES = BOTH + TOOLS * GAPS
#: The duel watches at most so many slots, evenly spread, and lends them their share of the memory.
WATCHED = 64
#: Places in ``shared``. LOST: lowest bits an entry does without. SIZE_HALVES: twice the size exponent. STRIDE (every
#: so manyth slot is watched), CAPACITY, USED, SAVED: of the duel, the last two by ranking, LRU first; LRU_RANKS: who
#: won. SHRINK, STEP, PARENT: parameters of ``index``, the last as its place in ``PARENTS``.
SAMPLES, DUE, GAP_OCTAVES, LOST, SIZE_HALVES, STRIDE, CAPACITY, USED, SAVED, LRU_RANKS = 0, 1, 2, 3, 4, 5, 6, 7, 9, 11
SHRINK, STEP, PARENT, PRIOR = 12, 13, 14, 15
PARENTS = ("product", "tool", "gap")
RETURNS = PRIOR + BINS
ENDS = RETURNS + CLASSES * BINS
TOTALS = ENDS + CLASSES * BINS
HAZARDS = TOTALS + CLASSES
ENTRIES = HAZARDS + CLASSES * BINS
RESOLVED = ENTRIES + CLASSES * BINS
SHARED = RESOLVED + TOOLS * GAPS
#: Places in ``own``: the class of the present wait plus 1, 0 for none; for the speed of the model alone, the index
#: score and when it changes, 0 if it is not known; of the duel: tokens and the two residency bits.
CLASS, INDEX, UNTIL, TOKENS, GHOST = 0, 1, 2, 3, 4


@numba.njit(cache=True)
def _bits(x):
    # The exponent of a float64, which is faster than frexp.
    return max((np.float64(x).view(np.int64) >> 52) - 1022, 0)


@numba.njit(cache=True)
def age_bin(stamps):
    """The bin of an age or a gap in stamps."""
    if stamps < 2:
        return stamps
    octave = _bits(stamps) - 1
    return min(2 * octave + ((stamps >> (octave - 1)) & 1), BINS - 1)


@numba.njit(cache=True)
def bin_edge(b):
    """The least age of bin ``b``, stamps."""
    return b if b < 2 else (2 + (b & 1)) << (b // 2 - 1)


@numba.njit(cache=True)
def _width_shift(b):
    """The logarithm of the width of bin ``b``."""
    return max(b // 2 - 1, 0)


@numba.njit(cache=True)
def _log(x):
    """16 log2(x), the mantissa taken for its own logarithm."""
    octave = _bits(x) - 1
    return 16 * octave + (((x - (1 << octave)) << 4) >> octave)


@numba.njit(cache=True)
def _fill(shared, row, parent):
    """Hazards and entries of a class from its counters and its parent's hazards."""
    first, shrink = row * BINS, np.int64(shared[SHRINK])
    at_risk = np.int64(0)
    for b in range(BINS):
        at_risk += np.int64(shared[RETURNS + first + b] + shared[ENDS + first + b])
    hazards = np.zeros(BINS, dtype=np.int64)
    for b in range(BINS):
        returns = np.int64(shared[RETURNS + first + b])
        hazards[b] = ((returns << 16) + shrink * parent[b]) // (at_risk + shrink)
        shared[HAZARDS + first + b] = hazards[b]
        at_risk -= returns + np.int64(shared[ENDS + first + b])
    for b in range(BINS):
        waiting, time, returned = np.int64(1 << 24), np.int64(0), np.int64(0)
        best = np.int64(1 << 62)
        for later in range(b, BINS):
            # Who returns within a bin does so at its middle.
            time += ((waiting * ((1 << 17) - hazards[later])) >> 17) << _width_shift(later)
            back = (waiting * hazards[later]) >> 16
            returned += back
            waiting -= back
            if returned > 0:
                best = min(best, (time << 4) // returned)
        entry = min(_log(max(best, 1)), (1 << ENTRY_BITS) - 1)
        shared[ENTRIES + first + b] = entry >> np.int64(shared[LOST])


@numba.njit(cache=True)
def _hazards(shared, row):
    first = HAZARDS + row * BINS
    return shared[first : first + BINS].astype(np.int64)


@numba.njit(cache=True)
def _refresh(shared):
    _fill(shared, ALL, shared[PRIOR : PRIOR + BINS].astype(np.int64))
    common = _hazards(shared, ALL)
    for row in range(TOOL, BOTH):
        if shared[TOTALS + row]:
            _fill(shared, row, common)
    for pair in range(TOOLS * GAPS):
        tool, gap, both = TOOL + pair // GAPS, GAP + pair % GAPS, BOTH + pair
        if shared[TOTALS + tool] and shared[TOTALS + gap]:
            parent = _hazards(shared, gap if shared[PARENT] == 2 else tool)
            if shared[PARENT] == 0:
                parent = np.minimum(parent * _hazards(shared, gap) // np.maximum(common, 1), HAZARD_MAX)
            _fill(shared, both, parent)
            shared[RESOLVED + pair] = both
        elif shared[TOTALS + tool]:
            shared[RESOLVED + pair] = tool
        else:
            shared[RESOLVED + pair] = gap if shared[TOTALS + gap] else ALL


@numba.njit(cache=True)
def _count(shared, row, b, place):
    shared[place + row * BINS + b] += 1
    shared[TOTALS + row] += 1
    if shared[TOTALS + row] < HALVE:
        return
    shared[TOTALS + row] = 0
    for counters in (RETURNS + row * BINS, ENDS + row * BINS):
        for k in range(BINS):
            shared[counters + k] = shared[counters + k] // 2
            shared[TOTALS + row] += shared[counters + k]


@numba.njit(cache=True)
def _class(slots, i, shared):
    tool = slots[i].tool
    gap = 0
    if slots[i].last_gap_us >= 0:
        octaves = np.int64(shared[GAP_OCTAVES])
        gap = min(1 + (_bits(slots[i].last_gap_us >> STAMP_SHIFT) + octaves - 1) // octaves, GAPS - 1)
    return (0 if tool < 0 else 1 + tool % (TOOLS - 1)) * GAPS + gap


@numba.njit(cache=True)
def _index_score(slots, i, now, own, shared):
    """The index score; keeps it, and until when it holds, in ``own``."""
    stamp = slots[i].paused_us >> STAMP_SHIFT
    age = (now >> STAMP_SHIFT) - stamp
    b = age_bin(age)
    row = 0
    if own[i, CLASS]:
        row = np.int64(shared[RESOLVED + np.int64(own[i, CLASS]) - 1])
    at = ENTRIES + row * BINS + b
    value = 4 * np.int64(shared[at])
    until = NEVER
    if b < BINS - 1:
        first, shift = bin_edge(b), _width_shift(b)
        quarters = (4 * (age - first)) >> shift
        value += quarters * np.int64(shared[at + 1] - shared[at])
        until = (stamp + first + ((((quarters + 1) << shift) + 3) >> 2)) << STAMP_SHIFT
    if shared[SIZE_HALVES]:
        value += (np.int64(shared[SIZE_HALVES]) * 2 * _log(slots[i].tokens)) >> np.int64(shared[LOST])
    own[i, INDEX], own[i, UNTIL] = (value << 32) + STAMP_MAX - stamp, until
    return own[i, INDEX]


@score
def _score(slots, i, now, own, memory, shared):
    if slots[i].completed:
        return COMPLETED
    if shared[LRU_RANKS]:
        return float(STAMP_MAX - (slots[i].paused_us >> STAMP_SHIFT))
    return _index_score(slots, i, now, own, shared)


@expires
def _expires(slots, i, now, own, memory, shared):
    return NEVER if slots[i].completed or shared[LRU_RANKS] else np.int64(own[i, UNTIL])


@numba.njit(cache=True)
def _learn_wait(kind, slots, i, now, value, own, shared):
    """Counts an ended wait; returns whether the tables changed."""
    if kind == PAUSE:
        own[i, CLASS], own[i, UNTIL] = 1 + _class(slots, i, shared), 0
        return False
    if kind == COMPLETE:
        own[i, CLASS] = 0
        return False
    if kind not in (GAP_END, FORGET) or own[i, CLASS] == 0:
        return False
    pair = np.int64(own[i, CLASS]) - 1
    own[i, CLASS] = 0
    wait = value >> STAMP_SHIFT
    if kind == FORGET:
        wait = (now >> STAMP_SHIFT) - (slots[i].paused_us >> STAMP_SHIFT)
    place = RETURNS if kind == GAP_END else ENDS
    for row in (ALL, TOOL + pair // GAPS, GAP + pair % GAPS, BOTH + pair):
        _count(shared, row, age_bin(wait), place)
    shared[SAMPLES] += 1
    if shared[SAMPLES] < shared[DUE]:
        return False
    shared[DUE] += max(FIRST, np.int64(shared[SAMPLES]) >> np.int64(shared[STEP]))
    _refresh(shared)
    own[:, UNTIL] = 0
    return True


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    return RESCORE if _learn_wait(kind, slots, i, now, value, own, shared) else 0


@numba.njit(cache=True)
def _leave(i, ranking, own, shared):
    if own[i, GHOST + ranking]:
        own[i, GHOST + ranking] = 0
        shared[USED + ranking] -= own[i, TOKENS]


@numba.njit(cache=True)
def _make_room(slots, ranking, now, own, shared):
    """Takes paused sessions out of what a ranking alone would hold, until the rest fits."""
    while shared[USED + ranking] > shared[CAPACITY]:
        victim, highest = -1, -1.0
        for j in range(0, len(slots), np.int64(shared[STRIDE])):
            if own[j, GHOST + ranking] and not slots[j].busy:
                value = float(STAMP_MAX - (slots[j].paused_us >> STAMP_SHIFT))
                if ranking:
                    value = own[j, INDEX] if now < own[j, UNTIL] else _index_score(slots, j, now, own, shared)
                if value > highest:
                    victim, highest = j, value
        if victim < 0:
            return
        _leave(victim, ranking, own, shared)


@event
def _learn_duel(kind, slots, i, now, value, own, memory, shared):
    changed = _learn_wait(kind, slots, i, now, value, own, shared)
    if i % np.int64(shared[STRIDE]):
        return RESCORE if changed else 0
    if kind == ARRIVE:
        for ranking in range(2):
            if own[i, GHOST + ranking]:
                shared[SAVED + ranking] += slots[i].tokens
        if max(shared[SAVED], shared[SAVED + 1]) > 64 * shared[CAPACITY]:
            shared[SAVED] = shared[SAVED] // 2
            shared[SAVED + 1] = shared[SAVED + 1] // 2
    elif kind in (COMPLETE, FORGET):
        _leave(i, 0, own, shared)
        _leave(i, 1, own, shared)
    elif kind == PAUSE:
        for ranking in range(2):
            _leave(i, ranking, own, shared)
        own[i, TOKENS] = slots[i].tokens
        for ranking in range(2):
            own[i, GHOST + ranking] = 1
            shared[USED + ranking] += slots[i].tokens
            _make_room(slots, ranking, now, own, shared)
        lru = shared[SAVED] - shared[SAVED + 1] > shared[SAVED + 1] // (1 << MARGIN_SHIFT)
        if lru != (shared[LRU_RANKS] != 0):
            shared[LRU_RANKS] = lru
            changed = True
    return RESCORE if changed else 0


def learned(shared):
    """Returns and ends of all and of each gap class that a replay counted, lists by class and bin."""
    rows = [ALL, *range(GAP, BOTH)]
    return {
        name: shared[place : place + CLASSES * BINS].reshape(CLASSES, BINS)[rows].astype(int).tolist()
        for name, place in (("returns", RETURNS), ("ends", ENDS))
    }


@cache
def _stored():
    return json.loads(TABLES.read_text())["traces"]


def _train(shared, without):
    """Starts the counters of all and of the gap classes from those of the stored traces, each of equal weight."""
    rows = [ALL, *range(GAP, BOTH)]
    sums = np.zeros((2, len(rows), BINS))
    for name, counts in _stored().items():
        if name != without:
            both = np.array([counts["returns"], counts["ends"]], dtype=float)
            sums += both / np.maximum(both.sum(axis=(0, 2), keepdims=True), 1)
    totals = sums.sum(axis=(0, 2), keepdims=True)
    counts = np.floor(TRAINED * sums / np.maximum(totals, 1e-9) + 0.5)
    for place, part in ((RETURNS, counts[0]), (ENDS, counts[1])):
        shared[place : place + CLASSES * BINS].reshape(CLASSES, BINS)[rows] = part
    shared[TOTALS : TOTALS + CLASSES][rows] = counts.sum(axis=(0, 2))


def make_tables(setting, *, theta=0.0, trained=False, gap_octaves=2, entry_bits=ENTRY_BITS, parent="product", shrink=6,
                step=2):  # fmt: skip
    """The first ``shared``: empty tables, or those of the stored traces without the setting's own."""
    shared = np.zeros(SHARED)
    shared[DUE] = FIRST
    shared[GAP_OCTAVES] = gap_octaves
    shared[LOST] = ENTRY_BITS - entry_bits
    shared[SIZE_HALVES] = 2 * theta
    shared[SHRINK], shared[STEP], shared[PARENT] = shrink, step, PARENTS.index(parent)
    shared[STRIDE] = -(-setting.slots // WATCHED)
    shared[CAPACITY] = sum(setting.capacities) // shared[STRIDE]
    shared[PRIOR : PRIOR + BINS] = (*SCALE_FREE_FIRST, *np.resize(SCALE_FREE, BINS - 2))
    if trained:
        _train(shared, setting.schedule.name)
    _refresh(shared)
    return shared


def index(name="index", *, theta=0.0, tide=False, tier_first=False, duel=False, trained=False, gap_octaves=2,
          entry_bits=ENTRY_BITS, parent="product", shrink=6, step=2, headline=False):  # fmt: skip
    """The ranking by index tables.

    Parameters
    ----------
    name : str
    theta : float
        0, 0.5 or 1: the index is multiplied by the context to this power.
    tide, tier_first : bool
        As in ``Policy``.
    duel : bool
        LRU ranks while the tokens that it would have saved alone, in one tier, exceed the index's by more than 1/64:
        of at most 64 slots two residency bits, two token counters, two scans a pause.
    trained : bool
        Starts from tables of other traces instead of empty ones.
    gap_octaves : int
        Octaves of a gap class.
    entry_bits : int
        8 to 10.
    parent : str
        Whose hazards those of a tool and gap are shrunk to: those of the "tool", of the "gap", or their "product".
    shrink : int
        Pseudo-samples at the parent's hazard.
    step : int
        Tables are refreshed when samples have grown by a part of 2**-step, at least by 8.
    headline : bool
        The summary says that this is the setting to compare others with.

    Raises
    ------
    ValueError
        For a parameter that is not among these.
    """
    if theta not in (0.0, 0.5, 1.0):
        raise ValueError(f"theta must be 0, 0.5 or 1, not {theta!r}")
    if entry_bits not in (8, 9, 10):
        raise ValueError(f"entry_bits must be 8, 9 or 10, not {entry_bits!r}")
    if gap_octaves not in (2, 3, 4):
        raise ValueError(f"gap_octaves must be 2, 3 or 4, not {gap_octaves!r}")
    if parent not in PARENTS:
        raise ValueError(f"parent must be {', '.join(PARENTS)}, not {parent!r}")
    if shrink < 1:
        raise ValueError(f"shrink must be at least 1, not {shrink!r}")
    if step < 0:
        raise ValueError(f"step must be at least 0, not {step!r}")
    settings = {"theta": theta, "trained": trained, "gap_octaves": gap_octaves, "entry_bits": entry_bits}
    settings |= {"parent": parent, "shrink": shrink, "step": step}
    return Policy(
        name=name,
        summary=("The ranking of this lab: completed" if headline else "Completed")
        + " first, then the highest index by idle time, tool and latest gap, learned online; without "
        "tools by idle time and gap, without completions told the sessions that never return count in the tables."
        + (f" Times context to the power of {theta:g}." if theta else "")
        + (" LRU ranks while it would have saved more." if duel else "")
        + (" Room is made in one tier, that of the better victims, sparing who need not leave." if tier_first else "")
        + (" Tide migrates." if tide else ""),
        score=_score,
        event=_learn_duel if duel else _learn,
        expires=_expires,
        mode=STEPPED,
        tide=tide,
        tier_first=tier_first,
        needs={"completion", "tool"},
        own=6 if duel else 3,
        prepare=partial(make_tables, **settings),
        theta=theta,
        training="other traces, then online" if trained else "online",
    )
