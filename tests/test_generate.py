"""Workload families: measured laws, generated traces, and how close these come to their source."""

import bisect
import hashlib
import json

import pytest

from unison.model import generate as generate_module
from unison.model.generate import (
    CHECKED,
    FAMILIES,
    FamilyError,
    fit,
    generate,
    measure,
    open_trace,
    quantities,
    read_family,
    write_family,
)
from unison.model.trace import Session, Trace, Turn, read_trace, real_traces, write_trace

SOURCES = {
    "gaia": "gaia_miro",
    "trae_sonnet": "iso_trae_sonnet45",
    "trae_gpt5": "iso_trae_gpt5",
    "acg": "acg_haiku",
    "claude_code": "claude_code",
    "chat": "mooncake_conv",
}
#: First hexadecimal digits of the SHA-256 of ten generated sessions.
PINNED = {
    "gaia": "6da6b80691289b27",
    "trae_sonnet": "501527b11e5b907c",
    "trae_gpt5": "41ba8b6b453f7569",
    "acg": "ae2c2ac451b17833",
    "claude_code": "34e58a52fdd3fe3e",
    "chat": "1ec4111f177a1aee",
}
#: How far, in probability, a generated quantity may be from its source at the checked quantiles, and its mean's ratio.
#: Tokens held over time compound the errors of turns, gaps and prompts; gaia's source has 21 sessions only.
TOLERANCES = {
    "turns": (0.10, 1.2),
    "gap": (0.06, 1.5),
    "first_prompt": (0.06, 1.2),
    "prompt": (0.12, 1.4),
    "new": (0.06, 1.6),
    "output": (0.06, 1.2),
    "service": (0.06, 1.2),
    "reused": (0.06, 1.1),
    "busy": (0.2, 1.7),
    "paused": (0.2, 1.7),
}


def digest(trace, tmp_path):
    write_trace(tmp_path / "t.jsonl", trace)
    return hashlib.sha256((tmp_path / "t.jsonl").read_bytes()).hexdigest()[:16]


def distances(trace, law):
    """For each quantity how far the shares of ``trace`` are from the levels of the quantiles in ``law``."""
    found = {}
    for name, values in quantities(trace).items():
        ordered = sorted(float(value) for value in values)
        worst = 0
        for level, quantile in zip(CHECKED, law[name]["quantiles"], strict=True) if ordered else ():
            # The quantiles are rounded, and many equal values make the share jump there.
            below = bisect.bisect_left(ordered, quantile * 0.999) / len(ordered)
            upto = bisect.bisect_right(ordered, quantile * 1.001) / len(ordered)
            worst = max(worst, below - level, level - upto)
        if ordered:
            found[name] = worst
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_generated_traces_are_reproducible_and_obey_the_schema(name, tmp_path):
    family = read_family(name)
    trace = generate(family, sessions=10)
    assert digest(trace, tmp_path) == PINNED[name]
    assert read_trace(tmp_path / "t.jsonl").sessions == trace.sessions
    assert generate(family, sessions=10, seed=1) != trace
    assert len(generate(family).sessions) == family["sessions"] == FAMILIES[name]
    assert open_trace(name) == generate(family)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_longer_trace_begins_like_a_shorter_one(name):
    family = read_family(name)
    assert generate(family, sessions=12).sessions[:5] == generate(family, sessions=5).sessions


@pytest.mark.parametrize("name", FAMILIES)
def test_generated_quantities_are_close_to_the_stored_quantiles(name):
    family = read_family(name)
    trace = generate(family, sessions=max(FAMILIES[name], 200))
    means = measure(trace)
    for quantity, distance in distances(trace, family["measured"]).items():
        limit, ratio = TOLERANCES[quantity]
        assert distance <= limit, quantity
        source = family["measured"][quantity]["mean"]
        assert source / ratio <= means[quantity]["mean"] <= source * ratio, quantity


def test_the_comparison_can_fail():
    family = read_family("gaia")
    close = distances(generate(family), family["measured"])
    other = distances(generate(read_family("acg")), family["measured"])
    for quantity in ("turns", "gap", "prompt", "service"):
        assert other[quantity] > TOLERANCES[quantity][0] > close[quantity]


@pytest.mark.parametrize("name", FAMILIES)
def test_shipped_families_are_what_fit_measures(name, tmp_path):
    paths = real_traces()
    if SOURCES[name] not in paths:
        pytest.skip(f"no real trace {SOURCES[name]}: set UNISON_TRACES to a folder that holds it")
    assert fit(read_trace(paths[SOURCES[name]]), name) == read_family(name)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_small(name, tmp_path):
    write_family(tmp_path / "family.json", read_family(name))
    assert (tmp_path / "family.json").stat().st_size <= 30_000


