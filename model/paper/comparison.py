"""Table II: the paper's policies, the honest floor and the oracles, on every trace and envelope."""

import json

from unison.model.paper.components import grid
from unison.model.paper.lab import (
    COMPLETIONS,
    ENVELOPE_NAMES,
    GRID,
    METRICS,
    Claim,
    Report,
    geometric_mean,
    mean,
)

__all__ = ["ORACLES", "comparison"]

ORACLES = GRID.references.oracles
#: The paper's rows, then what it lacks: completed sessions first, else LRU.
PAPER = ("lru", "timeout-30s", "agserve", "cachescout", "unison", "belady")
ROWS = (*PAPER[:-1], "lru-completion", *ORACLES)
#: Oracles that save less than this over LRU leave nothing to attain.
LITTLE = 1 - GRID.references.nothing_to_win


def _task(lab, name, completion, envelope, policy, options):
    result = lab.replay(name, completion, envelope, policy, **options)
    return {**{metric: getattr(result, metric) for metric in METRICS}, "degraded": list(result.degraded)}


def _evaluated(lab):
    """Cells of the evaluation's results at the contract's load and seed, and the policies that have all of them."""
    if lab.results is None or not lab.results.exists():
        return {}, ()
    cells = {}
    for cell in json.loads(lab.results.read_text())["cells"]:
        if cell["trace"] in lab.names and (cell["load"], cell["seed"]) == (f"service x {GRID.scale}", GRID.seed):
            cells.setdefault((cell["trace"], cell["completion"], cell["envelope"], cell["policy"]), cell)
    places = len(lab.names) * len(COMPLETIONS) * len(ENVELOPE_NAMES)
    counts = {}
    for *_, policy in cells:
        counts[policy] = counts.get(policy, 0) + 1
    whole = tuple(policy for policy, count in counts.items() if count == places)
    return {key: cell for key, cell in cells.items() if key[-1] in whole}, whole


def _attainment(cells, name, completion, policy):
    """Mean share of the oracle's saving over LRU, over the envelopes where there is one; None without any."""
    shares = []
    for envelope in ENVELOPE_NAMES:
        lru, own, *oracles = (cells[name, completion, envelope, of]["amat"] for of in ("lru", policy, *ORACLES))
        best = min(oracles)
        if lru - best >= LITTLE * lru:
            shares.append((lru - own) / (lru - best))
    return mean(shares)


def _row(cells, name, completion, policy):
    of = [cells[name, completion, envelope, policy] for envelope in ENVELOPE_NAMES]
    lru = [cells[name, completion, envelope, "lru"] for envelope in ENVELOPE_NAMES]
    oracle = [cells[name, completion, envelope, "belady"] for envelope in ENVELOPE_NAMES]
    ratios = [cell["amat"] / base["amat"] for cell, base in zip(of, lru, strict=True)]
    return {
        "completion": completion,
        "trace": name,
        "policy": policy,
        "hr": mean(cell["hr"] for cell in of),
        "prefill_reduction": mean(cell["prefill_reduction"] for cell in of),
        "amat_vs_lru": geometric_mean(ratios),
        "ttft_vs_lru": geometric_mean(
            cell["ttft_p50"] / base["ttft_p50"] for cell, base in zip(of, lru, strict=True) if base["ttft_p50"]
        ),
        "br": mean(cell["hr"] / base["hr"] for cell, base in zip(of, oracle, strict=True) if base["hr"]),
        "attainment": _attainment(cells, name, completion, policy),
        "cells_below_lru": sum(ratio < 1 for ratio in ratios),
        "degraded": " ".join(of[0]["degraded"]),
    }


def _total(rows, completion, policy):
    of = [row for row in rows if (row["completion"], row["policy"]) == (completion, policy)]
    means = {key: mean(row[key] for row in of) for key in ("hr", "prefill_reduction", "br", "attainment")}
    return {
        **of[0],
        "trace": "all",
        **means,
        "amat_vs_lru": geometric_mean(row["amat_vs_lru"] for row in of),
        "ttft_vs_lru": geometric_mean(row["ttft_vs_lru"] for row in of if row["ttft_vs_lru"] is not None),
        "cells_below_lru": sum(row["cells_below_lru"] for row in of),
        "degraded": f"{sum(bool(row['degraded']) for row in of)} of {len(of)}",
    }


