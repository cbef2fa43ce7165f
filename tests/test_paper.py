"""The paper's artefacts: hand-computed numbers, agreement with the golden model, stable files, gates that can fail."""

import csv
import json
import random
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from tests.test_cycles import Measured, some_config, some_event
from unison.formats import EVENT, AnswerKind, Opcode, pack
from unison.model import cli
from unison.model.arithmetic import FixedPoint
from unison.model.engine import Config, Engine
from unison.model.fidelity import kendall_tau, measure, ranking
from unison.model.generate import generate, read_family
from unison.model.hazard import hazard_law
from unison.model.load import default_load, record
from unison.model.paper import ARTEFACTS
from unison.model.paper import formats as formats_module
from unison.model.paper.capacity import ase, points
from unison.model.paper.comparison import ROWS, comparison
from unison.model.paper.dual import DualEngine, golden_result
from unison.model.paper.formats import GRID, LOCKED, Format, format_policy, format_scores, passes, turn_tables
from unison.model.paper.hazards import LEARNING, attainment, law_of
from unison.model.paper.lab import (
    COMPLETIONS,
    ENVELOPE_NAMES,
    Claim,
    Lab,
    Report,
    geometric_mean,
    mean,
    render,
    with_workers,
    write_report,
)
from unison.model.paper.polling import polled_schedule
from unison.model.paper.snapshots import Channel, agreement, polled_us, take
from unison.model.paper.timeliness import Stopwatch, answered_us
from unison.model.policies import POLICIES
from unison.model.policies.base import SCAN, SLOT, STATIC
from unison.model.report.artefacts import read_artefacts
from unison.model.schedule import make_schedule
from unison.model.simulator import simulate
from unison.model.trace import write_trace
from unison.params import N64, Params

FILE_KEYS = ["artefact", "title", "command", "tools", "seconds", "traces", "claims", "notes", "chart", "rows"]
ROW_KEYS = {
    "table1": "completion trace period events hr_unified hr_dual hr_delta_pp worst_hr_delta_pp sram_hr_delta_pp "
    "amat_vs_unified migrations_unified migrations_dual blind",
    "fig4": "completion slots ase ase_paper ase_closed_loop ase_gaia_like ase_acg_like scan_us decision_us_paper",
    "table2": "completion trace policy hr prefill_reduction amat_vs_lru ttft_vs_lru br attainment cells_below_lru "
    "degraded",
    "fig5": "completion trace variant hr hr_sram amat_vs_base prefill_reduction prefetch_accuracy",
    "fig6": "completion trace variant hr hr_sram amat_vs_base prefill_reduction prefetch_accuracy hr_loss_pp",
    "table3": "completion axis point hr_pp_vs_lru amat_gain_percent_vs_lru prefill_pp_vs_lru traces_won_vs_lru "
    "hr_pp_vs_lru_completion amat_gain_percent_vs_lru_completion prefill_pp_vs_lru_completion "
    "traces_won_vs_lru_completion",
    "table4": "completion trace envelope fold_1_pp fold_2_pp fold_3_pp fold_4_pp fold_5_pp mean_pp mean_abs_pp "
    "max_abs_pp",
    "fig7": "completion trace sessions hr hr_lru attainment learned",
    "formats": "unit_ns gap_bits hazard_bits divider penalty on_grid snapshots top1 tau worst_drift_pp worst_cell "
    "mean_drift_pp mean_abs_drift_pp amat_drift_percent passes",
    "table6": "engine level decides signal sees_tool_wait sees_other_sessions source",
    "timeliness": "trace slots events decisions cycles_mean cycles_p50 cycles_p99 cycles_max decision_us_mean "
    "decision_us_mean_paper decision_us_max decision_us_max_paper answered_us_p99 answered_us_max gap_us_min "
    "gaps_zero gap_us_p50 worst_percent_of_min_gap worst_percent_of_median_gap gaps_shorter_than_worst "
    "slow_clock_us_max",
    "polling": "completion trace period_ms gaps_unseen gap_error_p50 hr_exact hr_polled hr_delta_pp "
    "worst_hr_delta_pp amat_vs_exact snapshots inverted_pairs top1",
}


