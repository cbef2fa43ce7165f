"""FlexGen: a static plan for the tiers, and no ranking."""

from unison.model.policies.base import COMPLETED, HBM, Policy, place, score

__all__ = ["FLEXGEN"]


@score
def _ended(slots, i, now, own, memory, shared):
    return COMPLETED if slots[i].completed else 0.0


@place
def _demote(slots, i, now, own, memory, shared):
    return HBM


FLEXGEN = Policy(
    name="flexgen",
    summary="No ranking: completed sessions first, then the lowest slot. Who pauses goes to HBM if it has room, so "
    "that SRAM serves the sessions at work; the fractions of the source's linear program concern parts of one batch. "
    "Source: FlexGen, ICML 2023.",
    score=_ended,
    place=_demote,
    needs={"completion"},
)
