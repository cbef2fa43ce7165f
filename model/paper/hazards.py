"""Where the hazard table comes from. Table IV: from other sessions; Fig. 7: from those that have ended so far."""

import random
from fractions import Fraction

import numpy as np

from unison.model.paper.lab import COMPLETIONS, ENVELOPE_NAMES, Claim, Report, mean
from unison.model.policies.base import COMPLETE, COMPLETED, RESCORE, Policy, event, score
from unison.params import N64

__all__ = ["LEARNING", "attainment", "folds", "law_of", "learning_curve"]

FOLDS = 5
FOLD_ENVELOPES = ENVELOPE_NAMES[:4]
COUNTS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
#: A surplus of the offline table over LRU below this many points of hit rate is noise to divide by.
LEAST_SURPLUS = 0.005


def law_of(lengths, turns):
    """h(t) of equation (5) for t = 0 ... turns - 1 over sessions of these lengths, as Fractions; 0 where n is 0."""
    lengths = np.asarray(lengths, dtype=np.int64)
    return [
        Fraction(int((lengths == turn).sum()), int((lengths >= turn).sum())) if (lengths >= turn).any() else Fraction(0)
        for turn in range(turns)
    ]


def _session_hits(lab, name, completion, envelope, hazards):
    """Requests and hits of each session."""
    return lab.replay(name, completion, envelope, "unison", hazards=hazards).session_sums()[:, :2]


def _fold_task(lab, name, completion, envelope):
    """Residual of each fold: hit rate of its sessions with the others' table less that with everybody's, pp."""
    lengths = lab.schedule(name, completion).lengths
    order = list(range(len(lengths)))
    random.Random(0).shuffle(order)
    whole = _session_hits(lab, name, completion, envelope, law_of(lengths, N64.turns))
    residuals = []
    for fold in range(FOLDS):
        held_out = order[fold::FOLDS]
        table = law_of(np.delete(lengths, held_out), N64.turns)
        requests, hits = _session_hits(lab, name, completion, envelope, table)[held_out].sum(axis=0)
        residuals.append(100 * (hits - whole[held_out, 1].sum()) / requests if requests else 0.0)
    return residuals


def folds(lab):
    """Table IV."""
    keys = [
        (completion, name, envelope) for completion in COMPLETIONS for name in lab.names for envelope in FOLD_ENVELOPES
    ]
    residuals = lab.map(_fold_task, [(name, completion, envelope) for completion, name, envelope in keys], "table4")
    rows = [
        {
            "completion": completion,
            "trace": name,
            "envelope": envelope,
            **{f"fold_{fold + 1}_pp": of[fold] for fold in range(FOLDS)},
            "mean_pp": mean(of),
            "mean_abs_pp": mean(map(abs, of)),
            "max_abs_pp": max(map(abs, of)),
        }
        for (completion, name, envelope), of in zip(keys, residuals, strict=True)
    ]
    claims = []
    for completion in COMPLETIONS:
        for name in lab.names:
            of = [row for row in rows if (row["completion"], row["trace"]) == (completion, name)]
            largest, typical = max(row["max_abs_pp"] for row in of), mean(row["mean_abs_pp"] for row in of)
            signed = mean(row["mean_pp"] for row in of)
            claims.append(
                Claim(
                    f"a held-out table changes the hit rate little: {name} ({completion})",
                    "at most 0.85 pp, mean 0.17 pp (SWE/Qwen3)",
                    f"at most {largest:.2f} pp, mean {typical:.2f} pp, signed {signed:+.2f} pp",
                    largest <= 0.85 and typical <= 0.17,
                )
            )
    notes = [
        "A signed mean near 0 says that a table from other sessions is as good; the sizes are then what any small "
        "change of a table does to who is in memory when.",
        "The whole trace runs, so that memory is as contended as ever; a fold's residual is the hit rate of the fold's "
        "sessions with the table of the other four folds, less that with the table of all sessions.",
        f"{FOLDS} folds drawn with seed 0, {len(FOLD_ENVELOPES)} envelopes: 20 cells a trace as in the paper.",
    ]
    return Report(rows, claims, notes)


# ``shared``: Lambda, the highest live score, the penalty, the least survival, rows; then d(t), then n(t).
_LAMBDA, _LIVE_MAX, _PENALTY, _SURVIVAL_MIN, _TURNS, _FIRST = range(6)


@event
def _count(kind, slots, i, now, value, own, memory, shared):
    if kind != COMPLETE:
        return 0
    turns = int(shared[_TURNS])
    length = slots[i].turns
    if length < turns:
        shared[_FIRST + length] += 1
    for turn in range(min(length + 1, turns)):
        shared[_FIRST + turns + turn] += 1
    return RESCORE


