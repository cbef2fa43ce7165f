"""Index tables: bins, entries, counters, and who leaves; and room made in one tier."""

import json
from fractions import Fraction

import numpy as np
import pytest

from unison.formats import AnswerKind, Opcode
from unison.model.load import Load
from unison.model.policies import POLICIES
from unison.model.policies.base import (
    ARRIVE,
    COMPLETE,
    FORGET,
    GAP_END,
    HBM,
    PAUSE,
    RESCORE,
    SCAN,
    SLOT,
    VICTIM,
    Policy,
    Setting,
    no_event,
    score,
)
from unison.model.policies.index import BINS, age_bin, bin_edge, index, learned, make_tables
from unison.model.schedule import make_schedule, synthetic_schedule
from unison.model.simulator import simulate
from unison.model.trace import Session, Trace, Turn
from unison.model.train_index import choose, train, write_tables

#: Microseconds of a stamp.
STAMP = 1 << 10
#: Places in the shared numbers that the tests read and set.
PRIOR, STRIDE, CAPACITY, SAVED, LRU_RANKS = 15, 5, 6, 9, 11
CLASSES = 1 + 16 + 16 + 256
RETURNS = PRIOR + BINS
ENDS = RETURNS + CLASSES * BINS
ENTRIES = ENDS + 2 * CLASSES * BINS + CLASSES


@score
def _age_in_stamps(slots, i, now, own, memory, shared):
    return -(slots[i].paused_us >> 10)


LRU_BY_STAMP = Policy(name="lru-by-stamp", summary="", score=_age_in_stamps)


def setting(name="nowhere", capacities=(0, 100), slots=4):
    schedule = synthetic_schedule(2, 100)
    schedule = type(schedule)(**{**vars(schedule), "name": name})
    return Setting(schedule, None, (), (), capacities, None, slots, 0)


def counters(shared, place):
    return shared[place : place + CLASSES * BINS].reshape(CLASSES, BINS)


def test_bins_are_half_octaves():
    edges = [bin_edge(b) for b in range(BINS)]
    assert edges[:10] == [0, 1, 2, 3, 4, 6, 8, 12, 16, 24] and edges[-1] == 3 << 26
    for b, edge in enumerate(edges):
        assert age_bin(edge) == b and (not b or age_bin(edge - 1) == b - 1)
    assert age_bin((1 << 32) - 1) == BINS - 1


@pytest.mark.parametrize("changes", [{}, {"entry_bits": 8}, {"tide": True}, {"trained": False, "gap_octaves": 4}])
@pytest.mark.parametrize("live", [3, 24])
def test_empty_tables_are_lru_decision_by_decision(changes, live):
    schedule = synthetic_schedule(live, 3000, completion="silent")
    policy = index(**changes).replace(event=no_event)
    lru = LRU_BY_STAMP.replace(tide=policy.tide)
    logs = [simulate(schedule, each, "edge", slots=live, log=True) for each in (policy, lru)]
    assert logs[0].evictions > 300 and np.array_equal(logs[0].log, logs[1].log)


@pytest.mark.parametrize("bits", [8, 9, 10])
def test_the_entries_of_an_empty_table_never_fall_with_age(bits):
    entries = counters(make_tables(setting(), entry_bits=bits), ENTRIES)[0]
    assert (np.diff(entries) >= 0).all() and entries[-1] - entries[0] > 300 >> (10 - bits)


