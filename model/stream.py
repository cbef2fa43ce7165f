"""Events of the host as two-word integers, and files of recorded event streams."""

import json
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from typing import NamedTuple

from unison.formats import EVENT, OPERAND_MAX, TOKENS_MAX, Opcode
from unison.model.engine import Config
from unison.model.files import FileError, check_format, check_int, check_keys, json_lines, write_lines
from unison.model.hazard import check_hazards
from unison.params import SLOT_FIELD_BITS, Params

__all__ = ["Event", "make_event", "Stream", "StreamError", "read_stream", "write_stream"]

_OPCODE_SHIFT = EVENT["opcode"].offset
_SLOT_SHIFT = EVENT["slot"].offset
_SLOT_MAX = (1 << SLOT_FIELD_BITS) - 1
_FORMAT = "unison-stream"
_VERSION = 1


class StreamError(FileError):
    """A stream file that is malformed; the text begins with ``file:line``."""


class Event(NamedTuple):
    """One event as the host writes it: ``word0`` and ``operand``, 32 bits each, legal or not."""

    word0: int
    operand: int = 0

    @property
    def opcode(self):
        """Bits 31:28 of word 0; an Opcode has the same value."""
        return self.word0 >> _OPCODE_SHIFT

    @property
    def slot(self):
        """Bits 27:20 of word 0."""
        return self.word0 >> _SLOT_SHIFT & _SLOT_MAX

    @property
    def tokens(self):
        """Bits 19:0 of word 0."""
        return self.word0 & TOKENS_MAX

    def __str__(self):
        legal = self.opcode in Opcode._value2member_map_
        name = Opcode(self.opcode).name if legal else f"opcode {self.opcode}"
        return f"{name} slot={self.slot} tokens={self.tokens} operand={self.operand}"


def make_event(opcode, slot=0, tokens=0, operand=0):
    """The Event with these fields; ``opcode`` is an Opcode or any integer of 4 bits.

    Raises
    ------
    ValueError
        For a field that does not fit its width.
    """
    opcode = opcode.value if isinstance(opcode, Opcode) else opcode
    check_int("opcode", opcode, 0, 15)
    check_int("slot", slot, 0, _SLOT_MAX)
    check_int("tokens", tokens, 0, TOKENS_MAX)
    check_int("operand", operand, 0, OPERAND_MAX)
    return Event(opcode << _OPCODE_SHIFT | slot << _SLOT_SHIFT | tokens, operand)


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A recorded stream and all that is needed to replay it from reset.

    Attributes
    ----------
    params : Params
        The instance.
    config : Config
        The configuration registers.
    hazards : tuple of int
        h_Z of turns 0, 1, ..., live before the first event.
    provenance : dict
        Where the events came from: plain JSON values.
    events : tuple of Event
    """

    params: Params
    config: Config
    hazards: tuple
    provenance: dict = field(default_factory=dict)
    events: tuple


def _params_fields(p):
    return asdict(p) | {"epsilon": str(p.epsilon)}


def _read_params(values):
    check_keys(values, [each.name for each in fields(Params)])
    if not isinstance(values["epsilon"], str):
        raise ValueError(f"epsilon must be a string like '1/100', not {values['epsilon']!r}")
    try:
        epsilon = Fraction(values["epsilon"])
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"epsilon must be a fraction like '1/100', not {values['epsilon']!r}") from None
    return Params(**(values | {"epsilon": epsilon}))


def _read_config(values, p):
    check_keys(values, [each.name for each in fields(Config)])
    for each in fields(Config):
        if type(values[each.name]) is not type(each.default):
            raise ValueError(f"{each.name} must be of type {type(each.default).__name__}, not {values[each.name]!r}")
    config = Config(**values)
    config.check(p)
    return config


def _read_header(header):
    """Params, config, hazards, provenance and the number of events of a decoded header line."""
    check_format(header, _FORMAT, _VERSION)
    check_keys(header, ("format", "version", "params", "config", "hazards", "provenance", "events"))
    p = _read_params(header["params"])
    config = _read_config(header["config"], p)
    check_hazards(header["hazards"], p)
    if not isinstance(header["provenance"], dict):
        raise ValueError(f"provenance must be an object, not {header['provenance']!r:.60}")
    check_int("events", header["events"], 0, 1 << 62)
    return p, config, tuple(header["hazards"]), header["provenance"], header["events"]


def read_stream(path):
    """The Stream in a file, plain or gzip by content.

    Raises
    ------
    StreamError
        For anything malformed or cut short, with file and line.
    OSError
        If the file cannot be read.
    """
    header = None
    events = []
    line = 0
    for line, value in json_lines(path, StreamError):
        try:
            if header is None:
                header = _read_header(value)
                continue
            if not isinstance(value, list) or len(value) != 2:
                raise ValueError(f"an event must be [word 0, operand], not {value!r:.60}")
            check_int("word 0", value[0], 0, OPERAND_MAX)
            check_int("operand", value[1], 0, OPERAND_MAX)
        except ValueError as cause:
            raise StreamError(path, line, cause) from None
        events.append(Event(*value))
    if header is None:
        raise StreamError(path, line + 1, "no header in this file")
    p, config, hazards, provenance, count = header
    if len(events) != count:
        raise StreamError(path, line, f"{len(events)} events where the header promises {count}")
    return Stream(params=p, config=config, hazards=hazards, provenance=provenance, events=tuple(events))


def write_stream(path, stream):
    """Writes a Stream: a header line, then ``[word 0, operand]`` a line; compressed by ``.gz``, never half written."""
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "params": _params_fields(stream.params),
        "config": asdict(stream.config),
        "hazards": list(stream.hazards),
        "provenance": stream.provenance,
        "events": len(stream.events),
    }
    write_lines(path, [json.dumps(header), *(f"[{word0},{operand}]" for word0, operand in stream.events)])
