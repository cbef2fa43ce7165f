"""Ranking fidelity: the measure itself, and the locked format on a made-up stream."""

import random

import pytest

from unison.formats import EVENT, AnswerKind, Opcode, pack
from unison.model.engine import Config, Engine
from unison.model.fidelity import kendall_tau, measure, ranking
from unison.params import Params

P = Params(sessions=8)
#: Close to one another: 12 bits tell them apart, 8 bits do not.
HAZARDS = [0.3 + 0.0004 * (7 * turn % 51) for turn in range(P.turns)]
CONFIG = Config(capacity_sram=3000, capacity_hbm=8000, gap_prior=100_000)


def recorded(seed, count, p=P):
    """Random legal events: random tokens and gaps of a very wide range."""
    rng = random.Random(seed)
    engine = Engine(p, CONFIG)
    events = []
    while len(events) < count:
        opcode = rng.choice([Opcode.ARRIVE, Opcode.ARRIVE_ANY, Opcode.GAP_START, Opcode.GAP_END, Opcode.GAP_END])
        word0 = pack(EVENT, opcode=opcode, slot=rng.randrange(p.sessions), tokens=rng.randrange(1, 2000))
        event = word0, 0 if opcode is Opcode.GAP_START else int(10 ** rng.uniform(2, 8))
        if engine.step(*event).answers[-1].kind is AnswerKind.OUTCOME:
            events.append(event)
    return events


@pytest.mark.parametrize(
    ("first", "second", "tau"),
    [
        ([1, 2], [1, 2], 1),
        ([1, 2], [2, 1], -1),
        ([5, 3, 9], [3, 5, 9], 1 / 3),
        ([5, 3, 9], [9, 3, 5], -1),
        ([0, 1, 2, 3], [1, 0, 3, 2], 1 / 3),
        ([0, 1, 2, 3], [3, 0, 1, 2], 0),
    ],
)
def test_kendall_tau_counts_discordant_pairs(first, second, tau):
    assert kendall_tau(first, second) == pytest.approx(tau)


@pytest.mark.parametrize(("first", "second"), [([1], [1]), ([1, 2], [1, 3]), ([1, 1], [1, 1]), ([1, 2], [1, 2, 3])])
def test_kendall_tau_refuses_orders_of_different_things(first, second):
    with pytest.raises(ValueError, match="orders"):
        kendall_tau(first, second)


def test_ranking_breaks_ties_to_the_lowest_slot():
    assert ranking({4: 7, 1: 7, 3: 9, 0: 2}) == [3, 1, 4, 0]


def test_the_locked_format_ranks_as_the_float_policy():
    (fidelity,) = measure(P, recorded(1, 2000), HAZARDS, CONFIG)
    assert fidelity.snapshots > 300
    assert fidelity.top1 > 0.99
    assert fidelity.tau > 0.99


def test_coarser_formats_rank_worse():
    coarse_gap = P.replace(gap_unit_ns=1_000_000, penalty=500_000, gap_bits=24)
    coarse_hazard = P.replace(hazard_bits=8)
    fine, gap, hazard = measure(P, recorded(2, 2000), HAZARDS, CONFIG, [P, coarse_gap, coarse_hazard])
    assert fine.snapshots == gap.snapshots == hazard.snapshots
    assert fine.tau > gap.tau
    assert fine.tau > hazard.tau
    assert hazard.tau_min < 1


def test_a_format_without_penalty_is_far_off():
    fine, none = measure(P, recorded(3, 1000), HAZARDS, CONFIG, [P, P.replace(penalty=0)])
    assert none.top1 < 0.9 < fine.top1


def test_a_stream_without_decisions_has_no_fidelity():
    (fidelity,) = measure(P, [(0, 0)], HAZARDS)
    assert fidelity.snapshots == 0
    assert fidelity.top1 != fidelity.top1


def test_the_arriving_session_is_not_ranked():
    events = [
        (pack(EVENT, opcode=opcode, slot=slot, tokens=tokens), 0)
        for opcode, slot, tokens in [
            (Opcode.ARRIVE, 0, 100),
            (Opcode.ARRIVE, 1, 100),
            (Opcode.GAP_START, 0, 100),
            (Opcode.GAP_START, 1, 100),
            (Opcode.ARRIVE, 0, 200),
        ]
    ]
    (fidelity,) = measure(P, events, HAZARDS, Config(capacity_sram=200, numerator=0))
    assert fidelity.snapshots == 1, "only the second GAP_START had two sessions to rank"


def test_the_snapshot_of_an_eviction_is_what_the_event_found():
    """Two gaps that the coarse format cannot tell apart: it names slot 0, the float policy slot 1."""
    coarse = P.replace(gap_unit_ns=1_000_000, penalty=500_000)
    hazards = [0.0] * P.turns
    config = Config(capacity_sram=200, numerator=0)
    events = [
        (pack(EVENT, opcode=opcode, slot=slot, tokens=100), operand)
        for opcode, slot, operand in [
            (Opcode.ARRIVE, 0, 0),
            (Opcode.ARRIVE, 1, 0),
            (Opcode.GAP_START, 0, 0),
            (Opcode.GAP_END, 0, 1100),
            (Opcode.GAP_START, 1, 0),
            (Opcode.GAP_END, 1, 1900),
            (Opcode.ARRIVE, 2, 0),
        ]
    ]
    fine, rough = measure(P, events, hazards, config, [P, coarse])
    assert (fine.snapshots, fine.top1, fine.tau) == (2, 1.0, 1.0)
    assert (rough.snapshots, rough.top1, rough.tau, rough.tau_min) == (2, 0.5, 0.0, -1.0)
