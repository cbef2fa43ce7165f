"""The load model, by hand on small traces and by its invariants on generated ones."""

import random
from fractions import Fraction

import pytest

from unison.formats import AnswerKind, Opcode
from unison.model import load as load_module
from unison.model.engine import Config, Engine
from unison.model.generate import generate, read_family
from unison.model.load import (
    ENVELOPES,
    Footprints,
    Load,
    capacities,
    default_config,
    default_load,
    footprints,
    play,
    record,
    timeline,
)
from unison.model.trace import Session, Trace, Turn, read_trace, real_traces
from unison.params import N16, N64, Params

N4 = Params(sessions=4)
AT_ONCE = Load(arrivals="recorded", scale=Fraction(1))
ROOMY = "100000:100000"


def turns(*rows):
    """Turns from (arrival, completion, prompt, output)."""
    return tuple(Turn(arrival, completion, prompt, prompt, output) for arrival, completion, prompt, output in rows)


def trace_of(*sessions, name="toy"):
    return Trace(name, tuple(Session(number, turns(*rows)) for number, rows in enumerate(sessions)))


#: At 300 the second turn of session 0 arrives and session 1 is answered.
PAIR = trace_of([(0, 100, 10, 2), (300, 400, 20, 3)], [(0, 300, 5, 1), (500, 600, 7, 9)])


def events_of(trace, load=AT_ONCE, p=N4, capacity=ROOMY, **changes):
    """Played events as (time, opcode, slot, tokens, operand), hazards all 0."""
    config = default_config(trace, p, load, capacity=capacity, **changes)
    engine = Engine(p, config=config)
    return [
        (time, Opcode(event.opcode).name, event.slot, event.tokens, event.operand)
        for time, event, _ in play(trace, engine, p, config, load)
    ]


def test_explicit_events_by_hand():
    assert events_of(PAIR) == [
        (0, "ARRIVE_ANY", 0, 10, 0),
        (0, "ARRIVE_ANY", 0, 5, 0),
        (100, "GAP_START", 0, 12, 0),
        (300, "GAP_END", 0, 0, 200),
        (300, "ARRIVE", 0, 20, 0),
        (300, "GAP_START", 1, 6, 0),
        (400, "COMPLETE", 0, 0, 0),
        (500, "GAP_END", 1, 0, 200),
        (500, "ARRIVE", 1, 7, 0),
        (600, "COMPLETE", 1, 0, 0),
    ]


def test_silent_completion_is_one_more_gap_start():
    explicit = events_of(PAIR)
    silent = events_of(PAIR, Load(arrivals="recorded", scale=Fraction(1), completion="silent"))
    changed = {6: (400, "GAP_START", 0, 23, 0), 9: (600, "GAP_START", 1, 16, 0)}
    assert silent == [changed.get(index, event) for index, event in enumerate(explicit)]


def test_arrivals_of_one_instant_go_in_session_order_before_answers():
    trace = trace_of(
        [(0, 30, 1, 1)],
        [(0, 10, 2, 1), (30, 40, 3, 1)],
        [(0, 10, 4, 1), (30, 40, 5, 1)],
        [(30, 40, 6, 1)],
    )
    at_30 = [event[1:4] for event in events_of(trace) if event[0] == 30]
    assert at_30 == [
        ("GAP_END", 1, 0),
        ("ARRIVE", 1, 3),
        ("GAP_END", 2, 0),
        ("ARRIVE", 2, 5),
        ("ARRIVE_ANY", 0, 6),
        ("COMPLETE", 0, 0),
    ]


