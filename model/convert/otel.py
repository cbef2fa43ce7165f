"""OpenTelemetry spans of generative AI: the OTLP JSON of an exporter, one object or one a line.

Source of the format: github.com/open-telemetry/semantic-conventions, docs/gen-ai/gen-ai-spans.md and
gen-ai-agent-spans.md; the JSON is that of github.com/open-telemetry/opentelemetry-proto. Spans of vLLM's own tracing
(``llm_request``, with ``gen_ai.usage.prompt_tokens``) are read too.

A call is a span of operation chat, text_completion or generate_content, or one without an operation that counts
tokens; of such spans inside one another, the outer one counts. A session is a ``gen_ai.conversation.id``, of the span
or of the nearest span around it, else a trace; an agent invoked inside another agent has sessions of its own. The wait
before a call is for the ``execute_tool`` spans since the call before; if there is none, for a person if the trace is
another one. A failed call without counts is left out. Calls that overlap are turns of different sessions.
"""

from collections import defaultdict
from dataclasses import dataclass

from unison.model.convert.common import (
    at,
    count,
    fields,
    items,
    json_values,
    prompt_tokens,
    take,
    text,
    tool_names,
    with_growth,
)
from unison.model.trace import Turn

__all__ = ["read", "recognises"]

_CALLS = ("chat", "text_completion", "generate_content")


def recognises(head):
    """Whether ``head``, the first JSON value of a file, is such an export."""
    return isinstance(head, dict) and "resourceSpans" in head


def _integer(name, value):
    """A 64-bit integer, which JSON of protocol buffers writes as a string."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    return count(name, value)


@dataclass(slots=True)
class _Span:
    trace: str
    identifier: str
    parent: str
    start_us: int
    end_us: int
    failed: bool
    operation: str
    conversation: str
    tool: str
    usage: tuple
    output_tokens: int

    @property
    def is_call(self):
        return self.operation in _CALLS or not self.operation and self.usage is not None


def _attributes(span, name):
    """The attributes that are read, by key; texts of prompts and answers are not looked at."""
    found = {}
    for index, attribute in enumerate(take(span, "attributes", kind=items, default=[], name=name)):
        here = f"{name}.attributes[{index}]"
        key = take(attribute, "key", kind=text, name=here)
        if key.startswith("gen_ai.usage."):
            if "intValue" in take(attribute, "value", kind=fields, name=here):
                found[key] = take(attribute, "value", "intValue", kind=_integer, name=here)
        elif key in ("gen_ai.operation.name", "gen_ai.conversation.id", "gen_ai.tool.name"):
            found[key] = take(attribute, "value", "stringValue", kind=text, name=here)
    return found


def _usage(found):
    def first(*names):
        return next((found[f"gen_ai.usage.{name}"] for name in names if f"gen_ai.usage.{name}" in found), None)

    sent = first("input_tokens", "prompt_tokens")
    if sent is None:
        return None, 0
    cached = (first("cache_read.input_tokens") or 0, first("cache_creation.input_tokens") or 0)
    return (sent, *cached), first("output_tokens", "completion_tokens") or 0


def _span(span, name):
    found = _attributes(span, name)
    usage, output = _usage(found)
    start = take(span, "startTimeUnixNano", kind=_integer, name=name)
    end = take(span, "endTimeUnixNano", kind=_integer, name=name)
    if end < start:
        raise ValueError(f"{name} ends before it begins: {end} < {start}")
    return _Span(
        trace=take(span, "traceId", kind=text, name=name),
        identifier=take(span, "spanId", kind=text, name=name),
        parent=take(span, "parentSpanId", kind=text, default="", name=name),
        start_us=start // 1000,
        end_us=end // 1000,
        failed=take(span, "status", kind=fields, default={}, name=name).get("code") in (2, "STATUS_CODE_ERROR"),
        operation=found.get("gen_ai.operation.name", ""),
        conversation=found.get("gen_ai.conversation.id", ""),
        tool=found.get("gen_ai.tool.name", ""),
        usage=usage,
        output_tokens=output,
    )


def _spans(export):
    for outer, resource in enumerate(take(export, "resourceSpans", kind=items)):
        name = f"resourceSpans[{outer}]"
        for middle, scope in enumerate(take(resource, "scopeSpans", kind=items, default=[], name=name)):
            scope_name = f"{name}.scopeSpans[{middle}]"
            for inner, span in enumerate(take(scope, "spans", kind=items, default=[], name=scope_name)):
                yield _span(span, f"{scope_name}.spans[{inner}]")


def _around(span, spans):
    """The spans around ``span``, from the nearest outwards."""
    seen = {span.identifier}
    while (span := spans.get((span.trace, span.parent))) is not None and span.identifier not in seen:
        seen.add(span.identifier)
        yield span


def _session_key(span, spans):
    conversation = span.conversation
    agents = []
    for outer in _around(span, spans):
        conversation = conversation or outer.conversation
        if outer.operation == "invoke_agent":
            agents.append(outer.identifier)
    return conversation or span.trace, agents[0] if len(agents) > 1 else ""


def _lanes(calls):
    """The ``calls``, in order of time, in parts without overlap; each joins the longest it may continue."""
    lanes = []
    for call, prompt in calls:
        free = [lane for lane in lanes if lane[-1][0].end_us <= call.start_us]
        lane = max(
            free,
            key=lambda lane: lane[-1][1] if lane[-1][1] <= prompt else -lane[-1][1],
            default=None,
        )
        if lane is None:
            lane = []
            lanes.append(lane)
        lane.append((call, prompt))
    return lanes


def _turns(lane, tools, role):
    turns = []
    before = None
    for call, prompt in lane:
        names = [tool.tool for tool in tools if before and before.start_us <= tool.start_us <= call.start_us]
        waited = "user" if before and not names and before.trace != call.trace else tool_names(names)
        turns.append(
            Turn(
                arrival_us=call.start_us,
                completion_us=call.end_us,
                prompt_tokens=prompt,
                new_prompt_tokens=None,
                output_tokens=call.output_tokens,
                tool=waited if before else None,
                role=role,
            )
        )
        before = call
    return with_growth(turns)


def read(paths):
    """Yields the turns of each session; spans of one trace may be spread over several ``paths``."""
    spans = {}
    for path in paths:
        for line, export in json_values(path):
            with at(path, line):
                for span in _spans(export):
                    spans[span.trace, span.identifier] = span
    sessions = defaultdict(lambda: ([], []))
    for span in sorted(spans.values(), key=lambda span: (span.start_us, span.end_us)):
        if span.operation == "execute_tool":
            sessions[_session_key(span, spans)][1].append(span)
            continue
        useless = span.failed and span.usage is None
        if span.is_call and not useless and not any(outer.is_call for outer in _around(span, spans)):
            sessions[_session_key(span, spans)][0].append(span)
    for (_, agent), (calls, tools) in sessions.items():
        prompts = prompt_tokens([call.usage or (0, 0, 0) for call in calls])
        for lane in _lanes(zip(calls, prompts, strict=True)):
            yield _turns(lane, tools, "subagent" if agent else "main")
