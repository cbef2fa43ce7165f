"""The protocol checker finds each violation, and only violations."""

import pytest

from unison.sim.runner import build, run

# Both ends of the bus are driven by the test.
WIRES = """
module wires(input clk, input psel, input penable, input pwrite, input [11:0] paddr, input [31:0] pwdata,
             input [3:0] pstrb, input [2:0] pprot, input [31:0] prdata, input pready, input pslverr);
endmodule
"""


def test_each_violation_is_found(tmp_path, monkeypatch, request):
    monkeypatch.syspath_prepend(request.path.parent)
    # Only a 4-state simulator has an X to find.
    made = build(WIRES, top="wires", simulator="icarus", root=tmp_path)
    run(made, "tb_apb_checker", {}, tmp_path / "run")


def test_a_failed_test_bench_is_reported(tmp_path, monkeypatch, request):
    from unison.sim.runner import SimulationError

    monkeypatch.syspath_prepend(request.path.parent)
    made = build(WIRES, top="wires", simulator="icarus", root=tmp_path)
    with pytest.raises(SimulationError, match="no test was found|broke off"):
        run(made, "tb_apb_checker", {}, tmp_path / "run", testcase="no_such_test")
