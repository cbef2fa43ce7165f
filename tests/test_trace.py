"""The trace reader and writer."""

import gzip
import json

import pytest

from unison.model.trace import Session, Trace, TraceError, Turn, read_trace, real_traces, write_trace

ROW = {
    "session": 0,
    "turn": 0,
    "arrival_us": 100,
    "completion_us": 400,
    "prompt_tokens": 50,
    "new_prompt_tokens": 50,
    "output_tokens": 5,
    "tool": None,
    "role": "main",
}
NEXT = ROW | {"turn": 1, "arrival_us": 700, "completion_us": 900, "new_prompt_tokens": 7, "tool": "bash"}

#: Sessions, turns, gaps in seconds (min, p10, p50, p90, max), reuse: as the traces' own description states them.
STATED = {
    "acg_haiku": (116, 2697, (0.001, 0.021, 0.082, 2.07, 362), 0.958),
    "claude_code": (280, 18946, (0, 3.9, 8.7, 114, 77360), 0.968),
    "gaia_miro": (21, 334, (0, 1.24, 1.89, 9.68, 180), 0.877),
    "iso_trae_gpt5": (171, 8702, (0.0009, 0.0032, 0.021, 28.7, 1005), 0.986),
    "iso_trae_sonnet45": (278, 13139, (0.0011, 0.0032, 0.204, 0.226, 120), 0.984),
    "mooncake_conv": (8379, 12031, None, 0.314),
}


def lines(*rows):
    return "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)


def without(name):
    return {key: value for key, value in ROW.items() if key != name}


@pytest.mark.parametrize("name, compressed", [("t.jsonl", False), ("t.jsonl.gz", True), ("t.gz", False), ("t", True)])
def test_gzip_is_recognised_by_content(tmp_path, name, compressed):
    text = lines(ROW, "\n", NEXT).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if compressed else text)
    trace = read_trace(tmp_path / name)
    assert trace.name == "t"
    assert trace.sessions == (
        Session(0, (Turn(100, 400, 50, 50, 5, None, "main"), Turn(700, 900, 50, 7, 5, "bash", "main"))),
    )


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_what_is_written_is_read_back(tmp_path, name):
    sessions = (
        Session(0, (Turn(0, None, 1, None, 0, None, None), Turn(9, None, 1 << 19, 0, 1, "user", None))),
        Session(4, (Turn(5, 5, 7, 7, 2, None, "sub"),)),
    )
    write_trace(tmp_path / name, Trace("t", sessions))
    first = (tmp_path / name).read_bytes()
    assert read_trace(tmp_path / name) == Trace("t", sessions)
    write_trace(tmp_path / name, Trace("t", sessions))
    assert (tmp_path / name).read_bytes() == first
    # No time of writing in the header of gzip.
    assert not name.endswith(".gz") or first[4:8] == bytes(4)


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_an_interrupted_write_changes_nothing(tmp_path, name):
    path = tmp_path / name
    path.write_text("before")

    class Interrupting(tuple):
        def __iter__(self):
            yield Session(0, (Turn(0, 1, 1, 1, 1),))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_trace(path, Trace("t", Interrupting()))
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "text, line, reason",
    [
        ("", 1, "no turn in this file"),
        ("\n\n", 1, "no turn in this file"),
        (lines(ROW, "{\n"), 2, "not JSON"),
        (lines(ROW, "[" * 100_000 + "\n"), 2, "nested too deep"),
        (lines("[1]\n"), 1, r"must be an object, not \[1\]"),
        (lines('{"session": 0, "session": 0}\n'), 1, "field 'session' is given twice"),
        (lines(ROW | {"extra": 1}), 1, "unknown field 'extra'"),
        *((lines(without(name)), 1, f"field '{name}' is missing") for name in ROW),
        (lines(ROW | {"arrival_us": -1}), 1, "arrival_us must lie in 0 ... .*, not -1"),
        (lines(ROW | {"arrival_us": 1 << 63}), 1, "arrival_us must lie in"),
        (lines(ROW | {"session": True}), 1, "session must be an integer, not True"),
        (lines(ROW | {"turn": False}), 1, "turn must be an integer, not False"),
        (lines(ROW | {"completion_us": 400.0}), 1, "completion_us must be an integer, not 400.0"),
        (lines(ROW | {"output_tokens": None}), 1, "output_tokens must be an integer, not None"),
        (lines(ROW | {"output_tokens": -3}), 1, "output_tokens must lie in"),
        (lines(ROW | {"prompt_tokens": "50"}), 1, "prompt_tokens must be an integer, not '50'"),
        (lines(ROW | {"prompt_tokens": 0}), 1, "prompt_tokens must lie in 1 ... 1048575, not 0"),
        (lines(ROW | {"prompt_tokens": 1 << 20}), 1, "prompt_tokens must lie in 1 ... 1048575, not 1048576"),
        (lines(ROW | {"new_prompt_tokens": 51}), 1, "new_prompt_tokens must lie in 0 ... 50, not 51"),
        (lines(ROW | {"tool": 3}), 1, "tool must be a string or null, not 3"),
        (lines(ROW | {"role": []}), 1, r"role must be a string or null, not \[\]"),
        (lines(ROW | {"completion_us": 99}), 1, "completion_us 99 is before arrival_us 100"),
        (lines(ROW | {"turn": 1}), 1, "session 0 begins with turn 1, not 0"),
        (lines(ROW, NEXT, ROW | {"session": 1, "turn": 2}), 3, "session 1 begins with turn 2, not 0"),
        (lines(ROW, ROW), 2, "turn 0 of session 0 where 1 is due"),
        (lines(ROW, NEXT | {"turn": 2}), 2, "turn 2 of session 0 where 1 is due"),
        (lines(ROW | {"session": 3}, ROW | {"session": 2}), 2, "session 2 after session 3"),
        (lines(ROW, NEXT | {"arrival_us": 399}), 2, "arrival_us 399 is before the completion of the turn before, 400"),
        (
            lines(ROW | {"completion_us": None}, NEXT | {"arrival_us": 99}),
            2,
            "arrival_us 99 is before the arrival of the turn before, 100",
        ),
    ],
)
def test_malformed_lines_are_named(tmp_path, text, line, reason):
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(TraceError, match=rf"bad\.jsonl:{line}: .*{reason}") as caught:
        read_trace(path)
    assert (caught.value.path, caught.value.line) == (path, line)


