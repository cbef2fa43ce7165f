"""Simulator builds are made once and shared."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from unison.sim import runner

COUNTER = """
module counter(input clk, output reg [3:0] count);
  initial count = 0;
  always @(posedge clk) count <= count + 1;
endmodule
"""


def build(root, text=COUNTER, **options):
    return runner.build(text, top="counter", simulator="icarus", root=root, **options)


def test_calls_at_the_same_time_build_once(tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr(runner, "_compile", lambda *rest, real=runner._compile: (compiled.append(1), real(*rest)))
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: build(tmp_path), range(4)))
    assert len(set(made)) == 1 and len(compiled) == 1
    assert build(tmp_path, COUNTER.replace("3:0", "4:0")).directory != made[0].directory
    assert len(compiled) == 2


def test_a_failed_build_is_reported_and_leaves_nothing(tmp_path):
    with pytest.raises(runner.SimulationError, match="syntax error"):
        build(tmp_path, COUNTER.replace("endmodule", ""))
    assert not [path for path in (tmp_path / "builds").iterdir() if path.is_dir()]


def test_unknown_simulator_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not 'spice'"):
        runner.build(COUNTER, simulator="spice", root=tmp_path)


def test_icarus_cure_changes_only_the_trigger_registers():
    text = "  reg \\$auto$verilog_backend.cc:2355:dump_module$1  = 0;\n  reg other = 0;\n"
    cured = runner.start_icarus_always_blocks(text)
    assert cured.replace("  initial \\$auto$verilog_backend.cc:2355:dump_module$1  = 1;\n", "") == text != cured
