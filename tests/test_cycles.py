"""Every event takes the cycles that docs/theory_of_operation.md says: its formulas are read from the page."""

import random
import re
from pathlib import Path

import pytest

from unison.formats import EVENT, AnswerKind, Opcode, Place, Residency, pack
from unison.hdl import top
from unison.model.engine import Config, Engine
from unison.params import MAX_MOVES, Params
from unison.sim.pysim import ApbHost, run

PAGE = Path(__file__).parent.parent / "docs" / "theory_of_operation.md"
ARRIVALS = (Opcode.ARRIVE, Opcode.ARRIVE_ANY)


def documented(page=PAGE):
    """(subject, case) -> formula, of every table of the page whose last column is headed Cycles."""
    formulas = {}
    head = None
    for line in page.read_text().splitlines():
        if not line.startswith("|"):
            head = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if head is None:
            head = cells
        elif head[-1] == "Cycles" and cells[0].strip("-"):
            for subject in cells[0].split(", "):
                formulas[subject.strip("`"), cells[1]] = cells[-1].strip("`")
    return formulas


FORMULAS = documented()


def evaluate(key, **values):
    assert re.fullmatch(r"[\w +*(),-]+", FORMULAS[key]), FORMULAS[key]
    return eval(FORMULAS[key], {"__builtins__": {}, "max": max}, values)


class Measured(ApbHost):
    """Sends events to the RTL over APB and to a golden model, and measures the cycles from taken to retired."""

    def __init__(self, p, monkeypatch):
        super().__init__(top.Unison(p), p)
        self.p, self.model = p, Engine(p)
        self.cycles, self.spans, self.used = 0, [], set()
        self.rtl_engine = None
        make = top.Engine

        def remember(p):
            self.rtl_engine = make(p)
            return self.rtl_engine

        # The engine is made when the design is elaborated; nothing else leads to its strobes.
        monkeypatch.setattr(top, "Engine", remember)

    def run(self, testbench, deadline=60_000):
        run(self.dut, testbench, monitors=[self.watch], deadline=deadline)

    async def watch(self, ctx):
        engine, taken = self.rtl_engine, None
        signals = engine.event_taken, engine.retired, engine.commit_copy, engine.committed
        async for _, _, begins, ends, copies, committed in ctx.tick().sample(*signals):
            if begins or copies:
                taken = self.cycles
            if ends or committed:
                self.spans.append(self.cycles - taken)
            self.cycles += 1

    async def configure(self, ctx, config):
        while not await self.read(ctx, "STATUS") & 1:
            pass
        self.model.configure(config)
        await self.write(ctx, "CAPACITY_SRAM", config.capacity_sram)
        await self.write(ctx, "CAPACITY_HBM", config.capacity_hbm)
        await self.write(ctx, "BANDWIDTH", config.numerator | config.denominator << 16)
        await self.write(ctx, "CONFIG", config.moves - 1 | config.ignore_dma << 3 | config.swap_completed << 4)

    async def send(self, ctx, opcode, slot=0, tokens=0, operand=0):
        """One event from idle; checks its answers and its cycles, and returns them."""
        opcode = opcode.value if isinstance(opcode, Opcode) else opcode
        word0 = pack(EVENT, opcode=opcode, slot=slot, tokens=tokens)
        expected = self.expectation(word0, operand)
        await self.write(ctx, "EVENT1", operand)
        await self.write(ctx, "EVENT0", word0)
        for answer in self.step.answers:
            word = 0
            while not word:
                word = await self.read(ctx, "ANSWER0")
            assert word | await self.read(ctx, "ANSWER1") << 32 == answer.word
        assert self.spans[-1] == expected, f"opcode {opcode}: {self.terms}"
        assert expected <= self.worst(opcode)
        if self.step.searched:
            assert await self.read(ctx, "DECISION_LAST") == expected
        return expected

    def expectation(self, word0, operand):
        """Steps the model; the documented cycles of the event, from what the model did."""
        model, n = self.model, self.p.sessions
        turns = [entry.turn for entry in model.entries]
        dma_busy, moved = model.dma_busy, len(model.last_moves)
        before = dict(model.counters)
        self.step = model.step(word0, operand)
        change = {name: value - before[name] for name, value in model.counters.items()}
        last = self.step.answers[-1]
        if last.kind is AnswerKind.ERROR:
            return self.look_up("ERROR", "")
        opcode = Opcode(last.fields["opcode"])
        terms = {"N": n, "E": change["EVICTIONS_FIT"], "M": change["MOVES"]}
        if opcode is Opcode.ARRIVE:
            return self.look_up("ARRIVE", "", **terms)
        if opcode is Opcode.ARRIVE_ANY:
            if not last.fields["slot_valid"]:
                case = "nobody may go"
            elif change["FORGETS"] or change["EVICTIONS_SLOT"]:
                case = "FORGET, or EVICT for the slot"
            else:
                case = "a slot is free"
            return self.look_up("ARRIVE_ANY", case, **terms)
        if opcode is Opcode.GAP_START:
            resident = last.fields["found"] != Place.NONE.value
            return self.gap_start(resident, dma_busy, change, terms)
        if opcode is Opcode.GAP_END:
            first = turns[last.fields["slot"]] == 1
            return self.look_up("GAP_END", "the first gap (turn 1)" if first else "any later gap")
        if opcode is Opcode.DMA_DONE:
            assert change["EVICTIONS_DMA"] in (0, moved)
            return self.look_up("DMA_DONE", "", K=change["EVICTIONS_DMA"])
        return self.look_up(opcode.name, "")

    def gap_start(self, resident, dma_busy, change, terms):
        model = self.model
        moves = change["PROMOTIONS"] + change["SWAPS"]
        candidates = [
            e for e in model.entries if e.residency == Residency.HBM.value and not e.busy and not e.completed
        ]
        if dma_busy and not model.config.ignore_dma:
            end = "the DMA engine is busy: no search"
        elif moves == model.config.moves:
            end = "the last move that is allowed was made"
        elif candidates:
            end = "p* is there, but nothing may be done"
        else:
            end = "no p*"
        searches = {"V": change["EVICTIONS_TIDE"], "P": change["PROMOTIONS"], "X": change["SWAPS"]}
        case = "resident" if resident else "absent"
        if end == "the DMA engine is busy: no search" or (end == "no p*" and not moves):
            terms["W"] = 0
        else:
            terms["W"] = self.look_up("W", case, **terms, **searches)
        terms["F"] = self.look_up("F", end, **terms)
        terms["T"] = self.look_up("T", "", **terms, **searches)
        return self.look_up("GAP_START", case, **terms)

    def worst(self, opcode):
        subject = f"worst {Opcode(opcode).name}" if 0 < opcode < 8 else ""
        if (subject, "") in FORMULAS:
            return evaluate((subject, ""), N=self.p.sessions)
        if (subject, "one move a gap") in FORMULAS:
            case = "one move a gap" if self.model.config.moves == 1 else "more moves a gap, N ≥ 8"
            return evaluate((subject, case), N=self.p.sessions)
        return evaluate(("DMA_DONE", ""), K=2 * MAX_MOVES)

    def look_up(self, *key, **terms):
        self.used.add(key)
        self.terms = key, terms
        return evaluate(key, **terms)


