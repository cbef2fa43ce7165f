"""The load model: turns a trace into the events that a host would send, fed by the golden model's answers.

Which session runs when does not depend on the answers; which events it sends, and with which slot, does.
"""

import heapq
import math
import random
from collections import deque
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import NamedTuple

from unison.formats import OPERAND_MAX, TOKENS_MAX, AnswerKind, Opcode, Place
from unison.model.engine import Config, Engine, Step
from unison.model.hazard import hazard_table
from unison.model.stream import Event, Stream, make_event

__all__ = [
    "ENVELOPES",
    "Load",
    "default_load",
    "Moment",
    "timeline",
    "Footprints",
    "footprints",
    "capacities",
    "default_config",
    "Played",
    "play",
    "Summary",
    "Recording",
    "record",
]

#: Capacity envelopes: total = A + f * P tokens, of which SRAM has a share, as (f, share).
ENVELOPES = {
    "edge-tight": (Fraction(20, 100), Fraction(25, 100)),
    "edge": (Fraction(35, 100), Fraction(25, 100)),
    "edge-plus": (Fraction(50, 100), Fraction(25, 100)),
    "server": (Fraction(65, 100), Fraction(20, 100)),
    "server-plus": (Fraction(80, 100), Fraction(20, 100)),
    "cxl": (Fraction(95, 100), Fraction(10, 100)),
}
#: Concurrency of the closed loop by the beginning of a trace's name; all others run at 64.
_CONCURRENCY = {"gaia": 20}


