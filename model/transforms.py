"""Methods that reshape the load and rank nobody, as transforms of trace and load: token pruning and admission.

They work before a schedule is made: ``make_schedule(intent(trace), load)``. Capacities must come from the schedule of
the original trace, else the memory shrinks with the load. What pruning costs in accuracy is not modelled. The methods
read texts and attention, which no trace has; the rules here keep their published shape, and each parameter without a
source is open.
"""

import math
from dataclasses import replace

from unison.model.load import footprints
from unison.model.trace import Session, Trace

__all__ = ["TRANSFORMS", "admission", "commit", "decay", "intent"]

#: Tokens of a page that is kept or retired as a whole.
PAGE = 16
#: Waits whose input a person gave; ``none`` brought none of a tool's.
NO_TOOL = ("user", "none", None)


def _history(turn):
    """Prompt tokens that an earlier turn left; none where that is unknown, as the prompt then counts as new."""
    return 0 if turn.new_prompt_tokens is None else turn.prompt_tokens - turn.new_prompt_tokens


def _pruned(trace, name, kept_of):
    """The trace with each turn's history cut to ``kept_of(turns)``, an iterable of tokens by turn."""
    sessions = []
    for session in trace.sessions:
        turns = tuple(
            replace(turn, prompt_tokens=turn.prompt_tokens - _history(turn) + min(kept, _history(turn)))
            for turn, kept in zip(session.turns, kept_of(session.turns), strict=True)
        )
        sessions.append(Session(session.number, turns))
    return Trace(f"{trace.name}+{name}", tuple(sessions))


def intent(trace, *, budget=8192):
    """IntentKV: of the history at most ``budget`` tokens are kept, whatever they are; new tokens are all kept.

    Source: arXiv 2606.09916, whose main budget is 8k. Which tokens the intent picks does not matter here.

    Raises
    ------
    ValueError
        If the budget is negative.
    """
    if budget < 0:
        raise ValueError(f"budget must not be negative, not {budget!r}")
    return _pruned(trace, "intentkv", lambda turns: [budget] * len(turns))


def decay(trace, *, tool=4.0, answer=8.0, user=math.inf):
    """MemDecay: each region of the history halves every so many turns; the first prompt is kept.

    What the agent itself dropped from the history, it dropped evenly.

    Parameters
    ----------
    trace : Trace
    tool, answer, user : float
        Half-lives in turns of what tools returned, of answers and of what persons wrote; open. A turn without a known
        history begins anew.

    Raises
    ------
    ValueError
        Unless the half-lives are positive.
    """
    for name, half_life in (("tool", tool), ("answer", answer), ("user", user)):
        if not half_life > 0:
            raise ValueError(f"the half-life {name} must be positive, not {half_life!r}")

    def kept_of(turns):
        regions = []
        for index, turn in enumerate(turns):
            if turn.new_prompt_tokens is None:
                regions = []
            left = sum(tokens * 2 ** ((born - index) / half_life) for tokens, born, half_life in regions)
            yield math.floor(_history(turn) * left / max(sum(tokens for tokens, _, _ in regions), 1))
            if not regions:
                regions.append((turn.prompt_tokens, index, math.inf))
            else:
                regions.append((turn.new_prompt_tokens, index, user if turn.tool in NO_TOOL else tool))
            regions.append((turn.output_tokens, index, answer))

    return _pruned(trace, "memdecay", kept_of)


def commit(trace, *, share=0.5, lag=1):
    """CommitKV: once a tool's result is committed, a share of its pages is retired.

    A result that came with the prompt of turn k is committed ``lag`` turns later, when the agent has acted on it; until
    then all of it stays. First prompt, answers and persons' input are never retired.

    Parameters
    ----------
    trace : Trace
    share : float
        Share of the pages of 16 tokens, rounded down; open.
    lag : int
        Turns; open.

    Raises
    ------
    ValueError
        Unless 0 <= share <= 1 and ``lag`` is positive.
    """
    if not 0 <= share <= 1 or not lag >= 1:
        raise ValueError(f"share must be 0 to 1 and lag positive, not {share!r} and {lag!r}")

    def kept_of(turns):
        retired = {}
        for index, turn in enumerate(turns):
            if turn.new_prompt_tokens is None:
                retired = {}
            committed = sum(tokens for due, tokens in retired.items() if due <= index)
            yield max(_history(turn) - committed, 0)
            if index and turn.new_prompt_tokens is not None and turn.tool not in NO_TOOL:
                retired[index + lag] = math.floor(turn.new_prompt_tokens // PAGE * share) * PAGE

    return _pruned(trace, "commitkv", kept_of)


def admission(trace, load, tokens):
    """Job admission: the load with the most concurrent sessions whose mean footprint, busy and paused, fits.

    A job runs from its first turn to its last once it is admitted; the others wait and the whole takes longer.

    Parameters
    ----------
    trace : Trace
    load : Load
        Of a closed loop.
    tokens : int
        Memory, SRAM and HBM.

    Returns
    -------
    Load
        At least one session runs.

    Raises
    ------
    ValueError
        If sessions start otherwise: nobody waits to be admitted there.
    """
    if load.arrivals != "closed":
        raise ValueError(f"admission needs a closed loop, not arrivals {load.arrivals!r}")
    low, high = 1, load.concurrency
    while low < high:
        middle = (low + high + 1) // 2
        if sum(footprints(trace, replace(load, concurrency=middle))) <= tokens:
            low = middle
        else:
            high = middle - 1
    return replace(load, concurrency=low)


#: Transforms of a trace by name.
TRANSFORMS = {"intentkv": intent, "memdecay": decay, "commitkv": commit}