def test_what_an_instant_causes_follows_its_cause():
    # No service time at all and a gap of 0: everything happens at 0, in the order of cause and effect.
    trace = trace_of([(0, 0, 1, 1), (0, 0, 2, 1)], [(0, 0, 3, 1)])
    assert [event[1:4] for event in events_of(trace, Load(concurrency=1, seed=1, scale=Fraction(1)))] in (
        [("ARRIVE_ANY", 0, 1), ("GAP_START", 0, 2), ("GAP_END", 0, 0), ("ARRIVE", 0, 2), ("COMPLETE", 0, 0),
         ("ARRIVE_ANY", 0, 3), ("COMPLETE", 1, 0)],
        [("ARRIVE_ANY", 0, 3), ("COMPLETE", 0, 0), ("ARRIVE_ANY", 0, 1), ("GAP_START", 1, 2), ("GAP_END", 1, 0),
         ("ARRIVE", 1, 2), ("COMPLETE", 1, 0)],
    )  # fmt: skip


def test_each_gap_is_told_when_it_ends():
    trace = trace_of([(0, 1, 1, 1), (6, 7, 1, 1), (17, 18, 1, 1), (38, 39, 1, 1)])
    told = [(event[0], event[4]) for event in events_of(trace) if event[1] == "GAP_END"]
    assert told == [(6, 5), (17, 10), (38, 20)]


def test_service_times_are_scaled_and_gaps_are_not():
    # 100 * 3/8 = 37.5 is floored; the gap of 200 stays.
    scaled = events_of(PAIR, Load(arrivals="recorded", scale=Fraction(3, 8)))
    assert [(event[0], event[1]) for event in scaled if event[1] != "GAP_END"] == [
        (0, "ARRIVE_ANY"),
        (0, "ARRIVE_ANY"),
        (37, "GAP_START"),
        (112, "GAP_START"),
        (237, "ARRIVE"),
        (274, "COMPLETE"),
        (312, "ARRIVE"),
        (349, "COMPLETE"),
    ]


def test_a_session_without_a_slot_begins_again():
    # Four busy sessions fill the table, so the fifth gets no slot: no GAP_START at 20, and ARRIVE_ANY at 100.
    # There the entries tie and slot 0 leaves; its session begins again at 200 and takes slot 0 once more, since the
    # fifth session's has completed and so has the highest score.
    busy = [(0, 50, 10, 1), (1000, 1010, 10, 1)]
    first = [(0, 50, 10, 1), (200, 210, 10, 1)]
    late = [(10, 20, 30, 1), (100, 110, 40, 1)]
    played = events_of(trace_of(first, busy, busy, busy, late), gap_prior=500)
    assert [event for event in played if event[0] < 1000] == [
        *((0, "ARRIVE_ANY", 0, 10, 0),) * 4,
        (10, "ARRIVE_ANY", 0, 30, 0),
        *((50, "GAP_START", slot, 11, 0) for slot in range(4)),
        (100, "ARRIVE_ANY", 0, 40, 0),
        (110, "COMPLETE", 0, 0, 0),
        (200, "ARRIVE_ANY", 0, 10, 0),
        (210, "COMPLETE", 0, 0, 0),
    ]
    assert [event[1] for event in played if event[0] == 1000] == ["GAP_END", "ARRIVE"] * 3


def test_a_lost_slot_makes_its_session_begin_again_without_gap_end():
    paused = [(0, 50, 10, 1), (500, 510, 10, 1)]
    late = [(100, 400, 10, 1)]
    played = events_of(trace_of(paused, paused, paused, paused, late), gap_prior=500)
    at_500 = [event[1:3] for event in played if event[0] == 500]
    # Session 0 lost slot 0 at 100 and begins again first, in the slot of the session that completed at 400.
    assert at_500 == [("ARRIVE_ANY", 0), *((name, slot) for slot in (1, 2, 3) for name in ("GAP_END", "ARRIVE"))]


def test_the_end_of_moves_is_told_after_their_time():
    # At 20 session 0 has completed: Tide evicts it and promotes 7 tokens, which take 7 / 0.5 us.
    trace = trace_of([(0, 10, 8, 1)], [(0, 20, 6, 1), (1020, 1030, 6, 1)])
    played = events_of(trace, capacity="10:100")
    assert [event[:2] for event in played[2:6]] == [
        (10, "COMPLETE"),
        (20, "GAP_START"),
        (34, "DMA_DONE"),
        (1020, "GAP_END"),
    ]


