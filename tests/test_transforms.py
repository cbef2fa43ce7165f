"""Pruning and admission on sessions worked out by hand, and on random ones for what must hold always."""

import math
from dataclasses import replace

import numpy as np
import pytest

from unison.model.load import Load, footprints
from unison.model.trace import Session, Trace, Turn
from unison.model.transforms import TRANSFORMS, admission, commit, decay, intent


def trace_of(*turns):
    """One session of turns ``(prompt, new, output, tool)``, a second each and a second apart."""
    made = (
        Turn(index * 2_000_000, index * 2_000_000 + 1_000_000, prompt, new, output, tool)
        for index, (prompt, new, output, tool) in enumerate(turns)
    )
    return Trace("hand", (Session(0, tuple(made)),))


def prompts(trace):
    return [turn.prompt_tokens for turn in trace.turns]


GROWING = trace_of((100, 100, 10, None), (150, 40, 10, "bash"), (190, 30, 10, "user"), (240, 40, 10, "bash"))


def test_intent_keeps_a_budget_of_history_and_all_that_is_new():
    # The history is 0, 110, 160, 200.
    pruned = intent(GROWING, budget=120)
    assert prompts(pruned) == [100, 150, 150, 160]
    assert [turn.new_prompt_tokens for turn in pruned.turns] == [100, 40, 30, 40]
    assert prompts(intent(GROWING, budget=0)) == [100, 40, 30, 40]
    assert pruned.name == "hand+intentkv"
    assert [turn.arrival_us for turn in pruned.turns] == [turn.arrival_us for turn in GROWING.turns]


def test_decay_halves_each_region_at_its_own_pace():
    # Turn 1: 100, 10 / 2; turn 2: 100, 10 / 4, 40 / 2**0.5, 10 / 2; turn 3: 100, 10 / 8, 20, 10 / 4, 30 of a person, 5.
    assert prompts(decay(GROWING, tool=2, answer=1)) == [100, 105 + 40, 135 + 30, 158 + 40]
    assert prompts(decay(GROWING, tool=2, answer=1, user=1)) == [100, 105 + 40, 135 + 30, 143 + 40]
    assert prompts(decay(GROWING, tool=math.inf, answer=math.inf)) == prompts(GROWING)


def test_decay_takes_its_share_of_a_history_that_lost_tokens():
    # 50 of 110 tokens are left of turn 0, where 105 would be left of 110.
    assert prompts(decay(trace_of((100, 100, 10, None), (90, 40, 0, "bash")), answer=1)) == [100, 50 * 105 // 110 + 40]


def test_commit_retires_pages_once_a_tool_was_answered():
    # 40 tokens are two whole pages, of which one goes; the result of turn 1 is history at turn 2, committed by then.
    assert prompts(commit(GROWING)) == [100, 150, 174, 224]
    assert prompts(commit(GROWING, share=1)) == [100, 150, 158, 208]
    assert prompts(commit(GROWING, lag=2)) == [100, 150, 190, 224]
    assert prompts(commit(GROWING, share=0)) == prompts(GROWING)


def test_an_unknown_history_begins_anew():
    shrunk = trace_of((100, 100, 10, None), (150, 40, 10, "bash"), (80, None, 10, "bash"), (100, 10, 10, "bash"))
    for transform, last in ((lambda trace: intent(trace, budget=50), 60), (lambda trace: decay(trace, answer=1), 95)):
        assert prompts(transform(shrunk))[2:] == [80, last]
    assert prompts(commit(shrunk, share=1))[2:] == [80, 100]


def random_trace(seed):
    rng = np.random.default_rng(seed)
    sessions = []
    for number in range(30):
        now, rows, context = 0, [], 0
        for index in range(int(rng.integers(1, 15))):
            done = now + int(rng.integers(1, 10**6))
            new, kept, output = int(rng.integers(1, 500)), int(rng.integers(0, context + 1)), int(rng.integers(0, 90))
            tool = str(rng.choice(["bash", "user", "none"])) if index else None
            known = rng.random() > 0.1
            rows.append(Turn(now, done, kept + new, new if known else None, output, tool))
            now, context = done + int(rng.integers(0, 10**7)), kept + new + output
        sessions.append(Session(number, tuple(rows)))
    return Trace("random", tuple(sessions))


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("seed", range(5))
def test_pruning_only_takes_history_away(name, seed):
    trace = random_trace(seed)
    settings = {"intentkv": {"budget": 100}}.get(name, {})
    pruned = TRANSFORMS[name](trace, **settings)
    for before, after in zip(trace.turns, pruned.turns, strict=True):
        assert replace(after, prompt_tokens=before.prompt_tokens) == before
        assert (before.new_prompt_tokens or 1) <= after.prompt_tokens <= before.prompt_tokens
    assert sum(prompts(pruned)) < sum(prompts(trace))


def test_admission_runs_as_many_jobs_as_fit():
    trace = random_trace(1)
    load = Load(concurrency=12)
    needs = [sum(footprints(trace, replace(load, concurrency=jobs))) for jobs in range(1, 13)]
    for jobs in (1, 5, 12):
        assert admission(trace, load, needs[jobs - 1]).concurrency == jobs
    assert admission(trace, load, 0) == replace(load, concurrency=1)
    assert admission(trace, load, 10**9) == load


@pytest.mark.parametrize(("build", "match"), [
    (lambda: intent(GROWING, budget=-1), "-1"),
    (lambda: decay(GROWING, tool=0), "tool must be positive, not 0"),
    (lambda: commit(GROWING, share=1.5), "1.5"),
    (lambda: commit(GROWING, lag=0), "0"),
    (lambda: admission(GROWING, Load(arrivals="poisson"), 10), "poisson"),
])  # fmt: skip
def test_bad_parameters_are_refused(build, match):
    with pytest.raises(ValueError, match=match):
        build()
