"""The engine: takes one event at a time and gives its answers, as the contract's section on events and answers says."""

from types import SimpleNamespace

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from unison.formats import (
    ANSWER,
    DMA_FAILED,
    ERROR,
    EVENT,
    EVICT,
    FORGET,
    MIGRATE,
    MOVED,
    OUTCOME,
    AnswerKind,
    ErrorCode,
    Opcode,
    Place,
    Residency,
)
from unison.hdl.divider import SerialDivider
from unison.hdl.last_moves import LastMoves
from unison.hdl.scan import ScanSignature
from unison.hdl.spear import is_completed
from unison.hdl.table import facts_layout, flags_layout, row_layout
from unison.hdl.tide import BUDGET_BITS, TideAction, TideRule
from unison.hdl.usage import TierUsage
from unison.params import MAX_MOVES, RATIO_BITS, TOKEN_BITS

__all__ = ["COUNTED", "Engine"]

DIVIDER_BITS_PER_CYCLE = 2
SRAM_ONLY, BOTH_TIERS = 0b01, 0b11

#: What the engine counts, by the names of the counter registers; each is high for one cycle.
COUNTED = data.StructLayout(
    {
        "events": 1,
        "hits_sram": 1,
        "hits_hbm": 1,
        "misses": 1,
        "bypasses": 1,
        "forgets": 1,
        "evictions_fit": 1,
        "evictions_slot": 1,
        "evictions_tide": 1,
        "evictions_dma": 1,
        "moves": 1,
        "promotions": 1,
        "swaps": 1,
        "errors_opcode": 1,
        "errors_slot": 1,
        "errors_tokens": 1,
        "errors_state": 1,
        "decisions": 1,
    }
)


class Cause(enum.Enum, shape=2):
    """Why the state EVICT was entered."""

    FIT = 0
    SLOT = 1
    DMA = 2


