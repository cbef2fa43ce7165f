"""Timeliness: the cycles that every event takes, by the documented formulas, against the gaps of the traces."""

import json
from pathlib import Path

import numpy as np

from unison.formats import AnswerKind, Opcode, Place, Residency
from unison.model.engine import Engine
from unison.model.hazard import hazard_table
from unison.model.load import default_config, play
from unison.model.paper.lab import Claim, Report
from unison.params import N16, N64, N256

__all__ = ["Stopwatch", "timeliness"]

CLOCK_MHZ, SLOW_CLOCK_MHZ = 150, 15
ENVELOPE = "edge-tight"
#: Events of a trace that are timed; the golden model has to play them.
EVENTS = 20_000
REPORT = Path("build/sim/report.json")
PAPER = {16: (0.30, None), 64: (2.00, 3.14), 256: (3.95, None)}
HBM = Residency.HBM.value


class Stopwatch:
    """Cycles of the events of an engine, as docs/theory_of_operation.md has them; the host reads answers at once."""

    def __init__(self, engine):
        self.engine = engine

    def before(self):
        """To be called before each event."""
        self.dma_busy = self.engine.dma_busy
        self.turns = [entry.turn for entry in self.engine.entries]
        self.counters = dict(self.engine.counters)

    def cycles(self, step):
        """Cycles of the event that was executed since ``before``, from leaving its FIFO to its last answer."""
        last = step.answers[-1]
        if last.kind is AnswerKind.ERROR:
            return 2
        slots = self.engine.p.sessions
        opcode = Opcode(last.fields["opcode"])
        fits = self._counted("EVICTIONS_FIT") * (slots + 7)
        moved = self._counted("MOVES")
        if opcode is Opcode.ARRIVE:
            return 5 + fits + moved
        if opcode is Opcode.ARRIVE_ANY:
            if not last.fields["slot_valid"]:
                return slots + 8
            taken = self._counted("FORGETS") or self._counted("EVICTIONS_SLOT")
            return (slots + 10 if taken else 4) + fits
        if opcode is Opcode.GAP_START:
            resident = last.fields["found"] != Place.NONE.value
            return (6 + fits + moved if resident else 5) + self._tide(7 - moved if resident else 8, fits)
        if opcode is Opcode.GAP_END:
            return 11 if self.turns[last.fields["slot"]] == 1 else 28
        if opcode is Opcode.DMA_DONE:
            return 3 + 2 * self._counted("EVICTIONS_DMA")
        return 3

    def _counted(self, name):
        return self.engine.counters[name] - self.counters[name]

    def _tide(self, division, fits):
        """T + W; ``division``: cycles that the first pass may end early and still wait for the budget."""
        engine, slots = self.engine, self.engine.p.sessions
        if self.dma_busy and not engine.config.ignore_dma:
            return 7
        evicted = self._counted("EVICTIONS_TIDE") * (slots + 7)
        promoted, swapped = self._counted("PROMOTIONS"), self._counted("SWAPS")
        steps = evicted + promoted * (slots + 10) + swapped * (slots + 11)
        candidate = any(e.residency == HBM and not e.busy and not e.completed for e in engine.entries)
        if promoted + swapped < engine.config.moves:
            steps += slots + 9 if candidate else slots + 6
        if not (candidate or promoted or swapped):
            return steps
        return steps + max(0, division - slots - fits - evicted)


def _task(lab, name, p):
    """Cycles, and whether it decided, of the first EVENTS events; and how long after its event each was answered."""
    trace, load = lab.trace(name), lab.load(name)
    config = default_config(trace, p, load, capacity=ENVELOPE)
    engine = Engine(p, config, hazard_table(trace, p))
    watch = Stopwatch(engine)
    cycles, decided, times = [], [], []
    watch.before()
    for played in play(trace, engine, p, config, load):
        cycles.append(watch.cycles(played.step))
        decided.append(played.step.searched)
        times.append(played.time_us)
        watch.before()
        if len(cycles) == EVENTS:
            break
    return np.array(cycles), np.array(decided), np.array(times)


def answered_us(cycles, times_us, clock_mhz):
    """Microseconds from each event to its last answer when one event is executed after the other."""
    took = (cycles + 1) / clock_mhz
    free = 0.0
    waits = np.empty(len(took))
    for event, (time, span) in enumerate(zip(times_us, took, strict=True)):
        free = max(free, time) + span
        waits[event] = free - time
    return waits


