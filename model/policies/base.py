"""What a policy is, and how to write one.

The simulator owns time, slots, capacities, placement and accounting, with the contract's event semantics. A policy
says who leaves. It is a few small compiled functions and a ``Policy`` that lists them, in a file of its own in this
folder, and enters the table ``POLICIES`` of ``unison.model.policies``.

A first policy, LRU that lets completed sessions go first::

    from unison.model.policies.base import COMPLETED, Policy, score

    @score
    def _age(slots, i, now, own, memory, shared):
        return COMPLETED if slots[i].completed else -slots[i].paused_us

    LRU_COMPLETION = Policy(name="lru-completion", summary="...", score=_age, needs={"completion"})

**Functions.** Each is decorated with the decorator of its kind below: that fixes the signature, so the simulator is
compiled once and the function alone, in a fraction of a second, and kept on disk. All take the same arrays:

* ``slots``: one record of ``SLOT`` a slot, kept by the simulator; read its fields, write none. ``i`` is the slot.
* ``now``: microseconds, int64.
* ``own``: float64[slots, Policy.own], zero when a session enters the slot: what hardware would keep in the entry.
* ``memory``: float64[sessions, Policy.memory], by ``slots[i].session``: outlives the slot (ghosts, history).
* ``shared``: float64[any], from ``Policy.prepare``: tables, parameters, learned counts, queues. A float64 holds
  integers exactly below 2**53.

``@score`` ``(slots, i, now, own, memory, shared) -> float64``
    The paused slot of the **highest** score leaves; ties go to the lowest slot. Finite, or COMPLETED (infinite). Called
    for absent slots too: the highest of these is forgotten when a slot is needed. Busy slots are never asked for.
    Fixed-point scores are integers below 2**53 here.
``@event`` ``(kind, slots, i, now, value, own, memory, shared) -> int64``
    Learns. Called for ARRIVE (value: residency found, ABSENT, SRAM or HBM; the turn is counted, the slot not yet
    placed), GAP_END (value: the gap, us; before the ARRIVE of a session that still has its slot; ``slots[i].tool`` is
    the class of that wait), PAUSE (GAP_START; value: 0; before the score), COMPLETE (before the score), EVICT (the
    slot loses its tokens; value: tokens lost), FORGET (an absent slot is given to somebody else; value: 0; ``own`` is
    zeroed after it). Returns 0, or RESCORE if scores of other slots changed with it (a new table): then every paused
    slot is scored again before the next search.
``@expires`` ``(slots, i, now, own, memory, shared) -> int64``
    STEPPED only: the first time after ``now`` at which the score of ``i`` changes if nothing happens to it, or NEVER.
``@victim`` ``(slots, residencies, now, own, memory, shared) -> int64``
    VICTIM only: the slot that leaves. ``residencies``: bit r is set if slots of residency r are asked for (1 << ABSENT
    alone to forget, else tiers). Must be a paused slot of these (``is_candidate``); one exists.
``@place`` ``(slots, i, now, own, memory, shared) -> int64``
    Instead of Tide: where the pausing resident ``i`` goes: SRAM, HBM (it moves if that tier has room; the DMA engine
    is neither needed nor taken) or ABSENT (it leaves at once, counted as an eviction).

**Modes** say how the highest score is found; the choice changes speed, never results:

* STATIC: a score changes only at its own slot's events (or RESCORE). O(log N).
* STEPPED: it also changes at times that ``expires`` tells (binned ages). O(log N) a change.
* SCAN: it depends on ``now``; every candidate is scored at every search. O(N); avoid for thousands of slots.
* VICTIM: the policy searches itself (queues).

LRU is STATIC (minus the time of the pause orders as the idle time does), and so is whatever orders by
idle time inside a class: score = class * 2**k - age order. A score that looks at the idle time in bins is STEPPED.

**Files.** The compiled form on disk is renewed when its own source file changes, and not for what it imports: keep
compiled helper functions and constants that you tune in the policy's own file, and tables and parameters in ``shared``.

**Honesty.** ``needs`` names the hints that a policy reads: ``completion`` (``slots[i].completed`` is never set with
silent completion), ``tool``, ``role``, ``step_graph`` (no trace has one). Where they are missing the
result is marked degraded; what the policy then does must be written in its summary. ``causal=False`` for whoever
reads ``slots[i].next_us``, the future.

**Tests.** ``tests/test_policies_core.py`` shows how a policy is checked on a hand-computed example.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numba
import numpy as np
from numba import types

from unison.formats import Residency
from unison.model.schedule import NEVER

__all__ = [
    "ABSENT",
    "SRAM",
    "HBM",
    "NEVER",
    "ARRIVE",
    "GAP_END",
    "PAUSE",
    "COMPLETE",
    "EVICT",
    "FORGET",
    "COMPLETED",
    "DROP",
    "RESCORE",
    "STATIC",
    "STEPPED",
    "SCAN",
    "VICTIM",
    "HINTS",
    "SLOT",
    "Setting",
    "Policy",
    "score",
    "event",
    "expires",
    "victim",
    "place",
    "is_candidate",
]

ABSENT, SRAM, HBM = Residency.ABSENT.value, Residency.SRAM.value, Residency.HBM.value
ARRIVE, GAP_END, PAUSE, COMPLETE, EVICT, FORGET = range(6)
STATIC, STEPPED, SCAN, VICTIM = range(4)
#: The score of a session that will not return: above all others.
COMPLETED = float("inf")
#: With ``Policy.drops``: a resident with this score or a higher finite one leaves at once, needed or not.
DROP = 1e300
RESCORE = 1
HINTS = ("completion", "tool", "role", "step_graph")

#: One slot, all int64 but ``gap`` and ``score``.
#:
#: session: index into the schedule. residency: 0 (never used), ABSENT, SRAM or HBM. busy, completed: flags.
#: tokens: context. held: tokens in the tier, ``tokens`` unless a policy of blocks shrank the session, 0 if absent.
#: new_tokens: of the latest prompt. turn: turns begun in this slot, saturating as the hardware does; turns: without
#: saturation. gap: the contract's average, gap units, whole unless ``Policy.fixed`` is False.
#: entered_us: when the session got the slot. placed_us: when it last became a resident. arrived_us, paused_us: the
#: latest arrival and the latest end of an answer. last_gap_us: -1 before the first gap ended.
#: tool, role: classes, UNKNOWN (-1) where not told. next_us: the next arrival, NEVER if none: the future.
#: score, expires: the simulator's copies. promoted: moved to SRAM by Tide since the latest pause.
SLOT = np.dtype(
    [
        (name, np.float64 if name in ("gap", "score") else np.int64)
        for name in (
            "session",
            "residency",
            "busy",
            "completed",
            "tokens",
            "held",
            "new_tokens",
            "turn",
            "turns",
            "gap",
            "entered_us",
            "placed_us",
            "arrived_us",
            "paused_us",
            "last_gap_us",
            "tool",
            "role",
            "next_us",
            "score",
            "expires",
            "promoted",
        )
    ]
)

SLOTS = numba.from_dtype(SLOT)[::1]
_STATE = (types.float64[:, ::1], types.float64[:, ::1], types.float64[::1])
SCORE = types.float64(SLOTS, types.int64, types.int64, *_STATE)
EVENT = types.int64(types.int64, SLOTS, types.int64, types.int64, types.int64, *_STATE)
CHOICE = types.int64(SLOTS, types.int64, types.int64, *_STATE)


def score(function):
    """Compiles a score function."""
    return numba.njit(SCORE, cache=True)(function)


def event(function):
    """Compiles an event function."""
    return numba.njit(EVENT, cache=True)(function)


def _choice(function):
    return numba.njit(CHOICE, cache=True)(function)


def expires(function):
    """Compiles an expires function."""
    return _choice(function)


def victim(function):
    """Compiles a victim function; its second argument is the mask of residencies."""
    return _choice(function)


def place(function):
    """Compiles a place function."""
    return _choice(function)


@numba.njit(cache=True)
def is_candidate(slots, i, residencies):
    """Whether slot ``i`` is paused and its residency's bit is set in ``residencies``."""
    return not slots[i].busy and slots[i].residency != 0 and (residencies >> slots[i].residency) & 1 == 1


