"""What the converters share: checked fields, times, token counts, tool names, and how a session is told as dropped."""

import contextlib
import gzip
import json
import math
import re
import zlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from unison.model.files import FileError, check_int, json_lines, json_object

__all__ = [
    "ConvertError",
    "Dropped",
    "at",
    "take",
    "count",
    "seconds",
    "text",
    "items",
    "fields",
    "iso_us",
    "json_values",
    "text_lines",
    "length",
    "prompt_tokens",
    "tool_names",
    "with_growth",
    "estimated_service",
    "CHARACTERS_PER_TOKEN",
]

#: For text whose tokens nobody counted.
CHARACTERS_PER_TOKEN = 4

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEEDED = object()
# A tool's name comes from a model and may hold anything; what a chat API accepts as a function's name may pass.
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ConvertError(FileError):
    """A source file that is malformed; the text begins with ``file:line`` and names the record."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A session, or a request, that is well formed but cannot be converted, and why."""

    reason: str


@contextlib.contextmanager
def at(path, line):
    """Turns a ValueError of its block into a ConvertError at ``path:line``."""
    try:
        yield
    except FileError:
        raise
    except ValueError as cause:
        raise ConvertError(path, line, cause) from None


def count(name, value):
    """A number of tokens or an index: an integer of 63 bits, not negative."""
    check_int(name, value, 0, (1 << 63) - 1)
    return value


def seconds(name, value):
    """A time in seconds as microseconds, rounded."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > 1e12:
        raise ValueError(f"{name} must be a time in seconds, not {value!r:.60}")
    return round(value * 1_000_000)


def _kind(type_, what):
    def check(name, value):
        if not isinstance(value, type_):
            raise ValueError(f"{name} must be {what}, not {value!r:.60}")
        return value

    return check


text = _kind(str, "a string")
items = _kind(list, "a list")
fields = _kind(dict, "an object")


def iso_us(name, value):
    """An ISO 8601 time as microseconds since 1970; a time without a zone counts as UTC."""
    try:
        moment = datetime.fromisoformat(text(name, value))
    except ValueError:
        raise ValueError(f"{name} must be an ISO 8601 time, not {value!r:.60}") from None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def take(value, *keys, kind, default=_NEEDED, name=""):
    """The field at ``keys``, names of nested fields, below a JSON ``value``, checked and converted by ``kind``.

    A field that is missing or null gives ``default``; without one it is an error. ``name`` is what ``value`` itself is
    called in messages.

    Raises
    ------
    ValueError
        With the field's whole name and its bad value.
    """
    for key in keys:
        value = fields(name or "the record", value).get(key)
        name = f"{name}.{key}" if name else key
        if value is None:
            if default is _NEEDED:
                raise ValueError(f"field {name!r} is missing")
            return default
    return kind(name, value)


def json_values(path):
    """Yields (line, value) for a file of JSON lines, or (1, value) for one JSON object over many lines."""
    lines = json_lines(path, ConvertError)
    try:
        first = next(lines, None)
    except ConvertError:
        first = (1, json_object(path, ConvertError))
        lines = ()
    if first is not None:
        yield first
        yield from lines


def text_lines(path):
    """Yields (line number, text) of a file, plain or gzip by content; bytes that are not UTF-8 are replaced."""
    with open(path, "rb") as raw:
        compressed = raw.peek(2).startswith(b"\x1f\x8b")
        number = 0
        try:
            for number, line in enumerate(gzip.GzipFile(fileobj=raw) if compressed else raw, start=1):
                yield number, line.decode(errors="replace")
        except (EOFError, gzip.BadGzipFile, zlib.error) as cause:
            raise ConvertError(path, number + 1, f"broken gzip data: {cause}") from None


def prompt_tokens(usages, *, exclusive=False):
    """Whole prompts of a session from ``usages``: (input, cache read, cache creation) of each call.

    Some interfaces leave what the cache served out of the input, some count it in. It was left out if the source is
    known to do so (``exclusive``), or if any call has more cached tokens than input.
    """
    exclusive = exclusive or any(read + creation > sent for sent, read, creation in usages)
    return [sent + (read + creation if exclusive else 0) for sent, read, creation in usages]


def tool_names(names):
    """What a wait was for, from the names of the tools called: sorted, joined by ``+``; ``"none"`` if there are none.

    A name that no chat interface would accept for a function is told as ``"tool"``, lest it carry text.
    """
    kept = {name if isinstance(name, str) and _TOOL_NAME.fullmatch(name) else "tool" for name in names}
    return "+".join(sorted(kept)) or "none"


def with_growth(turns):
    """The ``turns`` of a session with their new tokens, from the counts alone.

    New is what exceeds the last prompt and its answer, or the last prompt alone where the answer was not kept whole;
    None where the context shrank. All of the first prompt is new.
    """
    grown = []
    for before, turn in zip((None, *turns), turns, strict=False):
        new = turn.prompt_tokens - (before.prompt_tokens if before else 0)
        if before and new >= before.output_tokens:
            new -= before.output_tokens
        grown.append(replace(turn, new_prompt_tokens=new if new >= 0 else None))
    return grown


def estimated_service(prompt, output):
    """Service time in microseconds that a trace assumes where none was recorded: 50 us and 20 ms a token."""
    return 50 * prompt + 20_000 * output


def length(value):
    """Number of characters of a message's content: a string, or parts with their texts and calls."""
    if isinstance(value, str):
        return len(value)
    return 0 if value is None else len(json.dumps(value, ensure_ascii=False))
