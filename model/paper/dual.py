"""Table I: Spear and Tide as two engines with private views of the table, synchronised every m events."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from unison.formats import Opcode, Residency
from unison.model.accounting import COSTS, Result
from unison.model.engine import Engine
from unison.model.hazard import hazard_table
from unison.model.load import default_config, play
from unison.model.paper.lab import COMPLETIONS, Claim, Report, geometric_mean, mean
from unison.model.policies import POLICIES
from unison.model.simulator import REQUEST
from unison.params import N64

__all__ = ["DualEngine", "dual", "golden_result"]

PERIODS = (1, 4, 16, 64, 256)
ENVELOPES = ("edge-tight", "edge", "server")
#: The golden model with snapshots takes some 10,000 events a second.
EVENTS = 10_000
FREE = Residency.FREE.value


class Seen(NamedTuple):
    """What a view holds of a slot."""

    paused: bool
    residency: int
    completed: int
    score: int


class DualEngine(Engine):
    """The golden model with equations (11) and (12): it ranks by the table as it was up to ``period`` events ago.

    The view is refreshed after every ``period``-th event. It tells the scores, and who was paused and where. The host
    guards what it is told: a choice that has become busy, has left or moved is passed over for the next of the view.
    FIT and ARRIVE_ANY, which must name someone, then choose among those that the view does not have there, still by its
    scores (counted in ``blind``); TIDE does nothing then. Completed flags and capacities are read live. Spear's and
    Tide's views are refreshed at the same events, so that one copy serves both.
    """

    def __init__(self, p, config=None, hazards=None, *, period):
        super().__init__(p, config, hazards)
        self.period = period
        self.blind = 0
        self._view = [Seen(False, FREE, 0, 0)] * p.sessions
        self._steps = 0
        self._in_tide = False

    def step(self, word0, operand):
        step = super().step(word0, operand)
        self._steps += 1
        if self._steps % self.period == 0:
            self._view = [
                Seen(entry.residency != FREE and not entry.busy, entry.residency, entry.completed, entry.score)
                for entry in self.entries
            ]
        return step

    def _highest(self, *residencies):
        self._searched = True
        best, best_key = None, (False, -1)
        for slot, (seen, entry) in enumerate(zip(self._view, self.entries, strict=True)):
            if entry.residency in residencies and not entry.busy:
                key = seen.paused and seen.residency in residencies, seen.score
                if key > best_key and (key[0] or not self._in_tide):
                    best, best_key = slot, key
        self.blind += best is not None and not best_key[0]
        return best

    def _lowest_live(self, residency):
        self._searched = True
        known = [
            (seen.score, slot)
            for slot, (seen, entry) in enumerate(zip(self._view, self.entries, strict=True))
            if seen.paused
            and seen.residency == entry.residency == residency
            and not (seen.completed or entry.completed or entry.busy)
        ]
        return min(known)[1] if known else None

    def _tide(self, delta):
        self._in_tide = True
        super()._tide(delta)
        self._in_tide = False

    def _swap(self, p_slot, d_slot, budget):
        # The rule compares the scores of the entries: for its sake they are those of the view.
        entries = self.entries[p_slot], self.entries[d_slot]
        live = [entry.score for entry in entries]
        for entry, slot in zip(entries, (p_slot, d_slot), strict=True):
            entry.score = self._view[slot].score
        swapped = super()._swap(p_slot, d_slot, budget)
        for entry, score in zip(entries, live, strict=True):
            entry.score = score
        return swapped


def golden_result(schedule, found):
    """A Result for the metrics of the first requests of a schedule, from where the golden model found each."""
    arrivals = np.flatnonzero(schedule.moments["arrives"] == 1)[: len(found)]
    requests = np.zeros(len(found), dtype=REQUEST)
    requests["found"] = found
    # A session is found whole: what is cached is its context.
    requests["cached"] = requests["context"] = requests["found"] > 0
    return Result(
        schedule=replace(schedule, moments=schedule.moments[arrivals]),
        policy=POLICIES["unison"],
        costs=COSTS,
        requests=requests,
        **dict.fromkeys(
            ("events", "decisions", "evictions", "evicted_tokens", "forgets", "moves", "promotions",
             "useful_promotions", "pause_bypasses", "seconds"), 0),
        shared=np.zeros(0),
        log=np.zeros((0, 5), dtype=np.int64),
    )  # fmt: skip


def _task(lab, name, completion, envelope, period):
    """Events, blind choices, moves of Tide and metrics of the first EVENTS events; period 0 is unified."""
    trace, load = lab.trace(name), lab.load(name, completion)
    config = default_config(trace, N64, load, capacity=envelope)
    hazards = hazard_table(trace, N64)
    engine = DualEngine(N64, config, hazards, period=period) if period else Engine(N64, config, hazards)
    found = []
    events = 0
    for _, _, step in play(trace, engine, N64, config, load):
        last = step.answers[-1].fields
        if last["opcode"] in (Opcode.ARRIVE.value, Opcode.ARRIVE_ANY.value):
            found.append(last["found"])
        events += 1
        if events == EVENTS:
            break
    result = golden_result(lab.schedule(name, completion), found)
    return {
        "events": events,
        "blind": engine.blind if period else 0,
        "migrations": engine.counters["PROMOTIONS"] + engine.counters["SWAPS"],
        "hr": result.hr,
        "hr_sram": result.hr_sram,
        "amat": result.amat,
        "amat_no_delta": result.amat_no_delta,
    }


def dual(lab):
    """Table I."""
    keys = [
        (name, completion, envelope, period)
        for completion in COMPLETIONS
        for name in lab.names
        for envelope in ENVELOPES
        for period in (0, *PERIODS)
    ]
    cells = dict(zip(keys, lab.map(_task, keys, "table1"), strict=True))
    rows = []
    for completion in COMPLETIONS:
        for name in lab.names:
            for period in PERIODS:
                pairs = [
                    (cells[name, completion, envelope, period], cells[name, completion, envelope, 0])
                    for envelope in ENVELOPES
                ]
                deltas = [100 * (own["hr"] - unified["hr"]) for own, unified in pairs]
                rows.append({
                    "completion": completion,
                    "trace": name,
                    "period": period,
                    "events": max(own["events"] for own, _ in pairs),
                    "hr_unified": mean(unified["hr"] for _, unified in pairs),
                    "hr_dual": mean(own["hr"] for own, _ in pairs),
                    "hr_delta_pp": mean(deltas),
                    "worst_hr_delta_pp": min(deltas),
                    "sram_hr_delta_pp": mean(100 * (own["hr_sram"] - unified["hr_sram"]) for own, unified in pairs),
                    "amat_vs_unified": geometric_mean(own["amat"] / unified["amat"] for own, unified in pairs),
                    "migrations_unified": sum(unified["migrations"] for _, unified in pairs),
                    "migrations_dual": sum(own["migrations"] for own, _ in pairs),
                    "blind": sum(own["blind"] for own, _ in pairs),
                })  # fmt: skip
    return Report(rows, _claims(lab, rows), _notes())


def _claims(lab, rows):
    claims = []
    for completion in COMPLETIONS:
        of = [row for row in rows if row["completion"] == completion]
        every = [row for row in of if row["period"] == 1]
        worst = min(of, key=lambda row: row["worst_hr_delta_pp"])
        signs = {
            period: [row["amat_vs_unified"] for row in of if row["period"] == period and row["amat_vs_unified"] != 1]
            for period in PERIODS
        }
        mixed = [period for period, ratios in signs.items() if ratios and min(ratios) < 1 < max(ratios)]
        typical = {period: mean(row["hr_delta_pp"] for row in of if row["period"] == period) for period in PERIODS}
        told = ", ".join(f"m = {period}: {delta:+.2f}" for period, delta in typical.items())
        claims += [
            Claim(
                f"even with m = 1 the SRAM placement diverges ({completion})",
                "it does",
                ", ".join(f"{row['trace']} {row['sram_hr_delta_pp']:+.2f} pp" for row in every),
                any(row["sram_hr_delta_pp"] for row in every),
            ),
            Claim(
                f"stale views lose hit rate ({completion})",
                "up to -5.4 pp",
                f"worst {worst['worst_hr_delta_pp']:+.2f} pp ({worst['trace']}, m = {worst['period']}); means {told}",
                worst["worst_hr_delta_pp"] < -1 and all(delta < 0 for m, delta in typical.items() if m > 1),
            ),
            Claim(
                f"the sign of the AMAT change differs between traces ({completion})",
                "inconsistent",
                f"at m = {', '.join(map(str, mixed))}" if mixed else "same sign everywhere",
                bool(mixed),
            ),
        ]
    return claims


def _notes():
    return [
        f"On the golden model, N = 64, the first {EVENTS:,} events of each trace at {', '.join(ENVELOPES)}; means over "
        "these, AMAT geometric. Events counts the longest.",
        "Read so: both engines rank a snapshot taken after every m-th event (scores, who was paused, where). A choice "
        "that became busy, left or moved since is passed over. An eviction that finds nobody in the snapshot chooses "
        "among the others by their old scores (blind); a migration does nothing. With m = 1 Tide misses what its own "
        "event changed.",
    ]
