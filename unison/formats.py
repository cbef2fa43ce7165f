"""Words, layouts and codes that software, model and hardware share; every width and offset is written here once."""

import enum as py_enum

from amaranth.lib import data, enum

from unison.params import SLOT_FIELD_BITS, TOKEN_BITS

__all__ = [
    "Residency",
    "Place",
    "Opcode",
    "AnswerKind",
    "ErrorCode",
    "TWO_WORD_ANSWERS",
    "EVENT",
    "ANSWER",
    "OUTCOME",
    "ERROR",
    "FORGET",
    "EVICT",
    "MOVED",
    "MIGRATE",
    "ANSWER_LAYOUTS",
    "TOKENS_MAX",
    "OPERAND_MAX",
    "BUDGET_MAX",
    "DMA_FAILED",
    "entry_layout",
    "pack",
    "unpack",
]

TOKENS_MAX = (1 << TOKEN_BITS) - 1
OPERAND_MAX = (1 << 32) - 1
#: A Tide budget saturates here, and B_den = 0 stands for it; eight moves cost less than 2**24 tokens.
BUDGET_MAX = (1 << 32) - 1
#: DMA_DONE, operand bit 0.
DMA_FAILED = 1


class Residency(enum.Enum, shape=2):
    """Where the KV cache of a slot's session is. Bit 1 is set for a resident, bit 0 then names the tier."""

    FREE = 0
    ABSENT = 1
    SRAM = 2
    HBM = 3


class Place(enum.Enum, shape=2):
    """``found`` and ``placed`` of an outcome; a tier has the code it has in ``Residency``."""

    NONE = 0
    SRAM = 2
    HBM = 3


class Opcode(enum.Enum, shape=4):
    """What an event tells; 0 and the codes above 7 are errors."""

    ARRIVE = 1
    ARRIVE_ANY = 2
    GAP_START = 3
    GAP_END = 4
    COMPLETE = 5
    RELEASE = 6
    DMA_DONE = 7


class AnswerKind(enum.Enum, shape=4):
    """What an answer tells; EMPTY is read from an empty answer FIFO."""

    EMPTY = 0
    OUTCOME = 1
    ERROR = 2
    FORGET = 3
    EVICT = 4
    MOVED = 5
    MIGRATE = 6


class ErrorCode(enum.Enum, shape=3):
    """Why an event was refused by the engine; the first that applies."""

    OPCODE = 1
    SLOT = 2
    TOKENS = 3
    STATE = 4


#: Kinds whose second word means something; it reads as zero for the others.
TWO_WORD_ANSWERS = frozenset({AnswerKind.ERROR, AnswerKind.MOVED, AnswerKind.MIGRATE})

#: An event: word 0 (tokens, slot, opcode) in bits 31:0, the operand in bits 63:32.
EVENT = data.StructLayout({"tokens": TOKEN_BITS, "slot": SLOT_FIELD_BITS, "opcode": 4, "operand": 32})


def _answer(word0, word1):
    """A 64-bit answer: ``word0`` below slot and kind, ``word1`` in the other half; both are padded with zeros."""

    def padded(fields, width, name):
        used = data.StructLayout(fields).size
        return fields if used == width else {**fields, name: width - used}

    return data.StructLayout(
        {
            **padded(word0, TOKEN_BITS, "zero0"),
            "slot": SLOT_FIELD_BITS,
            "kind": AnswerKind,
            **padded(word1, 32, "zero1"),
        }
    )


#: What every answer has; bits 19:0 of word 0 and word 1 depend on the kind.
ANSWER = data.StructLayout({"detail0": TOKEN_BITS, "slot": SLOT_FIELD_BITS, "kind": AnswerKind, "detail1": 32})
OUTCOME = _answer({"opcode": 4, "slot_valid": 1, "found": Place, "placed": Place}, {})
ERROR = _answer({"code": ErrorCode}, {"word0": 32})
FORGET = _answer({}, {})
EVICT = _answer({}, {})
MOVED = _answer({"tokens": TOKEN_BITS}, {"tier": 2})
#: ``slot`` and ``tokens`` are the promoted session's, the ``demoted`` fields the other's (``demoted_valid`` = 0: none).
MIGRATE = _answer(
    {"tokens": TOKEN_BITS}, {"demoted_tokens": TOKEN_BITS, "demoted_slot": SLOT_FIELD_BITS, "demoted_valid": 1}
)
ANSWER_LAYOUTS = {
    AnswerKind.OUTCOME: OUTCOME,
    AnswerKind.ERROR: ERROR,
    AnswerKind.FORGET: FORGET,
    AnswerKind.EVICT: EVICT,
    AnswerKind.MOVED: MOVED,
    AnswerKind.MIGRATE: MIGRATE,
}


def entry_layout(p):
    """One session entry as software reads it back, 126 bits at the locked format (30 + b_g + b_s)."""
    return data.StructLayout(
        {
            "tokens": TOKEN_BITS,
            "turn": p.turn_bits,
            "residency": Residency,
            "busy": 1,
            "completed": 1,
            "gap": p.gap_bits,
            "score": p.score_bits,
        }
    )


def pack(layout, **fields):
    """The integer whose fields, by the layout's own offsets, are ``fields``; those not named are 0.

    Raises
    ------
    ValueError
        For a field that the layout lacks or a value that does not fit it.
    """
    word = 0
    for name, value in fields.items():
        try:
            field = layout[name]
        except KeyError:
            raise ValueError(f"no field {name!r} in {layout!r}") from None
        value = value.value if isinstance(value, py_enum.Enum) else int(value)
        if not 0 <= value < 1 << field.width:
            raise ValueError(f"{name} = {value} does not fit {field.width} bits")
        word |= value << field.offset
    return word


def unpack(layout, word):
    """The fields of an integer as a dict of plain integers, by the layout's own offsets."""
    return {name: (word >> field.offset) & ((1 << field.width) - 1) for name, field in layout}
