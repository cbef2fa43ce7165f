"""The engine with its table, scan and scorer gives the golden model's answers and state, whatever stalls."""

import functools
import random

import pytest
from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from unison.formats import EVENT, AnswerKind, Opcode, Residency, entry_layout, pack, unpack
from unison.hdl.engine import COUNTED, Engine
from unison.hdl.hazard import HazardTable
from unison.hdl.scan import LinearScan
from unison.hdl.spear import PipelinedScorer, ScorerSignature
from unison.hdl.table import SessionTable
from unison.model.engine import COUNTERS, Config
from unison.model.engine import Engine as Model
from unison.params import Params
from unison.sim.pysim import get, keeps_payload, put, run

N4 = Params(sessions=4)
N5 = Params(sessions=5, turn_limit=6, gap_bits=24)
SATURATING = Params(sessions=5, score_bits=32, turn_limit=6)
INSTANCES = {"n4": N4, "n5_24_bit_gap": N5, "n5_32_bit_score": SATURATING}
SEEDS = range(2)


class QuickScorer(wiring.Component):
    """The score in one expression, as late as the real scorer's: the simulator takes a tenth of the time for it."""

    def __init__(self, p):
        self.p = p
        super().__init__({"session": In(ScorerSignature(p))})

    def elaborate(self, platform):
        m = Module()
        p, session = self.p, self.session
        hazard = session.hazard
        total = session.gap * p.hazard_max // (p.hazard_max - hazard).as_unsigned() + hazard * p.penalty // p.hazard_max
        score = Mux(total > p.score_live_max, p.score_live_max, total)
        for rank in range(PipelinedScorer.latency):
            ranked = Signal(p.live_score_bits, name=f"rank{rank}")
            m.d.sync += ranked.eq(score)
            score = ranked
        m.d.comb += session.score.eq(score)
        return m


class Bench(Elaboratable):
    """Everything behind the FIFOs, without registers."""

    def __init__(self, p):
        self.p = p
        self.engine = Engine(p)
        self.table = SessionTable(p)
        self.hazard = HazardTable(p)
        self.scorer = QuickScorer(p)
        self.scan = LinearScan(p, scorer_latency=PipelinedScorer.latency)

    def elaborate(self, platform):
        m = Module()
        engine, table, hazard, scan = self.engine, self.table, self.hazard, self.scan
        m.submodules.engine, m.submodules.table, m.submodules.hazard = engine, table, hazard
        m.submodules.scan, m.submodules.scorer = scan, self.scorer
        wiring.connect(m, engine.scan, scan.request)
        wiring.connect(m, scan.scorer, self.scorer.session)
        m.d.comb += [
            table.read_slot.eq(Mux(scan.reading, scan.slot, engine.read_slot)),
            engine.row.eq(table.row),
            scan.row.eq(table.row),
            hazard.turn.eq(scan.turn),
            scan.hazard.eq(hazard.hazard),
            hazard.copy.eq(engine.commit_copy),
            engine.hazard_busy.eq(hazard.busy),
            engine.any_free.eq(table.any_free),
            engine.lowest_free.eq(table.lowest_free),
        ]
        for name in ("write_slot", "flags_enable", "flags", "facts_enable", "facts"):
            m.d.comb += getattr(table, name).eq(getattr(engine, name))
        for name in ("score_enable", "score_slot", "score"):
            m.d.comb += getattr(table, name).eq(getattr(scan, name))
        return m

    def configure(self, ctx, config):
        engine = self.engine
        for name in ("capacity_sram", "capacity_hbm", "numerator", "denominator", "gap_prior"):
            ctx.set(getattr(engine, name), getattr(config, name))
        ctx.set(engine.moves, config.moves - 1)
        ctx.set(engine.ignore_dma, config.ignore_dma)
        ctx.set(engine.swap_completed, config.swap_completed)

    async def commit(self, ctx, hazards):
        """Writes the whole shadow table and makes it live."""
        hazard, engine = self.hazard, self.engine
        while ctx.get(hazard.busy):
            await ctx.tick()
        ctx.set(hazard.write_enable, 1)
        for turn, value in enumerate(hazards):
            ctx.set(hazard.write_turn, turn)
            ctx.set(hazard.write_hazard, value)
            await ctx.tick()
        ctx.set(hazard.write_enable, 0)
        ctx.set(engine.commit_pending, 1)
        while not ctx.get(engine.committed):
            await ctx.tick()
        await ctx.tick()
        ctx.set(engine.commit_pending, 0)
        assert ctx.get(engine.idle)

    def entry_word(self, ctx, slot):
        """The entry of ``slot`` as software reads it; only while idle."""
        assert ctx.get(self.engine.idle)
        ctx.set(self.engine.entry_index, slot)
        row = ctx.get(self.engine.row)
        flags, facts = row.flags, row.facts
        score = self.p.score_completed if flags.completed else row.score
        return pack(
            entry_layout(self.p),
            residency=flags.residency,
            busy=flags.busy,
            completed=flags.completed,
            turn=facts.turn,
            gap=facts.gap,
            tokens=facts.tokens,
            score=score,
        )

    def compare(self, ctx, model):
        """Asserts that every defined bit of the state is the model's."""
        engine = self.engine
        for slot in range(self.p.sessions):
            mask = model.entry_mask(slot)
            assert self.entry_word(ctx, slot) & mask == model.entry_word(slot) & mask, f"slot {slot}"
        used, busy = model.used, model.busy_used
        assert (ctx.get(engine.used_sram), ctx.get(engine.used_hbm)) == (used[Residency.SRAM], used[Residency.HBM])
        assert (ctx.get(engine.busy_sram), ctx.get(engine.busy_hbm)) == (busy[Residency.SRAM], busy[Residency.HBM])
        assert ctx.get(engine.dma_busy) == model.dma_busy


