"""Hazard tables: measured on a trace, kept in a file, loaded into an instance."""

import math
from fractions import Fraction

from unison.model.files import FileError, check_format, check_int, check_keys, json_object, write_json
from unison.registers import register_map

__all__ = [
    "HazardError",
    "check_hazards",
    "hazard_law",
    "hazard_table",
    "write_hazard_file",
    "read_hazard_file",
    "hazard_writes",
    "load_hazards",
    "engine_writer",
]

_FORMAT = "unison-hazards"
_VERSION = 1


class HazardError(FileError):
    """A hazard file that is malformed; the text begins with ``file:line``."""


def check_hazards(hazards, p):
    """Raises ValueError unless ``hazards`` is a list or tuple of ``p.turns`` integers of ``p.hazard_bits``."""
    if not isinstance(hazards, list | tuple) or len(hazards) != p.turns:
        raise ValueError(f"hazards must be a list of {p.turns} integers, not {hazards!r:.60}")
    for turn, hazard in enumerate(hazards):
        check_int(f"hazards[{turn}]", hazard, 0, p.hazard_max)


def hazard_law(trace, turns):
    """h(t) = d(t)/n(t) of equation (5) for t = 0 ... turns - 1, as Fractions; 0 where no session reached t.

    Turns count from 1, as an entry's turn counter does, so h(0) = 0.
    """
    lengths = [len(session.turns) for session in trace.sessions]
    law = []
    for turn in range(turns):
        reached = sum(length >= turn for length in lengths)
        law.append(Fraction(lengths.count(turn), reached) if reached else Fraction(0))
    return law


def hazard_table(trace, p):
    """h_Z of equation (14), ``p.turns`` integers of ``p.hazard_bits``: floor(h * Lambda + 1/2)."""
    return tuple(math.floor(h * p.hazard_max + Fraction(1, 2)) for h in hazard_law(trace, p.turns))


def write_hazard_file(path, hazards, p, source):
    """Writes a table and ``source``, a line of text that says where it was measured; never half written."""
    write_json(
        path,
        {
            "format": _FORMAT,
            "version": _VERSION,
            "source": source,
            "hazard_bits": p.hazard_bits,
            "hazards": list(hazards),
        },
    )


def read_hazard_file(path, p):
    """The table in a file, ``p.turns`` integers of ``p.hazard_bits``.

    Raises
    ------
    HazardError
        For a malformed file or one of another size or width.
    OSError
        If the file cannot be read.
    """
    fields = json_object(path, HazardError)
    try:
        check_format(fields, _FORMAT, _VERSION)
        check_keys(fields, ("format", "version", "source", "hazard_bits", "hazards"))
        if fields["hazard_bits"] != p.hazard_bits:
            raise ValueError(f"hazard_bits is {fields['hazard_bits']!r}, the instance has {p.hazard_bits}")
        check_hazards(fields["hazards"], p)
    except ValueError as cause:
        raise HazardError(path, 1, cause) from None
    return tuple(fields["hazards"])


def hazard_writes(hazards, p):
    """The register writes that make a table live, as (address, value) in order; the last one is COMMIT.

    Raises
    ------
    ValueError
        For a table of another size or a hazard wider than ``p.hazard_bits``.
    """
    check_hazards(hazards, p)
    registers = register_map(p)
    writes = [(registers.address("HAZARD", turn), hazard) for turn, hazard in enumerate(hazards)]
    return [*writes, (registers.address("COMMIT"), 1)]


def load_hazards(write, hazards, p):
    """Makes a table live through ``write(address, value)``; raises as ``hazard_writes``."""
    for address, value in hazard_writes(hazards, p):
        write(address, value)


def engine_writer(engine, p):
    """A ``write(address, value)`` for ``load_hazards`` that drives the golden model; ValueError at other registers."""
    registers = register_map(p)
    turns = {registers.address("HAZARD", turn): turn for turn in range(p.turns)}

    def write(address, value):
        if address in turns:
            engine.write_hazard(turns[address], value)
        elif address == registers.address("COMMIT"):
            engine.commit()
        else:
            raise ValueError(f"address {address:#05x} belongs to no hazard register")

    return write
