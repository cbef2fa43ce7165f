"""Converters: sessions computed by hand from a small sample of each format, malformed sources, exports."""

import gzip
import json
import shutil
import struct
from collections import Counter
from pathlib import Path

import pytest

from unison.model import cli
from unison.model.convert import FORMATS, ConvertError, convert, detect
from unison.model.convert.common import prompt_tokens, tool_names
from unison.model.convert.export import EXPORTS
from unison.model.convert.prefix import Request, link
from unison.model.trace import Session, Trace, Turn, read_trace

DATA = Path(__file__).parent / "data" / "convert"
SAMPLES = {
    "trae-agent": "trae.json",
    "claude-code": "claude_code.jsonl",
    "kv-cache-tester": "kv_cache_tester.json",
    "mooncake": "mooncake.jsonl",
    "qwen-bailian": "qwen_bailian.jsonl",
    "otel": "otel.jsonl",
    "vllm": "vllm.log",
    "swe-agent": "swe_agent.traj",
    "mini-swe-agent": "mini_swe_agent.traj.json",
}

#: Sessions of the samples: (arrival ms, completion ms, prompt, new, output, tool) of each turn, and the role.
EXPECTED = {
    # Cache counts are added; the third call's answer before it was not kept, so that all growth is new.
    "trae-agent": [
        ("main", (0, 4250, 1000, 1000, 50, None),
                 (6000, 9000, 1100, 50, 400, "bash+str_replace_based_edit_tool"),
                 (9001, 19500, 1300, 200, 7, "none")),
    ],
    # The first answer is 31 characters; the tool's own note and the made-up answer do not count.
    "claude-code": [
        ("main", (0, 2500, 2000, 2000, 8, None), (5500, 7500, 2250, 242, 90, "Task"),
                 (67500, 69500, 400, None, 9, "user")),
        ("subagent", (2600, 3600, 700, 700, 30, None), (4100, 5100, 760, 30, 40, "Grep")),
    ],
    # The repeated request is left out; main's second call waits for its first, its last one follows a compaction. A
    # call that main could have made is another's as main is busy, one with main's first block alone is too.
    "kv-cache-tester": [
        ("main", (0, 3250, 300, 300, 20, None), (3250, 4500, 360, 40, 30, "tool"), (58000, 60000, 200, 72, 5, "user")),
        ("subagent", (0, 1000, 330, 330, 3, None)),
        ("subagent", (0, 500, 200, 200, 8, None), (2000, 2500, 260, 52, 6, "tool")),
        ("subagent", (0, 1000, 128, 128, 4, None), (2000, 3000, 140, 8, 4, "tool")),
    ],
    # Block 50 is the beginning of many; the request at 4 s is shorter than the first and its answer.
    "mooncake": [
        (None, (0, None, 1100, 1100, 100, None)),
        (None, (1000, None, 600, 600, 10, None)),
        (None, (2000, None, 700, 700, 10, None)),
        (None, (3000, None, 1150, 1150, 100, None), (4000, None, 1530, 280, 50, None),
               (7000, None, 1800, 220, 50, None)),
        (None, (5000, None, 650, 650, 900, None)),
        (None, (6000, None, 640, 640, 900, None)),
    ],
    # The second child of chat 1 begins a session, as does a chat whose parent is not in the file.
    "qwen-bailian": [
        (None, (0, None, 40, 40, 9, None), (50614, None, 60, 11, 5, None), (79750, None, 50, 18, 2, None)),
        (None, (59500, None, 64, 64, 5, None)),
        (None, (60500, None, 20, 20, 1, None)),
    ],
    # A server's span inside a client's is the same call; an agent inside an agent and a call beside another are apart.
    "otel": [
        ("main", (0, 2000, 1000, 1000, 40, None), (9000, 11000, 1100, 60, 60, "search_web+tool"),
                 (100000, 101000, 1200, 40, 5, "user")),
        ("subagent", (3500, 5000, 300, 300, 10, None), (5500, 7000, 320, 10, 10, "none")),
        ("main", (10000, 12000, 50, 50, 1, None), (102000, 103000, 60, 9, 2, "user")),
        ("main", (49000, 50000, 70, 70, 7, None)),
    ],
    # Over the end of a year; the second request holds a block of the first behind another beginning.
    "vllm": [
        (None, (0, 3000, 40, 40, 5, None), (9000, 11000, 65, 20, 3, None)),
        (None, (1000, 12000, 70, 70, 0, None)),
    ],
    # 260 characters sent and 40 answered, at 1.5 tokens each; 304.5 ms and 607.5 ms of assumed service.
    "swe-agent": [
        ("main", (0, None, 90, 90, 15, None), (1804.5, None, 150, 45, 30, "tool"), (2412, None, 150, 45, 15, "tool")),
    ],
    # The first call is assumed to take 2.05 s.
    "mini-swe-agent": [
        ("main", (0, 2050, 1000, 1000, 100, None), (2800, 4550, 1150, 50, 10, "bash"),
                 (4550, 5550, 900, None, 20, "none")),
    ],
}  # fmt: skip