@pytest.fixture(scope="module")
def traces():
    return tuple(generate(read_family(name), sessions=count, seed=2) for name, count in (("gaia", 9), ("acg", 12)))


@pytest.fixture(scope="module")
def lab(traces):
    return Lab(traces, quiet=True)


def test_every_artefact_has_its_keys_pinned():
    assert list(ROW_KEYS) == list(ARTEFACTS)


@pytest.mark.parametrize("name", ROW_KEYS)
def test_an_artefact_is_made_and_written_with_stable_keys(name, lab, tmp_path):
    report = ARTEFACTS[name].make(lab)
    fields = write_report(tmp_path, ARTEFACTS[name], report, lab, command=f"unison paper {name}", seconds=1.0)
    stored = json.loads((tmp_path / f"{name}.json").read_text())
    assert list(stored) == FILE_KEYS and stored == fields
    assert {tuple(row) for row in stored["rows"]} == {tuple(ROW_KEYS[name].split())}
    assert all(set(claim) == {"claim", "paper", "ours", "holds"} for claim in stored["claims"])
    with open(tmp_path / f"{name}.csv") as file:
        assert csv.DictReader(file).fieldnames == ROW_KEYS[name].split()
    text = render(stored)
    assert all(claim["claim"] in text for claim in stored["claims"])
    (read,) = read_artefacts(tmp_path)
    assert (read.name, len(read.rows), len(read.claims)) == (name, len(stored["rows"]), len(stored["claims"]))


def test_means():
    assert mean([1, None, 3]) == 2 and mean([None]) is None
    assert geometric_mean([1, 4]) == pytest.approx(2) and geometric_mean([]) is None
    assert geometric_mean([0, 4]) == 0


def test_ase_of_two_traces_by_hand():
    best = {"hr": 0.8, "amat": 100.0, "prefill_reduction": 0.5}
    half = {"hr": 0.4, "amat": 200.0, "prefill_reduction": 0.25}
    assert ase([(best, best)]) == pytest.approx(1)
    assert ase([(half, best)]) == pytest.approx(0.5)
    assert ase([(half, best), (best, best)]) == pytest.approx(0.5**0.5)
    assert ase([({**best, "hr": 0.1}, best)]) == pytest.approx(0.5)


def test_hierarchy_points_keep_what_they_say_fixed():
    of = {(axis, point): sizes for axis, point, *sizes in points(100, 300)}
    assert of["HBM", "x 4"] == [100, 1200] and of["SRAM", "x 0.5"] == [50, 300]
    assert of["partition", "SRAM 75%"] == [300, 100]


@pytest.mark.parametrize(("hr", "lru", "offline", "expected"), [
    (0.3, 0.2, 0.4, 0.5),
    (0.2, 0.2, 0.4, 0.0),
    (0.1, 0.2, 0.4, -0.5),
    (0.3, 0.2, 0.204, None),
    (0.3, 0.4, 0.2, None),
])  # fmt: skip
def test_attainment_by_hand(hr, lru, offline, expected):
    value = attainment(hr, lru, offline)
    assert value is None if expected is None else value == pytest.approx(expected)


def test_a_law_of_lengths_is_the_traces_law(traces):
    for trace in traces:
        assert law_of([len(session.turns) for session in trace.sessions], 51) == hazard_law(trace, 51)
    assert law_of([1, 3, 3], 4) == [0, Fraction(1, 3), 0, 1]
    assert law_of([], 3) == [0, 0, 0]


