"""The decision clock counts exactly and saturates; a high-water mark misses no cycle."""

import functools
import random

import pytest
from amaranth.hdl import Signal

from unison.hdl import stats
from unison.hdl.stats import DecisionClock, HighWater
from unison.sim.pysim import run

MOST = (1 << 32) - 1


async def decide(ctx, dut, cycles, decision=True):
    """An event that takes ``cycles``; ``end`` rises only if it was a decision."""
    ctx.set(dut.begin, 1)
    await ctx.tick()
    ctx.set(dut.begin, 0)
    for _ in range(cycles - 1):
        await ctx.tick()
    ctx.set(dut.end, decision)
    await ctx.tick()
    ctx.set(dut.end, 0)


def values(ctx, dut):
    return ctx.get(dut.total), ctx.get(dut.last), ctx.get(dut.worst)


def test_cycles_from_begin_to_end():
    rng = random.Random(5)
    dut = DecisionClock()

    async def testbench(ctx):
        total, last, worst = 0, 0, 0
        for _ in range(60):
            if rng.random() < 0.1:
                ctx.set(dut.clear, 1)
                await ctx.tick()
                ctx.set(dut.clear, 0)
                total, last, worst = 0, 0, 0
            cycles, decision = rng.randint(1, 30), rng.random() < 0.7
            await decide(ctx, dut, cycles, decision)
            if decision:
                total, last, worst = total + cycles, cycles, max(worst, cycles)
            assert values(ctx, dut) == (total, last, worst)

    run(dut, testbench)


@pytest.mark.parametrize("cycles", [1, 2, 9])
def test_last_and_worst_saturate(monkeypatch, cycles):
    # Nobody waits for 2**32 cycles: the clock of the event in execution starts near the end.
    monkeypatch.setattr(stats, "Signal", functools.partial(Signal, init=MOST - 3))
    dut = DecisionClock()

    async def testbench(ctx):
        for _ in range(cycles - 1):
            await ctx.tick()
        ctx.set(dut.end, 1)
        await ctx.tick()
        expected = min(MOST - 3 + cycles - 1, MOST)
        assert values(ctx, dut) == (expected, expected, expected)

    run(dut, testbench)


def test_total_wraps():
    dut = DecisionClock()

    async def testbench(ctx):
        ctx.set(dut.total, MOST - 4)
        await decide(ctx, dut, 7)
        assert values(ctx, dut) == (2, 7, 7)

    run(dut, testbench)


def test_high_water_mark():
    rng = random.Random(6)
    dut = HighWater(5)

    async def testbench(ctx):
        mark = 0
        for _ in range(300):
            level, clear = rng.randrange(1 << rng.randrange(6)), rng.random() < 0.05
            ctx.set(dut.level, level)
            ctx.set(dut.clear, clear)
            await ctx.tick()
            mark = level if clear else max(mark, level)
            assert ctx.get(dut.mark) == mark

    run(dut, testbench)
