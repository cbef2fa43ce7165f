"""The golden model's events, answers and state, worked out by hand from the contract.

A table is written one word a slot: residency (``.`` free, ``-`` absent, ``S``, ``H``), tokens, ``:`` and the gap
average, then ``*`` if busy or ``c`` if completed. Without hazards a live score is the gap average.
"""

import random
import re

import pytest

from unison.formats import (
    ANSWER_LAYOUTS,
    EVENT,
    AnswerKind,
    ErrorCode,
    Opcode,
    Place,
    Residency,
    entry_layout,
    pack,
    unpack,
)
from unison.model.arithmetic import FloatingPoint
from unison.model.engine import COUNTERS, Config, Engine
from unison.params import N64, Params

P = Params(sessions=4)
LETTERS = {".": Residency.FREE, "-": Residency.ABSENT, "S": Residency.SRAM, "H": Residency.HBM}
ROOMY = Config(capacity_sram=1000, capacity_hbm=1000, numerator=0)


def send(engine, text):
    """Executes events such as ``GAP_START 2 l100 o50``, separated by ``;``; returns what the last one answered."""
    for event in text.split(";"):
        opcode, *rest = event.split()
        slot, tokens, operand = 0, 0, 0
        for word in rest:
            if word[0] == "l":
                tokens = int(word[1:])
            elif word[0] == "o":
                operand = int(word[1:], 0)
            else:
                slot = int(word)
        step = engine.step(pack(EVENT, opcode=Opcode[opcode], slot=slot, tokens=tokens), operand)
    return "; ".join(map(show, step.answers)), step.searched


def show(answer):
    fields = answer.fields
    if answer.kind is AnswerKind.OUTCOME:
        slot = fields["slot"] if fields["slot_valid"] else "no slot"
        return f"{Opcode(fields['opcode']).name} {slot} {Place(fields['found']).name} {Place(fields['placed']).name}"
    if answer.kind is AnswerKind.ERROR:
        return f"ERROR {ErrorCode(fields['code']).name}"
    if answer.kind is AnswerKind.MOVED:
        return f"MOVED {fields['slot']} {Residency(fields['tier']).name} {fields['tokens']}"
    if answer.kind is AnswerKind.MIGRATE:
        demoted = f"{fields['demoted_slot']}:{fields['demoted_tokens']}" if fields["demoted_valid"] else "none"
        return f"MIGRATE {fields['slot']}:{fields['tokens']} {demoted}"
    return f"{answer.kind.name} {fields['slot']}"


def build(text, config, p=P, **options):
    """An engine brought to a table by events, then configured by ``config`` with the counters at 0."""
    engine = Engine(p, **options)
    rows = [re.fullmatch(r"([.\-SH])(\d*)(?::(\d+))?([*c]?)", word).groups() for word in text.split()]
    for slot, (letter, tokens, gap, flag) in enumerate(rows):
        if letter == ".":
            continue
        room = 1 << 20
        engine.configure(Config(capacity_sram=room * (letter == "S"), capacity_hbm=room * (letter == "H"), numerator=0))
        send(engine, f"ARRIVE {slot} l{tokens}")
        if gap or flag != "*":
            send(engine, f"GAP_START {slot} l{tokens}; GAP_END {slot} o{gap or 0}")
            if flag == "*":
                send(engine, f"ARRIVE {slot} l{tokens}")
    for slot, row in enumerate(rows):
        if row[3] == "c":
            send(engine, f"COMPLETE {slot}")
    engine.configure(config)
    engine.counters = dict.fromkeys(COUNTERS, 0)
    assert table(engine) == " ".join(normal(*row) for row in rows)
    return engine


def normal(letter, tokens, gap, flag):
    return letter if letter == "." else f"{letter}{tokens}:{gap or 0}{flag}"


def table(engine):
    letters = {residency.value: letter for letter, residency in LETTERS.items()}
    return " ".join(
        normal(letters[e.residency], e.tokens, e.gap, "*" * e.busy + "c" * e.completed) for e in engine.entries
    )


def counted(engine):
    """The counters that are not 0, without EVENTS and DECISIONS."""
    return {name: n for name, n in engine.counters.items() if n and name not in ("EVENTS", "DECISIONS")}


def check(before, config, events, answers, after, **options):
    engine = build(before, config, **options)
    assert send(engine, events)[0] == answers
    assert table(engine) == after
    return engine


def test_the_builder_makes_what_it_is_asked_for():
    engine = build("S10:5 H20:6c -30:7* .", ROOMY)
    assert engine.used == {Residency.SRAM: 10, Residency.HBM: 20}
    assert engine.busy_used == {Residency.SRAM: 0, Residency.HBM: 0}
    assert not engine.dma_busy


# Small capacities: SRAM 100, HBM 200; no budget, so TIDE moves nothing.
SMALL = Config(capacity_sram=100, capacity_hbm=200, numerator=0, gap_prior=9)
TIGHT = Config(capacity_sram=0, capacity_hbm=100, numerator=0)

