"""The session table: one entry a slot."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from unison.formats import Residency
from unison.params import TOKEN_BITS

__all__ = ["flags_layout", "facts_layout", "row_layout", "SessionTable", "lowest_set"]


def flags_layout():
    """The four flags of an entry."""
    return data.StructLayout({"residency": Residency, "busy": 1, "completed": 1})


def facts_layout(p):
    """What the host told about the session of an entry."""
    return data.StructLayout({"turn": p.turn_bits, "gap": p.gap_bits, "tokens": TOKEN_BITS})


def row_layout(p):
    """A whole entry as it is stored; the score is a live session's, a completed one's is known from its flag."""
    return data.StructLayout({"flags": flags_layout(), "facts": facts_layout(p), "score": p.live_score_bits})


def lowest_set(m, bits, index):
    """Drive ``index`` with the number of the lowest bit set in ``bits``; 0 if there is none."""
    for number in reversed(range(len(bits))):
        with m.If(bits[number]):
            m.d.comb += index.eq(number)


class SessionTable(wiring.Component):
    """N entries with one read port and one write port, and a write port for the score column.

    A read is answered in the same cycle; a write is seen from the next one on. Reset makes every entry free; turn,
    gap, tokens and score of a free entry mean nothing and have no reset.

    Members
    -------
    read_slot : In, row : Out(row_layout(p))
    write_slot : In
    flags_enable, flags, facts_enable, facts : In
        Write flags or facts of ``write_slot``.
    score_enable, score_slot, score : In
        Write a score.
    any_free : Out(1), lowest_free : Out
        Whether an entry is free, and the lowest that is.
    """

    def __init__(self, p):
        self.p = p
        slot = range(p.sessions)
        super().__init__(
            {
                "read_slot": In(slot),
                "row": Out(row_layout(p)),
                "write_slot": In(slot),
                "flags_enable": In(1),
                "flags": In(flags_layout()),
                "facts_enable": In(1),
                "facts": In(facts_layout(p)),
                "score_enable": In(1),
                "score_slot": In(slot),
                "score": In(p.live_score_bits),
                "any_free": Out(1),
                "lowest_free": Out(slot),
            }
        )

    def elaborate(self, platform):
        m = Module()
        p = self.p

        # The flags are registers: they need a reset, and the lowest free slot is found without a walk.
        columns = []
        for name in ("residency_low", "residency_high", "busy", "completed"):
            columns.append(Signal(p.sessions, name=name))
        with m.If(self.flags_enable):
            for column, flag in zip(columns, self.flags.as_value(), strict=True):
                m.d.sync += column.bit_select(self.write_slot, 1).eq(flag)
        free = Signal(p.sessions)
        m.d.comb += [
            self.row.flags.eq(Cat(column.bit_select(self.read_slot, 1) for column in columns)),
            free.eq(~(columns[0] | columns[1])),
            self.any_free.eq(free.any()),
        ]
        lowest_set(m, free, self.lowest_free)

        m.submodules.facts_column = facts = memory.Memory(shape=facts_layout(p), depth=p.sessions, init=[])
        facts_write, facts_read = facts.write_port(), facts.read_port(domain="comb")
        m.submodules.score_column = scores = memory.Memory(shape=p.live_score_bits, depth=p.sessions, init=[])
        score_write, score_read = scores.write_port(), scores.read_port(domain="comb")
        m.d.comb += [
            facts_write.addr.eq(self.write_slot),
            facts_write.data.eq(self.facts),
            facts_write.en.eq(self.facts_enable),
            facts_read.addr.eq(self.read_slot),
            self.row.facts.eq(facts_read.data),
            score_write.addr.eq(self.score_slot),
            score_write.data.eq(self.score),
            score_write.en.eq(self.score_enable),
            score_read.addr.eq(self.read_slot),
            self.row.score.eq(score_read.data),
        ]
        return m
