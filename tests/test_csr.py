"""The register file does what the register map says, register by register."""

import dataclasses
import random

import pytest

from unison.hdl import csr
from unison.hdl.csr import RegisterFile
from unison.params import Params
from unison.registers import ADDRESS_BITS, Kind, register_map
from unison.sim.pysim import run

P = Params(sessions=5)
MAP = register_map(P)
ALL_ONES = (1 << 32) - 1
REGISTERS = {register.name: register for register in MAP}
INTERNAL = {name: register for name, register in REGISTERS.items() if not register.external}
EXTERNAL = {name: register for name, register in REGISTERS.items() if register.external}


def named(chosen):
    """Runs a test once for each of some registers."""
    return pytest.mark.parametrize("register", chosen, ids=lambda register: register.name)


def byte_mask(strobe):
    return sum(0xFF << 8 * byte for byte in range(4) if strobe >> byte & 1)


def fields_mask(register, *kinds):
    return sum(((1 << f.width) - 1) << f.lsb for f in register.fields if f.kind in kinds)


def reset_value(register):
    """What a register reads as after reset while the hardware drives zeros."""
    return sum(field.reset << field.lsb for field in register.fields if field.kind is not Kind.PULSE)


def member(dut, register, suffix):
    return getattr(dut, f"{register.name.lower()}_{suffix}")


async def access(ctx, dut, address, data=None, strobe=0b1111):
    """Query, then commit unless refused; returns what was read and whether it was refused."""
    bus = dut.access
    for signal, value in (
        (bus.address, address),
        (bus.write, data is not None),
        (bus.data, data or 0),
        (bus.strobe, strobe if data is not None else 0),
        (bus.query, 1),
    ):
        ctx.set(signal, value)
    _, _, read, refused = await ctx.tick().sample(bus.data_read, bus.refused)
    ctx.set(bus.query, 0)
    ctx.set(bus.commit, not refused)
    await ctx.tick()
    ctx.set(bus.commit, 0)
    return read, bool(refused)


async def read(ctx, dut, register):
    value, refused = await access(ctx, dut, register.address)
    assert not refused
    return value


async def write(ctx, dut, register, data, strobe=0b1111):
    _, refused = await access(ctx, dut, register.address, data, strobe)
    assert not refused


async def state(ctx, dut):
    """Every register that can be read, and every output to the hardware."""
    values = {name: await read(ctx, dut, register) for name, register in INTERNAL.items() if register.readable}
    for register in INTERNAL.values():
        for field in register.fields:
            if field.kind in (Kind.STORAGE, Kind.PULSE):
                values[register.name, field.name] = ctx.get(member(dut, register, field.name))
    return values


def test_reset_values_and_outputs():
    dut = RegisterFile(P)

    async def testbench(ctx):
        for name, value in (await state(ctx, dut)).items():
            if isinstance(name, tuple):
                assert value == REGISTERS[name[0]].field(name[1]).reset, name
            else:
                assert value == reset_value(REGISTERS[name]), name
        assert not ctx.get(dut.irq)

    run(dut, testbench)


@named([register for register in INTERNAL.values() if fields_mask(register, Kind.STORAGE)])
def test_storage_keeps_its_bits_byte_by_byte(register):
    rng = random.Random(register.address)
    dut = RegisterFile(P)
    writable = fields_mask(register, Kind.STORAGE)

    async def testbench(ctx):
        ctx.set(dut.idle, 1)
        value = reset_value(register)
        for data in (ALL_ONES, 0, rng.getrandbits(32), rng.getrandbits(32)):
            for strobe in rng.sample(range(16), 16):
                await write(ctx, dut, register, data, strobe)
                mask = writable & byte_mask(strobe)
                value = value & ~mask | data & mask
                assert await read(ctx, dut, register) == value
                for field in register.fields:
                    if field.kind is Kind.STORAGE:
                        expected = value >> field.lsb & (1 << field.width) - 1
                        assert ctx.get(member(dut, register, field.name)) == expected

    run(dut, testbench)


def test_writes_touch_no_other_register():
    dut = RegisterFile(P)

    async def testbench(ctx):
        ctx.set(dut.idle, 1)
        before = await state(ctx, dut)
        for register in INTERNAL.values():
            if not fields_mask(register, Kind.STORAGE):
                continue
            old = await read(ctx, dut, register)
            await write(ctx, dut, register, ~old & ALL_ONES)
            changed = await state(ctx, dut)
            different = {name for name in before if changed[name] != before[name]}
            fields = {(register.name, field.name) for field in register.fields if field.kind is Kind.STORAGE}
            assert different == {register.name} | fields
            await write(ctx, dut, register, old)

    run(dut, testbench)