ARRIVALS = {
    "free slot, SRAM fits": (". . . .", SMALL, "ARRIVE 2 l100", "ARRIVE 2 NONE SRAM", ". . S100:9* ."),
    "free slot, only HBM fits": (". . . .", SMALL, "ARRIVE 0 l101", "ARRIVE 0 NONE HBM", "H101:9* . . ."),
    "no tier can fit": (". . . .", SMALL, "ARRIVE 0 l201", "ARRIVE 0 NONE NONE", "-201:9* . . ."),
    "absent: found is a miss": ("-50:7 . . .", SMALL, "ARRIVE 0 l60", "ARRIVE 0 NONE SRAM", "S60:7* . . ."),
    "resident in SRAM": ("S50:7 . . .", SMALL, "ARRIVE 0 l60", "ARRIVE 0 SRAM SRAM", "S60:7* . . ."),
    "stays in HBM though SRAM has room": ("H50:7 . . .", SMALL, "ARRIVE 0 l60", "ARRIVE 0 HBM HBM", "H60:7* . . ."),
    "completed is cleared": ("S50:7c . . .", SMALL, "ARRIVE 0 l50", "ARRIVE 0 SRAM SRAM", "S50:7* . . ."),
    "own usage is taken out first": ("S90:7 . . .", SMALL, "ARRIVE 0 l100", "ARRIVE 0 SRAM SRAM", "S100:7* . . ."),
    "grows out of SRAM": (
        "S90:7 . . .",
        SMALL,
        "ARRIVE 0 l101",
        "MOVED 0 HBM 101; ARRIVE 0 SRAM HBM",
        "H101:7* . . .",
    ),
    "grows beside others: moves rather than evicts": (
        "S40:7 S50:900 . .",
        SMALL,
        "ARRIVE 0 l60",
        "MOVED 0 HBM 60; ARRIVE 0 SRAM HBM",
        "H60:7* S50:900 . .",
    ),
    "HBM full, moves up to SRAM": (
        "H90:7 H100:900 . .",
        SMALL,
        "ARRIVE 0 l100",
        "ARRIVE 0 HBM HBM",
        "H100:7* H100:900 . .",
    ),
    "HBM overfull, moves up to SRAM": (
        "H50:7 H150:900 . .",
        SMALL,
        "ARRIVE 0 l60",
        "MOVED 0 SRAM 60; ARRIVE 0 HBM SRAM",
        "S60:7* H150:900 . .",
    ),
    "evicts the highest score of both tiers": (
        "S90:7 H190:8 . .",
        SMALL,
        "ARRIVE 2 l20",
        "EVICT 1; ARRIVE 2 NONE HBM",
        "S90:7 -190:8 H20:9* .",
    ),
    "evicts the highest score, SRAM": (
        "S90:8 H190:7 . .",
        SMALL,
        "ARRIVE 2 l20",
        "EVICT 0; ARRIVE 2 NONE SRAM",
        "-90:8 H190:7 S20:9* .",
    ),
    "evicts only from tiers that can fit": (
        "S90:999 H190:7 . .",
        SMALL,
        "ARRIVE 2 l101",
        "EVICT 1; ARRIVE 2 NONE HBM",
        "S90:999 -190:7 H101:9* .",
    ),
    "evicts several in the order of scores": (
        "H60:7 H60:9 H60:8 .",
        SMALL,
        "ARRIVE 3 l140",
        "EVICT 1; EVICT 2; ARRIVE 3 NONE HBM",
        "H60:7 -60:9 -60:8 H140:9*",
    ),
    "evicts in one tier, then in the other": (
        "S50:9 S50:5 H190:8 .",
        SMALL,
        "ARRIVE 3 l60",
        "EVICT 0; EVICT 2; ARRIVE 3 NONE HBM",
        "-50:9 S50:5 -190:8 H60:9*",
    ),
    "evicts in another tier than its own and moves there": (
        "H50:1 H150:2 S100:9 .",
        SMALL,
        "ARRIVE 0 l60",
        "EVICT 2; MOVED 0 SRAM 60; ARRIVE 0 HBM SRAM",
        "S60:1* H150:2 -100:9 .",
    ),
    "looks again from the start: its own tier": (
        "H100:1 H100:9 S100:5 .",
        SMALL,
        "ARRIVE 0 l110",
        "EVICT 1; ARRIVE 0 HBM HBM",
        "H110:1* -100:9 S100:5 .",
    ),
    "own tier still comes first after SRAM was freed, if it fits": (
        "H100:1 H100:5 S100:9 .",
        SMALL,
        "ARRIVE 0 l110",
        "EVICT 1; ARRIVE 0 HBM HBM",
        "H110:1* -100:5 S100:9 .",
    ),
    "a resident of SRAM evicts there rather than from a full HBM it can fit": (
        "S50:1 S50:9 H200:5 .",
        SMALL,
        "ARRIVE 0 l60",
        "EVICT 1; ARRIVE 0 SRAM SRAM",
        "S60:1* -50:9 H200:5 .",
    ),
    "ties go to the lowest slot": (
        "H30:3 H50:8 H50:8 .",
        SMALL,
        "ARRIVE 3 l101",
        "EVICT 1; ARRIVE 3 NONE HBM",
        "H30:3 -50:8 H50:8 H101:9*",
    ),
    "a completed session leaves first": (
        "H60:3c H70:4294967295 H70:9 .",
        SMALL,
        "ARRIVE 3 l101",
        "EVICT 0; EVICT 1; ARRIVE 3 NONE HBM",
        "-60:3c -70:4294967295 H70:9 H101:9*",
    ),
    "busy residents are no victims": (
        "S90:99* H90:99* H100:1 .",
        SMALL,
        "ARRIVE 3 l100",
        "EVICT 2; ARRIVE 3 NONE HBM",
        "S90:99* H90:99* -100:1 H100:9*",
    ),
    "busy residents leave no room": (
        "S90:99* H150:99* H50:1 .",
        SMALL,
        "ARRIVE 3 l60",
        "ARRIVE 3 NONE NONE",
        "S90:99* H150:99* H50:1 -60:9*",
    ),
    "a resident that no tier can fit becomes absent without EVICT": (
        "S50:7 H100:9 . .",
        SMALL,
        "ARRIVE 0 l201",
        "ARRIVE 0 SRAM NONE",
        "-201:7* H100:9 . .",
    ),
    "capacity below usage: evicts until it fits": (
        "H60:7 H60:9 H60:8 .",
        TIGHT,
        "ARRIVE 3 l40",
        "EVICT 1; EVICT 2; ARRIVE 3 NONE HBM",
        "H60:7 -60:9 -60:8 H40:0*",
    ),
    "capacity below the usage of busy ones: nothing is placed or evicted": (
        "S90:7* H60:9 H110:7* .",
        TIGHT,
        "ARRIVE 3 l1",
        "ARRIVE 3 NONE NONE",
        "S90:7* H60:9 H110:7* -1:0*",
    ),
    "capacity below usage: a shrinking resident that still does not fit moves": (
        "S90:7 . . .",
        TIGHT,
        "ARRIVE 0 l80",
        "MOVED 0 HBM 80; ARRIVE 0 SRAM HBM",
        "H80:7* . . .",
    ),
    "ANY takes the lowest free slot and ignores its slot field": (
        "S10:7 . -5:9 .",
        SMALL,
        "ARRIVE_ANY 255 l20",
        "ARRIVE_ANY 1 NONE SRAM",
        "S10:7 S20:9* -5:9 .",
    ),
    "ANY forgets the absent one of highest score": (
        "-10:7 S10:99 -10:9 -10:8",
        SMALL,
        "ARRIVE_ANY l20",
        "FORGET 2; ARRIVE_ANY 2 NONE SRAM",
        "-10:7 S10:99 S20:9* -10:8",
    ),
    "ANY forgets a tie at the lowest slot": (
        "S10:99 -10:9 -10:9 -10:8",
        SMALL,
        "ARRIVE_ANY l20",
        "FORGET 1; ARRIVE_ANY 1 NONE SRAM",
        "S10:99 S20:9* -10:9 -10:8",
    ),
    "ANY forgets a completed one": (
        "-10:7 -10:1c -10:9 S10:8c",
        SMALL,
        "ARRIVE_ANY l20",
        "FORGET 1; ARRIVE_ANY 1 NONE SRAM",
        "-10:7 S20:9* -10:9 S10:8c",
    ),
    "ANY forgets, then FIT evicts": (
        "S90:7 H190:8 -1:1 H10:2*",
        SMALL,
        "ARRIVE_ANY l20",
        "FORGET 2; EVICT 1; ARRIVE_ANY 2 NONE HBM",
        "S90:7 -190:8 H20:9* H10:2*",
    ),
    "ANY forgets even when no tier can fit": (
        "S90:7 H190:8 -1:1 H10:2*",
        SMALL,
        "ARRIVE_ANY l999",
        "FORGET 2; ARRIVE_ANY 2 NONE NONE",
        "S90:7 H190:8 -999:9* H10:2*",
    ),
    "ANY does not forget a busy absent one": (
        "S10:7 -190:8* -1:1* H10:2",
        SMALL,
        "ARRIVE_ANY l20",
        "EVICT 0; ARRIVE_ANY 0 NONE SRAM",
        "S20:9* -190:8* -1:1* H10:2",
    ),
    "ANY evicts the highest score of either tier, without FORGET": (
        "S10:7 H10:9 H10:8 S10:6",
        SMALL,
        "ARRIVE_ANY l20",
        "EVICT 1; ARRIVE_ANY 1 NONE SRAM",
        "S10:7 S20:9* H10:8 S10:6",
    ),
    "ANY evicts for the slot even in a tier that cannot fit": (
        "S10:9 H10:8 H10:7 H10:6",
        SMALL,
        "ARRIVE_ANY l120",
        "EVICT 0; ARRIVE_ANY 0 NONE HBM",
        "H120:9* H10:8 H10:7 H10:6",
    ),
    "ANY evicts for the slot, then for room": (
        "S10:9 H60:6 H60:8 H60:7",
        SMALL,
        "ARRIVE_ANY l120",
        "EVICT 0; EVICT 2; EVICT 3; ARRIVE_ANY 0 NONE HBM",
        "H120:9* H60:6 -60:8 -60:7",
    ),
    "ANY without a tier that can fit": (
        "S10:9 H60:6 H60:8 H60:7",
        SMALL,
        "ARRIVE_ANY l201",
        "ARRIVE_ANY no slot NONE NONE",
        "S10:9 H60:6 H60:8 H60:7",
    ),
    "ANY without a paused resident": (
        "S10:9* H60:6* -60:8* H60:7*",
        SMALL,
        "ARRIVE_ANY l1",
        "ARRIVE_ANY no slot NONE NONE",
        "S10:9* H60:6* -60:8* H60:7*",
    ),
    "ANY counts busy tokens when it asks whether a tier can fit": (
        "S90:9* H190:6* S5:8 H5:7",
        SMALL,
        "ARRIVE_ANY l11",
        "ARRIVE_ANY no slot NONE NONE",
        "S90:9* H190:6* S5:8 H5:7",
    ),
}


