"""The whole IP over APB: FIFOs, interrupts, read-back and resets around an engine that gives the model's answers."""

import random
from collections import deque

import pytest
from amaranth.hdl import ResetInserter, Signal

from unison.formats import DMA_FAILED, EVENT, Opcode, Place, Residency, entry_layout, pack, unpack
from unison.hdl.top import Unison
from unison.model.engine import Config, Engine
from unison.params import Params
from unison.sim.pysim import ApbHost, pause, run

SMALL = Params(sessions=5, turn_limit=6, event_depth=4, answer_depth=5)
CONFIG = Config(capacity_sram=16, capacity_hbm=30, numerator=1, denominator=1, gap_prior=9, moves=2)
ANSWER, DRAINED, COMMITTED, REFUSED, ERROR = (1 << bit for bit in range(5))


def event(opcode, slot=0, tokens=0, operand=0):
    return pack(EVENT, opcode=opcode, slot=slot, tokens=tokens), operand


class Driver(ApbHost):
    """What software does: pushes events, reads answers, and compares them with those of a golden model."""

    def __init__(self, dut, p, rng=None):
        super().__init__(dut, p, rng)
        self.p = p
        self.restart()

    def restart(self):
        self.model = Engine(self.p)
        self.expected = deque()
        self.refusals = 0

    async def configure(self, ctx, config):
        self.model.configure(config)
        await self.write(ctx, "CAPACITY_SRAM", config.capacity_sram)
        await self.write(ctx, "CAPACITY_HBM", config.capacity_hbm)
        await self.write(ctx, "BANDWIDTH", config.numerator | config.denominator << 16)
        await self.write(ctx, "GAP_PRIOR", config.gap_prior)
        flags = config.ignore_dma << 3 | config.swap_completed << 4
        await self.write(ctx, "CONFIG", config.moves - 1 | flags)

    async def push(self, ctx, word0, operand):
        """Whether the event was taken; the model steps only then."""
        await self.write(ctx, "EVENT1", operand)
        _, error = await self.transfer(ctx, self.map.address("EVENT0"), word0)
        if error:
            self.refusals += 1
            return False
        self.expected.extend(answer.word for answer in self.model.step(word0, operand).answers)
        return True

    async def pop(self, ctx):
        """Reads one answer, if there is one, and compares it."""
        word = await self.read(ctx, "ANSWER0")
        if word:
            word |= await self.read(ctx, "ANSWER1") << 32
            assert self.expected, f"nobody asked for {word:#018x}"
            assert word == self.expected.popleft()
        return word

    async def drain(self, ctx):
        """Reads until every answer is there and the engine idle."""
        while self.expected:
            await self.pop(ctx)
        await self.wait_idle(ctx)
        assert await self.pop(ctx) == 0

    async def send(self, ctx, *events):
        """Executes events one by one."""
        for word0, operand in events:
            assert await self.push(ctx, word0, operand)
            await self.drain(ctx)

    async def wait_idle(self, ctx):
        while not await self.status(ctx, "idle"):
            pass

    async def status(self, ctx, field):
        field = self.map["STATUS"].field(field)
        return await self.read(ctx, "STATUS") >> field.lsb & (1 << field.width) - 1

    async def compare(self, ctx):
        """Asserts that counters, usage and the whole table read as the model's."""
        model = self.model
        for name, value in model.counters.items():
            assert await self.read(ctx, name) == value, name
        assert await self.read(ctx, "REFUSED") == self.refusals
        for name, sums in (("USED", model.used), ("BUSY", model.busy_used)):
            for tier in (Residency.SRAM, Residency.HBM):
                assert await self.read(ctx, f"{name}_{tier.name}") == sums[tier]
        assert await self.status(ctx, "dma_busy") == model.dma_busy
        for slot in range(self.p.sessions):
            await self.write(ctx, "ENTRY_INDEX", slot)
            words = [await self.read(ctx, f"ENTRY{number}") for number in range(4)]
            fields = {field.name: words[0] >> field.lsb for field in self.map["ENTRY0"].fields}
            fields |= {"gap": words[1], "score": words[2] | words[3] << 32}
            layout = entry_layout(self.p)
            entry = pack(layout, **{name: fields[name] & (1 << field.width) - 1 for name, field in layout})
            mask = model.entry_mask(slot)
            assert entry & mask == model.entry_word(slot) & mask, f"slot {slot}"