@named([register for register in INTERNAL.values() if fields_mask(register, Kind.STATUS)])
def test_status_reads_what_the_hardware_drives(register):
    rng = random.Random(register.address)
    dut = RegisterFile(P)

    async def testbench(ctx):
        for _ in range(8):
            expected = 0
            for field in register.fields:
                if field.kind is Kind.STATUS:
                    value = rng.getrandbits(field.width)
                    ctx.set(member(dut, register, field.name), value)
                    expected |= value << field.lsb
            assert await read(ctx, dut, register) == expected

    run(dut, testbench)


def test_every_other_access_is_refused_and_changes_nothing():
    """Unmapped and unaligned addresses, writes of read-only and reads of write-only registers."""
    dut = RegisterFile(P)
    mapped = {register.address + 4 * i: register for register in MAP for i in range(register.count)}

    async def testbench(ctx):
        ctx.set(dut.idle, 1)
        before = await state(ctx, dut)
        bus = dut.access
        ctx.set(bus.data, ALL_ONES)
        ctx.set(bus.strobe, 0b1111)
        for address in range(1 << ADDRESS_BITS):
            register = mapped.get(address)
            ctx.set(bus.address, address)
            for is_write in (0, 1):
                ctx.set(bus.write, is_write)
                allowed = register is not None and (register.writable if is_write else register.readable)
                assert ctx.get(bus.refused) == (not allowed), hex(address)
        for address in (0x000, 0x024, 0x01C, 0xFFC, 0x042, 0x200 + 4 * P.turns):
            assert (await access(ctx, dut, address, ALL_ONES))[1]
        assert await state(ctx, dut) == before

    run(dut, testbench)


def test_guarded_registers_are_written_only_while_idle():
    dut = RegisterFile(P)
    guarded = [register for register in MAP if register.guarded]
    assert {"CONFIG", "CAPACITY_SRAM", "CAPACITY_HBM", "BANDWIDTH", "GAP_PRIOR"} == {r.name for r in guarded}

    async def testbench(ctx):
        for register in guarded:
            old = reset_value(register)
            assert (await access(ctx, dut, register.address, ALL_ONES))[1]
            assert await read(ctx, dut, register) == old
            ctx.set(dut.idle, 1)
            await write(ctx, dut, register, ALL_ONES)
            assert await read(ctx, dut, register) == fields_mask(register, Kind.STORAGE) != old
            ctx.set(dut.idle, 0)
        unguarded = MAP["IRQ_ENABLE"]
        await write(ctx, dut, unguarded, ALL_ONES)
        assert await read(ctx, dut, unguarded) == fields_mask(unguarded, Kind.STORAGE)

    run(dut, testbench)


def test_pulses_last_one_cycle_and_obey_the_strobe():
    dut = RegisterFile(P)
    control = MAP["CONTROL"]
    pulses = {field.name: member(dut, control, field.name) for field in control.fields}
    assert all(field.kind is Kind.PULSE for field in control.fields)

    def high(ctx):
        return {name for name, pulse in pulses.items() if ctx.get(pulse)}

    async def testbench(ctx):
        for field in control.fields:
            await write(ctx, dut, control, 1 << field.lsb)
            assert high(ctx) == {field.name}
            await ctx.tick()
            assert high(ctx) == set()
            await write(ctx, dut, control, 1 << field.lsb, strobe=0b1110)
            assert high(ctx) == set()

    run(dut, testbench)


@named([register for register in INTERNAL.values() if fields_mask(register, Kind.STICKY)])
def test_sticky_bits_are_cleared_by_ones_and_a_cause_beats_a_clear(register):
    dut = RegisterFile(P)
    sticky = [field for field in register.fields if field.kind is Kind.STICKY]
    everything = fields_mask(register, Kind.STICKY)

    async def pulse(ctx, *fields):
        for field in fields:
            ctx.set(member(dut, register, field.name), 1)
        await ctx.tick()
        for field in fields:
            ctx.set(member(dut, register, field.name), 0)

    async def testbench(ctx):
        for field in sticky:
            await pulse(ctx, *sticky)
            bit = 1 << field.lsb
            await write(ctx, dut, register, 0)
            await write(ctx, dut, register, ALL_ONES, strobe=0b1110)
            assert await read(ctx, dut, register) == everything
            await write(ctx, dut, register, bit)
            assert await read(ctx, dut, register) == everything & ~bit
            # The cause comes in the very cycle of the clear.
            await pulse(ctx, field)
            bus = dut.access
            for signal, value in ((bus.address, register.address), (bus.write, 1), (bus.data, ALL_ONES)):
                ctx.set(signal, value)
            ctx.set(bus.strobe, 0b1111)
            ctx.set(bus.commit, 1)
            await pulse(ctx, field)
            ctx.set(bus.commit, 0)
            assert await read(ctx, dut, register) == bit

    run(dut, testbench)


