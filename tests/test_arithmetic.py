"""The arithmetic against numbers worked out by hand."""

import math
from fractions import Fraction

import pytest

from unison.formats import BUDGET_MAX
from unison.model.arithmetic import FixedPoint, FloatingPoint, quantise
from unison.params import Params

P = Params()
FIXED = FixedPoint(P)
FLOATING = FloatingPoint(P)
GAP_MAX = 4294967295


@pytest.mark.parametrize(
    ("value", "bits", "image"),
    [
        (0, 12, 0),
        (1, 12, 4095),
        (0.5, 12, 2048),
        (0.5, 8, 128),
        (0.01, 12, 41),
        (0.01, 8, 3),
        (Fraction(1, 8190), 12, 1),
        (Fraction(1, 8191), 12, 0),
        (Fraction(8189, 8190), 12, 4095),
        (-0.25, 12, 0),
        (1.5, 12, 4095),
        (math.inf, 12, 4095),
        (-math.inf, 12, 0),
    ],
)
def test_quantise_clamps_and_rounds_half_up(value, bits, image):
    assert quantise(value, bits) == image


def test_quantise_refuses_what_is_no_number():
    with pytest.raises(ValueError, match="nan"):
        quantise(math.nan, 12)


def test_hazard_uses_the_hazard_bits_of_the_format():
    assert FIXED.hazard(0.25) == 1024
    assert FixedPoint(P.replace(hazard_bits=8)).hazard(0.25) == 64


@pytest.mark.parametrize("value", [-1, 4096, 0.5])
def test_a_hazard_that_is_no_image_is_refused(value):
    with pytest.raises(ValueError, match=str(value)):
        FIXED.check_hazard(value)


@pytest.mark.parametrize(("hazard", "survival"), [(0, 4095), (2048, 2047), (4054, 41), (4055, 41), (4095, 41)])
def test_survival_is_the_complement_clamped_at_epsilon(hazard, survival):
    assert FIXED.survival(hazard) == survival


@pytest.mark.parametrize(
    ("unit_ns", "bits", "ns", "gap"),
    [
        (1000, 32, 999, 0),
        (1000, 32, 1999, 1),
        (1000, 32, 4294967295999, GAP_MAX),
        (1000, 32, 4294967296000, GAP_MAX),
        (1, 64, 1 << 64, (1 << 64) - 1),
        (1, 64, 12345678901234, 12345678901234),
        (1_000_000, 24, 16777214999999, 16777214),
        (1_000_000, 24, 99999999 * 1_000_000, 16777215),
    ],
)
def test_gap_floors_and_saturates(unit_ns, bits, ns, gap):
    assert FixedPoint(P.replace(gap_unit_ns=unit_ns, gap_bits=bits)).gap_of_ns(ns) == gap


@pytest.mark.parametrize(
    ("gap", "survival", "quotient"),
    [
        (0, 41, 0),
        (40, 41, 3995),
        (41, 41, 4095),
        (1000, 2047, 2000),
        (4094, 4095, 4094),
        (1, 4094, 1),
        (4093, 4094, 4093),
        (4094, 4094, 4095),
        (GAP_MAX, 4095, GAP_MAX),
        (GAP_MAX, 41, 428972953000),
    ],
)
def test_quotient_floors(gap, survival, quotient):
    assert FIXED.quotient(gap, survival) == quotient


@pytest.mark.parametrize(("survival", "penalty"), [(4095, 0), (4094, 122100), (2047, 250061050), (41, 494993894)])
def test_penalty_floors(survival, penalty):
    assert FIXED.penalty(survival) == penalty


@pytest.mark.parametrize(
    ("score_bits", "gap", "hazard", "score"),
    [
        (64, 0, 0, 0),
        (64, 1234567, 0, 1234567),
        (64, 1000, 2048, 250063050),
        (64, GAP_MAX, 4095, 429467946894),
        (32, 4294967293, 0, 4294967293),
        (32, 4294967294, 0, 4294967294),
        (32, GAP_MAX, 0, 4294967294),
        (32, GAP_MAX, 4095, 4294967294),
        (39, GAP_MAX, 4095, 429467946894),
    ],
)
def test_score_saturates_below_the_completed_code(score_bits, gap, hazard, score):
    arithmetic = FixedPoint(P.replace(score_bits=score_bits))
    hazards = [0] * P.turns
    hazards[7] = hazard
    assert arithmetic.score(gap, 7, hazards) == score
    assert arithmetic.completed == (1 << score_bits) - 1 > score


@pytest.mark.parametrize(
    ("gap", "previous", "average"),
    [
        (0, 0, 0),
        (1, 0, 0),
        (3, 1, 1),
        (100, 200, 170),
        (200, 100, 130),
        (GAP_MAX, 0, 1288490188),
        (0, GAP_MAX, 3006477106),
        (GAP_MAX, GAP_MAX, GAP_MAX),
    ],
)
def test_average_weighs_three_to_seven_and_floors(gap, previous, average):
    assert FIXED.average(gap, previous) == average


@pytest.mark.parametrize(
    ("delta", "numerator", "denominator", "budget"),
    [
        (7, 1, 2, 3),
        (8, 1, 2, 4),
        (0, 65535, 1, 0),
        (5, 0, 3, 0),
        (10, 2, 3, 6),
        (GAP_MAX, 1, 1, BUDGET_MAX),
        (GAP_MAX, 1, 65535, 65537),
        (GAP_MAX, 65535, 1, BUDGET_MAX),
        (0, 0, 0, BUDGET_MAX),
        (1, 1, 0, BUDGET_MAX),
    ],
)
def test_budget_floors_saturates_and_is_unlimited_over_zero(delta, numerator, denominator, budget):
    assert FIXED.budget(delta, numerator, denominator) == budget


def test_floating_point_follows_the_policy():
    hazards = [0.0, 0.5, 1.0]
    assert FLOATING.score(10.0, 0, hazards) == 10.0
    assert FLOATING.score(10.0, 1, hazards) == 250_000_020.0
    assert FLOATING.score(10.0, 2, hazards) == pytest.approx(1000 + 0.99 * 5e8)
    assert FLOATING.completed > FLOATING.score(1e300, 0, hazards)
    assert FLOATING.average(1.0, 0.0) == pytest.approx(0.3)
    assert FLOATING.budget(7.0, 1, 2) == 3.5
    assert FLOATING.budget(0.0, 1, 0) == math.inf
    assert FLOATING.gap_of_ns(1500) == 1.5
    assert FLOATING.saturate_gap(1 << 40) == float(1 << 40)
    assert [FLOATING.hazard(value) for value in (-1, 0.3, 2)] == [0.0, 0.3, 1.0]
    with pytest.raises(ValueError, match=r"1\.5"):
        FLOATING.check_hazard(1.5)