@score
def no_score(slots, i, now, own, memory, shared):
    """All alike: the lowest slot leaves."""
    return 0.0


@event
def no_event(kind, slots, i, now, value, own, memory, shared):
    """Learns nothing."""
    return 0


@_choice
def no_choice(slots, i, now, own, memory, shared):
    """The choice of a hook that is not used."""
    return -1


@dataclass(frozen=True)
class Setting:
    """What ``Policy.prepare`` may look at.

    Attributes
    ----------
    schedule : Schedule
        A causal policy takes only its class names and load from it.
    p : Params
    hazards : tuple
        The hazard table that software would load: h_Z integers, by turn.
    hazard_law : tuple of float
        The same as fractions, not quantised.
    capacities : tuple of int
        SRAM, HBM tokens.
    costs : Costs
        t_s, t_h, t_p.
    slots : int
    seed : int
        For policies that draw.
    """

    schedule: object
    p: object
    hazards: tuple
    hazard_law: tuple
    capacities: tuple
    costs: object
    slots: int
    seed: int


def _nothing(setting):
    return np.zeros(1)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One policy: compiled functions and what the simulator must know of them.

    Attributes
    ----------
    name : str
        Key of ``POLICIES``: lower case, words joined by ``-``.
    summary : str
        What leaves, in a sentence; parameters; what it does without a hint it needs; the source.
    score, event, expires, victim, place : compiled functions
        The hooks; those left out do nothing.
    mode : int
        STATIC, STEPPED, SCAN or VICTIM.
    tide : bool
        The contract's TIDE runs at every GAP_START, with this policy's scores.
    tier_first : bool
        STATIC, STEPPED: FIT makes room in one tier. For each tier that can fit, victims are taken from the highest
        score down until they suffice, then, from the lowest score up, those that need not leave are spared. The tier
        whose victims' lowest score is the higher one is emptied of them; SRAM if these are equal. Otherwise the
        highest score of all tiers that can fit leaves, again and again, until one of them has room.
    drops : bool
        STEPPED only: a resident leaves as soon as its score reaches DROP.
    block : int
        0: whole sessions leave. Else: tokens of a block; a victim loses, from its tail, as many blocks as are needed.
    fixed : bool
        Gap averages and budgets in the contract's integers; False: in floating point.
    needs : frozenset of str
        Of HINTS.
    causal : bool
        False: it looks into the future.
    own, memory : int
        Numbers it keeps a slot, a session.
    prepare : callable
        ``prepare(setting) -> float64[any]``, the first ``shared``, at least one number.
    theta, training : float, str or None
        The size exponent and where tables were learned, for the results; None where that means nothing.
    """

    name: str
    summary: str
    score: Callable = no_score
    event: Callable = no_event
    expires: Callable = no_choice
    victim: Callable = no_choice
    place: Callable | None = None
    mode: int = STATIC
    tide: bool = False
    tier_first: bool = False
    drops: bool = False
    block: int = 0
    fixed: bool = True
    needs: frozenset = field(default_factory=frozenset)
    causal: bool = True
    own: int = 0
    memory: int = 0
    prepare: Callable = _nothing
    theta: float | None = None
    training: str | None = None

    def __post_init__(self):
        object.__setattr__(self, "needs", frozenset(self.needs))
        unknown = self.needs - set(HINTS)
        if unknown:
            raise ValueError(f"policy {self.name}: needs must be of {', '.join(HINTS)}, not {sorted(unknown)}")
        if self.mode not in (STATIC, STEPPED, SCAN, VICTIM):
            raise ValueError(f"policy {self.name}: mode must be STATIC, STEPPED, SCAN or VICTIM, not {self.mode!r}")
        if self.drops and self.mode != STEPPED:
            raise ValueError(f"policy {self.name}: drops needs mode STEPPED")
        if self.tier_first and (self.block or self.mode not in (STATIC, STEPPED)):
            raise ValueError(f"policy {self.name}: tier_first needs mode STATIC or STEPPED and whole sessions")
        if self.tide and (self.place is not None or self.drops or self.mode == VICTIM):
            raise ValueError(f"policy {self.name}: tide needs scores and excludes place and drops")

    def replace(self, **changes):
        """The same policy with some of it changed."""
        return replace(self, **changes)
