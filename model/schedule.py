"""The moments of a load as arrays: what happens when, whatever a policy answers; computed once and kept on disk."""

import hashlib
import json
import math
from collections import Counter
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from unison.formats import TOKENS_MAX
from unison.model.files import whole_file
from unison.model.load import ENVELOPES, Footprints, Load, footprints, timeline

__all__ = ["MOMENT", "NEVER", "UNKNOWN", "Schedule", "make_schedule", "cached_schedule", "synthetic_schedule"]

#: A time after everything, microseconds; exact in a float64.
NEVER = 1 << 52
#: A tool or a role that the trace does not tell.
UNKNOWN = -1
#: The class of a wait for a person.
USER = "user"
_VERSION = 1

#: One moment. ``gap_us`` and ``next_us`` of an answer lie in the future.
#:
#: time_us, session, turn, arrives (0 or 1), last (1: the session's last turn): as in ``load.Moment``.
#: tokens: what the host reserves, the prompt at an arrival, prompt and answer at an answer; at most 20 bits.
#: new_tokens: tokens of the prompt that no earlier turn left behind; the whole prompt where that is unknown.
#: gap_us: the gap that ended at an arrival, or follows an answer; -1 where there is none.
#: next_us: the session's next arrival after this moment, NEVER where there is none.
#: tool: class of the wait that follows an answer, or ended at an arrival; UNKNOWN where the trace has none.
#: role: class of the agent's role in this turn.
MOMENT = np.dtype(
    [
        (name, np.int64)
        for name in (
            "time_us",
            "session",
            "turn",
            "arrives",
            "last",
            "tokens",
            "new_tokens",
            "gap_us",
            "next_us",
            "tool",
            "role",
        )
    ]
)


@dataclass(frozen=True, eq=False)
class Schedule:
    """A load of a trace as arrays.

    Attributes
    ----------
    name : str
        The trace.
    load : Load
    moments : numpy.ndarray of MOMENT
        In the order of ``load.timeline``.
    lengths : numpy.ndarray of int64
        Turns of each session.
    tools, roles : tuple of str
        Names of the classes; empty where the trace has none.
    footprints : Footprints
    mean_gap_us : int
        Mean of all gaps, floored; the default prior of a gap average.
    new_tokens_known : float
        Share of the turns whose new tokens the trace tells.
    """

    name: str
    load: Load
    moments: np.ndarray
    lengths: np.ndarray
    tools: tuple
    roles: tuple
    footprints: Footprints
    mean_gap_us: int
    new_tokens_known: float

    @property
    def sessions(self):
        """Number of sessions."""
        return len(self.lengths)

    @property
    def hints(self):
        """Names of the hints that a policy can have here: of ``completion``, ``tool``, ``role``."""
        told = {"completion": self.load.completion == "explicit", "tool": self.tools, "role": self.roles}
        return frozenset(name for name, has in told.items() if has)

    def capacities(self, capacity):
        """SRAM and HBM tokens of an envelope's name, of ``(f, share of SRAM)`` or of ``"SRAM:HBM"`` in tokens.

        Raises
        ------
        ValueError
            For anything else.
        """
        if isinstance(capacity, str) and ":" in capacity:
            sram, _, hbm = capacity.partition(":")
            if sram.isdecimal() and hbm.isdecimal():
                return int(sram), int(hbm)
        if isinstance(capacity, str):
            if capacity not in ENVELOPES:
                known = ", ".join(ENVELOPES)
                raise ValueError(f"capacity must be SRAM:HBM in tokens or one of {known}, not {capacity!r}")
            capacity = ENVELOPES[capacity]
        share_of_paused, share_of_sram = capacity
        total = math.floor(self.footprints.busy + share_of_paused * self.footprints.paused)
        sram = math.floor(share_of_sram * total)
        return sram, total - sram

    def hazard_law(self, turns):
        """h(t) of equation (5) over all sessions for t = 0 ... turns - 1, Fractions, as ``hazard.hazard_law``."""
        ended = np.bincount(self.lengths, minlength=turns)
        reached = ended[::-1].cumsum()[::-1]
        return [Fraction(int(d), int(n)) if n else Fraction(0) for d, n in zip(ended[:turns], reached, strict=False)]


def _classes(names):
    """The distinct names in order of appearance, None left out, and the code of each."""
    order = tuple(dict.fromkeys(name for name in names if name is not None))
    return order, {None: UNKNOWN, **{name: code for code, name in enumerate(order)}}


def _last_tool(session, tools, common):
    """What the host may think of the wait after a session's last answer when it does not hear of the completion.

    A class of its own would tell the completion. So it is a person's wait where the trace has these, else the
    session's latest wait, else the trace's most frequent class.
    """
    if USER in tools:
        return USER
    waits = [turn.tool for turn in session.turns if turn.tool is not None]
    return waits[-1] if waits else common


def make_schedule(trace, load):
    """The Schedule of a trace under a load."""
    turns = trace.turns
    tools, tool_code = _classes(turn.tool for turn in turns)
    roles, role_code = _classes(turn.role for turn in turns)
    waits = Counter(turn.tool for turn in turns if turn.tool is not None).most_common(1)
    common = waits[0][0] if waits else None
    gaps = [(*session.gaps(), -1) for session in trace.sessions]
    rows = []
    for time, arrives, session, index in timeline(trace, load):
        of = trace.sessions[session]
        turn = of.turns[index]
        last = index + 1 == len(of.turns)
        prompt = min(turn.prompt_tokens, TOKENS_MAX)
        new = turn.prompt_tokens if turn.new_prompt_tokens is None else turn.new_prompt_tokens
        if arrives:
            tokens, gap, tool = prompt, gaps[session][index - 1] if index else -1, turn.tool
        else:
            tokens = min(turn.prompt_tokens + turn.output_tokens, TOKENS_MAX)
            gap = gaps[session][index]
            tool = _last_tool(of, tools, common) if last else of.turns[index + 1].tool
        classes = tool_code[tool], role_code[turn.role]
        rows.append((time, session, index, arrives, last, tokens, min(new, prompt), gap, NEVER, *classes))
    moments = np.array(rows, dtype=MOMENT)
    _look_ahead(moments)
    return Schedule(
        name=trace.name,
        load=load,
        moments=moments,
        lengths=np.array([len(session.turns) for session in trace.sessions]),
        tools=tools,
        roles=roles,
        footprints=footprints(trace, load),
        mean_gap_us=trace.mean_gap_us,
        new_tokens_known=sum(turn.new_prompt_tokens is not None for turn in turns) / len(turns),
    )


