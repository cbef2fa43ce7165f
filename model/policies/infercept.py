"""InferCept: preserve, swap or discard a paused session, by the memory each wastes (Abhyankar et al., ICML 2024)."""

from functools import partial

import numba
import numpy as np

from unison.model.policies.base import (
    ABSENT,
    ARRIVE,
    COMPLETED,
    HBM,
    PAUSE,
    SCAN,
    SRAM,
    Policy,
    event,
    place,
    score,
)
from unison.model.policies.learned import (
    WAIT_MEMORY,
    began_wait,
    ended_wait,
    learn_mean,
    mean_of,
    mean_table,
    us_per_token,
)

__all__ = ["infercept"]

#: ``own``: waste of a discard in chunks, tokens of the running batch at the pause, estimated return time.
_DISCARD, _BATCH, _RETURN, _OWN = range(4)
#: ``shared``: us to prefill and to swap a token, tokens of a chunk, source of T, two limits of the heuristic (us; 0:
#: compare wastes), means by tool.
_PREFILL, _SWAP, _CHUNK, _TIME, _SHORT, _LONG, _MEANS = range(7)
TIMES = ("elapsed", "true", "mean")
_ELAPSED, _TRUE, _MEAN = range(3)
#: Waste of a session that would have been discarded already.
_OVER = float(1 << 58)


@numba.njit(cache=True)
def _discard_in_chunks(tokens, batch, prefill, chunk):
    """Token-microseconds that recomputing ``tokens`` beside a batch wastes, ``chunk`` tokens an iteration.

    The n full chunks before the last hold what was recomputed so far; each delays the batch.
    """
    full, rest = max(-(-tokens // chunk) - 1, 0), tokens % chunk
    return prefill * (chunk * chunk * full * (full + 1) / 2 + chunk * full * batch + rest * (batch + rest))


@event
def _learn(kind, slots, i, now, value, own, memory, shared):
    if kind == ARRIVE:
        wait = ended_wait(slots, i, now, memory)
        if wait >= 0:
            learn_mean(shared, _MEANS, slots[i].tool, wait)
    elif kind == PAUSE:
        began_wait(slots, i, now, memory)
        batch = 0
        for j in range(len(slots)):
            if slots[j].busy and j != i:
                batch += slots[j].held
        own[i, _BATCH] = batch
        own[i, _DISCARD] = _discard_in_chunks(slots[i].tokens, batch, shared[_PREFILL], int(shared[_CHUNK]))
        if shared[_TIME] == _TRUE:
            own[i, _RETURN] = slots[i].next_us
        elif shared[_TIME] == _MEAN:
            own[i, _RETURN] = now + max(mean_of(shared, _MEANS, slots[i].tool), 0.0)
        else:
            own[i, _RETURN] = now
    return 0


@score
def _waste(slots, i, now, own, memory, shared):
    if slots[i].completed:
        return COMPLETED
    if shared[_TIME] == _ELAPSED:
        preserve = (now - slots[i].paused_us) * slots[i].tokens
        return preserve if preserve <= own[i, _DISCARD] else _OVER + preserve
    preserve = max(own[i, _RETURN] - now, 0.0) * slots[i].tokens
    return min(preserve, own[i, _DISCARD])


@place
def _choose(slots, i, now, own, memory, shared):
    wait = own[i, _RETURN] - now
    if shared[_LONG]:
        return SRAM if wait < shared[_SHORT] else HBM if wait < shared[_LONG] else ABSENT
    tokens, batch = slots[i].tokens, own[i, _BATCH]
    preserve = wait * tokens
    swap = 2 * shared[_SWAP] * tokens * batch
    discard = shared[_PREFILL] * tokens * (tokens + batch)
    if preserve <= swap and preserve <= discard:
        return SRAM
    return HBM if swap <= discard else ABSENT


def _table(setting, chunk, time, limits_s):
    prefill, swap = us_per_token(setting.costs.prefill), us_per_token(setting.costs.hbm)
    limits = [limit * 1e6 for limit in limits_s or (0, 0)]
    return np.array([prefill, swap, chunk, TIMES.index(time), *limits, *mean_table(setting.schedule)])


def infercept(name="infercept", *, time="elapsed", limits_s=None, chunk=384):
    """InferCept in two tiers: preserve is SRAM, swap HBM, discard eviction.

    Parameters
    ----------
    name : str
    time : str
        T_INT. ``"elapsed"``: the time since the call, as the paper's online estimate, so 0 at the pause.
        ``"true"``: the true wait, which no server knows. ``"mean"``: the mean wait of the tool.
    limits_s : tuple of float, optional
        The heuristic H-B in place of wastes: below the first preserve, below the second swap, else discard.
    chunk : int
        Tokens recomputed an iteration.

    Raises
    ------
    ValueError
        For another ``time``, limits that do not rise, or a chunk below 1.
    """
    if time not in TIMES:
        raise ValueError(f"time must be one of {', '.join(TIMES)}, not {time!r}")
    if limits_s is not None and not 0 < limits_s[0] <= limits_s[1]:
        raise ValueError(f"limits_s must be two positive rising numbers of seconds, not {limits_s!r}")
    if not chunk >= 1:
        raise ValueError(f"chunk must be positive, not {chunk!r}")
    known = {
        "elapsed": "T the time since the pause",
        "true": "T the true wait (an oracle)",
        "mean": "T the mean wait of the tool learned online, of all tools without",
    }[time]
    rule = "the least of three wastes: T C to preserve, 2 t_swap C C_batch to swap, t_fwd C (C + C_batch) to discard"
    if limits_s is not None:
        rule = f"T alone: below {limits_s[0]:g} s preserve, below {limits_s[1]:g} s swap, else discard"
    late = " A session beyond that is discarded once room is needed, not at once." if time == "elapsed" else ""
    return Policy(
        name=name,
        summary=f"Each pause preserves (SRAM), swaps (HBM) or discards by {rule}; {known}. When full: completed first, "
        f"then the highest min(T C, discard in chunks of {chunk}), T what is left of it.{late} Times from the costs; "
        "C_batch as of the pause. Source: InferCept (ICML 2024), vllm/core/scheduler_v2.py; the tiers are ours.",
        score=_waste,
        event=_learn,
        place=_choose,
        mode=SCAN,
        needs={"completion", "tool"} if time == "mean" else {"completion"},
        causal=time != "true",
        own=_OWN,
        memory=WAIT_MEMORY,
        prepare=partial(_table, chunk=chunk, time=time, limits_s=limits_s),
    )