def random_config(rng, p):
    """Capacities of a few sessions, and budgets of a few tokens, so that every limit is met exactly now and then."""
    return Config(
        capacity_sram=rng.choice([0, 12, 16, 24]),
        capacity_hbm=rng.choice([8, 24, 40]),
        numerator=rng.choice([1, 1, 2, 0xFFFF]),
        denominator=rng.choice([0, 1, 1, 2, 3]),
        gap_prior=rng.choice([0, 5, p.gap_max]),
        moves=rng.choice([1, 1, 2, 8]),
        ignore_dma=rng.random() < 0.3,
        swap_completed=rng.random() < 0.3,
    )


def random_hazards(rng, p):
    return [rng.choice([0, 0, p.hazard_max, rng.randint(0, p.hazard_max)]) for _ in range(p.turns)]


def random_event(rng, model):
    """Word 0 and operand of an event that is legal more often than not."""
    busy = [slot for slot, entry in enumerate(model.entries) if entry.busy]
    paused = [slot for slot, entry in enumerate(model.entries) if entry.residency and not entry.busy]
    opcode = rng.choices(range(9), [1, 20, 12, 40, 15, 10, 2, 15, 1])[0]
    slot = rng.choice([rng.randrange(model.p.sessions)] * 20 + [model.p.sessions, 255])
    if rng.random() < 0.9:
        fitting = {Opcode.GAP_START.value: busy, Opcode.ARRIVE.value: paused, Opcode.GAP_END.value: paused}
        slot = rng.choice(fitting.get(opcode) or [slot])
    tokens = rng.choice([rng.randint(1, 9)] * 30 + [24, 41, 0, (1 << 20) - 1])
    operand = rng.choice([0, 1, rng.randrange(24), rng.randrange(24), rng.getrandbits(32), (1 << 32) - 1])
    return opcode << 28 | slot << 20 | tokens, operand


class Scenario:
    """Phases of (config, hazards, events with their steps), and the model after each."""

    def __init__(self, p, seed, phases=4, events=70):
        rng = random.Random(seed)
        self.p, self.phases, self.model = p, [], Model(p)
        for _ in range(phases):
            config, hazards = random_config(rng, p), random_hazards(rng, p)
            apply(self.model, config, hazards)
            steps = []
            for _ in range(events):
                event = random_event(rng, self.model)
                steps.append((event, self.model.step(*event)))
            self.phases.append((config, hazards, steps))

        self.steps = [pair for _, _, steps in self.phases for pair in steps]