DROPPED = {
    "vllm": {"a request without its prompt's tokens in the log": 1, "a request without an answer in the log": 1},
}


def expected(name):
    """The sessions of a format's sample."""
    return tuple(
        Session(
            number,
            tuple(
                Turn(round(arrival * 1000), None if end is None else round(end * 1000), prompt, new, output, tool, role)
                for arrival, end, prompt, new, output, tool in turns
            ),
        )
        for number, (role, *turns) in enumerate(EXPECTED[name])
    )


def sample(name):
    return DATA / SAMPLES[name]


def test_every_format_has_a_sample():
    assert list(FORMATS) == list(SAMPLES) == list(EXPECTED)
    assert {path.name for path in DATA.iterdir()} == set(SAMPLES.values())


@pytest.mark.parametrize("name", FORMATS)
def test_sessions_of_the_sample(name):
    trace, dropped = convert(name, [sample(name)])
    assert trace.sessions == expected(name)
    assert dropped == Counter(DROPPED.get(name, {}))


@pytest.mark.parametrize("name", FORMATS)
def test_the_format_is_told_by_content(name, tmp_path):
    assert detect(sample(name)) == name
    (tmp_path / "unnamed").write_bytes(gzip.compress(sample(name).read_bytes()))
    assert detect(tmp_path / "unnamed") == name
    assert convert("auto", [tmp_path / "unnamed"])[0].sessions == expected(name)


