"""Tokens in use in each tier, and what fits beside them."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from unison.params import TOKEN_BITS

__all__ = ["TierUsage"]


class TierUsage(wiring.Component):
    """The tokens of one tier's residents, and of the busy ones among them.

    Members
    -------
    add, subtract : In(1)
        Count ``tokens`` in or out, from the next cycle on; at most one of them is high.
    busy_too : In(1)
        The session counted is busy.
    busy_only : In(1)
        The session stays where it is and stops being busy: only the busy sum is counted.
    tokens : In(20)
    capacity : In(capacity_bits)
    arriving, leaving : In(20)
        ``fits`` asks for room for ``arriving`` once ``leaving`` have left.
    fits : Out(1)
        used + arriving <= capacity + leaving.
    can_fit : Out(1)
        busy + arriving <= capacity: every paused resident could leave.
    used, busy : Out(capacity_bits)
    """

    def __init__(self, p):
        self.p = p
        super().__init__(
            {
                "add": In(1),
                "subtract": In(1),
                "busy_too": In(1),
                "busy_only": In(1),
                "tokens": In(TOKEN_BITS),
                "capacity": In(p.capacity_bits),
                "arriving": In(TOKEN_BITS),
                "leaving": In(TOKEN_BITS),
                "fits": Out(1),
                "can_fit": Out(1),
                "used": Out(p.capacity_bits),
                "busy": Out(p.capacity_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        with m.If(self.add | self.subtract):
            with m.If(~self.busy_only):
                m.d.sync += self.used.eq(Mux(self.add, self.used + self.tokens, self.used - self.tokens))
            with m.If(self.busy_too | self.busy_only):
                m.d.sync += self.busy.eq(Mux(self.add, self.busy + self.tokens, self.busy - self.tokens))
        m.d.comb += [
            self.fits.eq(self.used + self.arriving <= self.capacity + self.leaving),
            self.can_fit.eq(self.busy + self.arriving <= self.capacity),
        ]
        return m
