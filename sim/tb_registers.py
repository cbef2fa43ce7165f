"""The cocotb module that tests the register file over APB, register by register of the compiled map."""

from fractions import Fraction

import cocotb
from cocotb.triggers import ClockCycles

from unison.formats import AnswerKind, ErrorCode, Opcode
from unison.model.stream import make_event
from unison.params import Params
from unison.registers import ADDRESS_BITS, Kind
from unison.sim.bench import Bench
from unison.sim.runner import load_job

ONES = (1 << 32) - 1
IRQ = {"answer": 1, "drained": 2, "committed": 4, "refused": 8, "error": 16}
#: An event that answers ERROR and changes nothing.
ILLEGAL = make_event(0).word0
DMA_DONE = make_event(Opcode.DMA_DONE).word0


async def _bench(dut):
    fields = load_job()["params"]
    bench = Bench(dut, Params(**fields | {"epsilon": Fraction(fields["epsilon"])}))
    await bench.start()
    return bench


def _addresses(bench):
    return {register.address + 4 * index: register for register in bench.map for index in range(register.count)}


def _bits(register, *kinds):
    fields = [field for field in register.fields if field.kind in kinds]
    return sum(((1 << field.width) - 1) << field.lsb for field in fields)


def _reset_value(register):
    return sum(field.reset << field.lsb for field in register.fields)


def _is_stored(register):
    """Whether software reads back what it wrote."""
    return all(field.kind is Kind.STORAGE for field in register.fields) or register.name in ("EVENT1", "HAZARD")


async def _stall(bench):
    """Fills both FIFOs, so that the engine stands at an answer until one is read; returns the number of events."""
    events = 0
    while True:
        await bench.access(bench.map.address("EVENT1"), 0)
        if (await bench.access(bench.map.address("EVENT0"), ILLEGAL)).error:
            status = await bench.read("STATUS")
            if status >> 4 & 1:
                return events
            # The engine still takes events.
            await ClockCycles(bench.dut.clk, 20)
        else:
            events += 1


async def _drain(bench):
    answers = 0
    while True:
        word = await bench.read("ANSWER0")
        if word:
            assert word >> 28 == AnswerKind.ERROR.value
            assert await bench.read("ANSWER1") == ILLEGAL
            answers += 1
        elif await bench.read("STATUS") & 1:
            return answers


@cocotb.test()
async def reset_values(dut):
    """Every readable register resets as declared, also when software resets; status registers tell of an idle IP."""
    bench = await _bench(dut)
    for by_software in (False, True):
        if by_software:
            for address, register in _addresses(bench).items():
                if _is_stored(register):
                    await bench.access(address, 0x5A5A5A5A)
            await bench.write("CONTROL", 1)
        for address, register in _addresses(bench).items():
            if register.readable and not register.name.startswith("ENTRY") or register.name == "ENTRY_INDEX":
                result = await bench.access(address)
                expected = 1 if register.name == "STATUS" else _reset_value(register)
                assert (result.value, result.error) == (expected, False), f"{register.name} at {address:#05x}"
        state = await bench.read("ENTRY0")
        assert state >> 26 & 3 == 0, "slot 0 is not free after a reset"


@cocotb.test()
async def writable_bits(dut):
    """A stored register keeps exactly its bits; no bit of a read-only one can be written."""
    bench = await _bench(dut)
    for address, register in _addresses(bench).items():
        if _is_stored(register):
            mask = _bits(register, Kind.STORAGE, Kind.EXTERNAL)
            for value in (ONES, 0, 0xA5C3_5A3C):
                assert not (await bench.access(address, value)).error
                assert (await bench.access(address)).value == value & mask, f"{register.name} at {address:#05x}"
        elif register.readable and not register.writable:
            before = (await bench.access(address)).value
            assert (await bench.access(address, ~before & ONES)).error, f"{register.name} can be written"
            # ANSWER0 is empty here, so reading it changes nothing.
            assert (await bench.access(address)).value == before


@cocotb.test()
async def byte_strobes(dut):
    """A write changes the bytes of its strobe and no other; the event words take whole words only."""
    bench = await _bench(dut)
    for address, register in _addresses(bench).items():
        if not _is_stored(register) or register.name == "EVENT1":
            continue
        mask = _bits(register, Kind.STORAGE, Kind.EXTERNAL)
        for strobe in range(16):
            lanes = sum(0xFF << 8 * lane for lane in range(4) if strobe >> lane & 1)
            await bench.access(address, 0x9669_C33C)
            assert not (await bench.access(address, 0x6996_3CC3, strobe=strobe)).error
            expected = (0x9669_C33C & ~lanes | 0x6996_3CC3 & lanes) & mask
            assert (await bench.access(address)).value == expected, f"{register.name}, strobe {strobe:04b}"
    operand = bench.map.address("EVENT1")
    await bench.access(operand, 0x1234_5678)
    for strobe in range(15):
        assert (await bench.access(operand, ONES, strobe=strobe)).error
        assert (await bench.access(operand)).value == 0x1234_5678
        assert (await bench.access(bench.map.address("EVENT0"), ILLEGAL, strobe=strobe)).error
    assert await bench.read("EVENTS") == 0 and await bench.read("REFUSED") == 0
    # Bit 0 of these acts only with its own strobe.
    for name, unchanged in (("COMMIT", "STATUS"), ("CONTROL", "EVENT1")):
        before = await bench.read(unchanged)
        await bench.access(bench.map.address(name), 3, strobe=0b1110)
        assert await bench.read(unchanged) == before


