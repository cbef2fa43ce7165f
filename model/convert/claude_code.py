"""Logs of Claude Code: JSON lines, one a content block (``~/.claude/projects/*/*.jsonl``, or ``trace.jsonl``).

Source of the format, as public recordings show it: github.com/eunomia-bpf/agentcgroup,
experiments/*/attempt_*/trace.jsonl.

A call is all lines of one message id: it completes at the last of them. It arrives at the newest tool result or prompt
of a person between it and the call before, or at once. A side chain (``isSidechain``, or the messages inside
``agent_progress`` lines) is a session of its own. Input excludes what the cache served. The log often holds the output
count of a message's start only; where no line tells why the message stopped, the answer's characters are counted.
"""

import math

from unison.model.convert.common import (
    CHARACTERS_PER_TOKEN,
    ConvertError,
    at,
    count,
    fields,
    iso_us,
    items,
    length,
    prompt_tokens,
    take,
    text,
    tool_names,
    with_growth,
)
from unison.model.files import json_lines
from unison.model.trace import Turn

__all__ = ["read", "recognises"]

_KINDS = ("user", "assistant", "system", "summary", "progress", "queue-operation", "file-history-snapshot")


def recognises(head):
    """Whether ``head``, the first JSON value of a file, is a line of such a log."""
    if not isinstance(head, dict) or head.get("type") not in _KINDS:
        return False
    return "sessionId" in head or head["type"] in ("summary", "file-history-snapshot")


class _Call:
    """What the lines of one message id tell."""

    def __init__(self, first_us):
        self.first_us = self.last_us = first_us
        self.usage = (0, 0, 0)
        self.counted = 0
        self.finished = False
        self.characters = 0
        self.tools = []

    def add(self, message, moment):
        self.last_us = max(self.last_us, moment)
        usage = take(message, "usage", kind=fields, name="message")
        name = "message.usage"
        self.usage = (
            take(usage, "input_tokens", kind=count, name=name),
            take(usage, "cache_read_input_tokens", kind=count, default=0, name=name),
            take(usage, "cache_creation_input_tokens", kind=count, default=0, name=name),
        )
        self.counted = max(self.counted, take(usage, "output_tokens", kind=count, name=name))
        self.finished = self.finished or message.get("stop_reason") is not None
        for index, block in enumerate(take(message, "content", kind=items, name="message")):
            name = f"message.content[{index}]"
            kind = take(block, "type", kind=text, name=name)
            if kind == "tool_use":
                self.tools.append(take(block, "name", kind=text, name=name))
                self.characters += len(self.tools[-1]) + length(block.get("input"))
            else:
                self.characters += length(block.get(kind))

    @property
    def output_tokens(self):
        if self.finished:
            return self.counted
        return max(self.counted, math.ceil(self.characters / CHARACTERS_PER_TOKEN))


class _Chain:
    """The calls of one chain, with the newest line that each could have been sent at."""

    def __init__(self, role):
        self.role = role
        self.seen = set()
        self.calls = {}
        self.sent = {}
        # Newest (time, whether a person wrote it) since the first line of the last call.
        self.newest = None

    def add(self, kind, message, moment, *, automatic):
        if kind == "user":
            content = message.get("content")
            result = isinstance(content, list) and any(
                isinstance(block, dict) and block.get("type") == "tool_result" for block in content
            )
            if (result or not automatic) and (self.newest is None or moment >= self.newest[0]):
                self.newest = (moment, not result)
            return
        if message.get("model") == "<synthetic>":
            return
        identifier = take(message, "id", kind=text, name="message")
        if identifier not in self.calls:
            self.calls[identifier] = _Call(moment)
            self.sent[identifier] = self.newest
            self.newest = None
        self.calls[identifier].add(message, moment)

    def turns(self):
        prompts = prompt_tokens([call.usage for call in self.calls.values()], exclusive=True)
        before = None
        turns = []
        for (identifier, call), prompt in zip(self.calls.items(), prompts, strict=True):
            moment, person = self.sent[identifier] or (call.first_us if before is None else before.last_us, False)
            turns.append(
                Turn(
                    arrival_us=moment if before is None else max(moment, before.last_us),
                    completion_us=call.last_us,
                    prompt_tokens=prompt,
                    new_prompt_tokens=None,
                    output_tokens=call.output_tokens,
                    tool=None if before is None else "user" if person else tool_names(before.tools),
                    role=self.role,
                )
            )
            before = call
        return with_growth(turns)


class _Log:
    def __init__(self):
        self.chains = {}
        # The first line of the side chain that a line belongs to, where the chain has no name.
        self.roots = {}

    def add(self, row):
        kind = take(row, "type", kind=text)
        agent = None
        entry = row
        name = ""
        if kind == "progress" and isinstance(row.get("data"), dict) and row["data"].get("type") == "agent_progress":
            name = "data.message"
            entry = take(row, "data", "message", kind=fields, default={})
            kind = take(entry, "type", kind=text, default="", name=name)
            agent = take(row, "data", "agentId", kind=text)
        if kind not in ("user", "assistant") or "message" not in entry:
            return
        line = take(entry, "uuid", kind=text, default=None, name=name)
        if agent is None and row.get("isSidechain"):
            agent = row.get("agentId")
            if agent is None:
                agent = self.roots.get(row.get("parentUuid"), line)
                self.roots[line] = agent
        key = (row.get("sessionId"), agent)
        chain = self.chains.setdefault(key, _Chain("main" if agent is None else "subagent"))
        if line is not None and line in chain.seen:
            return
        chain.seen.add(line)
        chain.add(
            kind,
            take(entry, "message", kind=fields, name=name),
            take(entry, "timestamp", kind=iso_us, name=name),
            automatic=bool(entry.get("isMeta") or entry.get("isCompactSummary")),
        )


def read(paths):
    """Yields the turns of each chain of each session; a session may be spread over several ``paths``."""
    log = _Log()
    for path in paths:
        for line, row in json_lines(path, ConvertError):
            with at(path, line):
                log.add(row)
    for chain in log.chains.values():
        if chain.calls:
            yield chain.turns()