def random_event(rng, p):
    """Word 0 and operand; no slot is preferred, so many of them are errors."""
    opcode = rng.choices(range(9), [1, 20, 20, 50, 15, 8, 3, 15, 1])[0]
    tokens = rng.choice([rng.randint(1, 9)] * 20 + [0, 40])
    operand = rng.choice([0, rng.randrange(20), rng.getrandbits(32), (1 << 32) - 1])
    return opcode << 28 | rng.randrange(p.sessions + 1) << 20 | tokens, operand


@pytest.mark.parametrize("seed", range(3))
def test_bursts_and_late_readers_lose_nothing(seed):
    """Events come faster than they are executed, answers are read late: both FIFOs are full again and again."""
    rng = random.Random(seed)
    dut = Unison(SMALL)
    driver = Driver(dut, SMALL, rng)
    full = set()

    async def testbench(ctx):
        await driver.configure(ctx, CONFIG)
        hazards = [rng.getrandbits(SMALL.hazard_bits) for _ in range(SMALL.turns)]
        for turn, hazard in enumerate(hazards):
            await driver.write(ctx, "HAZARD", hazard, turn)
            driver.model.write_hazard(turn, hazard)
        await driver.write(ctx, "COMMIT", 1)
        driver.model.commit()
        await driver.wait_idle(ctx)
        for _ in range(25):
            for _ in range(rng.randrange(12)):
                if not await driver.push(ctx, *random_event(rng, SMALL)):
                    full.add("event")
            if await driver.status(ctx, "answer_full"):
                full.add("answer")
            for _ in range(rng.randrange(20)):
                await driver.pop(ctx)
        await driver.drain(ctx)
        await driver.compare(ctx)
        assert await driver.read(ctx, "EVENT_HIGH") in (SMALL.event_depth - 1, SMALL.event_depth)
        assert await driver.read(ctx, "ANSWER_HIGH") == SMALL.answer_depth

    run(dut, testbench, deadline=60_000)
    assert full == {"event", "answer"}


async def fill(ctx, driver):
    """Blocks the engine with unread answers, then the event FIFO with events; returns the events queued."""
    done = event(Opcode.DMA_DONE)
    p = driver.p
    # One answer each: as many as the answer FIFO holds, one whose answer waits in the engine, and what is queued.
    for _ in range(p.answer_depth + 1):
        assert await driver.push(ctx, *done)
        await pause(ctx, 10)
    assert await driver.status(ctx, "answer_full")
    for _ in range(p.event_depth - 1):
        assert not await driver.status(ctx, "event_full")
        assert await driver.push(ctx, *event(Opcode.GAP_END))
    assert await driver.status(ctx, "event_full")
    assert await driver.status(ctx, "event_level") == p.event_depth - 1


def test_one_place_is_kept_for_dma_done_and_refusals_are_counted():
    dut = Unison(SMALL)
    driver = Driver(dut, SMALL)

    async def testbench(ctx):
        await fill(ctx, driver)
        assert not await driver.read(ctx, "IRQ_STATUS") & REFUSED
        for opcode in (Opcode.ARRIVE, Opcode.GAP_START, Opcode.RELEASE):
            assert not await driver.push(ctx, *event(opcode, 0, 1))
        assert await driver.read(ctx, "IRQ_STATUS") & REFUSED
        assert await driver.push(ctx, *event(Opcode.DMA_DONE))
        assert await driver.status(ctx, "event_level") == SMALL.event_depth
        assert not await driver.push(ctx, *event(Opcode.DMA_DONE))
        assert await driver.read(ctx, "REFUSED") == driver.refusals == 4
        assert await driver.read(ctx, "EVENT_HIGH") == SMALL.event_depth
        await driver.drain(ctx)
        await driver.compare(ctx)

    run(dut, testbench)


def test_partial_strobes_push_nothing_and_are_no_refusals():
    dut = Unison(SMALL)
    driver = Driver(dut, SMALL)
    event0, event1 = driver.map.address("EVENT0"), driver.map.address("EVENT1")

    async def testbench(ctx):
        await driver.write(ctx, "EVENT1", 0x12345678)
        for strobe in range(15):
            assert (await driver.transfer(ctx, event1, 0xFFFFFFFF, strobe))[1]
            assert (await driver.transfer(ctx, event0, 0x70000000, strobe))[1]
        assert await driver.read(ctx, "EVENT1") == 0x12345678
        assert await driver.read(ctx, "STATUS") == 1
        assert await driver.read(ctx, "EVENTS") == await driver.read(ctx, "REFUSED") == 0
        assert await driver.read(ctx, "IRQ_STATUS") == 0
        # A commit, and a row of the hazard table, take single bytes.
        commit, hazard = driver.map.address("COMMIT"), driver.map.address("HAZARD", 3)
        assert (await driver.transfer(ctx, commit, 1, 0b1110))[1] is False
        assert await driver.status(ctx, "commit_pending") == 0
        for strobe, value in ((0b1110, 0xF00), (0b0001, 0xFAB), (0b0000, 0xFAB)):
            await driver.transfer(ctx, hazard, 0xFFFFFFFF if strobe == 0b1110 else 0x000000AB, strobe)
            assert await driver.read(ctx, "HAZARD", 3) == value

    run(dut, testbench)


