"""The test bench: clock, reset, the APB host, and a driver of events and answers that stalls at random."""

import logging
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, SimTimeoutError, Timer, with_timeout
from cocotb.utils import get_sim_time
from cocotbext.apb import ApbBus, ApbHost

from unison.registers import register_map
from unison.sim.apb_checker import ApbChecker
from unison.sim.probe import PERIOD, Probe, now

__all__ = ["Access", "Bench", "Driver", "IDLE", "PHASES"]

#: An event takes fewer cycles than this, at N = 256 and with as many evictions as there are sessions.
PATIENCE = 400_000
#: Bits of STATUS.
IDLE, COMMIT_PENDING = 1, 2


class Access:
    """What an APB access answered: ``error`` is PSLVERR, ``value`` what was read, ``cycle`` that of its last phase.

    The host of cocotbext-apb compares PSLVERR with what was expected; comparing equal to both takes it as it comes.
    """

    __slots__ = ("error", "value", "cycle")

    def __ne__(self, error):
        self.error = error
        return False


class Bench:
    """The RTL of an instance ``p`` under a clock, with an APB host, the protocol checker and probes.

    ``start`` before anything else. One access at a time: all go through ``access``.
    """

    def __init__(self, dut, p):
        self.dut = dut
        self.p = p
        self.map = register_map(p)
        self.probe = Probe(dut, p)
        self.checker = ApbChecker(dut)
        self._addresses = {register.name: register.address for register in self.map}

    async def start(self):
        """Starts the clock and the watchers, and resets."""
        dut = self.dut
        # The host would tell its version and widths each time.
        logging.disable(logging.INFO)
        self._host = ApbHost(ApbBus.from_entity(dut), dut.clk)
        self._host.return_int = True
        dut.rst.value = 1
        # Cycles are numbered by dividing the time: the first edge must fall on a multiple of the period.
        await Timer(PERIOD - get_sim_time("step") % PERIOD, "step")
        Clock(dut.clk, PERIOD, unit="step").start()
        await self.reset()
        for watcher in (*self.probe.watchers(), self.checker.watch(), self.checker.watch_enable()):
            cocotb.start_soon(watcher)

    async def reset(self, cycles=2):
        """Resets by ``rst``, at once; no access may be under way."""
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, cycles)
        self.dut.rst.value = 0

    async def access(self, address, data=None, *, strobe=0b1111):
        """One transfer: a write of ``data``, or a read when there is none. Returns its ``Access``."""
        result = Access()
        if data is None:
            result.value = await self._host.read(address, error_expected=result)
        else:
            await self._host.write(address, data, strb=strobe, error_expected=result)
        result.cycle = now()
        return result

    async def read(self, name, index=0):
        """Value of a register; AssertionError for PSLVERR."""
        result = await self.access(self._addresses[name] + 4 * index)
        assert not result.error, f"PSLVERR to a read of {name}[{index}]"
        return result.value

    async def write(self, name, value, index=0):
        """Writes a register; AssertionError for PSLVERR."""
        result = await self.access(self._addresses[name] + 4 * index, value)
        assert not result.error, f"PSLVERR to a write of {value:#x} to {name}[{index}]"

    async def identify(self):
        """Reads the registers that tell what the instance is, and compares them with the map."""
        for name in ("ID", "VERSION", "SIZES", "DEPTHS", "FORMAT", "GAP_UNIT", "PENALTY"):
            expected = sum(field.reset << field.lsb for field in self.map[name].fields)
            value = await self.read(name)
            assert value == expected, f"{name} reads as {value:#x}, not {expected:#x}"

    async def configure(self, config):
        """Writes a ``model.engine.Config`` to the registers, while idle, and reads it back."""
        values = {
            "CAPACITY_SRAM": config.capacity_sram,
            "CAPACITY_HBM": config.capacity_hbm,
            "BANDWIDTH": config.numerator | config.denominator << 16,
            "GAP_PRIOR": config.gap_prior,
            "CONFIG": config.moves - 1 | config.ignore_dma << 3 | config.swap_completed << 4,
        }
        for name, value in values.items():
            await self.write(name, value)
        for name, value in values.items():
            assert await self.read(name) == value, f"{name} does not keep {value:#x}"

    async def write_hazards(self, hazards, known=None):
        """Writes those of the shadow table's hazards that differ from ``known`` (all zero after a reset)."""
        known = [0] * len(hazards) if known is None else known
        for turn, (value, old) in enumerate(zip(hazards, known, strict=True)):
            if value != old:
                await self.write("HAZARD", value, turn)

    async def commit(self):
        """Makes the shadow table live."""
        await self.write("COMMIT", 1)

    async def until_idle(self):
        """Waits until nothing is queued, in execution or pending."""
        deadline = now() + PATIENCE
        while await self.read("STATUS") & (IDLE | COMMIT_PENDING) != IDLE:
            assert now() < deadline, f"not idle after {PATIENCE} cycles"

    async def entry(self, slot):
        """An entry as software reads it: a dict of its fields. Only while idle."""
        await self.write("ENTRY_INDEX", slot)
        words = [await self.read(f"ENTRY{number}") for number in range(4)]
        state = {field.name: words[0] >> field.lsb & (1 << field.width) - 1 for field in self.map["ENTRY0"].fields}
        return state | {"gap": words[1], "score": words[3] << 32 | words[2]}


