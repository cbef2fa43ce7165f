"""The first policies on examples worked out by hand, and Belady against every possible choice.

A session is written as its name, its requests' times in microseconds and its context; requests take no time. The
answer is one letter a request: ``.`` miss, ``S``, ``H`` hit, ``p`` found shrunk.
"""

import random
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from unison.model.arithmetic import FixedPoint
from unison.model.load import Load
from unison.model.policies import POLICIES
from unison.model.policies.base import SLOT, Policy, Setting
from unison.model.policies.lru import timeout
from unison.model.policies.spear import spear_float
from unison.model.schedule import make_schedule
from unison.model.simulator import simulate
from unison.model.trace import Session, Trace, Turn
from unison.params import N64, Params

NO_HAZARD = [0] * 51


def replay(policy, sessions, sizes, completion="silent", **settings):
    """The Result of sessions such as ``A 0 4 9 x10; B 1 x20`` (the first of one instant first)."""
    made = []
    for number, text in enumerate(sessions.split(";")):
        _, *times, tokens = text.split()
        tokens = int(tokens.removeprefix("x"))
        turns = (Turn(int(time), int(time), tokens, 0 if n else tokens, 0, None) for n, time in enumerate(times))
        made.append(Session(number, tuple(turns)))
    load = Load(arrivals="recorded", scale=Fraction(1), completion=completion)
    policy = POLICIES[policy] if isinstance(policy, str) else policy
    return simulate(make_schedule(Trace("hand", tuple(made)), load), policy, sizes, **settings)


def letters(result):
    return "".join(
        "." if not found else "SH"[found - 2] if hit else "p"
        for found, hit in zip(result.requests["found"].tolist(), result.hit.tolist(), strict=True)
    )


#: Two of three fit. At 3 C needs room: B has been idle for longest, A has been there for longest.
RECENT = "A 0 2 4 x10; B 1 5 x10; C 3 x10"
#: At 2 C needs room: A has been idle for longer, B is through.
DONE = "A 0 3 x10; B 1 x10; C 2 x10"
#: At 21 C needs room: A (third turn, gap average 10, idle 1, back at 30) or B (second turn, 2, idle 7, back at 22).
GAPS = "A 0 10 20 30 x10; B 12 14 22 x10; C 21 x10"
#: The same with a larger B that is back at 25: 10 * 9 against 30 * 4 token-microseconds until the return.
SIZES = "A 0 10 20 30 x10; B 12 14 25 x30; C 21 x10"


@pytest.mark.parametrize(("policy", "sessions", "room", "expected"), [
    ("lru", RECENT, 20, "..H.H."),
    ("fifo", RECENT, 20, "..H..."),
    ("belady", RECENT, 20, "..H.H."),
    ("lru", DONE, 20, "...."),
    ("belady", DONE, 20, "...H"),
    ("lru", GAPS, 20, ".H.HH..."),
    ("spear", GAPS, 20, ".H.HH.H."),
    ("spear-float", GAPS, 20, ".H.HH.H."),
    ("spear-no-idle-no-hazard", GAPS, 20, ".H.HH.H."),
    ("spear-idle-max", GAPS, 20, ".H.HH.H."),
    ("spear-idle-sum", GAPS, 20, ".H.HH.H."),
    ("spear-no-gap", GAPS, 20, ".H.HH..."),
    ("belady", GAPS, 20, ".H.HH.H."),
    ("belady", SIZES, 40, ".H.HH.H."),
    ("belady-size", SIZES, 40, ".H.HH..H"),
])  # fmt: skip
def test_who_leaves(policy, sessions, room, expected):
    assert letters(replay(policy, sessions, (0, room), hazards=NO_HAZARD)) == expected


def test_completed_sessions_go_first_if_the_policy_hears_of_them():
    assert letters(replay("lru-completion", DONE, (0, 20), "explicit")) == "...H"
    assert letters(replay("lru", DONE, (0, 20), "explicit")) == "...."
    silent = replay("lru-completion", DONE, (0, 20))
    assert (letters(silent), silent.degraded) == ("....", ("completion",))


@pytest.mark.parametrize(("policy", "expected"), [
    # sigma of B halves: 2 / 0.5 + 250 s against 10.
    ("spear", ".H.HH..."),
    ("spear-no-idle-no-gap", ".H.HH..."),
    ("spear-no-hazard", ".H.HH.H."),
])  # fmt: skip
def test_a_hazard_at_the_turn_of_a_session_makes_it_leave(policy, expected):
    hazards = [0.0, 0.0, 0.5] + [0.0] * 48
    assert letters(replay(policy, GAPS, (0, 20), hazards=hazards)) == expected


@pytest.mark.parametrize(("idle", "stays"), [("max", "..HH.H"), ("sum", "..HH..")])
def test_the_two_forms_of_elapsed_idle_differ(idle, stays):
    # At 14 C needs room: A has an average of 6 and is idle for 7, B has 4 and is idle for 9, and both may leave:
    # max: 7 against 9, sum: 13 both, and the lower slot leaves.
    sessions = "A 1 7 15 x10; B 1 5 x10; C 14 x10"
    result = replay(spear_float("idle", idle=idle), sessions, (0, 20), hazards=NO_HAZARD)
    assert letters(result) == stays


