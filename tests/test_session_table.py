"""The session table: independent columns, the lowest free slot, a reset of the flags."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal

from unison.formats import Residency
from unison.hdl.table import SessionTable
from unison.params import Params
from unison.sim.pysim import run


def random_flags(rng):
    return {"residency": rng.randrange(4), "busy": rng.randrange(2), "completed": rng.randrange(2)}


@pytest.mark.parametrize("sessions", [4, 5, 11, 16])
def test_columns_are_written_apart_and_the_lowest_free_slot_is_found(sessions):
    rng = random.Random(sessions)
    p = Params(sessions=sessions)
    dut, reset = SessionTable(p), Signal()
    flags = [random_flags(rng) | {"residency": 0} for _ in range(sessions)]
    facts, scores = [None] * sessions, [None] * sessions

    def check(ctx, slot):
        ctx.set(dut.read_slot, slot)
        row = dut.row
        read = ctx.get(row.flags)
        assert read.residency.value == flags[slot]["residency"]
        if flags[slot]["residency"]:
            assert (read.busy, read.completed) == (flags[slot]["busy"], flags[slot]["completed"])
        if facts[slot] is not None:
            assert ctx.get(row.facts) == facts[slot]
        if scores[slot] is not None:
            assert ctx.get(row.score) == scores[slot]

    def check_free(ctx):
        free = [slot for slot in range(sessions) if flags[slot]["residency"] == Residency.FREE.value]
        assert ctx.get(dut.any_free) == bool(free)
        if free:
            assert ctx.get(dut.lowest_free) == free[0]

    async def testbench(ctx):
        check_free(ctx)
        for step in range(40 * sessions):
            slot, score_slot = rng.randrange(sessions), rng.randrange(sessions)
            new_flags = random_flags(rng)
            new_facts = {"turn": rng.randrange(51), "gap": rng.getrandbits(32), "tokens": rng.getrandbits(20)}
            new_score = rng.getrandbits(p.live_score_bits)
            # In phases almost everything is free, or almost nothing is.
            if rng.random() < 0.8:
                new_flags["residency"] = 0 if step // (10 * sessions) % 2 else rng.randrange(1, 4)
            writes = [rng.randrange(2) for _ in range(3)]
            for signal, value in (
                (dut.write_slot, slot),
                (dut.flags, new_flags),
                (dut.facts, new_facts),
                (dut.score_slot, score_slot),
                (dut.score, new_score),
            ):
                ctx.set(signal, value)
            for signal, value in zip((dut.flags_enable, dut.facts_enable, dut.score_enable), writes, strict=True):
                ctx.set(signal, value)
            check(ctx, slot)
            await ctx.tick()
            if writes[0]:
                flags[slot] = new_flags
            if writes[1]:
                facts[slot] = new_facts
            if writes[2]:
                scores[score_slot] = new_score
            check(ctx, slot)
            check(ctx, rng.randrange(sessions))
            check_free(ctx)
        for signal in (dut.flags_enable, dut.facts_enable, dut.score_enable):
            ctx.set(signal, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        for slot in range(sessions):
            flags[slot] = {"residency": 0}
            check(ctx, slot)
        check_free(ctx)

    run(ResetInserter(reset)(dut), testbench)
