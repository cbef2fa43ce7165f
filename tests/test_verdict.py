"""The verdict: its numbers by hand, its reasons and what it says."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from unison.model.evaluation import References
from unison.model.verdict import judge

REFERENCES = References(
    "lru", {"explicit": "lru-completion", "silent": "lru"}, "belady", ("belady", "belady-tide"), 0.99
)
POLICIES = ("lru", "lru-completion", "belady", "belady-tide", "good", "other")
#: Means of AMAT by policy where nothing else is said.
PLAIN = {"lru": 120.0, "lru-completion": 100.0, "belady": 50.0, "belady-tide": 60.0, "good": 80.0, "other": 101.0}


def outcome(means=(), noise=0.0, samples=400, envelopes=("edge", "cxl"), completion="explicit"):
    """An Outcome: ``means`` by policy, a number or one for each envelope; ``good`` is drawn with lognormal noise."""
    sums = np.ones((1 + samples, len(envelopes), len(POLICIES)))
    for place, name in enumerate(POLICIES):
        sums[:, :, place] *= np.array(dict(PLAIN, **dict(means))[name])
    factors = np.exp(noise * np.random.default_rng(0).standard_normal(samples))
    sums[1:, :, POLICIES.index("good")] *= factors[:, None]
    schedule = SimpleNamespace(name="t", load=SimpleNamespace(completion=completion, seed=3))
    setup = SimpleNamespace(schedule=schedule, label="service x 1/4")
    return SimpleNamespace(setup=setup, policies=POLICIES, envelopes=envelopes, sums=sums)


def test_numbers_by_hand():
    verdict = judge(
        outcome({"good": [80.0, 45.0], "belady-tide": [99.5, 40.0], "belady": 99.5}), POLICIES[4:], REFERENCES
    )
    assert (verdict.trace, verdict.completion, verdict.load, verdict.seed) == ("t", "explicit", "service x 1/4", 3)
    assert (verdict.policy, verdict.best, verdict.reason, verdict.candidates) == ("good", "good", "win", 2)
    assert verdict.ratio == pytest.approx(math.sqrt(0.8 * 0.45))
    assert verdict.interval == pytest.approx((verdict.ratio, verdict.ratio))
    assert verdict.worst == (pytest.approx(0.8), "edge")
    # The best oracle of each envelope: 0.995 and 0.4.
    assert verdict.oracle == pytest.approx(math.sqrt(0.995 * 0.4))
    assert (verdict.enough, verdict.wins, verdict.lru) == (("edge",), 2, pytest.approx(1.2))
    assert (verdict.confidence, verdict.first) == (1, 1)


def test_the_interval_widens_with_the_candidates():
    made = outcome(noise=0.02)
    deviation = np.log(made.sums[1:, 0, 4]).std()
    for candidates, quantile in ((("good",), 1.959964), (("good", "other"), 2.241403)):
        low, high = judge(made, candidates, REFERENCES).interval
        assert (low, high) == pytest.approx(
            (0.8 * math.exp(-quantile * deviation), 0.8 * math.exp(quantile * deviation))
        )


@pytest.mark.parametrize(
    ("means", "noise", "reason", "policy", "says"),
    [
        ({}, 0.02, "win", "good", "Use good: good costs 20.0% less AMAT than lru-completion (95% interval"),
        ({}, 0.2, "unsure", "lru-completion", "Not sure: good costs 20.0% less AMAT than lru-completion (95% interval"),
        ({"good": 99.5}, 0.0, "small", "lru-completion", "lru-completion is enough: the best candidate saves little"),
        ({"good": 104.0, "other": 105.0}, 0.0, "loss", "lru-completion", "no candidate costs less; the nearest, good"),
        ({"good": 100.0, "belady": 99.5, "belady-tide": 100.0}, 0.0, "nothing to win", "lru-completion",
         "lru-completion is enough: knowing the future would cost 0.5% less than lru-completion."),
        # No bound: who beats the oracle is still used.
        ({"belady": 99.5, "belady-tide": 100.0}, 0.0, "win", "good", "Use good"),
    ],
)  # fmt: skip
def test_reasons_and_texts(means, noise, reason, policy, says):
    verdict = judge(outcome(means, noise), POLICIES[4:], REFERENCES)
    assert (verdict.reason, verdict.policy, verdict.best) == (reason, policy, "good")
    assert says in verdict.text
    assert verdict.text.endswith("Plain lru costs 20.0% more than lru-completion.")


def test_a_win_says_where_it_is_none_and_how_sure_it_is():
    means = {"good": [104.0, 50.0], "other": [80.0, 81.0], "belady": [99.5, 20.0], "belady-tide": 100.0}
    verdict = judge(outcome(means, 0.08), POLICIES[4:], REFERENCES)
    assert 0.5 < verdict.first < verdict.confidence
    for text in (
        "less in 1 of 2 envelopes, at worst 4.0% more (edge)",
        f"less than lru-completion in {verdict.confidence:.0%} and first of all candidates in {verdict.first:.0%}",
        "In edge lru-completion is enough.",
    ):
        assert text in verdict.text


def test_with_silent_completion_the_floor_is_plain_lru():
    verdict = judge(outcome(completion="silent"), ("lru", "good"), REFERENCES)
    assert (verdict.floor, verdict.candidates, verdict.ratio) == ("lru", 1, pytest.approx(80 / 120))
    assert "Plain" not in verdict.text
    assert "than lru (" in verdict.text


def test_the_floor_alone_is_compared_with_nobody():
    verdict = judge(outcome(), ("lru-completion",), REFERENCES)
    assert (verdict.reason, verdict.policy, verdict.best, verdict.ratio) == ("alone", "lru-completion", None, None)
    assert verdict.text == (
        "lru-completion was compared with nobody; knowing the future would cost 50.0% less than lru-completion."
    )


def test_one_envelope_has_no_worst_one():
    assert "at worst" not in judge(outcome(envelopes=("edge",)), ("good",), REFERENCES).text
