"""The names inside the RTL that the bench looks at; no other module of the bench knows any."""

from amaranth.hdl import Fragment
from cocotb.handle import ArrayObject, HierarchyArrayObject, HierarchyObject
from cocotb.triggers import FallingEdge, RisingEdge
from cocotb.utils import get_sim_time

from unison.formats import entry_layout, pack, unpack
from unison.hdl.engine import Engine
from unison.hdl.table import facts_layout

__all__ = ["PERIOD", "PUBLIC", "now", "Strobe", "Probe", "engine_states", "unknown_signals"]

#: What Verilator must keep readable, by patterns of module and signal; every other signal costs time.
PUBLIC = (
    ("unison.core", "reset_request"),
    ("unison.core.engine", "event_taken"),
    ("unison.core.engine", "retired"),
    ("unison.core.engine", "committed"),
    ("unison.core.engine", "engine_state"),
    ("unison.core.answer_fifo.storage", "w_port__en"),
    ("unison.core.scan", "request__start"),
    ("unison.core.scan", "request__done"),
    ("unison.core.table", "residency_low"),
    ("unison.core.table", "residency_high"),
    ("unison.core.table", "busy"),
    ("unison.core.table", "completed"),
    ("unison.core.table", "facts_column"),
    ("unison.core.table", "score_column"),
)
#: Clock period in steps of the simulator: 10 ns in ps.
PERIOD = 10_000


def now():
    """The number of the current clock cycle; one begins at each rising edge."""
    return get_sim_time("step") // PERIOD


class Strobe:
    """The cycles in which a signal is high, found from its edges: nothing runs while it does not change.

    Members
    -------
    cycles : list of int
        Ascending. A cycle is listed once it is over.
    """

    def __init__(self, signal):
        self._signal = signal
        self.cycles = []

    async def watch(self):
        """Runs for ever; start it with ``cocotb.start_soon``."""
        rising, falling = RisingEdge(self._signal), FallingEdge(self._signal)
        cycles = self.cycles
        while True:
            await rising
            first = get_sim_time("step") // PERIOD
            await falling
            # A glitch within one instant has no cycle.
            cycles.extend(range(first, get_sim_time("step") // PERIOD))

    def take(self):
        """The cycles since the last call."""
        taken = self.cycles[:]
        self.cycles.clear()
        return taken


class Probe:
    """Strobes and state inside the RTL of an instance ``p``.

    Members
    -------
    event_taken, retired : Strobe
        An event leaves its FIFO; its last answer enters the answer FIFO.
    answer_pushed : Strobe
        An answer enters the answer FIFO.
    committed : Strobe
        A COMMIT was executed.
    scan_lengths : dict
        How many passes of the scan took how many cycles from start to result.
    engine_state : handle
        Code of the engine's state, as ``engine_states`` names it.
    """

    def __init__(self, dut, p):
        self.p = p
        core = dut.core
        engine, scan = core.engine, core.scan
        self.event_taken = Strobe(engine.event_taken)
        self.retired = Strobe(engine.retired)
        self.answer_pushed = Strobe(core.answer_fifo.storage.w_port__en)
        self._scan_start, self._scan_done = scan.request__start, scan.request__done
        self.scan_lengths = {}
        self.retired_signal, self.committed_signal = engine.retired, engine.committed
        self.engine_state = engine.engine_state
        self.reset_request = core.reset_request
        self.committed = Strobe(engine.committed)
        table = core.table
        self._columns = [getattr(table, name) for name in ("residency_low", "residency_high", "busy", "completed")]
        self._facts, self._scores = table.facts_column, table.score_column
        self._facts_layout = facts_layout(p)
        self._entry_layout = entry_layout(p)

    def watchers(self):
        """Coroutines that the bench starts."""
        strobes = (self.event_taken, self.retired, self.answer_pushed, self.committed)
        return [*(strobe.watch() for strobe in strobes), self._watch_scan_start(), self._watch_scan_done()]

    async def _watch_scan_start(self):
        rising = RisingEdge(self._scan_start)
        while True:
            await rising
            self._scan_began = now()

    async def _watch_scan_done(self):
        rising = RisingEdge(self._scan_done)
        while True:
            await rising
            length = now() - self._scan_began
            self.scan_lengths[length] = self.scan_lengths.get(length, 0) + 1

    def table(self):
        """Every entry, packed by ``entry_layout(p)`` as software would read it."""
        p = self.p
        low, high, busy, completed = (int(column.value) for column in self._columns)
        words = []
        for slot in range(p.sessions):
            done = completed >> slot & 1
            facts = unpack(self._facts_layout, int(self._facts[slot].value))
            words.append(
                pack(
                    self._entry_layout,
                    residency=(low >> slot & 1) | (high >> slot & 1) << 1,
                    busy=busy >> slot & 1,
                    completed=done,
                    score=p.score_completed if done else int(self._scores[slot].value),
                    **facts,
                )
            )
        return words


def unknown_signals(scope):
    """Paths of the signals and memory words at and below ``scope`` that are X or Z."""
    unknown = []
    for child in scope:
        if isinstance(child, HierarchyObject | HierarchyArrayObject | ArrayObject):
            unknown += unknown_signals(child)
        elif not child.value.is_resolvable:
            unknown.append(child._path)
    return unknown


class _RecordedEngine(Engine):
    def elaborate(self, platform):
        self.module = super().elaborate(platform)
        return self.module


def engine_states(p):
    """Names of the engine's states by their codes."""
    engine = _RecordedEngine(p)
    Fragment.get(engine, None)
    # Amaranth has no public way to the encoding of an FSM.
    return dict(engine.module._generated["engine"].decoding)
