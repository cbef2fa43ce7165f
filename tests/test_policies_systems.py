"""The rules of published systems on examples worked out by hand.

A session is written as its name and its turns. A turn is ``time``, or ``begin-end`` where the answer takes time, in
seconds; then a letter for the tool waited for (``u`` a person, ``n`` none); then ``:tokens`` and ``@role`` where they
change; it begins with 10 tokens. Sessions of one instant go in order. Most examples ask who leaves first, two fitting.
"""

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from unison.formats import AnswerKind
from unison.model.accounting import Costs
from unison.model.load import Load
from unison.model.policies import POLICIES
from unison.model.policies.agserve import agserve
from unison.model.policies.base import Policy
from unison.model.policies.cachescout import _hops_back, cachescout
from unison.model.policies.continuum import (
    _CALLS,
    _PAIRS,
    _best_pin,
    _end_program,
    _eta,
    _observe,
    continuum,
)
from unison.model.policies.infercept import _discard_in_chunks, infercept
from unison.model.policies.kvflow import kvflow, steps_to_execution
from unison.model.policies.learned import role_chances
from unison.model.policies.lmcache import lmcache_cost
from unison.model.policies.lpc import lpc
from unison.model.policies.mooncake import mooncake
from unison.model.policies.pbkv import pbkv
from unison.model.policies.saga import saga
from unison.model.policies.trtllm import trtllm
from unison.model.schedule import make_schedule
from unison.model.simulator import simulate
from unison.model.trace import Session, Trace, Turn
from unison.params import N64

SYSTEMS = (
    "agserve",
    "agserve-conditional",
    "agserve-late",
    "cachedattention",
    "cachescout",
    "continuum",
    "continuum-released",
    "flexgen",
    "infercept",
    "infercept-hb",
    "infercept-hb-mean",
    "infercept-oracle",
    "kvflow",
    "lmcache-cost",
    "lpc",
    "mooncake",
    "pbkv",
    "saga",
    "trtllm",
)
TURN = re.compile(r"([\d.]+)(?:-([\d.]+))?([a-z]?)(?::(\d+))?(?:@(\w+))?")
NAMES = {"u": "user", "n": "none"}
NO_HAZARD = (0,) * N64.turns


def schedule_of(sessions, completion="silent"):
    made = []
    for number, text in enumerate(sessions.split(";")):
        rows, tokens, role = [], 10, None
        for word in text.split()[1:]:
            begin, end, tool, changed, named = TURN.fullmatch(word).groups()
            before, tokens = tokens if rows else 0, int(changed or tokens)
            role = named or role
            times = (round(float(time) * 1e6) for time in (begin, end or begin))
            rows.append(Turn(*times, tokens, max(tokens - before, 0), 0, NAMES.get(tool, tool) or None, role))
        made.append(Session(number, tuple(rows)))
    load = Load(arrivals="recorded", scale=Fraction(1), completion=completion)
    return make_schedule(Trace("hand", tuple(made)), load)


def replay(policy, sessions, sizes=(0, 20), completion="silent", **settings):
    policy = POLICIES[policy] if isinstance(policy, str) else policy
    return simulate(schedule_of(sessions, completion), policy, sizes, **{"hazards": NO_HAZARD, **settings})


def letters(policy, *args, **settings):
    """One letter a request: ``.`` miss, ``S``, ``H`` hit."""
    result = replay(policy, *args, **settings)
    return "".join(".SH"[max(found - 1, 0)] for found in result.requests["found"].tolist())


def leaves(policy, sessions, *args, **settings):
    """The name of the session that leaves first."""
    result = replay(policy, sessions, *args, log=True, **settings)
    slot = result.log[result.log[:, 0] == AnswerKind.EVICT.value][0, 1]
    # A slot is given at the first arrival, in this order.
    return sorted(sessions.split(";"), key=lambda text: float(re.findall(r" ([\d.]+)", text)[0]))[slot].split()[0]


#: Room for two sessions of 40,000 tokens, each 2 s of prefill: while nothing is known a call pins for ln 2 = 0.693 s.
LARGE = (0, 80000)


