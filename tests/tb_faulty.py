"""Cocotb module: the scoreboard meets a golden model, or a bench, that is wrong on purpose."""

import re
from dataclasses import replace

import cocotb

from unison.formats import AnswerKind, Residency
from unison.model.engine import Answer, Engine
from unison.model.stream import read_stream
from unison.sim.replay import replay
from unison.sim.runner import load_job
from unison.sim.scoreboard import Scoreboard

#: The event that goes wrong, where one does.
EVENT = 37


class Faulty(Engine):
    """A golden model that is right until event ``EVENT``, which ``fault`` then spoils."""

    def __init__(self, fault, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.fault = fault
        self.number = -1

    def step(self, word0, operand):
        self.number += 1
        step = super().step(word0, operand)
        return getattr(self, self.fault)(step) if self.number == EVENT else step

    def right(self, step):
        return step

    def wrong_answer(self, step):
        *others, last = step.answers
        return replace(step, answers=(*others, Answer(last.kind, last.fields | {"placed": last.fields["placed"] ^ 1})))

    def extra_answer(self, step):
        return replace(step, answers=(Answer(AnswerKind.FORGET, {"slot": 1}), *step.answers))

    def wrong_counter(self, step):
        self.counters["MISSES"] += 1
        return step

    def wrong_usage(self, step):
        self.used[Residency.HBM] ^= 1
        return step

    def wrong_search(self, step):
        return replace(step, searched=not step.searched)

    def _spoil(self, field):
        # Of an entry whose every field is defined.
        entry = next(entry for entry in self.entries if entry.residency > 1 and not entry.busy and not entry.completed)
        setattr(entry, field, getattr(entry, field) ^ 1)

    def wrong_gap(self, step):
        self._spoil("gap")
        return step

    def wrong_score(self, step):
        self._spoil("score")
        return step

    def wrong_turn(self, step):
        self._spoil("turn")
        return step


class Miscounting(Scoreboard):
    """A scoreboard whose own counts are off by one."""

    field = None

    def _expected_registers(self):
        expected = super()._expected_registers()
        return expected | {self.field: expected[self.field] + 1}


ENGINE_FAULTS = {
    "right": None,
    "wrong_answer": rf"event {EVENT}: (?s:.*)golden model: OUTCOME .*\n *RTL: +OUTCOME .*(?s:.*)slot \d+, RTL: ",
    "extra_answer": rf"event {EVENT}: (?s:.*)golden model: FORGET",
    "wrong_counter": r"MISSES: golden model or bench counts \d+, RTL \d+",
    "wrong_usage": r"USED_HBM: golden model or bench counts \d+, RTL \d+",
    "wrong_search": r"DECISION_CYCLES: ",
    "wrong_gap": r"slot \d+ after event \d+, in the table",
    "wrong_score": r"slot \d+ after event \d+, in the table",
    "wrong_turn": r"slot \d+ after event \d+, in the table",
}
COUNTS = ("REFUSED", "DECISION_CYCLES", "DECISION_LAST", "DECISION_WORST", "EVENT_HIGH", "ANSWER_HIGH")


@cocotb.test()
@cocotb.parametrize(fault=list(ENGINE_FAULTS))
async def engine_fault(dut, fault):
    """What is wrong is named; nothing is where nothing is wrong."""
    job = load_job()
    stream = read_stream(job["stream"])
    engine = Faulty(fault, stream.params, config=stream.config, hazards=stream.hazards)
    # A short way between checks, and one that ends right after the spoiled event, before another could cover it up.
    result = await replay(dut, stream, job | {"check_every": EVENT + 1, "stop_after": EVENT + 1}, engine=engine)
    expected = ENGINE_FAULTS[fault]
    if expected is None:
        assert result["mismatch"] is None
    else:
        assert result["mismatches"] == 1
        assert re.search(expected, result["mismatch"]["text"]), result["mismatch"]["text"]


@cocotb.test()
@cocotb.parametrize(field=COUNTS)
async def bench_fault(dut, field):
    """The registers that only the bench can count are compared."""
    job = load_job()
    board = type("Board", (Miscounting,), {"field": field})
    job |= {"check_every": 40, "stop_after": 40}
    result = await replay(dut, read_stream(job["stream"]), job, board_class=board)
    assert result["mismatch"]["text"].startswith(f"{field}: ")
