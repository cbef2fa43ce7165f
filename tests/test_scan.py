"""The scan takes N + 5 cycles and finds what a search of the whole table finds."""

import random

import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib import memory, wiring

from unison.formats import Residency
from unison.hdl.scan import LinearScan
from unison.hdl.spear import PipelinedScorer
from unison.hdl.table import row_layout
from unison.model.arithmetic import FixedPoint
from unison.params import N16, N64, N256
from unison.sim.pysim import run

SRAM, HBM, BOTH = 0b01, 0b10, 0b11


class Bench(Elaboratable):
    """A scan and a scorer on a table and hazards that do not change."""

    def __init__(self, p, rows, hazards):
        self.p, self.rows, self.hazards = p, rows, hazards
        self.scorer = PipelinedScorer(p)
        self.scan = LinearScan(p, scorer_latency=self.scorer.latency)

    def elaborate(self, platform):
        m = Module()
        p, scan = self.p, self.scan
        m.submodules.scan, m.submodules.scorer = scan, self.scorer
        wiring.connect(m, scan.scorer, self.scorer.session)
        m.submodules.table = table = memory.Memory(shape=row_layout(p), depth=p.sessions, init=self.rows)
        m.submodules.live = live = memory.Memory(shape=p.hazard_bits, depth=p.turns, init=self.hazards)
        row, hazard = table.read_port(domain="comb"), live.read_port(domain="comb")
        m.d.comb += [
            row.addr.eq(scan.slot),
            scan.row.eq(row.data),
            hazard.addr.eq(scan.turn),
            scan.hazard.eq(hazard.data),
        ]
        return m


def random_rows(rng, p, completed=0.2, residencies=tuple(Residency)):
    """A table with few different scores, so that most of them tie."""
    gaps = [rng.randrange(1 << rng.randrange(1, p.gap_bits)) for _ in range(3)]
    return [
        {
            "flags": {
                "residency": rng.choice(residencies),
                "busy": rng.random() < 0.3,
                "completed": rng.random() < completed,
            },
            "facts": {"turn": rng.choice([1, 2, p.turn_limit]), "gap": rng.choice(gaps), "tokens": 1},
            "score": 0,
        }
        for _ in range(p.sessions)
    ]


def random_hazards(rng, p):
    return [rng.choice([0, 1000, p.hazard_max - p.survival_min]) for _ in range(p.turns)]


def search(p, rows, hazards, tiers, first, last):
    """What a pass has to find, each (slot, key) or None, and the scores that it has to write."""
    scores, keys = {}, {}
    for slot in range(first, last + 1):
        flags, facts = rows[slot]["flags"], rows[slot]["facts"]
        if flags["residency"] is Residency.FREE or flags["busy"]:
            continue
        score = FixedPoint(p).score(facts["gap"], facts["turn"], hazards)
        keys[slot] = 1 << p.live_score_bits if flags["completed"] else score
        if not flags["completed"]:
            scores[slot] = score

    def where(*residencies):
        return [slot for slot in keys if rows[slot]["flags"]["residency"] in residencies]

    def highest(slots):
        return max(((slot, keys[slot]) for slot in slots), key=lambda found: (found[1], -found[0]), default=None)

    taking_part = [tier for bit, tier in ((SRAM, Residency.SRAM), (HBM, Residency.HBM)) if tiers & bit]
    live = [slot for slot in where(Residency.HBM) if slot in scores]
    lowest = min(((slot, keys[slot]) for slot in live), key=lambda found: (found[1], found[0]), default=None)
    return (highest(where(Residency.ABSENT)), highest(where(*taking_part)), lowest), scores


async def one_pass(ctx, scan, tiers, first, last):
    """Starts a pass in this cycle; returns what it found, the scores it wrote, the slots it read, and its cycles."""
    request = scan.request
    for signal, value in ((request.tiers, tiers), (request.first, first), (request.last, last), (request.start, 1)):
        ctx.set(signal, value)
    slots, scores, cycles = [], {}, 0
    while True:
        if ctx.get(scan.reading):
            slots.append((cycles, ctx.get(scan.slot)))
        if ctx.get(scan.score_enable):
            scores[ctx.get(scan.score_slot)] = ctx.get(scan.score)
        await ctx.tick()
        cycles += 1
        # Only ``start`` takes these.
        for signal, value in ((request.start, 0), (request.tiers, ~tiers), (request.first, ~first), (request.last, 0)):
            ctx.set(signal, value)
        if ctx.get(request.done):
            break
    found = (request.absent, request.highest, request.lowest)
    results = tuple((ctx.get(f.slot), ctx.get(f.key)) if ctx.get(f.valid) else None for f in found)
    return results, scores, slots, cycles


def check_passes(p, rows, hazards, passes):
    """Runs ``passes``, each (tiers, first, last), back to back and compares all that they give."""
    bench = Bench(p, rows, hazards)

    async def testbench(ctx):
        for tiers, first, last in passes:
            results, scores, slots, cycles = await one_pass(ctx, bench.scan, tiers, first, last)
            assert cycles == last - first + 1 + 5
            assert slots == list(enumerate(range(first, last + 1)))
            assert (results, scores) == search(p, rows, hazards, tiers, first, last)

    run(bench, testbench)


@pytest.mark.parametrize("p", [N16, N64, N256], ids=["16", "64", "256"])
def test_pass_over_n_slots_takes_n_plus_5_cycles_and_finds_the_extremes(p):
    rng = random.Random(p.sessions)
    check_passes(p, random_rows(rng, p), random_hazards(rng, p), [(tiers, 0, p.sessions - 1) for tiers in (BOTH, SRAM)])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sessions", [4, 5, 11])
def test_passes_back_to_back(sessions, seed):
    rng = random.Random(seed)
    p = N64.replace(sessions=sessions)
    passes = [(rng.randrange(4), 0, sessions - 1) for _ in range(4)]
    for _ in range(4):
        first = rng.randrange(sessions)
        passes.insert(rng.randrange(len(passes)), (rng.randrange(4), first, rng.randrange(first, sessions)))
    check_passes(p, random_rows(rng, p), random_hazards(rng, p), passes)


@pytest.mark.parametrize("residency", Residency)
@pytest.mark.parametrize("completed", [0, 1], ids=["live", "completed"])
def test_ties_go_to_the_lowest_slot(residency, completed):
    rng = random.Random(1)
    p = N64.replace(sessions=6)
    rows = random_rows(rng, p, completed=completed, residencies=[residency])
    for row in rows:
        row["facts"] = {"turn": 1, "gap": 77, "tokens": 1}
    rows[0]["flags"]["busy"] = True
    for row in rows[1:]:
        row["flags"]["busy"] = False
    check_passes(p, rows, [0] * p.turns, [(BOTH, 0, 5), (BOTH, 2, 4)])


def test_scores_at_the_ends_of_the_range():
    """With b_s = 32 a live score saturates beside the completed code, and a gap of 0 scores 0."""
    p = N64.replace(sessions=8, score_bits=32)
    rows = random_rows(random.Random(2), p, completed=0, residencies=[Residency.HBM])
    for row, gap in zip(rows, [p.gap_max, 0, p.gap_max - 1, 0, p.gap_max, p.gap_max, 5, p.gap_max], strict=True):
        row["flags"]["busy"] = False
        row["facts"] = {"turn": 1, "gap": gap, "tokens": 1}
    for completed in ((), (4,), (4, 5)):
        for slot in completed:
            rows[slot]["flags"]["completed"] = True
        check_passes(p, rows, [0] * p.turns, [(BOTH, 0, 7)])
