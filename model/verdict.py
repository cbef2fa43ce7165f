"""The plain verdict: which policy for a trace, by how much, how sure, and when LRU is enough."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

__all__ = ["MATTERS", "Verdict", "judge"]

#: A policy that saves less than this share of the floor's AMAT is not worth having.
MATTERS = 0.01


@dataclass(frozen=True)
class Verdict:
    """Which policy, for one trace and completion, over all envelopes asked about.

    Ratios are geometric means over the envelopes of AMAT over the floor's.

    Attributes
    ----------
    trace, completion, load : str
    seed : int
    floor : str
        The plain policy that a ranking must beat: ``lru-completion`` with explicit completion, ``lru`` with silent.
    policy : str
        The advice: ``best`` or, where LRU is enough or nothing is sure, the floor.
    reason : str
        ``"win"``; ``"nothing to win"``: the oracle saves too little; ``"loss"``: nobody costs less than the floor;
        ``"small"``: the best saves less than ``MATTERS``; ``"unsure"``: the best may be best by chance;
        ``"alone"``: nobody was compared with the floor.
    best : str or None
        The candidate of the lowest ratio.
    ratio : float or None
        Its ratio.
    interval : tuple of float or None
        Of the ratio, at the level given, and for all candidates together: wide enough that none of them leaves its
        own by chance (Bonferroni, normal in the logarithm).
    confidence : float or None
        Share of the resamples in which it costs less than the floor.
    first : float or None
        Share of the resamples in which no other candidate costs less.
    wins : int
        Envelopes in which it costs less than the floor.
    worst : tuple or None
        (ratio, envelope) where it does worst.
    candidates : int
    oracle : float
        The ratio of the best oracle of each envelope.
    enough : tuple of str
        Envelopes in which not even the oracle saves more than ``MATTERS``.
    lru : float
        The ratio of plain LRU.
    text : str
        All that in a few sentences.
    """

    trace: str
    completion: str
    load: str
    seed: int
    floor: str
    policy: str
    reason: str
    best: str | None
    ratio: float | None
    interval: tuple | None
    confidence: float | None
    first: float | None
    wins: int
    worst: tuple | None
    candidates: int
    oracle: float
    enough: tuple
    lru: float
    text: str


def _less(ratio):
    """A ratio in words."""
    change = 100 * abs(1 - ratio)
    return f"{change:.1f}% {'less' if ratio < 1 else 'more'}"


def _reason(ratio, upper, oracle):
    if ratio <= 1 - MATTERS and upper < 1:
        return "win"
    if oracle > 1 - MATTERS:
        return "nothing to win"
    if ratio >= 1:
        return "loss"
    return "small" if ratio > 1 - MATTERS else "unsure"


def _text(facts, level):
    best, reason, floor, envelopes = facts["best"], facts["reason"], facts["floor"], facts["envelopes"]
    saving = f"knowing the future would cost {_less(facts['oracle'])} than {floor}"
    if reason == "alone":
        return f"{floor} was compared with nobody; {saving}."
    low, high = facts["interval"]
    measured = (
        f"{best} costs {_less(facts['ratio'])} AMAT than {floor} ({level:.0%} interval of the ratio, for "
        f"{facts['candidates']} candidates together: {low:.3f} ... {high:.3f})"
    )
    if reason == "win":
        worst, where = facts["worst"]
        text = f"Use {best}: {measured}, less in {facts['wins']} of {envelopes} envelopes"
        text += f", at worst {_less(worst)} ({where})" if envelopes > 1 else ""
        text += f"; less than {floor} in {facts['confidence']:.0%} and first of all candidates in {facts['first']:.0%}"
        text += f" of the resamples. {saving[0].upper()}{saving[1:]}."
        if facts["enough"]:
            text += f" In {', '.join(facts['enough'])} {floor} is enough."
    elif reason == "unsure":
        text = (
            f"Not sure: {measured}, which may be chance. Until more sessions or fewer candidates are compared, {floor}."
        )
    else:
        why = {
            "nothing to win": saving,
            "loss": f"no candidate costs less; the nearest, {measured}",
            "small": f"the best candidate saves little: {measured}",
        }
        text = f"{floor} is enough: {why[reason]}."
    if floor != "lru":
        text += f" Plain lru costs {_less(facts['lru'])} than {floor}."
    return text


def judge(outcome, candidates, references, level=0.95):
    """The Verdict on an Outcome.

    Parameters
    ----------
    outcome : Outcome
    candidates : tuple of str
        Policies to choose from; the floor is left out of them.
    references : References
    level : float
        Of the interval.
    """
    load = outcome.setup.schedule.load
    floor = references.floor[load.completion]
    candidates = tuple(name for name in candidates if name != floor)
    ratios = np.log(outcome.sums / outcome.sums[:, :, [outcome.policies.index(floor)]])

    def logs(name):
        return ratios[:, :, outcome.policies.index(name)]

    bounds = np.min([logs(name)[0] for name in references.oracles], axis=0)
    facts = {
        "floor": floor,
        "candidates": len(candidates),
        "oracle": math.exp(bounds.mean()),
        "enough": tuple(
            name for name, bound in zip(outcome.envelopes, bounds, strict=True) if math.exp(bound) > 1 - MATTERS
        ),
        "lru": math.exp(logs(references.lru)[0].mean()),
        "envelopes": len(outcome.envelopes),
    }
    if candidates:
        means = np.stack([logs(name).mean(axis=1) for name in candidates], axis=1)
        place = int(means[0].argmin())
        best, mean, drawn = candidates[place], float(means[0, place]), means[1:, place]
        half = NormalDist().inv_cdf(1 - (1 - level) / (2 * len(candidates))) * float(drawn.std())
        by_envelope = logs(best)[0]
        worst = int(by_envelope.argmax())
        reason = _reason(math.exp(mean), math.exp(mean + half), facts["oracle"])
        facts |= {
            "best": best,
            "ratio": math.exp(mean),
            "interval": (math.exp(mean - half), math.exp(mean + half)),
            "confidence": float((drawn < 0).mean()),
            "first": float((drawn <= means[1:].min(axis=1)).mean()),
            "wins": int((by_envelope < 0).sum()),
            "worst": (math.exp(by_envelope[worst]), outcome.envelopes[worst]),
        }
    else:
        reason = "alone"
        facts |= dict.fromkeys(("best", "ratio", "interval", "confidence", "first", "worst")) | {"wins": 0}
    facts["reason"] = reason
    text = _text(facts, level)
    del facts["envelopes"]
    return Verdict(
        trace=outcome.setup.schedule.name,
        completion=load.completion,
        load=outcome.setup.label,
        seed=load.seed,
        policy=facts["best"] if reason == "win" else floor,
        text=text,
        **facts,
    )