def test_the_learner_counts_every_completion_and_starts_from_an_empty_table(traces):
    for trace in traces:
        schedule = make_schedule(trace, default_load(trace))
        # With room for all no session loses its slot, so that every length is seen whole.
        learned = simulate(schedule, LEARNING, (1 << 40, 0), slots=len(trace.sessions)).shared[5:]
        ended, reached = learned[:51], learned[51:]
        assert [Fraction(int(d), int(n)) if n else 0 for d, n in zip(ended, reached, strict=True)] == hazard_law(
            trace, 51
        )
        silent = make_schedule(trace, default_load(trace, completion="silent"))
        logs = [
            simulate(silent, policy, "edge-tight", hazards=[0] * 51, log=True).log
            for policy in (LEARNING, POLICIES["unison"])
        ]
        assert np.array_equal(*logs)


@pytest.mark.parametrize("name", ["gaia", "trae_gpt5"])
def test_the_learner_with_a_table_decides_as_the_offline_policy(name):
    def counted(setting):
        lengths = setting.schedule.lengths
        ended = np.bincount(lengths, minlength=51)[:51]
        reached = [(lengths >= turn).sum() for turn in range(51)]
        return np.array([*LEARNING.prepare(setting)[:5], *ended, *reached], dtype=np.float64)

    trace = generate(read_family(name), sessions=40, seed=1)
    schedule = make_schedule(trace, default_load(trace, completion="silent"))
    empty, told, offline = (
        simulate(schedule, policy, "edge-tight", log=True).log
        for policy in (LEARNING, LEARNING.replace(prepare=counted), POLICIES["unison"])
    )
    assert np.array_equal(told, offline) and not np.array_equal(empty, offline)


@pytest.mark.parametrize("name", ["gaia", "trae_gpt5"])
def test_the_learner_rescores_after_a_completion(name):
    trace = generate(read_family(name), sessions=40, seed=1)
    schedule = make_schedule(trace, default_load(trace))
    logs = [
        simulate(schedule, LEARNING.replace(mode=mode), "edge-tight", slots=16, log=True).log for mode in (STATIC, SCAN)
    ]
    assert np.array_equal(*logs)


def test_the_learners_scores_are_the_golden_models():
    rng = np.random.default_rng(3)
    slots = np.zeros(1, dtype=SLOT)
    empty = LEARNING.prepare(SimpleNamespace(p=N64))
    arithmetic = FixedPoint(N64)
    for _ in range(300):
        reached, gap, turn = int(rng.integers(1, 90)), int(rng.integers(1 << 32)), int(rng.integers(51))
        ended = int(rng.integers(reached + 1))
        shared = empty.copy()
        shared[5 + turn], shared[5 + 51 + turn] = ended, reached
        slots["gap"], slots["turn"] = gap, turn
        hazards = [arithmetic.hazard(Fraction(ended, reached))] * 51
        none = np.zeros((1, 0))
        assert LEARNING.score(slots, 0, 0, none, none, shared) == arithmetic.score(gap, turn, hazards)


def test_the_grid_has_180_points_and_the_locked_one():
    assert len(set(GRID)) == 180 and LOCKED in GRID


def test_tables_of_a_format_by_hand():
    p = SimpleNamespace(penalty=1000, gap_unit_ns=1000, epsilon=Fraction(1, 100))
    law = [Fraction(0), Fraction(1, 2), Fraction(1), Fraction(1, 4)]
    sigma, reciprocal, floor = turn_tables(Format(1000, 32, 8), law, p)
    assert sigma == [255, 127, 3, 191]
    # 255 * 256 / 191 is 341.8.
    assert reciprocal == [256, 514, 21760, 342]
    assert floor == [0, 501, 988, 250]
    penalties = {
        form: turn_tables(Format(1000, 32, 8, "exact", form), law, p)[2] for form in ("shift", "power", "table", "none")
    }
    assert penalties == {
        "shift": [0, 500, 984, 250],
        "power": [0, 512, 1008, 256],
        "table": [0, 500, 990, 250],
        "none": [0, 0, 0, 0],
    }
    finer = turn_tables(Format(1, 64, 8), law, p)[2]
    assert finer == [0, 501_960, 988_235, 250_980]


