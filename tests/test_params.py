"""Parameters: bounds, messages, and the derived numbers of the locked format."""

from fractions import Fraction

import pytest

from unison.params import N16, N64, N256, NAMED, Params

BOUNDS = {
    "sessions": (4, 256),
    "hazard_bits": (8, 12),
    "gap_bits": (24, 64),
    "score_bits": (32, 64),
    "penalty": (0, 2**40 - 1),
    "turn_limit": (1, 63),
    "event_depth": (4, 512),
    "answer_depth": (4, 512),
}


@pytest.mark.parametrize(("name", "low", "high"), [(name, *bounds) for name, bounds in BOUNDS.items()])
def test_bounds_are_accepted_and_one_beyond_is_refused_by_name_and_value(name, low, high):
    for value in (low, high):
        assert getattr(Params(**{name: value}), name) == value
    for value in (low - 1, high + 1):
        with pytest.raises(ValueError, match=rf"{name} must lie in {low} \.\.\. {high}, not {value}$"):
            Params(**{name: value})


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("value", [64.0, "64", None, True])
def test_only_integers_are_sizes(name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer, not {value!r}"):
        Params(**{name: value})


@pytest.mark.parametrize("value", [0, 10, 10**9])
def test_gap_unit_is_one_of_three(value):
    with pytest.raises(ValueError, match=f"gap_unit_ns must be 1, 1000 or 1000000, not {value}"):
        Params(gap_unit_ns=value)


@pytest.mark.parametrize("value", [0.01, Fraction(0), Fraction(1)])
def test_epsilon_is_a_fraction_inside_the_unit_interval(value):
    with pytest.raises(ValueError, match="epsilon must be a Fraction between 0 and 1"):
        Params(epsilon=value)


def test_epsilon_may_not_vanish_at_the_chosen_width():
    with pytest.raises(ValueError, match="epsilon 1/1000 rounds to 0 at hazard_bits=8"):
        Params(epsilon=Fraction(1, 1000), hazard_bits=8)


def test_replace_validates_and_leaves_the_original():
    assert N64.replace(sessions=5).sessions == 5
    with pytest.raises(ValueError, match="sessions"):
        N64.replace(sessions=3)
    with pytest.raises(AttributeError):
        N64.sessions = 5
    assert Params() == N64


def test_named_instances():
    assert NAMED == {"N16": N16, "N64": N64, "N256": N256}
    assert [p.sessions for p in NAMED.values()] == [16, 64, 256]


def test_locked_format_has_the_numbers_of_the_paper():
    derived = ("hazard_max", "survival_min", "gap_max", "turns", "turn_bits", "quotient_bits", "live_score_bits")
    assert [getattr(N64, name) for name in derived] == [4095, 41, 2**32 - 1, 51, 6, 39, 39]
    assert (N64.score_live_max, N64.score_completed) == (2**64 - 2, 2**64 - 1)


@pytest.mark.parametrize(
    ("sessions", "slot_bits", "capacity_bits"),
    [(4, 2, 22), (5, 3, 23), (16, 4, 24), (17, 5, 25), (64, 6, 26), (255, 8, 28), (256, 8, 28)],
)
def test_slot_and_capacity_widths_round_up(sessions, slot_bits, capacity_bits):
    p = Params(sessions=sessions)
    assert (p.slot_bits, p.capacity_bits) == (slot_bits, capacity_bits)


def test_live_scores_saturate_below_the_completed_code():
    p = Params(score_bits=32)
    assert (p.quotient_bits, p.live_score_bits) == (39, 32)
    assert p.score_live_max == p.score_completed - 1 == 2**32 - 2


@pytest.mark.parametrize(("hazard_bits", "survival_min"), [(8, 3), (9, 5), (10, 10), (11, 20), (12, 41)])
def test_lowest_survival_rounds_to_nearest(hazard_bits, survival_min):
    assert Params(hazard_bits=hazard_bits).survival_min == survival_min