@pytest.mark.parametrize("case", ARRIVALS.values(), ids=ARRIVALS)
def test_arrivals(case):
    check(*case)


# GAP_START with a budget of 0 for gap averages of 0 or an operand of 1: FIT shows alone.
GAP_STARTS = {
    "in place": ("S50:7* . . .", SMALL, "GAP_START 0 l60", "GAP_START 0 SRAM SRAM", "S60:7 . . ."),
    "absent stays absent though tiers are empty": (
        "-50:7* . . .",
        SMALL,
        "GAP_START 0 l60",
        "GAP_START 0 NONE NONE",
        "-60:7 . . .",
    ),
    "absent evicts nobody": (
        "-50:7* S100:8 H200:9 .",
        SMALL,
        "GAP_START 0 l60",
        "GAP_START 0 NONE NONE",
        "-60:7 S100:8 H200:9 .",
    ),
    "moves": (
        "S50:7* S50:9 . .",
        SMALL,
        "GAP_START 0 l60",
        "MOVED 0 HBM 60; GAP_START 0 SRAM HBM",
        "H60:7 S50:9 . .",
    ),
    "evicts, then moves": (
        "S50:7* S50:6 H190:8 .",
        SMALL,
        "GAP_START 0 l60",
        "EVICT 2; MOVED 0 HBM 60; GAP_START 0 SRAM HBM",
        "H60:7 S50:6 -190:8 .",
    ),
    "is not its own victim": (
        "S50:99* H190:8 S50:9 .",
        SMALL,
        "GAP_START 0 l60",
        "EVICT 2; GAP_START 0 SRAM SRAM",
        "S60:99 H190:8 -50:9 .",
    ),
    "outgrows every tier": (
        "S50:7* H60:8 . .",
        SMALL,
        "GAP_START 0 l201",
        "GAP_START 0 SRAM NONE",
        "-201:7 H60:8 . .",
    ),
}


@pytest.mark.parametrize("case", GAP_STARTS.values(), ids=GAP_STARTS)
def test_gap_starts_fit(case):
    check(*case)