@pytest.mark.parametrize("name", FORMATS)
def test_the_command_writes_a_trace_without_any_text(name, tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    assert cli.main(["convert", name, str(sample(name)), "-o", str(out)]) == 0
    assert read_trace(out).sessions == expected(name)
    written = out.read_text()
    assert "secret" in sample(name).read_text().lower() or name in ("mooncake", "qwen-bailian", "swe-agent")
    assert "secret" not in written.lower()
    shown = capsys.readouterr()
    turns = sum(len(session.turns) for session in expected(name))
    assert shown.out == f"{out}: {len(EXPECTED[name])} sessions, {turns} turns\n"
    told = [f"unison: dropped {number} x {reason}" for reason, number in DROPPED.get(name, {}).items()]
    assert shown.err.splitlines() == told


def test_a_folder_stands_for_its_files(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    shutil.copy(sample("swe-agent"), tmp_path / "deep" / "er" / "b.traj")
    shutil.copy(sample("swe-agent"), tmp_path / "deep" / "a.traj")
    (tmp_path / "deep" / "notes.txt").write_text("not a run")
    trace, _ = convert("swe-agent", [tmp_path])
    assert [session.turns for session in trace.sessions] == [expected("swe-agent")[0].turns] * 2
    with pytest.raises(ValueError, match="notes.txt looks like none of the formats trae-agent, "):
        convert("auto", [tmp_path])
    with pytest.raises(ValueError, match=r"no file \*.log\* in the folder"):
        convert("vllm", [tmp_path])


def test_formats_do_not_mix():
    with pytest.raises(ValueError, match="trae.json is of format trae-agent but .*vllm.log of format vllm"):
        convert("auto", [sample("trae-agent"), sample("vllm")])
    with pytest.raises(ValueError, match="format must be auto or one of .*, not 'csv'"):
        convert("csv", [sample("vllm")])


def test_what_several_formats_claim_is_not_guessed(tmp_path):
    both = json.loads(sample("kv-cache-tester").read_text()) | {"resourceSpans": []}
    (tmp_path / "both").write_text(json.dumps(both))
    with pytest.raises(ValueError, match="both looks like several formats: kv-cache-tester, otel"):
        detect(tmp_path / "both")


#: Format: (text to replace in the sample, replacement, line of the error, reason).
MALFORMED = [
    ("trae-agent", '"input_tokens": 20', '"input_tokens": "20"', 1,
     r"llm_interactions\[1\].response.usage.input_tokens must be an integer, not '20'"),
    ("trae-agent", '"2025-11-03T10:00:09.001000"', '"yesterday"', 1,
     r"agent_steps\[1\].timestamp must be an ISO 8601 time, not 'yesterday'"),
    ("trae-agent", '"timestamp": "2025-11-03T10:00:04.250000",', "", 1,
     r"field 'llm_interactions\[0\].timestamp' is missing"),
    ("trae-agent", '"agent_steps": [', '"agent_steps": [{', 1, "not JSON"),
    ("claude-code", '"id":"m4",', "", 10, "field 'message.id' is missing"),
    ("claude-code", '"input_tokens":60', '"input_tokens":-60', 8,
     "message.usage.input_tokens must lie in 0 ... .*, not -60"),
    ("claude-code", '"timestamp":"2026-02-06T22:00:08.000Z"', '"timestamp":8', 10,
     "timestamp must be an ISO 8601 time, not 8"),
    ("kv-cache-tester", '"t": 5.0', '"t": NaN', 1, r"requests\[3\].t must be a time in seconds, not nan"),
    ("kv-cache-tester", '"block_size": 64', '"block_size": 0', 1, "block_size must be positive, not 0"),
    ("kv-cache-tester", "[70, 71, 72]", '[70, "x"]', 1,
     r"requests\[7\].requests\[1\].hash_ids\[1\] must be an integer, not 'x'"),
    ("kv-cache-tester", '"api_time": 1.5', '"api_time": -1.5', 1,
     r"requests\[3\].api_time must not be negative, not -1.5"),
    ("mooncake", '"timestamp": 3000', '"timestamp": 3000.5', 3, "timestamp must be an integer, not 3000.5"),
    ("mooncake", "[50, 54]", "50", 7, "hash_ids must be a list, not 50"),
    ("mooncake", '{"timestamp": 5000', '["timestamp", 5000', 5, "not JSON"),
    ("qwen-bailian", '"chat_id": 9', '"chat_id": 2', 4, "chat_id 2 is given twice"),
    ("qwen-bailian", '"parent_chat_id": 8', '"parent_chat_id": -2', 4, "parent_chat_id must lie in -1 ... .*, not -2"),
    ("otel", '"value": {"intValue": "1100"}', '"value": {"intValue": "many"}', 2,
     r"resourceSpans\[0\].scopeSpans\[0\].spans\[2\].attributes\[1\].value.intValue must be an integer, not 'many'"),
    ("otel", '"spanId": "c2", ', "", 1, r"field 'resourceSpans\[0\].scopeSpans\[0\].spans\[6\].spanId' is missing"),
    ("otel", '"endTimeUnixNano": "1700000003000000000"', '"endTimeUnixNano": "0"', 1, r"spans\[1\] ends before it"),
    ("vllm", "output_token_ids: [500, 501,", "output_token_ids: [500, x,", 5, "output_token_ids must be a list of int"),
    ("vllm", "INFO 12-31 23:59:58", "INFO 12-32 23:59:58", 3, "no such time: '2000-12-32 23:59:58'"),
    ("swe-agent", '"execution_time": 1.5', '"execution_time": -1', 1,
     r"trajectory\[0\].execution_time must not be negative, not -1"),
    ("swe-agent", '"role": "system", "content": "0', '"content": "0', 1,
     r"field 'trajectory\[0\].query\[0\].role' is missing"),
    ("mini-swe-agent", '"timestamp": 1700000013.0', '"timestamp": "late"', 1,
     r"messages\[5\].extra.timestamp must be a time in seconds, not 'late'"),
    ("mini-swe-agent", '"prompt_tokens": 900', '"prompt_tokens": true', 1,
     r"messages\[7\].extra.response.usage.prompt_tokens must be an integer, not True"),
]  # fmt: skip


@pytest.mark.parametrize("name, old, new, line, reason", MALFORMED)
def test_a_malformed_source_is_told_with_line_and_record(name, old, new, line, reason, tmp_path):
    text = sample(name).read_text()
    assert old in text
    path = tmp_path / "bad"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ConvertError, match=f"^{path}:{line}: .*{reason}"):
        convert(name, [path])


@pytest.mark.parametrize("name", FORMATS)
def test_a_source_cut_in_its_middle_is_an_error_or_a_shorter_trace(name, tmp_path):
    whole = sample(name).read_bytes()
    for end in range(0, len(whole), 97):
        (tmp_path / "cut").write_bytes(whole[:end])
        try:
            trace, _ = convert(name, [tmp_path / "cut"])
        except ValueError:
            continue
        assert len(trace.turns) <= len([turn for session in expected(name) for turn in session.turns])


#: Format: (text to replace in the sample, replacement, reason of the drop).
DROPS = [
    ("trae-agent", '{"step_number": 2, "timestamp": "2025-11-03T10:00:09.001000", "tool_calls": null},', "",
     "model calls and agent steps do not pair one to one"),
    ("trae-agent", '"start_time": "2025-11-03T10:00:00', '"start_time": "2025-11-03T10:00:05',
     "a call answered before it was sent"),
    ("trae-agent", '"2025-11-03T10:00:06.000000"', '"2025-11-03T10:00:04.000000"',
     "a call sent before the answer to the last one"),
    ("trae-agent", '"cache_creation_input_tokens": 195', '"cache_creation_input_tokens": 1047471',
     "a call of more than 1,048,575 tokens"),
    ("swe-agent", '"execution_time": 1.5,', "", "a step without its execution time"),
    ("swe-agent", '"query": [', '"messages": [', "a step without its query (written before SWE-agent 1.1.0)"),
    ("mini-swe-agent", '"api_calls": 3', '"api_calls": 4', "more model calls than answers"),
    ("mini-swe-agent", '"timestamp": 1700000013.0,', "", "an answer without a time"),
    ("mini-swe-agent", '"usage": {"input_tokens": 1150, "output_tokens": 10}', '"usage": null',
     "an answer without token counts"),
]  # fmt: skip


@pytest.mark.parametrize("name, old, new, reason", DROPS)
def test_a_dropped_session_is_counted(name, old, new, reason, tmp_path):
    text = sample(name).read_text()
    assert old in text
    (tmp_path / "bad").write_text(text.replace(old, new, 1))
    trace, dropped = convert(name, [sample(name), tmp_path / "bad"])
    assert trace.sessions == expected(name)
    assert dropped == {reason: 1}
    with pytest.raises(ValueError) as caught:
        convert(name, [tmp_path / "bad"])
    assert str(caught.value) == f"no session left of format {name}: 1 x {reason}"


def test_sessions_on_one_clock_keep_their_distance(tmp_path):
    later = sample("trae-agent").read_text().replace("2025-11-03", "2025-11-02")
    (tmp_path / "earlier").write_text(later)
    trace, _ = convert("trae-agent", [sample("trae-agent"), tmp_path / "earlier"])
    assert [session.turns[0].arrival_us for session in trace.sessions] == [0, 86_400_000_000]
    assert trace.sessions[0].turns == expected("trae-agent")[0].turns


def test_input_that_counts_the_cache_in_stays(tmp_path):
    text = sample("trae-agent").read_text().replace('"anthropic"', '"openai"')
    for part, whole in ((10, 1000), (20, 1100), (5, 1300)):
        text = text.replace(f'"input_tokens": {part},', f'"input_tokens": {whole},')
    (tmp_path / "run").write_text(text)
    assert convert("trae-agent", [tmp_path / "run"])[0].sessions == expected("trae-agent")


def test_anthropics_cache_counts_are_added_even_where_they_are_small(tmp_path):
    run = json.loads(sample("trae-agent").read_text())
    for interaction, cached in zip(run["llm_interactions"], (5, 6, 7), strict=True):
        usage = {"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": cached}
        interaction["response"]["usage"] = usage
    (tmp_path / "run").write_text(json.dumps(run))
    (session,) = convert("trae-agent", [tmp_path / "run"])[0].sessions
    assert [turn.prompt_tokens for turn in session.turns] == [105, 106, 107]


@pytest.mark.parametrize(
    "usages, exclusive, prompts",
    [
        ([(10, 0, 90), (20, 90, 0)], False, [100, 110]),
        ([(100, 0, 90), (120, 90, 0)], False, [100, 120]),
        ([(100, 0, 90), (120, 90, 0)], True, [190, 210]),
        ([], True, []),
    ],
)
def test_cached_tokens_are_added_where_the_input_leaves_them_out(usages, exclusive, prompts):
    assert prompt_tokens(usages, exclusive=exclusive) == prompts


@pytest.mark.parametrize(
    "names, told",
    [([], "none"), (["b", "a", "b"], "a+b"), (["rm -rf /home/me"], "tool"), (["ok", "a.b", None], "ok+tool")],
)
def test_a_tools_name_carries_no_text(names, told):
    assert tool_names(names) == told


def test_characters_count_where_swe_agent_counted_nothing(tmp_path):
    text = sample("swe-agent").read_text().replace('"tokens_sent": 520, "tokens_received": 80', '"tokens_sent": 0')
    (tmp_path / "run").write_text(text)
    (session,) = convert("swe-agent", [tmp_path / "run"])[0].sessions
    assert [(turn.prompt_tokens, turn.output_tokens) for turn in session.turns] == [(15, 2), (25, 5), (25, 2)]


def test_swe_agent_gaps_are_the_recorded_ones():
    (session,) = convert("swe-agent", [sample("swe-agent")])[0].sessions
    assert session.gaps() == [1_500_000, 0]


def test_otlp_over_many_lines_reads_as_one(tmp_path):
    lines = [json.loads(line) for line in sample("otel").read_text().splitlines()]
    whole = {"resourceSpans": [resource for line in lines for resource in line["resourceSpans"]]}
    (tmp_path / "export").write_text(json.dumps(whole, indent=1))
    assert convert("auto", [tmp_path / "export"])[0].sessions == expected("otel")


def claude_code_line(uuid, parent, second, *, side=False, agent=None, **message):
    row = {"uuid": uuid, "parentUuid": parent, "isSidechain": side, "sessionId": "s", "type": message["role"]}
    row |= {"timestamp": f"2026-01-01T00:00:{second:02}Z", "message": message}
    return json.dumps(row | ({"agentId": agent} if agent else {})) + "\n"


def claude_code_answer(identifier, tokens, *content):
    """A part of an answer whose count is that of its start; one token of the input is from the cache."""
    usage = {"input_tokens": tokens - 1, "cache_read_input_tokens": 1, "output_tokens": 1}
    return {"role": "assistant", "id": identifier, "stop_reason": None, "content": content, "usage": usage}


def test_a_tool_of_claude_code_may_be_done_before_the_answer_is(tmp_path):
    result = {"role": "user", "content": [{"type": "tool_result"}]}
    rows = [
        claude_code_line("1", None, 0, role="user", content="x"),
        claude_code_line("2", "1", 1, **claude_code_answer("a", 10, {"type": "tool_use", "name": "Read"})),
        claude_code_line("3", "2", 2, **result),
        claude_code_line("4", "3", 3, **claude_code_answer("a", 10, {"type": "text", "text": "x" * 40})),
        claude_code_line("5", "4", 5, **claude_code_answer("b", 20)),
    ]
    # The same lines in a second file count once.
    for name in ("log", "copy"):
        (tmp_path / name).write_text("".join(rows))
    (session,) = convert("claude-code", [tmp_path / "log", tmp_path / "copy"])[0].sessions
    assert session.turns == (
        Turn(0, 3_000_000, 10, 10, 11, None, "main"),
        Turn(3_000_000, 5_000_000, 20, 10, 1, "Read", "main"),
    )


@pytest.mark.parametrize("named", [False, True])
def test_side_chains_of_claude_code_are_sessions(named, tmp_path):
    """By ``agentId`` or, in older logs, by their first line."""
    first, second = ({"side": True, "agent": agent if named else None} for agent in "ab")
    rows = [
        claude_code_line("m1", None, 0, role="user", content="x"),
        claude_code_line("m2", "m1", 1, **claude_code_answer("1", 10)),
        claude_code_line("a1", None, 2, **first, role="user", content="x"),
        claude_code_line("b1", None, 2, **second, role="user", content="x"),
        claude_code_line("a2", "a1", 3, **first, **claude_code_answer("2", 20)),
        claude_code_line("b2", "b1", 4, **second, **claude_code_answer("3", 30)),
        claude_code_line("a3", "a2", 5, **first, **claude_code_answer("4", 40)),
    ]
    (tmp_path / "log").write_text("".join(rows))
    trace, _ = convert("claude-code", [tmp_path / "log"])
    assert [[(turn.prompt_tokens, turn.role) for turn in session.turns] for session in trace.sessions] == [
        [(10, "main")],
        [(20, "subagent"), (40, "subagent")],
        [(30, "subagent")],
    ]


def request(second, prompt, output, *ids):
    return Request(second, None, prompt, output, ids)


@pytest.mark.parametrize(
    "requests, sizes",
    [
        # A prompt below one block has nothing to go by.
        ([request(0, 9, 1, 1), request(1, 15, 1, 1, 2)], [1, 1]),
        # Two conversations may share a block, three may not.
        ([request(0, 10, 90, 1), request(1, 10, 90, 1), request(2, 150, 1, 1, 5)], [1, 2]),
        ([request(0, 10, 90, 1), request(1, 10, 90, 1), request(2, 10, 90, 1), request(3, 150, 1, 1, 5)], [1, 1, 1, 1]),
        # As long as the last prompt and its answer is enough, one token less is not.
        ([request(0, 10, 5, 1), request(1, 15, 1, 1, 2)], [2]),
        ([request(0, 10, 5, 1), request(1, 14, 1, 1, 2)], [1, 1]),
        # The deeper prefix wins over the newer request.
        ([request(0, 20, 0, 1, 2), request(1, 10, 0, 1), request(2, 30, 0, 1, 2, 3)], [2, 1]),
        # Order is that of time, not of the file.
        ([request(1, 20, 0, 1, 2), request(0, 10, 0, 1)], [2]),
    ],
)
def test_prefixes_link(requests, sizes):
    assert [len(session) for session in link(requests, 10)] == sizes


TRACE = Trace(
    "t",
    (
        Session(0, (Turn(500_000, None, 10, 10, 2), Turn(3_000_000, None, 14, 2, 1), Turn(9_999_999, None, 20, 5, 0))),
        Session(7, (Turn(2_000_000, None, 30, 30, 5), Turn(3_000_000, None, 40, 5, 9))),
    ),
)  # fmt: skip
#: Seconds, session, tokens, number of its next request from 1.
ACCESSES = [(0, 0, 12, 3), (2, 7, 35, 4), (3, 0, 15, 5), (3, 7, 49, -1), (9, 0, 20, -1)]


def test_oracle_general_is_read_back(tmp_path):
    EXPORTS["oracleGeneral"](tmp_path / "t.bin", TRACE)
    data = (tmp_path / "t.bin").read_bytes()
    assert len(data) == 24 * len(ACCESSES)
    assert list(struct.iter_unpack("<IQIq", data)) == ACCESSES
    assert [path.name for path in tmp_path.iterdir()] == ["t.bin"]


def test_csv_is_read_back(tmp_path):
    EXPORTS["csv"](tmp_path / "t.csv", TRACE)
    head, *rows = (tmp_path / "t.csv").read_text().splitlines()
    assert head == "time_s,session,tokens,next_access_vtime"
    assert [tuple(map(int, row.split(","))) for row in rows] == ACCESSES


def test_libcachesim_reads_oracle_general_and_writes_the_same(tmp_path):
    """Its reader sees our records; its own converter, given the CSV, writes our bytes."""
    lib = pytest.importorskip("libcachesim", reason="needs the optional extra 'libcachesim'")
    EXPORTS["oracleGeneral"](tmp_path / "t.bin", TRACE)
    read = lib.TraceReader(str(tmp_path / "t.bin"), lib.TraceType.ORACLE_GENERAL_TRACE)
    never = (1 << 63) - 1
    rows = [(each.clock_time, each.obj_id, each.obj_size, each.next_access_vtime) for each in read]
    assert rows == [(*row[:3], never if row[3] == -1 else row[3]) for row in ACCESSES]
    # Room for everything: all but each session's first request hit.
    missed, _ = lib.LRU(cache_size=1000).process_trace(read)
    assert missed == pytest.approx(2 / 5)
    EXPORTS["csv"](tmp_path / "t.csv", TRACE)
    params = lib.ReaderInitParam()
    params.time_field, params.obj_id_field, params.obj_size_field = 1, 2, 3
    params.delimiter, params.has_header, params.has_header_set = ",", True, True
    params.obj_id_is_num = params.obj_id_is_num_set = True
    source = lib.TraceReader(str(tmp_path / "t.csv"), lib.TraceType.CSV_TRACE, params)
    lib.Util.convert_to_oracleGeneral(source._reader, str(tmp_path / "theirs.bin"))
    theirs = list(struct.iter_unpack("<IQIq", (tmp_path / "theirs.bin").read_bytes()))
    assert theirs == ACCESSES


def test_the_command_exports_a_converted_trace(tmp_path, capsys):
    trace = tmp_path / "t.jsonl.gz"
    cli.main(["convert", "auto", str(sample("mooncake")), "-o", str(trace)])
    capsys.readouterr()
    out = tmp_path / "t.csv"
    assert cli.main(["export", "csv", str(trace), "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 8 accesses to 6 sessions\n"
    assert out.read_text().splitlines()[5] == "4,3,1580,8"


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["convert", "trae-agent", "{tmp}/none", "-o", "{tmp}/out"], "{tmp}/none: No such file or directory"),
        (["convert", "auto", "{tmp}/empty", "-o", "{tmp}/out"], "{tmp}/empty looks like none of the formats"),
        (["convert", "vllm", "{tmp}/empty", "-o", "{tmp}/out"], "no session left of format vllm: none was found"),
        (["export", "oracleGeneral", "gaia", "-o", "{tmp}/out.gz"], "libCacheSim reads no gzip: .*not"),
    ],
)
def test_a_users_error_is_one_line_and_no_file(tmp_path, capsys, arguments, reason):
    (tmp_path / "empty").touch()
    assert cli.main([argument.format(tmp=tmp_path) for argument in arguments]) == 2
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1 and shown.out == ""
    assert reason.format(tmp=tmp_path).split(": .*")[0] in shown.err
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