def test_scores_of_the_locked_format_are_the_golden_models():
    rng = np.random.default_rng(0)
    law = [Fraction(int(n), 997) for n in rng.integers(0, 997, 51)]
    gaps, turn = rng.integers(0, 1 << 32, 300), rng.integers(0, 51, 300)
    arithmetic = FixedPoint(N64)
    hazards = [arithmetic.hazard(h) for h in law]
    expected = [arithmetic.score(int(g), int(t), hazards) for g, t in zip(gaps, turn, strict=True)]
    assert format_scores(LOCKED, gaps, turn, law).tolist() == expected
    close = format_scores(LOCKED._replace(divider="reciprocal"), gaps, turn, law)
    assert close.tolist() != expected and np.allclose(close, expected, rtol=2**-12)


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_the_locked_format_decides_as_unison_and_others_do_not(completion, traces):
    differ = 0
    for trace in traces:
        schedule = make_schedule(trace, default_load(trace, completion=completion))
        for envelope in ("edge-tight", "server"):
            own, unison, other = (
                simulate(schedule, policy, envelope, log=True).log
                for policy in (
                    format_policy(LOCKED),
                    POLICIES["unison"],
                    format_policy(Format(1_000_000, 24, 8, "reciprocal", "none")),
                )
            )
            assert np.array_equal(own, unison)
            differ += not np.array_equal(own, other)
    assert differ


def test_snapshots_rank_as_the_fidelity_measure_does(traces):
    others = [Params(hazard_bits=8), Params(hazard_bits=10, gap_unit_ns=1_000_000, gap_bits=24, penalty=500_000),
              Params(penalty=0)]  # fmt: skip
    points = [LOCKED, Format(1000, 32, 8), Format(1_000_000, 24, 10), Format(1000, 32, 12, "exact", "none")]
    disagreements = 0
    # So few slots that they change hands.
    p = Params(sessions=6)
    for trace in traces:
        load = default_load(trace)
        recording = record(trace, p, load=load)
        assert recording.summary.forgets
        law = hazard_law(trace, N64.turns)
        expected = measure(p, recording.stream.events, law, recording.stream.config, [N64, *others])
        channels = [Channel(point.unit_ns, point.gap_bits) for point in points]
        taken = take(trace, load, p, "edge-tight", channels)
        reference = taken.reference([float(h) for h in law], N64)
        for at, (point, fidelity) in enumerate(zip(points, expected, strict=True)):
            scores = format_scores(point, np.ascontiguousarray(taken.gaps[:, at]), taken.turn, law)
            top1, tau = agreement(reference, scores, taken.ranked)
            assert len(tau) == fidelity.snapshots > 20
            assert (top1.mean(), tau.mean(), tau.min()) == pytest.approx(
                (fidelity.top1, fidelity.tau, fidelity.tau_min)
            )
            disagreements += not top1.all()
        half = take(trace, load, p, "edge-tight", channels, stride=2)
        assert np.array_equal(half.gaps, taken.gaps[1::2])
    assert disagreements


def test_agreement_by_hand_and_as_kendall_tau():
    ranked = np.array([[True, False, True, True]])
    first = np.array([[3.0, 9.0, 2.0, 1.0]])

    def of(scores):
        top1, tau = agreement(first, np.array([scores]), ranked)
        return bool(top1[0]), float(tau[0])

    assert of([30, 0, 20, 10]) == (True, 1.0)
    assert of([10, 0, 20, 30]) == (False, -1.0)
    # A tie leaves the lowest slot first, here against the reference in no pair; then in the pair of slots 2 and 3.
    assert of([5, 0, 5, 5]) == (True, 1.0)
    assert of([5, 0, 1, 2]) == (True, pytest.approx(1 / 3))
    rng = random.Random(1)
    for _ in range(50):
        scores = [[rng.randrange(4) for _ in range(8)] for _ in range(2)]
        orders = [ranking(dict(enumerate(each))) for each in scores]
        top1, tau = agreement(np.array([scores[0]], float), np.array([scores[1]]), np.ones((1, 8), bool))
        assert (top1[0], tau[0]) == (orders[0][0] == orders[1][0], pytest.approx(kendall_tau(*orders)))


