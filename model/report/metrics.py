"""What the cells of results.json measure: names, units and directions, and how their numbers are written."""

import math
from dataclasses import dataclass

__all__ = ["METRICS", "Metric", "exact", "readable"]


@dataclass(frozen=True)
class Metric:
    """A metric of a cell.

    Attributes
    ----------
    label, unit, text : str
        As shown; ``text`` explains it in a sentence.
    kind : str
        ratio (around 1; averaged geometrically), share (0 to 1, shown in percent), index (around 0 to 1) or amount.
    better : str or None
        low or high; None if neither is.
    """

    label: str
    unit: str
    kind: str
    better: str | None
    text: str


#: By the key in a cell, in the order of the page.
METRICS = {
    "amat_vs_floor": Metric(
        "AMAT / floor",
        "×",
        "ratio",
        "low",
        "Mean cost of a request over the floor's: LRU that evicts completed sessions first where completion is told, "
        "plain LRU where it is silent. Below 1 the ranking wins something.",
    ),
    "amat_vs_lru": Metric(
        "AMAT / LRU", "×", "ratio", "low", "Mean cost of a request over that of plain LRU by session."
    ),
    "attainment_floor": Metric(
        "attainment over the floor",
        "",
        "index",
        "high",
        "Share of what the best oracle saves over the floor: 0 is the floor, 1 the oracle, below 0 a loss. "
        "Empty where the oracle saves nothing.",
    ),
    "attainment": Metric(
        "attainment over LRU", "", "index", "high", "Share of what the best oracle saves over plain LRU."
    ),
    "hr": Metric("hit rate", "%", "share", "high", "Requests whose session was found whole in SRAM or HBM."),
    "hr_sram": Metric("SRAM hit rate", "%", "share", "high", "Requests whose session was found in SRAM."),
    "hr_hbm": Metric("HBM hit rate", "%", "share", None, "Requests whose session was found in HBM."),
    "br": Metric("Bélády ratio", "×", "ratio", "high", "Hit rate over that of Bélády's rule, which knows the future."),
    "prefill_reduction": Metric("prefill saved", "%", "share", "high", "Prompt tokens that need no prefill."),
    "amat": Metric(
        "AMAT", "cost units", "amount", "low", "Mean cost of a request; one unit reads one token from SRAM."
    ),
    "amat_no_delta": Metric(
        "AMAT without new tokens", "cost units", "amount", "low", "AMAT without the prefill of new tokens of hits."
    ),
    "ttft_p50": Metric("TTFT p50", "s", "amount", "low", "Median time to the first token at the load of the cell."),
    "bypass": Metric("bypass", "%", "share", "low", "Requests that no tier could hold: busy sessions fill memory."),
    "prefetch_accuracy": Metric(
        "prefetch accuracy", "%", "share", "high", "Promotions still in SRAM when their session came back."
    ),
    "evicted_tokens": Metric("evicted", "tokens", "amount", "low", "Tokens that left memory by eviction."),
    "false_evictions": Metric(
        "false evictions", "requests", "amount", "low", "Requests of sessions evicted at most 10 s before."
    ),
    "events_per_s": Metric("simulator", "events/s", "amount", "high", "Speed of the simulator, on one core."),
}


def exact(value):
    """A number as text with six significant digits, thousands marked."""
    return _digits(value, 6)


def readable(value, kind="amount"):
    """A number as text: ratios in thousandths, all others with three significant digits; a dash for None."""
    if value is None:
        return "–"
    if kind == "ratio":
        return f"{value:.3f}"
    if kind == "share":
        return f"{_digits(value * 100, 3)} %"
    return _digits(value, 3)


def _digits(value, digits):
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if not math.isfinite(value):
        return "∞" if value > 0 else "–∞" if value < 0 else "–"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    places = digits - 1 - math.floor(math.log10(abs(rounded)))
    if places > digits + 3:
        return f"{value:.{digits - 1}e}"
    return f"{rounded:,.{0 if isinstance(value, int) else max(places, 0)}f}"
