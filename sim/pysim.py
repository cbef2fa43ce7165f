"""Runs testbenches in Amaranth's own simulator: under a deadline, on streams that stall, on the APB port."""

from amaranth.hdl import Cat, Value
from amaranth.sim import Simulator

from unison.registers import register_map

__all__ = ["ApbHost", "DeadlineError", "get", "keeps_payload", "pause", "put", "run", "sample_until"]

PERIOD = 1e-8


class DeadlineError(AssertionError):
    """The testbenches did not end in time: the design, or a testbench, hangs."""


def run(dut, *testbenches, monitors=(), deadline=20_000):
    """Runs ``testbenches`` together from reset until all have returned; ``monitors`` run beside them without an end.

    Raises
    ------
    DeadlineError
        After ``deadline`` cycles.
    """
    simulator = Simulator(dut)
    simulator.add_clock(PERIOD)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    for monitor in monitors:
        simulator.add_testbench(monitor, background=True)

    async def watch(ctx):
        await ctx.delay(deadline * PERIOD)
        raise DeadlineError(f"no end after {deadline} cycles")

    simulator.add_testbench(watch, background=True)
    simulator.run()


async def pause(ctx, cycles):
    """Waits for a number of cycles that may be 0."""
    for _ in range(cycles):
        await ctx.tick()


async def sample_until(ctx, condition, *values):
    """Waits for a cycle at whose end ``condition`` is high; returns ``values`` as they then were."""
    # The simulator's own ``until`` warns from the garbage collector when a run ends while it waits.
    while True:
        _, _, met, *sampled = await ctx.tick().sample(condition, *values)
        if met:
            return sampled


async def put(ctx, stream, payload, stall=0):
    """Puts one payload into ``stream`` after ``stall`` cycles without one."""
    await pause(ctx, stall)
    ctx.set(stream.payload, payload)
    ctx.set(stream.valid, 1)
    await sample_until(ctx, stream.ready)
    ctx.set(stream.valid, 0)


async def get(ctx, stream, stall=0):
    """Takes one payload out of ``stream`` after ``stall`` cycles of not being ready."""
    await pause(ctx, stall)
    ctx.set(stream.ready, 1)
    (payload,) = await sample_until(ctx, stream.valid, stream.payload)
    ctx.set(stream.ready, 0)
    return payload


def keeps_payload(stream):
    """A monitor: what ``stream`` offers stays offered, and the same, until it is taken."""

    async def monitor(ctx):
        waiting = None
        bits = Value.cast(stream.payload)
        async for _, _, valid, ready, payload in ctx.tick().sample(stream.valid, stream.ready, bits):
            assert waiting is None or (valid and payload == waiting), f"{payload:#x} replaced {waiting:#x} that waited"
            waiting = payload if valid and not ready else None

    return monitor


class ApbHost:
    """Drives the APB port of ``dut``, an instance ``p``; idles at random between transfers if given an ``rng``."""

    def __init__(self, dut, p, rng=None):
        self.dut = dut
        self.map = register_map(p)
        self.rng = rng
        self._selects = Cat(dut.psel, dut.penable)
        self._request = Cat(dut.paddr, dut.pwrite, dut.pwdata, dut.pstrb)

    async def transfer(self, ctx, address, data=None, strobe=0b1111):
        """One transfer, a read when ``data`` is None; returns what was read and whether PSLVERR was answered."""
        if self.rng is not None:
            await pause(ctx, max(0, self.rng.randrange(-4, 4)))
        request = address if data is None else address | 1 << 12 | data << 13 | strobe << 45
        ctx.set(self._request, request)
        ctx.set(self._selects, 0b01)
        await ctx.tick()
        ctx.set(self._selects, 0b11)
        read, error = await sample_until(ctx, self.dut.pready, self.dut.prdata, self.dut.pslverr)
        ctx.set(self._selects, 0b00)
        return read, bool(error)

    async def read(self, ctx, name, index=0):
        """The value of a register; AssertionError on PSLVERR."""
        value, error = await self.transfer(ctx, self.map.address(name, index))
        assert not error, f"reading {name}[{index}] answered PSLVERR"
        return value

    async def write(self, ctx, name, value, index=0):
        """Writes a register; AssertionError on PSLVERR."""
        _, error = await self.transfer(ctx, self.map.address(name, index), value)
        assert not error, f"writing {value:#x} to {name}[{index}] answered PSLVERR"
