"""Index tables: bins, entries, counters, and who leaves."""

import json
from fractions import Fraction

import numpy as np
import pytest

from unison.model.load import Load
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
    Policy,
    Setting,
    no_event,
    score,
)
from unison.model.policies.index import BINS, age_bin, bin_edge, index, learned, make_tables
from unison.model.schedule import make_schedule, synthetic_schedule
from unison.model.simulator import simulate
from unison.model.trace import Session, Trace, Turn
from unison.model.train_index import train, write_tables

#: Microseconds of a stamp.
STAMP = 1 << 10
#: Places in the shared numbers that the tests read and set.
PRIOR, SAVED, LRU_RANKS = 12, 9, 11
CLASSES = 1 + 16 + 16 + 256
RETURNS = PRIOR + BINS
ENDS = RETURNS + CLASSES * BINS
ENTRIES = ENDS + 2 * CLASSES * BINS + CLASSES


@score
def _age_in_stamps(slots, i, now, own, memory, shared):
    return -(slots[i].paused_us >> 10)


LRU_BY_STAMP = Policy(name="lru-by-stamp", summary="", score=_age_in_stamps)


def setting(name="nowhere", capacities=(0, 100)):
    schedule = synthetic_schedule(2, 100)
    schedule = type(schedule)(**{**vars(schedule), "name": name})
    return Setting(schedule, None, (), (), capacities, None, 4, 0)


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
    slots, own = np.zeros(1, dtype=SLOT), np.zeros((1, 1))
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
    slots, own, nothing = np.zeros(1, dtype=SLOT), np.zeros((1, 1)), np.zeros((1, 0))
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


def test_size_counts_by_its_exponent():
    shared = {theta: index(theta=theta).prepare(setting()) for theta in (0.0, 0.5, 1.0)}
    slots, own, nothing = np.zeros(2, dtype=SLOT), np.zeros((2, 1)), np.zeros((2, 0))
    slots["tokens"] = 64, 1024
    for theta, numbers in shared.items():
        small, large = (int(index().score(slots, i, 99 * STAMP, own, nothing, numbers)) >> 32 for i in range(2))
        # Four octaves of 64 units each.
        assert large - small == 4 * 64 * theta


def test_lru_ranks_while_it_would_have_saved_more():
    policy = index(duel=True)
    shared = policy.prepare(setting(capacities=(0, 100)))
    slots, own, nothing = np.zeros(3, dtype=SLOT), np.zeros((3, 4)), np.zeros((3, 0))
    slots["tokens"], slots["tool"], slots["last_gap_us"] = 40, -1, -1

    def tell(kind, i, stamp=0):
        slots["paused_us"][i] = stamp * STAMP
        return policy.event(kind, slots, i, stamp * STAMP, 0, own, nothing, shared)

    for i in range(3):
        tell(PAUSE, i, i)
    # 120 tokens in 100: both rankings, still the same, let the first go.
    assert own[:, 2].tolist() == own[:, 3].tolist() == [0, 1, 1]
    tell(ARRIVE, 0)
    tell(ARRIVE, 1)
    assert shared[SAVED : SAVED + 2].tolist() == [40, 40]
    own[2, 3] = 0
    tell(ARRIVE, 2)
    assert shared[SAVED : SAVED + 2].tolist() == [80, 40]
    assert tell(PAUSE, 2, 9) == RESCORE and shared[LRU_RANKS]
    assert policy.score(slots, 2, 50 * STAMP, own, nothing, shared) == (1 << 32) - 1 - 9
    tell(COMPLETE, 2)
    tell(FORGET, 1)
    assert own[1:, 2:].tolist() == [[0, 0], [0, 0]]


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


@pytest.mark.parametrize("bad", [{"theta": 2.0}, {"entry_bits": 7}, {"gap_octaves": 1}])
def test_bad_parameters_are_told(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be .*{next(iter(bad.values()))}"):
        index(**bad)