def apply(model, config, hazards):
    """Configures the model and makes the hazards live."""
    model.configure(config)
    for turn, value in enumerate(hazards):
        model.write_hazard(turn, value)
    model.commit()


scenario = functools.cache(Scenario)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("stalls", [0, 12], ids=["flowing", "stalling"])
@pytest.mark.parametrize("p", INSTANCES.values(), ids=INSTANCES)
def test_answers_counts_and_state_are_the_models(p, stalls, seed):
    played = scenario(p, seed)
    rng = random.Random(seed)
    bench, model = Bench(p), Model(p)
    engine = bench.engine
    counts = dict.fromkeys((name for name, _ in COUNTED), 0)
    answered = 0
    decisions = []

    def stall():
        return max(0, rng.randrange(-stalls, stalls + 1))

    async def host(ctx):
        sent = 0
        for config, hazards, steps in played.phases:
            bench.configure(ctx, config)
            await bench.commit(ctx, hazards)
            apply(model, config, hazards)
            bench.compare(ctx, model)
            for event, _ in steps:
                model.step(*event)
                await put(ctx, engine.event, unpack(EVENT, event[0] | event[1] << 32), stall())
            sent += len(steps)
            while answered < sent:
                await ctx.tick()
            bench.compare(ctx, model)

    async def software(ctx):
        nonlocal answered
        for event, step in played.steps:
            for answer in step.answers:
                word = (await get(ctx, engine.answer, stall())).as_bits()
                assert word == answer.word, f"event {answered}, {event}: {word:#018x} instead of {answer}"
            answered += 1

    async def watch(ctx):
        sampled = (engine.retired, engine.searched, Value.cast(engine.counted))
        async for _, _, retired, searched, counted in ctx.tick().sample(*sampled):
            if retired:
                decisions.append(bool(searched))
            if counted:
                for name, high in unpack(COUNTED, counted).items():
                    counts[name] += high

    run(bench, host, software, monitors=[keeps_payload(engine.answer), watch], deadline=100_000)
    assert counts == {name.lower(): value for name, value in model.counters.items()}
    assert decisions == [step.searched for _, step in played.steps]


def test_scenarios_meet_every_counter():
    counters = [scenario(p, seed).model.counters for p in INSTANCES.values() for seed in SEEDS]
    assert {name for name in COUNTERS if sum(counted[name] for counted in counters) < 5} == set()


async def play(ctx, bench, model, *steps):
    """Sends events one by one, configurations between them, and compares every answer; returns those of the last."""
    for step in steps:
        if isinstance(step, Config):
            model.configure(step)
            bench.configure(ctx, step)
            continue
        word0, operand = step
        await put(ctx, bench.engine.event, unpack(EVENT, word0 | operand << 32))
        answers = model.step(word0, operand).answers
        for answer in answers:
            word = (await get(ctx, bench.engine.answer)).as_bits()
            assert word == answer.word, f"{word:#018x} instead of {answer}"
    return answers


def event(opcode, slot=0, tokens=0, operand=0):
    return pack(EVENT, opcode=opcode, slot=slot, tokens=tokens), operand


def paused(slot, tokens, gap):
    """Events that bring a session to the end of a gap of its own: its score is ``gap`` while hazards are 0."""
    return (
        event(Opcode.ARRIVE, slot, tokens),
        event(Opcode.GAP_START, slot, tokens, 1),
        event(Opcode.GAP_END, slot, operand=gap),
    )


LAST = 7
N8 = Params(sessions=LAST + 1)
TO_SRAM, TO_HBM = Config(capacity_sram=100, numerator=0), Config(capacity_hbm=100, numerator=0)
DMA_FAILS = event(Opcode.DMA_DONE, operand=1)


def limits(sram, hbm, **others):
    return Config(capacity_sram=sram, capacity_hbm=hbm, denominator=1, **others)