def test_tool_waits_of_one_class_keep_their_law():
    # Two tools in strict turn, one slow and one fast, and a new prompt that depends on the tool.
    def session(number):
        turns = [Turn(0, 10, 100, 100, 5, None, "main")]
        for index in range(6):
            tool, gap, new = (("slow", 1000, 40), ("fast", 10, 3))[index % 2]
            before = turns[-1]
            start = before.completion_us + gap
            turns.append(Turn(start, start + 20, before.prompt_tokens + 5 + new, new, 5, tool, "main"))
        return Session(number, tuple(turns))

    family = fit(Trace("toy", tuple(session(number) for number in range(12))), "toy")
    for drawn in generate(family, sessions=20).sessions:
        assert [turn.tool for turn in drawn.turns[1:]] == ["slow", "fast"] * 3
        assert drawn.gaps() == [1000, 10] * 3
        assert [turn.new_prompt_tokens for turn in drawn.turns[1:]] == [40, 3] * 3
        assert drawn.turns[-1].prompt_tokens == 100 + 6 * 5 + 3 * 43


@pytest.mark.parametrize("lengths", [[1], [2, 3, 7], list(range(1, 60)), [4] * 30])
def test_lengths_of_sessions_keep_their_law(lengths):
    def session(number, length):
        return Session(number, tuple(Turn(turn, turn, 5, 0, 0, "x" if turn else None) for turn in range(length)))

    family = fit(Trace("toy", tuple(session(*each) for each in enumerate(lengths))), "toy")
    drawn = [len(each.turns) for each in generate(family, sessions=3000).sessions]
    assert min(lengths) == min(drawn) and max(drawn) == max(lengths)
    # Between the few lengths of a small source the hazard is spread, which shortens the longest.
    assert sum(drawn) / 3000 == pytest.approx(sum(lengths) / len(lengths), rel=0.12)


def test_similar_gaps_within_a_session_are_measured_and_drawn():
    def session(number, gaps):
        time = 0
        turns = []
        for index, gap in enumerate(gaps):
            turns.append(Turn(time, time + 1, 10, 0, 1, "x" if index else None, None))
            time += 1 + gap
        return Session(number, tuple(turns))

    alike = Trace("alike", tuple(session(number, [100 * (number + 1)] * 9) for number in range(20)))
    mixed = Trace("mixed", tuple(session(number, range(100 + number, 2000, 199)) for number in range(20)))
    assert fit(alike, "alike")["laws"]["similarity"]["gap"] > 0.9
    assert fit(mixed, "mixed")["laws"]["similarity"]["gap"] < 0.1
    again = generate(fit(alike, "alike"), sessions=60)
    assert fit(again, "again")["laws"]["similarity"]["gap"] > 0.8


def test_a_context_never_outgrows_its_source():
    for name in ("claude_code", "trae_gpt5"):
        family = read_family(name)
        trace = generate(family, sessions=80, seed=5)
        largest = max(turn.prompt_tokens + turn.output_tokens for turn in trace.turns)
        assert largest <= family["laws"]["context_max"]


def test_a_family_of_one_turn_sessions_can_be_fitted():
    trace = Trace("single", tuple(Session(number, (Turn(0, 5, 7, 7, 1),)) for number in range(3)))
    assert all(len(session.turns) == 1 for session in generate(fit(trace, "single")).sessions)


@pytest.mark.parametrize(
    "damage, reason",
    [
        (lambda family: family.update(version=2), "is not 'unison-family' version 1"),
        (lambda family: family.pop("laws"), "field 'laws' is missing"),
        (lambda family: family["laws"].pop("gap"), "field 'gap' is missing"),
        (lambda family: family.update(sessions=0), "sessions must be a positive integer, not 0"),
        (lambda family: family["laws"]["output"].pop(), "output must be 18 quantiles"),
        (lambda family: family["laws"]["gap"][0].reverse(), "gap must not fall"),
        (lambda family: family["laws"]["prompt"].__setitem__(0, "1"), "prompt must hold numbers"),
        (lambda family: family["laws"]["gap"].pop(), "classes, gap and first differ in length"),
        (lambda family: family["laws"]["chain"].pop(), "chain must be 8 phases of 3 classes"),
        (lambda family: family["laws"].update(service=5), "laws are not of the right shape"),
        (lambda family: family["laws"].update(turns=[]), "turns must be bins of rising last turns"),
        (lambda family: family["laws"]["turns"].reverse(), "turns must be bins of rising last turns"),
        (lambda family: family["laws"]["turns"].append([99, 1.5]), "turns must hold hazards of 0 ... 1"),
        (lambda family: family["laws"]["similarity"].update(gap=1), "similarity of 'gap' must lie in 0 ... 1, not 1"),
    ],
)
def test_malformed_families_are_named(tmp_path, damage, reason):
    family = read_family("gaia")
    damage(family)
    (tmp_path / "bad.json").write_text(json.dumps(family))
    with pytest.raises(FamilyError, match=rf"bad\.json:1: .*{reason}"):
        read_family(str(tmp_path / "bad.json"))


def test_unknown_families_are_refused():
    with pytest.raises(ValueError, match="family must be a file or one of gaia, .*, not 'gaja'"):
        read_family("gaja")
    with pytest.raises(ValueError, match="sessions must be positive, not 0"):
        generate(read_family("gaia"), sessions=0)
    assert set(generate_module.FAMILIES) == set(SOURCES)