@pytest.mark.parametrize(("sessions", "expected"), [
    # A is pinned, B waits for a person.
    ("A 0:40000 5a; B .1:40000 9u; C .69:40000", "B"),
    ("A 0:40000 5a; B .1:40000 9u; C .7:40000", "A"),
    # Both are pinned: the program that came last.
    ("A 0:40000 5a; B .1:40000 9a; C .5:40000", "B"),
    # No tool is told: as if all were calls.
    ("A 0:40000 5; B .1:40000 9; C .5:40000", "B"),
    # Half as long to prefill, and nothing to gain.
    ("A 0:20000 5a; B .1:20000 9u; C .5:80000", "A"),
])  # fmt: skip
def test_continuum_pins_by_prefill_time_while_nothing_is_known(sessions, expected):
    assert leaves("continuum", sessions, LARGE) == expected
    assert leaves("lru", sessions, LARGE) == "A"


def test_continuum_pins_for_the_sample_that_gains_most():
    row = np.zeros(2 + 2 * 4)
    for sample in (99, 10, 1, 2, 10):
        _observe(row, sample)
    assert row.tolist() == [5, 1, 10, 10, 1, 2, 1, 2, 10, 10]
    # P gain - tau, tau 1, 2, 10, with gain 6: 0.5, 1, -4; with 50: 11.5, 23, 40; with 2 all lose.
    assert [_best_pin(row, gain) for gain in (6.0, 50.0, 2.0)] == [2, 10, 0]


def test_continuum_learns_how_much_a_program_remembers():
    shared = np.zeros(_CALLS)
    assert _eta(shared) == 1
    _end_program(shared, 3)
    assert _eta(shared) == 1
    _end_program(shared, 1)
    # k 1 2 3 1 and N - k 2 1 0 0: the covariance is 4 4 - 7 3, the variances 4 15 - 49 and 4 5 - 9.
    assert shared[_PAIRS] == 4
    assert math.isclose(_eta(shared), 5 / 11)


def test_continuum_uses_the_law_of_the_tool():
    # a took 3 s, which cannot pay for 2 s of prefill; with a queue of 9 s it does.
    sessions = "A 0:40000 3a 9a; B 3.1:40000 9u; C 3.5:40000"
    assert leaves(continuum(enough=1), sessions, LARGE) == "A"
    assert leaves(continuum(), sessions, LARGE) == "B"
    assert leaves(continuum(enough=1, queue_s=9.0), sessions, LARGE) == "B"
    # b is unknown: the pool counts.
    assert leaves(continuum(enough=1), "A 0:40000 3a 9b; B 3.1:40000 9u; C 3.5:40000", LARGE) == "A"


@pytest.mark.parametrize(("sessions", "expected"), [
    ("A 0 9a; B .1 9u; C 2", "B"),
    ("A 0 9a; B .1 9u; C 2.1", "A"),
    ("A 0 9n; B .1 9u; C 1.8", "A"),
    ("A 0 9; B .1 9; C 1.8", "A"),
    # a took 3 s once, so A is not pinned, and b is unknown: B is. Were both pinned, B would leave.
    ("A 0 3a 9a; B 3.1 9b; C 4", "A"),
    # a took 2 s: both are pinned, the later program leaves.
    ("A 0 2a 9a; B 2.1 9b; C 3", "B"),
])  # fmt: skip
def test_continuum_released_pins_two_seconds_after_fast_tools(sessions, expected):
    assert leaves("continuum-released", sessions) == expected


def test_infercept_takes_the_least_waste():
    # Prefill 50 us a token, swap 1 us: beside 1,000 busy tokens up to 2 ms are preserved in SRAM, more is swapped.
    sessions = "B 0-10:1000; A 1 1.002a 1.0041a"
    assert letters("infercept-oracle", sessions, (2000, 2000)) == "..SH"
    assert letters("infercept", sessions, (2000, 2000)) == "..SS"
    # Swap at 50 us a token: 100 ms to swap, 50.5 ms to discard.
    dear = {"costs": Costs(1, 200, 200)}
    assert letters("infercept-oracle", "B 0-10:1000; A 1 1.05a 1.101a", (2000, 2000), **dear) == "..S."


def test_infercept_by_thresholds():
    assert letters("infercept-hb", "A 0 3.9a 7.9a 14.8a 21.8a", (20, 20)) == ".SHH."
    # The mean wait is not known, 5, 5.5, 7.
    result = replay("infercept-hb-mean", "A 0 5a 11a 21a 22a", (20, 20), "explicit")
    assert (result.requests["found"].tolist(), result.evictions) == ([0, 2, 3, 3, 0], 1)