@pytest.mark.parametrize("delay", range(4))
def test_an_answer_that_comes_while_the_empty_fifo_is_read_is_kept(delay):
    """Whatever cycle of the read it comes in: what was not shown was not taken."""
    dut = Unison(SMALL)
    driver = Driver(dut, SMALL)

    async def testbench(ctx):
        assert await driver.push(ctx, *event(Opcode.DMA_DONE))
        await pause(ctx, delay)
        for _ in range(8):
            await driver.pop(ctx)
        assert not driver.expected

    run(dut, testbench)


def test_second_word_belongs_to_the_answer_read_last():
    dut = Unison(SMALL)
    driver = Driver(dut, SMALL)

    async def testbench(ctx):
        for slot in (77, 88):
            assert await driver.push(ctx, *event(Opcode.ARRIVE, slot, 5))
        assert await driver.push(ctx, *event(Opcode.DMA_DONE))
        await pause(ctx, 30)
        for expected in tuple(driver.expected):
            assert await driver.read(ctx, "ANSWER0") == expected & 0xFFFFFFFF
            # A write is refused and changes nothing, the second word included.
            assert (await driver.transfer(ctx, driver.map.address("ANSWER0"), 0))[1]
            for _ in range(2):
                assert await driver.read(ctx, "ANSWER1") == expected >> 32
        assert await driver.read(ctx, "ANSWER0") == 0

    run(dut, testbench)


def test_causes_of_the_interrupt():
    dut = Unison(SMALL)
    driver = Driver(dut, SMALL)

    async def causes(ctx):
        value = await driver.read(ctx, "IRQ_STATUS")
        await driver.write(ctx, "IRQ_STATUS", value)
        return value

    async def testbench(ctx):
        assert await causes(ctx) == 0
        await driver.write(ctx, "IRQ_ENABLE", ANSWER)
        assert await driver.push(ctx, *event(Opcode.DMA_DONE))
        while not ctx.get(dut.irq):
            await ctx.tick()
        await ctx.tick()
        assert await causes(ctx) == ANSWER | DRAINED
        assert await causes(ctx) == ANSWER
        await driver.drain(ctx)
        assert not ctx.get(dut.irq)
        await driver.send(ctx, event(Opcode.RELEASE, 0))
        assert await causes(ctx) == DRAINED | ERROR
        await driver.write(ctx, "COMMIT", 0)
        assert await causes(ctx) == 0
        await driver.write(ctx, "IRQ_ENABLE", COMMITTED)
        await driver.write(ctx, "COMMIT", 1)
        while not ctx.get(dut.irq):
            await ctx.tick()
        assert await causes(ctx) == COMMITTED

    run(dut, testbench)


def test_while_busy_configuration_hazards_and_entries_are_refused():
    dut = Unison(SMALL)
    driver = Driver(dut, SMALL)
    guarded = ("CONFIG", "CAPACITY_SRAM", "CAPACITY_HBM", "BANDWIDTH", "GAP_PRIOR")

    async def refused(ctx, name, data=None):
        return (await driver.transfer(ctx, driver.map.address(name), data))[1]

    async def testbench(ctx):
        before = [await driver.read(ctx, name) for name in guarded]
        await fill(ctx, driver)
        for name in guarded:
            assert await refused(ctx, name, 0xFFFFFFFF)
        for number in range(4):
            assert await refused(ctx, f"ENTRY{number}")
        # A commit waits for the end of the event in execution, and closes the hazard table until then.
        assert not await refused(ctx, "HAZARD", 7)
        await driver.write(ctx, "COMMIT", 1)
        assert await driver.status(ctx, "commit_pending")
        assert await refused(ctx, "COMMIT", 1)
        assert await refused(ctx, "HAZARD", 8)
        await driver.drain(ctx)
        assert await driver.read(ctx, "HAZARD") == 7
        assert [await driver.read(ctx, name) for name in guarded] == before
        assert not await driver.status(ctx, "commit_pending")

    run(dut, testbench)


