"""The classics on examples worked out by hand, and request by request against libCacheSim.

A plain cache's requests are letters, its answers ``h`` and ``.`` for hit and miss.
"""

import importlib.util
from fractions import Fraction

import numpy as np
import pytest

from unison.formats import AnswerKind
from unison.model.flat import PEERS, flat_hits, flat_schedule, next_requests, peer_hits
from unison.model.load import Load
from unison.model.policies import POLICIES
from unison.model.policies.gdsf import gdsf
from unison.model.policies.lhd import BUDGET, _table, _tables, _update, lhd
from unison.model.policies.lrb import (
    COLUMNS,
    FEATURES,
    SIZE,
    Learner,
    _flatten,
    _request,
    features,
    grow,
    lrb,
    predict,
    samples,
)
from unison.model.policies.queues import tokens_in
from unison.model.policies.s3fifo import s3fifo
from unison.model.policies.tinylfu import tinylfu
from unison.model.policies.two_q import two_q
from unison.model.schedule import NEVER, make_schedule
from unison.model.simulator import simulate
from unison.model.trace import Session, Trace, Turn

CLASSICS = (
    *("gdsf", "pgdsf", "s3-fifo", "sieve", "arc", "2q", "lru-2", "w-tinylfu"),
    *("lhd", "lhd-tokens", "lhd-hints", "lhd-hints-tokens", "lrb"),
)
#: Queues of residents by policy.
QUEUES = {"s3-fifo": (1, 2), "sieve": (1,), "arc": (1, 2), "2q": (1, 2), "w-tinylfu": (1, 2, 3)}
SMALL = Learner(batch=256, trees=8, leaves=8)

needs_peer = pytest.mark.skipif(
    importlib.util.find_spec("libcachesim") is None,
    reason="libcachesim is not installed: pip install 'unison[libcachesim]'",
)
needs_learner = pytest.mark.skipif(
    importlib.util.find_spec("lightgbm") is None, reason="lightgbm is not installed: pip install 'unison[lab]'"
)


def answers(policy, requests, room, size=10, **options):
    """Answers of a plain cache with room for so many objects to requests such as ``ABA``."""
    policy = POLICIES[policy] if isinstance(policy, str) else policy
    names = {name: number for number, name in enumerate(dict.fromkeys(requests))}
    hits = flat_hits(policy, [names[name] for name in requests], size, room * size, **options)
    return "".join("h" if hit else "." for hit in hits)


@pytest.mark.parametrize(("policy", "room", "requests", "expected"), [
    # B, requested once, goes before A, requested twice, though A is idle for longer.
    ("lru", 2, "AABCA", ".h..."),
    ("lru-2", 2, "AABCA", ".h..h"),
    # The last requests but one: A at 1, B at 2.
    ("lru-2", 2, "AABBACB", ".h.hh.h"),
    ("lru-2", 2, "AABBACA", ".h.hh.."),
    # For D the hand spares A and takes B; for E it goes on to C, spares it, and takes D.
    ("sieve", 3, "ABCADCEAD", "...h.h.h."),
    ("lru", 3, "ABCADCEAD", "...h.h..."),
    # Who was spared is taken when the hand comes by again.
    ("sieve", 2, "ABACDA", "..h..."),
    # Room for one in the small queue: A goes to the ghosts and, back, to the main queue; K and L stay small.
    ("s3-fifo", 10, "ABCDEFGHIJKALKA", "." * 14 + "h"),
    # Two hits take A to the main queue, which is now too long: B leaves it.
    ("s3-fifo", 10, "AAABCDEFGHIJKAB", ".hh" + "." * 10 + "h."),
    ("s3-fifo", 10, "AABCDEFGHIJKA", ".h" + "." * 11),
    # A hit in the main queue is a second chance: C leaves in place of B.
    ("s3-fifo", 10, "AAABCDEFGHIJBKBC", ".hh.........h.h."),
    # A returns from the ghosts and stays while newcomers pass; of these B is forgotten as the ghosts hold two.
    ("2q", 4, "ABCDEAFGHIA", "..........h"),
    ("lru", 4, "ABCDEAFGHIA", "..........."),
    # While newcomers hold no more than their quarter it is the longest idle of the others that leaves.
    ("2q", 4, "ABCDEABCDBEA", ".........hh."),
    # B returns from the ghosts of T1, so T1 may hold one, and A leaves T2; A returns from those of T2, so C leaves T1.
    ("arc", 2, "AABCBABC", ".h....h."),
    ("lru", 2, "AABCBABC", ".h..h.h."),
    # A counts 3 against 1 of B, C and D; C counts 3 against 1 of A.
    ("w-tinylfu", 2, "AAABCDA", ".hh...h"),
    ("lru", 2, "AAABCDA", ".hh...."),
    ("w-tinylfu", 2, "ABCCCDECA", "...hh..h."),
    # A counts 3 against 1 of B and 2 of C, whom the clock lifts; against D with 3 A is the longer idle.
    ("gdsf", 2, "AAABCDA", ".hh...h"),
    ("gdsf", 2, "AAABCDEA", ".hh....."),
    # A comes back with one request, or as the fourth.
    ("gdsf", 2, "AAABBBBCADEA", ".hh.hhh....."),
    ("pgdsf", 2, "AAABBBBCADEA", ".hh.hhh....h"),
])  # fmt: skip
def test_who_leaves_a_plain_cache(policy, room, requests, expected):
    assert answers(policy, requests, room) == expected


