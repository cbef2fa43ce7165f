"""What the cells say: which ranking wins where, by how much, and which ones never lose to the floor."""

import math
from collections import defaultdict
from dataclasses import dataclass

__all__ = ["LOSS", "NOTHING", "WIN", "Standing", "Summary", "Winner", "summarise"]

#: AMAT over the floor's at or below which a cell counts as won, and above which as lost.
WIN, LOSS = 0.99, 1.01
#: There is nothing to win where the best oracle's AMAT is above this share of the floor's.
NOTHING = 0.99


@dataclass(frozen=True)
class Standing:
    """A policy over all cells of a load and completion; ``worst`` and ``worst_lru`` are (ratio, trace, envelope).

    ``attainment`` is the mean over the cells in which there is something to win: a share of next to nothing would rule
    it.
    """

    policy: str
    causal: bool
    cells: int
    mean: float
    worst: tuple
    wins: int
    ties: int
    losses: int
    mean_lru: float
    worst_lru: tuple
    attainment: float | None
    degraded: tuple

    @property
    def never_loses(self):
        """Whether it costs at most ``LOSS`` times the floor in every cell."""
        return self.worst[0] <= LOSS


@dataclass(frozen=True)
class Winner:
    """The best causal policy of a trace over its envelopes, chosen with hindsight.

    ``bound``: AMAT of the best oracle over the floor's; ``sure``: cells whose confidence interval of AMAT over the
    floor's lies below 1, of ``judged`` cells that have one; ``nothing``: cells without anything to win.
    """

    trace: str
    policy: str
    mean: float
    worst: tuple
    attainment: float | None
    bound: float | None
    sure: int
    judged: int
    cells: int
    nothing: int
    degraded: tuple

    @property
    def advice(self):
        """What to do on this trace, in a few words."""
        if self.bound is not None and self.bound > NOTHING:
            return "the floor is enough: no oracle does better"
        if self.mean > WIN:
            return "the floor is enough"
        return f"use {self.policy}" if self.worst[0] <= LOSS else f"use {self.policy}, not in every envelope"


@dataclass(frozen=True)
class Summary:
    """All of one load and completion; ``standings`` from the best on; ``nothing``: places with nothing to win."""

    load: str
    completion: str
    floor: str
    places: int
    standings: list
    winners: list
    nothing: frozenset

    @property
    def best(self):
        """The causal policy with the lowest mean, of those that were run everywhere; None if there is none."""
        return next((each for each in self.standings if self.is_ranked(each)), None)

    @property
    def safe(self):
        """Causal policies that never lose to the floor and win something, the best first."""
        return [each for each in self.standings if self.is_ranked(each) and each.never_loses and each.mean < 1]

    def is_ranked(self, standing):
        """Whether it competes: causal, not the floor itself, and run everywhere."""
        return standing.causal and standing.policy != self.floor and standing.cells == self.places


def _geometric(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def _mean(values):
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _worst(cells, metric):
    return max((cell.values[metric], *cell.place) for cell in cells)


def _standing(policy, cells, causal, bounds):
    ratios = [cell.values["amat_vs_floor"] for cell in cells]
    against_lru = [cell for cell in cells if cell.values["amat_vs_lru"]]
    wins, losses = sum(ratio <= WIN for ratio in ratios), sum(ratio > LOSS for ratio in ratios)
    return Standing(
        policy=policy,
        causal=causal,
        cells=len(cells),
        mean=_geometric(ratios),
        worst=_worst(cells, "amat_vs_floor"),
        wins=wins,
        ties=len(cells) - wins - losses,
        losses=losses,
        mean_lru=_geometric([cell.values["amat_vs_lru"] for cell in against_lru]) if against_lru else None,
        worst_lru=_worst(against_lru, "amat_vs_lru") if against_lru else None,
        attainment=_mean([cell.values["attainment_floor"] for cell in cells if bounds.get(cell.place, 0) <= NOTHING]),
        degraded=tuple(sorted({cell.trace for cell in cells if cell.degraded})),
    )


def _bounds(cells, oracles):
    """By place: AMAT of the best oracle over the floor's."""
    bounds = {}
    for cell in cells:
        if cell.policy in oracles:
            bounds[cell.place] = min(bounds.get(cell.place, math.inf), cell.values["amat_vs_floor"])
    return bounds


def _winner(trace, standing, cells, bounds):
    places = [place for place in bounds if place[0] == trace]
    judged = [cell for cell in cells if "amat_vs_floor" in cell.intervals]
    return Winner(
        trace=trace,
        policy=standing.policy,
        mean=standing.mean,
        worst=standing.worst,
        attainment=standing.attainment,
        bound=_geometric([bounds[place] for place in places]) if places else None,
        sure=sum(cell.intervals["amat_vs_floor"][1] < 1 for cell in judged),
        judged=len(judged),
        cells=len(cells),
        nothing=sum(bounds[place] > NOTHING for place in places),
        degraded=tuple(sorted({hint for cell in cells for hint in cell.degraded})),
    )


def summarise(results, load, completion):
    """The Summary of the cells of one load and completion; cells without an AMAT over the floor's do not count."""
    cells = [cell for cell in results.groups[load, completion] if cell.values["amat_vs_floor"]]
    floor = results.floors.get(completion, "lru")
    by_policy, by_trace = defaultdict(list), defaultdict(lambda: defaultdict(list))
    for cell in cells:
        by_policy[cell.policy].append(cell)
        by_trace[cell.trace][cell.policy].append(cell)
    bounds = _bounds(cells, results.oracles)
    winners = []
    for trace, policies in by_trace.items():
        whole = len({cell.envelope for each in policies.values() for cell in each})
        ranked = [
            _standing(policy, each, True, bounds)
            for policy, each in policies.items()
            if results.is_causal(policy) and policy != floor and len(each) == whole
        ]
        if ranked:
            best = min(ranked, key=lambda standing: standing.mean)
            winners.append(_winner(trace, best, policies[best.policy], bounds))
    standings = [_standing(policy, each, results.is_causal(policy), bounds) for policy, each in by_policy.items()]
    return Summary(
        load=load,
        completion=completion,
        floor=floor,
        places=len({cell.place for cell in cells}),
        standings=sorted(standings, key=lambda standing: standing.mean),
        winners=winners,
        nothing=frozenset(place for place, bound in bounds.items() if bound > NOTHING),
    )
