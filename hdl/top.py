"""The whole IP: the blocks wired together, behind APB and an interrupt line."""

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from unison.formats import ANSWER, EVENT, Opcode, entry_layout
from unison.hdl.apb import AccessSignature, ApbCompleter, ApbSignature, strobed_bits
from unison.hdl.csr import RegisterFile
from unison.hdl.engine import COUNTED, Engine
from unison.hdl.hazard import HazardTable
from unison.hdl.queue import Queue
from unison.hdl.scan import LinearScan
from unison.hdl.spear import PipelinedScorer
from unison.hdl.stats import DecisionClock, HighWater
from unison.hdl.table import SessionTable

__all__ = ["Unison", "Core"]

WHOLE_WORD = 0b1111


class Unison(wiring.Component):
    """The IP as a system sees it. One clock; ``rst`` is synchronous and active high.

    Members
    -------
    paddr, psel, penable, pwrite, pwdata, pstrb, pprot : In, prdata, pready, pslverr : Out
        APB4, as in ``ApbSignature``.
    irq : Out(1)
        High while an enabled interrupt cause is set.
    """

    def __init__(self, p):
        if p.gap_bits > 32:
            raise ValueError(f"gap_bits={p.gap_bits!r} is for the model only: an event carries 32 bits of a gap")
        if p.penalty >= 1 << 32:
            raise ValueError(f"penalty={p.penalty!r} is for the model only: its register has 32 bits")
        self.p = p
        # An integrator connects plain names: ``paddr``, not ``apb__paddr``.
        super().__init__({**ApbSignature().flip().members, "irq": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.bus = bus = ApbCompleter()
        core = Core(self.p)
        # CONTROL.reset clears all but the bus, which must end the transfer that asked for it.
        m.submodules.core = ResetInserter(core.reset_request)(core)
        for name, member in ApbSignature().members.items():
            own, inner = getattr(self, name), getattr(bus.apb, name)
            m.d.comb += inner.eq(own) if member.flow is Out else own.eq(inner)
        wiring.connect(m, bus.access, core.access)
        m.d.comb += [bus.hold.eq(core.hold), self.irq.eq(core.irq)]
        return m


class Core(wiring.Component):
    """Everything behind the bus: registers, FIFOs, tables, scan and engine.

    Members
    -------
    access : In(AccessSignature())
    irq : Out(1)
    hold : Out(1)
        No access may begin: the tables, or the counters, are being cleared.
    reset_request : Out(1)
        Software asks for a reset of the core.
    """

    def __init__(self, p):
        self.p = p
        super().__init__({"access": In(AccessSignature()), "irq": Out(1), "hold": Out(1), "reset_request": Out(1)})

    def elaborate(self, platform):
        m = Module()
        p = self.p

        m.submodules.csr = csr = RegisterFile(p)
        m.submodules.event_fifo = event_fifo = Queue(EVENT, p.event_depth)
        m.submodules.answer_fifo = answer_fifo = Queue(ANSWER, p.answer_depth)
        m.submodules.table = table = SessionTable(p)
        m.submodules.hazard_table = hazard = HazardTable(p)
        m.submodules.scorer = scorer = PipelinedScorer(p)
        m.submodules.scan = scan = LinearScan(p, scorer_latency=scorer.latency)
        m.submodules.engine = engine = Engine(p)

        wiring.connect(m, wiring.flipped(self.access), csr.access)
        wiring.connect(m, event_fifo.get, engine.event)
        wiring.connect(m, engine.answer, answer_fifo.put)
        wiring.connect(m, engine.scan, scan.request)
        wiring.connect(m, scan.scorer, scorer.session)

        m.d.comb += [
            self.irq.eq(csr.irq),
            self.reset_request.eq(csr.control_reset),
            # An access sees what CONTROL asked for before it, which takes a cycle.
            self.hold.eq(hazard.clearing | csr.control_reset | csr.control_clear_counters),
        ]
        self._connect_table(m, table, scan, engine)
        self._connect_configuration(m, csr, engine)
        self._connect_events(m, csr, event_fifo, answer_fifo)
        self._connect_hazards(m, csr, hazard, scan, engine)
        self._connect_entry(m, csr, engine)
        self._connect_statistics(m, csr, engine, event_fifo, answer_fifo)
        return m

    def _connect_table(self, m, table, scan, engine):
        m.d.comb += [
            table.read_slot.eq(Mux(scan.reading, scan.slot, engine.read_slot)),
            scan.row.eq(table.row),
            engine.row.eq(table.row),
            table.write_slot.eq(engine.write_slot),
            table.flags_enable.eq(engine.flags_enable),
            table.flags.eq(engine.flags),
            table.facts_enable.eq(engine.facts_enable),
            table.facts.eq(engine.facts),
            table.score_enable.eq(scan.score_enable),
            table.score_slot.eq(scan.score_slot),
            table.score.eq(scan.score),
            engine.any_free.eq(table.any_free),
            engine.lowest_free.eq(table.lowest_free),
        ]

    def _connect_configuration(self, m, csr, engine):
        m.d.comb += [
            csr.idle.eq(engine.idle),
            engine.capacity_sram.eq(csr.capacity_sram_tokens),
            engine.capacity_hbm.eq(csr.capacity_hbm_tokens),
            engine.numerator.eq(csr.bandwidth_numerator),
            engine.denominator.eq(csr.bandwidth_denominator),
            engine.gap_prior.eq(csr.gap_prior_gap),
            engine.moves.eq(csr.config_moves),
            engine.ignore_dma.eq(csr.config_ignore_dma),
            engine.swap_completed.eq(csr.config_swap_completed),
        ]

    def _connect_events(self, m, csr, event_fifo, answer_fifo):
        access = self.access
        partial = access.strobe != WHOLE_WORD

        operand = Signal(32)
        event = Signal(EVENT)
        # The last place is kept for DMA_DONE: a full FIFO must not keep the engine from hearing of it.
        places = Mux(event.opcode == Opcode.DMA_DONE, event_fifo.depth, event_fifo.depth - 1)
        full = Signal()
        m.d.comb += [
            event.eq(Cat(access.data, operand)),
            full.eq(event_fifo.level >= places),
            csr.event1_data.eq(operand),
            csr.event1_refused.eq(access.write & partial),
            csr.event0_refused.eq(partial | full),
            event_fifo.put.payload.eq(event),
            event_fifo.put.valid.eq(csr.event0_commit),
        ]
        with m.If(csr.event1_commit & access.write):
            m.d.sync += operand.eq(access.data)

        refused = Signal()
        m.d.comb += [
            refused.eq(csr.event0_query & access.write & ~partial & full),
            csr.refused_count.eq(refused),
            csr.irq_status_refused.eq(refused),
            csr.status_event_full.eq(event_fifo.level >= event_fifo.depth - 1),
            csr.status_event_level.eq(event_fifo.level),
        ]

        # An answer that arrives between query and commit was not read, and stays.
        head = Signal(64)
        shown = Signal()
        second_word = Signal(32)
        m.d.comb += [
            head.eq(Mux(answer_fifo.get.valid, answer_fifo.get.payload, 0)),
            csr.answer0_data.eq(head[:32]),
            answer_fifo.get.ready.eq(csr.answer0_commit & shown),
            csr.answer1_detail.eq(second_word),
            csr.irq_status_answer.eq(answer_fifo.get.valid),
            csr.status_answer_full.eq(~answer_fifo.put.ready),
            csr.status_answer_level.eq(answer_fifo.level),
        ]
        with m.If(csr.answer0_query & ~access.write):
            m.d.sync += [shown.eq(answer_fifo.get.valid), second_word.eq(head[32:])]

    def _connect_hazards(self, m, csr, hazard, scan, engine):
        access = self.access
        pending = Signal()
        with m.If(csr.commit_commit & access.data[0] & access.strobe[0]):
            m.d.sync += pending.eq(1)
        with m.Elif(engine.committed):
            m.d.sync += pending.eq(0)

        mask = strobed_bits(access, 0, self.p.hazard_bits)
        m.d.comb += [
            csr.commit_refused.eq(pending),
            csr.hazard_refused.eq(pending),
            csr.hazard_data.eq(hazard.shadow_hazard),
            hazard.shadow_turn.eq(csr.hazard_index),
            hazard.write_turn.eq(csr.hazard_index),
            hazard.write_hazard.eq((hazard.shadow_hazard & ~mask) | (access.data & mask)),
            hazard.write_enable.eq(csr.hazard_commit & access.write),
            hazard.turn.eq(scan.turn),
            scan.hazard.eq(hazard.hazard),
            hazard.copy.eq(engine.commit_copy),
            engine.hazard_busy.eq(hazard.busy),
            engine.commit_pending.eq(pending),
            csr.status_commit_pending.eq(pending),
            csr.irq_status_committed.eq(engine.committed),
        ]

    def _connect_entry(self, m, csr, engine):
        p = self.p
        entry = Signal(entry_layout(p))
        flags, facts = engine.row.flags, engine.row.facts
        exists = csr.entry_index_slot < p.sessions
        m.d.comb += engine.entry_index.eq(csr.entry_index_slot)
        with m.If(exists):
            m.d.comb += [
                entry.tokens.eq(facts.tokens),
                entry.turn.eq(facts.turn),
                entry.residency.eq(flags.residency),
                entry.busy.eq(flags.busy),
                entry.completed.eq(flags.completed),
                entry.gap.eq(facts.gap),
                entry.score.eq(Mux(flags.completed, p.score_completed, engine.row.score)),
            ]
        state = Cat(entry.tokens, entry.turn)
        state = Cat(state, Const(0, 26 - len(state)), entry.residency, entry.busy, entry.completed)
        words = (state, entry.gap, entry.score[:32], entry.score[32:])
        for number, word in enumerate(words):
            m.d.comb += [
                getattr(csr, f"entry{number}_data").eq(word),
                getattr(csr, f"entry{number}_refused").eq(~engine.idle),
            ]

    def _connect_statistics(self, m, csr, engine, event_fifo, answer_fifo):
        clear = csr.control_clear_counters
        m.submodules.decision_clock = clock = DecisionClock()
        m.submodules.event_high = event_high = HighWater(len(event_fifo.level))
        m.submodules.answer_high = answer_high = HighWater(len(answer_fifo.level))
        retired = Signal()
        m.d.sync += retired.eq(engine.retired)
        m.d.comb += [
            csr.clear.eq(clear),
            clock.clear.eq(clear),
            clock.begin.eq(engine.event_taken),
            clock.end.eq(engine.retired & engine.searched),
            csr.decision_cycles_cycles.eq(clock.total),
            csr.decision_last_cycles.eq(clock.last),
            csr.decision_worst_cycles.eq(clock.worst),
            event_high.level.eq(event_fifo.level),
            event_high.clear.eq(clear),
            csr.event_high_mark.eq(event_high.mark),
            answer_high.level.eq(answer_fifo.level),
            answer_high.clear.eq(clear),
            csr.answer_high_mark.eq(answer_high.mark),
            csr.status_idle.eq(engine.idle),
            csr.status_dma_busy.eq(engine.dma_busy),
            csr.irq_status_drained.eq(retired & ~event_fifo.get.valid),
            csr.used_sram_tokens.eq(engine.used_sram),
            csr.used_hbm_tokens.eq(engine.used_hbm),
            csr.busy_sram_tokens.eq(engine.busy_sram),
            csr.busy_hbm_tokens.eq(engine.busy_hbm),
        ]
        m.d.comb += [getattr(csr, f"{name}_count").eq(engine.counted[name]) for name, _ in COUNTED]
        m.d.comb += csr.irq_status_error.eq(
            engine.counted.errors_opcode
            | engine.counted.errors_slot
            | engine.counted.errors_tokens
            | engine.counted.errors_state
        )