def test_w_tinylfu_halves_its_counts():
    # Three objects: A's 3 become 1 at the third request and 0 at the sixth, B's 2 become 1.
    assert answers(tinylfu(sample=1), "AAABBCA", 2) == ".hh.h.."
    assert answers(tinylfu(sample=9), "AAABBCA", 2) == ".hh.h.h"


def test_w_tinylfu_demotes_what_its_protected_part_cannot_hold():
    # One of four is protected. B takes A's place, which is then on probation, older than E, and leaves for F.
    assert answers(tinylfu(protected=0.5), "ABCDEABEEFFFFGE", 4) == ".....hhhh.hhh.h"
    assert answers(tinylfu(protected=1.0), "ABCDEABEEFFFFGE", 4) == ".....hhhh.hhh.."


def replay(policy, sessions, room, completion="silent", **settings):
    """The Result in one tier of sessions such as ``A 0 4 9 x10; B 1 x20``: name, arrivals in microseconds, context."""
    made = []
    for number, text in enumerate(sessions.split(";")):
        _, *times, tokens = text.split()
        turns = (Turn(int(time), int(time), int(tokens[1:]), 0, 0, None) for time in times)
        made.append(Session(number, tuple(turns)))
    load = Load(arrivals="recorded", scale=Fraction(1), completion=completion)
    policy = POLICIES[policy] if isinstance(policy, str) else policy
    return simulate(make_schedule(Trace("hand", tuple(made)), load), policy, (0, room), **settings)


@pytest.mark.parametrize(("policy", "stays"), [
    ("gdsf", "A"), ("pgdsf", ""), ("lru", ""), ("lhd", "A"), ("lhd-tokens", ""), ("s3-fifo", ""),
])  # fmt: skip
def test_sizes_count_where_the_policy_says_so(policy, stays):
    # At 2 C needs 30 of 40: A holds 10 and is idle for longer, B holds 30.
    hits = replay(policy, "A 0 3 x10; B 1 4 x30; C 2 x30", 40).hit
    assert "".join(name for name, hit in zip("AB", hits[3:], strict=True) if hit) == stays


def test_s3_fifo_spills_into_its_main_queue_only_until_something_left():
    # B spills over A. C takes both their places, D and E queue behind it, and F those of C and D.
    result = replay("s3-fifo", "A 0 x10; B 1 x90; C 2 x50; D 3 7 x20; E 4 6 x40; F 5 x60", 100)
    assert result.hit.tolist() == [False] * 6 + [True, False]


def test_lhd_keeps_classes_that_hit_young():
    # A hit at age 1, class 11 of 16: 12 / 4 against 1 / 3 of B, whose class is 0.
    assert answers(lhd(explorers=0), "AABCA", 2) == ".h..h"


def test_lhd_densities_are_hits_over_the_requests_spent():
    setting = type("Setting", (), {"slots": 3, "capacities": (0, 30), "seed": 0})
    shared = _tables(setting, hints=False, theta=1.0, period=2, ages=4, explorers=0.0)
    hits, evictions, densities = (_table(shared, kind) for kind in range(3))
    hits[0, 1] = evictions[0, 2] = 10
    assert densities[0].tolist() == [1, 1 / 2, 1 / 3, 1 / 4]
    _update(shared)
    assert (hits[0, 1], evictions[0, 2]) == (9, 9)
    # From age 1 on: 9 hits, 18 ends, of which all spend a request at 1 and half of them one at 2.
    assert densities[0] == pytest.approx([9 / 45, 9 / 27, 0, 1 / 4])


def shared_after(policy, objects, room):
    return simulate(flat_schedule(objects, 10), policy, (10 * room, 0), slots=max(objects) + 1, seed=3).shared


def test_lhd_explorers_stay_within_their_budget():
    scan = list(range(400))
    none, half = lhd(explorers=0, period=1_000), lhd(explorers=0.5, period=1_000)
    kept = [flat_hits(policy, scan + scan, 10, 80, seed=3)[400:].sum() for policy in (none, half)]
    assert kept[0] == 0 < kept[1]
    # Four of eight explore and stay; where there is room for one it has to leave and gives its tokens back.
    assert shared_after(half, scan, 8)[BUDGET] == 0
    assert shared_after(half, scan, 1)[BUDGET] == 5


