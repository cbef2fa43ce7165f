"""The scorer gives the score of equations (15) and (17) to (19), one a cycle."""

import random

import pytest
from amaranth.hdl import Cat

from unison.hdl.spear import PipelinedScorer
from unison.model.arithmetic import FixedPoint
from unison.params import N64
from unison.sim.pysim import pause, run

FORMATS = {
    "locked": N64,
    "32_bit_score": N64.replace(score_bits=32),
    "32_bit_score_penalty_saturates": N64.replace(score_bits=32, penalty=(1 << 40) - 1),
    "8_bit_hazard": N64.replace(hazard_bits=8),
    "10_bit_hazard_24_bit_gap": N64.replace(hazard_bits=10, gap_bits=24),
    "no_penalty": N64.replace(penalty=0),
    "largest_penalty": N64.replace(penalty=(1 << 40) - 1),
    "penalty_of_whole_lambdas": N64.replace(penalty=4095 * 7),
    "penalty_below_lambda": N64.replace(penalty=4094, hazard_bits=12),
}


def score(p, gap, hazard):
    """The score, with no shortcut that the hardware takes."""
    whole = 2**p.hazard_bits - 1
    survival = whole - hazard
    return min(gap * whole // survival + (whole - survival) * p.penalty // whole, 2**p.score_bits - 2)


def saturation_edge(p, hazard):
    """Gaps around the one from which the score saturates, where there is one."""
    low, high = 0, p.gap_max
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if score(p, middle, hazard) == p.score_live_max else (middle + 1, high)
    return [gap for gap in (low - 1, low, low + 1) if 0 <= gap <= p.gap_max]


@pytest.mark.parametrize("p", FORMATS.values(), ids=FORMATS)
def test_score_is_exact_and_comes_after_four_cycles(p):
    rng = random.Random(p.penalty)
    highest = p.hazard_max - p.survival_min
    sessions = [(gap, hazard) for gap in (0, 1, p.gap_max) for hazard in (0, 1, highest - 1, highest)]
    for hazard in (0, highest, rng.randint(0, highest)):
        sessions += [(gap, hazard) for gap in saturation_edge(p, hazard)]
    sessions += [(rng.getrandbits(rng.randint(1, p.gap_bits)), rng.randint(0, highest)) for _ in range(150)]
    dut = PipelinedScorer(p)
    assert dut.latency == 4
    scores = []

    async def stream(ctx):
        for gap, hazard in sessions:
            ctx.set(Cat(dut.session.gap, dut.session.hazard), gap | hazard << p.gap_bits)
            await ctx.tick()

    async def watch(ctx):
        await pause(ctx, dut.latency)
        for _ in sessions:
            _, _, value = await ctx.tick().sample(dut.session.score)
            scores.append(value)

    run(dut, stream, watch)
    assert scores == [score(p, gap, hazard) for gap, hazard in sessions]
    assert scores == [FixedPoint(p).score(gap, 0, [hazard] * p.turns) for gap, hazard in sessions]


def test_cases_reach_the_saturation():
    p = FORMATS["32_bit_score"]
    assert score(p, p.gap_max, 0) == 2**32 - 2
    assert score(p, *(saturation_edge(p, 0)[0], 0)) == 2**32 - 3
