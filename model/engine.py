"""The golden model: one step per event, its answers and the whole state after it, bit for bit.

The names FIT, TIDE, p* and d* are the contract's. *Paused* means neither free nor busy.
"""

import math
from dataclasses import dataclass

from unison.formats import (
    ANSWER_LAYOUTS,
    DMA_FAILED,
    EVENT,
    OPERAND_MAX,
    AnswerKind,
    ErrorCode,
    Opcode,
    Place,
    Residency,
    entry_layout,
    pack,
    unpack,
)
from unison.model.arithmetic import FixedPoint
from unison.params import MAX_MOVES, RATIO_BITS

__all__ = ["COUNTERS", "Answer", "Config", "Engine", "Entry", "Step"]

#: The counter registers that follow from the events alone.
COUNTERS = (
    "EVENTS",
    "HITS_SRAM",
    "HITS_HBM",
    "MISSES",
    "BYPASSES",
    "FORGETS",
    "EVICTIONS_FIT",
    "EVICTIONS_SLOT",
    "EVICTIONS_TIDE",
    "EVICTIONS_DMA",
    "MOVES",
    "PROMOTIONS",
    "SWAPS",
    "ERRORS_OPCODE",
    "ERRORS_SLOT",
    "ERRORS_TOKENS",
    "ERRORS_STATE",
    "DECISIONS",
)
COUNTER_MASK = (1 << 32) - 1

FREE, ABSENT, SRAM, HBM = (r.value for r in (Residency.FREE, Residency.ABSENT, Residency.SRAM, Residency.HBM))
#: The tiers in the order in which FIT tries them.
TIERS = (Residency.SRAM, Residency.HBM)
#: The tier of an entry's residency, or None.
TIER_OF = {FREE: None, ABSENT: None, SRAM: Residency.SRAM, HBM: Residency.HBM}
#: What ``found`` and ``placed`` say of an entry's residency.
PLACE_OF = {FREE: Place.NONE.value, ABSENT: Place.NONE.value, SRAM: Place.SRAM.value, HBM: Place.HBM.value}
FOUND_COUNTER = {Place.NONE.value: "MISSES", Place.SRAM.value: "HITS_SRAM", Place.HBM.value: "HITS_HBM"}
#: Opcodes that name a slot in word 0, and those that need tokens.
WITH_SLOT = frozenset({Opcode.ARRIVE, Opcode.GAP_START, Opcode.GAP_END, Opcode.COMPLETE, Opcode.RELEASE})
WITH_TOKENS = frozenset({Opcode.ARRIVE, Opcode.ARRIVE_ANY, Opcode.GAP_START})
OPCODES = {opcode.value: opcode for opcode in Opcode}


