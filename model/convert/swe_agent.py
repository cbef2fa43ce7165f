"""Runs of SWE-agent 1.1 and later: ``*.traj``.

Source of the format: github.com/SWE-agent/SWE-agent, docs/usage/trajectories.md and sweagent/types.py.

A step holds the whole ``query`` that was sent, the answer and how long its action ran (``execution_time``). Nothing
says when a call was made, so completions are null and call k + 1 is placed ``execution_time`` after the end that a
trace assumes for call k: gaps are recorded, service times are not. Tokens are counted for the whole run only
(``info.model_stats``); they are spread over the calls by characters, four to a token where the run has no counts.
"""

from unison.model.convert.common import (
    CHARACTERS_PER_TOKEN,
    ConvertError,
    Dropped,
    at,
    count,
    estimated_service,
    fields,
    items,
    length,
    seconds,
    take,
    text,
    tool_names,
)
from unison.model.files import json_object
from unison.model.trace import Turn

__all__ = ["read", "recognises"]


def recognises(head):
    """Whether ``head``, the first JSON value of a file, is such a run."""
    return isinstance(head, dict) and isinstance(head.get("trajectory"), list) and "info" in head


def _content(message, name):
    """Role and length of a message, and what tells it from another."""
    role = take(message, "role", kind=text, name=name)
    body = message.get("content")
    if isinstance(body, list):
        # Marks for the provider's cache are set on a part and taken off again.
        body = "".join(part.get("text") or "" for part in body if isinstance(part, dict))
    calls = message.get("tool_calls")
    return role, length(body) + length(calls), (role, body, str(calls))


def _tools(message, name):
    calls = take(message, "tool_calls", kind=items, default=[], name=name)
    return [
        take(call, "function", "name", kind=text, name=f"{name}.tool_calls[{place}]")
        for place, call in enumerate(calls)
    ]


class _Step:
    """Characters of a call, and what followed it."""

    def __init__(self, step, name, before):
        query = take(step, "query", kind=items, name=name)
        messages = [_content(message, f"{name}.query[{index}]") for index, message in enumerate(query)]
        self.keys = [key for _, _, key in messages]
        self.prompt = sum(size for _, size, _ in messages)
        self.output = len(take(step, "response", kind=text, default="", name=name))
        self.gap = take(step, "execution_time", kind=seconds, name=name)
        if self.gap < 0:
            raise ValueError(f"{name}.execution_time must not be negative, not {step['execution_time']!r}")
        self.tools = ["tool"] if take(step, "action", kind=text, default="", name=name) else []
        self.new = self.prompt
        if before is not None:
            kept = 0
            while kept < min(len(self.keys), len(before.keys)) and self.keys[kept] == before.keys[kept]:
                kept += 1
            self.new = sum(size for _, size, _ in messages[kept:])
            if kept == len(before.keys) < len(messages) and messages[kept][0] == "assistant":
                before.output = max(before.output, messages[kept][1])
                before.tools = _tools(query[kept], f"{name}.query[{kept}]") or before.tools
                self.new -= messages[kept][1]


def _rate(run, what, steps, characters):
    """Tokens per character, from the run's total over all its calls."""
    tokens = take(run, "info", "model_stats", what, kind=count, default=0)
    calls = take(run, "info", "model_stats", "api_calls", kind=count, default=0)
    if tokens and calls and characters:
        return tokens * steps / (calls * characters)
    return 1 / CHARACTERS_PER_TOKEN


def _session(run):
    rows = take(run, "trajectory", kind=items)
    for index, row in enumerate(rows):
        query = take(row, "query", kind=items, default=[], name=f"trajectory[{index}]")
        if not any(query):
            return Dropped("a step without its query (written before SWE-agent 1.1.0)")
        if row.get("execution_time") is None:
            return Dropped("a step without its execution time")
    steps = []
    for index, row in enumerate(rows):
        steps.append(_Step(row, f"trajectory[{index}]", steps[-1] if steps else None))
    sent = _rate(run, "tokens_sent", len(steps), sum(step.prompt for step in steps))
    made = _rate(run, "tokens_received", len(steps), sum(step.output for step in steps))
    arrival = 0
    turns = []
    for before, step in zip((None, *steps), steps, strict=False):
        prompt = max(1, round(sent * step.prompt))
        output = round(made * step.output)
        turns.append(
            Turn(
                arrival_us=arrival,
                completion_us=None,
                prompt_tokens=prompt,
                new_prompt_tokens=min(prompt, round(sent * step.new)) if before else prompt,
                output_tokens=output,
                tool=tool_names(before.tools) if before else None,
                role="main",
            )
        )
        arrival += estimated_service(prompt, output) + step.gap
    return turns


def read(paths):
    """Yields the turns of the session in each of ``paths``, or why it is dropped."""
    for path in paths:
        run = json_object(path, ConvertError)
        with at(path, 1):
            take(run, "info", kind=fields)
            session = _session(run)
        yield session