def index_of(returns, at, shrink=6):
    """16 log2(16 I) at the beginning of bin ``at``, from the counters of all, in exact fractions but for the log."""
    law = [Fraction(x, 1 << 16) for x in (1 << 15, 23600, *[15104, 11072] * (BINS // 2))]
    at_risk = sum(returns)
    hazards = []
    for b, count in enumerate(returns):
        hazards.append((count + shrink * law[b]) / (at_risk + shrink))
        at_risk -= count
    waiting, time, back, least = Fraction(1), Fraction(0), Fraction(0), None
    for b in range(at, BINS):
        time += waiting * (1 - hazards[b] / 2) * (bin_edge(b + 1) - bin_edge(b))
        back += waiting * hazards[b]
        waiting *= 1 - hazards[b]
        least = time / back if least is None else min(least, time / back)
    octave = (16 * least).__floor__().bit_length() - 1
    return 16 * octave + 16 * (16 * least / (1 << octave) - 1)


@pytest.mark.parametrize("waits", [[10] * 40, [3] * 20 + [30] * 20, [40] * 7, list(range(BINS))])
def test_an_entry_is_the_index_to_one_unit(waits):
    policy = index()
    shared = policy.prepare(setting())
    slots, own = np.zeros(1, dtype=SLOT), np.zeros((1, policy.own))
    slots["tool"], slots["last_gap_us"] = -1, -1
    nothing = np.zeros((1, 0))
    rescored = 0
    while rescored != RESCORE or shared[0] < 40:
        b = waits[int(shared[0]) % len(waits)]
        policy.event(PAUSE, slots, 0, 0, 0, own, nothing, shared)
        rescored = policy.event(GAP_END, slots, 0, 0, bin_edge(b) * STAMP, own, nothing, shared)
    counted = counters(shared, RETURNS)[0]
    assert counted.sum() == shared[0]
    entries = counters(shared, ENTRIES)[0]
    for b in range(BINS - 1):
        assert abs(entries[b] - index_of(counted.astype(int).tolist(), b)) <= 1.5, b


def session(number, waits, tool, tokens=10, start=0):
    """A session that waits so many stamps before each turn after the first; answers take no time."""
    now, turns = start * STAMP, []
    for n, wait in enumerate((0, *waits)):
        now += wait * STAMP
        turns.append(Turn(now, now, tokens, 0 if n else tokens, 0, tool if n else None))
    return Session(number, tuple(turns))


def hits(policy, sessions, room, completion="explicit"):
    load = Load(arrivals="recorded", scale=Fraction(1), completion=completion)
    result = simulate(make_schedule(Trace("hand", tuple(sessions)), load), policy, (0, room))
    return "".join(".H"[int(found == HBM)] for found in result.requests["found"]), result


def test_the_session_whose_tool_takes_longer_leaves():
    # Eight waits of each tool are learned from. At 3000 C needs room: A has been idle for longer, 100 stamps of about
    # 128 that its tool takes, B for 10 of about 1024.
    teachers = [session(n, [wait] * 8, tool) for n, (wait, tool) in enumerate(((128, "fast"), (1024, "slow")))]
    a = session(2, [128], "fast", start=10000)
    b = session(3, [1024], "slow", start=10090)
    c = session(4, [], "fast", start=10100)
    sessions = [*teachers, a, b, c]
    assert hits(index(), sessions, 20)[0][-5:] == "...H."
    assert hits(LRU_BY_STAMP, sessions, 20)[0][-5:] == "....."


def test_the_counters_hold_every_wait_once():
    # A waits 5, then 40, then ends; B is told to wait for ever; D takes the slot of B at 1000.
    sessions = [session(0, [5, 40], "x"), session(1, [2000], "y"), session(2, [], None, start=1000)]
    load = Load(arrivals="recorded", scale=Fraction(1))
    result = simulate(make_schedule(Trace("hand", tuple(sessions)), load), index(), (0, 10), slots=2)
    returns, ends = counters(result.shared, RETURNS), counters(result.shared, ENDS)
    # Tools are 1 and 2, the classes of the latest gap none (0) and 3 bits (3): rows all, tools, gaps, pairs.
    assert {(int(r), int(b)) for r, b in np.argwhere(returns)} == {
        (row, age_bin(wait)) for wait, rows in ((5, (0, 2, 17, 33 + 16)), (40, (0, 2, 20, 33 + 19))) for row in rows
    }
    assert {(int(r), int(b)) for r, b in np.argwhere(ends)} == {(row, age_bin(1000)) for row in (0, 3, 17, 33 + 32)}
    assert returns[0].sum() == 2 and learned(result.shared)["returns"][0] == returns[0].tolist()


def test_a_class_halves_its_counters_before_they_overflow():
    policy = index()
    shared = policy.prepare(setting())
    slots, own, nothing = np.zeros(1, dtype=SLOT), np.zeros((1, policy.own)), np.zeros((1, 0))
    slots["tool"], slots["last_gap_us"] = 0, -1
    for _ in range(1 << 15):
        policy.event(PAUSE, slots, 0, 0, 0, own, nothing, shared)
        policy.event(GAP_END, slots, 0, 0, 9 * STAMP, own, nothing, shared)
    assert counters(shared, RETURNS)[0].sum() == 1 << 14


def test_entries_of_fewer_bits_lack_the_lowest():
    tables = {bits: counters(make_tables(setting(), trained=True, entry_bits=bits), ENTRIES) for bits in (8, 10)}
    assert (tables[8] == tables[10] // 4).all() and tables[8].max() < 1 << 8


@pytest.mark.parametrize("duel", [False, True])
@pytest.mark.parametrize("changes", [{}, {"theta": 0.5}, {"tide": True}])
def test_steps_find_what_a_scan_at_every_search_finds(changes, duel):
    schedule = synthetic_schedule(24, 3000)
    policy = index(duel=duel, **changes)
    logs = [simulate(schedule, each, "edge", slots=24, log=True).log for each in (policy, policy.replace(mode=SCAN))]
    assert np.array_equal(*logs)
    assert np.array_equal(logs[0], simulate(schedule, policy, "edge", slots=24, log=True).log)


def test_a_score_is_kept_until_the_wait_or_the_tables_are_others():
    policy = index(duel=True)
    shared = policy.prepare(setting())
    slots, own, nothing = np.zeros(2, dtype=SLOT), np.zeros((2, policy.own)), np.zeros((2, 0))
    slots["tool"], slots["last_gap_us"] = -1, -1
    until = own[:, 2]
    until[:] = 99
    rescored = 0
    while rescored != RESCORE:
        assert until[1] == 99
        policy.event(PAUSE, slots, 0, 0, 0, own, nothing, shared)
        assert until[0] == 0
        rescored = policy.event(GAP_END, slots, 0, 0, STAMP, own, nothing, shared)
    assert until.tolist() == [0, 0]


def test_size_counts_by_its_exponent():
    shared = {theta: index(theta=theta).prepare(setting()) for theta in (0.0, 0.5, 1.0)}
    slots, nothing = np.zeros(2, dtype=SLOT), np.zeros((2, 0))
    slots["tokens"] = 64, 1024
    for theta, numbers in shared.items():
        own = np.zeros((2, index().own))
        small, large = (int(index().score(slots, i, 99 * STAMP, own, nothing, numbers)) >> 32 for i in range(2))
        # Four octaves of 64 units each.
        assert large - small == 4 * 64 * theta


def test_lru_ranks_while_it_would_have_saved_more():
    policy = index(duel=True)
    shared = policy.prepare(setting(capacities=(0, 100)))
    slots, own, nothing = np.zeros(3, dtype=SLOT), np.zeros((3, policy.own)), np.zeros((3, 0))
    ghosts = own[:, -2:]
    slots["tokens"], slots["tool"], slots["last_gap_us"] = 40, -1, -1

    def tell(kind, i, stamp=0):
        slots["paused_us"][i] = stamp * STAMP
        return policy.event(kind, slots, i, stamp * STAMP, 0, own, nothing, shared)

    for i in range(3):
        tell(PAUSE, i, i)
    # 120 tokens in 100: both rankings, still the same, let the first go.
    assert ghosts.T.tolist() == [[0, 1, 1], [0, 1, 1]]
    tell(ARRIVE, 0)
    tell(ARRIVE, 1)
    assert shared[SAVED : SAVED + 2].tolist() == [40, 40]
    ghosts[2, 1] = 0
    tell(ARRIVE, 2)
    assert shared[SAVED : SAVED + 2].tolist() == [80, 40]
    assert tell(PAUSE, 2, 9) == RESCORE and shared[LRU_RANKS]
    assert policy.score(slots, 2, 50 * STAMP, own, nothing, shared) == (1 << 32) - 1 - 9
    tell(COMPLETE, 2)
    tell(FORGET, 1)
    assert not ghosts[1:].any()


def test_the_duel_watches_every_third_of_130_slots_with_a_third_of_the_memory():
    policy = index(duel=True)
    shared = policy.prepare(setting(capacities=(0, 300), slots=130))
    slots, own, nothing = np.zeros(130, dtype=SLOT), np.zeros((130, policy.own)), np.zeros((130, 0))
    slots["tokens"], slots["tool"], slots["last_gap_us"] = 40, -1, -1
    for stamp, i in enumerate((0, 1, 3, 129, 128)):
        slots["paused_us"][i] = stamp * STAMP
        policy.event(PAUSE, slots, i, stamp * STAMP, 0, own, nothing, shared)
    assert (shared[STRIDE], shared[CAPACITY]) == (3, 100)
    # Only 0, 3 and 129 count, 120 tokens in 100.
    assert [np.flatnonzero(ghosts).tolist() for ghosts in own[:, -2:].T] == [[3, 129], [3, 129]]


def test_training_leaves_the_trace_under_test_out():
    all_six, five = (make_tables(setting(name), trained=True) for name in ("nowhere", "claude_code"))
    assert (counters(all_six, RETURNS)[0] != counters(five, RETURNS)[0]).any()
    for shared in (all_six, five):
        total = counters(shared, RETURNS)[0].sum() + counters(shared, ENDS)[0].sum()
        assert abs(total - 32) <= 8


def test_tables_are_written_as_they_are_read(tmp_path):
    trace = Trace("hand", (session(0, [5, 40], "x"), session(1, [20], "y")))
    counted = train(trace)
    write_tables(tmp_path / "tables.json", {"hand": counted})
    assert json.loads((tmp_path / "tables.json").read_text())["traces"] == {"hand": counted}
    assert np.sum(counted["returns"][0]) == 3


def in_one_tier(sessions, sizes, **changes):
    """Who left and where each request was placed, under LRU, for sessions such as ``A 0:10 3:20`` (time: context)."""
    names, made = [], []
    for number, text in enumerate(sessions.split("; ")):
        name, *turns = text.split()
        names.append(name)
        pairs = ((int(part) for part in turn.split(":")) for turn in turns)
        made.append(Session(number, tuple(Turn(t, t, x, 0 if n else x, 0, None) for n, (t, x) in enumerate(pairs))))
    load = Load(arrivals="recorded", scale=Fraction(1), completion="silent")
    policy = POLICIES["lru"].replace(tier_first=True).replace(**changes)
    result = simulate(make_schedule(Trace("hand", tuple(made)), load), policy, sizes, log=True)
    left = (names[slot] for kind, slot, *_ in result.log if kind == AnswerKind.EVICT.value)
    placed = (line[4] for line in result.log if line[0] == AnswerKind.OUTCOME.value and line[2] in ARRIVALS)
    return "".join(left), "".join("..SH"[tier] for tier in placed)


ARRIVALS = (Opcode.ARRIVE.value, Opcode.ARRIVE_ANY.value)
#: Names in the order of arrival, which is that of slots.
SPARES = "A 0:10; B 1:20; C 2:10; D 3:30; E 4:20"
ONE_TIER = "Z 0:20 2:20; A 1:10; C 3:10; D 4:20"
TIE = "A 0:15; B 0:10; C 1:10"
GROWS = "A 0:10 3:20; B 1:10; C 2:20"
GROWS_AWAY = "A 0:10 3:20; C 1:20; B 2:10"


@pytest.mark.parametrize(("sessions", "sizes", "one_tier", "plain"), [
    # E needs 20. SRAM: A, B give 30, and A need not leave; HBM: C, D give 40, and C need not leave. B before D.
    (SPARES, (30, 40), ("B", "SSHHS"), ("AB", "SSHHS")),
    # D needs 25: A, B, C give 40, and from the lowest score up C must leave, B need not, then A must.
    ("A 0:10; B 1:10; C 2:20; D 3:25", (0, 40), ("AC", "HHHH"), ("ABC", "HHHH")),
    # D needs 20. SRAM: Z, idle since 2; HBM: A since 1 and C since 3. Z against C: Z.
    (ONE_TIER, (20, 20), ("Z", "SHSHS"), ("AZ", "SHSHS")),
    # HBM instead: A and C, both idle for longer than Z.
    ("Z 0:20 4:20; A 1:10; C 3:10; D 5:20", (20, 20), ("AC", "SHHSH"), ("AC", "SHHSH")),
    # A in HBM and B in SRAM are idle since 0.
    (TIE, (10, 15), ("B", "HSS"), ("A", "HSH")),
    # A grows by 10 in SRAM beside B, or moves to HBM in place of C: B is idle for longer, then C is.
    (GROWS, (20, 20), ("B", "SSHS"), ("B", "SSHS")),
    (GROWS_AWAY, (20, 20), ("C", "SHSH"), ("C", "SHSH")),
    # Only HBM can hold C, whoever is in SRAM.
    ("A 0:10; B 1:20; C 2:15", (10, 20), ("B", "SHH"), ("B", "SHH")),
    ("A 0:10; B 1:20; C 2:25", (10, 20), ("", "SH."), ("", "SH.")),
])  # fmt: skip
def test_room_is_made_in_the_tier_of_the_better_victims_and_nobody_leaves_in_vain(sessions, sizes, one_tier, plain):
    assert in_one_tier(sessions, sizes) == one_tier
    assert in_one_tier(sessions, sizes, tier_first=False) == plain


@pytest.mark.parametrize("mode", [SCAN, VICTIM])
def test_tier_first_needs_scores_that_are_kept(mode):
    with pytest.raises(ValueError, match="tier_first"):
        POLICIES["lru"].replace(tier_first=True, mode=mode)


@pytest.mark.parametrize("policy", [
    POLICIES["unison"],
    POLICIES["timeout-10s"],
    POLICIES["index-tide"],
    POLICIES["index-trained"].replace(tier_first=True),
    POLICIES["tide"].replace(tier_first=True),
], ids=lambda policy: f"{policy.name}-{policy.tier_first}")  # fmt: skip
def test_trees_of_many_slots_find_what_few_slots_compare(policy):
    # Never more than 128 sessions, so that none is forgotten and the number of slots changes nothing.
    schedule = synthetic_schedule(16, 2000)
    logs = [simulate(schedule, policy, "edge", slots=slots, log=True).log for slots in (128, 129)]
    assert schedule.sessions <= 128 and len(logs[0]) > 4000 and np.array_equal(*logs)


def test_the_headline_says_so_and_is_the_only_one():
    assert [name for name, policy in POLICIES.items() if policy.summary.startswith("The ranking of this lab")] == [
        "index-duel"
    ]
    assert POLICIES["index-duel"].tide and POLICIES["index-duel"].tier_first


def test_a_setting_is_chosen_without_the_trace_it_is_judged_on():
    attainments = {
        # Means: of all 0.4 and 0.53; without t0 0.55 and 0.4, without t1 0.15 and 0.7, without t2 0.5 and 0.5.
        "a": {"t0": 0.1, "t1": 0.9, "t2": 0.2},
        "b": {"t0": 0.8, "t1": 0.2, "t2": 0.6},
    }
    assert choose(attainments) == ("b", {"t0": "a", "t1": "b", "t2": "a"})


@pytest.mark.parametrize("bad", [
    {"theta": 2.0}, {"entry_bits": 7}, {"gap_octaves": 1}, {"parent": "aunt"}, {"shrink": 0}, {"step": -1},
])  # fmt: skip
def test_bad_parameters_are_told(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be .*{next(iter(bad.values()))}"):
        index(**bad)