@dataclass(frozen=True, kw_only=True)
class Config:
    """What software configures. Validated by the engine that takes it, against the sizes of its instance.

    Attributes
    ----------
    capacity_sram, capacity_hbm : int
        Tokens, below 2**p.capacity_bits; may be set below the usage.
    numerator, denominator : int
        DMA bandwidth, tokens per gap unit, 16 bits each; denominator 0 is unlimited.
    gap_prior : int
        Gap average of a session before its first gap has closed, gap units, 0 ... p.gap_max.
    moves : int
        Most moves of one GAP_START, 1 ... 8.
    ignore_dma : bool
        TIDE searches even while the DMA engine is busy.
    swap_completed : bool
        TIDE swaps a completed d* like any other instead of evicting it.
    """

    capacity_sram: int = 0
    capacity_hbm: int = 0
    numerator: int = 1
    denominator: int = 2
    gap_prior: int = 0
    moves: int = 1
    ignore_dma: bool = False
    swap_completed: bool = False

    def check(self, p):
        """ValueError, with the bad value, if a field does not fit an instance ``p``."""
        capacity_max = (1 << p.capacity_bits) - 1
        ratio_max = (1 << RATIO_BITS) - 1
        for name, low, high in (
            ("capacity_sram", 0, capacity_max),
            ("capacity_hbm", 0, capacity_max),
            ("numerator", 0, ratio_max),
            ("denominator", 0, ratio_max),
            ("gap_prior", 0, p.gap_max),
            ("moves", 1, MAX_MOVES),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"{name} must be an integer in {low} ... {high}, not {value!r}")
        for name in ("ignore_dma", "swap_completed"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be a bool, not {getattr(self, name)!r}")


@dataclass(slots=True)
class Entry:
    """One slot of the session table, as plain integers; those of a free entry and the score of a busy one mean nothing.

    Attributes
    ----------
    residency : int
        Code of ``formats.Residency``.
    busy, completed : int
        Flags, 0 or 1.
    turn : int
        Turns begun, saturating at p.turn_limit.
    gap : int
        Gap average, gap units.
    tokens : int
        Context; counts as usage of the tier of a resident.
    score : int
        The higher, the sooner the session leaves.
    """

    residency: int = FREE
    busy: int = 0
    completed: int = 0
    turn: int = 0
    gap: int = 0
    tokens: int = 0
    score: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its kind and the fields of that kind's layout as integers, without the kind and the padding."""

    kind: AnswerKind
    fields: dict

    @property
    def word(self):
        """The 64-bit answer, word 0 in the low half."""
        return pack(ANSWER_LAYOUTS[self.kind], kind=self.kind, **self.fields)


@dataclass(frozen=True, slots=True)
class Step:
    """What one event did.

    Attributes
    ----------
    answers : tuple of Answer
        In order; the last one, and no other, is an OUTCOME or an ERROR.
    searched : bool
        The event was a decision, it searched the ranking at least once: an ARRIVE_ANY without a free slot (even when
        it ends without a slot), a FIT that evicts, or a TIDE that passed the test of the DMA engine (even when there
        is no HBM resident).
    """

    answers: tuple
    searched: bool


class Engine:
    """The scheduler as its software sees it.

    Parameters
    ----------
    p : Params
        Sizes and formats.
    config : Config
        First configuration.
    hazards : sequence
        p.turns hazards, in the live and in the shadow table from the start; None for all 0. h_Z for fixed point.
    arithmetic : FixedPoint or FloatingPoint
        How gaps, scores and budgets are computed; None for ``FixedPoint(p)``.

    Attributes
    ----------
    entries : list of Entry
        The session table, one entry a slot.
    used, busy_used : dict
        Tokens of all and of the busy residents of ``Residency.SRAM`` and ``Residency.HBM``.
    dma_busy : bool
        A move was made and no DMA_DONE came since.
    last_moves : set of int
        Slots that a failed DMA_DONE would evict.
    counters : dict
        Value of each of ``COUNTERS``; they wrap at 2**32.
    hazards, shadow_hazards : list
        The live and the shadow table.

    Raises
    ------
    ValueError
        For a configuration or a hazard that does not fit ``p``.
    """

    def __init__(self, p, config=None, hazards=None, arithmetic=None):
        self.p = p
        self.arithmetic = FixedPoint(p) if arithmetic is None else arithmetic
        self.configure(Config() if config is None else config)
        hazards = [0] * p.turns if hazards is None else list(hazards)
        if len(hazards) != p.turns:
            raise ValueError(f"the hazard table has {p.turns} rows, not {len(hazards)!r}")
        self.shadow_hazards = [self.arithmetic.check_hazard(value) for value in hazards]
        self.hazards = list(self.shadow_hazards)
        self.entries = [Entry() for _ in range(p.sessions)]
        self.used = dict.fromkeys(TIERS, 0)
        self.busy_used = dict.fromkeys(TIERS, 0)
        self.dma_busy = False
        self.last_moves = set()
        self.counters = dict.fromkeys(COUNTERS, 0)
        self._layout = entry_layout(p)
        self._answers = []
        self._searched = False

    def configure(self, config):
        """Replaces the configuration; nothing is placed or evicted by it."""
        config.check(self.p)
        self.config = config
        self._capacity = {Residency.SRAM: config.capacity_sram, Residency.HBM: config.capacity_hbm}

    def write_hazard(self, turn, value):
        """Writes one row of the shadow table; ValueError for a turn or a value outside the table's."""
        if not isinstance(turn, int) or not 0 <= turn < self.p.turns:
            raise ValueError(f"turn must lie in 0 ... {self.p.turn_limit}, not {turn!r}")
        self.shadow_hazards[turn] = self.arithmetic.check_hazard(value)

    def commit(self):
        """Copies the shadow table to the live one and scores every paused entry again."""
        self.hazards = list(self.shadow_hazards)
        for entry in self.entries:
            if entry.residency != FREE and not entry.busy:
                self._rescore(entry)

    def entry_word(self, slot):
        """The entry of a slot packed by ``entry_layout(p)``; fixed point only."""
        entry = self.entries[slot]
        return pack(
            self._layout,
            tokens=entry.tokens,
            turn=entry.turn,
            residency=entry.residency,
            busy=entry.busy,
            completed=entry.completed,
            gap=entry.gap,
            score=entry.score,
        )

    def entry_mask(self, slot):
        """The bits of ``entry_word`` that are defined: of a free entry its residency, of a busy one not the score."""
        entry = self.entries[slot]
        defined = [
            field
            for name, field in self._layout
            if name == "residency" or (entry.residency != FREE and not (entry.busy and name == "score"))
        ]
        return sum(((1 << field.width) - 1) << field.offset for field in defined)

    def step(self, word0, operand):
        """Executes one event.

        Parameters
        ----------
        word0, operand : int
            The event's words, 32 bits each, any values: what is illegal answers ERROR and changes nothing.

        Returns
        -------
        Step

        Raises
        ------
        ValueError
            If a word is not an integer of 32 bits.
        """
        for name, word in (("word0", word0), ("operand", operand)):
            if not isinstance(word, int) or not 0 <= word <= OPERAND_MAX:
                raise ValueError(f"{name} must be an integer of 32 bits, not {word!r}")
        event = unpack(EVENT, word0)
        slot, tokens = event["slot"], event["tokens"]
        opcode = OPCODES.get(event["opcode"])
        self._answers = []
        self._searched = False
        self._count("EVENTS")
        error = self._error(opcode, slot, tokens)
        if error is not None:
            self._count(f"ERRORS_{error.name}")
            self._answer(AnswerKind.ERROR, slot=0, code=error.value, word0=word0)
        else:
            slot, found, placed = self._execute(opcode, slot, tokens, operand)
            self._answer(
                AnswerKind.OUTCOME,
                slot=0 if slot is None else slot,
                opcode=opcode.value,
                slot_valid=int(slot is not None),
                found=found,
                placed=placed,
            )
        if self._searched:
            self._count("DECISIONS")
        return Step(tuple(self._answers), self._searched)

    # ERROR, the first that applies; fields that an event does not use are not looked at.
    def _error(self, opcode, slot, tokens):
        if opcode is None:
            return ErrorCode.OPCODE
        if opcode in WITH_SLOT and slot >= self.p.sessions:
            return ErrorCode.SLOT
        if opcode in WITH_TOKENS and tokens == 0:
            return ErrorCode.TOKENS
        if opcode in WITH_SLOT and not self._legal(opcode, self.entries[slot]):
            return ErrorCode.STATE
        return None

    def _legal(self, opcode, entry):
        if opcode is Opcode.ARRIVE:
            return not entry.busy
        if opcode is Opcode.GAP_START:
            return entry.busy
        if opcode is Opcode.GAP_END:
            return entry.residency != FREE and not entry.busy
        return entry.residency != FREE

    def _execute(self, opcode, slot, tokens, operand):
        """Slot or None, found and placed of the outcome."""
        nothing = Place.NONE.value
        if opcode is Opcode.ARRIVE:
            return self._arrive(slot, tokens)
        if opcode is Opcode.ARRIVE_ANY:
            return self._arrive_any(tokens)
        if opcode is Opcode.GAP_START:
            return self._gap_start(slot, tokens, operand)
        if opcode is Opcode.GAP_END:
            self._gap_end(slot, operand)
        elif opcode is Opcode.COMPLETE:
            self._complete(slot)
        elif opcode is Opcode.RELEASE:
            self._free(slot)
        else:
            self._dma_done(failed=bool(operand & DMA_FAILED))
            return None, nothing, nothing
        return slot, nothing, nothing

    def _arrive(self, slot, tokens):
        entry = self.entries[slot]
        if entry.residency == FREE:
            entry.residency = ABSENT
            entry.gap = self.arithmetic.saturate_gap(self.config.gap_prior)
        found = PLACE_OF[entry.residency]
        self._count(FOUND_COUNTER[found])
        entry.turn = min(entry.turn + 1, self.p.turn_limit)
        self._set_busy(entry, 1)
        self.last_moves.discard(slot)
        entry.completed = 0
        return slot, found, self._fit(slot, tokens)

    def _arrive_any(self, tokens):
        slot = self._lowest_free()
        if slot is None:
            slot = self._make_free_slot(tokens)
        if slot is None:
            self._count("MISSES")
            self._count("BYPASSES")
            return None, Place.NONE.value, Place.NONE.value
        return self._arrive(slot, tokens)

    def _make_free_slot(self, tokens):
        """The slot of the entry that was made free for ARRIVE_ANY, or None when nobody may go."""
        slot = self._highest(ABSENT)
        if slot is not None:
            self._count("FORGETS")
            self._answer(AnswerKind.FORGET, slot=slot)
        elif any(self._can_fit(tier, tokens) for tier in TIERS):
            slot = self._highest(SRAM, HBM)
            if slot is not None:
                self._evict(slot, "EVICTIONS_SLOT")
        if slot is not None:
            self._free(slot)
        return slot

    def _gap_start(self, slot, tokens, operand):
        entry = self.entries[slot]
        found = PLACE_OF[entry.residency]
        if TIER_OF[entry.residency] is None:
            entry.tokens = tokens
            placed = Place.NONE.value
        else:
            placed = self._fit(slot, tokens)
        self._set_busy(entry, 0)
        self._rescore(entry)
        self._tide(self.arithmetic.saturate_gap(operand) if operand else entry.gap)
        return slot, found, placed

    def _gap_end(self, slot, operand):
        entry = self.entries[slot]
        gap = self.arithmetic.saturate_gap(operand)
        entry.gap = gap if entry.turn == 1 else self.arithmetic.average(gap, entry.gap)
        self._rescore(entry)

    def _complete(self, slot):
        entry = self.entries[slot]
        self._set_busy(entry, 0)
        entry.completed = 1
        self._rescore(entry)

    def _free(self, slot):
        """The entry becomes free and its tokens are given back."""
        self._take_out(self.entries[slot])
        self.entries[slot] = Entry()
        self.last_moves.discard(slot)

    def _dma_done(self, failed):
        self.dma_busy = False
        if failed:
            # All of them are still paused residents: what stops being one is taken out of the set at once.
            for slot in sorted(self.last_moves):
                self._evict(slot, "EVICTIONS_DMA")
        self.last_moves = set()

    def _fit(self, slot, tokens):
        """FIT of a busy entry; returns ``placed``."""
        entry = self.entries[slot]
        own = TIER_OF[entry.residency]
        self._take_out(entry)
        entry.tokens = tokens
        able = [tier for tier in TIERS if self._can_fit(tier, tokens)]
        if not able:
            self._count("BYPASSES")
            return Place.NONE.value
        while (tier := self._first_with_room(own, tokens)) is None:
            self._evict(self._highest(*(tier.value for tier in able)), "EVICTIONS_FIT")
        self._put_in(entry, tier)
        if own is not None and tier is not own:
            self._count("MOVES")
            self._answer(AnswerKind.MOVED, slot=slot, tokens=tokens, tier=tier.value)
        return PLACE_OF[tier.value]

    def _first_with_room(self, own, tokens):
        """The own tier of a resident, else SRAM, else HBM: the first with room as it is filled now, or None."""
        for tier in TIERS if own is None else (own, *TIERS):
            if self._has_room(tier, tokens):
                return tier
        return None

    def _tide(self, delta):
        """TIDE for a gap of ``delta`` gap units."""
        config = self.config
        if self.dma_busy and not config.ignore_dma:
            return
        budget = self.arithmetic.budget(delta, config.numerator, config.denominator)
        moved = set()
        for _ in range(config.moves):
            slots = self._move(budget)
            if not slots:
                break
            moved.update(slots)
            budget -= sum(self.entries[slot].tokens for slot in slots)
        if moved:
            self.dma_busy = True
            self.last_moves = moved

    def _move(self, budget):
        """One move of TIDE within ``budget`` tokens; the slots moved, none when there is nothing to do."""
        p_slot = self._lowest_live(HBM)
        if p_slot is None:
            return ()
        p = self.entries[p_slot]
        while not self._has_room(Residency.SRAM, p.tokens):
            d_slot = self._highest(SRAM)
            if d_slot is None:
                return ()
            d = self.entries[d_slot]
            if not d.completed or self.config.swap_completed:
                return (p_slot, d_slot) if self._swap(p_slot, d_slot, budget) else ()
            self._evict(d_slot, "EVICTIONS_TIDE")
        if p.tokens > budget:
            return ()
        self._change_tier(p, Residency.SRAM)
        self._count("PROMOTIONS")
        self._migrate(p_slot, None)
        return (p_slot,)

    def _swap(self, p_slot, d_slot, budget):
        """Exchanges p* and d* if every condition of a swap holds; whether it did."""
        p, d = self.entries[p_slot], self.entries[d_slot]
        growth = p.tokens - d.tokens
        if not (
            p.score < d.score
            and p.tokens + d.tokens <= budget
            and self._has_room(Residency.SRAM, growth)
            and self._has_room(Residency.HBM, -growth)
        ):
            return False
        self._change_tier(p, Residency.SRAM)
        self._change_tier(d, Residency.HBM)
        self._count("SWAPS")
        self._migrate(p_slot, d_slot)
        return True

    def _migrate(self, p_slot, d_slot):
        self._answer(
            AnswerKind.MIGRATE,
            slot=p_slot,
            tokens=self.entries[p_slot].tokens,
            demoted_tokens=0 if d_slot is None else self.entries[d_slot].tokens,
            demoted_slot=0 if d_slot is None else d_slot,
            demoted_valid=int(d_slot is not None),
        )

    def _evict(self, slot, counter):
        """A paused resident becomes absent; it keeps gap average, turn, tokens, completed and score."""
        self._take_out(self.entries[slot])
        self.last_moves.discard(slot)
        self._count(counter)
        self._answer(AnswerKind.EVICT, slot=slot)

    # Searches: busy entries are in none of them, and strict comparisons leave a tie to the lowest slot.
    def _highest(self, *residencies):
        """The slot of the highest score among the paused entries of these residencies, or None."""
        self._searched = True
        best, best_score = None, -1
        for slot, entry in enumerate(self.entries):
            if entry.residency in residencies and not entry.busy and entry.score > best_score:
                best, best_score = slot, entry.score
        return best

    def _lowest_live(self, residency):
        """The slot of the lowest score among the paused entries of a residency that are not completed, or None."""
        self._searched = True
        best, best_score = None, math.inf
        for slot, entry in enumerate(self.entries):
            if entry.residency == residency and not (entry.busy or entry.completed) and entry.score < best_score:
                best, best_score = slot, entry.score
        return best

    def _lowest_free(self):
        for slot, entry in enumerate(self.entries):
            if entry.residency == FREE:
                return slot
        return None

    def _can_fit(self, tier, tokens):
        """Whether a tier could hold ``tokens`` once all its paused residents had left."""
        return max(0, self._capacity[tier] - self.busy_used[tier]) >= tokens

    def _has_room(self, tier, tokens):
        """Whether a tier holds ``tokens`` more than there are in it now."""
        return self.used[tier] + tokens <= self._capacity[tier]

    # All usage is kept here: the tokens of a resident are in it, those of a busy one in both sums.
    def _put_in(self, entry, tier):
        entry.residency = tier.value
        self.used[tier] += entry.tokens
        if entry.busy:
            self.busy_used[tier] += entry.tokens

    def _take_out(self, entry):
        """The entry becomes absent and its tokens, if it was a resident, are no usage any more."""
        tier = TIER_OF[entry.residency]
        if tier is not None:
            self.used[tier] -= entry.tokens
            if entry.busy:
                self.busy_used[tier] -= entry.tokens
        entry.residency = ABSENT

    def _change_tier(self, entry, tier):
        self._take_out(entry)
        self._put_in(entry, tier)

    def _set_busy(self, entry, busy):
        tier = TIER_OF[entry.residency]
        if tier is not None:
            self.busy_used[tier] += (busy - entry.busy) * entry.tokens
        entry.busy = busy

    def _rescore(self, entry):
        """The score of a paused entry from its gap average and turn; a completed one stays at the completed code."""
        if entry.completed:
            entry.score = self.arithmetic.completed
        else:
            entry.score = self.arithmetic.score(entry.gap, entry.turn, self.hazards)

    def _count(self, name):
        self.counters[name] = (self.counters[name] + 1) & COUNTER_MASK

    def _answer(self, kind, **fields):
        self._answers.append(Answer(kind, fields))