@pytest.mark.parametrize(("top1", "drift", "expected"), [
    (0.99, 0.20, True),
    (0.99, -0.20, True),
    (0.9899, 0.0, False),
    (1.0, 0.21, False),
    (1.0, -0.21, False),
])  # fmt: skip
def test_both_gates_can_fail(top1, drift, expected):
    assert passes(top1, drift) is expected


def test_the_sweep_computes_drift_and_fails_bad_formats(lab, monkeypatch):
    def drifts(lab, name, completion, envelope):
        hr = [0.5, *([0.5] * (len(GRID) + len(formats_module.WIDER)))]
        hr[1 + GRID.index(LOCKED)] = 0.5 - 0.003 * (envelope == "edge")
        return [(value, 100.0) for value in hr]

    monkeypatch.setattr(formats_module, "_drift_task", drifts)
    report = ARTEFACTS["formats"].make(lab)
    locked = report.rows[GRID.index(LOCKED)]
    assert locked["worst_drift_pp"] == pytest.approx(-0.3) and locked["worst_cell"] == "gaia_like/edge"
    assert locked["mean_drift_pp"] == pytest.approx(-0.1) and not locked["passes"]
    without_penalty = report.rows[GRID.index(Format(1000, 32, 12, "exact", "none"))]
    assert without_penalty["worst_drift_pp"] == 0 and not without_penalty["passes"]
    verdicts = {claim.claim: claim.holds for claim in report.claims}
    assert verdicts["worst drift of the hit rate"] is False and verdicts["snapshots"] is False


def test_polled_gaps_by_hand():
    # From 7 to 12 with polls at 10 and 20: seen from 10 to 20. From 6 to 9: both seen at 10.
    assert polled_us(5, 12, 10) == 10 and polled_us(3, 9, 10) == 0
    # From 10 to 12: seen at once, then at 20.
    assert polled_us(2, 12, 10) == 10 and polled_us(20, 30, 10) == 20 and polled_us(123, 456, 1) == 123
    assert Channel(unit_ns=1000, poll_us=10).gap(5, 12) == 10
    assert Channel(unit_ns=1_000_000, bits=24).gap(2_999, 5_000) == 2


def test_polling_changes_gaps_alone(traces):
    schedule = make_schedule(traces[0], default_load(traces[0]))
    assert np.array_equal(polled_schedule(schedule, 1).moments, schedule.moments)
    moments = polled_schedule(schedule, 100_000).moments
    changed = moments["gap_us"] != schedule.moments["gap_us"]
    assert changed.any() and (schedule.moments["arrives"][changed] == 1).all()
    assert (moments["gap_us"][changed] % 100_000 == 0).all()
    assert (moments["gap_us"][schedule.moments["gap_us"] == -1] == -1).all()
    assert np.array_equal(moments["time_us"], schedule.moments["time_us"])


def events_of(*steps):
    return [(pack(EVENT, opcode=opcode, slot=slot, tokens=tokens), operand) for opcode, slot, tokens, operand in steps]


def three_pauses():
    """Three residents pause; slot 1 has by far the longest gap average; a fourth needs the room of one of them."""
    steps = []
    for slot, gap in enumerate((5, 900, 5)):
        steps += [
            (Opcode.ARRIVE_ANY, 0, 10, 0),
            (Opcode.GAP_START, slot, 10, 0),
            (Opcode.GAP_END, slot, 0, gap),
            (Opcode.ARRIVE, slot, 10, 0),
            (Opcode.GAP_START, slot, 10, 0),
        ]
    return events_of(*steps, (Opcode.ARRIVE_ANY, 0, 10, 0))


@pytest.mark.parametrize(("period", "victim", "blind"), [(1, 1, 0), (8, 1, 0), (9, 0, 0), (100, 0, 1)])
def test_a_stale_view_names_the_victim(period, victim, blind):
    # A view of event 8 knows the pause of slot 1; in that of event 9 it is busy; one of no event knows nobody.
    p = Params(sessions=4)
    config = Config(capacity_sram=0, capacity_hbm=30, numerator=0)
    engine = DualEngine(p, config, period=period)
    for word0, operand in three_pauses():
        step = engine.step(word0, operand)
    evicted = [answer.fields["slot"] for answer in step.answers if answer.kind is AnswerKind.EVICT]
    assert (evicted, engine.blind) == ([victim], blind)