def test_bytes_that_are_no_text_are_named(tmp_path):
    (tmp_path / "bad").write_bytes(lines(ROW).encode() + b'{"tool": "\xff"}\n')
    with pytest.raises(TraceError, match="bad:2: not UTF-8"):
        read_trace(tmp_path / "bad")


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-12],
        lambda data: data[:11],
        lambda data: data[:-8] + bytes(8),
        lambda data: data[:10] + b"\xff" * 40,
    ],
    ids=["cut", "header_only", "checksum", "garbage"],
)
def test_broken_gzip_is_named(tmp_path, damage):
    rows = [ROW | {"session": number, "arrival_us": number * 7919 % 101} for number in range(400)]
    (tmp_path / "bad.gz").write_bytes(damage(gzip.compress(lines(*rows).encode())))
    with pytest.raises(TraceError, match=r"bad\.gz:\d+: broken gzip data"):
        read_trace(tmp_path / "bad.gz")


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_trace(tmp_path / "none")


def test_services_and_gaps_by_hand():
    session = Session(0, (Turn(10, 30, 1, 1, 1), Turn(100, 100, 1, 1, 1), Turn(100, 107, 1, 1, 1)))
    assert session.services() == [20, 0, 7]
    assert session.gaps() == [70, 0]
    assert Trace("t", (session, Session(1, (Turn(0, 5, 1, 1, 1),)))).mean_gap_us == 35
    assert Trace("t", (Session(1, (Turn(0, 5, 1, 1, 1),)),)).mean_gap_us == 0


def test_a_service_without_completion_follows_from_the_tokens():
    # 50 us * 10 + 20 ms * 2 = 40,500 us; the second is cut at the next arrival, the last one is not.
    session = Session(0, (Turn(0, None, 10, 10, 2), Turn(50_000, None, 10, 0, 2), Turn(60_000, None, 10, 0, 2)))
    assert session.services() == [40_500, 10_000, 40_500]
    assert session.gaps() == [9_500, 0]


@pytest.mark.parametrize("name", STATED)
def test_real_traces_are_as_their_description_says(name):
    paths = real_traces()
    if name not in paths:
        pytest.skip(f"no real trace {name}: set UNISON_TRACES to a folder that holds it")
    trace = read_trace(paths[name])
    sessions, turns, gaps, reuse = STATED[name]
    assert (len(trace.sessions), len(trace.turns)) == (sessions, turns)
    if gaps is not None:
        seconds = sorted(gap / 1e6 for session in trace.sessions for gap in session.gaps())
        measured = [seconds[round(level * (len(seconds) - 1))] for level in (0, 0.1, 0.5, 0.9, 1)]
        assert measured == pytest.approx(gaps, rel=0.06)
    known = [turn for turn in trace.turns if turn.new_prompt_tokens is not None]
    prompts = sum(turn.prompt_tokens for turn in known)
    assert 1 - sum(turn.new_prompt_tokens for turn in known) / prompts == pytest.approx(reuse, abs=0.0006)