def test_infercept_ranks_by_waste():
    # Token-milliseconds of idling: A 1,000 10, B 4,000 5; to recompute takes 25,000 and more.
    assert leaves("infercept", "A 0:1000 .05; B .005:4000 .06; C .010:1000", (0, 5000)) == "B"
    # A: 6 ms of 100 tokens, above the 5 ms of its recomputation; B: 3 ms of 1,000, below 25 ms.
    assert leaves("infercept", "A 0:100 .05; B .003:1000 .06; C .006:100", (0, 1100)) == "A"
    # What is left of the true wait: 5 ms of 1,000 tokens against 10 ms of 400.
    assert leaves("infercept-oracle", "A 0:1000 .015; B .005:400 .02; C .010:1000", (0, 1400)) == "A"
    # Two full chunks wait for the third and delay 100 tokens of others.
    assert _discard_in_chunks(1000, 100, 1.0, 384) == 384 * 384 * 3 + 384 * 2 * 100 + 232 * (100 + 232)


#: At 10.5 A is due at 20 (a takes 10 s), B at 11 (b takes 2 s).
SOON = "A 0 10a 30a; B 7 9b 30b; C 10.5"
#: At 17 A is due at 18 (4 s), B was due at 12.5 (1 s).
LATE = "A 10 14a 30a; B 10.5 11.5b 30b; C 17"
#: At 17 A is due at 20.5 (9 s); B was due at 16, 4.5 s after 11.5, but the longer wait of b was 8 s: 2.5 s left.
LONG = "D 0:1 8b; A 2.5 11.5a 40a; B 10.5 11.5b 30b; C 17"


@pytest.mark.parametrize(("overdue", "sessions", "expected"), [
    ("now", SOON, "A"),
    ("now", LATE, "A"),
    # Both are overdue and alike, whoever was due first.
    ("now", "A 0 1a 90a; B 1.5 2.5b 90b; C 20", "A"),
    ("late", LATE, "B"),
    ("conditional", SOON, "A"),
    ("conditional", LATE, "B"),
    ("now", LATE.replace("a", "").replace("b", ""), "A"),
])  # fmt: skip
def test_agserve_evicts_the_latest_estimated_arrival(overdue, sessions, expected):
    assert leaves(agserve(overdue=overdue), sessions) == expected


def test_agserve_expects_an_overdue_session_by_the_longer_waits():
    conditional = agserve(overdue="conditional")
    # D has completed and makes room for one token only.
    result = replay(conditional, LONG, (0, 20), "explicit", log=True)
    assert result.log[result.log[:, 0] == AnswerKind.EVICT.value][:2, 1].tolist() == [0, 1]
    # Had b never taken as long, B would count with its 5.5 s of waiting.
    short = LONG.replace("D 0:1 8b", "D 7:1 8b")
    result = replay(conditional, short, (0, 20), "explicit", log=True)
    assert result.log[result.log[:, 0] == AnswerKind.EVICT.value][:2, 1].tolist() == [1, 2]


def test_cachescout_keeps_large_sessions():
    assert leaves("cachescout", "B 0:30 6; A 1 5; C 2", (0, 40)) == "A"
    assert leaves("lru", "B 0:30 6; A 1 5; C 2", (0, 40)) == "B"
    assert leaves("cachescout", "A 0 9; B 1 9; C 2") == "A"


def test_cachescout_ages_by_scheduler_steps():
    # At C 1,000 steps later B has (1 + .01) (e**(-.005 steps) + .01) 30 of worth, less than A's 10 of just now.
    busy = " ".join(f"{2 + step * 0.01:.2f}" for step in range(500))
    assert leaves("cachescout", f"B 0:30 90; D 1:1 {busy}; A 8 90; C 9", (0, 41)) == "B"


def test_cachescout_counts_hops_back_to_a_role():
    chances = np.array([[0.0, 1.0, 0.0], [0.9, 0.1, 0.0], [0.0, 0.95, 0.05]])
    assert [_hops_back(chances, 0.1, role) for role in range(3)] == [2, 1, 0]
    assert _hops_back(chances, 0.11, 1) == 2


def test_cachescout_keeps_roles_that_come_back_sooner():
    # x is followed by itself or y, y by x, as D shows: one hop or two. B waits in x, and less long A in y.
    sessions = "D 0:30@y 1@x 2@x 3@y; B 5@x 90; A 6@y 90; C 7"
    assert leaves("cachescout", sessions, (0, 50)) == "A"
    assert leaves("cachescout", sessions.replace("A 6@y", "A 6@x"), (0, 50)) == "B"