def migrations(engine, steps):
    """(promoted slot, demoted slot) of the moves that the last of some events makes."""
    for word0, operand in events_of(*steps):
        step = engine.step(word0, operand)
    moves = [answer.fields for answer in step.answers if answer.kind is AnswerKind.MIGRATE]
    return [(move["slot"], move["demoted_slot"]) for move in moves]


@pytest.mark.parametrize(("steps", "unified", "stale"), [
    # The view of event 6 has slot 0, in SRAM, far off and slot 1 close; by event 8 it is the other way round.
    ([
        (Opcode.ARRIVE_ANY, 0, 10, 0), (Opcode.GAP_START, 0, 10, 0), (Opcode.GAP_END, 0, 0, 100),
        (Opcode.ARRIVE_ANY, 0, 10, 0), (Opcode.GAP_START, 1, 10, 0), (Opcode.GAP_END, 1, 0, 2),
        (Opcode.GAP_END, 0, 0, 1), (Opcode.GAP_END, 1, 0, 900),
        (Opcode.ARRIVE_ANY, 0, 10, 0), (Opcode.GAP_START, 2, 10, 1000),
    ], [(2, 0)], [(1, 0)]),
    # In the view of event 6 slot 0 is busy, so that nobody is known who could leave SRAM.
    ([
        (Opcode.ARRIVE_ANY, 0, 10, 0), (Opcode.GAP_START, 0, 10, 0), (Opcode.GAP_END, 0, 0, 100),
        (Opcode.ARRIVE, 0, 10, 0), (Opcode.ARRIVE_ANY, 0, 10, 0), (Opcode.GAP_START, 1, 10, 0),
        (Opcode.GAP_START, 0, 10, 1000),
    ], [(1, 0)], []),
])  # fmt: skip
def test_tide_moves_by_its_stale_view(steps, unified, stale):
    p = Params(sessions=4)
    config = Config(capacity_sram=10, capacity_hbm=20)
    assert migrations(Engine(p, config), steps) == unified
    assert migrations(DualEngine(p, config, period=6), steps) == stale


@pytest.mark.parametrize("name", ["gaia", "trae_gpt5"])
def test_a_view_of_every_event_differs_in_tide_alone(name):
    trace = generate(read_family(name), sessions=20, seed=2)
    recording = record(trace, N64, load=default_load(trace, completion="silent"), numerator=0)
    stream = recording.stream

    def answers(engine):
        return [step.answers for step in (engine.step(*event) for event in stream.events)]

    unified = answers(Engine(N64, stream.config, stream.hazards))
    assert answers(DualEngine(N64, stream.config, stream.hazards, period=1)) == unified
    assert answers(DualEngine(N64, stream.config, stream.hazards, period=64)) != unified


def test_metrics_from_the_golden_model_are_the_simulators(lab):
    for name in lab.names:
        schedule = lab.schedule(name)
        result = lab.replay(name, "explicit", "edge", "unison")
        golden = golden_result(schedule, result.requests["found"])
        for metric in ("hr", "hr_sram", "amat", "amat_no_delta", "prefill_reduction"):
            assert getattr(golden, metric) == getattr(result, metric)
        assert golden_result(schedule, result.requests["found"][:5]).hr == result.hit[:5].mean()


@pytest.mark.parametrize("n", [4, 7, 64])
def test_the_stopwatch_agrees_with_the_documented_formulas(n):
    rng = random.Random(n)
    p = Params(sessions=n)
    documented = Measured.__new__(Measured)
    documented.p, documented.model, documented.used = p, Engine(p), set()
    watch = Stopwatch(documented.model)
    for number in range(3000):
        if number % 50 == 0:
            documented.model.configure(some_config(rng, n))
        opcode, slot, tokens, operand = some_event(rng, documented.model)
        code = opcode.value if isinstance(opcode, Opcode) else opcode
        watch.before()
        expected = documented.expectation(pack(EVENT, opcode=code, slot=slot, tokens=tokens), operand)
        assert watch.cycles(documented.step) == expected, documented.terms