@pytest.mark.parametrize("numerator, denominator, done", [(1, 2, 34), (2, 3, 31), (100, 1, 21), (1, 0, 20), (0, 0, 20)])
def test_the_time_of_moves_is_rounded_up(numerator, denominator, done):
    trace = trace_of([(0, 10, 8, 1)], [(0, 20, 6, 1), (1020, 1030, 6, 1)])
    played = events_of(trace, capacity="10:100", numerator=numerator, denominator=denominator)
    # With no bandwidth limit it is told at the next event, but it is due at once.
    times = [event[0] for event in played if event[1] == "DMA_DONE"]
    assert times == [done]


def test_the_end_of_moves_goes_before_the_events_of_its_instant():
    trace = trace_of([(0, 10, 8, 1)], [(0, 20, 6, 1), (34, 40, 6, 1)])
    played = events_of(trace, capacity="10:100", gap_prior=1000)
    assert [event[1] for event in played if event[0] == 34] == ["DMA_DONE", "GAP_END", "ARRIVE"]


def test_moves_that_did_not_wait_queue_up():
    # The second session promotes while the first one's 9 tokens (18 us) still move.
    trace = trace_of(
        [(0, 5, 20, 1)],
        [(0, 10, 8, 1), (1010, 1020, 8, 1)],
        [(0, 12, 6, 1), (1012, 1030, 6, 1)],
    )
    played = events_of(trace, capacity="21:100", ignore_dma=True)
    assert [event[0] for event in played if event[1] == "DMA_DONE"] == [28, 42]


def test_the_true_gap_is_told_only_as_an_oracle():
    trace = trace_of([(0, 10, 1, 1), (10, 20, 1, 1), (90, 99, 1, 1)])
    oracle = Load(arrivals="recorded", scale=Fraction(1), delta="true", completion="silent")
    operands = [event[4] for event in events_of(trace, oracle) if event[1] == "GAP_START"]
    # A gap of 0 is told as 1, for 0 asks for the average; the last session never returns.
    assert operands == [1, 70, (1 << 32) - 1]


