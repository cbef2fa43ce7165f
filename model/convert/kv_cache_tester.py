"""Conversations of kv-cache-tester: ``trace_*.json``.

Source of the format: github.com/callanjfox/kv-cache-tester, docs/trace_replay_tester.md and build_traces_from_neon.py.

A request has ``t`` in seconds since the conversation's start (whole seconds in the published traces), ``api_time``,
``in``, ``out``, ``hash_ids`` of ``block_size``-token blocks, local to the file, and ``input_types``. It completes at
t + api_time. Sub-agents are nested (an entry of type ``subagent`` with its own requests) or interleaved.

A request belongs to the thread all of whose last full blocks it holds. If there is none, it belongs to the thread with
which it shares most, to the oldest of several, as after a compaction; but it must share ``tool_tokens`` and
``system_tokens``, which all requests of one agent do. Any other, and one that only threads still busy could continue,
begins the thread of a sub-agent. A request repeated while the first one runs (the same blocks sent again without
streaming) is left out.
"""

from dataclasses import replace

from unison.model.convert.common import ConvertError, at, count, items, seconds, take, text
from unison.model.convert.prefix import Request, common_blocks, new_tokens
from unison.model.files import json_object
from unison.model.trace import Turn

__all__ = ["read", "recognises"]

#: Times of arrival are rounded down to seconds, so that a request may seem to precede the answer it follows.
_ROUNDING_US = 1_000_000


def recognises(head):
    """Whether ``head``, the first JSON value of a file, is such a conversation."""
    return isinstance(head, dict) and "requests" in head and "block_size" in head


class _Thread:
    def __init__(self, role):
        self.role = role
        self.last = None
        self.turns = []

    @property
    def end(self):
        return self.last.arrival_us if self.last.completion_us is None else self.last.completion_us

    def add(self, request, tool, block):
        if self.last is not None:
            arrival = max(request.arrival_us, self.end)
            completion = None if request.completion_us is None else max(request.completion_us, arrival)
            request = replace(request, arrival_us=arrival, completion_us=completion)
        self.turns.append(
            Turn(
                arrival_us=request.arrival_us,
                completion_us=request.completion_us,
                prompt_tokens=request.prompt_tokens,
                new_prompt_tokens=new_tokens(self.last, request, block) if self.last else request.prompt_tokens,
                output_tokens=request.output_tokens,
                tool=tool if self.last else None,
                role=self.role,
            )
        )
        self.last = request


def _request(entry, name):
    arrival = take(entry, "t", kind=seconds, name=name)
    service = take(entry, "api_time", kind=seconds, default=None, name=name)
    if service is not None and service < 0:
        raise ValueError(f"{name}.api_time must not be negative, not {entry['api_time']!r}")
    ids = take(entry, "hash_ids", kind=items, name=name)
    return Request(
        arrival_us=arrival,
        completion_us=None if service is None else arrival + service,
        prompt_tokens=take(entry, "in", kind=count, name=name),
        output_tokens=take(entry, "out", kind=count, name=name),
        ids=tuple(count(f"{name}.hash_ids[{index}]", each) for index, each in enumerate(ids)),
    )


def _choose(threads, request, block, shared):
    """The thread that ``request`` continues, or None; ``shared`` blocks are common to all requests of an agent."""
    best = None
    most = (False, 0)
    for thread in threads:
        if request.arrival_us + _ROUNDING_US < thread.end:
            continue
        common = common_blocks(thread.last.ids, request.ids)
        full = thread.last.prompt_tokens // block
        rank = (0 < full <= common, common)
        if (rank[0] or common >= shared) and rank > most:
            best, most = thread, rank
    return best


def _repeats(threads, request):
    return any(
        request.ids == thread.last.ids
        and request.prompt_tokens == thread.last.prompt_tokens
        and request.arrival_us <= thread.end
        for thread in threads
    )


def _threads(agent, block, role, name=""):
    """Threads of an agent's requests, nested ones included; the first has the ``role``, others are sub-agents'."""
    threads = []
    fixed = sum(take(agent, key, kind=count, default=0, name=name) for key in ("tool_tokens", "system_tokens"))
    shared = max(1, fixed // block)
    entries = take(agent, "requests", kind=items, name=name)
    name = f"{name}.requests" if name else "requests"
    nested = []
    for index, entry in enumerate(entries):
        here = f"{name}[{index}]"
        if take(entry, "type", kind=text, default="", name=here) == "subagent":
            nested += _threads(entry, block, "subagent", here)
            continue
        request = _request(entry, here)
        if _repeats(threads, request):
            continue
        types = take(entry, "input_types", kind=items, default=[], name=here)
        tool = "tool" if "tool_result" in types else "user" if "text" in types else None
        thread = _choose(threads, request, block, shared)
        if thread is None:
            thread = _Thread("subagent" if threads else role)
            threads.append(thread)
        thread.add(request, tool, block)
    return threads + nested


def read(paths):
    """Yields the turns of each thread of each conversation."""
    for path in paths:
        conversation = json_object(path, ConvertError)
        with at(path, 1):
            block = take(conversation, "block_size", kind=count)
            if block == 0:
                raise ValueError("block_size must be positive, not 0")
            threads = _threads(conversation, block, "main")
        for thread in threads:
            yield thread.turns
