"""Runs of trae-agent: ``trajectory.json``.

Source of the format: github.com/bytedance/trae-agent, trae_agent/utils/trajectory_recorder.py.

Interaction k is stamped when its answer has arrived, step k when its tools have finished, which is when call k + 1 is
sent. Interactions and steps pair one to one, or the run is dropped. Anthropic's input excludes what its cache served.
"""

from unison.model.convert.common import (
    ConvertError,
    Dropped,
    at,
    count,
    fields,
    iso_us,
    items,
    prompt_tokens,
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
    return isinstance(head, dict) and "llm_interactions" in head and "agent_steps" in head


def _usage(interaction, name):
    usage = take(interaction, "response", "usage", kind=fields, name=name)
    name = f"{name}.response.usage"
    return (
        take(usage, "input_tokens", kind=count, name=name),
        take(usage, "cache_read_input_tokens", kind=count, default=0, name=name),
        take(usage, "cache_creation_input_tokens", kind=count, default=0, name=name),
    )


def _session(run):
    interactions = take(run, "llm_interactions", kind=items)
    steps = take(run, "agent_steps", kind=items)
    if len(interactions) != len(steps):
        return Dropped("model calls and agent steps do not pair one to one")
    names = [f"llm_interactions[{index}]" for index in range(len(interactions))]
    providers = [
        take(each, "provider", kind=text, default="", name=name) for each, name in zip(interactions, names, strict=True)
    ]
    prompts = prompt_tokens(
        [_usage(each, name) for each, name in zip(interactions, names, strict=True)],
        exclusive="anthropic" in providers,
    )
    arrival = take(run, "start_time", kind=iso_us)
    tool = None
    turns = []
    for index, (each, name, step, prompt) in enumerate(zip(interactions, names, steps, prompts, strict=True)):
        turns.append(
            Turn(
                arrival_us=arrival,
                completion_us=take(each, "timestamp", kind=iso_us, name=name),
                prompt_tokens=prompt,
                new_prompt_tokens=None,
                output_tokens=take(each, "response", "usage", "output_tokens", kind=count, name=name),
                tool=tool,
                role="main",
            )
        )
        step_name = f"agent_steps[{index}]"
        arrival = take(step, "timestamp", kind=iso_us, name=step_name)
        calls = take(step, "tool_calls", kind=items, default=[], name=step_name)
        tool = tool_names(
            take(call, "name", kind=text, name=f"{step_name}.tool_calls[{place}]") for place, call in enumerate(calls)
        )
    return with_growth(turns)


def read(paths):
    """Yields the turns of the session in each of ``paths``, or why it is dropped."""
    for path in paths:
        run = json_object(path, ConvertError)
        with at(path, 1):
            session = _session(run)
        yield session