def gap_opens(budget):
    """A session that no tier can hold opens a gap that pays for ``budget`` tokens."""
    return event(Opcode.ARRIVE, LAST, 1000), event(Opcode.GAP_START, LAST, 1, budget)


SWAPPABLE = (TO_SRAM, *paused(0, 10, 100), TO_HBM, *paused(1, 6, 50))
GROWING = (TO_SRAM, *paused(0, 6, 100), TO_HBM, *paused(1, 10, 50))
TWO_IN_HBM = (TO_HBM, *paused(2, 6, 10), *paused(1, 6, 20))
ENDED_IN_SRAM = (*SWAPPABLE, limits(0, 0), event(Opcode.COMPLETE, 0))
#: Steps, and what they come to.
TIDE_CASES = {
    "swap_paid_exactly": ((*SWAPPABLE, limits(10, 10), *gap_opens(16)), {"SWAPS": 1}),
    "swap_one_token_short": ((*SWAPPABLE, limits(10, 10), *gap_opens(15)), {}),
    "swap_does_not_fit_hbm": ((*SWAPPABLE, limits(10, 9), *gap_opens(99)), {}),
    "swap_fits_sram_exactly": ((*GROWING, limits(10, 6), *gap_opens(99)), {"SWAPS": 1}),
    "swap_does_not_fit_sram": ((*GROWING, limits(9, 99), *gap_opens(99)), {}),
    "promotion_paid_exactly": ((*TWO_IN_HBM, limits(6, 99), *gap_opens(6)), {"PROMOTIONS": 1}),
    "promotion_one_token_short": ((*TWO_IN_HBM, limits(6, 99), *gap_opens(5)), {}),
    "second_promotion_paid_exactly": ((*TWO_IN_HBM, limits(12, 99, moves=2), *gap_opens(12)), {"PROMOTIONS": 2}),
    "second_promotion_one_token_short": ((*TWO_IN_HBM, limits(12, 99, moves=2), *gap_opens(11)), {"PROMOTIONS": 1}),
    "promotion_after_a_swap_paid_exactly": (
        (*SWAPPABLE, *paused(2, 4, 60), limits(10, 14, moves=8), *gap_opens(20)),
        {"SWAPS": 1, "PROMOTIONS": 1},
    ),
    "promotion_after_a_swap_one_token_short": (
        (*SWAPPABLE, *paused(2, 4, 60), limits(10, 14, moves=8), *gap_opens(19)),
        {"SWAPS": 1},
    ),
    "completed_leaves_at_no_cost": (
        (*ENDED_IN_SRAM, limits(10, 99), *gap_opens(6)),
        {"EVICTIONS_TIDE": 1, "PROMOTIONS": 1},
    ),
    "completed_leaves_though_nothing_follows": ((*ENDED_IN_SRAM, limits(10, 99), *gap_opens(5)), {"EVICTIONS_TIDE": 1}),
    "completed_is_swapped": ((*ENDED_IN_SRAM, limits(10, 99, swap_completed=True), *gap_opens(16)), {"SWAPS": 1}),
    "failed_dma_evicts_lowest_slot_first": (
        (*TWO_IN_HBM, limits(12, 99, moves=2), *gap_opens(12), DMA_FAILS),
        {"PROMOTIONS": 2, "EVICTIONS_DMA": 2},
    ),
    "failed_dma_evicts_both_of_a_swap": (
        (*SWAPPABLE, limits(10, 10), *gap_opens(16), DMA_FAILS, DMA_FAILS),
        {"SWAPS": 1, "EVICTIONS_DMA": 2},
    ),
    "failed_dma_forgets_earlier_moves": (
        (*TWO_IN_HBM, limits(99, 99, ignore_dma=True), *gap_opens(6), *gap_opens(6), DMA_FAILS),
        {"PROMOTIONS": 2, "EVICTIONS_DMA": 1},
    ),
    "failed_dma_spares_the_released": (
        (*TWO_IN_HBM, limits(12, 99, moves=2), *gap_opens(12), event(Opcode.RELEASE, 1), DMA_FAILS),
        {"PROMOTIONS": 2, "EVICTIONS_DMA": 1},
    ),
    "failed_dma_spares_the_busy": (
        (*TWO_IN_HBM, limits(12, 99, moves=2), *gap_opens(12), event(Opcode.ARRIVE, 2, 6), DMA_FAILS),
        {"PROMOTIONS": 2, "EVICTIONS_DMA": 1},
    ),
    "failed_dma_takes_the_completed": (
        (*TWO_IN_HBM, limits(12, 99, moves=2), *gap_opens(12), event(Opcode.COMPLETE, 2), DMA_FAILS),
        {"PROMOTIONS": 2, "EVICTIONS_DMA": 2},
    ),
    "busy_dma_engine_stops_tide": ((*TWO_IN_HBM, limits(99, 99), *gap_opens(6), *gap_opens(6)), {"PROMOTIONS": 1}),
}
TIDE_COUNTERS = ("EVICTIONS_TIDE", "EVICTIONS_DMA", "PROMOTIONS", "SWAPS")


