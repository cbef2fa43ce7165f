"""The scan of the session table: one pass finds every extreme a decision can ask for."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from unison.formats import Residency
from unison.hdl.spear import ScorerSignature, score_key
from unison.hdl.table import row_layout

__all__ = ["found_layout", "ScanSignature", "LinearScan"]


def found_layout(p):
    """One extreme of a pass; ``key`` compares like the score (``score_key``)."""
    return data.StructLayout({"valid": 1, "slot": range(p.sessions), "key": p.live_score_bits + 1})


class ScanSignature(wiring.Signature):
    """What the engine asks of a scan, whatever its structure. Equal scores go to the lowest slot.

    Members
    -------
    start : Out(1)
        Takes ``first`` ... ``tiers`` and begins a pass; the table must not change until ``done``.
    first, last : Out
        The slots of the pass. A pass also brings the score column of its live paused sessions up to date.
    tiers : Out(2)
        Bit 0: SRAM, bit 1: HBM take part in the search for ``highest``.
    done : In(1)
        The results are there: high until the next ``start``.
    absent : In
        The paused absent session of highest score.
    highest : In
        The paused resident of highest score in ``tiers``.
    lowest : In
        The paused HBM resident of lowest score that is not completed.
    """

    def __init__(self, p):
        slot = range(p.sessions)
        super().__init__(
            {
                "start": Out(1),
                "first": Out(slot),
                "last": Out(slot),
                "tiers": Out(2),
                "done": In(1),
                "absent": In(found_layout(p)),
                "highest": In(found_layout(p)),
                "lowest": In(found_layout(p)),
            }
        )


class LinearScan(wiring.Component):
    """Reads one slot a cycle and scores it in a pipeline: with a scorer of latency 4, n slots take n + 5 cycles.

    Slot ``first`` is read in the cycle of ``start``; ``done`` is high n + 1 + latency cycles later.

    Members
    -------
    request : In(ScanSignature(p))
    scorer : Out(ScorerSignature(p))
    reading : Out(1), slot : Out
        The table's read port is the scan's while ``reading``.
    row : In(row_layout(p))
        The entry of ``slot``, in the same cycle.
    turn : Out, hazard : In(b_h)
        Reads the live hazard table in the same cycle.
    score_enable, score_slot, score : Out
        Writes the score column.
    """

    def __init__(self, p, *, scorer_latency):
        self.p = p
        self.scorer_latency = scorer_latency
        slot = range(p.sessions)
        super().__init__(
            {
                "request": In(ScanSignature(p)),
                "scorer": Out(ScorerSignature(p)),
                "reading": Out(1),
                "slot": Out(slot),
                "row": In(row_layout(p)),
                "turn": Out(range(p.turns)),
                "hazard": In(p.hazard_bits),
                "score_enable": Out(1),
                "score_slot": Out(slot),
                "score": Out(p.live_score_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        p = self.p
        request = self.request

        # Fetch: the slot's entry and the hazard of its turn.
        next_slot = Signal(range(p.sessions))
        last = Signal(range(p.sessions))
        walking = Signal()
        ends_here = Signal()
        m.d.comb += [
            self.reading.eq(request.start | walking),
            self.slot.eq(Mux(request.start, request.first, next_slot)),
            self.turn.eq(self.row.facts.turn),
            ends_here.eq(self.slot == Mux(request.start, request.last, last)),
        ]
        tiers = Signal(2)
        with m.If(request.start):
            m.d.sync += [tiers.eq(request.tiers), last.eq(request.last)]
        with m.If(self.reading):
            m.d.sync += [next_slot.eq(self.slot + 1), walking.eq(~ends_here)]

        flags = self.row.flags
        paused = Signal()
        kind = data.StructLayout(
            {"slot": range(p.sessions), "ends": 1, "absent": 1, "sram": 1, "hbm": 1, "completed": 1}
        )
        fetched = Signal(kind)
        m.d.comb += paused.eq(self.reading & ~flags.busy)
        # The scorer's operands stand still for slots without a live score: nothing toggles behind them.
        with m.If(paused & (flags.residency != Residency.FREE) & ~flags.completed):
            m.d.sync += [self.scorer.gap.eq(self.row.facts.gap), self.scorer.hazard.eq(self.hazard)]
        m.d.sync += [
            fetched.slot.eq(self.slot),
            fetched.ends.eq(self.reading & ends_here),
            fetched.absent.eq(paused & (flags.residency == Residency.ABSENT)),
            fetched.sram.eq(paused & (flags.residency == Residency.SRAM)),
            fetched.hbm.eq(paused & (flags.residency == Residency.HBM)),
            fetched.completed.eq(flags.completed),
        ]

        # The scorer works; what is known of its session travels beside it.
        scored = fetched
        for rank in range(self.scorer_latency):
            carried = Signal(kind, name=f"rank{rank}")
            m.d.sync += carried.eq(scored)
            scored = carried

        # Compare: ascending slots and strict comparisons keep the lowest slot of equal scores.
        key = Signal(p.live_score_bits + 1)
        live = scored.absent | scored.sram | scored.hbm
        m.d.comb += [
            key.eq(score_key(Mux(scored.completed, 0, self.scorer.score), scored.completed)),
            self.score_enable.eq(live & ~scored.completed),
            self.score_slot.eq(scored.slot),
            self.score.eq(self.scorer.score),
        ]
        in_tiers = (scored.sram & tiers[0]) | (scored.hbm & tiers[1])
        searches = (
            (request.absent, scored.absent, key > request.absent.key),
            (request.highest, in_tiers, key > request.highest.key),
            (request.lowest, scored.hbm & ~scored.completed, key < request.lowest.key),
        )
        for best, takes_part, better in searches:
            with m.If(request.start):
                m.d.sync += best.valid.eq(0)
            with m.Elif(takes_part & (better | ~best.valid)):
                m.d.sync += [best.valid.eq(1), best.slot.eq(scored.slot), best.key.eq(key)]
        with m.If(request.start):
            m.d.sync += request.done.eq(0)
        with m.Elif(scored.ends):
            m.d.sync += request.done.eq(1)
        return m