# SRAM 100, HBM 200, one token a gap unit: the operand of GAP_START is the budget. Slot 3 is absent: FIT does nothing.
TIDE = dict(capacity_sram=100, capacity_hbm=200, numerator=1, denominator=1)
TIDES = {
    "promotes the lowest score": ("H30:7 H40:6 . -1:0*", {}, 40, "MIGRATE 1:40 none", "H30:7 S40:6 . -5:0"),
    "promotes a tie at the lowest slot": ("H30:6 H30:6 . -1:0*", {}, 99, "MIGRATE 0:30 none", "S30:6 H30:6 . -5:0"),
    "promotes beside others": ("H30:7 S70:1 . -1:0*", {}, 30, "MIGRATE 0:30 none", "S30:7 S70:1 . -5:0"),
    "promotes not without budget": ("H30:7 H40:6 . -1:0*", {}, 39, "", "H30:7 H40:6 . -5:0"),
    "promotes within a floored budget": (
        "H10:7 . . -1:0*",
        dict(denominator=3),
        30,
        "MIGRATE 0:10 none",
        "S10:7 . . -5:0",
    ),
    "a floored budget is below": ("H10:7 . . -1:0*", dict(denominator=3), 29, "", "H10:7 . . -5:0"),
    "promotes without limit when the denominator is 0": (
        "H90:7 . . -1:0*",
        dict(numerator=0, denominator=0),
        0,
        "MIGRATE 0:90 none",
        "S90:7 . . -5:0",
    ),
    "without p*": ("S30:7c S40:6 . -1:0*", {}, 999, "", "S30:7c S40:6 . -5:0"),
    "p* is not completed": ("H30:7c . . -1:0*", {}, 999, "", "H30:7c . . -5:0"),
    "p* is not busy": ("H30:7* H30:8 . -1:0*", {}, 999, "MIGRATE 1:30 none", "H30:7* S30:8 . -5:0"),
    "swaps with the highest score": (
        "H40:6 S50:7 S50:8 -1:0*",
        {},
        90,
        "MIGRATE 0:40 2:50",
        "S40:6 S50:7 H50:8 -5:0",
    ),
    "swaps with a tie at the lowest slot": (
        "H40:6 S50:8 S50:8 -1:0*",
        {},
        90,
        "MIGRATE 0:40 1:50",
        "S40:6 H50:8 S50:8 -5:0",
    ),
    "swaps not without budget": ("H40:6 S50:7 S50:8 -1:0*", {}, 89, "", "H40:6 S50:7 S50:8 -5:0"),
    "swaps not at equal scores": ("H40:8 S50:7 S50:8 -1:0*", {}, 90, "", "H40:8 S50:7 S50:8 -5:0"),
    "swaps not with a better p* score": ("H40:9 S50:7 S50:8 -1:0*", {}, 90, "", "H40:9 S50:7 S50:8 -5:0"),
    "swaps not into an overfull SRAM": ("H40:6 S50:7 S30:8 S20:1*", {}, 990, "", "H40:6 S50:7 S30:8 S20:1"),
    "swaps into an exactly full SRAM": (
        "H30:6 S50:7 S30:8 S20:1*",
        {},
        990,
        "MIGRATE 0:30 2:30",
        "S30:6 S50:7 H30:8 S20:1",
    ),
    "swaps not into an overfull HBM": ("H40:6 H120:9 S81:8 -1:0*", {}, 990, "", "H40:6 H120:9 S81:8 -5:0"),
    "swaps into an exactly full HBM": (
        "H40:6 H120:9 S80:8 -1:0*",
        {},
        990,
        "MIGRATE 0:40 2:80",
        "S40:6 H120:9 H80:8 -5:0",
    ),
    "swaps not in a tier set below its usage": (
        "H40:6 S50:7 S50:8 -1:0*",
        dict(capacity_sram=89),
        90,
        "",
        "H40:6 S50:7 S50:8 -5:0",
    ),
    "swaps not in HBM set below its usage, though the swap relieves it": (
        "H40:6 H50:9 S70:8 S30:1*",
        dict(capacity_hbm=80),
        990,
        "",
        "H40:6 H50:9 S70:8 S30:1",
    ),
    "no d* but busy ones": ("H40:6 S50:7* S50:8* -1:0*", {}, 990, "", "H40:6 S50:7* S50:8* -5:0"),
    "no d* at all": ("H140:6 . . -1:0*", {}, 990, "", "H140:6 . . -5:0"),
    "a completed d* leaves, then promotes": (
        "H40:6 S50:7 S50:8c -1:0*",
        {},
        40,
        "EVICT 2; MIGRATE 0:40 none",
        "S40:6 S50:7 -50:8c -5:0",
    ),
    "a completed d* leaves whatever the budget": (
        "H40:6 S50:7 S50:8c -1:0*",
        {},
        39,
        "EVICT 2",
        "H40:6 S50:7 -50:8c -5:0",
    ),
    "a completed d* leaves at a budget of 0": (
        "H40:6 S50:7 S50:8c -1:0*",
        dict(numerator=0),
        999,
        "EVICT 2",
        "H40:6 S50:7 -50:8c -5:0",
    ),
    "a completed d* stays when SRAM has room": ("H40:6 S10:7 S50:8c -1:0*", {}, 39, "", "H40:6 S10:7 S50:8c -5:0"),
    "all completed leave, lowest slot first, then a swap": (
        "H90:6 S50:8c S10:7c S40:9*",
        {},
        200,
        "EVICT 1; EVICT 2; MIGRATE 0:90 3:40",
        "S90:6 -50:8c -10:7c H40:9",
    ),
    "a completed d* leaves, then the swap is refused": (
        "H80:6 S40:8c S50:5 S10:7*",
        {},
        89,
        "EVICT 1",
        "H80:6 -40:8c S50:5 S10:7",
    ),
    "completed ones leave until there is no d*": (
        "H101:6 S40:8c S50:5c -1:0*",
        {},
        999,
        "EVICT 1; EVICT 2",
        "H101:6 -40:8c -50:5c -5:0",
    ),
    "swap_completed swaps instead": (
        "H40:6 S50:7 S50:8c -1:0*",
        dict(swap_completed=True),
        90,
        "MIGRATE 0:40 2:50",
        "S40:6 S50:7 H50:8c -5:0",
    ),
    "swap_completed asks for the budget of both": (
        "H40:6 S50:7 S50:8c -1:0*",
        dict(swap_completed=True),
        89,
        "",
        "H40:6 S50:7 S50:8c -5:0",
    ),
    "two promotions paid from one budget": (
        "H30:6 H40:7 . -1:0*",
        dict(moves=2),
        70,
        "MIGRATE 0:30 none; MIGRATE 1:40 none",
        "S30:6 S40:7 . -5:0",
    ),
    "the second move is not paid for": (
        "H30:6 H40:7 . -1:0*",
        dict(moves=2),
        69,
        "MIGRATE 0:30 none",
        "S30:6 H40:7 . -5:0",
    ),
    "one move by default": ("H30:6 H40:7 . -1:0*", {}, 999, "MIGRATE 0:30 none", "S30:6 H40:7 . -5:0"),
    "promotion, then a swap paid for both": (
        "H40:5 H50:6 S60:9 -1:0*",
        dict(moves=8),
        150,
        "MIGRATE 0:40 none; MIGRATE 1:50 2:60",
        "S40:5 S50:6 H60:9 -5:0",
    ),
    "promotion, then a swap one token short": (
        "H40:5 H50:6 S60:9 -1:0*",
        dict(moves=8),
        149,
        "MIGRATE 0:40 none",
        "S40:5 H50:6 S60:9 -5:0",
    ),
    "swap, then a promotion paid for all three": (
        "H40:1 H30:2 S70:9 -1:0*",
        dict(moves=2),
        140,
        "MIGRATE 0:40 2:70; MIGRATE 1:30 none",
        "S40:1 S30:2 H70:9 -5:0",
    ),
    "swap, then a promotion one token short": (
        "H40:1 H30:2 S70:9 -1:0*",
        dict(moves=2),
        139,
        "MIGRATE 0:40 2:70",
        "S40:1 H30:2 H70:9 -5:0",
    ),
    "an eviction after a move costs nothing": (
        "H40:5 H50:6 S60:9c -1:0*",
        dict(moves=2),
        90,
        "MIGRATE 0:40 none; EVICT 2; MIGRATE 1:50 none",
        "S40:5 S50:6 -60:9c -5:0",
    ),
    "an eviction without a move ends the search": (
        "H60:5 H90:6 S60:9c -1:0*",
        dict(moves=8),
        59,
        "EVICT 2",
        "H60:5 H90:6 -60:9c -5:0",
    ),
}


@pytest.mark.parametrize("case", TIDES.values(), ids=TIDES)
def test_tide(case):
    before, options, operand, answers, after = case
    engine = build(before, Config(**TIDE | options))
    busy_slot = 3
    tokens = 5 if before.split()[3].startswith("-") else engine.entries[busy_slot].tokens
    shown, searched = send(engine, f"GAP_START {busy_slot} l{tokens} o{operand}")
    *shown, outcome = shown.split("; ")
    assert "; ".join(shown) == answers
    assert outcome.startswith("GAP_START 3 ")
    assert table(engine) == after
    assert searched
    assert engine.dma_busy == ("MIGRATE" in answers)


def test_tide_includes_the_session_whose_gap_opens_and_placed_is_before_it():
    engine = build("H40:6* S70:8 . .", Config(**TIDE))
    assert send(engine, "GAP_START 0 l40 o110")[0] == "MIGRATE 0:40 1:70; GAP_START 0 HBM HBM"
    assert engine.last_moves == {0, 1}


@pytest.mark.parametrize(
    ("average", "operand", "moves"), [(40, 0, True), (39, 0, False), (39, 40, True), (99, 39, False)]
)
def test_operand_zero_stands_for_the_average(average, operand, moves):
    engine = build(f"H40:6 . . -5:{average}*", Config(**TIDE))
    assert ("MIGRATE" in send(engine, f"GAP_START 3 l5 o{operand}")[0]) == moves


def test_operand_of_gap_start_saturates_at_the_gap_bits():
    p = P.replace(gap_bits=24)
    config = Config(**TIDE | dict(capacity_sram=999, denominator=65535))
    for tokens, moves in ((256, True), (257, False)):
        engine = build(f"H{tokens}:6 . . -5:1*", config, p=p)
        assert ("MIGRATE" in send(engine, "GAP_START 3 l5 o0xFFFFFFFF")[0]) == moves


