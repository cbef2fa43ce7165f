"""The sweep of 180 fixed-point formats: how each ranks real situations, its hit rate, and two hard gates."""

import math
from itertools import product
from typing import NamedTuple

import numpy as np

from unison.formats import OPERAND_MAX
from unison.model.arithmetic import quantise
from unison.model.hazard import hazard_law
from unison.model.paper.lab import GRID as EVALUATION
from unison.model.paper.lab import Claim, Report, mean
from unison.model.paper.snapshots import Channel, agreement, take
from unison.model.policies.base import ARRIVE, COMPLETED, GAP_END, Policy, event, score
from unison.params import N64

__all__ = ["GRID", "LOCKED", "WIDER", "Format", "format_policy", "format_scores", "formats", "passes"]

ENVELOPES = ("edge-tight", "edge", "server")
#: About so many snapshots of each trace and envelope, evenly spread over its decisions; fewer where it has fewer.
SNAPSHOTS = 700
TOP1_GATE = float(EVALUATION.content["gates"]["top1"])
DRIFT_GATE_PP = float(EVALUATION.content["gates"]["hit_rate_drift_pp"])


class Format(NamedTuple):
    """A point of the sweep: tau and b_g of a stored gap, b_h, how the quotient and the penalty are made.

    divider: ``exact``, equation (17); ``reciprocal``, a table of Lambda / sigma_Z rounded to b_h fraction bits.
    penalty: ``floor``, equation (18); ``shift``, by 2**b_h for Lambda; ``power``, the shift with P rounded to
    one; ``table``, (1 - sigma) P of every turn rounded from the hazard that is not quantised; ``none``, 0.
    """

    unit_ns: int
    gap_bits: int
    hazard_bits: int
    divider: str = "exact"
    penalty: str = "floor"


def _grid(points):
    axes = (points[axis] for axis in ("gap_unit_ns_and_bits", "hazard_bits", "divider", "penalty"))
    return tuple(Format(*gap, *rest) for gap, *rest in product(*axes))


GRID = _grid(EVALUATION.content["formats"])
LOCKED = Format(1000, 32, 12)
#: Beside the grid: which width of the hazard would do.
WIDER = tuple(Format(1000, 32, bits, "exact", penalty) for bits in (14, 16, 20, 24) for penalty in ("floor", "table"))


