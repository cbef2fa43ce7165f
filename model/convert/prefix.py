"""Sessions from blocks of tokens whose identifiers name what they hold, as prefix caches hash them."""

from bisect import bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass

from unison.model.trace import Turn

__all__ = ["Request", "common_blocks", "new_tokens", "link", "turns"]

#: Conversations that may share a block before it says nothing about which one a request continues.
_SHARED_BY_MANY = 3


@dataclass(frozen=True, slots=True)
class Request:
    """One request: times in microseconds, sizes in tokens, ``ids`` of its blocks in order."""

    arrival_us: int
    completion_us: int | None
    prompt_tokens: int
    output_tokens: int
    ids: tuple


def common_blocks(first, second):
    """Number of blocks that two lists of identifiers have in common from the start."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))


def new_tokens(before, request, block):
    """Tokens of ``request`` that are neither in the prompt of ``before`` nor in its answer.

    If all full blocks of ``before`` are kept, its whole prompt and answer are taken to be; else the common blocks
    alone are.
    """
    common = common_blocks(before.ids, request.ids)
    if common >= before.prompt_tokens // block and request.prompt_tokens >= before.prompt_tokens:
        return max(0, request.prompt_tokens - before.prompt_tokens - before.output_tokens)
    return max(0, request.prompt_tokens - common * block)


def _conversations(holders):
    """Number of growing conversations that the requests ``holders``, in order of time, make up; counted up to many."""
    ends = []
    for request in holders:
        place = bisect_right(ends, request.prompt_tokens)
        if place:
            del ends[place - 1]
        insort(ends, request.prompt_tokens + request.output_tokens)
        if len(ends) == _SHARED_BY_MANY:
            break
    return len(ends)


def link(requests, block):
    """Lists of the ``requests``, one a session, where an identifier names a whole prefix of ``block``-token blocks.

    The next turn of A is the first later request that holds A's last full block and is at least as long as A and its
    answer. A request that several could precede follows the one with which it shares most, then the newest. A block
    that three or more growing conversations hold never links.
    """
    requests = sorted(requests, key=lambda request: request.arrival_us)
    lasts = [
        request.ids[full - 1] if 0 < (full := request.prompt_tokens // block) <= len(request.ids) else None
        for request in requests
    ]
    holders = defaultdict(list)
    wanted = set(lasts) - {None}
    for request in requests:
        for each in wanted.intersection(request.ids):
            holders[each].append(request)
    linking = {each for each in wanted if _conversations(holders[each]) < _SHARED_BY_MANY}

    sessions = []
    # Sessions that wait for their next turn, by the last full block of their last one.
    waiting = defaultdict(list)
    for request, last in zip(requests, lasts, strict=True):
        session = None
        for each in reversed(request.ids):
            fitting = [
                place
                for place, candidate in enumerate(waiting.get(each, ()))
                if candidate[-1].prompt_tokens + candidate[-1].output_tokens <= request.prompt_tokens
            ]
            if fitting:
                session = waiting[each].pop(fitting[-1])
                break
        if session is None:
            session = []
            sessions.append(session)
        session.append(request)
        if last in linking:
            waiting[last].append(session)
    return sessions


def turns(session, block):
    """The Turns of a session of requests."""
    return [
        Turn(
            arrival_us=request.arrival_us,
            completion_us=request.completion_us,
            prompt_tokens=request.prompt_tokens,
            new_prompt_tokens=new_tokens(before, request, block) if before else request.prompt_tokens,
            output_tokens=request.output_tokens,
        )
        for before, request in zip((None, *session), session, strict=False)
    ]
