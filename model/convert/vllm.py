"""Request logs of vLLM: the text that ``vllm serve`` writes with ``--enable-log-requests --enable-log-outputs``.

Source of the format: github.com/vllm-project/vllm, vllm/entrypoints/logger.py and vllm/logger.py. Read are the lines
``Received request ID: ...``, ``Request ID details: ...`` (level DEBUG, since prompts are no longer told at INFO) and
``Generated response ID: ...``, streamed or not; from them times, which are whole seconds without a year, and lists of
token identifiers. ``--max-log-len`` must not be set: it cuts the lists. Sessions are inferred from the prompts' tokens
by prefixes of 16-token blocks. Tools are not recorded.
"""

import re
from datetime import UTC, datetime, timedelta

from unison.model.convert.common import Dropped, at, text_lines
from unison.model.convert.prefix import Request, link, turns

__all__ = ["read", "recognises"]

_BLOCK = 16
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LINE = re.compile(
    r"\b(?:DEBUG|INFO) (?:(?P<year>\d{4})-)?(?P<month>\d\d)-(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)"
    r"(?:[.,](?P<part>\d{1,6}))? \[[^\]]*\] (?P<text>.*)"
)
_ASKED = re.compile(r"(?:Received request|Request) (?P<id>\S+?)(?: details)?: ")
_ANSWERED = re.compile(r"Generated response (?P<id>\S+?)(?: \(streaming (?P<part>delta|complete)\))?: ")
# The last list of the line: what is before it may quote a prompt.
_SENT = re.compile(r".*\bprompt_token_ids: (?P<ids>\[[^\]]*\]?|None)")
_MADE = re.compile(r".*\boutput_token_ids: (?P<ids>\[[^\]]*\]?|\([^)]*\)?|None)")


def recognises(head):
    """Whether ``head``, the text at the beginning of a file that is no JSON, is such a log."""
    if not isinstance(head, str):
        return False
    lines = (_LINE.search(_COLOUR.sub("", line)) for line in head.splitlines())
    return any(line and (_ASKED.match(line["text"]) or _ANSWERED.match(line["text"])) for line in lines)


class _Clock:
    """Times of a log's lines in microseconds; a month before the last one is one of the next year."""

    def __init__(self):
        # Without a year the first may have a 29th of February.
        self.year = 2000
        self.month = 1

    def read(self, line):
        year, month = line["year"], int(line["month"])
        if year is not None:
            self.year = int(year)
        elif month < self.month:
            self.year += 1
        self.month = month
        stamp = f"{self.year:04}-{line['month']}-{line['day']} {line['clock']}"
        try:
            moment = datetime.fromisoformat(stamp).replace(tzinfo=UTC)
        except ValueError:
            raise ValueError(f"no such time: {stamp!r}") from None
        part = timedelta(microseconds=int((line["part"] or "0").ljust(6, "0")))
        return (moment - datetime(1970, 1, 1, tzinfo=UTC) + part) // timedelta(microseconds=1)


class _Entry:
    """What the lines of one request tell."""

    def __init__(self, arrival_us):
        self.arrival_us = arrival_us
        self.completion_us = None
        self.prompt_tokens = None
        self.output_tokens = None
        self.ids = ()

    @property
    def missing(self):
        if self.prompt_tokens is None:
            return "a request without its prompt's tokens in the log"
        if self.completion_us is None:
            return "a request without an answer in the log"
        if self.output_tokens is None:
            return "a request without its answer's tokens in the log"
        return None


def _tokens(found, what):
    """The list of tokens of a matched line, or None where none was told."""
    if found is None or found["ids"] == "None":
        return None
    body = found["ids"]
    if body[-1] not in "])":
        raise ValueError(f"{what} does not end: {body[:60]!r}")
    try:
        return [int(each) for each in body[1:-1].split(",") if each.strip()]
    except ValueError:
        raise ValueError(f"{what} must be a list of integers, not {body[:60]!r}") from None


def _prefixes(tokens):
    """One number for each whole prefix of full blocks."""
    ids = []
    for start in range(0, len(tokens) - _BLOCK + 1, _BLOCK):
        ids.append(hash((ids[-1] if ids else None, tuple(tokens[start : start + _BLOCK]))))
    return tuple(ids)


def _add(requests, line, moment):
    if asked := _ASKED.match(line):
        entry = requests.setdefault(asked["id"], _Entry(moment))
        tokens = _tokens(_SENT.match(line), "prompt_token_ids")
        if tokens is not None:
            entry.prompt_tokens = len(tokens)
            entry.ids = _prefixes(tokens)
    elif answered := _ANSWERED.match(line):
        entry = requests.get(answered["id"])
        if entry is None:
            return
        tokens = _tokens(_MADE.match(line), "output_token_ids")
        if tokens is not None:
            entry.output_tokens = (entry.output_tokens or 0) + len(tokens)
        if answered["part"] != "delta":
            entry.completion_us = moment


def _requests(path):
    clock = _Clock()
    requests = {}
    for number, raw in text_lines(path):
        line = _LINE.search(_COLOUR.sub("", raw))
        if line:
            with at(path, number):
                _add(requests, line["text"], clock.read(line))
    return requests.values()


def read(paths):
    """Yields the turns of each session found among the requests of all ``paths``, and the requests dropped."""
    whole = []
    for path in paths:
        for entry in _requests(path):
            if entry.missing:
                yield Dropped(entry.missing)
                continue
            whole.append(
                Request(entry.arrival_us, entry.completion_us, entry.prompt_tokens, entry.output_tokens, entry.ids)
            )
    for session in link(whole, _BLOCK):
        yield turns(session, _BLOCK)