def test_eight_moves_are_the_most():
    p = Params(sessions=10)
    engine = build(" ".join(f"H10:{slot}" for slot in range(9)) + " -1:0*", Config(**TIDE | dict(moves=8)), p=p)
    assert send(engine, "GAP_START 9 l1 o999")[0].count("MIGRATE") == 8
    assert engine.last_moves == set(range(8))
    assert engine.counters["PROMOTIONS"] == 8


def test_one_move_takes_the_dma_engine_until_any_dma_done():
    engine = build("H10:1 H10:2 H10:3 -1:0*", Config(**TIDE))
    assert send(engine, "GAP_START 3 l5 o99") == ("MIGRATE 0:10 none; GAP_START 3 NONE NONE", True)
    assert send(engine, "ARRIVE 3 l999; GAP_START 3 l5 o99") == ("GAP_START 3 NONE NONE", False)
    assert send(engine, "DMA_DONE") == ("DMA_DONE no slot NONE NONE", False)
    assert not engine.dma_busy
    assert engine.last_moves == set()
    assert send(engine, "ARRIVE 3 l999; GAP_START 3 l5 o99") == ("MIGRATE 1:10 none; GAP_START 3 NONE NONE", True)


def test_a_busy_dma_engine_also_spares_a_completed_d():
    engine = build("H40:1 H50:2 S60:9c -1:0*", Config(**TIDE))
    assert send(engine, "GAP_START 3 l5 o99")[0] == "MIGRATE 0:40 none; GAP_START 3 NONE NONE"
    assert send(engine, "ARRIVE 3 l999; GAP_START 3 l5 o99")[0] == "GAP_START 3 NONE NONE"


def test_ignore_dma_passes_the_test_but_moves_take_the_engine():
    engine = build("H10:1 H10:2 H10:3 -1:0*", Config(**TIDE | dict(ignore_dma=True)))
    send(engine, "GAP_START 3 l5 o99; ARRIVE 3 l999")
    assert send(engine, "GAP_START 3 l5 o99")[0] == "MIGRATE 1:10 none; GAP_START 3 NONE NONE"
    assert engine.dma_busy
    assert engine.last_moves == {1}
    assert send(engine, "DMA_DONE o1")[0] == "EVICT 1; DMA_DONE no slot NONE NONE"
    assert table(engine) == "S10:1 -10:2 H10:3 -5:0"
    assert not engine.dma_busy


def test_a_gap_start_without_a_move_keeps_the_last_moves():
    engine = build("H10:1 S10:2 . -1:0*", Config(**TIDE | dict(ignore_dma=True)))
    send(engine, "GAP_START 3 l5 o99; ARRIVE 3 l999; GAP_START 3 l5 o99")
    assert engine.last_moves == {0}
    assert engine.dma_busy


def test_fit_moves_are_neither_gated_nor_take_the_engine():
    engine = build("H10:1 H10:2 S50:3 -1:0*", Config(**TIDE))
    send(engine, "GAP_START 3 l5 o99")
    assert send(engine, "ARRIVE 2 l101")[0] == "MOVED 2 HBM 101; ARRIVE 2 SRAM HBM"
    assert engine.last_moves == {0}
    send(engine, "DMA_DONE; ARRIVE 1 l95")
    assert not engine.dma_busy


FAILED = {
    "lowest slot first, whichever was p": (
        "S70:9 H40:1 . -1:0*",
        {},
        "GAP_START 3 l5 o999",
        "EVICT 0; EVICT 1; DMA_DONE no slot NONE NONE",
    ),
    "freed": ("S70:9 H40:1 . -1:0*", {}, "GAP_START 3 l5 o999; RELEASE 0", "EVICT 1; DMA_DONE no slot NONE NONE"),
    "twice: the second finds nothing": ("S70:9 H40:1 . -1:0*", {}, "GAP_START 3 l5 o999; DMA_DONE o1", ""),
    "done empties the last moves": ("S70:9 H40:1 . -1:0*", {}, "GAP_START 3 l5 o999; DMA_DONE o0", ""),
    "without any move": ("S70:9 H40:1 . -1:0*", {}, "GAP_END 0 o1", ""),
    "a completed one is still paused": (
        "S70:9 H40:1 . -1:0*",
        {},
        "GAP_START 3 l5 o999; COMPLETE 1",
        "EVICT 0; EVICT 1; DMA_DONE no slot NONE NONE",
    ),
    "busy now": ("S70:9 H40:1 . -1:0*", {}, "GAP_START 3 l5 o999; ARRIVE 1 l40", "EVICT 0; DMA_DONE no slot NONE NONE"),
    "busy since, and paused again": (
        "S70:9 H40:1 . -1:0*",
        {},
        "GAP_START 3 l5 o999; ARRIVE 1 l40; GAP_START 1 l40",
        "EVICT 0; DMA_DONE no slot NONE NONE",
    ),
    "freed, and taken again": (
        "S70:9 H40:1 . -1:0*",
        {},
        "GAP_START 3 l5 o999; RELEASE 0; ARRIVE_ANY l1; GAP_START 0 l1",
        "EVICT 1; DMA_DONE no slot NONE NONE",
    ),
    "evicted by FIT": (
        "S70:9 H40:1 . -1:0*",
        {},
        "GAP_START 3 l5 o999; ARRIVE 2 l199",
        "EVICT 1; DMA_DONE no slot NONE NONE",
    ),
    "evicted for its slot": (
        "S70:9 H40:1 S9:0* -1:0*",
        {},
        "GAP_START 3 l5 o999; ARRIVE 3 l999; ARRIVE_ANY l1; GAP_START 0 l1",
        "EVICT 1; DMA_DONE no slot NONE NONE",
    ),
    "every move of one gap": (
        "H10:2 H10:1 . -1:0*",
        dict(moves=3),
        "GAP_START 3 l5 o999",
        "EVICT 0; EVICT 1; DMA_DONE no slot NONE NONE",
    ),
    "a completed d* that left was no move": (
        "S70:9c H40:1 . -1:0*",
        {},
        "GAP_START 3 l5 o999",
        "EVICT 1; DMA_DONE no slot NONE NONE",
    ),
}


@pytest.mark.parametrize("case", FAILED.values(), ids=FAILED)
def test_failed_dma_evicts_what_was_moved_last(case):
    before, options, events, answers = case
    engine = build(before, Config(**TIDE | options))
    send(engine, events)
    engine.counters["EVICTIONS_DMA"] = 0
    assert send(engine, "DMA_DONE o1") == (answers or "DMA_DONE no slot NONE NONE", False)
    assert engine.last_moves == set()
    assert not engine.dma_busy
    assert engine.counters["EVICTIONS_DMA"] == answers.count("EVICT")


def test_dma_done_ignores_the_other_operand_bits():
    engine = build("S70:9 H40:1 . -1:0*", Config(**TIDE))
    send(engine, "GAP_START 3 l5 o999")
    assert send(engine, "DMA_DONE o0xFFFFFFFE")[0] == "DMA_DONE no slot NONE NONE"
    assert table(engine) == "H70:9 S40:1 . -5:0"