def comparison(lab):
    """Table II."""
    evaluated, whole = _evaluated(lab)
    missing = {policy: policy for policy in ROWS if policy not in whole}
    cells = {**evaluated, **(grid(lab, missing, _task, "table2") if missing else {})}
    policies = (*ROWS, *(policy for policy in whole if policy not in ROWS))
    rows = []
    for completion in COMPLETIONS:
        each = [_row(cells, name, completion, policy) for name in lab.names for policy in policies]
        rows += each + [_total(each, completion, policy) for policy in policies]
    claims = [claim for completion in COMPLETIONS for claim in _claims(lab, rows, completion)]
    notes = [
        "Means over the six envelopes: hit rate, prefill reduction and BR arithmetic, AMAT and TTFT over LRU "
        "geometric; trace 'all': over the traces.",
        "AMAT counts the prefill of new tokens. TTFT: median, without queueing, service times x 1/4.",
        f"Attainment: (LRU - own) / (LRU - best of {', '.join(ORACLES)}) of AMAT, over the envelopes where that oracle "
        f"saves at least {LITTLE:.0%}; '-' where there is none: nothing to win.",
        "degraded: hints that the policy reads and the trace or the completion mode lacks.",
        "Timeout: 30 s; the paper does not say.",
        "lru-completion is no row of the paper: LRU that lets completed sessions go first, the honest floor.",
        f"From the evaluation's results: {', '.join(whole)}." if whole else "All cells were replayed for this table.",
    ]
    return Report(rows, claims, notes)


def _claims(lab, rows, completion):
    value = {(row["trace"], row["policy"]): row for row in rows if row["completion"] == completion}
    rivals = [policy for policy in PAPER if policy not in ("unison", "belady")]
    names = lab.names

    def won(metric, better, against):
        return sum(
            all(better(value[name, "unison"][metric], value[name, rival][metric]) for rival in against)
            for name in names
        )

    hr = won("hr", lambda own, other: own > other, rivals)
    amat = won("amat_vs_lru", lambda own, other: own < other, rivals)
    floor = won("amat_vs_lru", lambda own, other: own < other, ["lru-completion"])
    scout = won("hr", lambda own, other: own > other, ["cachescout"])
    below, ratio = value["all", "unison"]["cells_below_lru"], value["all", "unison"]["amat_vs_lru"]
    places = len(names) * len(ENVELOPE_NAMES)
    br = value["all", "unison"]["br"]
    by_trace = ", ".join(f"{name} {value[name, 'unison']['amat_vs_lru']:.2f}" for name in names)
    return [
        Claim(
            f"Unison is the best but for the oracle, on every trace ({completion})",
            "hit rate 6 of 6, AMAT 6 of 6",
            f"hit rate {hr}, AMAT {amat} of {len(names)}",
            hr == amat == len(names),
        ),
        Claim(f"Bélády ratio ({completion})", "0.93", f"{br:.3f}", br >= 0.93),
        Claim(
            f"AMAT below LRU in all matched comparisons ({completion})",
            "36 of 36, mean -34.8 %",
            f"{below} of {places}, mean {100 * (ratio - 1):+.1f} %",
            below == places,
        ),
        Claim(f"AMAT over LRU by trace ({completion})", ".65 .78 .55 .49 .72 .52", by_trace, None),
        Claim(
            f"Unison's hit rate is above CacheScout's on every trace ({completion})",
            "6 of 6",
            f"{scout} of {len(names)}",
            scout == len(names),
        ),
        Claim(
            f"Unison's AMAT is below that of LRU with completed sessions first ({completion})",
            "not compared",
            f"{floor} of {len(names)} traces; that floor {value['all', 'lru-completion']['amat_vs_lru']:.3f} x LRU, "
            f"Unison {ratio:.3f}",
            floor == len(names),
        ),
    ]