@pytest.mark.parametrize(("steps", "counted"), TIDE_CASES.values(), ids=TIDE_CASES)
def test_tide_at_its_limits(steps, counted):
    bench, model = Bench(N8), Model(N8)

    async def host(ctx):
        await play(ctx, bench, model, *steps)
        bench.compare(ctx, model)

    run(bench, host)
    assert {name: model.counters[name] for name in TIDE_COUNTERS if model.counters[name]} == counted


def room_of_everybody(p, reason):
    """A configuration, events, and a last one that needs the room of all other sessions; the searches of the last."""
    others, size = range(1, p.sessions), 10
    room = len(others) * size
    config = Config(capacity_sram=room, numerator=0)
    events = []
    for slot in others:
        events += [event(Opcode.ARRIVE, slot, size), event(Opcode.GAP_START, slot, size)]
    if reason == "fit":
        return config, events, event(Opcode.ARRIVE, 0, room), len(others)
    if reason == "slot":
        config = Config(capacity_sram=room + size, numerator=0)
        events += [event(Opcode.ARRIVE, 0, size), event(Opcode.GAP_START, 0, size)]
        return config, events, event(Opcode.ARRIVE_ANY, 0, room + size), p.sessions
    # The others are completed, and in the way of the session in HBM that is to be promoted.
    config = Config(capacity_sram=room, capacity_hbm=room, denominator=0)
    events += [event(Opcode.COMPLETE, slot) for slot in others]
    events.append(event(Opcode.ARRIVE, 0, room))
    return config, events, event(Opcode.GAP_START, 0, room), p.sessions


@pytest.mark.parametrize("p", [N4, Params(sessions=16)], ids=["n4", "n16"])
@pytest.mark.parametrize("reason", ["fit", "slot", "tide"])
def test_scans_of_one_event_follow_each_other_within_two_cycles(p, reason):
    """Whatever the eviction is for: each follows a scan of N + 5 cycles, and the next scan follows it at once."""
    bench = Bench(p)
    request = bench.scan.request
    config, events, last, searches = room_of_everybody(p, reason)
    model = Model(p)
    edges = []

    async def host(ctx):
        await play(ctx, bench, model, config, *events)
        edges.clear()
        answers = await play(ctx, bench, model, last)
        evictions = p.sessions if reason == "slot" else p.sessions - 1
        assert [answer.kind for answer in answers].count(AnswerKind.EVICT) == evictions

    async def watch(ctx):
        cycle, was_done = 0, 1
        async for _, _, start, done in ctx.tick().sample(request.start, request.done):
            if start:
                edges.append(("start", cycle))
            if done and not was_done:
                edges.append(("done", cycle))
            cycle, was_done = cycle + 1, done

    run(bench, host, monitors=[watch])
    starts = [cycle for name, cycle in edges if name == "start"]
    ends = [cycle for name, cycle in edges if name == "done"]
    assert [name for name, _ in edges] == ["start", "done"] * searches
    assert {end - start for start, end in zip(starts, ends, strict=True)} == {p.sessions + 5}
    assert {start - end for start, end in zip(starts[1:], ends, strict=False)} <= {1, 2}