class Engine(wiring.Component):
    """Executes events one after the other; one state an action, one pass of the scan a search.

    An answer that its FIFO can't take stalls the engine. A pending COMMIT goes before the next event.

    Members
    -------
    event : In(stream of EVENT)
    answer : Out(stream of ANSWER)
    capacity_sram, capacity_hbm : In, numerator, denominator : In(16), gap_prior : In(b_g)
        Configuration, stable while not ``idle``.
    moves : In(3), ignore_dma, swap_completed : In(1)
        Likewise; ``moves`` is one less than the most moves of a GAP_START.
    entry_index : In
        The slot that ``row`` shows while ``idle``.
    commit_pending : In(1), commit_copy : Out(1), hazard_busy : In(1), committed : Out(1)
        A COMMIT waits; start the copy of the hazard table; it is under way; every paused session is rescored.
    read_slot : Out, row : In
        The table's read port while the scan does not use it.
    write_slot, flags_enable, flags, facts_enable, facts : Out
        The table's write port.
    any_free, lowest_free : In
        From the table.
    scan : Out(ScanSignature(p))
    idle, dma_busy : Out(1), used_sram, used_hbm, busy_sram, busy_hbm : Out
        Status.
    event_taken, retired, searched : Out(1)
        An event leaves its FIFO; its last answer enters the answer FIFO; and it was a decision.
    counted : Out(COUNTED)
    """

    def __init__(self, p):
        self.p = p
        slot = range(p.sessions)
        super().__init__(
            {
                "event": In(stream.Signature(EVENT)),
                "answer": Out(stream.Signature(ANSWER)),
                "capacity_sram": In(p.capacity_bits),
                "capacity_hbm": In(p.capacity_bits),
                "numerator": In(RATIO_BITS),
                "denominator": In(RATIO_BITS),
                "gap_prior": In(p.gap_bits),
                "moves": In(range(MAX_MOVES)),
                "ignore_dma": In(1),
                "swap_completed": In(1),
                "entry_index": In(slot),
                "commit_pending": In(1),
                "commit_copy": Out(1),
                "hazard_busy": In(1),
                "committed": Out(1),
                "read_slot": Out(slot),
                "row": In(row_layout(p)),
                "write_slot": Out(slot),
                "flags_enable": Out(1),
                "flags": Out(flags_layout()),
                "facts_enable": Out(1),
                "facts": Out(facts_layout(p)),
                "any_free": In(1),
                "lowest_free": In(slot),
                "scan": Out(ScanSignature(p)),
                "idle": Out(1),
                "dma_busy": Out(1),
                "used_sram": Out(p.capacity_bits),
                "used_hbm": Out(p.capacity_bits),
                "busy_sram": Out(p.capacity_bits),
                "busy_hbm": Out(p.capacity_bits),
                "event_taken": Out(1),
                "retired": Out(1),
                "searched": Out(1),
                "counted": Out(COUNTED),
            }
        )

    def elaborate(self, platform):
        m = Module()
        p = self.p

        m.submodules.sram = sram = TierUsage(p)
        m.submodules.hbm = hbm = TierUsage(p)
        m.submodules.last_moves = last_moves = LastMoves(p)
        m.submodules.divider = divider = SerialDivider(
            dividend_bits=p.gap_bits + RATIO_BITS,
            divisor_bits=RATIO_BITS,
            quotient_bits=BUDGET_BITS,
            bits_per_cycle=DIVIDER_BITS_PER_CYCLE,
        )
        m.submodules.tide = tide = TideRule()

        # The event in execution, and the entry it is about. ``facts`` is the entry's new content.
        event = Signal(EVENT)
        slot = Signal(range(p.sessions))
        slot_valid = Signal()
        residency = Signal(Residency)
        busy = Signal()
        facts = Signal(facts_layout(p))
        found = Signal(Place)
        placed = Signal(Place)
        error = Signal(ErrorCode, init=ErrorCode.OPCODE)
        cause = Signal(Cause)
        arrives = Signal()
        resident = Signal()
        m.d.comb += [
            arrives.eq((event.opcode == Opcode.ARRIVE) | (event.opcode == Opcode.ARRIVE_ANY)),
            resident.eq(is_resident(residency)),
        ]

        # A gap from the host: saturated to b_g bits, equation (16).
        operand_gap = Signal(p.gap_bits)
        m.d.comb += operand_gap.eq(Mux(event.operand > p.gap_max, p.gap_max, event.operand))

        m.d.comb += [
            sram.capacity.eq(self.capacity_sram),
            hbm.capacity.eq(self.capacity_hbm),
            self.used_sram.eq(sram.used),
            self.used_hbm.eq(hbm.used),
            self.busy_sram.eq(sram.busy),
            self.busy_hbm.eq(hbm.busy),
            # FIT asks for room for the event's session; Tide's states ask otherwise.
            sram.arriving.eq(event.tokens),
            hbm.arriving.eq(event.tokens),
            self.write_slot.eq(slot),
            self.facts.eq(facts),
            self.read_slot.eq(slot),
            last_moves.slot.eq(slot),
            self.scan.first.eq(0),
            self.scan.last.eq(p.sessions - 1),
        ]

        s = SimpleNamespace(
            sram=sram,
            hbm=hbm,
            last_moves=last_moves,
            divider=divider,
            tide=tide,
            event=event,
            slot=slot,
            slot_valid=slot_valid,
            residency=residency,
            resident=resident,
            busy=busy,
            facts=facts,
            found=found,
            placed=placed,
            error=error,
            cause=cause,
            arrives=arrives,
            operand_gap=operand_gap,
            can=Signal(2, name="can"),
        )
        with m.FSM(name="engine"):
            self._idle_states(m, s)
            self._decode_state(m, s)
            self._slot_states(m, s)
            self._fit_states(m, s)
            self._gap_states(m, s)
            self._end_states(m, s)
            self._tide_states(m, s)
            self._evict_state(m, s)
            self._answer_states(m, s)
        return m

    def _idle_states(self, m, s):
        with m.State("IDLE"):
            m.d.comb += [
                self.read_slot.eq(self.entry_index),
                self.idle.eq(~self.event.valid & ~self.commit_pending),
            ]
            with m.If(self.commit_pending):
                m.d.comb += self.commit_copy.eq(1)
                m.next = "COPY"
            with m.Elif(self.event.valid):
                m.d.comb += [self.event.ready.eq(1), self.event_taken.eq(1)]
                m.d.sync += s.event.eq(self.event.payload)
                m.next = "DECODE"
        with m.State("COPY"), m.If(~self.hazard_busy):
            m.d.comb += self.scan.start.eq(1)
            m.next = "COMMIT"
        with m.State("COMMIT"), m.If(self.scan.done):
            m.d.comb += self.committed.eq(1)
            m.next = "IDLE"

    def _decode_state(self, m, s):
        p = self.p
        event, flags = s.event, self.row.flags
        free = flags.residency == Residency.FREE
        with m.State("DECODE"):
            m.d.comb += self.read_slot.eq(event.slot)
            m.d.sync += [
                s.slot.eq(event.slot),
                s.slot_valid.eq(1),
                s.residency.eq(flags.residency),
                s.busy.eq(flags.busy),
                s.facts.eq(self.row.facts),
                s.found.eq(Place.NONE),
                s.placed.eq(Place.NONE),
                self.searched.eq(0),
            ]
            known = Signal()
            uses_slot = Signal()
            uses_tokens = Signal()
            legal = Signal()
            rules = {
                # opcode: (uses the slot, uses the tokens, legal when, next state)
                Opcode.ARRIVE: (1, 1, ~flags.busy, "ARRIVE"),
                Opcode.ARRIVE_ANY: (0, 1, 1, "SLOT"),
                Opcode.GAP_START: (1, 1, flags.busy, "GAP_START"),
                Opcode.GAP_END: (1, 0, ~free & ~flags.busy, "GAP_END"),
                Opcode.COMPLETE: (1, 0, ~free, "COMPLETE"),
                Opcode.RELEASE: (1, 0, ~free, "RELEASE"),
                Opcode.DMA_DONE: (0, 0, 1, "DMA_DONE"),
            }
            with m.Switch(event.opcode):
                for opcode, (slot_used, tokens_used, when, state) in rules.items():
                    with m.Case(opcode):
                        m.d.comb += [known.eq(1), uses_slot.eq(slot_used), uses_tokens.eq(tokens_used), legal.eq(when)]
                        m.next = state
            for code, wrong in (
                (ErrorCode.STATE, ~legal),
                (ErrorCode.TOKENS, uses_tokens & (event.tokens == 0)),
                (ErrorCode.SLOT, uses_slot & (event.slot >= p.sessions)),
                (ErrorCode.OPCODE, ~known),
            ):
                with m.If(wrong):
                    m.d.sync += s.error.eq(code)
                    m.next = "ERROR"

    def _slot_states(self, m, s):
        """ARRIVE_ANY looks for a slot."""
        scan = self.scan
        with m.State("SLOT"):
            m.d.sync += s.can.eq(s.sram.can_fit | (s.hbm.can_fit << 1))
            with m.If(self.any_free):
                self._enter(m, s, self.lowest_free)
            with m.Else():
                m.d.comb += [scan.start.eq(1), scan.tiers.eq(BOTH_TIERS)]
                m.d.sync += self.searched.eq(1)
                m.next = "SLOT_SCAN"
        with m.State("SLOT_SCAN"), m.If(scan.done):
            with m.If(scan.absent.valid):
                m.next = "FORGET"
            with m.Elif(scan.highest.valid & s.can.any()):
                m.d.sync += s.cause.eq(Cause.SLOT)
                m.next = "EVICT"
            with m.Else():
                m.d.comb += self.counted.bypasses.eq(1)
                m.d.sync += [s.slot.eq(0), s.slot_valid.eq(0)]
                m.next = "OUTCOME"
        with m.State("FORGET"):
            self._say(m, FORGET, AnswerKind.FORGET, slot=scan.absent.slot)
            with m.If(self.answer.ready):
                m.d.comb += self.counted.forgets.eq(1)
                self._enter(m, s, scan.absent.slot)

    def _enter(self, m, s, slot):
        """A new session takes ``slot`` and waits for its place; no tier's busy sum changed since ``can`` was taken."""
        first = {"turn": 1, "gap": self.gap_prior, "tokens": s.event.tokens}
        self._write_flags(m, slot, Residency.ABSENT, busy=1)
        m.d.comb += [self.facts_enable.eq(1), *(self.facts[name].eq(value) for name, value in first.items())]
        m.d.sync += [s.slot.eq(slot), s.residency.eq(Residency.ABSENT)]
        m.d.sync += [s.facts[name].eq(value) for name, value in first.items()]
        m.next = "PLACE"

    def _fit_states(self, m, s):
        """ARRIVE, and FIT for whoever needs room for ``event.tokens``."""
        p, scan = self.p, self.scan
        with m.State("ARRIVE"):
            m.d.sync += [s.found.eq(Mux(s.resident, s.residency, Place.NONE)), s.facts.tokens.eq(s.event.tokens)]
            with m.If(s.residency == Residency.FREE):
                m.d.sync += [s.residency.eq(Residency.ABSENT), s.facts.turn.eq(1), s.facts.gap.eq(self.gap_prior)]
            with m.Elif(s.facts.turn != p.turn_limit):
                m.d.sync += s.facts.turn.eq(s.facts.turn + 1)
            self._count_out(m, s, s.residency, s.facts.tokens)
            m.d.comb += s.last_moves.remove.eq(1)
            m.next = "FIT"
        with m.State("FIT"):
            m.d.sync += s.can.eq(s.sram.can_fit | (s.hbm.can_fit << 1))
            self._write_flags(m, s.slot, s.residency, busy=1)
            m.d.comb += self.facts_enable.eq(1)
            m.next = "PLACE"
        with m.State("PLACE"):
            stays = Mux(s.residency == Residency.SRAM, s.sram.fits, s.hbm.fits) & s.resident
            target = Signal(Residency)
            m.d.comb += target.eq(
                Mux(
                    stays,
                    s.residency,
                    Mux(s.sram.fits, Residency.SRAM, Mux(s.hbm.fits, Residency.HBM, Residency.ABSENT)),
                )
            )
            with m.If(is_resident(target)):
                m.d.sync += [s.residency.eq(target), s.placed.eq(target)]
                self._count_in(m, s, target, s.event.tokens, busy=s.arrives)
                self._write_flags(m, s.slot, target, busy=s.arrives)
                with m.If(s.resident & (target != s.residency)):
                    m.next = "MOVED"
                with m.Else():
                    self._go_on(m, s)
            with m.Elif(s.can.any()):
                m.d.comb += [scan.start.eq(1), scan.tiers.eq(s.can)]
                m.d.sync += self.searched.eq(1)
                m.next = "FIT_SCAN"
            with m.Else():
                m.d.comb += self.counted.bypasses.eq(1)
                self._write_flags(m, s.slot, Residency.ABSENT, busy=s.arrives)
                self._go_on(m, s)
        with m.State("FIT_SCAN"), m.If(scan.done):
            m.d.sync += s.cause.eq(Cause.FIT)
            m.next = "EVICT"
        with m.State("MOVED"):
            self._say(m, MOVED, AnswerKind.MOVED, slot=s.slot, tokens=s.event.tokens, tier=s.residency)
            with m.If(self.answer.ready):
                m.d.comb += self.counted.moves.eq(1)
                self._go_on(m, s)

    def _go_on(self, m, s):
        """What follows FIT."""
        with m.If(s.arrives):
            m.next = "OUTCOME"
        with m.Else():
            m.next = "TIDE"

    def _gap_states(self, m, s):
        p, event, divider = self.p, s.event, s.divider
        # One divider serves both: the budget of a gap that opens (25) and the average of one that closes (20).
        delta = Signal(p.gap_bits)
        m.d.comb += [
            delta.eq(Mux(event.operand == 0, s.facts.gap, s.operand_gap)),
            divider.dividend.eq(delta * self.numerator),
            divider.divisor.eq(self.denominator),
        ]
        with m.State("GAP_START"):
            m.d.comb += divider.start.eq(1)
            m.d.sync += s.facts.tokens.eq(event.tokens)
            with m.If(s.resident):
                m.d.sync += s.found.eq(s.residency)
                self._count_out(m, s, s.residency, s.facts.tokens, busy=1)
                m.next = "FIT"
            with m.Else():
                m.next = "PAUSE"
        with m.State("PAUSE"):
            self._write_flags(m, s.slot, s.residency)
            m.d.comb += self.facts_enable.eq(1)
            m.next = "TIDE"

        with m.State("GAP_END"):
            m.d.comb += [
                divider.dividend.eq(3 * s.operand_gap + 7 * s.facts.gap),
                divider.divisor.eq(10),
                divider.start.eq(1),
            ]
            with m.If(s.facts.turn == 1):
                m.d.sync += s.facts.gap.eq(s.operand_gap)
                m.next = "SAVE"
            with m.Else():
                m.next = "AVERAGE"
        with m.State("AVERAGE"), m.If(divider.done):
            m.d.sync += s.facts.gap.eq(divider.quotient)
            m.next = "SAVE"
        with m.State("SAVE"):
            m.d.comb += self.facts_enable.eq(1)
            m.next = "RESCORE"
        with m.State("RESCORE"):
            m.d.comb += [self.scan.start.eq(1), self.scan.first.eq(s.slot), self.scan.last.eq(s.slot)]
            m.next = "RESCORED"
        with m.State("RESCORED"), m.If(self.scan.done):
            m.next = "OUTCOME"

    def _end_states(self, m, s):
        with m.State("COMPLETE"):
            self._write_flags(m, s.slot, s.residency, completed=1)
            with m.If(s.busy):
                self._count_out(m, s, s.residency, s.facts.tokens, busy_only=1)
            m.next = "OUTCOME"
        with m.State("RELEASE"):
            self._write_flags(m, s.slot, Residency.FREE)
            self._count_out(m, s, s.residency, s.facts.tokens, busy=s.busy)
            m.d.comb += s.last_moves.remove.eq(1)
            m.next = "OUTCOME"
        with m.State("DMA_DONE"):
            m.d.sync += [self.dma_busy.eq(0), s.cause.eq(Cause.DMA), s.slot.eq(0), s.slot_valid.eq(0)]
            with m.If((s.event.operand & DMA_FAILED).any() & s.last_moves.any):
                m.next = "EVICT"
            with m.Else():
                m.d.comb += s.last_moves.clear.eq(1)
                m.next = "OUTCOME"

    def _tide_states(self, m, s):
        scan, tide = self.scan, s.tide
        lowest, highest = scan.lowest, scan.highest
        promoted_tokens = Signal(TOKEN_BITS)
        demoted_tokens = Signal(TOKEN_BITS)
        swaps = Signal()
        moves_left = Signal(range(MAX_MOVES))
        moved = Signal()
        # Eight moves of two sessions spend at most 2**24 - 16 tokens.
        spent = Signal(TOKEN_BITS + (2 * MAX_MOVES - 1).bit_length())
        budget = s.divider.quotient

        with m.State("TIDE"):
            m.d.sync += [moves_left.eq(self.moves), moved.eq(0), spent.eq(0)]
            with m.If(self.dma_busy & ~self.ignore_dma):
                m.next = "RESCORE"
            with m.Else():
                m.d.sync += self.searched.eq(1)
                m.next = "TIDE_SCAN"
        with m.State("TIDE_SCAN"):
            m.d.comb += [scan.start.eq(1), scan.tiers.eq(SRAM_ONLY)]
            m.next = "TIDE_PROMOTED"
        with m.State("TIDE_PROMOTED"), m.If(scan.done):
            m.d.comb += self.read_slot.eq(lowest.slot)
            m.d.sync += promoted_tokens.eq(self.row.facts.tokens)
            with m.If(lowest.valid):
                m.next = "TIDE_DEMOTED"
            with m.Else():
                m.next = "OUTCOME"
        with m.State("TIDE_DEMOTED"):
            m.d.comb += [self.read_slot.eq(highest.slot), s.sram.arriving.eq(promoted_tokens)]
            m.d.sync += [
                demoted_tokens.eq(self.row.facts.tokens),
                tide.room.eq(s.sram.fits),
                tide.colder.eq(lowest.key < highest.key),
                tide.pays_promotion.eq(spent + promoted_tokens <= budget),
                tide.demotable.eq(highest.valid),
            ]
            # A completed session in the way leaves for nothing: the budget need not be known.
            leaves = highest.valid & is_completed(highest.key) & ~self.swap_completed & ~s.sram.fits
            with m.If(leaves):
                self._evict(m, s, highest.slot)
                with m.If(self.answer.ready):
                    m.d.comb += self.counted.evictions_tide.eq(1)
                    m.next = "TIDE_SCAN"
            with m.Elif(s.divider.done):
                m.next = "TIDE_CHECK"
        with m.State("TIDE_CHECK"):
            m.d.comb += [
                s.sram.arriving.eq(promoted_tokens),
                s.sram.leaving.eq(demoted_tokens),
                s.hbm.arriving.eq(demoted_tokens),
                s.hbm.leaving.eq(promoted_tokens),
            ]
            m.d.sync += [
                tide.pays_swap.eq(spent + promoted_tokens + demoted_tokens <= budget),
                tide.holds.eq(s.sram.fits & s.hbm.fits),
            ]
            m.next = "TIDE_ACT"
        with m.State("TIDE_ACT"):
            m.d.sync += swaps.eq(tide.action == TideAction.SWAP)
            with m.If(tide.action == TideAction.STOP):
                m.next = "OUTCOME"
            with m.Else():
                m.next = "MIGRATE"
        with m.State("MIGRATE"):
            self._say(
                m,
                MIGRATE,
                AnswerKind.MIGRATE,
                slot=lowest.slot,
                tokens=promoted_tokens,
                demoted_valid=swaps,
                demoted_slot=Mux(swaps, highest.slot, 0),
                demoted_tokens=Mux(swaps, demoted_tokens, 0),
            )
            with m.If(self.answer.ready):
                self._write_flags(m, lowest.slot, Residency.SRAM)
                self._count_in(m, s, Residency.SRAM, promoted_tokens)
                self._count_out(m, s, Residency.HBM, promoted_tokens)
                m.d.comb += [
                    s.last_moves.clear.eq(~moved),
                    s.last_moves.add.eq(1),
                    s.last_moves.slot.eq(lowest.slot),
                    self.counted.promotions.eq(~swaps),
                    self.counted.swaps.eq(swaps),
                ]
                m.d.sync += [self.dma_busy.eq(1), moved.eq(1), spent.eq(spent + promoted_tokens)]
                with m.If(swaps):
                    m.next = "DEMOTE"
                with m.Else():
                    self._next_move(m, moves_left)
        with m.State("DEMOTE"):
            self._write_flags(m, highest.slot, Residency.HBM, completed=is_completed(highest.key))
            self._count_in(m, s, Residency.HBM, demoted_tokens)
            self._count_out(m, s, Residency.SRAM, demoted_tokens)
            m.d.comb += [s.last_moves.add.eq(1), s.last_moves.slot.eq(highest.slot)]
            m.d.sync += spent.eq(spent + demoted_tokens)
            self._next_move(m, moves_left)

    def _next_move(self, m, moves_left):
        m.d.sync += moves_left.eq(moves_left - 1)
        with m.If(moves_left == 0):
            m.next = "OUTCOME"
        with m.Else():
            m.next = "TIDE_SCAN"

    def _evict_state(self, m, s):
        with m.State("EVICT"):
            victim = Signal(range(self.p.sessions))
            m.d.comb += victim.eq(Mux(s.cause == Cause.DMA, s.last_moves.lowest, self.scan.highest.slot))
            self._evict(m, s, victim)
            with m.If(self.answer.ready), m.Switch(s.cause):
                with m.Case(Cause.FIT):
                    m.d.comb += self.counted.evictions_fit.eq(1)
                    m.next = "PLACE"
                with m.Case(Cause.SLOT):
                    m.d.comb += self.counted.evictions_slot.eq(1)
                    self._enter(m, s, victim)
                with m.Case(Cause.DMA):
                    m.d.comb += self.counted.evictions_dma.eq(1)
                    m.next = "DMA_DONE"

    def _evict(self, m, s, victim):
        """A paused resident becomes absent in the cycle in which its answer is taken."""
        m.d.comb += self.read_slot.eq(victim)
        self._say(m, EVICT, AnswerKind.EVICT, slot=victim)
        with m.If(self.answer.ready):
            self._write_flags(m, victim, Residency.ABSENT, completed=self.row.flags.completed)
            self._count_out(m, s, self.row.flags.residency, self.row.facts.tokens)
            m.d.comb += [s.last_moves.remove.eq(1), s.last_moves.slot.eq(victim)]

    def _answer_states(self, m, s):
        """The last answer of an event."""
        counted, event = self.counted, s.event
        with m.State("OUTCOME"):
            self._say(
                m,
                OUTCOME,
                AnswerKind.OUTCOME,
                slot=s.slot,
                opcode=event.opcode,
                slot_valid=s.slot_valid,
                found=s.found,
                placed=s.placed,
            )
            with m.If(self.answer.ready):
                m.d.comb += [
                    self.retired.eq(1),
                    counted.events.eq(1),
                    counted.decisions.eq(self.searched),
                    counted.hits_sram.eq(s.arrives & (s.found == Place.SRAM)),
                    counted.hits_hbm.eq(s.arrives & (s.found == Place.HBM)),
                    counted.misses.eq(s.arrives & (s.found == Place.NONE)),
                ]
                m.next = "IDLE"
        with m.State("ERROR"):
            self._say(m, ERROR, AnswerKind.ERROR, code=s.error, word0=event.as_value()[:32])
            with m.If(self.answer.ready):
                m.d.comb += [
                    self.retired.eq(1),
                    counted.events.eq(1),
                    counted.errors_opcode.eq(s.error == ErrorCode.OPCODE),
                    counted.errors_slot.eq(s.error == ErrorCode.SLOT),
                    counted.errors_tokens.eq(s.error == ErrorCode.TOKENS),
                    counted.errors_state.eq(s.error == ErrorCode.STATE),
                ]
                m.next = "IDLE"

    def _say(self, m, layout, kind, **fields):
        """Offer an answer; it is given in the cycle in which ``answer.ready`` is high."""
        word = data.View(layout, self.answer.payload.as_value())
        m.d.comb += [self.answer.valid.eq(1), word.kind.eq(kind)]
        m.d.comb += [word[name].eq(value) for name, value in fields.items()]

    def _write_flags(self, m, slot, residency, *, busy=0, completed=0):
        m.d.comb += [
            self.write_slot.eq(slot),
            self.flags_enable.eq(1),
            self.flags.residency.eq(residency),
            self.flags.busy.eq(busy),
            self.flags.completed.eq(completed),
        ]

    def _count_in(self, m, s, residency, tokens, *, busy=0):
        for tier, code in ((s.sram, Residency.SRAM), (s.hbm, Residency.HBM)):
            with m.If(as_code(residency) == code.value):
                m.d.comb += [tier.add.eq(1), tier.tokens.eq(tokens), tier.busy_too.eq(busy)]

    def _count_out(self, m, s, residency, tokens, *, busy=0, busy_only=0):
        for tier, code in ((s.sram, Residency.SRAM), (s.hbm, Residency.HBM)):
            with m.If(as_code(residency) == code.value):
                m.d.comb += [
                    tier.subtract.eq(1),
                    tier.tokens.eq(tokens),
                    tier.busy_too.eq(busy),
                    tier.busy_only.eq(busy_only),
                ]


def as_code(residency):
    """The plain value behind a Residency, constant or signal."""
    return Value.cast(residency)


def is_resident(residency):
    """Whether a Residency is SRAM or HBM: both have bit 1."""
    return as_code(residency)[1]
