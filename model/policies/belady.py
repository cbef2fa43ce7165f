"""Rankings that know the future: bounds and yardsticks."""

from unison.model.policies.base import COMPLETED, NEVER, SCAN, Policy, score

__all__ = ["BELADY", "BELADY_SIZE"]


@score
def _next(slots, i, now, own, memory, shared):
    return slots[i].next_us


@score
def _next_size(slots, i, now, own, memory, shared):
    if slots[i].next_us == NEVER:
        return COMPLETED
    return slots[i].tokens * (slots[i].next_us - now)


BELADY = Policy(
    name="belady",
    summary="The session that returns last, those that never do first; optimal only for one tier and equal sizes.",
    score=_next,
    causal=False,
)
BELADY_SIZE = Policy(
    name="belady-size",
    summary="The largest product of context and time until the return, those that never return first.",
    score=_next_size,
    mode=SCAN,
    causal=False,
)
