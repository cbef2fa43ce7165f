"""Requests of the Qwen-Bailian traces: JSON lines.

Source of the format: github.com/alibaba-edu/qwen-bailian-usagetraces-anon, README.md.

A line has ``chat_id``, ``parent_chat_id`` (-1: none), ``timestamp`` in seconds, ``input_length``, ``output_length`` and
``hash_ids`` of 16-token blocks. A session is a chain of parents; where a chat has several children, the first continues
the session and each other one begins its own. Neither completions nor tools are recorded.
"""

from unison.model.convert.common import ConvertError, at, count, items, seconds, take
from unison.model.convert.prefix import Request, turns
from unison.model.files import check_int, json_lines

__all__ = ["read", "recognises"]

_BLOCK = 16


def recognises(head):
    """Whether ``head``, the first JSON value of a file, is such a request."""
    return isinstance(head, dict) and {"chat_id", "parent_chat_id", "hash_ids"} <= set(head)


def _parent(name, value):
    check_int(name, value, -1, (1 << 63) - 1)
    return value


def _request(row):
    ids = take(row, "hash_ids", kind=items)
    return Request(
        arrival_us=take(row, "timestamp", kind=seconds),
        completion_us=None,
        prompt_tokens=take(row, "input_length", kind=count),
        output_tokens=take(row, "output_length", kind=count),
        ids=tuple(count(f"hash_ids[{index}]", each) for index, each in enumerate(ids)),
    )


def _sessions(path):
    chats = {}
    for line, row in json_lines(path, ConvertError):
        with at(path, line):
            chat = take(row, "chat_id", kind=count)
            if chat in chats:
                raise ValueError(f"chat_id {chat} is given twice")
            chats[chat] = (take(row, "parent_chat_id", kind=_parent), _request(row))
    sessions = []
    # The session whose last turn is a chat.
    ending = {}
    for chat, (parent, request) in sorted(chats.items(), key=lambda item: item[1][1].arrival_us):
        session = ending.pop(parent, None)
        if session is None:
            session = []
            sessions.append(session)
        session.append(request)
        ending[chat] = session
    return sessions


def read(paths):
    """Yields the turns of each session; chats of different files are different."""
    for path in paths:
        for session in _sessions(path):
            yield turns(session, _BLOCK)
