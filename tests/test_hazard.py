"""Hazard tables: measured, stored, loaded."""

import json
from fractions import Fraction

import pytest

from unison.model.engine import Engine
from unison.model.hazard import (
    HazardError,
    engine_writer,
    hazard_law,
    hazard_table,
    hazard_writes,
    load_hazards,
    read_hazard_file,
    write_hazard_file,
)
from unison.model.trace import Session, Trace, Turn
from unison.params import N16, N64
from unison.registers import register_map


def sessions_of(*lengths):
    turn = Turn(0, 0, 1, 1, 1)
    return Trace("t", tuple(Session(number, (turn,) * length) for number, length in enumerate(lengths)))


def test_the_law_by_hand():
    # Lengths 1, 2, 2, 4: one of four ends at turn 1, two of three at 2, none of one at 3, the last at 4.
    law = hazard_law(sessions_of(1, 2, 2, 4), 6)
    assert law == [0, Fraction(1, 4), Fraction(2, 3), 0, 1, 0]


def test_a_session_beyond_the_table_does_not_end_in_it():
    assert hazard_law(sessions_of(50, 90, 90), 51)[50] == Fraction(1, 3)


def test_the_table_is_rounded_half_up():
    # 4095/4 = 1023.75, 4095 * 2/3 = 2730 exactly, 255/2 = 127.5.
    assert hazard_table(sessions_of(1, 2, 2, 4), N64)[:6] == (0, 1024, 2730, 0, 4095, 0)
    assert len(hazard_table(sessions_of(1), N64)) == 51
    assert hazard_table(sessions_of(1, 2), N64.replace(hazard_bits=8))[1] == 128


def test_what_is_written_is_read_back(tmp_path):
    table = hazard_table(sessions_of(1, 2, 2, 4), N64)
    write_hazard_file(tmp_path / "h.json", table, N64, "measured on t")
    assert read_hazard_file(tmp_path / "h.json", N64) == table
    assert json.loads((tmp_path / "h.json").read_text())["source"] == "measured on t"


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"format": "unison-stream"}, "is not 'unison-hazards' version 1"),
        ({"more": 1}, "unknown field 'more'"),
        ({"hazard_bits": 10}, "hazard_bits is 10, the instance has 12"),
        ({"hazards": 5}, "hazards must be a list of 51 integers, not 5"),
        ({"hazards": [0] * 52}, "hazards must be a list of 51 integers"),
        ({"hazards": [0] * 50 + [4096]}, r"hazards\[50\] must lie in 0 ... 4095, not 4096"),
        ({"hazards": [0] * 50 + [False]}, r"hazards\[50\] must be an integer, not False"),
    ],
)
def test_malformed_files_are_named(tmp_path, changes, reason):
    fields = {"format": "unison-hazards", "version": 1, "source": "", "hazard_bits": 12, "hazards": [0] * 51}
    (tmp_path / "h.json").write_text(json.dumps(fields | changes))
    with pytest.raises(HazardError, match=rf"h\.json:1: .*{reason}"):
        read_hazard_file(tmp_path / "h.json", N64)


@pytest.mark.parametrize("text, reason", [("", "not JSON"), ("[]", r"must be a JSON object, not \[\]")])
def test_files_that_hold_no_object_are_named(tmp_path, text, reason):
    (tmp_path / "h.json").write_text(text)
    with pytest.raises(HazardError, match=rf"h\.json:1: {reason}"):
        read_hazard_file(tmp_path / "h.json", N64)


def test_loading_writes_the_table_and_then_commits():
    table = tuple(range(51))
    registers = register_map(N16)
    writes = hazard_writes(table, N16)
    assert writes[:-1] == [(registers.address("HAZARD", turn), turn) for turn in range(51)]
    assert writes[-1] == (registers.address("COMMIT"), 1)


def test_loading_the_golden_model_makes_the_table_live():
    table = tuple(range(100, 151))
    engine = Engine(N16)
    write = engine_writer(engine, N16)
    for address, value in hazard_writes(table, N16)[:-1]:
        write(address, value)
    assert list(engine.hazards) == [0] * 51
    load_hazards(write, table, N16)
    assert list(engine.hazards) == list(table)
    with pytest.raises(ValueError, match="address 0x064 belongs to no hazard register"):
        write(0x064, 1)


@pytest.mark.parametrize("table", [[0] * 50, [0] * 50 + [4096], [-1] + [0] * 50])
def test_a_table_that_does_not_fit_is_not_written(table):
    with pytest.raises(ValueError, match="hazards"):
        load_hazards(lambda address, value: pytest.fail("written"), table, N64)
