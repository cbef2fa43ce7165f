"""Traces from what people have: runs of agents, logs of servers, published traces; one module a format.

What is kept is times, token counts, names of tools and whether an agent is another's: no text of a prompt or answer, no
path, no name of a user or task.
"""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import ModuleType

from unison.formats import TOKENS_MAX
from unison.model.convert import (
    claude_code,
    kv_cache_tester,
    mini_swe_agent,
    mooncake,
    otel,
    qwen_bailian,
    swe_agent,
    trae,
    vllm,
)
from unison.model.convert.common import ConvertError, Dropped, json_values, text_lines
from unison.model.trace import Session, Trace

__all__ = ["FORMATS", "Format", "ConvertError", "convert", "detect"]


@dataclass(frozen=True)
class Format:
    """One format: its ``module``, the ``pattern`` of its files in a folder, and whether sessions share one clock.

    Where they do not, every session of a trace begins at 0.
    """

    module: ModuleType
    pattern: str
    shared_clock: bool


#: By the name that the command line takes.
FORMATS = {
    "trae-agent": Format(trae, "*.json", True),
    "claude-code": Format(claude_code, "*.jsonl", True),
    "kv-cache-tester": Format(kv_cache_tester, "trace_*.json", False),
    "mooncake": Format(mooncake, "*.jsonl", True),
    "qwen-bailian": Format(qwen_bailian, "*.jsonl", True),
    "otel": Format(otel, "*.json*", True),
    "vllm": Format(vllm, "*.log*", True),
    "swe-agent": Format(swe_agent, "*.traj", False),
    "mini-swe-agent": Format(mini_swe_agent, "*.traj.json", True),
}

#: Lines of a text that are looked at to tell what it is.
_HEAD = 1000


def _files(path, pattern):
    if Path(path).is_dir():
        found = sorted(each for each in Path(path).rglob(pattern) if each.is_file())
        if not found:
            raise ValueError(f"no file {pattern} in the folder {str(path)!r}")
        return found
    return [Path(path)]


def detect(path):
    """The name of the format of a file, by its content.

    Raises
    ------
    ValueError
        If it is of no known format, or of several.
    OSError
        If the file cannot be read.
    """
    head = "".join(line for _, line in islice(text_lines(path), _HEAD))
    if head.lstrip().startswith("{"):
        _, head = next(json_values(path))
    names = [name for name, each in FORMATS.items() if each.module.recognises(head)]
    if len(names) != 1:
        what = "several formats: " + ", ".join(names) if names else "none of the formats " + ", ".join(FORMATS)
        raise ValueError(f"{path} looks like {what}")
    return names[0]


def _detect_all(paths):
    (first, name), *others = [(path, detect(path)) for path in paths]
    for path, other in others:
        if other != name:
            raise ValueError(f"{first} is of format {name} but {path} of format {other}: convert them apart")
    return name


def _flaw(turns):
    """Why the ``turns`` are no session of a trace, or None."""
    if not turns:
        return "a session without a call"
    end = turns[0].arrival_us
    for turn in turns:
        if turn.prompt_tokens == 0:
            return "a call without prompt tokens"
        if max(turn.prompt_tokens, turn.output_tokens) > TOKENS_MAX:
            return f"a call of more than {TOKENS_MAX:,} tokens"
        if turn.arrival_us < end:
            return "a call sent before the answer to the last one"
        end = turn.arrival_us if turn.completion_us is None else turn.completion_us
        if end < turn.arrival_us:
            return "a call answered before it was sent"
    return None


def _moved(turns, origin):
    return tuple(
        replace(
            turn,
            arrival_us=turn.arrival_us - origin,
            completion_us=None if turn.completion_us is None else turn.completion_us - origin,
        )
        for turn in turns
    )


def convert(name, sources, trace="converted"):
    """A Trace of the sessions in ``sources``, files or folders of files, and how many were dropped for what reason.

    ``name`` is one of FORMATS, or ``"auto"``: by content. Sessions are numbered in order of their first arrival, or of
    the files where they share no clock; the first one begins at 0.

    Returns
    -------
    (Trace, collections.Counter)
        The trace, called ``trace``, and the number of sessions or requests dropped, by reason.

    Raises
    ------
    ValueError
        If nothing is left; ConvertError for a malformed file, with its line or record.
    OSError
        If a file cannot be read.
    """
    if name == "auto":
        paths = [path for source in sources for path in _files(source, "*")]
        name = _detect_all(paths)
    elif name not in FORMATS:
        raise ValueError(f"format must be auto or one of {', '.join(FORMATS)}, not {name!r}")
    else:
        paths = [path for source in sources for path in _files(source, FORMATS[name].pattern)]
    dropped = Counter()
    sessions = []
    for found in FORMATS[name].module.read(paths):
        flaw = found.reason if isinstance(found, Dropped) else _flaw(found)
        if flaw:
            dropped[flaw] += 1
        else:
            sessions.append(found)
    if not sessions:
        reasons = "; ".join(f"{number} x {reason}" for reason, number in dropped.items()) or "none was found"
        raise ValueError(f"no session left of format {name}: {reasons}")
    if FORMATS[name].shared_clock:
        sessions.sort(key=lambda turns: turns[0].arrival_us)
        origins = [sessions[0][0].arrival_us] * len(sessions)
    else:
        origins = [turns[0].arrival_us for turns in sessions]
    numbered = enumerate(zip(sessions, origins, strict=True))
    return Trace(trace, tuple(Session(number, _moved(turns, origin)) for number, (turns, origin) in numbered)), dropped