def turn_tables(point, law, p=N64):
    """By turn: sigma_Z, the reciprocal of it, and the penalty, in the units of a format; three lists of int."""
    scale = (1 << point.hazard_bits) - 1
    least = quantise(p.epsilon, point.hazard_bits)
    sigma = [max(least, scale - quantise(h, point.hazard_bits)) for h in law]
    reciprocal = [((scale << point.hazard_bits) + s // 2) // s for s in sigma]
    full = p.penalty * p.gap_unit_ns // point.unit_ns
    power = 1 << round(math.log2(full))
    penalty = {
        "floor": lambda s, h: (scale - s) * full // scale,
        "shift": lambda s, h: (scale - s) * full >> point.hazard_bits,
        "power": lambda s, h: (scale - s) * power >> point.hazard_bits,
        "table": lambda s, h: math.floor((1 - max(p.epsilon, 1 - h)) * full + 0.5),
        "none": lambda s, h: 0,
    }[point.penalty]
    return sigma, reciprocal, [penalty(s, h) for s, h in zip(sigma, law, strict=True)]


def format_scores(point, gaps, turn, law, p=N64):
    """Scores of live sessions in a format; ``gaps`` in its units and ``turn`` are int64 arrays of one shape."""
    sigma, reciprocal, penalty = (np.array(of, dtype=np.int64)[turn] for of in turn_tables(point, law, p))
    if point.divider == "exact":
        return gaps * ((1 << point.hazard_bits) - 1) // sigma + penalty
    return (gaps * reciprocal >> point.hazard_bits) + penalty


# ``shared``: unit in ns, largest gap, reciprocal or not, b_h, prior, rows; then sigma_Z or its reciprocal, penalty.
_UNIT, _GAP_MAX, _RECIPROCAL, _BITS, _PRIOR, _TURNS, _FIRST = range(7)
_OPERAND_MAX = OPERAND_MAX


@event
def _keep_average(kind, slots, i, now, value, own, memory, shared):
    if kind == ARRIVE and slots[i].turns == 1:
        own[i, 0] = shared[_PRIOR]
    elif kind == GAP_END:
        gap = min(min(value, _OPERAND_MAX) * 1000 // int(shared[_UNIT]), int(shared[_GAP_MAX]))
        own[i, 0] = gap if slots[i].turn == 1 else (3 * gap + 7 * int(own[i, 0])) // 10
    return 0


@score
def _score(slots, i, now, own, memory, shared):
    if slots[i].completed:
        return COMPLETED
    turn = slots[i].turn
    factor = int(shared[_FIRST + turn])
    bits = int(shared[_BITS])
    average = int(own[i, 0])
    quotient = average * factor >> bits if shared[_RECIPROCAL] else average * ((1 << bits) - 1) // factor
    return float(quotient + int(shared[_FIRST + int(shared[_TURNS]) + turn]))


def format_policy(point):
    """Unison whose ranking has the format ``point``; FIT, TIDE and its budget as in the locked format."""

    def prepare(setting):
        law = setting.hazard_law
        sigma, reciprocal, penalty = turn_tables(point, law, setting.p)
        gap_max = min((1 << point.gap_bits) - 1, 1 << 52)
        prior = min(setting.schedule.mean_gap_us * 1000 // point.unit_ns, gap_max)
        by_reciprocal = point.divider == "reciprocal"
        head = [point.unit_ns, gap_max, by_reciprocal, point.hazard_bits, prior, len(law)]
        return np.array([*head, *(reciprocal if by_reciprocal else sigma), *penalty], dtype=np.float64)

    return Policy(
        name="unison-format",
        summary="Unison with another fixed-point format of the ranking.",
        score=_score,
        event=_keep_average,
        tide=True,
        own=1,
        needs={"completion"},
        prepare=prepare,
    )


def passes(top1, worst_drift_pp):
    """The two hard gates."""
    return top1 >= TOP1_GATE and abs(worst_drift_pp) <= DRIFT_GATE_PP


def _channels():
    return list(dict.fromkeys(Channel(point.unit_ns, point.gap_bits) for point in GRID))


def _fidelity_task(lab, name, completion, envelope):
    """Snapshots taken, and of every format the top-1 agreements and the sum of tau."""
    channels = _channels()
    decisions = lab.replay(name, completion, envelope, "unison").decisions
    trace = lab.trace(name)
    taken = take(trace, lab.load(name, completion), N64, envelope, channels, max(1, decisions // SNAPSHOTS))
    law = hazard_law(trace, N64.turns)
    reference = taken.reference([float(h) for h in law], N64)
    made = []
    for point in (*GRID, *WIDER):
        gaps = np.ascontiguousarray(taken.gaps[:, channels.index(Channel(point.unit_ns, point.gap_bits))])
        top1, tau = agreement(reference, format_scores(point, gaps, taken.turn, law), taken.ranked)
        made.append((int(top1.sum()), float(tau.sum())))
    return len(taken.ranked), made


def _drift_task(lab, name, completion, envelope):
    """Hit rate and AMAT of floating point, then of every format."""
    policies = ["unison-float", *(format_policy(point) for point in (*GRID, *WIDER))]
    results = (lab.replay(name, completion, envelope, policy) for policy in policies)
    return [(result.hr, result.amat) for result in results]


def formats(lab):
    """The format sweep, with explicit completion."""
    places = [(name, "explicit", envelope) for name in lab.names for envelope in ENVELOPES]
    fidelity = lab.map(_fidelity_task, places, "formats, ranking")
    drift = lab.map(_drift_task, places, "formats, drift")
    count = sum(snapshots for snapshots, _ in fidelity)
    rows = []
    for at, point in enumerate((*GRID, *WIDER)):
        drifts = [100 * (of[1 + at][0] - of[0][0]) for of in drift]
        worst = max(range(len(drifts)), key=lambda cell: abs(drifts[cell]))
        top1 = sum(made[at][0] for _, made in fidelity) / count if count else 0.0
        rows.append({
            **point._asdict(),
            "on_grid": at < len(GRID),
            "snapshots": count,
            "top1": top1,
            "tau": sum(made[at][1] for _, made in fidelity) / count if count else 0.0,
            "worst_drift_pp": drifts[worst],
            "worst_cell": "/".join(places[worst][::2]),
            "mean_drift_pp": mean(drifts),
            "mean_abs_drift_pp": mean(map(abs, drifts)),
            "amat_drift_percent": mean(100 * (of[1 + at][1] / of[0][1] - 1) for of in drift),
            "passes": passes(top1, drifts[worst]),
        })  # fmt: skip
    return Report(rows, _claims(lab, rows, places, fidelity, drift), _notes(rows))


def _claims(lab, rows, places, fidelity, drift):
    at = GRID.index(LOCKED)
    locked = rows[at]
    on_grid = rows[: len(GRID)]
    per_trace = {}
    for name in lab.names:
        of = [fidelity[cell] for cell, place in enumerate(places) if place[0] == name]
        taken = sum(snapshots for snapshots, _ in of)
        per_trace[name] = sum(made[at][0] for _, made in of) / taken if taken else None
    told = ", ".join(f"{name} {value:.4f}" for name, value in per_trace.items() if value is not None)
    by_width = {bits: max(row["top1"] for row in on_grid if row["hazard_bits"] == bits) for bits in (8, 10, 12)}
    twin = next(row for row in on_grid if Format(*list(row.values())[:5]) == LOCKED._replace(divider="reciprocal"))
    passing = [row for row in on_grid if row["passes"]]
    return [
        Claim("snapshots", ">= 7,000 (7,265)", f"{locked['snapshots']:,}", locked["snapshots"] >= 7000),
        Claim(
            "top-1 agreement of the locked format",
            ">= 0.99 (0.9945)",
            f"{locked['top1']:.4f}",
            locked["top1"] >= TOP1_GATE,
        ),
        Claim("top-1 agreement on every trace", ">= 0.99", told, min(filter(None, per_trace.values())) >= TOP1_GATE),
        Claim("Kendall tau", "> 0.998", f"{locked['tau']:.4f}", locked["tau"] > 0.998),
        Claim(
            "worst drift of the hit rate",
            "<= 0.20 pp (0.192 pp)",
            f"{locked['worst_drift_pp']:+.3f} pp in {locked['worst_cell']}",
            abs(locked["worst_drift_pp"]) <= DRIFT_GATE_PP,
        ),
        Claim(
            "mean drift over the cells",
            "0.019 pp",
            f"{locked['mean_drift_pp']:+.3f} pp, of sizes {locked['mean_abs_drift_pp']:.3f} pp",
            locked["mean_abs_drift_pp"] <= 0.02,
        ),
        Claim("AMAT drift", "-0.018 %", f"{locked['amat_drift_percent']:+.3f} %", None),
        Claim(
            "12 bits are the least that pass the ranking gate",
            "8 and 10 bits fail",
            "best top-1 by width: " + ", ".join(f"{bits}: {value:.4f}" for bits, value in by_width.items()),
            by_width[12] >= TOP1_GATE > by_width[10],
        ),
        Claim(
            "a reciprocal table ties with the exact divider",
            "equal fidelity",
            f"top-1 {twin['top1']:.4f} against {locked['top1']:.4f}, tau {twin['tau']:.5f} against {locked['tau']:.5f}",
            abs(twin["top1"] - locked["top1"]) <= 0.001,
        ),
        Claim(
            "the locked format is one of those that pass both gates",
            "it is",
            f"{len(passing)} of {len(on_grid)} pass; "
            + (
                f"all of these have b_h {_listed(passing, 'hazard_bits')}, penalty {_listed(passing, 'penalty')}"
                if passing
                else "none to choose"
            ),
            locked["passes"],
        ),
    ]


def _listed(rows, key):
    return ", ".join(dict.fromkeys(str(row[key]) for row in rows))


def _notes(rows):
    beside = [row for row in rows if not row["on_grid"]]
    best = [f"b_h {row['hazard_bits']} {row['penalty']}: top-1 {row['top1']:.4f}, worst drift "
            f"{row['worst_drift_pp']:+.3f} pp" for row in beside]  # fmt: skip
    return [
        f"Explicit completion, envelopes {', '.join(ENVELOPES)}. Snapshots: decisions of the golden model with at "
        f"least two live paused sessions, about {SNAPSHOTS} a cell evenly spread (all where there are fewer); each "
        "format keeps its own gap averages of the same gaps. Completed sessions are first in every format: left out.",
        "Drift: the whole replay with the format's ranking less that of floating-point Unison, hit rate in points.",
        "b_g = 64 and tau = 1 ns see gaps as the host sends them, at most 2^32 - 1 us. Scores are 64 bits wide: none "
        "saturates. The reciprocal has b_h fraction bits; 'power' is the shift with P = 2^29 us.",
        f"Beside the grid ({len(beside)} rows): " + "; ".join(best) + ".",
    ]