def test_the_page_has_a_formula_for_every_opcode():
    assert {opcode.name for opcode in Opcode} | {"ERROR", "COMMIT"} <= {subject for subject, _ in FORMULAS}


@pytest.mark.parametrize("n, events", [(4, 400), (5, 100), (16, 150), (64, 60)])
def test_random_events_take_what_the_page_says(n, events, monkeypatch):
    rng = random.Random(n)
    p = Params(sessions=n)
    host = Measured(p, monkeypatch)

    async def testbench(ctx):
        for number in range(events):
            if number % 20 == 0:
                await host.configure(ctx, some_config(rng, n))
            await host.send(ctx, *some_event(rng, host.model))

    host.run(testbench, deadline=200_000)
    if n == 4:
        unused = {subject for subject, _ in FORMULAS.keys() - host.used}
        assert unused == {"COMMIT", *(subject for subject, _ in FORMULAS if subject.startswith("worst"))}


def some_config(rng, n):
    return Config(
        capacity_sram=rng.choice([0, 3 * n, 5 * n]),
        capacity_hbm=rng.choice([0, 3 * n, 5 * n]),
        numerator=rng.choice([0, 1]),
        denominator=rng.choice([0, 1, 1]),
        moves=rng.choice([1, 1, 2, 8]),
        ignore_dma=rng.random() < 0.3,
        swap_completed=rng.random() < 0.2,
    )


def some_event(rng, model):
    busy = [slot for slot, entry in enumerate(model.entries) if entry.busy]
    paused = [slot for slot, entry in enumerate(model.entries) if entry.residency and not entry.busy]
    opcode = rng.choices([*Opcode, 0], [20, 12, 40, 15, 10, 2, 15, 1])[0]
    slots = {Opcode.GAP_START: busy, Opcode.ARRIVE: paused, Opcode.GAP_END: paused, Opcode.COMPLETE: busy}
    slot = rng.choice(slots.get(opcode) or range(model.p.sessions))
    tokens = rng.choice([rng.randint(1, 9)] * 15 + [3 * model.p.sessions])
    return opcode, slot, tokens, rng.choice([0, 1, rng.randrange(40), rng.getrandbits(32)])


