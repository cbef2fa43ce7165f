"""The usage of one tier, and what fits beside it."""

import random

import pytest

from unison.formats import TOKENS_MAX
from unison.hdl.usage import TierUsage
from unison.params import Params
from unison.sim.pysim import run


@pytest.mark.parametrize("sessions", [4, 5, 64])
def test_sums_and_room(sessions):
    rng = random.Random(sessions)
    p = Params(sessions=sessions)
    dut = TierUsage(p)
    most = (1 << p.capacity_bits) - 1
    residents = []

    async def count(ctx, tokens, **strobes):
        names = ("add", "subtract", "busy_too", "busy_only")
        assert strobes.keys() <= set(names)
        ctx.set(dut.tokens, tokens)
        for name in names:
            ctx.set(getattr(dut, name), strobes.get(name, 0))
        await ctx.tick()
        for name in names:
            ctx.set(getattr(dut, name), 0)

    def check(ctx):
        used = sum(tokens for tokens, _ in residents)
        busy = sum(tokens for tokens, is_busy in residents if is_busy)
        assert (ctx.get(dut.used), ctx.get(dut.busy)) == (used, busy)
        for _ in range(4):
            arriving = rng.choice([1, TOKENS_MAX, rng.randint(1, TOKENS_MAX)])
            leaving = rng.choice([0, 0, TOKENS_MAX, rng.randint(1, TOKENS_MAX)])
            edge = rng.choice([used + arriving - leaving, busy + arriving]) + rng.choice([-1, 0, 1])
            capacity = rng.choice([0, most, min(max(edge, 0), most)])
            for signal, value in ((dut.arriving, arriving), (dut.leaving, leaving), (dut.capacity, capacity)):
                ctx.set(signal, value)
            assert ctx.get(dut.fits) == (used - leaving + arriving <= capacity)
            assert ctx.get(dut.can_fit) == (arriving <= max(0, capacity - busy))

    async def testbench(ctx):
        for _ in range(300):
            choice = rng.random()
            if len(residents) < sessions and (choice < 0.6 or not residents):
                tokens, busy = rng.choice([1, TOKENS_MAX, rng.randint(1, TOKENS_MAX)]), rng.random() < 0.5
                residents.append((tokens, busy))
                await count(ctx, tokens, add=1, busy_too=busy)
            elif choice < 0.85:
                tokens, busy = residents.pop(rng.randrange(len(residents)))
                await count(ctx, tokens, subtract=1, busy_too=busy)
            elif any(busy for _, busy in residents):
                number = next(i for i, (_, busy) in enumerate(residents) if busy)
                residents[number] = (residents[number][0], False)
                await count(ctx, residents[number][0], subtract=1, busy_only=1)
            else:
                await count(ctx, rng.getrandbits(20), busy_too=1)
            check(ctx)

    run(dut, testbench)
