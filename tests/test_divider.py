"""Both dividers give the exact quotient, in the cycle they promise."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.back import verilog
from amaranth.hdl import Cat

from unison.hdl.divider import PipelinedDivider, SerialDivider
from unison.params import N64
from unison.sim.pysim import pause, run
from unison.sim.runner import VERILATOR_ENVIRONMENT, VERILATOR_PROGRAM

RANKS = 4

#: Streams, for every divisor, a dividend a cycle: multiples and their neighbours, and the extremes.
EXHAUSTIVE = r"""
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <vector>
#include "Vdivider.h"

int main() {
    Vdivider divider;
    std::deque<std::pair<uint64_t, uint64_t>> flight;
    uint64_t checked = 0, wrong = 0;
    auto feed = [&](uint64_t dividend, uint64_t divisor) {
        divider.dividend = dividend;
        divider.divisor = divisor;
        divider.clk = 0;
        divider.eval();
        flight.emplace_back(dividend, divisor);
        if (flight.size() > RANKS) {
            auto [was, by] = flight.front();
            flight.pop_front();
            checked++;
            if (divider.quotient != was / by && wrong++ < 5)
                printf("%lu / %lu gave %lu\n", was, by, uint64_t(divider.quotient));
        }
        divider.clk = 1;
        divider.eval();
    };
    for (uint64_t divisor = FIRST; divisor <= LAST; divisor++) {
        std::vector<uint64_t> factors{0, LARGEST / divisor};
        for (uint64_t power = 1; power <= LARGEST / divisor; power *= 2)
            factors.insert(factors.end(), {power - 1, power, power + 1});
        for (uint64_t factor : factors)
            for (int64_t near = -1; near <= 1; near++)
                feed(std::clamp<int64_t>(int64_t(factor * divisor) + near, 0, LARGEST), divisor);
        feed(LARGEST, divisor);
    }
    for (int cycle = 0; cycle < RANKS; cycle++) feed(0, LAST);
    printf("%lu checked, %lu wrong\n", checked, wrong);
    return wrong != 0;
}
"""


def scorer_divider(p=N64, ranks=RANKS):
    """The divider as the scorer builds it."""
    return PipelinedDivider(
        dividend_bits=p.gap_bits + p.hazard_bits,
        divisor_bits=p.hazard_bits,
        quotient_bits=p.quotient_bits,
        ranks=ranks,
    )


def test_every_survival_is_divided_by_exactly(tmp_path):
    p = N64
    divider = scorer_divider()
    ports = [divider.dividend, divider.divisor, divider.quotient]
    source, bench = tmp_path / "divider.v", tmp_path / "bench.cpp"
    source.write_text(verilog.convert(divider, name="divider", ports=ports, emit_src=False))
    bench.write_text(EXHAUSTIVE)
    assert (p.survival_min, p.hazard_max) == (41, 4095)
    numbers = {"FIRST": p.survival_min, "LAST": p.hazard_max, "LARGEST": p.gap_max * p.hazard_max, "RANKS": RANKS}
    defines = " ".join(f"-D{name}={value}" for name, value in numbers.items())
    command = [VERILATOR_PROGRAM, "--cc", "--exe", "--build", "-Wno-lint", "-Wno-fatal"]
    command += ["--top-module", "divider", "--Mdir", tmp_path, "-CFLAGS", f"-O1 {defines}", source, bench]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    built = subprocess.run(
        command,
        env=os.environ | VERILATOR_ENVIRONMENT | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    result = subprocess.run([tmp_path / "Vdivider"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
    checked = int(result.stdout.split()[0])
    assert checked > 300 * (p.hazard_max - p.survival_min + 1)


@pytest.mark.parametrize(
    ("p", "ranks"),
    [(N64, 4), (N64, 13), (N64, 39), (N64.replace(hazard_bits=8), 4), (N64.replace(gap_bits=24, hazard_bits=10), 5)],
    ids=["locked", "three_rows_a_rank", "a_rank_a_row", "8_bit_hazard", "24_bit_gap"],
)
def test_pipeline_takes_a_pair_a_cycle_and_answers_after_its_ranks(p, ranks):
    rng = random.Random(ranks)
    dut = scorer_divider(p, ranks)
    largest = p.gap_max * p.hazard_max
    pairs = [(0, p.hazard_max), (largest, p.survival_min), (largest, p.hazard_max), (0, p.survival_min)]
    for _ in range(60):
        divisor = rng.randint(p.survival_min, p.hazard_max)
        multiple = divisor * rng.randrange(1 << rng.randrange(1, p.gap_bits))
        pairs += [(min(max(multiple + near, 0), largest), divisor) for near in (-1, 0, 1)]
    quotients = []

    async def stream(ctx):
        operands = Cat(dut.dividend, dut.divisor)
        for dividend, divisor in pairs:
            ctx.set(operands, dividend | divisor << len(dut.dividend))
            await ctx.tick()

    async def watch(ctx):
        # Before an edge stands what belongs to the operands of ``ranks`` cycles ago.
        await pause(ctx, ranks)
        for _ in pairs:
            _, _, quotient = await ctx.tick().sample(dut.quotient)
            quotients.append(quotient)

    run(dut, stream, watch)
    assert quotients == [dividend // divisor for dividend, divisor in pairs]


@pytest.mark.parametrize("ranks", [0, 40])
def test_ranks_beyond_the_rows_are_refused(ranks, refuses):
    refuses(f"not {ranks}", lambda: scorer_divider(ranks=ranks))


def test_serial_steps_must_divide_the_quotient(refuses):
    refuses("not 3", lambda: SerialDivider(dividend_bits=48, divisor_bits=16, quotient_bits=32, bits_per_cycle=3))


@pytest.mark.parametrize(
    ("dividend_bits", "divisor_bits", "quotient_bits", "bits_per_cycle"),
    [(48, 16, 32, 2), (40, 16, 32, 1), (20, 4, 8, 4), (8, 12, 8, 8)],
)
def test_serial_quotient_is_exact_or_saturates(dividend_bits, divisor_bits, quotient_bits, bits_per_cycle):
    rng = random.Random(dividend_bits)
    dut = SerialDivider(
        dividend_bits=dividend_bits,
        divisor_bits=divisor_bits,
        quotient_bits=quotient_bits,
        bits_per_cycle=bits_per_cycle,
    )
    largest, widest, most = (1 << dividend_bits) - 1, (1 << divisor_bits) - 1, (1 << quotient_bits) - 1
    pairs = [(a, b) for a in (0, 1, most, min(most + 1, largest), largest) for b in (0, 1, 10 & widest, widest)]
    for _ in range(40):
        divisor = rng.randrange(1, 1 << rng.randint(1, divisor_bits))
        for factor in (rng.getrandbits(quotient_bits), most + 1):
            pairs += [(min(max(factor * divisor + near, 0), largest), divisor) for near in (-1, 0, 1)]
    latency = 1 + quotient_bits // bits_per_cycle

    async def divide(ctx):
        async def start(dividend, divisor):
            ctx.set(dut.dividend, dividend)
            ctx.set(dut.divisor, divisor)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            ctx.set(dut.dividend, rng.getrandbits(dividend_bits))
            ctx.set(dut.divisor, rng.getrandbits(divisor_bits))

        for dividend, divisor in pairs:
            if rng.random() < 0.2:
                await start(largest, 1)
                await pause(ctx, rng.randrange(latency))
            await start(dividend, divisor)
            for _ in range(latency - 1):
                assert not ctx.get(dut.done)
                await ctx.tick()
            await pause(ctx, rng.randrange(3))
            assert ctx.get(dut.done)
            expected = most if divisor == 0 else min(dividend // divisor, most)
            assert ctx.get(dut.quotient) == expected, f"{dividend} / {divisor}"

    run(dut, divide)
