"""The FIFO: order, level and stalls at both ends."""

import random

import pytest

from unison.formats import EVENT, pack
from unison.hdl.queue import Queue
from unison.sim.pysim import get, keeps_payload, put, run


def random_stalls(rng, longest):
    return lambda: max(0, rng.randrange(-longest, longest + 1))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("depth", [4, 5, 16])
@pytest.mark.parametrize(("slow_put", "slow_get"), [(0, 0), (6, 1), (1, 6), (3, 3)])
def test_payloads_come_out_in_order_under_stalls(depth, slow_put, slow_get, seed):
    rng = random.Random(seed)
    dut = Queue(EVENT, depth)
    events = [{name: rng.getrandbits(field.width) for name, field in EVENT} for _ in range(60)]
    put_stall, get_stall = random_stalls(rng, slow_put), random_stalls(rng, slow_get)
    received = []

    async def producer(ctx):
        for event in events:
            await put(ctx, dut.put, event, put_stall())

    async def consumer(ctx):
        for _ in events:
            received.append((await get(ctx, dut.get, get_stall())).as_bits())

    async def watch_level(ctx):
        held = 0
        sampled = (dut.level, dut.put.valid, dut.put.ready, dut.get.valid, dut.get.ready)
        async for _, _, level, put_valid, put_ready, get_valid, get_ready in ctx.tick().sample(*sampled):
            assert (level, bool(put_ready), bool(get_valid)) == (held, held < depth, held > 0)
            held += (put_valid and put_ready) - (get_valid and get_ready)

    run(dut, producer, consumer, monitors=[keeps_payload(dut.get), watch_level])
    assert received == [pack(EVENT, **event) for event in events]


def test_a_full_queue_takes_nothing_until_one_has_left():
    dut = Queue(8, 4)

    async def testbench(ctx):
        for value in range(4):
            await put(ctx, dut.put, value)
        assert (ctx.get(dut.level), ctx.get(dut.put.ready)) == (4, 0)
        ctx.set(dut.put.payload, 99)
        ctx.set(dut.put.valid, 1)
        for _ in range(3):
            await ctx.tick()
        ctx.set(dut.put.valid, 0)
        assert [await get(ctx, dut.get) for _ in range(4)] == [0, 1, 2, 3]
        assert (ctx.get(dut.level), ctx.get(dut.get.valid)) == (0, 0)

    run(dut, testbench)
