"""The scheduler's numbers twice: exact integers as the hardware computes them, and the floating-point policy."""

import math
from dataclasses import dataclass
from fractions import Fraction

from unison.formats import BUDGET_MAX
from unison.params import Params

__all__ = ["FixedPoint", "FloatingPoint", "quantise"]


def quantise(value, bits):
    """The UQ0 image of a number, equation (13): ``value`` is clamped to 0 ... 1 and rounded half up to Lambda steps.

    Parameters
    ----------
    value : int, float or Fraction
        Clamped; a float is taken at its exact binary value.
    bits : int
        Width b of the result; Lambda = 2**b - 1 is the image of 1.

    Raises
    ------
    ValueError
        If ``value`` is not a number.
    """
    if value != value:
        raise ValueError(f"not a number: {value!r}")
    clamped = Fraction(min(max(value, 0), 1))
    return math.floor(clamped * ((1 << bits) - 1) + Fraction(1, 2))


@dataclass(frozen=True)
class FixedPoint:
    """Equations (13) to (20) and (25) in integers: every division floors, every result saturates, nothing wraps.

    Gaps and averages are whole gap units of ``p.gap_unit_ns``, hazards and survivals UQ0 of ``p.hazard_bits``.
    """

    p: Params

    @property
    def completed(self):
        """The score of a completed session: all ones."""
        return self.p.score_completed

    def hazard(self, value):
        """h_Z of a hazard given as a number, equation (14); rounds half up."""
        return quantise(value, self.p.hazard_bits)

    def check_hazard(self, value):
        """``value`` if it is an h_Z, else ValueError."""
        if not isinstance(value, int) or not 0 <= value <= self.p.hazard_max:
            raise ValueError(f"a hazard must be an integer in 0 ... {self.p.hazard_max}, not {value!r}")
        return value

    def gap_of_ns(self, ns):
        """The stored gap of ``ns`` nanoseconds, equation (16); floors, then saturates at b_g bits."""
        return self.saturate_gap(ns // self.p.gap_unit_ns)

    def saturate_gap(self, gap):
        """A gap in gap units as it is stored: saturates at b_g bits."""
        return min(gap, self.p.gap_max)

    def survival(self, hazard):
        """sigma_Z = Lambda - h_Z, not below epsilon_Z; equation (15)."""
        return max(self.p.survival_min, self.p.hazard_max - hazard)

    def quotient(self, gap, survival):
        """q_Z = gap * Lambda / sigma_Z, floored; equation (17)."""
        return gap * self.p.hazard_max // survival

    def penalty(self, survival):
        """p_Z = (Lambda - sigma_Z) * P_Z / Lambda, floored; equation (18)."""
        return (self.p.hazard_max - survival) * self.p.penalty // self.p.hazard_max

    def score(self, gap, turn, hazards):
        """The score of a live session, equation (19); saturates one below the completed code.

        Parameters
        ----------
        gap : int
            Gap average, 0 ... p.gap_max.
        turn : int
            0 ... p.turn_limit, the row of the table that counts.
        hazards : sequence of int
            The live table, p.turns rows of h_Z.
        """
        survival = self.survival(hazards[turn])
        return min(self.quotient(gap, survival) + self.penalty(survival), self.p.score_live_max)

    def average(self, gap, previous):
        """The gap average after one more gap, (3 * gap + 7 * previous) / 10 floored; equation (20)."""
        return (3 * gap + 7 * previous) // 10

    def budget(self, delta, numerator, denominator):
        """Tokens that DMA moves in ``delta`` gap units, floored, equation (25); saturates, and x / 0 is unlimited."""
        if denominator == 0:
            return BUDGET_MAX
        return min(delta * numerator // denominator, BUDGET_MAX)


@dataclass(frozen=True)
class FloatingPoint:
    """Equations (4) to (8) in floating point, in the gap units of ``p``; nothing is rounded or saturates.

    Takes the place of ``FixedPoint`` in an engine, whose hazards are then fractions in 0 ... 1.
    """

    p: Params

    @property
    def completed(self):
        """S_max: above every live score."""
        return math.inf

    def hazard(self, value):
        """h of a hazard given as a number: clamped to 0 ... 1, not rounded."""
        return float(min(max(value, 0), 1))

    def check_hazard(self, value):
        """``value`` as a float if it lies in 0 ... 1, else ValueError."""
        if not 0 <= value <= 1:
            raise ValueError(f"a hazard must lie in 0 ... 1, not {value!r}")
        return float(value)

    def gap_of_ns(self, ns):
        """The gap of ``ns`` nanoseconds in gap units, with its fraction."""
        return ns / self.p.gap_unit_ns

    def saturate_gap(self, gap):
        """A gap as it is stored: unchanged."""
        return float(gap)

    def survival(self, hazard):
        """sigma = 1 - h, not below epsilon; equation (6)."""
        return max(float(self.p.epsilon), 1.0 - hazard)

    def score(self, gap, turn, hazards):
        """gap / sigma + (1 - sigma) * P; equation (7). ``hazards`` is the live table, row ``turn`` counts."""
        survival = self.survival(hazards[turn])
        return gap / survival + (1.0 - survival) * self.p.penalty

    def average(self, gap, previous):
        """The gap average after one more gap; equation (4)."""
        return (3 * gap + 7 * previous) / 10

    def budget(self, delta, numerator, denominator):
        """Tokens that DMA moves in ``delta`` gap units, equation (8); infinite when ``denominator`` is 0."""
        return delta * numerator / denominator if denominator else math.inf