def test_kvflow_counts_steps():
    joins = {"d": ("or", ["c", "b"]), "b": ("or", ["a"]), "c": ("and", ["b", "a"]), "e": ("and", ["d", "x"])}
    assert steps_to_execution(joins, ["a"]) == {"a": 0, "b": 1, "c": 2, "d": 2}


def test_kvflow_evicts_who_is_most_steps_away():
    sessions = "A 0@near 4; B 1@far 5; C 2@near"
    assert leaves(kvflow(steps={"near": 1, "far": 2}), sessions) == "B"
    assert leaves(kvflow(steps={"near": 1}), sessions) == "B"
    assert leaves(kvflow(steps={"near": 1, "far": 1}), sessions) == leaves("kvflow", sessions) == "A"
    assert leaves(kvflow(steps={"near": 1, "far": 1}), "A 0@near 9; B 1@near; C 2", completion="explicit") == "B"
    assert replay("kvflow", sessions).degraded == ("step_graph",)
    assert replay(kvflow(steps={}), sessions).degraded == ("completion",)


def test_pbkv_evicts_who_is_predicted_to_call_least():
    # D shows that role s ends at once; so B leaves, although A is idle for longer.
    sessions = "D 0:1@s; A 0@m 1 6; B 2@s 7; C 3@m"
    result = replay("pbkv", sessions, completion="explicit", log=True)
    assert result.log[result.log[:, 0] == AnswerKind.EVICT.value][:2, 1].tolist() == [0, 2]
    assert result.degraded == ("step_graph",)
    assert leaves("pbkv", sessions, (0, 21)) == "D"


def test_role_chances_leave_the_end_out():
    # Two roles and the unknown one, which was never left.
    counts = np.array([0, 0, 0, 0, 0, 2, 1, 1, 0, 0, 0, 3.0])
    assert role_chances(counts).tolist() == [[1, 0, 0], [0, 0.5, 0.25], [0, 0, 0]]


def test_saga_weighs_idle_time_and_size():
    # At 4 A: 0.3 + 0.2 / 3, B: 0.3 (4 - t) / 4 + 0.2, less once it paused after 1.78.
    assert leaves("saga", "A 0 9; B 1.7:30 9; C 4", (0, 40)) == "B"
    assert leaves("saga", "A 0 9; B 1.9:30 9; C 4", (0, 40)) == "A"
    # All of one size: A 0.3, the completed B 0.5 + 0.3 / 4.
    assert leaves("saga", "A 0 9; B 3; C 4", completion="explicit") == "B"
    assert leaves(saga(reuse=0.1), "A 0 9; B 3; C 4", completion="explicit") == "A"


