"""Mooncake's store: what was used least often leaves, if its lease is over."""

import numpy as np

from unison.model.policies.base import COMPLETED, NEVER, STEPPED, Policy, expires, score

__all__ = ["mooncake"]

#: A time in microseconds below this orders sessions inside a class; 8 bits of class above it are exact.
_TIMES = 1 << 44
#: ``shared``: the lease, us; completed first.
_LEASE, _COMPLETION = range(2)


@score
def _popularity(slots, i, now, own, memory, shared):
    if shared[_COMPLETION] and slots[i].completed:
        return COMPLETED
    rank = float((255 - min(slots[i].turns, 255)) * _TIMES - slots[i].paused_us)
    return rank - float(1 << 52) if now < slots[i].paused_us + shared[_LEASE] else rank


@expires
def _lease_ends(slots, i, now, own, memory, shared):
    due = slots[i].paused_us + np.int64(shared[_LEASE])
    return due if due > now else NEVER


def mooncake(name="mooncake", *, lease_s=10.0, completion=False):
    """Mooncake's store ordered by popularity.

    Parameters
    ----------
    name : str
    lease_s : float
        Lease after each use.
    completion : bool
        Whether completed sessions leave first; the source does not hear of them.

    Raises
    ------
    ValueError
        If the lease is negative.
    """
    if not lease_s >= 0:
        raise ValueError(f"lease_s must not be negative, not {lease_s!r}")
    return Policy(
        name=name,
        summary=("Completed first, then the" if completion else "The")
        + f" fewest turns served in its slot (up to 255), then idle time; sessions used within {lease_s:g} s only when "
        "no other is left. On demand, not 5 % at a time from 90 % full; nothing is soft pinned. Source: Mooncake, "
        "docs/source/deployment/mooncake-store-deployment-guide.md; popularity as the reference paper reads it.",
        score=_popularity,
        expires=_lease_ends,
        mode=STEPPED,
        needs={"completion"} if completion else (),
        prepare=lambda setting: np.array([lease_s * 1e6, completion]),
    )