@score
def _learned(slots, i, now, own, memory, shared):
    if slots[i].completed:
        return COMPLETED
    turns = int(shared[_TURNS])
    scale = int(shared[_LAMBDA])
    ended, reached = int(shared[_FIRST + slots[i].turn]), int(shared[_FIRST + turns + slots[i].turn])
    hazard = (2 * ended * scale + reached) // (2 * reached) if reached else 0
    survival = max(int(shared[_SURVIVAL_MIN]), scale - hazard)
    penalty = (scale - survival) * int(shared[_PENALTY]) // scale
    return min(float(int(slots[i].gap) * scale // survival + penalty), shared[_LIVE_MAX])


def _empty(setting):
    p = setting.p
    head = [p.hazard_max, p.score_live_max, p.penalty, p.survival_min, p.turns]
    return np.array([*head, *([0] * (2 * p.turns))], dtype=np.float64)


LEARNING = Policy(
    name="unison-online",
    summary="As unison, with a hazard table counted from the completions so far, empty at first, anew after each one.",
    score=_learned,
    event=_count,
    tide=True,
    needs={"completion"},
    prepare=_empty,
    training="online",
)


def attainment(hr, lru, offline):
    """Equation (30): the share of the offline table's surplus over LRU; None if there is hardly any surplus."""
    return (hr - lru) / (offline - lru) if offline - lru >= LEAST_SURPLUS else None


def _ended(schedule):
    """Lengths of the sessions in the order in which they end."""
    last = (schedule.moments["arrives"] == 0) & (schedule.moments["last"] == 1)
    return schedule.lengths[schedule.moments["session"][last]]


def _curve_task(lab, name, completion, envelope):
    """Hit rates of LRU, of the tables after each count of sessions and after all, and of the learner (or None)."""
    ended = _ended(lab.schedule(name, completion))

    def hr(policy, **options):
        return lab.replay(name, completion, envelope, policy, **options).hr

    tables = [hr("unison", hazards=law_of(ended[:count], N64.turns)) for count in COUNTS if count < len(ended)]
    learner = hr(LEARNING) if completion == "explicit" else None
    return hr("lru"), [*tables, hr("unison")], learner


def learning_curve(lab):
    """Fig. 7."""
    keys = [(completion, name) for completion in COMPLETIONS for name in lab.names]
    tasks = [(name, completion, envelope) for completion, name in keys for envelope in ENVELOPE_NAMES]
    curves = iter(lab.map(_curve_task, tasks, "fig7"))
    rows, claims = [], []
    for completion, name in keys:
        lru, tables, learner = zip(*(next(curves) for _ in ENVELOPE_NAMES), strict=True)
        lru, tables = mean(lru), [mean(of) for of in zip(*tables, strict=True)]
        sessions = len(lab.schedule(name, completion).lengths)
        counts = [*(count for count in COUNTS if count < sessions), sessions]
        for count, hr in zip(counts, tables, strict=True):
            rows.append({
                "completion": completion,
                "trace": name,
                "sessions": count,
                "hr": hr,
                "hr_lru": lru,
                "attainment": attainment(hr, lru, tables[-1]),
                "learned": False,
            })  # fmt: skip
        if completion == "explicit":
            hr = mean(learner)
            rows.append({**rows[-1], "hr": hr, "attainment": attainment(hr, lru, tables[-1]), "learned": True})
        claims.append(_curve_claim(rows, completion, name))
    notes = [
        "A(n): hit rate (mean over the six envelopes) with the table of the n sessions that end first, for the whole "
        "replay, as the share of what the table of all sessions gains over LRU; A = 1 at the end by definition.",
        "learned: one replay that counts as sessions complete and rescores after each, from empty.",
        f"'-': the full table gains less than {100 * LEAST_SURPLUS:.1f} pp over LRU, or loses: A is not defined.",
        "Table, Spear and Tide as everywhere; LRU without Tide.",
    ]
    chart = {"x": "sessions", "y": ["hr"], "series": "trace", "log_x": True, "where": {"learned": False}}
    return Report(rows, claims, notes, chart)


def _curve_claim(rows, completion, name):
    of = [row for row in rows if (row["completion"], row["trace"]) == (completion, name)]
    frozen = [row for row in of if not row["learned"]]
    empty, full = frozen[0], frozen[-1]
    spread = 100 * (full["hr"] - empty["hr"])
    # Where every later table stays within a tenth of the surplus: the table is learned.
    settled = next(
        (
            row["sessions"]
            for at, row in enumerate(frozen)
            if all(later["attainment"] is not None and later["attainment"] >= 0.9 for later in frozen[at:])
        ),
        None,
    )
    told = f"empty table {spread:+.2f} pp below the full one"
    if full["attainment"] is None:
        told = f"the full table gains {100 * (full['hr'] - full['hr_lru']):+.2f} pp over LRU: A not defined; " + told
    else:
        told = f"A(0) = {empty['attainment']:.2f}, A >= 0.9 from n = {settled}; " + told
    learned = [row for row in of if row["learned"]]
    if learned and learned[0]["attainment"] is not None:
        told += f"; learned in one replay A = {learned[0]['attainment']:.2f}"
    return Claim(
        f"an empty table converges to the offline one: {name} ({completion})",
        "A = 1 on all six traces",
        told,
        None if settled is None else settled < full["sessions"],
    )