def test_lpc_weighs_idle_time_against_the_chance_to_continue():
    half = [0, 0, N64.hazard_max // 2] + [0] * (N64.turns - 3)
    # The mean gap is 1 s. A, second turn: idle 1 s - ln 1; B, first turn: idle t - ln 99 = t - 4.6.
    assert leaves("lpc", "A 8 9 19; B 5 19; C 10", hazards=half) == "A"
    assert leaves("lpc", "A 8 9 19; B 4 19; C 10", hazards=half) == "B"
    assert leaves("lpc", "A 8 9 19; B 5 19; C 10") == "B"
    # Before the first gap 100 s are taken.
    assert leaves("lpc", "A 9 19; B 4 19; C 10") == "B"


def test_lmcache_evicts_what_grew():
    # A: (10 + 0.2 20) / 30 = 0.47; B: 1 / (1 + idle / 60 s), 0.75 after 20.5 s and 0.46 after 70.5 s.
    assert leaves("lmcache-cost", "A 0 60:30 90; B 40 95; C 60.5", (0, 40)) == "A"
    assert leaves("lmcache-cost", "A 0 70:30 90; B 0 95; C 70.5", (0, 40)) == "B"


def test_flexgen_demotes_who_pauses():
    assert letters("flexgen", "A 0 1 2; B 0 3", (100, 10)) == "..HHS"


def test_cachedattention_drops_after_an_hour():
    assert letters("cachedattention", "A 0 3600; B 0 3600.1; C 4000 4001", (0, 100)) == "..H..H"


def test_mooncake_evicts_the_least_used_whose_lease_is_over():
    assert leaves("mooncake", "A 0 1 40; B 2 41; C 20") == "B"
    # B's lease lasts until 12.
    assert leaves("mooncake", "A 0 1 40; B 2 41; C 11.5") == "A"
    assert leaves("mooncake", "A 0 1 40; B 2 41; C 12") == "B"
    # Both leases last: the least used.
    assert leaves("mooncake", "A 0 1 40; B 2 41; C 5") == "B"
    # As often used: idle time.
    assert leaves("mooncake", "A 0 40; B 2 41; C 20") == "A"


def test_trtllm_evicts_by_priority_for_a_time():
    sessions = "A 0 6a; B 1 7u; C 5"
    assert leaves(trtllm(retain={"user": (34, 4.5)}), sessions) == "B"
    assert leaves(trtllm(retain={"user": (34, 4)}), sessions) == "A"
    assert leaves("trtllm", sessions) == "A"
    # Below 30 HBM does not keep it, SRAM does.
    low = trtllm(retain={"user": (29, None)})
    assert letters(low, "A 0 6a; B 1 7u", (0, 100)) == "..H."
    assert letters(low, "A 0 6a; B 1 7u", (100, 0)) == "..SS"


@pytest.mark.parametrize("policy", [
    "agserve", "cachescout", "continuum", "continuum-released", "flexgen", "infercept", "infercept-oracle", "lpc",
    "pbkv", "saga", lmcache_cost(completion=True), mooncake(completion=True), trtllm(completion=True),
])  # fmt: skip
def test_who_hears_of_a_completion_lets_it_go_first(policy):
    assert leaves(policy, "A 0 20a; B 1 18a; D 15; C 16", (0, 30), "explicit") == "D"


@pytest.mark.parametrize("policy", ["cachedattention", "kvflow", "trtllm"])
@pytest.mark.parametrize("completion", ["silent", "explicit"])
def test_without_their_hints_some_are_lru(policy, completion):
    schedule = random_schedule(completion)
    runs = [simulate(schedule, POLICIES[name], "150:250", log=True) for name in (policy, "lru")]
    assert np.array_equal(runs[0].log, runs[1].log)


def random_schedule(completion, seed=3):
    rng = np.random.default_rng(seed)
    made = []
    for number in range(60):
        now, rows = 0, []
        for _ in range(int(rng.integers(1, 12))):
            done = now + int(rng.integers(0, 3_000_000))
            tool = str(rng.choice(["a", "b", "user", "none"])) if rows else None
            prompt = int(rng.integers(5, 60))
            rows.append(Turn(now, done, prompt, prompt // 2, 3, tool, str(rng.choice(["m", "s"]))))
            now = done + int(rng.lognormal(14, 2))
        made.append(Session(number, tuple(rows)))
    return make_schedule(Trace("random", tuple(made)), Load(concurrency=20, completion=completion))


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_second_run_is_the_same(name):
    for completion in ("silent", "explicit"):
        runs = [simulate(random_schedule(completion), POLICIES[name], "150:250", slots=16, log=True) for _ in range(2)]
        assert np.array_equal(runs[0].log, runs[1].log)
        assert runs[0].evictions > 20


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_names_its_source(name):
    policy = POLICIES[name]
    assert isinstance(policy, Policy)
    assert "Source: " in policy.summary
    assert policy.causal == (name not in ("infercept-oracle", "infercept-hb"))


@pytest.mark.parametrize(("build", "match"), [
    (lambda: continuum(queue_s=-1), "-1"),
    (lambda: infercept(time="guess"), "guess"),
    (lambda: infercept(limits_s=(7, 4)), "7, 4"),
    (lambda: infercept(chunk=0), "0"),
    (lambda: agserve(overdue="never"), "never"),
    (lambda: cachescout(edge=0), "edge must be positive, not 0"),
    (lambda: kvflow(steps={"a": 1001}), "1001"),
    (lambda: steps_to_execution({"a": ("xor", [])}, []), "xor"),
    (lambda: pbkv(horizon=0), "0"),
    (lambda: saga(size=-1), "-1"),
    (lambda: lpc(prior_s=0), "0"),
    (lambda: lmcache_cost(alpha=2), "2"),
    (lambda: mooncake(lease_s=-1), "-1"),
    (lambda: trtllm(default=101), "101"),
])  # fmt: skip
def test_bad_parameters_are_refused(build, match):
    with pytest.raises(ValueError, match=match):
        build()