def test_lhd_updates_its_densities_once_a_period():
    objects = [n % 3 for n in range(100)]
    untouched, updated = (_table(shared_after(lhd(period=period), objects, 2), 2) for period in (101, 100))
    assert untouched[0, :2].tolist() == [1, 0.5]
    assert updated[0, :2].tolist() != [1, 0.5]


@pytest.mark.parametrize(("hints", "expected"), [(True, [True]), (False, [False])])
def test_lhd_with_hints_lets_completed_sessions_go_first(hints, expected):
    result = replay(lhd(hints=hints, explorers=0), "A 0 3 x10; B 1 x10; C 2 x10", 20, "explicit")
    assert result.hit[3:].tolist() == expected
    assert result.degraded == (("tool",) if hints else ())


def test_lrb_features():
    row, x = np.zeros(COLUMNS), np.zeros(FEATURES)
    for number in (1, 3, 11):
        _request(row, number, 4)
    row[SIZE] = 500
    features(row, 16, 10, 4, x)
    assert x[:4].tolist() == [5, 8, 2, 0]
    # Of the distances 8 and 2 only the first ends within 10 requests.
    assert (x[32], x[33]) == (500, 1)
    # Half lives 4 and 8, whole ones only: (2 + 1) requests after distances 2 and 8, then an age of 5.
    assert x[34:36].tolist() == [((1 * 1 + 1) * 0.25 + 1) * 0.5, (1 * 1 + 1) * 0.5 + 1]


def test_lrb_labels_are_distances_that_are_known_by_then():
    # One session alone is drawn at each request; its next one is known at once, the last ones never.
    x, y, ready = samples(flat_schedule([0, 0, 0, 0], 7).moments, 1, 10, 4, 1)
    assert ready.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert y[:3].tolist() == [np.log1p(1)] * 3
    assert x[2, :3].tolist() == [0, 1, 1] and x[1:, 32].tolist() == [7, 7, 7]
    # Two: A's samples wait until it is forgotten after three requests, at twice that distance.
    x, y, ready = samples(flat_schedule([0, 1, 1, 1, 1], 7).moments, 2, 3, 4, 1)
    beyond = [sample for sample, _ in ready if y[sample] == np.log1p(6)]
    assert beyond and all(time == 3 for sample, time in ready if sample in beyond)


