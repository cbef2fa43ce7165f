"""Formats: every offset by hand, and packing."""

import random

import pytest

from unison import formats
from unison.formats import AnswerKind, ErrorCode, Opcode, Place, Residency, entry_layout, pack, unpack
from unison.params import N64, Params

# (first bit, width) of every field, counted from bit 0 of word 0; word 1 starts at bit 32.
OFFSETS = {
    "EVENT": {"tokens": (0, 20), "slot": (20, 8), "opcode": (28, 4), "operand": (32, 32)},
    "ANSWER": {"detail0": (0, 20), "slot": (20, 8), "kind": (28, 4), "detail1": (32, 32)},
    "OUTCOME": {
        "opcode": (0, 4),
        "slot_valid": (4, 1),
        "found": (5, 2),
        "placed": (7, 2),
        "zero0": (9, 11),
        "slot": (20, 8),
        "kind": (28, 4),
        "zero1": (32, 32),
    },
    "ERROR": {"code": (0, 3), "zero0": (3, 17), "slot": (20, 8), "kind": (28, 4), "word0": (32, 32)},
    "FORGET": {"zero0": (0, 20), "slot": (20, 8), "kind": (28, 4), "zero1": (32, 32)},
    "EVICT": {"zero0": (0, 20), "slot": (20, 8), "kind": (28, 4), "zero1": (32, 32)},
    "MOVED": {"tokens": (0, 20), "slot": (20, 8), "kind": (28, 4), "tier": (32, 2), "zero1": (34, 30)},
    "MIGRATE": {
        "tokens": (0, 20),
        "slot": (20, 8),
        "kind": (28, 4),
        "demoted_tokens": (32, 20),
        "demoted_slot": (52, 8),
        "demoted_valid": (60, 1),
        "zero1": (61, 3),
    },
}
ENTRY_OFFSETS = {
    "tokens": (0, 20),
    "turn": (20, 6),
    "residency": (26, 2),
    "busy": (28, 1),
    "completed": (29, 1),
    "gap": (30, 32),
    "score": (62, 64),
}
CODES = {
    Opcode: {"ARRIVE": 1, "ARRIVE_ANY": 2, "GAP_START": 3, "GAP_END": 4, "COMPLETE": 5, "RELEASE": 6, "DMA_DONE": 7},
    AnswerKind: {"EMPTY": 0, "OUTCOME": 1, "ERROR": 2, "FORGET": 3, "EVICT": 4, "MOVED": 5, "MIGRATE": 6},
    ErrorCode: {"OPCODE": 1, "SLOT": 2, "TOKENS": 3, "STATE": 4},
    Residency: {"FREE": 0, "ABSENT": 1, "SRAM": 2, "HBM": 3},
    Place: {"NONE": 0, "SRAM": 2, "HBM": 3},
}
LAYOUTS = {name: getattr(formats, name) for name in OFFSETS} | {"entry": entry_layout(N64)}


def places(layout):
    return {name: (field.offset, field.width) for name, field in layout}


@pytest.mark.parametrize("name", OFFSETS)
def test_words_have_the_offsets_that_software_knows(name):
    assert places(LAYOUTS[name]) == OFFSETS[name]
    assert LAYOUTS[name].size == 64


def test_entry_has_126_bits_at_the_locked_format():
    assert places(entry_layout(N64)) == ENTRY_OFFSETS
    assert entry_layout(N64).size == 126
    assert entry_layout(Params(gap_bits=24, score_bits=32)).size == 30 + 24 + 32


@pytest.mark.parametrize("codes", CODES, ids=lambda codes: codes.__name__)
def test_codes_are_those_that_software_knows(codes):
    assert {member.name: member.value for member in codes} == CODES[codes]


def test_every_answer_kind_but_empty_has_a_layout():
    assert set(formats.ANSWER_LAYOUTS) == set(AnswerKind) - {AnswerKind.EMPTY}
    assert all(formats.ANSWER_LAYOUTS[kind] is LAYOUTS[kind.name] for kind in formats.ANSWER_LAYOUTS)


def test_second_words_are_those_that_hold_something():
    speaking = {
        kind
        for kind, layout in formats.ANSWER_LAYOUTS.items()
        if any(field.offset >= 32 and name != "zero1" for name, field in layout)
    }
    assert speaking == formats.TWO_WORD_ANSWERS


@pytest.mark.parametrize("name", LAYOUTS)
def test_pack_and_unpack_are_inverse(name):
    layout = LAYOUTS[name]
    rng = random.Random(name)
    for _ in range(100):
        fields = {field: rng.getrandbits(place.width) for field, place in layout}
        word = pack(layout, **fields)
        assert word < 1 << layout.size
        assert unpack(layout, word) == fields
    top = {field: (1 << place.width) - 1 for field, place in layout}
    assert pack(layout, **top) == (1 << layout.size) - 1


def test_pack_takes_enumerations_and_leaves_the_rest_zero():
    word = pack(formats.OUTCOME, kind=AnswerKind.OUTCOME, opcode=Opcode.ARRIVE, found=Place.HBM)
    assert word == 1 << 28 | 3 << 5 | 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tokens": 1 << 20}, "tokens = 1048576 does not fit 20 bits"),
        ({"slot": -1}, "slot = -1 does not fit 8 bits"),
        ({"tokns": 1}, "no field 'tokns'"),
    ],
)
def test_pack_refuses_what_does_not_fit(fields, message):
    with pytest.raises(ValueError, match=message):
        pack(formats.EVENT, **fields)