@cocotb.test()
async def refused_addresses(dut):
    """Unmapped and unaligned addresses answer PSLVERR, and so does a read of what can only be written."""
    bench = await _bench(dut)
    known = _addresses(bench)
    for address in range(0, 1 << ADDRESS_BITS, 4):
        if address not in known:
            assert (await bench.access(address)).error, f"{address:#05x} can be read"
            assert (await bench.access(address, ONES)).error, f"{address:#05x} can be written"
    for address, register in known.items():
        for offset in (1, 2, 3):
            assert (await bench.access(address + offset)).error, f"{address + offset:#05x} can be read"
            assert (await bench.access(address + offset, 0)).error, f"{address + offset:#05x} can be written"
        if not register.readable:
            assert (await bench.access(address)).error, f"{register.name} can be read"


@cocotb.test()
async def guarded_while_busy(dut):
    """Configuration and entries are refused while events are queued or in execution, and accepted after that."""
    bench = await _bench(dut)
    guarded = [register for register in bench.map if register.guarded]
    entries = [register for register in bench.map if register.name in ("ENTRY0", "ENTRY1", "ENTRY2", "ENTRY3")]
    assert guarded and len(entries) == 4
    events = await _stall(bench)
    assert events >= bench.p.event_depth + bench.p.answer_depth - 1
    for register in guarded:
        assert (await bench.access(register.address, 1)).error, f"{register.name} can be written while busy"
        assert (await bench.access(register.address)).value == _reset_value(register)
    for register in entries:
        assert (await bench.access(register.address)).error, f"{register.name} can be read while busy"
    assert await _drain(bench) == events
    for register in guarded:
        assert not (await bench.access(register.address, 1)).error
        assert (await bench.access(register.address)).value == 1
    for register in entries:
        assert not (await bench.access(register.address)).error
    assert await bench.read("EVENTS") == await bench.read(f"ERRORS_{ErrorCode.OPCODE.name}") == events


@cocotb.test()
async def last_place_is_for_dma_done(dut):
    """With one place left only DMA_DONE gets in, with none not even that; what is refused is counted."""
    bench = await _bench(dut)
    await _stall(bench)
    event = bench.map.address("EVENT0")
    refused = await bench.read("REFUSED")
    assert (await bench.read("STATUS")) >> 8 & 0x3FF == bench.p.event_depth - 1
    assert (await bench.access(event, ILLEGAL)).error
    assert not (await bench.access(event, DMA_DONE)).error
    assert (await bench.access(event, DMA_DONE)).error
    assert await bench.read("REFUSED") == refused + 2
    assert (await bench.read("STATUS")) >> 8 & 0x3FF == bench.p.event_depth == await bench.read("EVENT_HIGH")
    assert await bench.read("ANSWER_HIGH") == bench.p.answer_depth


@cocotb.test()
async def commit_pending(dut):
    """A COMMIT waits for the event in execution; until it is done hazards and COMMIT are refused."""
    bench = await _bench(dut)
    await bench.write("HAZARD", 7, 3)
    await _stall(bench)
    await bench.write("COMMIT", 1)
    assert await bench.read("STATUS") & 3 == 2
    hazard = bench.map.address("HAZARD", 3)
    assert (await bench.access(hazard, 9)).error
    assert (await bench.access(bench.map.address("COMMIT"), 1)).error
    await _drain(bench)
    assert await bench.read("HAZARD", 3) == 7
    assert not (await bench.access(hazard, 9)).error
    assert await bench.read("IRQ_STATUS") & IRQ["committed"]


@cocotb.test()
async def interrupts(dut):
    """Each cause raises the line only where it is enabled; a sticky cause is cleared by writing 1 to it alone."""
    bench = await _bench(dut)

    async def line():
        await ClockCycles(dut.clk, 2)
        return int(dut.irq.value)

    await bench.write("COMMIT", 1)
    await _stall(bench)
    await _drain(bench)
    sticky = sum(bits for name, bits in IRQ.items() if name != "answer")
    await bench.write("EVENT0", ILLEGAL)
    await bench.until_idle()
    assert await bench.read("IRQ_STATUS") == sticky | IRQ["answer"]
    assert await line() == 0
    for bits in IRQ.values():
        await bench.write("IRQ_ENABLE", bits)
        assert await line() == 1
    await bench.read("ANSWER0")
    await bench.write("IRQ_ENABLE", IRQ["answer"])
    assert await line() == 0
    left = sticky
    for name, bits in IRQ.items():
        if name != "answer":
            await bench.write("IRQ_ENABLE", bits)
            assert await line() == 1
            await bench.write("IRQ_STATUS", bits)
            left &= ~bits
            assert await bench.read("IRQ_STATUS") == left
            assert await line() == 0


@cocotb.test()
async def clear_counters(dut):
    """CONTROL.clear_counters sets every counter and mark to 0 and touches nothing else."""
    bench = await _bench(dut)
    await bench.write("EVENT1", 5)
    await _stall(bench)
    await _drain(bench)
    await bench.write("CAPACITY_HBM", 99)
    await bench.write("CONTROL", 2)
    for register in bench.map:
        if register.address >= bench.map.address("EVENTS") and register.address <= bench.map.address("ANSWER_HIGH"):
            assert await bench.read(register.name) == 0, f"{register.name} was not cleared"
    assert await bench.read("CAPACITY_HBM") == 99