@needs_learner
def test_compiled_trees_predict_what_lightgbm_does():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 50, (300, FEATURES)).astype(float)
    y = np.log1p(x[:, 0] + 5 * x[:, 1]) + rng.normal(0, 0.1, 300)
    booster = grow(x, y, SMALL, 0)
    nodes = []
    trees = [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
    roots = [_flatten(tree, nodes, len(trees)) for tree in trees]
    shared = np.concatenate([roots, np.array(nodes).ravel()])
    assert [predict(shared, 0, len(trees), row) for row in x] == pytest.approx(booster.predict(x), rel=1e-12)


def scans_and_loops(requests):
    """Every third request is for one of eight objects in turn, the others are never repeated."""
    number = np.arange(requests)
    return np.where(number % 3 == 0, number // 3 % 8, 8 + number)


@needs_learner
def test_lrb_learns_which_objects_come_back():
    objects = scans_and_loops(2_000)
    policy = lrb(window=100, learner=SMALL)
    late = slice(1_000, None)
    hits = {name: flat_hits(POLICIES[name], objects, 1, 12)[late].sum() for name in ("lru", "belady")}
    learned = flat_hits(policy, objects, 1, 12)
    assert hits["lru"] == 0
    assert learned[late].sum() >= 0.8 * hits["belady"]
    assert (learned == flat_hits(policy, objects, 1, 12)).all()
    assert learned[:100].sum() == 0


@needs_learner
def test_lrb_does_not_look_ahead():
    objects = np.random.default_rng(1).zipf(1.3, 1_500) % 90
    other = np.r_[objects[:1_000], 89 - objects[1_000:]]
    hits = [flat_hits(lrb(window=200, learner=SMALL), asked, 1, 20) for asked in (objects, other)]
    assert (hits[0][:1_000] == hits[1][:1_000]).all()
    assert (hits[0][1_000:] != hits[1][1_000:]).any()


def test_lrb_without_a_model_is_lru():
    objects = np.random.default_rng(1).zipf(1.3, 500) % 60
    assert (flat_hits(POLICIES["lrb"], objects, 1, 20) == flat_hits(POLICIES["lru"], objects, 1, 20)).all()


def random_trace(seed, sessions=14, turns=12):
    """Sessions whose moments often coincide, with contexts that grow, shrink and outgrow every tier."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(sessions):
        now, rows = int(rng.integers(0, 3)), []
        for index in range(int(rng.integers(1, turns))):
            done = now + 4 * int(rng.integers(0, 4))
            prompt = int(rng.integers(1, 60))
            tool = None if index == 0 else str(rng.choice(["a", "b"]))
            rows.append(Turn(now, done, prompt, int(rng.integers(0, prompt + 1)), int(rng.integers(0, 150)), tool))
            now = done + int(rng.choice([0, 1, 2, 3, 5, 40, 5000]))
        made.append(Session(number, tuple(rows)))
    return Trace(f"random{seed}", tuple(made))


@pytest.mark.parametrize("name", CLASSICS)
def test_classics_keep_the_rules_on_small_streams(name):
    left = forgotten = 0
    for seed in range(12):
        sizes = [(120, 200), (60, 260), (0, 150), (200, 0), (40, 40)][seed % 5]
        for completion in ("explicit", "silent"):
            load = Load(concurrency=9, completion=completion, seed=seed)
            schedule = make_schedule(random_trace(seed), load)
            result = simulate(schedule, POLICIES[name], sizes, slots=4 + seed % 5)
            again = simulate(schedule, POLICIES[name], sizes, slots=4 + seed % 5)
            assert (result.requests == again.requests).all()
            left += result.evictions
            forgotten += result.forgets
            assert 0 <= sum(tokens_in(result.shared, queue) for queue in QUEUES.get(name, ())) <= sum(sizes)
    assert left > 100 and forgotten > 10


@pytest.mark.parametrize("name", QUEUES)
def test_queues_count_the_tokens_that_their_sessions_have_now(name):
    schedule = make_schedule(random_trace(5), Load(concurrency=9, completion="silent"))
    result = simulate(schedule, POLICIES[name], (10_000, 0), slots=14)
    last = {session: tokens for session, tokens in schedule.moments[["session", "tokens"]].tolist()}
    assert sum(tokens_in(result.shared, queue) for queue in QUEUES[name]) == sum(last.values())


@pytest.mark.parametrize("name", [*QUEUES, "gdsf", "lrb"])
def test_the_longest_idle_is_forgotten_when_a_slot_is_needed(name):
    # Room for one. At 4 A, in the lowest slot, has been idle since 2 and B since 1, both absent.
    result = replay(name, "A 0 2 x10; B 1 x10; C 3 x10; D 4 x10", 10, slots=3, log=True)
    assert result.log[result.log[:, 0] == AnswerKind.FORGET.value, 1].tolist() == [1]


@needs_peer
@pytest.mark.parametrize(("objects", "held"), [(60, 12), (500, 40), (2_000, 200)])
@pytest.mark.parametrize("name", PEERS)
def test_each_answer_is_that_of_libcachesim(name, objects, held):
    rng = np.random.default_rng(objects)
    asked = rng.zipf(1.2, 60_000)
    asked = asked[asked < objects][:8_000]
    asked[3_000 : 3_000 + objects] = np.arange(objects)
    # ARC's step is a token in libCacheSim and a session here: the same for objects of size 1.
    size = 1 if name == "arc" else 10
    here = flat_hits(POLICIES[name], asked, size, held * size, insert_first=PEERS[name][1])
    there = peer_hits(name, asked, size, held * size)
    assert 500 < here.sum() < 7_900
    assert np.flatnonzero(here != there).tolist() == []


def test_insertion_before_room_lets_a_newcomer_leave_at_once():
    assert answers("gdsf", "AAAABABA", 1, insert_first=True) == ".hhh.h.h"
    assert answers("gdsf", "AAAABABA", 1) == ".hhh...."
    assert answers("lru", "ABCADB", 3, insert_first=True) == answers("lru", "ABCADB", 3) == "...h.."


def test_next_requests():
    assert next_requests([4, 2, 4, 4]).tolist() == [2, NEVER, 3, NEVER]


@pytest.mark.parametrize(("make", "words"), [
    (lambda: gdsf(theta=-1), "theta must not be negative, not -1"),
    (lambda: s3fifo(small=0), "not 0, 0.9, 2"),
    (lambda: two_q(new=1), "not 1, 0.5"),
    (lambda: tinylfu(sample=0), "not 0.01, 0.8, 0"),
    (lambda: lhd(period=1), "period must be an integer of at least 2, not 1"),
    (lambda: lhd(explorers=-0.1), "explorers must not be negative, not -0.1"),
    (lambda: lrb(window=0), "window must be a positive integer, not 0"),
    (lambda: lrb(theta=-1), "theta must not be negative, not -1"),
    (lambda: Learner(batch=1), "batch must be an integer of at least 2, not 1"),
    (lambda: Learner(rate=2), r"rate must be in \(0, 1\], not 2"),
    (lambda: flat_hits(POLICIES["lru"], [0], 10, 9), "not 9"),
])  # fmt: skip
def test_bad_parameters_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
