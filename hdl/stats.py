"""Worst cases and high-water marks."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["DecisionClock", "HighWater"]


class DecisionClock(wiring.Component):
    """Counts the cycles from an event leaving its FIFO to its last answer.

    Members
    -------
    begin : In(1)
        The event leaves the FIFO.
    end : In(1)
        The last answer of a decision enters its FIFO.
    clear : In(1)
    total : Out(32)
        Sum over the decisions; wraps.
    last, worst : Out(32)
        Saturating.
    """

    def __init__(self):
        super().__init__(
            {"begin": In(1), "end": In(1), "clear": In(1), "total": Out(32), "last": Out(32), "worst": Out(32)}
        )

    def elaborate(self, platform):
        m = Module()
        elapsed = Signal(32)
        with m.If(self.begin):
            m.d.sync += elapsed.eq(1)
        with m.Elif(~elapsed.all()):
            m.d.sync += elapsed.eq(elapsed + 1)
        with m.If(self.clear):
            m.d.sync += [self.total.eq(0), self.last.eq(0), self.worst.eq(0)]
        with m.Elif(self.end):
            m.d.sync += [
                self.total.eq(self.total + elapsed),
                self.last.eq(elapsed),
                self.worst.eq(Mux(elapsed > self.worst, elapsed, self.worst)),
            ]
        return m


class HighWater(wiring.Component):
    """The highest ``level`` since reset or ``clear``, one cycle late.

    Members
    -------
    level : In(width)
    clear : In(1)
    mark : Out(width)
    """

    def __init__(self, width):
        super().__init__({"level": In(width), "clear": In(1), "mark": Out(width)})

    def elaborate(self, platform):
        m = Module()
        with m.If(self.clear | (self.level > self.mark)):
            m.d.sync += self.mark.eq(self.level)
        return m
