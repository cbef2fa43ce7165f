"""A plain cache under the lab's simulator: one tier, one size, service without time, nobody pinned.

Each object is a session that has a slot of its own; request ``n`` arrives and is answered at microsecond ``n``. So a
policy can be compared, by the code that the lab runs, with any plain cache simulator.
"""

from fractions import Fraction

import numpy as np

from unison.model.load import Footprints, Load
from unison.model.schedule import MOMENT, NEVER, UNKNOWN, Schedule
from unison.model.simulator import simulate

__all__ = ["PEERS", "flat_hits", "flat_schedule", "next_requests", "peer_hits"]

#: Policies that libCacheSim has too: its class, and whether it puts an object in before it makes room.
PEERS = {
    "lru": ("LRU", False),
    "fifo": ("FIFO", False),
    "belady": ("Belady", False),
    "s3-fifo": ("S3FIFO", False),
    "sieve": ("Sieve", False),
    "gdsf": ("GDSF", True),
    "arc": ("ARC", False),
    "2q": ("TwoQ", False),
    "lru-2": ("LRUK", False),
}
#: libCacheSim's time of a request that never comes.
_NEVER = (1 << 63) - 1


def next_requests(objects):
    """Index of the next request of the same object, NEVER after the last; int64."""
    objects = np.asarray(objects)
    order = np.argsort(objects, kind="stable")
    following = np.full(len(objects), NEVER)
    same = objects[order][1:] == objects[order][:-1]
    following[order[:-1][same]] = order[1:][same]
    return following


def flat_schedule(objects, size, *, insert_first=False):
    """Requests for objects of one size as a Schedule.

    Parameters
    ----------
    objects : sequence of int
        The requested objects, numbered from 0.
    size : int
        Tokens of each.
    insert_first : bool
        A missed object is put in before room is made, so it may leave at once. The simulator makes room first; here
        there is room for one object more, and a last session, of one token, asks for that room after each request
        and gives it back.
    """
    objects = np.asarray(objects, dtype=np.int64)
    number = np.arange(len(objects))
    following = next_requests(objects)
    returns = np.flatnonzero(following != NEVER)
    gap = np.full(len(objects), -1)
    gap[following[returns]] = following[returns] - returns
    moments = np.zeros((len(objects), 4 if insert_first else 2), dtype=MOMENT)
    moments["time_us"] = number[:, None]
    moments["session"] = objects[:, None]
    moments["tokens"] = size
    moments["arrives"] = [1, 0] * (moments.shape[1] // 2)
    moments["next_us"] = following[:, None]
    moments["gap_us"][:, 0] = gap
    moments["gap_us"][:, 1] = np.where(following == NEVER, -1, following - number)
    if insert_first:
        moments["session"][:, 2:] = objects.max() + 1
        moments["tokens"][:, 2:] = size + 1, 1
        moments["next_us"][:, 2:] = number[:, None] + 1
        moments["gap_us"][:, 2:] = 1
    moments["tool"] = moments["role"] = UNKNOWN
    moments = moments.ravel()
    return Schedule(
        name="flat",
        load=Load(arrivals="recorded", completion="silent"),
        moments=moments,
        lengths=np.bincount(moments["session"][moments["arrives"] == 1]),
        tools=(),
        roles=(),
        footprints=Footprints(Fraction(0), Fraction(0)),
        mean_gap_us=0,
        new_tokens_known=1.0,
    )


def flat_hits(policy, objects, size, capacity, *, insert_first=False, seed=0):
    """Which requests hit in one tier of ``capacity`` tokens; bool per request, arguments as ``flat_schedule``.

    Raises
    ------
    ValueError
        If the capacity does not hold one object.
    """
    if not capacity >= size:
        raise ValueError(f"the capacity must hold an object of {size} tokens, not {capacity!r}")
    schedule = flat_schedule(objects, size, insert_first=insert_first)
    held = (capacity + size + 1, 0) if insert_first else (capacity, 0)
    hit = simulate(schedule, policy, held, slots=schedule.sessions, seed=seed).hit
    return hit[::2] if insert_first else hit


def peer_hits(name, objects, size, capacity):
    """As ``flat_hits`` for the policy of PEERS, by libCacheSim's Python binding.

    Raises
    ------
    ModuleNotFoundError
        Without libCacheSim's binding.
    """
    import libcachesim

    cache = getattr(libcachesim, PEERS[name][0])(cache_size=capacity, hashpower=16)
    following = next_requests(objects)
    following = np.where(following == NEVER, _NEVER, following).tolist()
    hit = np.empty(len(objects), dtype=bool)
    for number, asked in enumerate(np.asarray(objects).tolist()):
        request = libcachesim.Request(
            obj_id=asked, obj_size=size, clock_time=number, next_access_vtime=following[number]
        )
        hit[number] = cache.get(request)
    return hit
