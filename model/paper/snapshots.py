"""Situations in which the golden model had to rank: what each way of storing gaps knew then, and how it would rank.

As ``unison.model.fidelity``, for many formats at once: one engine of the locked format decides, and every *channel*
keeps gap averages of its own of the same gaps.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np

from unison.formats import Opcode, Residency
from unison.model.engine import Engine
from unison.model.hazard import hazard_table
from unison.model.load import default_config, play

__all__ = ["Channel", "Snapshots", "agreement", "polled_us", "take"]

FREE = Residency.FREE.value


class Channel(NamedTuple):
    """How gaps are seen and stored: unit and width of equation (16), and the period of polling (0: exact events)."""

    unit_ns: int = 1000
    bits: int = 32
    poll_us: int = 0

    def gap(self, gap_us, end_us):
        """The stored gap of one that ended at ``end_us``."""
        if self.poll_us:
            gap_us = polled_us(gap_us, end_us, self.poll_us)
        return min(gap_us * 1000 // self.unit_ns, (1 << self.bits) - 1)


def polled_us(gap_us, end_us, period_us):
    """A gap by its two ends as polling sees them, each at the first poll that is not before it; ints or arrays."""
    return period_us * (-(-end_us // period_us) + (gap_us - end_us) // period_us)


@dataclass(frozen=True)
class Snapshots:
    """S situations with N slots.

    Attributes
    ----------
    ranked : numpy.ndarray of bool[S, N]
        The live paused sessions.
    turn : numpy.ndarray of int64[S, N]
    exact : numpy.ndarray of float64[S, N]
        Gap averages in floating point, microseconds.
    gaps : numpy.ndarray of int64[S, channels, N]
        Gap averages of the channels in their units.
    """

    ranked: np.ndarray
    turn: np.ndarray
    exact: np.ndarray
    gaps: np.ndarray

    def reference(self, law, p):
        """Scores of equation (7) in floating point; ``law`` are h(t), ``p`` gives penalty (in us) and epsilon."""
        sigma = np.maximum(float(p.epsilon), 1.0 - np.array(law, dtype=np.float64))[self.turn]
        return self.exact / sigma + (1.0 - sigma) * p.penalty


def take(trace, load, p, capacity, channels, stride=1):
    """Snapshots at every ``stride``-th decision of a load that had at least two live paused sessions to rank."""
    config = default_config(trace, p, load, capacity=capacity)
    engine = Engine(p, config=config, hazards=hazard_table(trace, p))
    prior_us = config.gap_prior * p.gap_unit_ns // 1000
    exact = np.full(p.sessions, float(prior_us))
    gaps = np.repeat([[channel.gap(prior_us, 0)] for channel in channels], p.sessions, axis=1).astype(np.int64)
    rows = []
    before = {}
    decisions = 0
    for time_us, event, step in play(trace, engine, p, config, load):
        last = step.answers[-1].fields
        slot, opcode = last["slot"], Opcode(last["opcode"])
        if step.searched:
            # The event ranked whom it found paused, without the session that arrives, with the one that pauses.
            ranked = _ranked(engine) if opcode is Opcode.GAP_START else before
            if opcode is Opcode.ARRIVE:
                ranked = {other: turn for other, turn in before.items() if other != slot}
            if len(ranked) > 1:
                decisions += 1
                if decisions % stride == 0:
                    rows.append((ranked, exact.copy(), gaps.copy()))
        if opcode is Opcode.GAP_END:
            first = engine.entries[slot].turn == 1
            gap_us = event.operand * p.gap_unit_ns // 1000
            exact[slot] = gap_us if first else (3 * gap_us + 7 * exact[slot]) / 10
            for channel, kept in zip(channels, gaps, strict=True):
                gap = channel.gap(gap_us, time_us)
                kept[slot] = gap if first else (3 * gap + 7 * int(kept[slot])) // 10
        elif opcode is Opcode.ARRIVE_ANY and last["slot_valid"]:
            exact[slot] = prior_us
            gaps[:, slot] = [channel.gap(prior_us, 0) for channel in channels]
        before = _ranked(engine)
    return _stack(rows, p.sessions, len(channels))


def _ranked(engine):
    """Turn of every live paused slot."""
    return {
        slot: entry.turn
        for slot, entry in enumerate(engine.entries)
        if entry.residency != FREE and not entry.busy and not entry.completed
    }


def _stack(rows, slots, channels):
    ranked = np.zeros((len(rows), slots), dtype=bool)
    turn = np.zeros((len(rows), slots), dtype=np.int64)
    for row, (turns, _, _) in enumerate(rows):
        where = list(turns)
        ranked[row, where] = True
        turn[row, where] = list(turns.values())
    exact = np.array([row[1] for row in rows]).reshape(len(rows), slots)
    gaps = np.array([row[2] for row in rows], dtype=np.int64).reshape(len(rows), channels, slots)
    return Snapshots(ranked, turn, exact, gaps)


@numba.njit(cache=True)
def agreement(reference, scores, ranked):
    """Whether two rankings agree in who leaves first, and Kendall's tau of their orders, of each snapshot.

    Parameters
    ----------
    reference : numpy.ndarray of float64[S, N]
    scores : numpy.ndarray of int64[S, N]
    ranked : numpy.ndarray of bool[S, N]
        Who is in the ranking, at least two a snapshot; the highest score leaves first, ties go to the lowest slot.

    Returns
    -------
    top1 : numpy.ndarray of bool[S]
    tau : numpy.ndarray of float64[S]
    """
    top1 = np.zeros(len(ranked), dtype=np.bool_)
    tau = np.zeros(len(ranked))
    for s in range(len(ranked)):
        slots = np.flatnonzero(ranked[s])
        first = second = slots[0]
        discordant = 0
        for at in range(len(slots)):
            low = slots[at]
            if reference[s, low] > reference[s, first]:
                first = low
            if scores[s, low] > scores[s, second]:
                second = low
            for high in slots[at + 1 :]:
                # The lower slot leaves first unless the higher one has the higher score.
                discordant += (reference[s, high] > reference[s, low]) != (scores[s, high] > scores[s, low])
        top1[s] = first == second
        tau[s] = 1 - 2 * discordant / (len(slots) * (len(slots) - 1) // 2)
    return top1, tau