def test_long_gaps_saturate():
    trace = trace_of([(0, 10, 1, 1), (10 + (1 << 33), (1 << 34), 1, 1)])
    assert [event[4] for event in events_of(trace) if event[1] == "GAP_END"] == [(1 << 32) - 1]
    assert default_config(trace, N4, AT_ONCE, capacity=ROOMY).gap_prior == (1 << 32) - 1
    in_ms = N4.replace(gap_unit_ns=1_000_000)
    assert [event[4] for event in events_of(trace, p=in_ms) if event[1] == "GAP_END"] == [(1 << 33) // 1000]


def test_tokens_beyond_20_bits_are_clamped_and_counted():
    trace = trace_of([(0, 10, (1 << 20) - 5, 9), (20, 30, 4, 1)])
    recording = record(trace, N16, load=AT_ONCE, capacity="2000000:0")
    assert [event.tokens for event in recording.stream.events][:2] == [(1 << 20) - 5, (1 << 20) - 1]
    assert recording.stream.provenance["clamped"] == 1


def test_the_closed_loop_starts_a_session_when_one_ends():
    trace = trace_of(*([(0, length, 1, 1)] for length in (10, 20, 30, 40, 50)))
    order = list(range(5))
    random.Random(3).shuffle(order)
    moments = list(timeline(trace, Load(concurrency=2, seed=3, scale=Fraction(1))))
    starts = {moment.session: moment.time_us for moment in moments if moment.arrives}
    ends = sorted(moment.time_us for moment in moments if not moment.arrives)
    assert sorted(starts, key=lambda session: (starts[session], order.index(session))) == order
    assert sorted(starts.values()) == [0, 0, *ends[:3]]


def test_recorded_starts_keep_their_distance():
    trace = trace_of([(500, 510, 1, 1)], [(200, 210, 1, 1)])
    assert [moment[:3] for moment in timeline(trace, AT_ONCE)] == [
        (0, True, 1),
        (10, False, 1),
        (300, True, 0),
        (310, False, 0),
    ]


def test_poisson_starts_follow_the_seed_and_the_rate():
    trace = trace_of(*([(0, 1, 1, 1)],) * 2000)

    def starts(seed):
        return [m.time_us for m in timeline(trace, Load(arrivals="poisson", rate=4, seed=seed)) if m.arrives]

    assert starts(0) == starts(0) != starts(1)
    assert starts(0)[-1] == pytest.approx(2000 / 4 * 1e6, rel=0.1)


def test_footprints_by_hand():
    # Busy: 10 * 100 + 20 * 100 + 5 * 300 + 7 * 100; paused: 12 * 200 + 6 * 200; over 600 us. Completion is explicit.
    for completion in ("explicit", "silent"):
        load = Load(arrivals="recorded", scale=Fraction(1), completion=completion)
        assert footprints(PAIR, load) == Footprints(Fraction(5200, 600), Fraction(3600, 600))


def test_a_trace_without_duration_has_no_footprint():
    with pytest.raises(ValueError, match="trace toy: all events fall on one instant"):
        footprints(trace_of([(0, 0, 1, 1)]), AT_ONCE)


@pytest.mark.parametrize(
    "name, sram, hbm",
    [
        # A = 1000.5, P = 2000: the total is floored, then SRAM's share of it.
        ("edge-tight", 350, 1050),
        ("edge", 425, 1275),
        ("edge-plus", 500, 1500),
        ("server", 460, 1840),
        ("server-plus", 520, 2080),
        ("cxl", 290, 2610),
    ],
)
def test_envelopes_by_hand(monkeypatch, name, sram, hbm):
    monkeypatch.setattr(load_module, "footprints", lambda trace, load: Footprints(Fraction(2001, 2), Fraction(2000)))
    assert capacities(name, PAIR, AT_ONCE) == (sram, hbm)
    assert len(ENVELOPES) == 6


def test_capacities_in_tokens():
    assert capacities("12:0", PAIR, AT_ONCE) == (12, 0)
    for bad in ("12", "12:", ":", "-1:5", "1.5:2", "edge tight", "1:2:3"):
        with pytest.raises(ValueError, match=f"capacity must be SRAM:HBM in tokens or one of .*, not {bad!r}"):
            capacities(bad, PAIR, AT_ONCE)


def test_the_default_configuration():
    # Mean gap (200 + 200) / 2; A + 0.2 P = 5200/600 + 720/600 = 9.87.
    assert default_config(PAIR, N4, AT_ONCE) == Config(capacity_sram=2, capacity_hbm=7, gap_prior=200)
    assert default_config(PAIR, N4, AT_ONCE, moves=2, gap_prior=1).gap_prior == 1


def test_the_default_load_is_the_familys():
    chat = Trace("anything", (Session(0, (Turn(0, None, 1, 1, 1),)),))
    assert default_load(PAIR) == Load(arrivals="closed", concurrency=64)
    assert default_load(trace_of([(0, 1, 1, 1)], name="gaia_x")) == Load(arrivals="closed", concurrency=20)
    assert default_load(chat).arrivals == "recorded"
    assert default_load(chat, concurrency=9) == Load(arrivals="closed", concurrency=9)
    assert default_load(chat, rate=0.5) == Load(arrivals="poisson", rate=0.5)
    assert default_load(PAIR, completion="silent", seed=7) == Load(completion="silent", seed=7)


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"arrivals": "open"}, "arrivals must be one of closed, poisson, recorded, not 'open'"),
        ({"completion": None}, "completion must be one of explicit, silent, not None"),
        ({"delta": "mean"}, "delta must be one of average, true, not 'mean'"),
        ({"concurrency": 0}, "concurrency must be a positive integer, not 0"),
        ({"concurrency": True}, "concurrency must be a positive integer, not True"),
        ({"rate": 0}, "rate must be a positive number of sessions a second, not 0"),
        ({"rate": float("nan")}, "rate must be a positive number .*, not nan"),
        ({"scale": 0.25}, "scale must be a Fraction that is not negative, not 0.25"),
        ({"scale": Fraction(-1)}, "scale must be a Fraction"),
        ({"seed": 1.5}, "seed must be an integer, not 1.5"),
    ],
)
def test_loads_that_make_no_sense_are_refused(changes, reason):
    with pytest.raises(ValueError, match=reason):
        Load(**changes)


