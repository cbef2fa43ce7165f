"""Cocotb module: drives APB signals that no hardware answers, to provoke one violation a test."""

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotb.types import LogicArray

from unison.sim.apb_checker import ApbChecker, ProtocolError

IDLE = {"psel": 0, "penable": 0, "pwrite": 0, "paddr": 0, "pwdata": 0, "pstrb": 0, "pprot": 0}
IDLE |= {"pready": 0, "pslverr": 0, "prdata": 0}
WRITE = {"psel": 1, "pwrite": 1, "paddr": 0x40, "pwdata": 0x12345678, "pstrb": 0b0011}
READ = {"psel": 1, "paddr": 0x44}
LAST = {"penable": 1, "pready": 1}
WAIT = {"penable": 1}
STRAY = {"paddr": 0x48}
X = LogicArray("X")
HIGH_LANES_X = LogicArray("X" * 16 + "0" * 16)
LOW_LANE_X = LogicArray("0" * 24 + "X" * 8)

#: Cycles, each as what differs from idle; and the rule they break (None: none).
CASES = {
    "write": ([WRITE, WRITE | LAST], None),
    "read_with_waits_and_error": ([READ, READ | WAIT, READ | WAIT, READ | LAST | {"pslverr": 1}, {}], None),
    "back_to_back": ([READ, READ | LAST, WRITE, WRITE | LAST, {}], None),
    "unselected_lanes_unknown": ([WRITE | {"pwdata": HIGH_LANES_X}, WRITE | LAST | {"pwdata": HIGH_LANES_X}], None),
    "enable_in_setup": ([READ | {"penable": 1}], "PENABLE is high in a setup phase"),
    "enable_without_select": ([{"penable": 1}], "PENABLE is high without PSEL"),
    "two_setup_cycles": ([READ, READ], "PENABLE is low in an access phase"),
    "enable_falls_in_a_wait": ([READ, READ | WAIT, READ], "PENABLE is low in an access phase"),
    "enable_stays_after_completion": ([READ, READ | LAST, READ | WAIT], "PENABLE is high in a setup phase"),
    "select_falls": ([READ, READ | WAIT, {}], "PSEL fell before the transfer completed"),
    "address_changes": ([WRITE, WRITE | LAST | STRAY], "PADDR changed within a transfer"),
    "address_changes_in_a_wait": ([WRITE, WRITE | WAIT, WRITE | LAST | STRAY], "PADDR changed within a transfer"),
    "direction_changes": ([WRITE, WRITE | LAST | {"pwrite": 0}], "PWRITE changed within a transfer"),
    "data_changes": ([WRITE, WRITE | WAIT, WRITE | LAST | {"pwdata": 1}], "PWDATA changed within a transfer"),
    "strobe_changes": ([WRITE, WRITE | LAST | {"pstrb": 0b0001}], "PSTRB changed within a transfer"),
    "protection_changes": ([WRITE, WRITE | LAST | {"pprot": 0b001}], "PPROT changed within a transfer"),
    "strobe_in_a_read": ([READ | {"pstrb": 1}], "PSTRB is not 0 in a read"),
    "error_without_ready": ([READ, READ | WAIT | {"pslverr": 1}], "PSLVERR is high without PREADY"),
    "error_in_setup": ([READ | {"pslverr": 1}], "PSLVERR is high in a setup phase"),
    "select_unknown": ([{"psel": X}], "PSEL is X"),
    "enable_unknown": ([READ, READ | {"penable": X}], "PENABLE is X"),
    "address_unknown": ([READ | {"paddr": LogicArray("X" * 12)}], "PADDR is X while PSEL is high"),
    "direction_unknown": ([READ | {"pwrite": X}], "PWRITE is X while PSEL is high"),
    "data_unknown": ([WRITE | {"pwdata": LOW_LANE_X}], "PWDATA is X in the selected lane 0"),
    "ready_unknown": ([READ, READ | WAIT | {"pready": X}], "PREADY is X in an access phase"),
    "error_unknown": ([READ, READ | LAST | {"pslverr": X}], "PSLVERR is X when the transfer completes"),
    "read_data_unknown": ([READ, READ | LAST | {"prdata": LogicArray("X" * 32)}], "PRDATA is X when a read completes"),
}


@cocotb.test()
@cocotb.parametrize(case=list(CASES))
async def finds(dut, case):
    """The checker names the rule that the case breaks, and finds nothing where none is broken."""
    cycles, rule = CASES[case]
    for name, value in IDLE.items():
        getattr(dut, name).value = value
    clock = Clock(dut.clk, 10, unit="ns")
    clock.start()
    await RisingEdge(dut.clk)
    checker = ApbChecker(dut)
    found = []

    async def watch(coroutine):
        try:
            await coroutine
        except ProtocolError as error:
            found.append(str(error))

    tasks = [cocotb.start_soon(watch(checker.watch())), cocotb.start_soon(watch(checker.watch_enable()))]
    for cycle in [*cycles, {}, {}]:
        for name, value in (IDLE | cycle).items():
            getattr(dut, name).value = value
        await RisingEdge(dut.clk)
        if found:
            break
    for task in tasks:
        task.cancel()
    clock.stop()
    assert found[:1] == ([] if rule is None else [rule])
    if rule is None:
        assert checker.transfers == sum(cycle.get("pready", 0) for cycle in cycles) and not checker.in_transfer