@pytest.mark.parametrize(
    "case, n",
    [
        *[(case, n) for case in ("ARRIVE", "ARRIVE_ANY", "GAP_START one") for n in (4, 16)],
        ("GAP_START more", 16),
        ("GAP_START more", 64),
    ],
)
def test_the_worst_cases_are_reached(case, n, monkeypatch):
    p = Params(sessions=n)
    host = Measured(p, monkeypatch)
    case = f"worst {case}"

    async def testbench(ctx):
        if case == "worst ARRIVE_ANY":
            # Everybody is a completed resident of SRAM; the newcomer takes a slot and then all the room.
            await host.configure(ctx, Config(capacity_sram=n))
            for slot in range(n):
                await host.send(ctx, Opcode.ARRIVE, slot, 1)
                await host.send(ctx, Opcode.COMPLETE, slot)
            cycles = await host.send(ctx, Opcode.ARRIVE_ANY, 0, n)
            assert cycles == evaluate((case, ""), N=n)
            return
        if case == "worst ARRIVE":
            # Slot 0 waits in HBM, which is too small for what it needs: it moves into all of SRAM.
            await host.configure(ctx, Config(capacity_hbm=1))
            await host.send(ctx, Opcode.ARRIVE, 0, 1)
            await host.send(ctx, Opcode.COMPLETE, 0)
        if case == "worst GAP_START more":
            # Six small sessions wait in HBM; the first victim that stays would leave no room for the seventh, slot 0.
            small, large = range(1, 7), range(7, n)
            room = 10 * len(large) + 1
            await host.configure(ctx, Config(capacity_hbm=len(small)))
            for slot in small:
                await host.send(ctx, Opcode.ARRIVE, slot, 1)
                await host.send(ctx, Opcode.GAP_START, slot, 1)
            await host.configure(ctx, Config(capacity_sram=room, capacity_hbm=len(small)))
            await host.send(ctx, Opcode.ARRIVE, 0, 1)
            for slot in large:
                await host.send(ctx, Opcode.ARRIVE, slot, 10)
                await host.send(ctx, Opcode.COMPLETE, slot)
            await host.configure(ctx, Config(capacity_sram=room, capacity_hbm=room, denominator=0, moves=8))
            cycles = await host.send(ctx, Opcode.GAP_START, 0, room - len(small))
            assert (host.model.counters["EVICTIONS_TIDE"], host.model.counters["PROMOTIONS"]) == (n - 7, 7)
            assert cycles == evaluate(("worst GAP_START", "more moves a gap, N ≥ 8"), N=n)
            return
        await host.configure(ctx, Config(capacity_sram=n, capacity_hbm=1, denominator=0))
        if case != "worst ARRIVE":
            await host.send(ctx, Opcode.ARRIVE, 0, 1)
        for slot in range(1, n):
            await host.send(ctx, Opcode.ARRIVE, slot, 1)
            await host.send(ctx, Opcode.COMPLETE, slot)
        if case == "worst ARRIVE":
            assert await host.send(ctx, Opcode.ARRIVE, 0, n) == evaluate((case, ""), N=n)
            return
        # The session outgrows SRAM, moves to HBM, and as p* has all the others, which are completed, evicted.
        await host.configure(ctx, Config(capacity_sram=n, capacity_hbm=n, denominator=0))
        cycles = await host.send(ctx, Opcode.GAP_START, 0, n)
        assert host.model.counters["EVICTIONS_TIDE"] == n - 1
        assert cycles == evaluate(("worst GAP_START", "one move a gap"), N=n)

    host.run(testbench)


@pytest.mark.parametrize("n", [4, 64])
def test_a_commit_and_the_reset_before_take_what_the_page_says(n, monkeypatch):
    p = Params(sessions=n)
    host = Measured(p, monkeypatch)

    async def testbench(ctx):
        await host.read(ctx, "ID")
        # Cycle 0 is the first after reset; the answer is given in the second one after the tables are clear.
        assert host.cycles == p.turns + 1
        await host.write(ctx, "COMMIT", 1)
        while not await host.read(ctx, "STATUS") & 1:
            pass
        assert host.spans == [evaluate(("COMMIT", ""), N=n, turns=p.turns)]

    host.run(testbench)


def test_events_follow_each_other_after_one_cycle(monkeypatch):
    p = Params(sessions=4)
    host = Measured(p, monkeypatch)
    edges = []

    async def watch(ctx):
        engine, cycle = host.rtl_engine, 0
        async for _, _, taken, retired in ctx.tick().sample(engine.event_taken, engine.retired):
            edges.extend((name, cycle) for name, high in (("taken", taken), ("retired", retired)) if high)
            cycle += 1

    async def testbench(ctx):
        # The first event of the burst is slow, so that the others wait in the FIFO.
        await host.write(ctx, "CAPACITY_SRAM", 100)
        for word0 in (pack(EVENT, opcode=Opcode.ARRIVE, slot=0, tokens=1),
                      pack(EVENT, opcode=Opcode.GAP_START, slot=0, tokens=1),
                      *[pack(EVENT, opcode=Opcode.DMA_DONE)] * 4):  # fmt: skip
            await host.write(ctx, "EVENT0", word0)
        while not await host.read(ctx, "STATUS") & 1:
            pass

    run(host.dut, testbench, monitors=[watch])
    names, cycles = zip(*edges, strict=True)
    assert names == ("taken", "retired") * 6
    assert [begin - end for end, begin in zip(cycles[3::2], cycles[4::2], strict=False)] == [1] * 4
