"""Compares the RTL with the golden model: every answer, every counter, every defined bit of the session table."""

from collections import Counter, deque
from dataclasses import dataclass

from unison.formats import (
    ANSWER_LAYOUTS,
    TWO_WORD_ANSWERS,
    AnswerKind,
    Opcode,
    Residency,
    entry_layout,
    unpack,
)
from unison.model.stream import Event

__all__ = ["Mismatch", "Scoreboard", "Tally", "describe_answer", "describe_entry"]

_COUNTER_MASK = (1 << 32) - 1
_OPCODE = 28
_DMA_DONE = Opcode.DMA_DONE.value
_KINDS = {kind.value: kind for kind in AnswerKind}
_TIERS = {"SRAM": Residency.SRAM, "HBM": Residency.HBM}


class Mismatch(AssertionError):
    """RTL and golden model differ. ``event`` is the number of the event since reset, from 0; the text tells all."""

    def __init__(self, event, text):
        super().__init__(text)
        self.event = event


def describe_answer(word):
    """An answer word in words."""
    if word is None:
        return "no answer"
    kind = _KINDS.get(word >> 28 & 15)
    if kind not in ANSWER_LAYOUTS:
        return f"{word:#018x} of no known kind"
    fields = unpack(ANSWER_LAYOUTS[kind], word)
    shown = " ".join(f"{name}={value}" for name, value in fields.items() if name != "kind")
    return f"{kind.name} {shown}"


def describe_entry(word, p):
    """An entry word in words."""
    fields = unpack(entry_layout(p), word)
    fields["residency"] = Residency(fields["residency"]).name
    return " ".join(f"{name}={value}" for name, value in fields.items())


@dataclass
class Tally:
    """What a run has seen; ``decision_cycles`` and ``scan_cycles`` count occurrences by number of cycles."""

    events: int = 0
    decisions: int = 0
    answers: int = 0
    evict_events: int = 0
    migrate_events: int = 0
    error_events: int = 0
    refused: int = 0
    checks: int = 0

    def __post_init__(self):
        self.decision_cycles = Counter()

    def add(self, step):
        """Counts one ``Step`` of the golden model."""
        kinds = [answer.kind for answer in step.answers]
        self.events += 1
        self.decisions += step.searched
        self.answers += len(kinds)
        self.evict_events += AnswerKind.EVICT in kinds
        self.migrate_events += AnswerKind.MIGRATE in kinds
        self.error_events += kinds[-1] is AnswerKind.ERROR


class _Level:
    """The bench's own count of what a FIFO holds, from the cycles of writes and reads."""

    def __init__(self):
        self.level = 0
        self.high = 0

    def replay(self, puts, gets):
        """Adds a time with as many puts as gets, and follows the level through it."""
        changes = Counter(puts)
        changes.subtract(gets)
        for cycle in sorted(changes):
            self.level += changes[cycle]
            self.high = max(self.high, self.level)


