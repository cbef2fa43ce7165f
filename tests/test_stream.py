"""Events as words, and files of recorded streams."""

import gzip
import json

import pytest

from unison.formats import Opcode
from unison.model.engine import Config
from unison.model.stream import Event, Stream, StreamError, make_event, read_stream, write_stream
from unison.params import N16, Params

STREAM = Stream(
    params=N16.replace(hazard_bits=10),
    config=Config(capacity_sram=7, capacity_hbm=9, gap_prior=5, moves=3, ignore_dma=True),
    hazards=tuple(range(51)),
    provenance={"trace": "t", "seed": 0},
    events=(Event(0xFFFFFFFF, 0xFFFFFFFF), Event(0, 1)),
)


def test_fields_of_an_event_by_hand():
    event = make_event(Opcode.GAP_START, slot=0x3F, tokens=0xABCDE, operand=7)
    assert event == (0x33FABCDE, 7)
    assert (event.opcode, event.slot, event.tokens, event.operand) == (3, 0x3F, 0xABCDE, 7)
    assert str(event) == f"GAP_START slot=63 tokens={0xABCDE} operand=7"
    assert make_event(15) == (0xF0000000, 0)
    assert str(make_event(15)).startswith("opcode 15 ")


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"opcode": 16}, "opcode must lie in 0 ... 15, not 16"),
        ({"opcode": True}, "opcode must be an integer, not True"),
        ({"slot": 256}, "slot must lie in 0 ... 255, not 256"),
        ({"tokens": 1 << 20}, "tokens must lie in 0 ... 1048575, not 1048576"),
        ({"tokens": -1}, "tokens must lie in"),
        ({"operand": 1 << 32}, "operand must lie in 0 ... 4294967295, not 4294967296"),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        make_event(**{"opcode": Opcode.ARRIVE} | fields)


@pytest.mark.parametrize("name", ["s.jsonl", "s.gz"])
def test_what_is_written_is_read_back(tmp_path, name):
    write_stream(tmp_path / name, STREAM)
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    assert read_stream(tmp_path / name) == STREAM


def header(**changes):
    """The header line of STREAM with fields replaced; those of ``params`` and ``config`` one by one."""
    fields = {
        "format": "unison-stream",
        "version": 1,
        "params": {**vars(STREAM.params), "epsilon": "1/100"} | changes.pop("params", {}),
        "config": vars(STREAM.config) | changes.pop("config", {}),
        "hazards": list(STREAM.hazards),
        "provenance": {},
        "events": 1,
    }
    return json.dumps(fields | changes)


@pytest.mark.parametrize(
    "lines, line, reason",
    [
        ([], 1, "no header"),
        (["{"], 1, "not JSON"),
        (["[1, 2]"], 1, "is not 'unison-stream' version 1"),
        ([header(version=2)], 1, "is not 'unison-stream' version 1"),
        ([header(more=2)], 1, "unknown field 'more'"),
        ([header(params={"sessions": 3})], 1, "sessions must lie in 4 ... 256, not 3"),
        ([header(params={"sesions": 3})], 1, "unknown field 'sesions'"),
        ([header(params={"epsilon": "1/0"})], 1, "epsilon must be a fraction like '1/100', not '1/0'"),
        ([header(params={"epsilon": 0.01})], 1, "epsilon must be a string like '1/100', not 0.01"),
        ([header(config={"moves": "2"})], 1, "moves must be of type int, not '2'"),
        ([header(config={"moves": 9})], 1, "moves must be an integer in 1 ... 8, not 9"),
        ([header(config={"moves": True})], 1, "moves must be of type int, not True"),
        ([header(config={"ignore_dma": 1})], 1, "ignore_dma must be of type bool, not 1"),
        ([header(hazards=[0] * 50)], 1, "hazards must be a list of 51 integers"),
        ([header(hazards=[0] * 50 + [1024])], 1, r"hazards\[50\] must lie in 0 ... 1023, not 1024"),
        ([header(provenance=[])], 1, r"provenance must be an object, not \[\]"),
        ([header(events=-1)], 1, "events must lie in"),
        ([header(), "[1]"], 2, r"an event must be \[word 0, operand\], not \[1\]"),
        ([header(), "7"], 2, "an event must be"),
        ([header(), "[4294967296, 0]"], 2, "word 0 must lie in 0 ... 4294967295, not 4294967296"),
        ([header(), "[0, true]"], 2, "operand must be an integer, not True"),
        ([header(events=3), "[0, 1]", "[0, 1]"], 3, "2 events where the header promises 3"),
    ],
)
def test_malformed_streams_are_named(tmp_path, lines, line, reason):
    path = tmp_path / "bad.jsonl"
    path.write_text("".join(f"{each}\n" for each in lines))
    with pytest.raises(StreamError, match=rf"bad\.jsonl:{line}: .*{reason}"):
        read_stream(path)


def test_a_cut_stream_is_named(tmp_path):
    write_stream(tmp_path / "s.gz", STREAM)
    data = (tmp_path / "s.gz").read_bytes()
    (tmp_path / "s.gz").write_bytes(data[:-9])
    with pytest.raises(StreamError, match=r"s\.gz:\d+: broken gzip data"):
        read_stream(tmp_path / "s.gz")
    (tmp_path / "s").write_bytes(gzip.decompress(data)[: -len("[0,1]\n")])
    with pytest.raises(StreamError, match="s:2: 1 events where the header promises 2"):
        read_stream(tmp_path / "s")


def test_every_parameter_travels(tmp_path):
    p = Params(sessions=9, hazard_bits=8, gap_bits=24, score_bits=32, gap_unit_ns=1_000_000, penalty=1, turn_limit=3)
    stream = Stream(params=p, config=Config(), hazards=(0, 1, 2, 3), events=())
    write_stream(tmp_path / "s", stream)
    assert read_stream(tmp_path / "s") == stream
