"""The simulator against the golden model, answer by answer, and its accounting."""

from fractions import Fraction

import numpy as np
import pytest

from unison.formats import AnswerKind, Opcode
from unison.model.accounting import Costs
from unison.model.arithmetic import FloatingPoint
from unison.model.engine import Config, Engine
from unison.model.generate import FAMILIES, generate, read_family
from unison.model.hazard import hazard_law, hazard_table
from unison.model.load import ENVELOPES, Load, capacities, default_load, footprints, play, timeline
from unison.model.policies import POLICIES
from unison.model.policies.base import SCAN, STEPPED, VICTIM, Policy, expires, score, victim
from unison.model.schedule import NEVER, UNKNOWN, cached_schedule, make_schedule, synthetic_schedule
from unison.model.simulator import simulate
from unison.model.trace import Session, Trace, Turn, read_trace, real_traces
from unison.params import N64, Params

REAL = ("gaia_miro", "iso_trae_sonnet45", "iso_trae_gpt5", "acg_haiku", "claude_code", "mooncake_conv")
#: What a line of the simulator's log holds after kind and slot.
KINDS = {
    AnswerKind.OUTCOME: ("opcode", "found", "placed"),
    AnswerKind.MOVED: ("tier", "tokens"),
    AnswerKind.MIGRATE: ("demoted_slot", "tokens", "demoted_tokens"),
    AnswerKind.EVICT: (),
    AnswerKind.FORGET: (),
}


def random_trace(seed, sessions=12, turns=9):
    """Sessions whose moments often coincide, with contexts that grow and shrink."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(sessions):
        now, rows = int(rng.integers(0, 3)), []
        for index in range(int(rng.integers(1, turns))):
            done = now + 4 * int(rng.integers(0, 4))
            prompt = int(rng.integers(1, 60))
            tool = None if index == 0 else str(rng.choice(["a", "b", "user"]))
            rows.append(Turn(now, done, prompt, int(rng.integers(0, prompt + 1)), int(rng.integers(0, 20)), tool))
            now = done + int(rng.choice([0, 1, 2, 3, 5, 40, 5000]))
        made.append(Session(number, tuple(rows)))
    return Trace(f"random{seed}", tuple(made))


def golden_lines(trace, load, p, config, hazards, arithmetic=None):
    """What the golden model answers, as lines of the simulator's log, and its engine."""
    engine = Engine(p, config=config, hazards=hazards, arithmetic=arithmetic)
    lines = []
    for played in play(trace, engine, p, config, load):
        for answer in played.step.answers:
            fields = answer.fields
            slot = fields["slot"]
            if answer.kind == AnswerKind.OUTCOME:
                if fields["opcode"] == Opcode.DMA_DONE.value:
                    continue
                slot = slot if fields["slot_valid"] else -1
            if answer.kind == AnswerKind.MIGRATE and not fields["demoted_valid"]:
                fields = {**fields, "demoted_slot": -1}
            row = [answer.kind.value, slot, *(fields[name] for name in KINDS[answer.kind])]
            lines.append(row + [0] * (5 - len(row)))
    return np.array(lines), engine


