"""Random events, legal and illegal, with changes of configuration, hazard rewrites and resets between them."""

import random
import time
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from pathlib import Path

from cocotb.triggers import FallingEdge

from unison.formats import DMA_FAILED, OPERAND_MAX, TOKENS_MAX, Opcode, Residency
from unison.model.engine import Config, Engine
from unison.model.stream import make_event
from unison.sim.bench import IDLE, Bench, Driver
from unison.sim.probe import engine_states, now
from unison.sim.replay import bring_up, result_of, windowed
from unison.sim.scoreboard import Mismatch, Scoreboard

__all__ = ["ILLEGAL_SHARE", "RUN_EVENTS", "Fuzzer", "fuzz", "reset_everywhere"]

#: Share of the events that are meant to be illegal.
ILLEGAL_SHARE = 0.2
#: Most events between two resets.
RUN_EVENTS = 1500
#: Events that must match after a reset.
AFTER_RESET = 200

_RESIDENTS = (Residency.SRAM.value, Residency.HBM.value)
_FREE = Residency.FREE.value
_WEIGHTS = {
    Opcode.ARRIVE: 5,
    Opcode.ARRIVE_ANY: 5,
    Opcode.GAP_START: 9,
    Opcode.GAP_END: 4,
    Opcode.COMPLETE: 1.5,
    Opcode.RELEASE: 1,
    Opcode.DMA_DONE: 2,
}