@pytest.mark.parametrize("count", [1, 4, 10])
def test_a_recording_stops_after_max_events(count):
    whole = record(PAIR, N4, load=AT_ONCE, capacity=ROOMY)
    part = record(PAIR, N4, load=AT_ONCE, capacity=ROOMY, max_events=count, keep_steps=True)
    assert part.stream.events == whole.stream.events[:count]
    assert part.summary.events == len(part.steps) == part.engine.counters["EVENTS"] == count
    assert whole.steps is None


def test_a_recording_of_no_events_is_refused():
    with pytest.raises(ValueError, match="max_events must be positive, not 0"):
        record(PAIR, N4, max_events=0)


@pytest.mark.parametrize("completion", ["explicit", "silent"])
@pytest.mark.parametrize("p", [Params(sessions=5), N64], ids=["5_slots", "64_slots"])
@pytest.mark.parametrize("family", ["gaia", "acg"])
def test_a_recorded_stream_replays_alike_and_holds_every_turn(family, p, completion):
    trace = generate(read_family(family), sessions=40)
    recording = record(trace, p, load=default_load(trace, completion=completion), keep_steps=True)
    stream = recording.stream
    engine = Engine(p, config=stream.config, hazards=stream.hazards)
    assert tuple(engine.step(*event) for event in stream.events) == recording.steps
    assert record(trace, p, load=default_load(trace, completion=completion)).stream == stream

    opcodes = [event.opcode for event in stream.events]
    arrivals = opcodes.count(Opcode.ARRIVE.value) + opcodes.count(Opcode.ARRIVE_ANY.value)
    assert arrivals == len(trace.turns) == recording.summary.arrivals
    assert opcodes.count(Opcode.GAP_END.value) == opcodes.count(Opcode.ARRIVE.value)
    assert (Opcode.COMPLETE.value in opcodes) == (completion == "explicit")
    moved = sum(any(a.kind == AnswerKind.MIGRATE for a in step.answers) for step in recording.steps)
    assert opcodes.count(Opcode.DMA_DONE.value) == moved == recording.summary.events_with_migration
    counters = engine.counters
    summary = recording.summary
    assert (summary.hits_sram, summary.hits_hbm) == (counters["HITS_SRAM"], counters["HITS_HBM"])
    assert summary.decisions == counters["DECISIONS"]
    assert summary.forgets == counters["FORGETS"]
    assert summary.evictions == sum(counters[f"EVICTIONS_{cause}"] for cause in ("FIT", "SLOT", "TIDE", "DMA"))
    assert summary.migrations == counters["PROMOTIONS"] + counters["SWAPS"]


def test_the_shipped_trace_exercises_the_scheduler():
    trace = generate(read_family("gaia"))
    assert len(trace.turns) >= 700
    for completion in ("explicit", "silent"):
        summary = record(trace, N64, load=default_load(trace, completion=completion)).summary
        assert summary.events >= 1900
        assert summary.decisions >= 800
        assert summary.events_with_eviction >= 300
        assert summary.events_with_migration >= 20


def test_real_traces_play_without_a_refusal():
    paths = real_traces()
    if not paths:
        pytest.skip("no real traces: set UNISON_TRACES to a folder of them")
    for path in paths.values():
        summary = record(read_trace(path), N64, max_events=3000).summary
        assert summary.decisions > 0
