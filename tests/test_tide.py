"""Tide's rule, the whole truth table."""

import itertools

from amaranth.sim import Simulator

from unison.hdl.tide import TideAction, TideRule

INPUTS = ("room", "demotable", "colder", "pays_promotion", "pays_swap", "holds")


def rule(room, demotable, colder, pays_promotion, pays_swap, holds):
    """The contract's words for one step, once there is a p* and no completed d* must leave."""
    if room:
        return TideAction.PROMOTE if pays_promotion else TideAction.STOP
    return TideAction.SWAP if demotable and colder and pays_swap and holds else TideAction.STOP


def test_every_combination():
    dut = TideRule()

    async def testbench(ctx):
        for values in itertools.product((0, 1), repeat=len(INPUTS)):
            for name, value in zip(INPUTS, values, strict=True):
                ctx.set(getattr(dut, name), value)
            assert ctx.get(dut.action) is rule(*values), dict(zip(INPUTS, values, strict=True))

    simulator = Simulator(dut)
    simulator.add_testbench(testbench)
    simulator.run()
