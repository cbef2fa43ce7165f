"""The sizes and formats of one Unison instance, validated once and passed whole."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

__all__ = ["Params", "N16", "N64", "N256", "NAMED"]

TOKEN_BITS = 20
SLOT_FIELD_BITS = 8
MAX_MOVES = 8
#: Bits of the numerator and of the denominator of the DMA bandwidth.
RATIO_BITS = 16


def _require(name, value, low, high):
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be an integer, not {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in {low} ... {high}, not {value!r}")


@dataclass(frozen=True, kw_only=True)
class Params:
    """Sizes and fixed-point format of one instance; the defaults are the paper's locked point at N = 64.

    Attributes
    ----------
    sessions : int
        N, session slots, 4 ... 256.
    hazard_bits : int
        b_h, width of a hazard and of a survival value (UQ0.b_h), 8 ... 12.
    gap_bits : int
        b_g, width of a stored gap, 24 ... 64; the hardware takes at most 32.
    score_bits : int
        b_s, width of a score, 32 ... 64. All ones is the completed code, all ones less one the highest live score.
    gap_unit_ns : int
        tau, nanoseconds of one unit of a stored gap: 1, 1000 or 1000000.
    penalty : int
        P_Z = P / tau, the penalty in gap units, less than 2**40; the paper's 500 s are 5e8 units of 1 us.
    turn_limit : int
        The turn counter saturates here and the hazard table ends here (50: the table has 51 turns, 0 ... 50).
    epsilon : Fraction
        Lower bound of a survival value, equation (6).
    event_depth, answer_depth : int
        Places in the event and in the answer FIFO, 4 ... 512.
    """

    sessions: int = 64
    hazard_bits: int = 12
    gap_bits: int = 32
    score_bits: int = 64
    gap_unit_ns: int = 1000
    penalty: int = 500_000_000
    turn_limit: int = 50
    epsilon: Fraction = Fraction(1, 100)
    event_depth: int = 16
    answer_depth: int = 16

    def __post_init__(self):
        _require("sessions", self.sessions, 4, 256)
        _require("hazard_bits", self.hazard_bits, 8, 12)
        _require("gap_bits", self.gap_bits, 24, 64)
        _require("score_bits", self.score_bits, 32, 64)
        if self.gap_unit_ns not in (1, 1000, 1_000_000):
            raise ValueError(f"gap_unit_ns must be 1, 1000 or 1000000, not {self.gap_unit_ns!r}")
        _require("penalty", self.penalty, 0, (1 << 40) - 1)
        _require("turn_limit", self.turn_limit, 1, 63)
        if not isinstance(self.epsilon, Fraction) or not 0 < self.epsilon < 1:
            raise ValueError(f"epsilon must be a Fraction between 0 and 1, not {self.epsilon!r}")
        if self.survival_min == 0:
            raise ValueError(f"epsilon {self.epsilon} rounds to 0 at hazard_bits={self.hazard_bits}")
        _require("event_depth", self.event_depth, 4, 512)
        _require("answer_depth", self.answer_depth, 4, 512)

    def replace(self, **changes):
        """The same parameters with some of them changed; validated again."""
        return replace(self, **changes)

    @property
    def slot_bits(self):
        """Width of a slot number inside the IP."""
        return (self.sessions - 1).bit_length()

    @property
    def capacity_bits(self):
        """Width of a capacity or of a usage counter, tokens: 20 + ceil(log2 N)."""
        return TOKEN_BITS + self.slot_bits

    @property
    def turn_bits(self):
        """Width of a saturating turn counter."""
        return self.turn_limit.bit_length()

    @property
    def turns(self):
        """Rows of the hazard table."""
        return self.turn_limit + 1

    @property
    def hazard_max(self):
        """Lambda = 2**b_h - 1, the image of 1.0 (equation 13)."""
        return (1 << self.hazard_bits) - 1

    @property
    def survival_min(self):
        """epsilon_Z = UQ0.b_h(epsilon), equation (15)."""
        return math.floor(self.epsilon * self.hazard_max + Fraction(1, 2))

    @property
    def gap_max(self):
        """The largest stored gap, equation (16)."""
        return (1 << self.gap_bits) - 1

    @property
    def score_completed(self):
        """The score of a completed session: all ones."""
        return (1 << self.score_bits) - 1

    @property
    def score_live_max(self):
        """Where the score of a live session saturates, equation (19)."""
        return (1 << self.score_bits) - 2

    @property
    def quotient_bits(self):
        """Bits of the largest quotient of equation (17); 39 at the locked format."""
        return (self.gap_max * self.hazard_max // self.survival_min).bit_length()

    @property
    def live_score_bits(self):
        """Bits that the score of a live session can need."""
        penalty_max = (self.hazard_max - self.survival_min) * self.penalty // self.hazard_max
        largest = self.gap_max * self.hazard_max // self.survival_min + penalty_max
        return min(largest, self.score_live_max).bit_length()


N16 = Params(sessions=16)
N64 = Params()
N256 = Params(sessions=256)
NAMED = {"N16": N16, "N64": N64, "N256": N256}
