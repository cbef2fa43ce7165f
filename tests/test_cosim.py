"""RTL against golden model over APB, in both simulators."""

import json

import pytest

from unison.hdl.verilog import emit
from unison.model.generate import open_trace
from unison.model.load import default_load, record
from unison.model.stream import write_stream
from unison.params import N16, N256, Params
from unison.sim import runner
from unison.sim.__main__ import main
from unison.sim.probe import engine_states
from unison.sim.report import decision_figures, params_fields
from unison.sim.runs import build_for

TINY = Params(sessions=4)
#: No power of two anywhere, and the narrowest score: live scores saturate.
ODD = Params(sessions=5, event_depth=5, answer_depth=7, score_bits=32)


def replay(p, path, *, simulator="verilator", events=None, trace="gaia", cure_icarus=True, **job):
    """Records a load, replays it, and returns the result with the golden model's summary."""
    trace = open_trace(trace)
    recording = record(trace, p, load=default_load(trace, concurrency=min(20, p.sessions)), max_events=events)
    path.mkdir(parents=True, exist_ok=True)
    write_stream(path / "stream.jsonl.gz", recording.stream)
    made = build_for(p, simulator) if cure_icarus else runner.build(emit(p), simulator=simulator, cure_icarus=False)
    job = {"stream": str(path / "stream.jsonl.gz"), "seed": 1, "check_unknowns": simulator == "icarus"} | job
    return runner.run(made, "unison.sim.tb_replay", job, path), recording.summary


def agrees(result, summary, p):
    """Nothing differs, nothing is lost, and a scan of all slots takes N + 5 cycles."""
    assert result["mismatch"] is None
    for name in ("events", "decisions", "answers"):
        assert result[name] == getattr(summary, name)
    assert set(result["scan_lengths"]) <= {"6", str(p.sessions + 5)}
    assert result["decision_histogram"]
    assert sum(result["decision_histogram"].values()) == summary.decisions


def test_shipped_trace_is_bit_exact(tmp_path, capsys):
    report = tmp_path / "report.json"
    assert main(["sim", "--report", str(report)]) == 0
    assert "0 of 2 runs with a mismatch" in capsys.readouterr().out
    content = json.loads(report.read_text())
    assert set(content) == {"tools", "params", "runs"}
    prompt, stalling = content["runs"]
    for run in prompt, stalling:
        assert run["events"] >= 1900 and run["decisions"] >= 800
        assert run["evict_events"] >= 300 and run["migrate_events"] >= 20
        assert (run["n"], run["mismatches"], run["scan_cycles"]) == (64, 0, 69)
    assert stalling["refused"] > 0, "the bench never filled the event FIFO"
    # The figures of the README: a prompt host does not lengthen a decision.
    assert prompt["decision_cycles"] == {"mean": 84.36, "p50": 79, "p99": 151, "max": 218}


@pytest.mark.parametrize("p", [TINY, ODD, N16, N256], ids=["N4", "odd", "N16", "N256"])
def test_other_sizes_are_bit_exact(p, tmp_path):
    result, summary = replay(p, tmp_path, events=400 if p is N256 else 800)
    agrees(result, summary, p)


def test_without_stalls_is_bit_exact(tmp_path):
    result, summary = replay(N16, tmp_path, events=500, stalls=False)
    agrees(result, summary, N16)
    assert result["refused"] == 0


def test_icarus_agrees(tmp_path):
    result, summary = replay(N16, tmp_path, simulator="icarus", events=300)
    agrees(result, summary, N16)


def test_without_its_cure_icarus_shows_x_after_reset(tmp_path):
    with pytest.raises(runner.SimulationError, match="X after reset"):
        replay(N16, tmp_path, simulator="icarus", events=10, cure_icarus=False)


@pytest.mark.parametrize("p", [TINY, ODD], ids=["N4", "odd"])
def test_registers(p, tmp_path):
    runner.run(build_for(p, "verilator"), "unison.sim.tb_registers", {"params": params_fields(p)}, tmp_path)


def test_fuzz(tmp_path, capsys):
    report = tmp_path / "report.json"
    assert main(["fuzz", "--events", "20000", "--report", str(report)]) == 0
    runs = json.loads(report.read_text())["runs"]
    events = sum(run["events"] for run in runs)
    assert events >= 20000
    assert 0.15 < sum(run["error_events"] for run in runs) / events < 0.25
    for figure in ("evict_events", "migrate_events", "refused"):
        assert all(run[figure] for run in runs), figure


def test_reset_in_every_engine_state(tmp_path):
    # Room for every answer of one event: the reset comes while nobody reads.
    p = Params(sessions=5, answer_depth=64)
    job = {"params": params_fields(p), "seed": 1}
    result = runner.run(build_for(p, "verilator"), "unison.sim.tb_fuzz", job, tmp_path, testcase="resets")
    assert result["mismatch"] is None
    assert set(result["states"]) == set(engine_states(p).values())
    assert result["events"] == 200 * len(result["states"])


def test_decision_figures():
    assert decision_figures({"10": 98, "20": 1, "30": 1}) == {"mean": 10.3, "p50": 10, "p99": 20, "max": 30}
    assert decision_figures({}) == {"mean": None, "p50": None, "p99": None, "max": None}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["sim", "--sessions", "3"], "sessions must lie in 4 ... 256"),
        (["sim", "--capacity", "roomy"], "roomy"),
        (["sim", "--trace", "no/such/file"], "no/such/file"),
        (["fuzz", "--events", "0"], "events must be positive"),
        (["fuzz", "--run", "3"], "--run needs --sessions"),
        (["wave", "--simulator", "icarus"], "not by 'icarus'"),
        (["wave", "--from", "9", "--to", "9"], "from event 9 to 9 is empty"),
    ],
)
def test_bad_usage_is_named(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