def assert_same(trace, load, p, sizes, policy="unison", arithmetic=None, hazards=None, **config):
    """Asserts that simulator and golden model give the same answers in the same order; returns the Result."""
    schedule = make_schedule(trace, load)
    prior = min(trace.mean_gap_us * 1000 // p.gap_unit_ns, p.gap_max)
    configured = Config(capacity_sram=sizes[0], capacity_hbm=sizes[1], gap_prior=prior, **config)
    table = hazard_table(trace, p) if hazards is None else hazards
    expected, engine = golden_lines(trace, load, p, configured, table, arithmetic)
    result = simulate(schedule, POLICIES[policy], sizes, p, hazards=hazards, log=True, **config)
    shorter = min(len(expected), len(result.log))
    different = np.flatnonzero((expected[:shorter] != result.log[:shorter]).any(axis=1))
    assert not len(different), (different[0], expected[different[0]], result.log[different[0]])
    assert len(expected) == len(result.log)
    counters = engine.counters
    assert result.decisions == counters["DECISIONS"]
    assert result.forgets == counters["FORGETS"]
    assert result.promotions == counters["PROMOTIONS"] + counters["SWAPS"]
    assert result.moves == counters["MOVES"]
    assert result.evictions == sum(counters[f"EVICTIONS_{cause}"] for cause in ("FIT", "SLOT", "TIDE", "DMA"))
    assert result.hit.sum() == counters["HITS_SRAM"] + counters["HITS_HBM"]
    return result


def real_trace(name):
    paths = real_traces()
    if name not in paths:
        pytest.skip(f"no real trace {name}: set UNISON_TRACES to a folder that holds it")
    return read_trace(paths[name])


@pytest.mark.parametrize("completion", ["explicit", "silent"])
@pytest.mark.parametrize("name", REAL)
def test_fixed_point_spear_decides_as_the_golden_model_on_real_traces(name, completion):
    trace = real_trace(name)
    load = default_load(trace, completion=completion)
    result = assert_same(trace, load, N64, make_schedule(trace, load).capacities("edge-tight"))
    assert result.evictions > 10


@pytest.mark.parametrize("completion", ["explicit", "silent"])
@pytest.mark.parametrize("family", FAMILIES)
def test_fixed_point_spear_decides_as_the_golden_model_on_generated_traces(family, completion):
    trace = generate(read_family(family), sessions=40, seed=1)
    load = default_load(trace, completion=completion)
    assert_same(trace, load, N64, make_schedule(trace, load).capacities("edge"))


@pytest.mark.parametrize("config", [
    {},
    {"moves": 3},
    {"moves": 8, "ignore_dma": True},
    {"swap_completed": True, "numerator": 5},
    {"denominator": 0, "moves": 2},
])  # fmt: skip
@pytest.mark.parametrize("seed", range(12))
def test_fixed_point_spear_decides_as_the_golden_model_on_small_streams(seed, config):
    trace = random_trace(seed)
    slots = 4 + seed % 5
    sizes = [(120, 200), (60, 260), (0, 150), (200, 0), (40, 40)][seed % 5]
    for completion in ("explicit", "silent"):
        for delta in ("average", "true"):
            load = Load(concurrency=9, scale=Fraction(1, 4), completion=completion, delta=delta, seed=seed)
            assert_same(trace, load, Params(sessions=slots, gap_bits=24 + seed), sizes, **config)


def test_small_streams_reach_every_kind_of_answer():
    seen = set()
    for seed in range(6):
        trace = random_trace(seed)
        load = Load(concurrency=9, completion="silent")
        for sizes in ((120, 200), (40, 40)):
            seen |= set(assert_same(trace, load, Params(sessions=4), sizes, numerator=40).log[:, 0].tolist())
    assert seen == {kind.value for kind in KINDS}


@pytest.mark.parametrize("changes", [
    {"hazard_bits": 8, "gap_unit_ns": 1, "gap_bits": 64, "penalty": 500_000_000_000},
    {"hazard_bits": 10, "gap_unit_ns": 1_000_000, "gap_bits": 24, "penalty": 500_000},
    {"score_bits": 32, "turn_limit": 3},
])  # fmt: skip
def test_other_formats_decide_as_the_golden_model(changes):
    for seed in range(4):
        load = Load(concurrency=9, completion="silent", seed=seed)
        assert_same(random_trace(seed), load, Params(sessions=6, **changes), (120, 200), numerator=9)


@pytest.mark.parametrize("seed", range(6))
def test_floating_point_spear_decides_as_the_floating_point_golden_model(seed):
    trace = random_trace(seed)
    p = Params(sessions=5, gap_unit_ns=1000)
    law = [float(h) for h in hazard_law(trace, p.turns)]
    load = Load(concurrency=9, completion="silent", seed=seed)
    assert_same(trace, load, p, (120, 200), "unison-float", FloatingPoint(p), law, numerator=3)


@score
def _octave(slots, i, now, own, memory, shared):
    idle = now - slots[i].paused_us
    octave = 0
    while idle >> octave:
        octave += 1
    # Neither rising nor falling with the idle time.
    return float(octave * 5 % 7)


@expires
def _next_octave(slots, i, now, own, memory, shared):
    step = 1
    while step <= now - slots[i].paused_us:
        step *= 2
    return slots[i].paused_us + step


@pytest.mark.parametrize("policy", [
    POLICIES["unison"],
    POLICIES["tide"],
    POLICIES["belady"],
    Policy(name="octave", summary="", score=_octave, expires=_next_octave, mode=STEPPED, tide=True),
], ids=lambda policy: policy.name)  # fmt: skip
def test_the_mode_of_a_search_changes_no_decision(policy):
    for seed in range(12):
        schedule = make_schedule(random_trace(seed), Load(concurrency=9, completion="silent", seed=seed))
        logs = [
            simulate(schedule, variant, (120, 200), slots=4 + seed % 4, numerator=20, log=True).log
            for variant in (policy, policy.replace(mode=SCAN))
        ]
        assert np.array_equal(*logs)


@victim
def _nobody(slots, residencies, now, own, memory, shared):
    return -1


@expires
def _yesterday(slots, i, now, own, memory, shared):
    return now


@pytest.mark.parametrize(("policy", "words"), [
    (Policy(name="bad", summary="", victim=_nobody, mode=VICTIM), "policy bad: victim"),
    (Policy(name="bad", summary="", expires=_yesterday, mode=STEPPED), "policy bad: expires"),
])  # fmt: skip
def test_a_policy_that_breaks_its_rules_is_named(policy, words):
    with pytest.raises(ValueError, match=words):
        simulate(make_schedule(random_trace(0), Load(concurrency=9)), policy, (60, 60))


@pytest.mark.parametrize(("arguments", "words"), [
    ({"slots": 0}, "slots .* not 0"),
    ({"capacities": (-1, 5)}, "SRAM capacity .* not -1"),
    ({"capacities": "edgy"}, "not 'edgy'"),
    ({"hazards": [0, 0]}, "hazards must be 51 numbers, not 2"),
])  # fmt: skip
def test_bad_sizes_are_refused(arguments, words):
    schedule = make_schedule(random_trace(0), Load())
    with pytest.raises(ValueError, match=words):
        simulate(schedule, POLICIES["lru"], **{"capacities": (60, 60), **arguments})


def test_a_schedule_agrees_with_the_load_model(tmp_path):
    trace, load = random_trace(3), Load(concurrency=5)
    schedule = make_schedule(trace, load)
    moments = schedule.moments
    names = ("time_us", "arrives", "session", "turn")
    assert [tuple(int(row[name]) for name in names) for row in moments] == [tuple(m) for m in timeline(trace, load)]
    assert schedule.footprints == footprints(trace, load)
    assert [schedule.capacities(name) for name in ENVELOPES] == [capacities(name, trace, load) for name in ENVELOPES]
    assert schedule.capacities("7:9") == (7, 9)
    assert schedule.hazard_law(51) == hazard_law(trace, 51)
    for row in moments:
        later = [
            m["time_us"] for m in moments if m["session"] == row["session"] and m["arrives"] and m["turn"] > row["turn"]
        ]
        assert row["next_us"] == (later[0] if later else NEVER)
    for _ in range(2):
        stored = cached_schedule(trace, load, tmp_path)
        assert np.array_equal(stored.moments, moments) and stored.footprints == schedule.footprints
        assert (stored.tools, stored.hints) == (schedule.tools, schedule.hints)
    assert len(list(tmp_path.iterdir())) == 1
    cached_schedule(trace, Load(concurrency=6), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_the_tool_of_an_answer_is_that_of_the_wait_after_it_and_the_last_one_tells_nothing():
    def tools(*waits):
        turns = tuple(Turn(20 * n, 20 * n + 5, 10, 1, 1, wait) for n, wait in enumerate((None, *waits)))
        return make_schedule(Trace("t", (Session(0, turns), Session(1, turns[:1]))), Load())

    schedule = tools("bash", "edit")
    answers = schedule.moments[(schedule.moments["arrives"] == 0) & (schedule.moments["session"] == 0)]
    assert [schedule.tools[code] for code in answers["tool"]] == ["bash", "edit", "edit"]
    single = schedule.moments[schedule.moments["session"] == 1]
    assert single["tool"].tolist() == [UNKNOWN, schedule.tools.index("bash")]
    asked = tools("user", "edit")
    assert asked.tools[asked.moments["tool"][asked.moments["session"] == 0][-1]] == "user"


def two_requests(gap):
    turns = Turn(0, 4, 10, 10, 5), Turn(4 + gap, 8 + gap, 30, 12, 5)
    return make_schedule(Trace("t", (Session(0, turns),)), Load(scale=Fraction(1)))


@pytest.mark.parametrize(("sizes", "found", "costs", "no_delta"), [
    ((50, 0), 2, [2000, 30 * 1 + 12 * 200], [2000, 30 * 1]),
    ((0, 50), 3, [2000, 30 * 4 + 12 * 200], [2000, 30 * 4]),
    ((0, 12), 0, [2000, 6000], [2000, 6000]),
])  # fmt: skip
def test_costs_of_a_hit_in_each_tier_and_of_a_miss(sizes, found, costs, no_delta):
    result = simulate(two_requests(7), POLICIES["lru"], sizes)
    hit = found > 0
    assert result.requests["found"].tolist() == [0, found]
    assert result.request_costs().tolist() == costs
    assert result.request_costs(new_tokens=False).tolist() == no_delta
    assert (result.amat, result.amat_no_delta) == (sum(costs) / 2, sum(no_delta) / 2)
    assert (result.hr, result.hr_sram, result.hr_hbm) == (hit / 2, (found == 2) / 2, (found == 3) / 2)
    assert result.prefill_reduction == (18 / 40 if hit else 0)
    assert result.ttft_s().tolist() == [cost * 0.25e-6 for cost in costs]
    assert result.session_sums().tolist() == [[2, hit, sum(costs), 18 * hit, 40]]
    assert result.bypass == (0 if hit else 0.5)
    assert result.cell()["prefetch_accuracy"] is None


def test_requests_queue_for_a_prefill_server():
    result = simulate(two_requests(7), POLICIES["lru"], (50, 0), costs=Costs(1, 4, 200))
    first, second = result.ttft_s()
    # 500 us of prefill that began at 0; the second request comes at 11 us.
    assert result.ttft_s(servers=1).tolist() == pytest.approx([first, first - 11e-6 + second])
    assert result.ttft_s(servers=2).tolist() == pytest.approx([first, second])


def test_equal_seeds_give_equal_results():
    schedule = make_schedule(random_trace(5), Load(concurrency=9))
    for name, policy in POLICIES.items():
        runs = [simulate(schedule, policy, (60, 100), slots=8, seed=seed, log=True).log for seed in (1, 1, 2)]
        assert np.array_equal(runs[0], runs[1]), name
    one, two = (simulate(schedule, POLICIES["random"], (60, 100), seed=seed, log=True).log for seed in (1, 2))
    assert not np.array_equal(one, two)


def test_synthetic_schedules_keep_their_number_of_live_sessions():
    schedule = synthetic_schedule(50, 4000)
    moments = schedule.moments
    assert (np.diff(moments["time_us"]) >= 0).all()
    assert 0.6 * 8000 < len(moments) < 1.4 * 8000
    # Memory without end and a slot for each: only completed sessions leave, and every second turn hits.
    result = simulate(schedule, POLICIES["lru-completion"], (10**9, 10**9), slots=50)
    arrivals = moments[moments["arrives"] == 1]
    assert np.array_equal(result.hit, arrivals["turn"] > 0)
    assert 0 < result.evictions == (arrivals["turn"] == 0).sum() - 50
