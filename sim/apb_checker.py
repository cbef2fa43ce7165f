"""A passive APB4 protocol checker (AMBA APB Protocol Specification, issue C)."""

from cocotb.triggers import FallingEdge, RisingEdge, ValueChange

__all__ = ["ProtocolError", "ApbChecker"]

#: What the requester drives and must hold through a transfer.
_HELD = ("paddr", "pwrite", "pwdata", "pstrb", "pprot")
_KNOWN = frozenset("01")


class ProtocolError(AssertionError):
    """A rule of APB4 was broken; the text names the rule and the time."""


class ApbChecker:
    """Watches the APB signals of ``dut`` and raises ``ProtocolError`` at the first rule that is broken.

    Samples in the middle of a cycle, when all signals have settled, and only in cycles with PSEL or PENABLE high or
    unknown, so an idle bus costs nothing. ``start`` begins watching; ``transfers`` counts those that completed.

    Rules
    -----
    * PSEL and PENABLE are never X; PADDR, PWRITE, PSTRB, PPROT are not while PSEL is high, nor PWDATA in the lanes
      of a write that PSTRB selects, nor PREADY in an access phase.
    * PENABLE is high only in an access phase: not without PSEL, and not in the first cycle of a transfer.
    * The setup phase takes one cycle: PENABLE rises in the second one and stays until PREADY.
    * PSEL, PADDR, PWRITE, PWDATA, PSTRB, PPROT are stable from setup to the last access cycle.
    * PSTRB is 0 in a read.
    * PSLVERR is known when the transfer completes, and high at no other time; PRDATA is known when a read completes
      without error.
    * No transfer is left unfinished, also not by a reset: a requester that is not reset itself is still owed PREADY.

    That PSLVERR is low but at completion is a recommendation of the specification; this IP keeps it.
    """

    def __init__(self, dut, clock=None):
        self._clock = dut.clk if clock is None else clock
        names = (*_HELD, "psel", "penable", "prdata", "pready", "pslverr")
        self._signals = {name: getattr(dut, name) for name in names}
        self._setup = None
        self.transfers = 0

    async def watch(self):
        """Runs until a rule is broken; start it with ``cocotb.start_soon``."""
        select = self._signals["psel"]
        changes, middle = ValueChange(select), FallingEdge(self._clock)
        while True:
            if self._setup is None and str(select.value) == "0":
                await changes
            await middle
            self.cycle()

    async def watch_enable(self):
        """Catches PENABLE without PSEL on an idle bus; runs like ``watch``."""
        enable = self._signals["penable"]
        rises, middle = RisingEdge(enable), FallingEdge(self._clock)
        while True:
            await rises
            await middle
            self._require(self._read("psel") != "0" or self._read("penable") == "0", "PENABLE is high without PSEL")

    def _read(self, name):
        return str(self._signals[name].value)

    def cycle(self):
        """Checks the current cycle."""
        selected, enabled = self._read("psel"), self._read("penable")
        self._require(selected in _KNOWN, "PSEL is X")
        self._require(enabled in _KNOWN, "PENABLE is X")
        if selected == "0":
            self._require(self._setup is None, "PSEL fell before the transfer completed")
            self._require(enabled == "0", "PENABLE is high without PSEL")
            return
        held = {name: self._read(name) for name in _HELD}
        if self._setup is None:
            self._check_setup(held, enabled)
            self._setup = held
            return
        self._require(enabled == "1", "PENABLE is low in an access phase")
        if held != self._setup:
            changed = next(name for name in _HELD if held[name] != self._setup[name])
            self._require(False, f"{changed.upper()} changed within a transfer")
        ready, error = self._read("pready"), self._read("pslverr")
        self._require(ready in _KNOWN, "PREADY is X in an access phase")
        if ready == "0":
            self._require(error == "0", "PSLVERR is high without PREADY")
            return
        self._require(error in _KNOWN, "PSLVERR is X when the transfer completes")
        if held["pwrite"] == "0" and error == "0":
            self._require(_KNOWN.issuperset(self._read("prdata")), "PRDATA is X when a read completes")
        self._setup = None
        self.transfers += 1

    def _check_setup(self, held, enabled):
        self._require(enabled == "0", "PENABLE is high in a setup phase")
        for name in ("paddr", "pwrite", "pstrb", "pprot"):
            self._require(_KNOWN.issuperset(held[name]), f"{name.upper()} is X while PSEL is high")
        if held["pwrite"] == "0":
            self._require("1" not in held["pstrb"], "PSTRB is not 0 in a read")
        elif not _KNOWN.issuperset(held["pwdata"]):
            # Bit strings begin with the highest bit.
            for lane, strobe in enumerate(reversed(held["pstrb"])):
                end = len(held["pwdata"]) - 8 * lane
                known = _KNOWN.issuperset(held["pwdata"][end - 8 : end])
                self._require(known or strobe == "0", f"PWDATA is X in the selected lane {lane}")
        self._require(self._read("pslverr") == "0", "PSLVERR is high in a setup phase")

    def _require(self, holds, rule):
        if not holds:
            raise ProtocolError(rule)

    @property
    def in_transfer(self):
        """A transfer was begun and has not completed."""
        return self._setup is not None