def test_answers_queue_behind_one_another():
    assert answered_us(np.array([149, 149, 74]), np.array([0, 0, 10]), 150).tolist() == pytest.approx([1.0, 2.0, 0.5])


def test_cells_of_the_evaluation_are_taken_where_they_are_complete(lab, traces, tmp_path):
    def cells(policy, hr, skip=0):
        places = [(n, c, e) for n in lab.names for c in COMPLETIONS for e in ENVELOPE_NAMES][skip:]
        return [
            {"trace": name, "completion": completion, "envelope": envelope, "load": load, "seed": seed,
             "policy": policy, "hr": hr, "amat": 1.0, "prefill_reduction": hr, "ttft_p50": 1.0, "degraded": []}
            for name, completion, envelope in places
            for load, seed in (("service x 1/4", 0), ("service x 1", 0), ("service x 1/4", 1))
        ]  # fmt: skip

    path = tmp_path / "results.json"
    path.write_text(json.dumps({"cells": [*cells("unison", 0.125), *cells("lru", 0.5, skip=1), *cells("mine", 0.75)]}))
    report = comparison(Lab(traces, results=path, quiet=True))
    hr = {(row["trace"], row["completion"], row["policy"]): row["hr"] for row in report.rows}
    replayed = comparison(lab)
    for row in replayed.rows:
        assert hr[row["trace"], row["completion"], row["policy"]] == (0.125 if row["policy"] == "unison" else row["hr"])
    assert hr["all", "silent", "mine"] == 0.75
    assert {row["policy"] for row in replayed.rows} == set(ROWS)
    assert "unison, mine" in report.notes[-1]


def test_workers_find_what_one_process_finds(traces, lab, tmp_path):
    alone = ARTEFACTS["table4"].make(lab)
    with with_workers(Lab(traces, folder=tmp_path, quiet=True), 2) as several:
        assert ARTEFACTS["table4"].make(several) == alone
    with pytest.raises(ValueError, match="not 0"), with_workers(lab, 0):
        pass


def test_a_claim_is_shown_with_its_verdict(lab, tmp_path):
    claims = [Claim("a", "1", "2", True), Claim("b", "1", "2", False), Claim("c", "1", "2", None)]
    report = Report([{"x": 1.5, "y": float("nan")}], claims)
    fields = write_report(tmp_path, ARTEFACTS["fig5"], report, lab, command="", seconds=0)
    shown = [line.split() for line in render(fields).splitlines()]
    assert shown[-4:-1] == [["a", "1", "2", "holds"], ["b", "1", "2", "does", "not", "hold"], ["c", "1", "2"]]
    assert fields["rows"] == [{"x": 1.5, "y": None}]


def test_the_command_writes_what_it_prints(traces, tmp_path, capsys):
    path = tmp_path / "gaia.jsonl.gz"
    write_trace(path, traces[0])
    options = ["--traces", str(path), "--workers", "1", "--cache", str(tmp_path / "cache"), "-o", str(tmp_path / "out")]
    assert cli.main(["paper", "table6", "fig5", *options]) == 0
    printed = capsys.readouterr().out
    for name in ("table6", "fig5"):
        fields = json.loads((tmp_path / "out" / f"{name}.json").read_text())
        assert render(fields) in printed
        assert fields["command"] == f"unison paper {name} --traces {path}"
        assert [trace["name"] for trace in fields["traces"]] == ["gaia"]


def test_the_command_lists_artefacts_and_refuses_unknown_ones(capsys):
    assert cli.main(["paper"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(ARTEFACTS)
    assert cli.main(["paper", "table9"]) == 2
    assert "'table9'" in capsys.readouterr().err
