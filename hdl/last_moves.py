"""Which slots took part in the last moves: a failed DMA transfer makes them absent."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from unison.hdl.table import lowest_set

__all__ = ["LastMoves"]


class LastMoves(wiring.Component):
    """A set of slots. In one cycle ``clear`` acts first, then ``remove``, then ``add``.

    Members
    -------
    clear : In(1)
    remove, add : In(1)
        Act on ``slot``.
    slot : In
    any : Out(1)
    lowest : Out
        The lowest slot of the set.
    """

    def __init__(self, p):
        self.p = p
        slot = range(p.sessions)
        super().__init__(
            {"clear": In(1), "remove": In(1), "add": In(1), "slot": In(slot), "any": Out(1), "lowest": Out(slot)}
        )

    def elaborate(self, platform):
        m = Module()
        members = Signal(self.p.sessions)
        with m.If(self.clear):
            m.d.sync += members.eq(0)
        with m.If(self.remove | self.add):
            m.d.sync += members.bit_select(self.slot, 1).eq(self.add)
        m.d.comb += self.any.eq(members.any())
        lowest_set(m, members, self.lowest)
        return m
