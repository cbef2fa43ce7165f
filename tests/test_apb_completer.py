"""The APB completer: one query and at most one commit a transfer, wait states only while held."""

import random

import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib import memory

from unison.hdl.apb import ApbCompleter
from unison.sim.pysim import pause, run

WORDS = 16
REFUSED = 0x800


class Bench(Elaboratable):
    """A completer before a memory; addresses from ``REFUSED`` on are refused."""

    def __init__(self):
        self.completer = ApbCompleter()

    def elaborate(self, platform):
        m = Module()
        m.submodules.completer = self.completer
        access = self.completer.access
        m.submodules.memory = storage = memory.Memory(shape=32, depth=WORDS, init=[])
        write, read = storage.write_port(granularity=8), storage.read_port(domain="comb")
        word = access.address[2:6]
        m.d.comb += [
            write.addr.eq(word),
            write.data.eq(access.data),
            write.en.eq(access.strobe & (access.commit & access.write).replicate(4)),
            read.addr.eq(word),
            access.data_read.eq(read.data),
            access.refused.eq(access.address >= REFUSED),
        ]
        return m


async def transfer(ctx, apb, address, data=None, strobe=0):
    """One transfer; returns what was read, PSLVERR, and its cycles. The bus is left selected: the next may follow."""
    for signal, value in (
        (apb.psel, 1),
        (apb.penable, 0),
        (apb.paddr, address),
        (apb.pwrite, data is not None),
        (apb.pwdata, data or 0),
        (apb.pstrb, strobe),
    ):
        ctx.set(signal, value)
    assert not ctx.get(apb.pready)
    await ctx.tick()
    ctx.set(apb.penable, 1)
    cycles = 2
    while not ctx.get(apb.pready):
        await ctx.tick()
        cycles += 1
    result = ctx.get(apb.prdata), ctx.get(apb.pslverr), cycles
    await ctx.tick()
    return result


def idle(ctx, apb):
    ctx.set(apb.psel, 0)
    ctx.set(apb.penable, 0)


def counting(access, counts):
    """A monitor of the register side: queries and commits in ``counts``, and a query before each commit."""

    async def monitor(ctx):
        sampled = (access.query, access.commit, access.refused)
        queried_refused = None
        async for _, _, query, commit, refused in ctx.tick().sample(*sampled):
            assert not (query and commit)
            if commit:
                assert queried_refused == 0
                queried_refused = None
            if query:
                queried_refused = refused
            counts["query"] += query
            counts["commit"] += commit

    return monitor


@pytest.mark.parametrize("idles", [False, True], ids=["back_to_back", "idle_between"])
@pytest.mark.parametrize("held", [0.0, 0.4], ids=["free", "held"])
def test_transfers_reach_the_registers_once(held, idles):
    rng = random.Random(1)
    bench = Bench()
    apb, access, hold = bench.completer.apb, bench.completer.access, bench.completer.hold
    counts = {"query": 0, "commit": 0}
    words = [0] * WORDS
    transfers = accepted = 0

    async def testbench(ctx):
        nonlocal transfers, accepted
        for _ in range(250):
            if idles and rng.random() < 0.5:
                idle(ctx, apb)
                for _ in range(rng.randrange(3)):
                    await ctx.tick()
                    assert not ctx.get(apb.pready)
            number, refused = rng.randrange(WORDS), rng.random() < 0.2
            address = 4 * number + refused * REFUSED
            transfers += 1
            accepted += not refused
            if rng.random() < 0.5:
                data, strobe = rng.getrandbits(32), rng.randrange(16)
                _, error, cycles = await transfer(ctx, apb, address, data, strobe)
                if not refused:
                    mask = sum(0xFF << 8 * byte for byte in range(4) if strobe >> byte & 1)
                    words[number] = words[number] & ~mask | data & mask
            else:
                read, error, cycles = await transfer(ctx, apb, address)
                assert refused or read == words[number]
            assert error == refused
            if not held:
                assert cycles == 2
        idle(ctx, apb)
        await ctx.tick()

    async def hold_at_random(ctx):
        while True:
            ctx.set(hold, rng.random() < held)
            await ctx.tick()

    run(bench, testbench, monitors=[counting(access, counts), hold_at_random])
    assert counts == {"query": transfers, "commit": accepted}


@pytest.mark.parametrize("wait", [1, 2, 7])
def test_a_held_bus_waits_and_answers_in_the_second_cycle_after(wait):
    bench = Bench()
    apb, hold = bench.completer.apb, bench.completer.hold

    async def release(ctx):
        ctx.set(hold, 1)
        await pause(ctx, wait)
        ctx.set(hold, 0)

    async def testbench(ctx):
        _, error, cycles = await transfer(ctx, apb, 4, 123, 0b1111)
        assert (error, cycles) == (0, wait + 2)
        assert (await transfer(ctx, apb, 4))[0] == 123

    # Order matters within one instant: the bus is held before the transfer begins.
    run(bench, release, testbench)


def test_an_error_is_shown_only_with_ready_and_leaves_nothing_behind():
    bench = Bench()
    apb = bench.completer.apb

    async def watch(ctx):
        async for _, _, ready, error in ctx.tick().sample(apb.pready, apb.pslverr):
            assert ready or not error

    async def testbench(ctx):
        assert (await transfer(ctx, apb, REFUSED + 8, 5, 0b1111))[1] == 1
        idle(ctx, apb)
        await pause(ctx, 2)
        assert (await transfer(ctx, apb, 8))[:2] == (0, 0)
        assert (await transfer(ctx, apb, REFUSED))[1] == 1
        assert (await transfer(ctx, apb, 8, 6, 0b1111))[1] == 0
        assert (await transfer(ctx, apb, 8))[:2] == (6, 0)

    run(bench, testbench, monitors=[watch])
