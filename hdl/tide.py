"""Tide's rule: what a gap that opens may move, equations (8) to (10) and (3)."""

from amaranth.hdl import Module, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from unison.formats import BUDGET_MAX

__all__ = ["TideAction", "TideRule", "BUDGET_BITS"]

#: Width of a budget in tokens.
BUDGET_BITS = BUDGET_MAX.bit_length()


class TideAction(enum.Enum, shape=2):
    """What one step of Tide does."""

    STOP = 0
    PROMOTE = 1
    SWAP = 2


class TideRule(wiring.Component):
    """Decides one step from the two extremes of a pass, no completed session among them that must leave. Combinational.

    Members
    -------
    room : In(1)
        SRAM has room for p* as it is.
    demotable : In(1)
        There is a d*.
    colder : In(1)
        score(p*) < score(d*).
    pays_promotion, pays_swap : In(1)
        The tokens of p*, and of p* and d*, are within what is left of the budget.
    holds : In(1)
        Both capacities hold after a swap.
    action : Out(TideAction)
    """

    def __init__(self):
        super().__init__(
            {
                "room": In(1),
                "demotable": In(1),
                "colder": In(1),
                "pays_promotion": In(1),
                "pays_swap": In(1),
                "holds": In(1),
                "action": Out(TideAction),
            }
        )

    def elaborate(self, platform):
        m = Module()
        swaps = Signal()
        m.d.comb += swaps.eq(self.demotable & self.colder & self.pays_swap & self.holds)
        with m.If(self.room), m.If(self.pays_promotion):
            m.d.comb += self.action.eq(TideAction.PROMOTE)
        with m.Elif(swaps):
            m.d.comb += self.action.eq(TideAction.SWAP)
        return m
