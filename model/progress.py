"""Progress of long work on a terminal or in a log."""

import sys
import time

__all__ = ["Progress"]


class Progress:
    """Shows how many of ``total`` steps are done, with rate and time left: a bar on a terminal, lines elsewhere.

    A context manager; call ``advance`` with the steps done since the last call. ``total`` None: the end is unknown.
    """

    def __init__(self, label, total=None, *, unit="events", file=None, clock=time.monotonic):
        self.label = label
        self.total = total
        self.unit = unit
        self.file = sys.stderr if file is None else file
        self.clock = clock
        self.interactive = self.file.isatty()
        self.interval = 0.1 if self.interactive else 10.0
        self.done = 0

    def __enter__(self):
        self.begin = self.shown = self.clock()
        return self

    def advance(self, steps=1):
        """Counts ``steps`` more."""
        self.done += steps
        # The clock is dearer than the work of one step.
        if self.done & 0x3F == 0 or steps > 1:
            now = self.clock()
            if now - self.shown >= self.interval:
                self.shown = now
                self._show(now, end="\r" if self.interactive else "\n")

    def _show(self, now, end):
        rate = self.done / max(now - self.begin, 1e-9)
        text = f"{self.label}: {self.done:,} {self.unit}, {rate:,.0f}/s"
        if self.total and 0 < self.done < self.total:
            share = self.done / self.total
            bar = f"[{'#' * int(20 * share):20}] " if self.interactive else ""
            text = f"{bar}{text}, {share:.0%}, {(self.total - self.done) / max(rate, 1e-9):,.0f} s left"
        print(f"{text:<78}" if self.interactive else text, end=end, file=self.file, flush=True)

    def __exit__(self, kind, error, traceback):
        if kind is None or self.interactive:
            self._show(self.clock(), end="\n")
