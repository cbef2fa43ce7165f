"""Session traces: one JSON line a turn (one call of the language model), as a tree of sessions and turns."""

import json
import os
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from unison.formats import TOKENS_MAX
from unison.model.files import FileError, check_int, check_keys, json_lines, write_lines

__all__ = ["Turn", "Session", "Trace", "TraceError", "read_trace", "write_trace", "real_traces"]

#: Times are signed 64-bit microseconds in most tools.
_TIME_MAX = (1 << 63) - 1


class TraceError(FileError):
    """A trace file that is malformed; the text begins with ``file:line``."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One call: times in microseconds, sizes in tokens.

    Attributes
    ----------
    arrival_us : int
        When the request was sent.
    completion_us : int or None
        When its answer had arrived; None where that was not recorded.
    prompt_tokens, output_tokens : int
        Context sent (at least 1) and answer; each fits 20 bits.
    new_prompt_tokens : int or None
        Tokens of the prompt that were neither in the last prompt nor in its answer; None where that is unknown.
    tool : str or None
        What the wait before this turn was for: ``"user"`` a person, ``"none"`` nothing; None in the first turn.
    role : str or None
        The agent's role.
    """

    arrival_us: int
    completion_us: int | None
    prompt_tokens: int
    new_prompt_tokens: int | None
    output_tokens: int
    tool: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """One session: its ``number`` in the file and its ``turns`` in order, at least one."""

    number: int
    turns: tuple

    def services(self):
        """Service time of each turn in microseconds, before any scaling.

        Where no completion was recorded it is 50 us a prompt token and 20 ms an output token, cut at the next arrival.
        """
        times = []
        for turn, following in zip(self.turns, (*self.turns[1:], None), strict=True):
            if turn.completion_us is not None:
                time = turn.completion_us - turn.arrival_us
            else:
                time = 50 * turn.prompt_tokens + 20_000 * turn.output_tokens
                if following is not None:
                    time = min(time, following.arrival_us - turn.arrival_us)
            times.append(time)
        return times

    def gaps(self):
        """Gap after each turn but the last, microseconds: g[k+1] of equation (1)."""
        services = self.services()
        return [
            following.arrival_us - turn.arrival_us - service
            for turn, following, service in zip(self.turns, self.turns[1:], services, strict=False)
        ]


@dataclass(frozen=True)
class Trace:
    """A trace: its ``name`` and its ``sessions``."""

    name: str
    sessions: tuple

    @property
    def turns(self):
        """All turns, session by session."""
        return [turn for session in self.sessions for turn in session.turns]

    @property
    def mean_gap_us(self):
        """Mean of all gaps in microseconds, floored; 0 if no session has a second turn."""
        gaps = [gap for session in self.sessions for gap in session.gaps()]
        return sum(gaps) // len(gaps) if gaps else 0


_TURN_FIELDS = tuple(field.name for field in fields(Turn))
_FIELDS = ("session", "turn", *_TURN_FIELDS)


def _turn(row):
    """The Turn of one decoded line, all but its place among its neighbours checked."""
    check_keys(row, _FIELDS)
    check_int("session", row["session"], 0, _TIME_MAX)
    check_int("turn", row["turn"], 0, _TIME_MAX)
    check_int("arrival_us", row["arrival_us"], 0, _TIME_MAX)
    check_int("prompt_tokens", row["prompt_tokens"], 1, TOKENS_MAX)
    check_int("output_tokens", row["output_tokens"], 0, TOKENS_MAX)
    if row["completion_us"] is not None:
        check_int("completion_us", row["completion_us"], 0, _TIME_MAX)
        if row["completion_us"] < row["arrival_us"]:
            raise ValueError(f"completion_us {row['completion_us']} is before arrival_us {row['arrival_us']}")
    if row["new_prompt_tokens"] is not None:
        check_int("new_prompt_tokens", row["new_prompt_tokens"], 0, row["prompt_tokens"])
    for name in ("tool", "role"):
        if row[name] is not None and not isinstance(row[name], str):
            raise ValueError(f"{name} must be a string or null, not {row[name]!r:.60}")
    return Turn(*(row[name] for name in _TURN_FIELDS))


def _check_order(row, session, turns):
    """Raises ValueError unless the turn ``row`` may follow ``turns`` of ``session`` (None: the file begins)."""
    if session is None or row["session"] > session:
        if row["turn"] != 0:
            raise ValueError(f"session {row['session']} begins with turn {row['turn']}, not 0")
        return
    if row["session"] < session:
        raise ValueError(f"session {row['session']} after session {session}")
    if row["turn"] != len(turns):
        raise ValueError(f"turn {row['turn']} of session {session} where {len(turns)} is due")
    before = turns[-1]
    earliest = before.arrival_us if before.completion_us is None else before.completion_us
    if row["arrival_us"] < earliest:
        what = "arrival" if before.completion_us is None else "completion"
        raise ValueError(f"arrival_us {row['arrival_us']} is before the {what} of the turn before, {earliest}")


def read_trace(path):
    """The Trace in a file of JSON lines, plain or gzip by content; its name is the file's, without extensions.

    Raises
    ------
    TraceError
        For anything malformed, with file and line.
    OSError
        If the file cannot be read.
    """
    sessions = []
    number = None
    turns = []
    line = 0
    for line, row in json_lines(path, TraceError):
        try:
            turn = _turn(row)
            _check_order(row, number, turns)
        except ValueError as cause:
            raise TraceError(path, line, cause) from None
        if row["session"] != number:
            if turns:
                sessions.append(Session(number, tuple(turns)))
            number = row["session"]
            turns = []
        turns.append(turn)
    if not turns:
        raise TraceError(path, line + 1, "no turn in this file")
    sessions.append(Session(number, tuple(turns)))
    return Trace(Path(path).name.removesuffix(".gz").removesuffix(".jsonl"), tuple(sessions))


def real_traces():
    """Paths of the real traces at hand, by name in order: those in the folder ``UNISON_TRACES`` of the environment.

    Without that variable it is a folder ``shared/traces`` beside the repository; empty if there is none.
    """
    beside = Path(__file__).resolve().parents[2] / "shared" / "traces"
    folder = Path(os.environ.get("UNISON_TRACES") or beside)
    return {path.name.split(".")[0]: path for path in sorted(folder.glob("*.jsonl*"))}


def write_trace(path, trace):
    """Writes a trace that ``read_trace`` reads back; compressed if the name ends in ``.gz``, never half written."""
    write_lines(
        path,
        (
            json.dumps(dict(zip(_FIELDS, (session.number, index, *astuple(turn)), strict=True)), separators=(",", ":"))
            for session in trace.sessions
            for index, turn in enumerate(session.turns)
        ),
    )
