"""The register map, compiled from ``unison.rdl`` with the sizes of one instance."""

import enum
import functools
import re
from dataclasses import dataclass
from pathlib import Path

from systemrdl import RDLCompiler
from systemrdl.messages import MessagePrinter
from systemrdl.node import RegNode
from systemrdl.rdltypes import OnWriteType

from unison import __version__

__all__ = [
    "RDL_FILE",
    "ADDRESS_BITS",
    "Kind",
    "Field",
    "Register",
    "RegisterMap",
    "rdl_parameters",
    "compile_rdl",
    "register_map",
]

RDL_FILE = Path(__file__).with_name("unison.rdl")
#: Width of PADDR: the map fills one 4 KiB page.
ADDRESS_BITS = 12


class Kind(enum.Enum):
    """How a field behaves."""

    CONSTANT = "read-only constant"
    STATUS = "read-only, driven by hardware"
    STORAGE = "read and written by software"
    PULSE = "one cycle high when 1 is written"
    STICKY = "set by hardware, cleared by writing 1"
    COUNTER = "counts one each time its input is high"
    EXTERNAL = "belongs to a block outside the register file"


@dataclass(frozen=True)
class Field:
    """One field: ``name``, ``lsb`` and ``width`` in bits, ``kind``, ``reset`` value."""

    name: str
    lsb: int
    width: int
    kind: Kind
    reset: int


@dataclass(frozen=True)
class Register:
    """One register, or an array of ``count`` of them 4 bytes apart, at byte ``address``."""

    name: str
    address: int
    count: int
    readable: bool
    writable: bool
    guarded: bool
    external: bool
    fields: tuple

    def field(self, name):
        """The field of that name; KeyError if there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"{self.name} has no field {name!r}")


class RegisterMap:
    """The registers of one instance, by name (``map["STATUS"]``) and in the order of their addresses."""

    def __init__(self, registers):
        self.registers = tuple(sorted(registers, key=lambda register: register.address))
        self._by_name = {register.name: register for register in self.registers}

    def __iter__(self):
        return iter(self.registers)

    def __getitem__(self, name):
        return self._by_name[name]

    def address(self, name, index=0):
        """Byte address of a register, or of element ``index`` of an array."""
        register = self[name]
        if not 0 <= index < register.count:
            raise IndexError(f"{name}[{index}]: the array has {register.count} registers")
        return register.address + 4 * index


def rdl_parameters(p):
    """The parameters of the addrmap for an instance ``p``."""
    major, minor, patch = (int(re.match(r"\d+", part).group()) for part in __version__.split(".")[:3])
    return {
        "SESSIONS": p.sessions,
        "CAPACITY_BITS": p.capacity_bits,
        "HAZARD_BITS": p.hazard_bits,
        "GAP_BITS": p.gap_bits,
        "SCORE_BITS": p.score_bits,
        "GAP_UNIT_NS": p.gap_unit_ns,
        "PENALTY_UNITS": p.penalty,
        "TURNS": p.turns,
        "EVENT_DEPTH": p.event_depth,
        "ANSWER_DEPTH": p.answer_depth,
        "MAJOR": major,
        "MINOR": minor,
        "PATCH": patch,
    }


def compile_rdl(p):
    """The elaborated SystemRDL root node for ``p``, as the PeakRDL exporters take it."""
    compiler = RDLCompiler(message_printer=MessagePrinter())
    compiler.compile_file(str(RDL_FILE))
    return compiler.elaborate(top_def_name="unison", parameters=rdl_parameters(p))


def _kind(node, external):
    if external:
        return Kind.EXTERNAL
    if node.get_property("counter"):
        return Kind.COUNTER
    if node.get_property("singlepulse"):
        return Kind.PULSE
    if node.get_property("onwrite") == OnWriteType.woclr:
        return Kind.STICKY
    if node.is_sw_writable:
        return Kind.STORAGE
    return Kind.STATUS if node.is_hw_writable else Kind.CONSTANT


def _register(node):
    external = bool(node.external)
    fields = tuple(
        Field(
            name=field.inst_name,
            lsb=field.lsb,
            width=field.width,
            kind=_kind(field, external),
            reset=field.get_property("reset") or 0,
        )
        for field in node.fields()
    )
    return Register(
        name=node.inst_name,
        address=node.raw_absolute_address if node.is_array else node.absolute_address,
        count=node.n_elements if node.is_array else 1,
        readable=node.has_sw_readable,
        writable=node.has_sw_writable,
        guarded=bool(node.get_property("guarded", default=False)),
        external=external,
        fields=fields,
    )


@functools.cache
def register_map(p):
    """The register map of an instance ``p`` as a ``RegisterMap``."""
    top = compile_rdl(p).top
    return RegisterMap(_register(node) for node in top.children(unroll=False) if isinstance(node, RegNode))