@dataclass(frozen=True, kw_only=True)
class Load:
    """How the sessions of a trace are laid out in time and told to the engine.

    Attributes
    ----------
    arrivals : str
        When sessions start. ``"closed"``: ``concurrency`` at once, each followed by the next when it ends.
        ``"poisson"``: at random, ``rate`` a second. ``"recorded"``: as in the trace.
    concurrency : int
        Sessions of the closed loop.
    rate : float
        Session starts a second.
    scale : Fraction
        Service times are multiplied by this and floored; gaps stay as recorded.
    completion : str
        What a session's last turn sends: ``"explicit"`` COMPLETE, ``"silent"`` GAP_START and then nothing, ever.
    delta : str
        Operand of GAP_START. ``"average"``: 0, the engine uses its average. ``"true"``: the gap that follows, which no
        host can know: an oracle bound.
    seed : int
        Order of the sessions (but for recorded starts) and the random starts.
    """

    arrivals: str = "closed"
    concurrency: int = 64
    rate: float = 1.0
    scale: Fraction = Fraction(1, 4)
    completion: str = "explicit"
    delta: str = "average"
    seed: int = 0

    def __post_init__(self):
        for name, known in (
            ("arrivals", ("closed", "poisson", "recorded")),
            ("completion", ("explicit", "silent")),
            ("delta", ("average", "true")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        if isinstance(self.concurrency, bool) or not isinstance(self.concurrency, int) or self.concurrency < 1:
            raise ValueError(f"concurrency must be a positive integer, not {self.concurrency!r}")
        if isinstance(self.rate, bool) or not isinstance(self.rate, int | float) or not 0 < self.rate < math.inf:
            raise ValueError(f"rate must be a positive number of sessions a second, not {self.rate!r}")
        if not isinstance(self.scale, Fraction) or self.scale < 0:
            raise ValueError(f"scale must be a Fraction that is not negative, not {self.scale!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise ValueError(f"seed must be an integer, not {self.seed!r}")


def default_load(trace, *, concurrency=None, rate=None, **changes):
    """The Load of a trace, with what is given changed.

    A given ``rate`` means Poisson starts, a given ``concurrency`` the closed loop. Without either, a trace that
    recorded no completion at all (a chat service's log) starts as recorded; the others run in a closed loop of 64
    sessions, of 20 if the name begins with ``gaia``.
    """
    if rate is not None:
        chosen = {"arrivals": "poisson", "rate": rate}
    elif concurrency is None and all(turn.completion_us is None for turn in trace.turns):
        chosen = {"arrivals": "recorded"}
    else:
        chosen = {"arrivals": "closed"}
    if concurrency is None:
        named = (number for prefix, number in _CONCURRENCY.items() if trace.name.startswith(prefix))
        concurrency = next(named, Load.concurrency)
    return Load(**{"concurrency": concurrency, **chosen, **changes})


class Moment(NamedTuple):
    """A point in the life of session ``session`` (an index into the trace): turn ``turn`` arrives, or is answered."""

    time_us: int
    arrives: bool
    session: int
    turn: int


def timeline(trace, load):
    """Yields the Moments of all sessions in order.

    At one instant arrivals go first, each before the other sessions' events in session order; what a moment causes
    at the same instant (the next session of the closed loop, a turn after a gap of 0) comes after it.
    """
    scaled = [[math.floor(time * load.scale) for time in session.services()] for session in trace.sessions]
    gaps = [session.gaps() for session in trace.sessions]
    rng = random.Random(load.seed)
    order = list(range(len(trace.sessions)))
    if load.arrivals == "recorded":
        origin = min(session.turns[0].arrival_us for session in trace.sessions)
        starts = [(session.turns[0].arrival_us - origin, index) for index, session in enumerate(trace.sessions)]
    else:
        rng.shuffle(order)
        if load.arrivals == "closed":
            starts = [(0, index) for index in order[: load.concurrency]]
        else:
            starts = []
            time = 0.0
            for index in order:
                time += rng.expovariate(load.rate) * 1e6
                starts.append((math.floor(time), index))
    waiting = deque(order[load.concurrency :] if load.arrivals == "closed" else ())

    # 0 sorts an arrival before an answer of the same instant.
    pending = [(time, 0, index, 0) for time, index in starts]
    heapq.heapify(pending)
    while pending:
        time, answered, session, turn = heapq.heappop(pending)
        yield Moment(time, not answered, session, turn)
        if not answered:
            heapq.heappush(pending, (time + scaled[session][turn], 1, session, turn))
        elif turn + 1 < len(scaled[session]):
            heapq.heappush(pending, (time + gaps[session][turn], 0, session, turn + 1))
        elif waiting:
            heapq.heappush(pending, (time, 0, waiting.popleft(), 0))


def _reserved(turn, answered):
    """Tokens of a session: its prompt while the answer is made, prompt and answer after that; at most 20 bits."""
    return min(turn.prompt_tokens + (turn.output_tokens if answered else 0), TOKENS_MAX)


class Footprints(NamedTuple):
    """Mean tokens over time, as Fractions: ``busy`` (A) and ``paused`` (P) sessions."""

    busy: Fraction
    paused: Fraction


def footprints(trace, load):
    """The Footprints of a load if memory and slots were unlimited and every completion explicit.

    Raises
    ------
    ValueError
        If the load takes no time at all, so that there is no mean.
    """
    since = {}
    area = {True: 0, False: 0}
    first = last = None
    for time, arrives, session, turn in timeline(trace, load):
        first = time if first is None else first
        last = time
        if session in since:
            began, tokens = since.pop(session)
            area[not arrives] += (time - began) * tokens
        turns = trace.sessions[session].turns
        if arrives or turn + 1 < len(turns):
            since[session] = time, _reserved(turns[turn], answered=not arrives)
    if first == last:
        raise ValueError(f"trace {trace.name}: all events fall on one instant, so there is no mean footprint")
    return Footprints(Fraction(area[True], last - first), Fraction(area[False], last - first))


def capacities(capacity, trace, load):
    """SRAM and HBM tokens of ``capacity``: the name of an envelope, or ``"SRAM:HBM"`` in tokens.

    Raises
    ------
    ValueError
        For anything else.
    """
    if capacity in ENVELOPES:
        share_of_paused, share_of_sram = ENVELOPES[capacity]
        busy, paused = footprints(trace, load)
        total = math.floor(busy + share_of_paused * paused)
        sram = math.floor(share_of_sram * total)
        return sram, total - sram
    sram, colon, hbm = capacity.partition(":")
    if not (colon and sram.isdecimal() and hbm.isdecimal()):
        raise ValueError(f"capacity must be SRAM:HBM in tokens or one of {', '.join(ENVELOPES)}, not {capacity!r}")
    return int(sram), int(hbm)


def _gap_units(time_us, p):
    return time_us * 1000 // p.gap_unit_ns


def default_config(trace, p, load, *, capacity="edge-tight", **changes):
    """The Config for a load: capacities as ``capacities`` reads them, the trace's mean gap as prior, ``changes``."""
    sram, hbm = capacities(capacity, trace, load)
    prior = min(_gap_units(trace.mean_gap_us, p), p.gap_max)
    return Config(**{"capacity_sram": sram, "capacity_hbm": hbm, "gap_prior": prior, **changes})


class Played(NamedTuple):
    """One event at ``time_us``, and what the golden model made of it."""

    time_us: int
    event: Event
    step: Step


def _transfer_us(step, p, config):
    """Microseconds that the moves of a step take at B tokens a gap unit, rounded up; None if it made none."""
    tokens = sum(
        answer.fields["tokens"] + answer.fields["demoted_tokens"]
        for answer in step.answers
        if answer.kind == AnswerKind.MIGRATE
    )
    if not tokens:
        return None
    if not config.denominator:
        return 0
    return -(-tokens * config.denominator * p.gap_unit_ns // (config.numerator * 1000))


def play(trace, engine, p, config, load):
    """Yields the Played events of a load, each chosen by the answers to those before it.

    ``engine`` is fresh from reset, with ``config`` and hazards set; it is driven here. A session keeps its slot until a
    later ARRIVE_ANY takes it, or until it gets none; it then starts again with ARRIVE_ANY, without GAP_END before. A
    DMA_DONE goes before the sessions' events of its instant.
    """
    slots = {}
    owners = {}
    moves_done = deque()

    def step(time, opcode, slot=0, tokens=0, operand=0):
        event = make_event(opcode, slot, tokens, operand)
        answer = engine.step(*event)
        if answer.answers[-1].kind != AnswerKind.OUTCOME:
            raise AssertionError(f"the engine refused {event}: {answer.answers[-1]}")
        return Played(time, event, answer)

    def gap_operand(gap_us):
        return min(_gap_units(gap_us, p), OPERAND_MAX)

    gaps = [session.gaps() for session in trace.sessions]
    for time, arrives, session, turn in timeline(trace, load):
        while moves_done and moves_done[0] <= time:
            yield step(moves_done.popleft(), Opcode.DMA_DONE)
        slot = slots.get(session)
        turns = trace.sessions[session].turns
        tokens = _reserved(turns[turn], answered=not arrives)
        if arrives and slot is not None:
            yield step(time, Opcode.GAP_END, slot, operand=gap_operand(gaps[session][turn - 1]))
            yield step(time, Opcode.ARRIVE, slot, tokens)
        elif arrives:
            played = step(time, Opcode.ARRIVE_ANY, tokens=tokens)
            outcome = played.step.answers[-1].fields
            if outcome["slot_valid"]:
                slots.pop(owners.get(outcome["slot"]), None)
                slots[session] = outcome["slot"]
                owners[outcome["slot"]] = session
            yield played
        elif slot is not None and turn + 1 == len(turns) and load.completion == "explicit":
            yield step(time, Opcode.COMPLETE, slot)
        elif slot is not None:
            operand = 0
            if load.delta == "true":
                # 0 would mean the average; a session that never returns has all the time there is.
                operand = max(gap_operand(gaps[session][turn]), 1) if turn + 1 < len(turns) else OPERAND_MAX
            played = step(time, Opcode.GAP_START, slot, tokens, operand)
            transfer = _transfer_us(played.step, p, config)
            if transfer is not None:
                # One DMA engine: moves that were not gated by it queue up behind those under way.
                moves_done.append(max(time, moves_done[-1] if moves_done else 0) + transfer)
            yield played
    while moves_done:
        yield step(moves_done.popleft(), Opcode.DMA_DONE)


@dataclass
class Summary:
    """Counts over played events. A *decision* searched the ranking; ``evictions`` and ``migrations`` are answers."""

    events: int = 0
    decisions: int = 0
    answers: int = 0
    arrivals: int = 0
    hits_sram: int = 0
    hits_hbm: int = 0
    evictions: int = 0
    migrations: int = 0
    events_with_eviction: int = 0
    events_with_migration: int = 0
    forgets: int = 0
    bypasses: int = 0

    def add(self, step):
        """Counts one Step of the golden model."""
        kinds = [answer.kind for answer in step.answers]
        self.events += 1
        self.decisions += step.searched
        self.answers += len(kinds)
        evictions = kinds.count(AnswerKind.EVICT)
        migrations = kinds.count(AnswerKind.MIGRATE)
        self.evictions += evictions
        self.migrations += migrations
        self.events_with_eviction += evictions > 0
        self.events_with_migration += migrations > 0
        self.forgets += kinds.count(AnswerKind.FORGET)
        last = step.answers[-1].fields
        if kinds[-1] == AnswerKind.OUTCOME and last["opcode"] in (Opcode.ARRIVE.value, Opcode.ARRIVE_ANY.value):
            self.arrivals += 1
            self.hits_sram += last["found"] == Place.SRAM.value
            self.hits_hbm += last["found"] == Place.HBM.value
            self.bypasses += last["placed"] == Place.NONE.value

    @property
    def hit_rate(self):
        """Share of the arrivals that found their session in a tier, equation (27)."""
        return (self.hits_sram + self.hits_hbm) / self.arrivals if self.arrivals else 0.0

    @property
    def sram_hit_rate(self):
        """Share of the arrivals that found their session in SRAM."""
        return self.hits_sram / self.arrivals if self.arrivals else 0.0


@dataclass(frozen=True)
class Recording:
    """A recorded load: the ``stream``, a ``summary``, the ``engine`` as it ended, the ``steps`` if they were kept."""

    stream: Stream
    summary: Summary
    engine: Engine
    steps: tuple | None


def record(trace, p, *, load=None, capacity="edge-tight", hazards=None, max_events=None, keep_steps=False,
           progress=None, **config_changes):  # fmt: skip
    """Plays a trace against a new golden model and records the events.

    Parameters
    ----------
    trace : Trace
    p : Params
    load : Load, optional
        Default ``default_load(trace)``.
    capacity : str
        As ``capacities`` takes it.
    hazards : sequence of int, optional
        h_Z by turn; default the trace's own table.
    max_events : int, optional
        Stop after so many events.
    keep_steps : bool
        Keep the golden model's Step of every event.
    progress : callable, optional
        Called with no argument after each event.
    config_changes
        Fields of Config to set.

    Raises
    ------
    ValueError
        For a bad capacity, configuration or hazard table, or ``max_events`` below 1.
    """
    if max_events is not None and max_events < 1:
        raise ValueError(f"max_events must be positive, not {max_events!r}")
    load = default_load(trace) if load is None else load
    hazards = hazard_table(trace, p) if hazards is None else tuple(hazards)
    config = default_config(trace, p, load, capacity=capacity, **config_changes)
    engine = Engine(p, config=config, hazards=hazards)
    summary = Summary()
    events = []
    steps = []
    for _, event, step in play(trace, engine, p, config, load):
        events.append(event)
        summary.add(step)
        if keep_steps:
            steps.append(step)
        if progress is not None:
            progress()
        if len(events) == max_events:
            break
    provenance = {
        "trace": trace.name,
        "sessions": len(trace.sessions),
        "turns": len(trace.turns),
        "capacity": capacity,
        **asdict(load),
        "scale": str(load.scale),
        "clamped": sum(turn.prompt_tokens + turn.output_tokens > TOKENS_MAX for turn in trace.turns),
        "max_events": max_events,
    }
    stream = Stream(params=p, config=config, hazards=hazards, provenance=provenance, events=tuple(events))
    return Recording(stream, summary, engine, tuple(steps) if keep_steps else None)