def timeliness(lab):
    """Decision latency against the gap distribution."""
    tasks = [(name, p) for p in (N16, N64, N256) for name in lab.names]
    rows = []
    for (name, p), (cycles, decided, times) in zip(tasks, lab.map(_task, tasks, "timeliness"), strict=True):
        gaps = np.array([gap for session in lab.trace(name).sessions for gap in session.gaps()])
        of = cycles[decided] if decided.any() else np.zeros(1, dtype=np.int64)
        worst_us = of.max() / CLOCK_MHZ
        positive = gaps[gaps > 0]
        least = float(positive.min()) if len(positive) else None
        median = float(np.median(gaps)) if len(gaps) else None
        sojourn = answered_us(cycles, times, CLOCK_MHZ)
        rows.append({
            "trace": name,
            "slots": p.sessions,
            "events": len(cycles),
            "decisions": int(decided.sum()),
            "cycles_mean": float(of.mean()),
            "cycles_p50": float(np.median(of)),
            "cycles_p99": float(np.quantile(of, 0.99)),
            "cycles_max": int(of.max()),
            "decision_us_mean": float(of.mean()) / CLOCK_MHZ,
            "decision_us_mean_paper": PAPER[p.sessions][0],
            "decision_us_max": float(worst_us),
            "decision_us_max_paper": PAPER[p.sessions][1],
            "answered_us_p99": float(np.quantile(sojourn, 0.99)),
            "answered_us_max": float(sojourn.max()),
            "gap_us_min": least,
            "gaps_zero": float((gaps == 0).mean()) if len(gaps) else None,
            "gap_us_p50": median,
            "worst_percent_of_min_gap": 100 * worst_us / least if least else None,
            "worst_percent_of_median_gap": 100 * worst_us / median if median else None,
            "gaps_shorter_than_worst": float((gaps < worst_us).mean()) if len(gaps) else None,
            "slow_clock_us_max": float(of.max() / SLOW_CLOCK_MHZ),
        })  # fmt: skip
    return Report(rows, _claims(rows), _notes())


def _claims(rows):
    of = [row for row in rows if row["slots"] == N64.sessions]
    means = [row["decision_us_mean"] for row in of]
    worst = max(of, key=lambda row: row["decision_us_max"])
    timed = [row for row in of if row["gap_us_min"]]
    tightest = max(timed, key=lambda row: row["worst_percent_of_min_gap"])
    slow = max(row["slow_clock_us_max"] for row in of)
    least = min(row["gap_us_min"] for row in timed)
    by_slots = {slots: [row["decision_us_mean"] for row in rows if row["slots"] == slots] for slots in sorted(PAPER)}
    return [
        Claim(
            "mean decision at N = 64, 150 MHz",
            "2.00 us",
            f"{min(means):.2f} to {max(means):.2f} us by trace",
            max(means) <= 2.0,
        ),
        Claim(
            "mean decision by N",
            "16: 0.30, 64: 2.00, 256: 3.95 us",
            ", ".join(f"{slots}: {min(v):.2f} to {max(v):.2f}" for slots, v in by_slots.items()) + " us",
            None,
        ),
        Claim(
            "worst decision at N = 64",
            "3.14 us (471 cycles)",
            f"{worst['decision_us_max']:.2f} us ({worst['cycles_max']:,} cycles, {worst['trace']})",
            worst["decision_us_max"] <= 3.14,
        ),
        Claim(
            "the worst decision is a small share of the shortest gap",
            "0.31 % of 1 ms",
            f"{tightest['worst_percent_of_min_gap']:.2g} % of {tightest['gap_us_min'] / 1000:,.3g} ms "
            f"({tightest['trace']}), gaps of 0 left out",
            tightest["worst_percent_of_min_gap"] < 100,
        ),
        Claim(
            "at 15 MHz it is still below the shortest gap",
            "31 us",
            f"{slow:,.1f} us against {least:,.0f} us",
            slow < least,
        ),
    ]


def _notes():
    notes = [
        f"Cycles by the formulas of docs/theory_of_operation.md, applied to what the golden model did in the first "
        f"{EVENTS:,} events at {ENVELOPE}, explicit; a test compares them with that page, which a test compares with "
        "the RTL. A decision is an event that searched the ranking. The host reads answers at once.",
        "answered_us: from an event's moment to its last answer, queueing behind other events included (moments are "
        "whole microseconds; events of one instant queue).",
        "Gaps as recorded. Some traces have gaps of 0 (gaps_zero), which no scheduler can be ahead of.",
    ]
    if REPORT.exists():
        for run in json.loads(REPORT.read_text())["runs"]:
            measured = run["decision_cycles"]
            notes.append(
                f"Measured on the RTL ({REPORT}): {run['trace']}, N = {run['n']}, {run['decisions']:,} decisions: "
                f"mean {measured['mean']:,}, p50 {measured['p50']:,}, p99 {measured['p99']:,}, "
                f"max {measured['max']:,} cycles."
            )
    return notes
