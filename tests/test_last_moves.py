"""The set of slots that took part in the last moves."""

import random

import pytest

from unison.hdl.last_moves import LastMoves
from unison.params import Params
from unison.sim.pysim import run


@pytest.mark.parametrize("sessions", [4, 5, 16])
def test_clear_then_remove_then_add(sessions):
    rng = random.Random(sessions)
    dut = LastMoves(Params(sessions=sessions))
    members = set()

    async def testbench(ctx):
        for _ in range(400):
            slot = rng.randrange(sessions)
            clear, remove, add = rng.random() < 0.1, rng.random() < 0.4, rng.random() < 0.4
            for signal, value in ((dut.slot, slot), (dut.clear, clear), (dut.remove, remove), (dut.add, add)):
                ctx.set(signal, value)
            await ctx.tick()
            if clear:
                members.clear()
            if remove:
                members.discard(slot)
            if add:
                members.add(slot)
            assert ctx.get(dut.any) == bool(members)
            if members:
                assert ctx.get(dut.lowest) == min(members)

    run(dut, testbench)
