"""Runs of mini-swe-agent: ``*.traj.json``.

Source of the format: github.com/SWE-agent/mini-swe-agent, docs/v2_migration.md and
src/minisweagent/models/litellm_model.py (trajectory formats mini-swe-agent-1 and -1.1).

A message of the assistant is stamped when its answer has arrived (``extra.timestamp``, formerly ``timestamp``), an
observation when the command has finished, which is when the next call is sent. Where the first messages carry no time,
the first call is taken to last as a trace assumes: 50 us a prompt token, 20 ms an output token. A run that lost calls
(more ``api_calls`` than answers) is dropped, since a lost call would look like a slow tool. The one tool is ``bash``.
"""

from unison.model.convert.common import (
    ConvertError,
    Dropped,
    at,
    count,
    estimated_service,
    fields,
    items,
    prompt_tokens,
    seconds,
    take,
    text,
    tool_names,
    with_growth,
)
from unison.model.files import json_object
from unison.model.trace import Turn

__all__ = ["read", "recognises"]


def recognises(head):
    """Whether ``head``, the first JSON value of a file, is such a run."""
    if not isinstance(head, dict) or not isinstance(head.get("messages"), list):
        return False
    info = head.get("info")
    version = isinstance(info, dict) and "mini_version" in info
    return version or str(head.get("trajectory_format", "")).startswith("mini-swe-agent")


def _moment(message, name):
    stamped = take(message, "extra", "timestamp", kind=seconds, default=None, name=name)
    return take(message, "timestamp", kind=seconds, default=stamped, name=name)


def _usage(usage, name):
    """(input, cache read, cache creation) and output tokens in the names of either of OpenAI's interfaces."""
    sent, made = ("prompt_tokens", "completion_tokens")
    if sent not in usage:
        sent, made = ("input_tokens", "output_tokens")
    return (
        take(usage, sent, kind=count, name=name),
        take(usage, "cache_read_input_tokens", kind=count, default=0, name=name),
        take(usage, "cache_creation_input_tokens", kind=count, default=0, name=name),
    ), take(usage, made, kind=count, name=name)


def _session(run):
    calls = []
    newest = None
    for index, message in enumerate(take(run, "messages", kind=items)):
        name = f"messages[{index}]"
        moment = _moment(message, name)
        if take(message, "role", kind=text, default="", name=name) != "assistant":
            newest = moment if newest is None else newest if moment is None else max(newest, moment)
            continue
        usage = take(message, "extra", "response", "usage", kind=fields, default=None, name=name)
        if usage is None or moment is None:
            return Dropped(f"an answer without {'token counts' if usage is None else 'a time'}")
        actions = take(message, "extra", "actions", kind=items, default=[], name=name)
        calls.append((newest, moment, *_usage(usage, f"{name}.extra.response.usage"), ["bash"] if actions else []))
        newest = None
    if take(run, "info", "model_stats", "api_calls", kind=count, default=len(calls)) > len(calls):
        return Dropped("more model calls than answers")
    prompts = prompt_tokens([usage for _, _, usage, _, _ in calls])
    before = None
    turns = []
    for (arrival, moment, _, output, tools), prompt in zip(calls, prompts, strict=True):
        if arrival is None:
            arrival = moment - estimated_service(prompt, output) if before is None else before[0]
        turns.append(
            Turn(
                arrival_us=arrival,
                completion_us=moment,
                prompt_tokens=prompt,
                new_prompt_tokens=None,
                output_tokens=output,
                tool=before and tool_names(before[1]),
                role="main",
            )
        )
        before = (moment, tools)
    return with_growth(turns)


def read(paths):
    """Yields the turns of the session in each of ``paths``, or why it is dropped."""
    for path in paths:
        run = json_object(path, ConvertError)
        with at(path, 1):
            session = _session(run)
        yield session