class Scoreboard:
    """Steps the golden ``engine`` with every event that the RTL accepts and compares what comes back.

    A ``Driver`` reports to it. ``check``, called while nothing is outstanding, compares counters and tables; it must be
    called between two calls of ``restart``, or cycles are not compared.

    Raises ``Mismatch`` at the first difference.
    """

    def __init__(self, bench, engine, tally=None):
        self.bench = bench
        self.p = bench.p
        self.tally = Tally() if tally is None else tally
        self.restart(engine)

    def restart(self, engine):
        """Begins anew with a fresh ``engine``, after a reset of the RTL."""
        self.engine = engine
        self.events = []
        self.outstanding = 0
        self._expected = deque()
        self._retired = 0
        self._refused = 0
        self._event_puts, self._answer_gets = [], []
        self._searched = []
        self._decisions = {"sum": 0, "last": 0, "worst": 0}
        self._event_level, self._answer_level = _Level(), _Level()
        self._event_gets_before = 0
        probe = self.bench.probe
        for strobe in (probe.event_taken, probe.retired, probe.answer_pushed, probe.committed):
            strobe.take()

    def clear_counters(self):
        """Counts from 0 again, after CONTROL.clear_counters while nothing was outstanding."""
        self.engine.counters = dict.fromkeys(self.engine.counters, 0)
        self._refused = 0
        self._decisions = {"sum": 0, "last": 0, "worst": 0}
        self._event_level, self._answer_level = _Level(), _Level()

    def pushed(self, word0, operand, cycle, *, check_level=True):
        """The RTL accepted an event in ``cycle``; ``check_level`` False if that is long past."""
        engine = self.engine
        before = dict(engine.used)
        step = engine.step(word0, operand)
        number = len(self.events)
        if check_level:
            self._check_level(word0, cycle, refused=False)
        for tier, used in engine.used.items():
            capacity = engine.config.capacity_sram if tier is Residency.SRAM else engine.config.capacity_hbm
            if used > max(capacity, before[tier]):
                raise Mismatch(number, f"golden model: {tier.name} holds {used} of {capacity} tokens")
        self.events.append(Event(word0, operand))
        self.outstanding += 1
        self._event_puts.append(cycle)
        self._searched.append(step.searched)
        self.tally.add(step)
        for answer in step.answers:
            self._expected.append((number, answer))

    def refused(self, word0, cycle):
        """The RTL refused an event in ``cycle``."""
        self._check_level(word0, cycle, refused=True)
        self._refused += 1
        self.tally.refused += 1

    def _check_level(self, word0, cycle, *, refused):
        """An event is refused when, and only when, the FIFO had too few places in the cycle before."""
        taken = self.bench.probe.event_taken.cycles
        late = sum(1 for when in taken[-2:] if when >= cycle - 1)
        level = len(self._event_puts) - (len(taken) - late)
        places = self.p.event_depth - (word0 >> _OPCODE != _DMA_DONE)
        if (level >= places) != refused:
            verb = "refused" if refused else "accepted"
            number = len(self.events)
            raise Mismatch(number, f"event {number} was {verb} with {level} of {self.p.event_depth} places taken")

    @staticmethod
    def wants_second_word(low):
        """Whether an answer with this word 0 has a word 1."""
        return _KINDS.get(low >> 28) in TWO_WORD_ANSWERS

    def answered(self, low, high, cycle):
        """An answer was read, in ``cycle``; ``high`` is None where its second word was not read."""
        if not self._expected:
            raise Mismatch(len(self.events) - 1, f"an answer too many: {describe_answer(low | (high or 0) << 32)}")
        number, answer = self._expected.popleft()
        self._answer_gets.append(cycle)
        expected = answer.word
        got = low | (expected >> 32 if high is None else high) << 32
        if got != expected:
            self._fail_answer(number, expected, got)
        if answer.kind is AnswerKind.OUTCOME or answer.kind is AnswerKind.ERROR:
            self.outstanding -= 1
            self._retired += 1

    def describe_next(self):
        """The answer that is expected next, in words."""
        if not self._expected:
            return "nothing is expected"
        number, answer = self._expected[0]
        return f"event {number} ({self.events[number]}) should answer {describe_answer(answer.word)}"

    def _fail_answer(self, number, expected, got):
        layouts = [unpack(ANSWER_LAYOUTS.get(_KINDS.get(word >> 28 & 15), {}) or {}, word) for word in (expected, got)]
        slots = {self.events[number].slot} | {
            fields[name] for fields in layouts for name in ("slot", "demoted_slot") if name in fields
        }
        lines = [
            f"event {number}: {self.events[number]}",
            f"  golden model: {describe_answer(expected)}",
            f"  RTL:          {describe_answer(got)}",
            "  entries after the last event that was sent (RTL: as far as it got):",
        ]
        table = self.bench.probe.table()
        for slot in sorted(slot for slot in slots if slot < self.p.sessions):
            lines.append(f"  slot {slot}, golden model: {describe_entry(self.engine.entry_word(slot), self.p)}")
            lines.append(f"  slot {slot}, RTL:          {describe_entry(table[slot], self.p)}")
        raise Mismatch(number, "\n".join(lines))

    async def check(self, readback=()):
        """Compares all registers and the session table; ``readback`` lists slots to read over APB as well.

        Call it while nothing is outstanding.
        """
        await self.bench.until_idle()
        if self._expected:
            raise Mismatch(self._expected[0][0], f"an answer is missing: {self.describe_next()}")
        self._check_cycles()
        for name, value in self._expected_registers().items():
            await self._check_register(name, value)
        self._check_table(self.bench.probe.table())
        for slot in readback:
            await self._check_readback(slot)
        self._check_scans()
        self.tally.checks += 1

    def _expected_registers(self):
        engine = self.engine
        usage = {f"USED_{name}": engine.used[tier] for name, tier in _TIERS.items()}
        usage |= {f"BUSY_{name}": engine.busy_used[tier] for name, tier in _TIERS.items()}
        return {
            **engine.counters,
            **usage,
            "REFUSED": self._refused & _COUNTER_MASK,
            "DECISION_CYCLES": self._decisions["sum"] & _COUNTER_MASK,
            "DECISION_LAST": self._decisions["last"],
            "DECISION_WORST": self._decisions["worst"],
            "EVENT_HIGH": self._event_level.high,
            "ANSWER_HIGH": self._answer_level.high,
        }

    async def _check_register(self, name, expected):
        value = await self.bench.read(name)
        if value != expected:
            raise Mismatch(len(self.events) - 1, f"{name}: golden model or bench counts {expected}, RTL {value}")

    def _check_cycles(self):
        """Takes in what the strobes saw since the last check."""
        probe = self.bench.probe
        taken, retired, pushed = probe.event_taken.take(), probe.retired.take(), probe.answer_pushed.take()
        last = len(self.events) - 1
        if not len(taken) == len(retired) == len(self._searched):
            raise Mismatch(
                last, f"{len(self._searched)} events were sent, {len(taken)} left the FIFO, {len(retired)} retired"
            )
        if len(pushed) != len(self._answer_gets):
            raise Mismatch(last, f"{len(pushed)} answers entered the FIFO, {len(self._answer_gets)} were read")
        for searched, begin, end in zip(self._searched, taken, retired, strict=True):
            if searched:
                cycles = end - begin
                self.tally.decision_cycles[cycles] += 1
                decisions = self._decisions
                decisions["sum"] += cycles
                decisions["last"] = cycles
                decisions["worst"] = max(cycles, decisions["worst"])
        self._event_level.replay(self._event_puts, taken)
        self._answer_level.replay(pushed, self._answer_gets)
        self._searched.clear()
        self._event_puts.clear()
        self._answer_gets.clear()

    def _check_scans(self):
        """A pass over one slot takes 6 cycles, over all of them N + 5."""
        wrong = set(self.bench.probe.scan_lengths) - {6, self.p.sessions + 5}
        if wrong:
            raise Mismatch(len(self.events) - 1, f"scans took {sorted(wrong)} cycles, not {self.p.sessions + 5}")

    def _check_table(self, table):
        engine = self.engine
        for slot, word in enumerate(table):
            mask = engine.entry_mask(slot)
            if (word ^ engine.entry_word(slot)) & mask:
                self._fail_entry(slot, word, "table")

    async def _check_readback(self, slot):
        read = await self.bench.entry(slot)
        word, mask = self.engine.entry_word(slot), self.engine.entry_mask(slot)
        layout = entry_layout(self.p)
        for name, field in layout:
            bits = (mask >> field.offset) & ((1 << field.width) - 1)
            if (read[name] ^ (word >> field.offset)) & bits:
                text = f"slot {slot} over APB: {name} = {read[name]}, golden model: {describe_entry(word, self.p)}"
                raise Mismatch(len(self.events) - 1, text)

    def _fail_entry(self, slot, word, where):
        raise Mismatch(
            len(self.events) - 1,
            f"slot {slot} after event {len(self.events) - 1}, in the {where}:\n"
            f"  golden model: {describe_entry(self.engine.entry_word(slot), self.p)}\n"
            f"  RTL:          {describe_entry(word, self.p)}",
        )