def test_interrupt_line_is_any_enabled_cause():
    dut = RegisterFile(P)
    status, enable = MAP["IRQ_STATUS"], MAP["IRQ_ENABLE"]
    assert [f.name for f in status.fields] == [f.name for f in enable.fields]

    async def testbench(ctx):
        for cause in status.fields:
            ctx.set(member(dut, status, cause.name), 1)
            await ctx.tick()
            for field in enable.fields:
                await write(ctx, dut, enable, 1 << field.lsb)
                assert ctx.get(dut.irq) == (field is enable.field(cause.name))
            ctx.set(member(dut, status, cause.name), 0)
            await write(ctx, dut, status, ALL_ONES)
            await write(ctx, dut, enable, ALL_ONES)
            assert not ctx.get(dut.irq)

    run(dut, testbench)


def test_counters_count_each_cycle_and_clear_together():
    rng = random.Random(3)
    dut = RegisterFile(P)
    counters = [register for register in MAP if fields_mask(register, Kind.COUNTER)]
    assert len(counters) == 19
    inputs = [member(dut, register, "count") for register in counters]
    expected = [0] * len(counters)

    async def testbench(ctx):
        for cycle in range(60):
            clear = cycle == 30
            ctx.set(dut.clear, clear)
            for number, count in enumerate(inputs):
                high = rng.randrange(2)
                ctx.set(count, high)
                expected[number] = 0 if clear else expected[number] + high
            await ctx.tick()
        for count in inputs:
            ctx.set(count, 0)
        assert [await read(ctx, dut, register) for register in counters] == expected

    run(dut, testbench)


def test_counters_wrap(monkeypatch):
    # Nobody counts to 2**32: the counters start at its end.
    def started(register):
        fields = tuple(
            dataclasses.replace(field, reset=ALL_ONES - 1) if field.kind is Kind.COUNTER else field
            for field in register.fields
        )
        return dataclasses.replace(register, fields=fields)

    monkeypatch.setattr(csr, "register_map", lambda p: csr_map)
    csr_map = type(MAP)(started(register) for register in MAP)
    dut = RegisterFile(P)
    counters = [register for register in MAP if fields_mask(register, Kind.COUNTER)]

    async def testbench(ctx):
        for register in counters:
            ctx.set(member(dut, register, "count"), 1)
        for _ in range(3):
            await ctx.tick()
        for register in counters:
            ctx.set(member(dut, register, "count"), 0)
        assert {await read(ctx, dut, register) for register in counters} == {1}

    run(dut, testbench)


@named(EXTERNAL.values())
def test_external_registers_are_decoded(register):
    rng = random.Random(register.address)
    dut = RegisterFile(P)
    bus = dut.access

    async def testbench(ctx):
        for index in {0, register.count // 2, register.count - 1}:
            for is_write in (0, 1):
                for refused in (0, 1):
                    word = rng.getrandbits(32)
                    ctx.set(member(dut, register, "data"), word)
                    ctx.set(member(dut, register, "refused"), refused)
                    ctx.set(bus.address, register.address + 4 * index)
                    ctx.set(bus.write, is_write)
                    assert not ctx.get(member(dut, register, "query"))
                    ctx.set(bus.query, 1)
                    allowed = register.writable if is_write else register.readable
                    assert ctx.get(bus.refused) == (refused or not allowed)
                    assert is_write or not register.readable or ctx.get(bus.data_read) == word
                    assert ctx.get(member(dut, register, "query"))
                    if register.count > 1:
                        assert ctx.get(member(dut, register, "index")) == index
                    ctx.set(bus.query, 0)
                    ctx.set(bus.commit, 1)
                    assert ctx.get(member(dut, register, "commit"))
                    for other in EXTERNAL.values():
                        assert other is register or not ctx.get(member(dut, other, "commit"))
                    ctx.set(bus.commit, 0)

    run(dut, testbench)
