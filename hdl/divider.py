"""Exact unsigned dividers: a pipeline for the scan, a small serial one for everything else."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["PipelinedDivider", "SerialDivider"]


def _restoring_row(m, remainder, bit, divisor):
    """One row of restoring division: the new remainder and the quotient bit."""
    shifted = Cat(bit, remainder)
    difference = Signal(len(shifted) + 1, name="difference")
    m.d.comb += difference.eq(shifted - divisor)
    fits = ~difference[-1]
    return Mux(fits, difference, shifted)[: len(remainder)], fits


class PipelinedDivider(wiring.Component):
    """Divides one pair a cycle, exactly; restoring rows in ``ranks`` ranks, each ending in a register.

    The quotient of the operands of cycle t is at the output in cycle t + ``ranks``; nothing stalls.
    The caller guarantees ``dividend < divisor << quotient_bits``, so that the quotient fits.

    Members
    -------
    dividend : In(dividend_bits)
    divisor : In(divisor_bits)
        Not 0.
    quotient : Out(quotient_bits)
        floor(dividend / divisor).
    """

    def __init__(self, *, dividend_bits, divisor_bits, quotient_bits, ranks):
        if not 1 <= ranks <= quotient_bits:
            raise ValueError(f"ranks must lie in 1 ... {quotient_bits}, not {ranks!r}")
        self.ranks = ranks
        super().__init__({"dividend": In(dividend_bits), "divisor": In(divisor_bits), "quotient": Out(quotient_bits)})

    def elaborate(self, platform):
        m = Module()
        quotient_bits = len(self.quotient)

        # The bits above the quotient's weight are less than the divisor: they are the first remainder.
        remainder = self.dividend[quotient_bits:]
        remainder = Cat(remainder, Const(0, max(0, len(self.divisor) - len(remainder))))
        # Dividend bits leave at the top while quotient bits enter at the bottom of one word.
        work = self.dividend[:quotient_bits]
        divisor = self.divisor

        rows_left = quotient_bits
        for rank in range(self.ranks):
            # The first rank gets the fewest rows: its operands come through logic.
            rows = rows_left // (self.ranks - rank)
            rows_left -= rows
            for _ in range(rows):
                remainder, quotient_bit = _restoring_row(m, remainder, work[-1], divisor)
                work = Cat(quotient_bit, work[:-1])
            rank_remainder = Signal(len(self.divisor), name=f"rank{rank}_remainder")
            rank_work = Signal(quotient_bits, name=f"rank{rank}_work")
            m.d.sync += [rank_remainder.eq(remainder), rank_work.eq(work)]
            if rank < self.ranks - 1:
                rank_divisor = Signal(len(self.divisor), name=f"rank{rank}_divisor")
                m.d.sync += rank_divisor.eq(divisor)
                divisor = rank_divisor
            remainder, work = rank_remainder, rank_work

        m.d.comb += self.quotient.eq(work)
        return m


class SerialDivider(wiring.Component):
    """Divides exactly, ``bits_per_cycle`` quotient bits a cycle; a quotient that doesn't fit saturates to all ones.

    ``start`` takes the operands, in any cycle: a division under way is dropped. ``done`` rises
    1 + quotient_bits / bits_per_cycle cycles later and stays high until the next ``start``. Division by 0 saturates.

    Members
    -------
    start : In(1)
    dividend : In(dividend_bits)
    divisor : In(divisor_bits)
    done : Out(1)
    quotient : Out(quotient_bits)
        min(floor(dividend / divisor), 2**quotient_bits - 1), while ``done``.
    """

    def __init__(self, *, dividend_bits, divisor_bits, quotient_bits, bits_per_cycle):
        if quotient_bits % bits_per_cycle:
            raise ValueError(f"bits_per_cycle must divide {quotient_bits}, not {bits_per_cycle!r}")
        self.bits_per_cycle = bits_per_cycle
        super().__init__(
            {
                "start": In(1),
                "dividend": In(dividend_bits),
                "divisor": In(divisor_bits),
                "done": Out(1),
                "quotient": Out(quotient_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        quotient_bits = len(self.quotient)
        high = self.dividend[quotient_bits:]
        remainder_bits = max(len(self.divisor), len(high))

        remainder = Signal(remainder_bits)
        work = Signal(quotient_bits)
        divisor = Signal(len(self.divisor))
        saturated = Signal()
        steps_left = Signal(range(quotient_bits // self.bits_per_cycle + 1))

        next_remainder, next_work = remainder, work
        for _ in range(self.bits_per_cycle):
            next_remainder, quotient_bit = _restoring_row(m, next_remainder, next_work[-1], divisor)
            next_work = Cat(quotient_bit, next_work[:-1])

        with m.If(self.start):
            m.d.sync += [
                remainder.eq(high),
                work.eq(self.dividend[:quotient_bits]),
                divisor.eq(self.divisor),
                saturated.eq(high >= self.divisor),
                steps_left.eq(quotient_bits // self.bits_per_cycle),
            ]
        with m.Elif(steps_left != 0):
            m.d.sync += [remainder.eq(next_remainder), work.eq(next_work), steps_left.eq(steps_left - 1)]

        m.d.comb += [
            self.done.eq(steps_left == 0),
            self.quotient.eq(work | saturated.replicate(quotient_bits)),
        ]
        return m
