"""The polling experiment: gaps as a software scheduler sees them that polls timestamps, against exact events."""

from dataclasses import replace

import numpy as np

from unison.model.hazard import hazard_law
from unison.model.paper.formats import LOCKED, format_scores
from unison.model.paper.lab import COMPLETIONS, ENVELOPE_NAMES, Claim, Report, geometric_mean, mean
from unison.model.paper.snapshots import Channel, agreement, polled_us, take
from unison.model.policies import POLICIES
from unison.model.simulator import simulate
from unison.params import N64

__all__ = ["polled_schedule", "polling"]

PERIODS_MS = (1, 10, 100)
SNAPSHOTS = 700
ENVELOPE = "edge-tight"


def polled_schedule(schedule, period_us):
    """A Schedule whose gaps, as GAP_END tells them, were polled; everything happens when it did."""
    moments = schedule.moments.copy()
    ends = (moments["arrives"] == 1) & (moments["gap_us"] >= 0)
    moments["gap_us"][ends] = polled_us(moments["gap_us"][ends], moments["time_us"][ends], period_us)
    return replace(schedule, moments=moments)


def _replay_task(lab, name, completion):
    """Of exact events and each period: hit rate and AMAT by envelope, and the gaps."""
    schedule = lab.schedule(name, completion)
    made = []
    for period in (0, *PERIODS_MS):
        seen = polled_schedule(schedule, 1000 * period) if period else schedule
        results = [simulate(seen, POLICIES["unison"], envelope) for envelope in ENVELOPE_NAMES]
        gaps = seen.moments["gap_us"][(seen.moments["arrives"] == 1) & (schedule.moments["gap_us"] >= 0)]
        made.append(([result.hr for result in results], [result.amat for result in results], gaps))
    return made


def _inversions_task(lab, name, completion):
    """Snapshots, and by period: share of pairs whose order is inverted, share of first victims that agree."""
    decisions = lab.replay(name, completion, ENVELOPE, "unison").decisions
    channels = [Channel(poll_us=1000 * period) for period in (0, *PERIODS_MS)]
    trace = lab.trace(name)
    taken = take(trace, lab.load(name, completion), N64, ENVELOPE, channels, max(1, decisions // SNAPSHOTS))
    law = hazard_law(trace, N64.turns)
    exact, *polled = (
        format_scores(LOCKED, np.ascontiguousarray(taken.gaps[:, at]), taken.turn, law) for at in range(len(channels))
    )
    made = []
    for scores in polled:
        top1, tau = agreement(exact.astype(np.float64), scores, taken.ranked)
        made.append((float((1 - tau).mean() / 2), float(top1.mean())) if len(tau) else (None, None))
    return len(taken.ranked), made


def polling(lab):
    """The polling experiment."""
    keys = [(name, completion) for completion in COMPLETIONS for name in lab.names]
    replays = dict(zip(keys, lab.map(_replay_task, keys, "polling, replays"), strict=True))
    inversions = dict(zip(keys, lab.map(_inversions_task, keys, "polling, rankings"), strict=True))
    rows = []
    for name, completion in keys:
        (exact_hr, exact_amat, exact_gaps), *others = replays[name, completion]
        snapshots, orders = inversions[name, completion]
        for period, (hr, amat, gaps), (inverted, top1) in zip(PERIODS_MS, others, orders, strict=True):
            ratios = [own / exact for own, exact in zip(amat, exact_amat, strict=True)]
            rows.append({
                "completion": completion,
                "trace": name,
                "period_ms": period,
                "gaps_unseen": float((gaps == 0).mean()) if len(gaps) else None,
                "gap_error_p50": _relative_error(gaps, exact_gaps),
                "hr_exact": mean(exact_hr),
                "hr_polled": mean(hr),
                "hr_delta_pp": 100 * (mean(hr) - mean(exact_hr)),
                "worst_hr_delta_pp": 100 * min(own - exact for own, exact in zip(hr, exact_hr, strict=True)),
                "amat_vs_exact": geometric_mean(ratios),
                "snapshots": snapshots,
                "inverted_pairs": inverted,
                "top1": top1,
            })  # fmt: skip
    claims = []
    for period in PERIODS_MS:
        of = [row for row in rows if row["period_ms"] == period]
        inverted = mean(row["inverted_pairs"] for row in of)
        loss = mean(row["hr_delta_pp"] for row in of)
        worst = min(of, key=lambda row: row["hr_delta_pp"])
        claims.append(
            Claim(
                f"polling every {period} ms inverts the gap signal",
                "inverts on short waits",
                f"{inverted:.2%} of pairs inverted; hit rate {loss:+.3f} pp in the mean, worst "
                f"{worst['hr_delta_pp']:+.3f} pp ({worst['trace']}, {worst['completion']})",
                inverted > 0.01 and loss < -0.1,
            )
        )
    notes = [
        "A poller sees each end of a gap at the first poll not before it (polls at multiples of the period); a gap "
        "between two polls is 0. Only the gap that GAP_END tells changes: every decision still happens at its event, "
        "so this is the best that a poller can do.",
        f"Hit rate: means over the six envelopes, Unison. Inversions: about {SNAPSHOTS} decisions at {ENVELOPE}, pairs "
        "of live paused sessions that the locked format orders the other way; gap_error_p50: median relative error.",
    ]
    chart = {"x": "period_ms", "y": ["inverted_pairs"], "series": "trace", "log_x": True}
    return Report(rows, claims, notes, chart)


def _relative_error(gaps, exact):
    known = exact > 0
    return float(np.median(np.abs(gaps[known] - exact[known]) / exact[known])) if known.any() else None
