"""The hazard table: cleared by reset, copied as a whole, clamped where it is read."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from unison.hdl.hazard import HazardTable
from unison.params import N64
from unison.sim.pysim import run

SMALL = N64.replace(turn_limit=4, hazard_bits=8)


async def write(ctx, dut, turn, hazard):
    ctx.set(dut.write_turn, turn)
    ctx.set(dut.write_hazard, hazard)
    ctx.set(dut.write_enable, 1)
    await ctx.tick()
    ctx.set(dut.write_enable, 0)


async def cycles_until_clear(ctx, dut):
    cycles = 0
    while ctx.get(dut.clearing):
        assert ctx.get(dut.busy)
        await ctx.tick()
        cycles += 1
    assert not ctx.get(dut.busy)
    return cycles


async def copy(ctx, dut):
    """Copies and returns the cycles that it took."""
    ctx.set(dut.copy, 1)
    await ctx.tick()
    ctx.set(dut.copy, 0)
    cycles = 0
    while ctx.get(dut.busy):
        assert not ctx.get(dut.clearing)
        await ctx.tick()
        cycles += 1
    return cycles


def tables(ctx, dut):
    """The shadow and the live table."""
    shadow, live = [], []
    for turn in range(dut.p.turns):
        ctx.set(dut.shadow_turn, turn)
        ctx.set(dut.turn, turn)
        shadow.append(ctx.get(dut.shadow_hazard))
        live.append(ctx.get(dut.hazard))
    return shadow, live


@pytest.mark.parametrize("p", [N64, SMALL], ids=["51_turns", "5_turns"])
def test_copy_takes_a_cycle_a_turn_clamps_and_keeps_the_shadow(p):
    rng = random.Random(p.turns)
    dut = HazardTable(p)
    highest = p.hazard_max - p.survival_min

    async def testbench(ctx):
        assert await cycles_until_clear(ctx, dut) == p.turns
        assert tables(ctx, dut) == ([0] * p.turns, [0] * p.turns)
        live = [0] * p.turns
        for _ in range(2):
            shadow = [rng.choice([0, highest, highest + 1, p.hazard_max, rng.randrange(highest)]) for _ in live]
            for turn in rng.sample(range(p.turns), p.turns):
                await write(ctx, dut, turn, shadow[turn])
                assert tables(ctx, dut)[1] == live
            assert await copy(ctx, dut) == p.turns
            live = [min(hazard, highest) for hazard in shadow]
            assert tables(ctx, dut) == (shadow, live)

    run(dut, testbench)


def test_reset_clears_both_tables_and_writes_meanwhile_are_ignored():
    dut, reset, p = HazardTable(SMALL), Signal(), SMALL

    async def testbench(ctx):
        await cycles_until_clear(ctx, dut)
        for turn in range(p.turns):
            await write(ctx, dut, turn, 99)
        await copy(ctx, dut)
        # The reset falls into a second copy.
        ctx.set(dut.copy, 1)
        await ctx.tick()
        ctx.set(dut.copy, 0)
        await ctx.tick()
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        for turn in range(p.turns):
            assert ctx.get(dut.clearing)
            await write(ctx, dut, p.turns - 1 - turn, 55)
        assert await cycles_until_clear(ctx, dut) == 0
        assert tables(ctx, dut) == ([0] * p.turns, [0] * p.turns)

    run(ResetInserter(reset)(dut), testbench)
