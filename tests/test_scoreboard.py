"""The comparison of RTL and golden model can fail: each kind of difference is found and named."""

import re

from unison.formats import OUTCOME, AnswerKind, Opcode, entry_layout, pack
from unison.model.generate import open_trace
from unison.model.load import default_load, record
from unison.model.stream import write_stream
from unison.params import N64, Params
from unison.sim import runner, runs
from unison.sim.runs import Run, build_for, execute_all
from unison.sim.scoreboard import describe_answer, describe_entry


def _stream(path, p, events):
    trace = open_trace("gaia")
    load = default_load(trace, concurrency=p.sessions)
    recording = record(trace, p, load=load, hazards=[p.hazard_max // 2] * p.turns, max_events=events)
    write_stream(path / "stream.jsonl.gz", recording.stream)
    return str(path / "stream.jsonl.gz")


def test_each_difference_is_found(tmp_path, monkeypatch, request):
    monkeypatch.syspath_prepend(request.path.parent)
    p = Params(sessions=4)
    job = {"stream": _stream(tmp_path, p, 100), "seed": 3}
    runner.run(build_for(p, "verilator"), "tb_faulty", job, tmp_path / "run")


def test_a_mismatch_comes_with_waves_and_a_command(tmp_path, monkeypatch):
    """A golden model of another configuration stands for a wrong RTL."""
    monkeypatch.setattr(runner, "BUILD_ROOT", tmp_path)
    p = Params(sessions=4)
    stream = _stream(tmp_path, p, 300)
    # The RTL is built with another penalty than the stream's golden model has.
    monkeypatch.setattr(runs, "emit", lambda _, emit=runs.emit: emit(p.replace(penalty=1000)))
    run = Run(
        name="wrong",
        p=p,
        simulator="verilator",
        module="unison.sim.tb_replay",
        job={"stream": stream, "seed": 0, "identify": False},
        replay_command="again --from {first} --to {last}",
    )
    (result,) = execute_all([run], "wrong", 300)
    mismatch = result["mismatch"]
    assert result["mismatches"] == 1
    assert re.fullmatch(r"again --from \d+ --to \d+", mismatch["command"])
    waves = tmp_path / "runs" / "wrong" / "mismatch.fst"
    assert mismatch["waves"] == str(waves.resolve()) and 0 < waves.stat().st_size < 2_000_000


def test_descriptions():
    word = pack(OUTCOME, kind=AnswerKind.OUTCOME, slot=3, opcode=Opcode.ARRIVE, slot_valid=1)
    assert "OUTCOME" in describe_answer(word) and "slot=3" in describe_answer(word)
    assert describe_answer(0xF0000000).endswith("of no known kind")
    entry = pack(entry_layout(N64), residency=3, gap=1234)
    assert "residency=HBM" in describe_entry(entry, N64) and "gap=1234" in describe_entry(entry, N64)