@pytest.mark.parametrize("p", [N64, Params(hazard_bits=8, score_bits=32), Params(gap_unit_ns=1, gap_bits=48)])
def test_the_fixed_point_score_is_the_golden_models(p):
    rng = random.Random(0)
    hazards = tuple(rng.randrange(p.hazard_max + 1) for _ in range(p.turns))
    setting = Setting(None, p, hazards, (), (0, 0), None, 1, 0)
    shared = POLICIES["spear"].prepare(setting)
    slots = np.zeros(1, dtype=SLOT)
    nothing = np.zeros((1, 0))
    arithmetic = FixedPoint(p)
    for _ in range(2000):
        gap, turn = rng.randrange(min(p.gap_max, 1 << 45) >> rng.randrange(24)), rng.randrange(p.turns)
        slots["gap"], slots["turn"] = gap, turn
        expected = arithmetic.score(gap, turn, hazards)
        assert POLICIES["spear"].score(slots, 0, 0, nothing, nothing, shared) == expected < 1 << 53


def test_a_timeout_takes_effect_after_its_limit_and_not_at_it():
    result = replay(timeout(5e-6), "A 0 5 11 x10; B 11 x5", (0, 100))
    assert letters(result) == ".H.."
    assert result.evicted_tokens == 10
    assert letters(replay("timeout-10s", RECENT, (0, 20))) == "..H.H."
    with pytest.raises(ValueError, match="not 0"):
        timeout(0)


def test_a_session_loses_as_many_blocks_as_are_needed():
    # 80 tokens in 64: B's 40 take one block of 16 of A; A's 40 take it back from B, and so on.
    result = replay("lru-block", "A 0 2 x40; B 1 3 x40", (0, 64))
    assert letters(result) == "..pp"
    assert result.requests["cached"].tolist() == [0, 0, 24, 24]
    assert result.request_costs().tolist() == [8000, 8000, 40 * 4 + 16 * 200, 40 * 4 + 16 * 200]
    assert result.prefill_reduction == 48 / 160
    assert result.evicted_tokens == 3 * 16
    assert result.false_evictions(1e-6) == 2
    assert letters(replay("lru", "A 0 2 x40; B 1 3 x40", (0, 64))) == "...."


def test_chance_picks_each_candidate():
    outcomes = {letters(replay("random", "A 0 3 x10; B 1 4 x10; C 2 x10", (0, 20), seed=seed)) for seed in range(30)}
    # At 2 A or B leaves; a miss at 3 makes room by B or C.
    assert outcomes == {"...H.", "....H", "....."}


def test_recency_with_tide_brings_the_latest_session_up():
    # B pauses at 1 in HBM beside A, idle since 0, in SRAM: they change places, and B is found there at 5. A, idle for
    # longer, stays where it is.
    result = replay("tide", "A 0 6 x10; B 1 5 x10", (10, 20), denominator=0)
    assert letters(result) == "..SH"
    assert (result.promotions, result.prefetch_accuracy) == (2, 0.5)
    unmoved = replay("lru", "A 0 6 x10; B 1 5 x10", (10, 20), denominator=0)
    assert (letters(unmoved), unmoved.prefetch_accuracy) == ("..HS", None)


def test_false_evictions_are_those_of_sessions_soon_back():
    result = replay("lru", "A 0 4 x10; B 2 9 x10", (0, 10))
    # A leaves at 2 and is back at 4, B leaves at 4 and is back at 9.
    assert [result.false_evictions(seconds * 1e-6) for seconds in (1, 2, 4, 5)] == [0, 1, 1, 2]


def most_hits(requests, room):
    """The most hits of any choice of victims; every session that is asked for is brought in."""

    @cache
    def best(n, resident):
        if n == len(requests):
            return 0
        wanted = requests[n]
        if wanted in resident:
            return 1 + best(n + 1, resident)
        if len(resident) < room:
            return best(n + 1, resident | {wanted})
        return max(best(n + 1, resident - {victim} | {wanted}) for victim in resident)

    return best(0, frozenset())


@pytest.mark.parametrize("seed", range(40))
def test_belady_hits_as_often_as_any_choice_could_with_equal_sizes_in_one_tier(seed):
    rng = random.Random(seed)
    room = rng.randint(1, 4)
    requests = [rng.randrange(6) for _ in range(22)]
    texts = []
    for session in sorted(set(requests)):
        times = " ".join(str(3 * n) for n, asked in enumerate(requests) if asked == session)
        texts.append(f"{session} {times} x10")
    hits = {
        name: int(replay(name, ";".join(texts), (0, 10 * room)).hit.sum()) for name in ("belady", "belady-size", "lru")
    }
    assert hits["belady"] == hits["belady-size"] == most_hits(tuple(requests), room)
    assert hits["lru"] <= hits["belady"]


def test_every_policy_says_what_it_does():
    for name, policy in POLICIES.items():
        assert policy.name == name and policy.summary.endswith(".")


@pytest.mark.parametrize(("changes", "words"), [
    ({"needs": {"weather"}}, "weather"),
    ({"mode": 7}, "not 7"),
    ({"drops": True}, "STEPPED"),
    ({"mode": 3, "tide": True}, "tide"),
])  # fmt: skip
def test_a_contradictory_policy_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        Policy(name="odd", summary="Odd.", **changes)