def _look_ahead(moments):
    """Fills in ``next_us``."""
    order = np.lexsort((np.arange(len(moments)), moments["session"]))
    ordered = moments[order]
    following = np.full(len(moments), NEVER)
    same = ordered["session"][1:] == ordered["session"][:-1]
    # A session's moments alternate: after an answer comes an arrival, and two after an arrival comes the next one.
    answers = np.flatnonzero(same & (ordered["arrives"][:-1] == 0))
    following[answers] = ordered["time_us"][answers + 1]
    arrivals = np.flatnonzero((ordered["arrives"] == 1) & (ordered["last"] == 0))
    following[arrivals] = ordered["time_us"][arrivals + 2]
    moments["next_us"][order] = following


def _key(trace, load):
    """A name that changes with all that a schedule depends on."""
    digest = hashlib.sha256(json.dumps([_VERSION, trace.name, asdict(load)], default=str).encode())
    for session in trace.sessions:
        digest.update(repr(session).encode())
    return digest.hexdigest()[:24]


def cached_schedule(trace, load, folder):
    """``make_schedule``, kept in a file of ``folder`` named by the content of trace and load."""
    path = Path(folder) / f"{trace.name}-{_key(trace, load)}.npz"
    if path.exists():
        with np.load(path) as stored:
            facts = json.loads(str(stored["facts"]))
            return Schedule(
                name=trace.name,
                load=load,
                moments=stored["moments"],
                lengths=stored["lengths"],
                tools=tuple(facts["tools"]),
                roles=tuple(facts["roles"]),
                footprints=Footprints(*map(Fraction, facts["footprints"])),
                mean_gap_us=facts["mean_gap_us"],
                new_tokens_known=facts["new_tokens_known"],
            )
    schedule = make_schedule(trace, load)
    facts = {
        "tools": schedule.tools,
        "roles": schedule.roles,
        "footprints": [str(tokens) for tokens in schedule.footprints],
        "mean_gap_us": schedule.mean_gap_us,
        "new_tokens_known": schedule.new_tokens_known,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        np.savez(file, moments=schedule.moments, lengths=schedule.lengths, facts=json.dumps(facts))
    return schedule


def synthetic_schedule(live, turns, *, seed=0, completion="explicit"):
    """A load made of random numbers, to measure speed: ``live`` sessions at any time, about ``turns`` turns in all.

    Sessions of 20 turns follow one another in ``live`` lanes until the first lane is through; gaps are lognormal around
    2 s, of which a part is each session's own, services around 1 s; contexts grow from about 2,000 by about 500 tokens
    a turn.
    """
    length = 20
    sessions = -(-turns // (live * length)) + 1
    shape = (live, sessions, length)
    rng = np.random.default_rng(seed)
    own = rng.normal(0.0, 0.7, (live, sessions, 1))
    gap = (2e6 * np.exp(own + rng.normal(0.0, 0.5, shape))).astype(np.int64)
    service = (1e6 * np.exp(rng.normal(0.0, 0.5, shape))).astype(np.int64)
    gap[:, :, 0] = 0
    new = rng.integers(100, 900, shape)
    new[:, :, 0] = rng.integers(1000, 3000, (live, sessions))
    prompt = new.cumsum(axis=2)
    answered = (gap + service).reshape(live, -1).cumsum(axis=1).reshape(shape)
    after = np.full(shape, -1)
    after[:, :, :-1] = gap[:, :, 1:]

    moments = np.zeros((2, *shape), dtype=MOMENT)
    moments["time_us"] = answered - service, answered
    moments["session"] = np.arange(live * sessions).reshape(live, sessions, 1)
    moments["turn"] = np.arange(length)
    moments["arrives"][0] = 1
    moments["last"][..., -1] = 1
    moments["tokens"] = prompt, prompt + 50
    moments["new_tokens"] = new
    moments["gap_us"] = np.where(np.arange(length), gap, -1), after
    moments["tool"] = moments["session"] % 4
    moments["role"] = UNKNOWN
    moments = moments.ravel()
    # Within a session the order is that of its turns, whatever falls on one instant.
    moments = moments[np.lexsort((1 - moments["arrives"], moments["turn"], moments["session"], moments["time_us"]))]
    _look_ahead(moments)
    end = int(answered[:, -1, -1].min())
    lived = answered <= end
    return Schedule(
        name=f"synthetic-{live}",
        load=Load(concurrency=live, completion=completion, seed=seed),
        moments=moments[moments["time_us"] <= end],
        lengths=np.full(live * sessions, length),
        tools=tuple(f"tool{code}" for code in range(4)),
        roles=(),
        footprints=Footprints(
            Fraction(int((service * prompt)[lived].sum()), end),
            Fraction(int((after.clip(min=0) * (prompt + 50))[lived].sum()), end),
        ),
        mean_gap_us=int(gap[:, :, 1:].mean()),
        new_tokens_known=1.0,
    )