def test_an_evicted_session_is_promoted_no_more_and_found_a_miss():
    engine = build("S70:9 H40:1 . -1:0*", Config(**TIDE))
    send(engine, "GAP_START 3 l5 o999; DMA_DONE o1")
    assert table(engine) == "-70:9 -40:1 . -5:0"
    assert engine.used == {Residency.SRAM: 0, Residency.HBM: 0}
    assert send(engine, "ARRIVE 1 l40")[0] == "ARRIVE 1 NONE SRAM"


def test_gap_averages():
    engine = build(". . . .", Config(capacity_sram=100, gap_prior=1000))
    entry = engine.entries[0]
    send(engine, "ARRIVE 0 l5; GAP_START 0 l5")
    assert (entry.gap, entry.score) == (1000, 1000)
    send(engine, "GAP_END 0 o100")
    assert (entry.gap, entry.score) == (100, 100)
    send(engine, "GAP_END 0 o77")
    assert (entry.gap, entry.score) == (77, 77), "the test is the turn, also for a second GAP_END"
    send(engine, "ARRIVE 0 l5; GAP_START 0 l5; GAP_END 0 o200")
    assert (entry.gap, entry.score) == (113, 113)
    send(engine, "GAP_END 0 o200")
    assert (entry.gap, entry.score) == (139, 139), "a second GAP_END in one gap is applied again"


def test_gaps_saturate_at_the_gap_bits():
    engine = build("S5 . . .", ROOMY, p=P.replace(gap_bits=24))
    assert send(engine, "GAP_END 0 o0xFFFFFFFF")[0] == "GAP_END 0 NONE NONE"
    assert engine.entries[0].gap == (1 << 24) - 1
    send(engine, "ARRIVE 0 l5; GAP_START 0 l5; GAP_END 0 o0x1000000")
    assert engine.entries[0].gap == (1 << 24) - 1


def test_a_completed_entry_takes_the_gap_and_stays_all_ones():
    engine = build("S5:7c -5:7c . .", ROOMY)
    for slot in (0, 1):
        send(engine, f"GAP_END {slot} o50")
        assert engine.entries[slot].gap == 50
        assert engine.entries[slot].score == P.score_completed


def test_turn_saturates_and_the_hazard_row_follows_the_turn():
    hazards = [0] * P.turns
    hazards[1], hazards[49], hazards[50] = 4095, 4094, 1
    engine = Engine(P, ROOMY, hazards)
    turns, scores = [], {}
    for _ in range(53):
        send(engine, "ARRIVE 0 l5; GAP_START 0 l5; GAP_END 0 o41")
        turns.append(engine.entries[0].turn)
        scores[turns[-1]] = engine.entries[0].score
    assert turns == [*range(1, 51), 50, 50, 50]
    assert scores[1] == scores[49] == 4095 + 494993894
    assert scores[2] == 41
    assert scores[50] == 41 + 122100


def test_a_released_slot_starts_again():
    engine = build("S5:7 . . .", Config(capacity_sram=100, gap_prior=3))
    send(engine, "ARRIVE 0 l5; GAP_START 0 l5; RELEASE 0; ARRIVE 0 l6; GAP_START 0 l6")
    assert (engine.entries[0].turn, engine.entries[0].gap, engine.entries[0].score) == (1, 3, 3)
    send(engine, "COMPLETE 0; RELEASE 0; ARRIVE 0 l6; GAP_START 0 l6")
    assert engine.entries[0].score == 3


def test_an_absent_session_keeps_average_and_turn():
    engine = build("S90:7 . . .", SMALL)
    send(engine, "ARRIVE 1 l199; GAP_START 1 l199; ARRIVE 2 l100")
    assert table(engine) == "S90:7 -199:9 H100:9* ."
    send(engine, "ARRIVE 1 l100; GAP_START 1 l100; GAP_END 1 o19")
    assert (engine.entries[1].turn, engine.entries[1].gap) == (2, 12)


STATES = {
    "COMPLETE of a busy one": ("S50:7* . . .", "COMPLETE 0", "COMPLETE 0 NONE NONE", "S50:7c . . .", 50, 0),
    "COMPLETE of a paused one": ("S50:7 . . .", "COMPLETE 0", "COMPLETE 0 NONE NONE", "S50:7c . . .", 50, 0),
    "COMPLETE twice": ("S50:7c . . .", "COMPLETE 0", "COMPLETE 0 NONE NONE", "S50:7c . . .", 50, 0),
    "COMPLETE of an absent one": ("-50:7* . . .", "COMPLETE 0", "COMPLETE 0 NONE NONE", "-50:7c . . .", 0, 0),
    "RELEASE of a busy one": ("S50:7* S3* . .", "RELEASE 0", "RELEASE 0 NONE NONE", ". S3:0* . .", 3, 3),
    "RELEASE of a paused one": ("S50:7 S3* . .", "RELEASE 0", "RELEASE 0 NONE NONE", ". S3:0* . .", 3, 3),
    "RELEASE of an absent one": ("-50:7 S3* . .", "RELEASE 0", "RELEASE 0 NONE NONE", ". S3:0* . .", 3, 3),
    "GAP_START gives busy tokens back": (
        "S50:7* S3* . .",
        "GAP_START 0 l9",
        "GAP_START 0 SRAM SRAM",
        "S9:7 S3:0* . .",
        12,
        3,
    ),
    "ARRIVE of a paused one": ("S50:7 S3* . .", "ARRIVE 0 l9", "ARRIVE 0 SRAM SRAM", "S9:7* S3:0* . .", 12, 12),
    "GAP_END": ("S50:7 . . .", "GAP_END 0 o8", "GAP_END 0 NONE NONE", "S50:8 . . .", 50, 0),
}


@pytest.mark.parametrize("case", STATES.values(), ids=STATES)
def test_states_and_usage(case):
    before, events, answers, after, used, busy_used = case
    engine = check(before, ROOMY, events, answers, after)
    assert engine.used[Residency.SRAM] == used
    assert engine.busy_used[Residency.SRAM] == busy_used
    if "c" in after:
        assert engine.entries[0].score == P.score_completed


