"""Ranking fidelity: how often a fixed-point format orders the paused sessions as the floating-point policy does.

Both are asked about the same situations. One engine of the driving format executes the stream and alone decides; each
arithmetic keeps its own gap averages, fed by the same gaps, and scores what that engine found. A second, floating-point
engine beside it would not do: its first different victim leaves it with other sessions in other slots, the slots that
the stream names would be wrong for it, and every later snapshot would compare two histories instead of two rankings.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass

from unison.formats import AnswerKind, Opcode, Residency
from unison.model.arithmetic import FixedPoint, FloatingPoint
from unison.model.engine import Engine

__all__ = ["Fidelity", "kendall_tau", "measure", "ranking"]


@dataclass(frozen=True)
class Fidelity:
    """How one format ranked.

    Attributes
    ----------
    snapshots : int
        Decisions that had at least two live paused sessions to rank.
    top1 : float
        Share of them in which both name the same session as the first to leave; nan without snapshots.
    tau, tau_min : float
        Mean and lowest Kendall tau over them; nan without snapshots.
    """

    snapshots: int
    top1: float
    tau: float
    tau_min: float


def ranking(scores):
    """The slots of a dict slot -> score as they would leave: highest score first, ties to the lowest slot."""
    return sorted(scores, key=lambda slot: (-scores[slot], slot))


def kendall_tau(first, second):
    """Kendall's tau of two orders of the same at least two things, -1 ... 1; ties were broken by who made the orders.

    Raises
    ------
    ValueError
        If the two are not orders of the same distinct things, or of fewer than two.
    """
    rank = {item: index for index, item in enumerate(first)}
    if len(first) < 2 or len(rank) != len(first) or sorted(first) != sorted(second):
        raise ValueError(f"not two orders of the same things: {first!r} and {second!r}")
    seen, discordant = [], 0
    for item in second:
        discordant += len(seen) - bisect_left(seen, rank[item])
        insort(seen, rank[item])
    pairs = len(first) * (len(first) - 1) // 2
    return 1 - 2 * discordant / pairs


class Scorer:
    """Gap averages and scores of every slot in one arithmetic, which follow an engine that decides in another."""

    def __init__(self, arithmetic, hazards, prior_ns, sessions):
        self.arithmetic = arithmetic
        self.hazards = [arithmetic.hazard(value) for value in hazards]
        self.prior = arithmetic.gap_of_ns(prior_ns)
        self.averages = [self.prior] * sessions
        self.agreements = 0
        self.taus = []

    def start(self, slot):
        self.averages[slot] = self.prior

    def close_gap(self, slot, turn, ns):
        gap = self.arithmetic.gap_of_ns(ns)
        self.averages[slot] = gap if turn == 1 else self.arithmetic.average(gap, self.averages[slot])

    def rank(self, turns):
        return ranking({slot: self.arithmetic.score(self.averages[slot], t, self.hazards) for slot, t in turns.items()})

    def compare(self, reference, turns):
        order = self.rank(turns)
        self.agreements += order[0] == reference[0]
        self.taus.append(kendall_tau(reference, order))

    def fidelity(self):
        count = len(self.taus)
        if count == 0:
            return Fidelity(0, float("nan"), float("nan"), float("nan"))
        return Fidelity(count, self.agreements / count, sum(self.taus) / count, min(self.taus))


def measure(p, events, hazards, config=None, formats=None):
    """The fidelity of each of some formats on one stream of events.

    A snapshot is taken at every decision: the paused sessions that it could rank, resident or not. Completed ones are
    left out: they are first in every format, and would hide a disagreement. The reference sees each gap as the stream
    carries it, so what the host lost by rounding to the gap unit of ``p`` and saturating to 32 bits is not in the
    result.

    Parameters
    ----------
    p : Params
        The instance that executes the events; its gap unit is theirs.
    events : iterable of (int, int)
        Word 0 and operand of each event.
    hazards : sequence
        p.turns hazards as numbers in 0 ... 1; each format rounds them itself.
    config : Config
        Configuration of the driving engine.
    formats : sequence of Params
        The formats to compare; None for ``p`` alone. Their penalties are in their own gap units.

    Returns
    -------
    list of Fidelity
        One for each of ``formats``.
    """
    engine = Engine(p, config, [FixedPoint(p).hazard(value) for value in hazards])
    prior_ns = engine.config.gap_prior * p.gap_unit_ns
    reference, *scorers = (
        Scorer(arithmetic, hazards, prior_ns, p.sessions)
        for arithmetic in (FloatingPoint(p), *(FixedPoint(f) for f in ((p,) if formats is None else formats)))
    )
    for word0, operand in events:
        free = {slot for slot, entry in enumerate(engine.entries) if entry.residency == Residency.FREE.value}
        turns = {
            slot: entry.turn
            for slot, entry in enumerate(engine.entries)
            if slot not in free and not entry.busy and not entry.completed
        }
        step = engine.step(word0, operand)
        if step.answers[-1].kind is AnswerKind.ERROR:
            continue
        outcome = step.answers[-1].fields
        slot, opcode = outcome["slot"], outcome["opcode"]
        if opcode == Opcode.ARRIVE.value:
            turns.pop(slot, None)
        elif opcode == Opcode.GAP_START.value:
            turns[slot] = engine.entries[slot].turn
        if step.searched and len(turns) > 1:
            order = reference.rank(turns)
            for scorer in scorers:
                scorer.compare(order, turns)
        begins = opcode == Opcode.ARRIVE.value and slot in free or opcode == Opcode.ARRIVE_ANY.value
        for scorer in (reference, *scorers):
            if opcode == Opcode.GAP_END.value:
                scorer.close_gap(slot, engine.entries[slot].turn, operand * p.gap_unit_ns)
            elif begins and outcome["slot_valid"]:
                scorer.start(slot)
    return [scorer.fidelity() for scorer in scorers]