class Fuzzer:
    """Draws configurations, hazards and events for an instance ``p`` from a seed.

    Events are drawn for the state of the golden engine they are about to meet, so that most are legal and the rest are
    illegal in the way that was meant.
    """

    def __init__(self, p, seed):
        self.p = p
        self.rng = random.Random(seed)
        # Sessions of one run are of one size, give or take, so that some tens of them fill the tiers.
        self._typical = min(int(2 ** self.rng.uniform(2, 19)), TOKENS_MAX)

    def config(self, engine=None):
        """A configuration; now and then with capacities below the usage of ``engine``."""
        rng, p = self.rng, self.p
        capacity_max = (1 << p.capacity_bits) - 1
        total = self._typical * rng.uniform(0.5, p.sessions)
        share = rng.choice((0.1, 0.25, 0.5, 0.75))
        sram, hbm = int(total * share), int(total * (1 - share))
        if engine is not None and rng.random() < 0.4:
            sram = int(engine.used[Residency.SRAM] * rng.random())
            hbm = int(engine.used[Residency.HBM] * rng.random())
        extreme = rng.random()
        if extreme < 0.05:
            sram = rng.choice((0, capacity_max))
        elif extreme < 0.1:
            hbm = rng.choice((0, capacity_max))
        return Config(
            capacity_sram=min(sram, capacity_max),
            capacity_hbm=min(hbm, capacity_max),
            numerator=rng.choice((0, 1, 1, 2, 4, rng.randrange(1 << 16), 0xFFFF)),
            denominator=rng.choice((0, 1, 2, 8, rng.randrange(1 << 16), 0xFFFF)),
            gap_prior=rng.choice((0, 1, p.gap_max, self._gap(), self._gap())),
            moves=rng.choice((1, 1, 2, 3, 8)),
            ignore_dma=rng.random() < 0.3,
            swap_completed=rng.random() < 0.3,
        )

    def hazards(self):
        """A hazard table: flat, random, extreme or rising."""
        rng, p = self.rng, self.p
        top = p.hazard_max
        kind = rng.randrange(5)
        if kind == 0:
            return [rng.choice((0, top, top - p.survival_min, top - p.survival_min + 1))] * p.turns
        if kind == 1:
            return [rng.randrange(top + 1) for _ in range(p.turns)]
        if kind == 2:
            return [rng.choice((0, 1, top - 1, top)) for _ in range(p.turns)]
        if kind == 3:
            return sorted(rng.randrange(top + 1) for _ in range(p.turns))
        # Few values and few gaps: scores tie.
        return [rng.choice((0, top // 2))] * p.turns

    def events(self, engine):
        """Endless events for ``engine``, which the caller steps with each before it asks for the next."""
        while True:
            illegal = self.rng.random() < ILLEGAL_SHARE
            event = self._illegal(engine) if illegal else self._legal(engine)
            if event is not None:
                yield event

    def _slots(self, engine, condition):
        return [slot for slot, entry in enumerate(engine.entries) if condition(entry)]

    def _legal(self, engine):
        rng = self.rng
        opcode = rng.choices(tuple(_WEIGHTS), tuple(_WEIGHTS.values()))[0]
        if opcode is Opcode.ARRIVE_ANY:
            return self._event(opcode, rng.randrange(256), self._tokens())
        if opcode is Opcode.DMA_DONE:
            return self._event(opcode, rng.randrange(256), rng.randrange(TOKENS_MAX + 1))
        slots = self._slots(
            engine,
            {
                Opcode.ARRIVE: lambda entry: not entry.busy,
                Opcode.GAP_START: lambda entry: entry.busy,
                Opcode.GAP_END: lambda entry: entry.residency != _FREE and not entry.busy,
                Opcode.COMPLETE: lambda entry: entry.residency != _FREE,
                Opcode.RELEASE: lambda entry: entry.residency != _FREE,
            }[opcode],
        )
        if not slots:
            return None
        slot = rng.choice(slots)
        tokens = self._tokens()
        if opcode is Opcode.GAP_START and rng.random() < 0.5:
            tokens = min(engine.entries[slot].tokens + rng.randrange(self._typical), TOKENS_MAX)
        return self._event(opcode, slot, tokens)

    def _illegal(self, engine):
        rng = self.rng
        kind = rng.randrange(4)
        if kind == 0:
            return self._event(rng.choice((0, *range(8, 16))), rng.randrange(256), rng.choice((0, self._tokens())))
        if kind == 1 and self.p.sessions < 256:
            opcode = rng.choice((Opcode.ARRIVE, Opcode.GAP_START, Opcode.GAP_END, Opcode.COMPLETE, Opcode.RELEASE))
            slot = rng.choice((self.p.sessions, 255, rng.randrange(self.p.sessions, 256)))
            return self._event(opcode, slot, rng.choice((0, self._tokens())))
        if kind == 2:
            opcode = rng.choice((Opcode.ARRIVE, Opcode.ARRIVE_ANY, Opcode.GAP_START))
            return self._event(opcode, rng.randrange(self.p.sessions), 0)
        opcode = rng.choice((Opcode.ARRIVE, Opcode.GAP_START, Opcode.GAP_END, Opcode.COMPLETE, Opcode.RELEASE))
        slots = self._slots(
            engine,
            {
                Opcode.ARRIVE: lambda entry: entry.busy,
                Opcode.GAP_START: lambda entry: not entry.busy,
                Opcode.GAP_END: lambda entry: entry.residency == _FREE or entry.busy,
                Opcode.COMPLETE: lambda entry: entry.residency == _FREE,
                Opcode.RELEASE: lambda entry: entry.residency == _FREE,
            }[opcode],
        )
        return self._event(opcode, rng.choice(slots), self._tokens()) if slots else None

    def _event(self, opcode, slot, tokens):
        """Fields that the event does not use are random too."""
        rng = self.rng
        if opcode is Opcode.DMA_DONE:
            operand = rng.randrange(OPERAND_MAX + 1) & ~DMA_FAILED | (rng.random() < 0.4)
        elif opcode is Opcode.GAP_START:
            operand = rng.choice((0, 0, self._gap(), self._typical * rng.randint(1, 8)))
        else:
            operand = self._gap()
        return make_event(opcode, slot, tokens, min(operand, OPERAND_MAX))

    def _tokens(self):
        rng = self.rng
        kind = rng.random()
        if kind < 0.04:
            return rng.choice((1, TOKENS_MAX))
        if kind < 0.1:
            return rng.randint(1, TOKENS_MAX)
        return max(1, min(int(self._typical * rng.uniform(0.2, 2)), TOKENS_MAX))

    def _gap(self):
        rng = self.rng
        kind = rng.random()
        if kind < 0.1:
            return rng.choice((0, 1, 2, OPERAND_MAX - 1, OPERAND_MAX))
        if kind < 0.3:
            # From a small set: scores tie.
            return rng.choice((1000, 2000))
        return int(2 ** rng.uniform(0, 32))


async def fuzz(dut, p, job):
    """Fuzzes an instance with ``job["events"]`` events or a few more; returns ``result_of`` them with their times.

    The events come in runs of at most ``RUN_EVENTS``, numbered from ``job["first_run"]``, each seeded by
    ``job["seed"]`` and its number, each ended by a reset amid traffic: by ``rst`` or by CONTROL.reset. ``job["run"]``
    fuzzes that one run alone; ``job["windows"]`` as in ``replay``.
    """
    bench = Bench(dut, p)
    begin = time.monotonic()
    await bench.start()
    await bench.identify()
    board = Scoreboard(bench, Engine(p))
    progress = Path(job["progress"]) if "progress" in job else None
    mismatch = None
    number = job.get("run", job.get("first_run", 0))
    while board.tally.events < job["events"]:
        rng = random.Random(f"{job['seed']}/{number}")
        try:
            await _run(bench, board, rng, job)
        except Mismatch as difference:
            mismatch = difference
            break
        if "run" in job:
            break
        number += 1
        if progress is not None:
            progress.write_text(str(board.tally.events))
    result = result_of(board, mismatch) | {"cycles": now(), "wall_s": time.monotonic() - begin}
    if mismatch is not None:
        result["mismatch"]["run"] = number
    return result


async def _run(bench, board, rng, job):
    """One run: from reset to reset."""
    p = bench.p
    fuzzer = Fuzzer(p, rng.random())
    config, shadow = fuzzer.config(), fuzzer.hazards()
    await bring_up(bench, config, shadow)
    board.restart(Engine(p, config=config, hazards=shadow))
    driver = Driver(bench, board, rng if job.get("stalls", True) else None)
    left = rng.randint(AFTER_RESET, RUN_EVENTS)
    while left:
        part = min(left, rng.randint(20, 300))
        events = islice(fuzzer.events(board.engine), part)
        await driver.run(windowed(events, len(board.events), job.get("windows", ())))
        left -= part
        await board.check(readback={rng.randrange(p.sessions)})
        shadow = await _change(bench, board, fuzzer, shadow)
        # The change may have written EVENT1 itself.
        driver.forget_operand()
    await _traffic(bench, board, fuzzer)
    if rng.random() < 0.5:
        await bench.reset(rng.randint(1, 3))
    else:
        await bench.write("CONTROL", 1)


async def _change(bench, board, fuzzer, shadow):
    """Changes configuration, hazards or counters, or nothing. Returns the shadow table as it now is."""
    rng, engine = fuzzer.rng, board.engine
    kind = rng.randrange(6)
    if kind == 0:
        config = fuzzer.config(engine)
        await bench.configure(config)
        engine.configure(config)
    elif kind == 1:
        hazards = fuzzer.hazards()
        await bench.write_hazards(hazards, shadow)
        for turn, hazard in enumerate(hazards):
            engine.write_hazard(turn, hazard)
        shadow = hazards
    elif kind == 2:
        # Events go on at once: they must meet the new scores.
        await bench.commit()
        engine.commit()
    elif kind == 3:
        await _commit_amid_events(bench, board, fuzzer)
    elif rng.random() < 0.3:
        await bench.write("CONTROL", 2)
        board.clear_counters()
    return shadow


async def _commit_amid_events(bench, board, fuzzer):
    """Sends events and a COMMIT at once; the strobes tell between which two events it was executed."""
    rng, probe = fuzzer.rng, bench.probe
    # The events are drawn as if the COMMIT came last; some may prove illegal.
    foreseen = deepcopy(board.engine)
    sent = []
    probe.committed.take()
    for event in islice(fuzzer.events(foreseen), rng.randint(1, bench.p.event_depth - 1)):
        foreseen.step(*event)
        await bench.write("EVENT1", event.operand)
        await bench.write("EVENT0", event.word0)
        sent.append((event, now()))
    await bench.commit()
    answers = []
    while not await bench.read("STATUS") & IDLE:
        answers += await _read_answer(bench)
    while answer := await _read_answer(bench):
        answers += answer
    (committed,) = probe.committed.take()
    before = sum(cycle < committed for cycle in probe.event_taken.cycles)
    for number, (event, cycle) in enumerate(sent):
        if number == before:
            board.engine.commit()
        board.pushed(*event, cycle, check_level=False)
    if before == len(sent):
        board.engine.commit()
    for answer in answers:
        board.answered(*answer)


async def _read_answer(bench):
    """A list of the two words and the cycle of the next answer; empty if there is none."""
    low = await bench.access(bench.map.address("ANSWER0"))
    return [(low.value, await bench.read("ANSWER1"), low.cycle)] if low.value else []


async def _traffic(bench, board, fuzzer):
    """Leaves events queued and in execution, and answers unread, for a reset to meet."""
    for word0, operand in islice(fuzzer.events(board.engine), fuzzer.rng.randint(0, bench.p.event_depth - 1)):
        await bench.write("EVENT1", operand)
        await bench.write("EVENT0", word0)
        board.engine.step(word0, operand)


async def reset_everywhere(dut, p, job):
    """Resets by ``rst`` in every state of the engine, each time followed by matching events.

    Returns ``result_of`` the events with the list of ``states``. The answer FIFO must be deep enough for one event.
    """
    bench = Bench(dut, p)
    begin = time.monotonic()
    await bench.start()
    board = Scoreboard(bench, Engine(p))
    states = engine_states(p)
    mismatch = None
    try:
        for code, name in states.items():
            rng = random.Random(f"{job['seed']}/{name}")
            await _reset_in(bench, board, code, name, rng)
            fuzzer = Fuzzer(p, rng.random())
            config, hazards = fuzzer.config(), fuzzer.hazards()
            await bring_up(bench, config, hazards)
            board.restart(Engine(p, config=config, hazards=hazards))
            await Driver(bench, board, rng).run(islice(fuzzer.events(board.engine), AFTER_RESET))
            await board.check(readback=range(p.sessions))
            await bench.reset()
    except Mismatch as difference:
        mismatch = difference
    return result_of(board, mismatch) | {
        "cycles": now(),
        "wall_s": time.monotonic() - begin,
        "states": list(states.values()),
    }


async def _reset_in(bench, board, code, name, rng):
    """Sends events one at a time until the engine is in state ``code``, and resets in that cycle."""
    p = bench.p
    for _ in range(20):
        fuzzer = Fuzzer(p, rng.random())
        config, hazards = fuzzer.config(), fuzzer.hazards()
        # Room enough for Tide, not enough for all.
        config = replace(config, denominator=0, ignore_dma=True, moves=8)
        await bring_up(bench, config, hazards)
        engine = Engine(p, config=config, hazards=hazards)
        for word0, operand in islice(fuzzer.events(engine), 400):
            await bench.write("EVENT1", operand)
            if rng.random() < 0.05:
                await bench.commit()
                engine.commit()
                if await _reached(bench, code, bench.probe.committed_signal):
                    return
                await bench.until_idle()
            await bench.write("EVENT0", word0)
            engine.step(word0, operand)
            if await _reached(bench, code, bench.probe.retired_signal):
                return
            while await bench.read("ANSWER0"):
                pass
        await bench.reset()
    raise Mismatch(0, f"the engine was never seen in state {name}")


async def _reached(bench, code, last):
    """Whether the engine comes to state ``code`` before ``last`` is high; resets if so."""
    state, clock = bench.probe.engine_state, bench.dut.clk
    ended = False
    while not ended:
        await FallingEdge(clock)
        if int(state.value) == code:
            await bench.reset()
            return True
        ended = bool(last.value)
    return False