#: How a driver stalls, by name: see ``Driver``.
PHASES = ("steady", "flood", "asleep", "lockstep", "lazy", "polling")


class Driver:
    """Feeds events and reads answers over the one bus, in phases whose kind and length are drawn from ``rng``.

    * steady: reads when the interrupt says so, else writes.
    * flood: writes until refused, tries again at once, reads a little, writes again.
    * asleep: reads nothing for a while, so that the answer FIFO fills and the engine stalls.
    * lockstep: one event at a time.
    * lazy: waits between events.
    * polling: reads the answer FIFO without looking at the interrupt.

    Without ``rng`` it is steady, or with ``lockstep`` takes one event at a time.

    ``board`` is told of everything: ``pushed``, ``refused`` and ``answered`` of ``scoreboard.Scoreboard``.
    """

    def __init__(self, bench, board, rng=None, *, lockstep=False):
        self.bench = bench
        self.board = board
        self.rng = random.Random(0) if rng is None else rng
        self._stalls = rng is not None
        self._lone_kind = "lockstep" if lockstep else "steady"
        self._operand = None
        self._waiting = None
        self._source = iter(())
        addresses = bench._addresses
        self._event0, self._event1 = addresses["EVENT0"], addresses["EVENT1"]
        self._answer0, self._answer1 = addresses["ANSWER0"], addresses["ANSWER1"]
        self._irq = bench.dut.irq
        self._window = bench.p.event_depth - 1

    async def run(self, events):
        """Feeds all ``events`` (an iterable, drawn one at a time) and reads all their answers."""
        await self.bench.write("IRQ_ENABLE", 1)
        self._source = iter(events)
        self._draw()
        while self._waiting is not None or self.board.outstanding:
            kind = self.rng.choice(PHASES) if self._stalls and self._waiting is not None else self._lone_kind
            length = self.rng.randint(4, 40) if self._stalls else 1 << 62
            await getattr(self, f"_{kind}")(length)

    def forget_operand(self):
        """To be called after EVENT1 was changed by another than the driver, a reset included."""
        self._operand = None

    def _draw(self):
        self._waiting = next(self._source, None)

    async def _push(self):
        """Writes the waiting event and draws the next one; whether the FIFO took it."""
        taken = await self._write()
        if taken:
            self._draw()
        return taken

    async def _write(self):
        """Writes the waiting event; whether the FIFO took it."""
        bench, (word0, operand) = self.bench, self._waiting
        if operand != self._operand:
            result = await bench.access(self._event1, operand)
            assert not result.error, "PSLVERR to a write of EVENT1"
            self._operand = operand
        result = await bench.access(self._event0, word0)
        if result.error:
            self.board.refused(word0, result.cycle)
            return False
        self.board.pushed(word0, operand, result.cycle)
        return True

    async def _take(self):
        """Reads one answer; False if there was none."""
        result = await self.bench.access(self._answer0)
        assert not result.error, "PSLVERR to a read of ANSWER0"
        low, cycle = result.value, result.cycle
        if low == 0:
            return False
        high = None
        if self.board.wants_second_word(low) or (self._stalls and self.rng.random() < 0.1):
            result = await self.bench.access(self._answer1)
            assert not result.error, "PSLVERR to a read of ANSWER1"
            high = result.value
        self.board.answered(low, high, cycle)
        return True

    async def _answer_waits(self):
        """Waits until there is an answer to read."""
        await FallingEdge(self.bench.dut.clk)
        if not self._irq.value:
            try:
                await with_timeout(RisingEdge(self._irq), PATIENCE * PERIOD, "step")
            except SimTimeoutError:
                raise AssertionError(f"no answer within {PATIENCE} cycles: {self.board.describe_next()}") from None

    async def _steady(self, length):
        for _ in range(length):
            if self._irq.value:
                await self._take()
                # The interrupt falls in the cycle after the one in which the last answer was taken.
                await FallingEdge(self.bench.dut.clk)
            elif self._waiting is not None and self.board.outstanding < self._window:
                await self._push()
            elif self.board.outstanding:
                await self._answer_waits()
            else:
                return

    async def _flood(self, length):
        for _ in range(length // 4):
            while self._waiting is not None and await self._push():
                pass
            for _ in range(self.rng.randint(0, 3)):
                if self._waiting is not None:
                    await self._push()
            for _ in range(self.rng.randint(1, 12)):
                if not await self._take():
                    break

    async def _asleep(self, length):
        until = now() + self.rng.choice((20, 200, 1000))
        while now() < until and self._waiting is not None:
            if not await self._push():
                await ClockCycles(self.bench.dut.clk, self.rng.randint(1, 100))

    async def _lockstep(self, length):
        for _ in range(length // 4):
            await self._take_all()
            if self._waiting is None:
                return
            await self._write()
            # The next event is drawn, which may switch the waves, when all is over with this one.
            await self._take_all()
            self._draw()

    async def _take_all(self):
        while self.board.outstanding:
            await self._answer_waits()
            await self._take()

    async def _lazy(self, length):
        for _ in range(length // 8):
            await ClockCycles(self.bench.dut.clk, self.rng.randint(1, 150))
            if self._waiting is not None:
                await self._push()
            while await self._take():
                pass

    async def _polling(self, length):
        for _ in range(length):
            if self._waiting is not None and self.rng.random() < 0.4:
                await self._push()
            else:
                await self._take()
