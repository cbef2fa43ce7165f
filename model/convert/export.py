"""Traces for simulators of caches: libCacheSim's oracleGeneral, and CSV.

Source of the format: github.com/1a1a11a/libCacheSim, FAQ.md and
libCacheSim/traceReader/customizedReader/oracle/oracleGeneralBin.h; that the next access is counted from 1 was seen in
what libCacheSim's own converter writes.
"""

import struct
from pathlib import Path

from unison.model.files import whole_file, write_lines

__all__ = ["EXPORTS", "accesses"]

#: Seconds, object, size, number of the object's next request: packed, little endian.
_RECORD = struct.Struct("<IQIq")
_COLUMNS = ("time_s", "session", "tokens", "next_access_vtime")


def accesses(trace):
    """One access a turn, in order of arrival: (arrival in seconds floored, session, tokens, next access).

    Tokens are what the session holds when the call is answered: prompt and answer. The next access is the number of the
    session's next turn in this order, counted from 1, or -1. Turns that arrive at once are ordered by session.
    """
    turns = sorted(
        (turn.arrival_us, session.number, index, turn)
        for session in trace.sessions
        for index, turn in enumerate(session.turns)
    )
    following = {}
    rows = []
    for place in range(len(turns), 0, -1):
        arrival, session, _, turn = turns[place - 1]
        tokens = turn.prompt_tokens + turn.output_tokens
        rows.append((arrival // 1_000_000, session, tokens, following.get(session, -1)))
        following[session] = place
    return rows[::-1]


def _oracle_general(path, trace):
    path = Path(path)
    if path.suffix == ".gz":
        raise ValueError(f"libCacheSim reads no gzip: choose another name than {str(path)!r}")
    rows = accesses(trace)
    if rows[-1][0] > 0xFFFF_FFFF:
        raise ValueError(f"the last arrival, {rows[-1][0]} s, does not fit the format's 32 bits")
    with whole_file(path) as file:
        file.writelines(_RECORD.pack(*row) for row in rows)


def _csv(path, trace):
    write_lines(path, (",".join(map(str, row)) for row in (_COLUMNS, *accesses(trace))))


#: Writers of a trace, (path, trace), by the name that the command line takes; a file appears whole or not at all.
EXPORTS = {"oracleGeneral": _oracle_general, "csv": _csv}
