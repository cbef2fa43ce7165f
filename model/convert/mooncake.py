"""Requests of Mooncake's traces: JSON lines.

Source of the format: github.com/kvcache-ai/Mooncake, FAST25-release/README.md and the appendix of the FAST'25 paper.

A line has ``timestamp`` in milliseconds, ``input_length``, ``output_length`` and ``hash_ids`` of 512-token blocks, each
of which names a whole prefix. Sessions are inferred from the prefixes. Neither completions nor tools are recorded.
"""

from unison.model.convert.common import ConvertError, at, count, items, take
from unison.model.convert.prefix import Request, link, turns
from unison.model.files import json_lines

__all__ = ["read", "recognises"]

_BLOCK = 512


def recognises(head):
    """Whether ``head``, the first JSON value of a file, is such a request."""
    wanted = {"timestamp", "input_length", "output_length", "hash_ids"}
    return isinstance(head, dict) and wanted <= set(head) and "chat_id" not in head


def _request(row):
    ids = take(row, "hash_ids", kind=items)
    return Request(
        arrival_us=1_000 * take(row, "timestamp", kind=count),
        completion_us=None,
        prompt_tokens=take(row, "input_length", kind=count),
        output_tokens=take(row, "output_length", kind=count),
        ids=tuple(count(f"hash_ids[{index}]", each) for index, each in enumerate(ids)),
    )


def read(paths):
    """Yields the turns of each session found among the requests of all ``paths``."""
    requests = []
    for path in paths:
        for line, row in json_lines(path, ConvertError):
            with at(path, line):
                requests.append(_request(row))
    for session in link(requests, _BLOCK):
        yield turns(session, _BLOCK)