def test_entries_of_slots_that_do_not_exist_read_as_free():
    dut = Unison(SMALL)
    driver = Driver(dut, SMALL)

    async def testbench(ctx):
        await driver.configure(ctx, CONFIG)
        await driver.send(ctx, *(event(Opcode.ARRIVE, slot, 3) for slot in range(SMALL.sessions)))
        await driver.compare(ctx)
        for slot in (SMALL.sessions, 7, 8, 255):
            await driver.write(ctx, "ENTRY_INDEX", slot)
            assert unpack(entry_layout(SMALL), await driver.read(ctx, "ENTRY0"))["residency"] == Place.NONE.value
            assert [await driver.read(ctx, f"ENTRY{number}") for number in range(4)] == [0] * 4

    run(dut, testbench)


def test_clear_of_the_counters_leaves_the_state():
    dut = Unison(SMALL)
    driver = Driver(dut, SMALL)
    statistics = ("DECISION_CYCLES", "DECISION_LAST", "DECISION_WORST", "EVENT_HIGH", "ANSWER_HIGH")

    async def testbench(ctx):
        await driver.configure(ctx, CONFIG)
        await driver.send(ctx, *(event(Opcode.ARRIVE_ANY, 0, 3) for _ in range(SMALL.sessions + 1)))
        assert all([await driver.read(ctx, name) for name in statistics])
        await driver.write(ctx, "CONTROL", 2)
        driver.model.counters = dict.fromkeys(driver.model.counters, 0)
        await driver.compare(ctx)
        assert not any([await driver.read(ctx, name) for name in statistics])

    run(dut, testbench)


@pytest.mark.parametrize("source", ["control", "rst"])
@pytest.mark.parametrize("seed", range(2))
def test_reset_in_the_middle_starts_anew(source, seed):
    rng = random.Random(seed)
    p = SMALL.replace(turn_limit=3)
    dut, rst = Unison(p), Signal()
    driver = Driver(dut, p)

    async def some_events(ctx, count):
        await driver.configure(ctx, CONFIG)
        for _ in range(count):
            await driver.push(ctx, *random_event(rng, p))
            await driver.pop(ctx)

    async def testbench(ctx):
        for _ in range(4):
            await driver.write(ctx, "HAZARD", 99, 1)
            await driver.write(ctx, "IRQ_ENABLE", 0b11111)
            await driver.write(ctx, "COMMIT", 1)
            await driver.wait_idle(ctx)
            driver.model.write_hazard(1, 99)
            driver.model.commit()
            await some_events(ctx, rng.randint(8, 20))
            await pause(ctx, rng.randrange(40))
            await reset(ctx)
            driver.restart()
            assert await driver.read(ctx, "STATUS") == 1
            assert not ctx.get(dut.irq)
            assert await driver.read(ctx, "HAZARD", 1) == await driver.read(ctx, "IRQ_ENABLE") == 0
            assert await driver.pop(ctx) == 0
            await driver.compare(ctx)
            await some_events(ctx, 12)
            await driver.drain(ctx)
            await driver.compare(ctx)

    async def reset(ctx):
        if source == "control":
            await driver.write(ctx, "CONTROL", 1)
        else:
            ctx.set(rst, 1)
            await ctx.tick()
            ctx.set(rst, 0)

    run(ResetInserter(rst)(dut), testbench, deadline=60_000)


def test_the_bus_waits_until_the_tables_are_cleared():
    """The first write after a reset is not lost to the clearing, whichever reset it was."""
    dut = Unison(SMALL)
    driver = Driver(dut, SMALL)

    async def testbench(ctx):
        for value in (99, 88):
            for turn in range(SMALL.turns):
                await driver.write(ctx, "HAZARD", value, turn)
            assert [await driver.read(ctx, "HAZARD", turn) for turn in range(SMALL.turns)] == [value] * SMALL.turns
            await driver.write(ctx, "CONTROL", 1)

    run(dut, testbench)


def test_a_failed_dma_evicts_the_moved():
    dut = Unison(SMALL)
    driver = Driver(dut, SMALL)

    async def testbench(ctx):
        await driver.configure(ctx, Config(capacity_hbm=20, denominator=0))
        await driver.send(ctx, event(Opcode.ARRIVE, 2, 5), event(Opcode.ARRIVE, 1, 5))
        await driver.configure(ctx, Config(capacity_sram=20, capacity_hbm=20, denominator=0, moves=8))
        await driver.send(ctx, event(Opcode.GAP_START, 2, 5, 9))
        assert driver.model.counters["PROMOTIONS"] == 1
        assert await driver.status(ctx, "dma_busy")
        await driver.send(ctx, event(Opcode.DMA_DONE, operand=DMA_FAILED))
        assert driver.model.counters["EVICTIONS_DMA"] == 1
        await driver.compare(ctx)

    run(dut, testbench)