ERRORS = {
    "opcode 0": (0, 0, 5, "OPCODE"),
    "TIME is not built": (8, 0, 5, "OPCODE"),
    "opcode 15, before all else": (15, 255, 0, "OPCODE"),
    "ARRIVE slot, before tokens": (Opcode.ARRIVE, 4, 0, "SLOT"),
    "GAP_START slot": (Opcode.GAP_START, 255, 5, "SLOT"),
    "GAP_END slot": (Opcode.GAP_END, 4, 0, "SLOT"),
    "COMPLETE slot": (Opcode.COMPLETE, 4, 0, "SLOT"),
    "RELEASE slot": (Opcode.RELEASE, 4, 0, "SLOT"),
    "ARRIVE tokens, before state": (Opcode.ARRIVE, 1, 0, "TOKENS"),
    "ARRIVE_ANY tokens": (Opcode.ARRIVE_ANY, 0, 0, "TOKENS"),
    "GAP_START tokens, before state": (Opcode.GAP_START, 0, 0, "TOKENS"),
    "ARRIVE of a busy one": (Opcode.ARRIVE, 1, 5, "STATE"),
    "ARRIVE of a busy absent one": (Opcode.ARRIVE, 2, 5, "STATE"),
    "GAP_START of a paused one": (Opcode.GAP_START, 0, 5, "STATE"),
    "GAP_START of a free one": (Opcode.GAP_START, 3, 5, "STATE"),
    "GAP_END of a busy one": (Opcode.GAP_END, 1, 0, "STATE"),
    "GAP_END of a free one": (Opcode.GAP_END, 3, 0, "STATE"),
    "COMPLETE of a free one": (Opcode.COMPLETE, 3, 0, "STATE"),
    "RELEASE of a free one": (Opcode.RELEASE, 3, 0, "STATE"),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_errors_change_nothing(case):
    opcode, slot, tokens, code = case
    engine = build("S50:7 S60:8* -5:0* .", ROOMY)
    before = [engine.entry_word(s) for s in range(P.sessions)], dict(engine.used), dict(engine.busy_used)
    word0 = pack(EVENT, opcode=opcode, slot=slot, tokens=tokens)
    step = engine.step(word0, 0xFFFFFFFF)
    (answer,) = step.answers
    assert show(answer) == f"ERROR {code}"
    assert answer.fields["word0"] == word0
    assert not step.searched
    assert ([engine.entry_word(s) for s in range(P.sessions)], engine.used, engine.busy_used) == before
    assert counted(engine) == {f"ERRORS_{code}": 1}
    assert engine.counters["EVENTS"] == 1


def test_fields_that_an_event_does_not_use_are_ignored():
    engine = build("S50:7 . . .", ROOMY)
    assert send(engine, "GAP_END 0 l1048575 o5")[0] == "GAP_END 0 NONE NONE"
    assert send(engine, "DMA_DONE 255 l9")[0] == "DMA_DONE no slot NONE NONE"
    assert send(engine, "COMPLETE 0 l9 o99")[0] == "COMPLETE 0 NONE NONE"
    assert table(engine) == "S50:5c . . ."


@pytest.mark.parametrize("words", [(-1, 0), (1 << 32, 0), (0, -1), (0, 1 << 32), (0.5, 0), (0, "1")])
def test_words_outside_32_bits_are_the_callers_error(words):
    with pytest.raises(ValueError, match="32 bits"):
        Engine(P).step(*words)


def test_commit_rescores_every_paused_entry():
    engine = build("S50:41 H60:82 -5:41 H9:41c", ROOMY)
    engine.write_hazard(1, 4095)
    assert [e.score for e in engine.entries[:3]] == [41, 82, 41]
    send(engine, "GAP_END 0 o41")
    assert engine.entries[0].score == 41, "the shadow table is not live before COMMIT"
    engine.commit()
    penalty = 494993894
    assert [e.score for e in engine.entries] == [4095 + penalty, 8190 + penalty, 4095 + penalty, P.score_completed]
    engine.write_hazard(1, 0)
    send(engine, "GAP_END 0 o41")
    assert engine.entries[0].score == 4095 + penalty, "what is written after COMMIT waits for the next one"
    engine.write_hazard(1, 4095)
    engine.write_hazard(2, 1)
    engine.commit()
    assert engine.entries[0].score == 4095 + penalty, "the shadow table keeps its content"


def test_commit_changes_the_next_victim_and_leaves_busy_ones():
    engine = build("S50:41 S50:90 -5:7* .", Config(capacity_sram=100, numerator=0))
    send(engine, "ARRIVE 0 l50; GAP_START 0 l50")
    engine.write_hazard(2, 4095)
    engine.commit()
    assert send(engine, "ARRIVE 3 l1")[0] == "EVICT 0; ARRIVE 3 NONE SRAM"
    assert table(engine) == "-50:41 S50:90 -5:7* S1:0*"


def test_completed_code_is_out_of_reach_at_32_score_bits():
    p = P.replace(score_bits=32)
    engine = build("S50:4294967295 S50:3c . .", Config(capacity_sram=100), p=p)
    assert [e.score for e in engine.entries[:2]] == [(1 << 32) - 2, (1 << 32) - 1]
    assert send(engine, "ARRIVE 2 l1")[0] == "EVICT 1; ARRIVE 2 NONE SRAM"


COUNTED = {
    "miss": (". . . .", "ARRIVE 0 l5", dict(MISSES=1), 0),
    "miss in any slot": (". . . .", "ARRIVE_ANY l5", dict(MISSES=1), 0),
    "hits": ("S5 H5 -5 .", "ARRIVE 0 l5; ARRIVE 1 l5; ARRIVE 2 l5", dict(HITS_SRAM=1, HITS_HBM=1, MISSES=1), 0),
    "bypass of an arrival": ("S5 . . .", "ARRIVE 0 l500", dict(HITS_SRAM=1, BYPASSES=1), 0),
    "bypass of a gap start": ("S5* . . .", "GAP_START 0 l500", dict(BYPASSES=1), 1),
    "an absent gap start is no bypass": ("-5* . . .", "GAP_START 0 l500", {}, 1),
    "bypass without a slot": ("S5* S5* S5* S5*", "ARRIVE_ANY l5", dict(MISSES=1, BYPASSES=1), 1),
    "forget": ("-5 S5* S5* S5*", "ARRIVE_ANY l5", dict(MISSES=1, FORGETS=1), 1),
    "eviction for a slot": ("S5 S5* S5* S5*", "ARRIVE_ANY l5", dict(MISSES=1, EVICTIONS_SLOT=1), 1),
    "eviction for room": ("S90 H200 . .", "ARRIVE 2 l50", dict(MISSES=1, EVICTIONS_FIT=1), 1),
    "eviction by Tide, promotion": ("H60 S60c . -5:99*", "GAP_START 3 l5", dict(EVICTIONS_TIDE=1, PROMOTIONS=1), 1),
    "swap": ("H60:1 S60:2 . -5*", "GAP_START 3 l5 o999", dict(SWAPS=1), 1),
    "move in place": ("S60 . . .", "ARRIVE 0 l150", dict(HITS_SRAM=1, MOVES=1), 0),
    "failed move": ("H60 . . -5:99*", "GAP_START 3 l5; DMA_DONE o1", dict(PROMOTIONS=1, EVICTIONS_DMA=1), 1),
    "gap end, complete, release": ("S5 . . .", "GAP_END 0; COMPLETE 0; RELEASE 0", {}, 0),
}


@pytest.mark.parametrize("case", COUNTED.values(), ids=COUNTED)
def test_counters_by_cause(case):
    before, events, counters, decisions = case
    engine = build(before, Config(**TIDE))
    send(engine, events)
    assert counted(engine) == counters
    assert engine.counters["EVENTS"] == events.count(";") + 1
    assert engine.counters["DECISIONS"] == decisions


def test_counters_wrap():
    engine = Engine(P)
    engine.counters["EVENTS"] = engine.counters["ERRORS_OPCODE"] = (1 << 32) - 1
    engine.step(0, 0)
    assert engine.counters["EVENTS"] == engine.counters["ERRORS_OPCODE"] == 0


def test_answer_words_follow_the_layouts():
    engine = build("H40:6 S70:8 . -5*", Config(**TIDE))
    migrate, outcome = engine.step(pack(EVENT, opcode=Opcode.GAP_START, slot=3, tokens=5), 999).answers
    assert migrate.word == 6 << 28 | 0 << 20 | 40 | (1 << 28 | 1 << 20 | 70) << 32
    assert outcome.word == 1 << 28 | 3 << 20 | 1 << 4 | 3
    (moved, outcome) = engine.step(pack(EVENT, opcode=Opcode.ARRIVE, slot=0, tokens=120), 0).answers
    assert moved.word == 5 << 28 | 0 << 20 | 120 | 3 << 32
    assert outcome.word == 1 << 28 | 3 << 7 | 2 << 5 | 1 << 4 | 1
    (error,) = engine.step(0x3330_0000, 0).answers
    assert error.word == 2 << 28 | 2 | 0x3330_0000 << 32


def test_entry_words_and_masks():
    engine = build("S50:7 H60:8* . -5:3c", ROOMY)
    layout = entry_layout(P)
    assert unpack(layout, engine.entry_word(0)) == dict(
        tokens=50, turn=1, residency=2, busy=0, completed=0, gap=7, score=7
    )
    assert unpack(layout, engine.entry_word(3)) == dict(
        tokens=5, turn=1, residency=1, busy=0, completed=1, gap=3, score=P.score_completed
    )
    everything = (1 << 126) - 1
    assert engine.entry_mask(0) == engine.entry_mask(3) == everything
    assert unpack(layout, engine.entry_mask(1))["score"] == 0
    assert engine.entry_mask(1) == everything & ~(((1 << 64) - 1) << layout["score"].offset)
    assert engine.entry_mask(2) == 3 << layout["residency"].offset


@pytest.mark.parametrize(
    "options",
    [
        dict(capacity_sram=1 << P.capacity_bits),
        dict(capacity_hbm=-1),
        dict(numerator=1 << 16),
        dict(denominator=1 << 16),
        dict(gap_prior=1 << 32),
        dict(moves=0),
        dict(moves=9),
        dict(moves=True),
        dict(ignore_dma=1),
        dict(swap_completed="no"),
        dict(capacity_sram=1.5),
    ],
)
def test_a_bad_configuration_is_refused_by_name_and_value(options):
    ((name, value),) = options.items()
    for configure in (lambda config: Engine(P, config), Engine(P).configure):
        with pytest.raises(ValueError, match=f"{name} .*{re.escape(repr(value))}"):
            configure(Config(**options))


def test_bad_hazards_are_refused():
    with pytest.raises(ValueError, match="51 rows, not 50"):
        Engine(P, hazards=[0] * 50)
    with pytest.raises(ValueError, match="4096"):
        Engine(P, hazards=[4096] * 51)
    with pytest.raises(ValueError, match="51"):
        Engine(P).write_hazard(51, 0)
    with pytest.raises(ValueError, match="-1"):
        Engine(P).write_hazard(-1, 0)
    with pytest.raises(ValueError, match="4096"):
        Engine(P).write_hazard(1, 4096)


def test_the_same_rules_run_on_the_float_policy():
    engine = Engine(P, Config(**TIDE), hazards=[0.5] * P.turns, arithmetic=FloatingPoint(P))
    send(engine, "ARRIVE 0 l60; GAP_START 0 l60 o1; GAP_END 0 o11; ARRIVE 1 l90; GAP_START 1 l90 o1; GAP_END 1 o10")
    assert [e.score for e in engine.entries[:2]] == [250_000_022.0, 250_000_020.0]
    assert send(engine, "ARRIVE 2 l5; GAP_START 2 l5 o150")[0] == "MIGRATE 1:90 0:60; GAP_START 2 SRAM SRAM"
    send(engine, "COMPLETE 0")
    assert send(engine, "ARRIVE 3 l190")[0] == "EVICT 0; ARRIVE 3 NONE HBM"


def used_of(engine, only_busy):
    return {
        tier: sum(e.tokens for e in engine.entries if e.residency == tier.value and (e.busy or not only_busy))
        for tier in (Residency.SRAM, Residency.HBM)
    }


@pytest.mark.parametrize("seed", range(6))
def test_invariants_of_random_events(seed):
    rng = random.Random(seed)
    p = Params(sessions=rng.choice([4, 7, 16]), score_bits=rng.choice([32, 64]))
    engine = Engine(p, Config(gap_prior=1000))
    for number in range(4000):
        if number % 500 == 0:
            engine.configure(
                Config(
                    capacity_sram=rng.randrange(1200),
                    capacity_hbm=rng.randrange(2500),
                    numerator=rng.randrange(4),
                    denominator=rng.randrange(4),
                    moves=rng.randint(1, 8),
                    ignore_dma=rng.random() < 0.3,
                    swap_completed=rng.random() < 0.3,
                )
            )
            for turn in range(p.turns):
                engine.write_hazard(turn, rng.randrange(p.hazard_max + 1))
            engine.commit()
        opcode = rng.choice([0, 1, 1, 1, 2, 2, 3, 3, 3, 3, 4, 5, 6, 7, 8])
        slot = rng.randrange(p.sessions + rng.randrange(2))
        word0 = pack(EVENT, opcode=opcode, slot=slot, tokens=rng.choice([0, *range(1, 300, 20)]))
        before, busy = dict(engine.used), {s for s, e in enumerate(engine.entries) if e.busy}
        step = engine.step(word0, rng.choice([0, rng.randrange(500), rng.getrandbits(32)]))
        kinds = [answer.kind for answer in step.answers]
        assert sum(kind in (AnswerKind.OUTCOME, AnswerKind.ERROR) for kind in kinds) == 1
        assert kinds[-1] in (AnswerKind.OUTCOME, AnswerKind.ERROR)
        assert engine.used == used_of(engine, only_busy=False)
        assert engine.busy_used == used_of(engine, only_busy=True)
        for tier, capacity in (
            (Residency.SRAM, engine.config.capacity_sram),
            (Residency.HBM, engine.config.capacity_hbm),
        ):
            assert engine.used[tier] <= max(capacity, before[tier])
        for answer in step.answers:
            assert unpack(ANSWER_LAYOUTS[answer.kind], answer.word).items() >= answer.fields.items()
            if answer.kind in (AnswerKind.FORGET, AnswerKind.EVICT):
                assert answer.fields["slot"] not in busy
        for index, entry in enumerate(engine.entries):
            paused = entry.residency != Residency.FREE.value and not entry.busy
            assert not (entry.busy and entry.completed)
            if paused:
                assert (entry.score == p.score_completed) == bool(entry.completed)
                assert 1 <= entry.turn <= p.turn_limit
            if index in engine.last_moves:
                assert paused
                assert entry.residency & 2
    assert engine.counters["SWAPS"] + engine.counters["PROMOTIONS"] > 10
    assert all(engine.counters[name] for name in COUNTERS if name.startswith("ERRORS"))


def test_the_named_instance_is_the_default_size():
    assert len(Engine(N64).entries) == 64
