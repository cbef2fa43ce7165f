"""What a replay cost: the contract's metrics, equations (27) and (28), from the record of every request."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from unison.formats import Residency

__all__ = ["COSTS", "TTFT_UNIT_US", "FALSE_EVICTION_S", "Costs", "Result"]

SRAM, HBM = Residency.SRAM.value, Residency.HBM.value
#: Microseconds of one unit of cost: t_p = 200 units are then 50 us, the prefill time that the load model takes where a
#: trace has no times.
TTFT_UNIT_US = 0.25
#: An eviction was false if the session is back within so many seconds.
FALSE_EVICTION_S = 10.0


class Costs(NamedTuple):
    """Relative cost of a token: read from SRAM, read from HBM, prefilled."""

    sram: float = 1.0
    hbm: float = 4.0
    prefill: float = 200.0


COSTS = Costs()


@dataclass(frozen=True, eq=False)
class Result:
    """A replay and its metrics.

    A request *hits* if its session was found in a tier with all its tokens; with a policy of blocks a session may be
    found shrunk: what is left of it lowers cost and prefill, but is no hit. Arrays ``per request`` are in the order of
    the schedule's arrivals.

    Attributes
    ----------
    requests : numpy.ndarray
        found, placed (residency or 0), cached, context (tokens held and had), away_us (since its eviction, or -1).
    events, decisions, evictions, evicted_tokens, forgets, moves, promotions : int
        As the golden model counts them; DMA_DONE is no event here. ``moves`` are those of FIT and of a policy's place.
    useful_promotions : int
        Promotions whose session was in SRAM at its next arrival, not moved out between.
    pause_bypasses : int
        Answers whose session grew out of every tier.
    seconds : float
        Time of the loop alone.
    shared : numpy.ndarray
        What the policy had learned at the end.
    log : numpy.ndarray of int64[answers, 5]
        Every answer, if asked for.
    """

    schedule: object
    policy: object
    costs: Costs
    requests: np.ndarray
    events: int
    decisions: int
    evictions: int
    evicted_tokens: int
    forgets: int
    moves: int
    promotions: int
    useful_promotions: int
    pause_bypasses: int
    seconds: float
    shared: np.ndarray = field(repr=False)
    log: np.ndarray = field(repr=False)

    @cached_property
    def _arrivals(self):
        return self.schedule.moments[self.schedule.moments["arrives"] == 1]

    @cached_property
    def hit(self):
        """Per request: found in a tier with all its tokens."""
        return (self.requests["found"] >= SRAM) & (self.requests["cached"] == self.requests["context"])

    @cached_property
    def saved_tokens(self):
        """Per request: prompt tokens that need no prefill, at most l - delta l."""
        reusable = self._arrivals["tokens"] - self._arrivals["new_tokens"]
        # What a full hit reuses is l - delta l by definition, even where the prompt is not an extension of the context.
        return np.where(self.hit, reusable, np.minimum(self.requests["cached"], reusable))

    def request_costs(self, new_tokens=True):
        """Per request: its cost, equation (27); without the new tokens' prefill of hits if ``new_tokens`` is False."""
        tokens = self._arrivals["tokens"]
        found = self.requests["found"]
        read = np.choose(np.searchsorted((SRAM, HBM), found, side="right"), (0.0, self.costs.sram, self.costs.hbm))
        prefilled = tokens - np.where(found >= SRAM, self.saved_tokens, 0)
        if not new_tokens:
            prefilled = prefilled - np.where(found >= SRAM, self._arrivals["new_tokens"], 0)
        return tokens * read + prefilled * self.costs.prefill

    def session_sums(self):
        """By session, for the bootstrap: requests, hits, cost, saved and all prompt tokens; float64[sessions, 5]."""
        session = self._arrivals["session"]
        values = (np.ones(len(session)), self.hit, self.request_costs(), self.saved_tokens, self._arrivals["tokens"])
        return np.stack([np.bincount(session, value, self.schedule.sessions) for value in values], axis=1)

    @property
    def hr(self):
        """Hit rate, equation (27)."""
        return float(self.hit.mean())

    @property
    def hr_sram(self):
        """Share of the requests that hit in SRAM."""
        return float((self.hit & (self.requests["found"] == SRAM)).mean())

    @property
    def hr_hbm(self):
        """Share of the requests that hit in HBM."""
        return float((self.hit & (self.requests["found"] == HBM)).mean())

    @property
    def bypass(self):
        """Share of the requests that no tier could hold."""
        return float((self.requests["placed"] == 0).mean())

    @property
    def amat(self):
        """Mean cost of a request, equation (27), in cost units."""
        return float(self.request_costs().mean())

    @property
    def amat_no_delta(self):
        """The same without the prefill of the new tokens of hits."""
        return float(self.request_costs(new_tokens=False).mean())

    @property
    def prefill_reduction(self):
        """Share of the prompt tokens that need no prefill, equation (28)."""
        return float(self.saved_tokens.sum() / self._arrivals["tokens"].sum())

    @property
    def prefetch_accuracy(self):
        """Share of Tide's promotions that were in SRAM when their session came back; None without a promotion."""
        return self.useful_promotions / self.promotions if self.promotions else None

    @property
    def events_per_s(self):
        """Events a second of the loop."""
        return self.events / self.seconds

    def false_evictions(self, within_s=FALSE_EVICTION_S):
        """Arrivals of sessions that were evicted, or shrunk, at most ``within_s`` seconds before."""
        away = self.requests["away_us"]
        return int(((away >= 0) & (away <= within_s * 1e6)).sum())

    def ttft_s(self, servers=0):
        """Per request: time to its first token, seconds.

        Read and prefill at ``TTFT_UNIT_US`` a unit of cost. With ``servers`` prefill servers requests wait for one in
        order of arrival; the load does not slow down for it, so an overloaded server's queue grows without bound.
        """
        service = self.request_costs() * TTFT_UNIT_US * 1e-6
        if not servers:
            return service
        free = np.zeros(servers)
        waits = np.empty(len(service))
        for request, (arrival, busy) in enumerate(zip(self._arrivals["time_us"] * 1e-6, service, strict=True)):
            server = free.argmin()
            begin = max(arrival, free[server])
            free[server] = begin + busy
            waits[request] = begin - arrival
        return waits + service

    @property
    def ttft_p50(self):
        """Median of ``ttft_s()``, seconds."""
        return float(np.median(self.ttft_s()))

    @property
    def degraded(self):
        """Hints that the policy needs and the schedule lacks."""
        return tuple(sorted(self.policy.needs - self.schedule.hints))

    def cell(self):
        """The metrics of one cell of results.json that need no other replay, as a dict."""
        names = (
            "hr",
            "hr_sram",
            "hr_hbm",
            "bypass",
            "amat",
            "amat_no_delta",
            "prefill_reduction",
            "prefetch_accuracy",
            "ttft_p50",
            "evicted_tokens",
            "events_per_s",
        )
        return {
            "trace": self.schedule.name,
            "completion": self.schedule.load.completion,
            "policy": self.policy.name,
            "theta": self.policy.theta,
            "training": self.policy.training,
            "degraded": list(self.degraded),
            **{name: getattr(self, name) for name in names},
            "false_evictions": self.false_evictions(),
        }
