"""Spear's score, equations (15) and (17) to (19), behind a signature that other structures can fill."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from unison.hdl.divider import PipelinedDivider

__all__ = ["ScorerSignature", "PipelinedScorer", "score_key", "is_completed"]


class ScorerSignature(wiring.Signature):
    """A scorer takes one session a cycle and returns its score a fixed number of cycles (``latency``) later.

    Members
    -------
    gap : Out(b_g)
        The gap average in gap units.
    hazard : Out(b_h)
        min(h_Z(turn), Lambda - epsilon_Z): the complement of the survival sigma_Z.
    score : In(live_score_bits)
        min(q_Z + p_Z, 2**b_s - 2).
    """

    def __init__(self, p):
        super().__init__({"gap": Out(p.gap_bits), "hazard": Out(p.hazard_bits), "score": In(p.live_score_bits)})


class PipelinedScorer(wiring.Component):
    """The paper's scorer: an exact divider of four ranks inside the scan; the sum follows the last rank.

    Latency 4, one score a cycle, no stalls.

    Members
    -------
    session : In(ScorerSignature(p))
    """

    latency = 4

    def __init__(self, p):
        self.p = p
        super().__init__({"session": In(ScorerSignature(p))})

    def elaborate(self, platform):
        m = Module()
        p = self.p
        session = self.session

        m.submodules.divider = divider = PipelinedDivider(
            dividend_bits=p.gap_bits + p.hazard_bits,
            divisor_bits=p.hazard_bits,
            quotient_bits=p.quotient_bits,
            ranks=self.latency,
        )
        # Lambda = 2**b_h - 1: a product with it is a shift and a subtraction, a complement to it an inversion.
        m.d.comb += [
            divider.dividend.eq((session.gap << p.hazard_bits) - session.gap),
            divider.divisor.eq(~session.hazard),
        ]

        # p_Z = floor(hazard * P / Lambda) in ranks 3 and 4, with P = whole * Lambda + rest. For x = hazard * rest
        # = high * 2**b_h + low, x = high * Lambda + (high + low) and high + low < 2 * Lambda: one carry is left.
        hazard = session.hazard
        for rank in range(2):
            rank_hazard = Signal(p.hazard_bits, name=f"rank{rank}_hazard")
            m.d.sync += rank_hazard.eq(hazard)
            hazard = rank_hazard
        whole, rest = divmod(p.penalty, p.hazard_max)
        whole_product = Signal(range(p.hazard_max * whole + 1))
        rest_product = Signal(2 * p.hazard_bits)
        m.d.sync += [whole_product.eq(hazard * whole), rest_product.eq(hazard * rest)]
        high, low = rest_product[p.hazard_bits :], rest_product[: p.hazard_bits]
        penalty = Signal(range(p.hazard_max * (whole + 1) + 1))
        m.d.sync += penalty.eq(whole_product + high + (high + low >= p.hazard_max))

        total = Signal(max(p.quotient_bits, len(penalty)) + 1)
        m.d.comb += [
            total.eq(divider.quotient + penalty),
            session.score.eq(Mux(total > p.score_live_max, p.score_live_max, total)),
        ]
        return m


def score_key(score, completed):
    """What the ranking compares: a completed session is above every live one (its score is all ones)."""
    return Cat(score, completed)


def is_completed(key):
    """The completed flag of a ``score_key``."""
    return key[-1]
