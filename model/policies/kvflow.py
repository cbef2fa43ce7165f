"""KVFlow: the agent that is most steps away from its execution leaves (arXiv 2507.07400)."""

from functools import partial

import numpy as np

from unison.model.policies.base import Policy, score

__all__ = ["kvflow", "steps_to_execution"]

#: Steps to the execution of an agent that no workflow will run.
_NEVER_RUNS = 1000
#: A time in microseconds below this orders sessions of as many steps; both are exact.
_TIMES = 1 << 42


def steps_to_execution(joins, running):
    """Steps until each agent of a step graph without cycles runs.

    Parameters
    ----------
    joins : dict
        By agent ``("and", predecessors)``, which waits for all of them, or ``("or", predecessors)``, for the first.
    running : collection
        Agents that run now, 0 steps away.

    Returns
    -------
    dict
        Steps by agent; an agent that cannot run is left out.

    Raises
    ------
    ValueError
        For another kind of join.
    """
    steps = dict.fromkeys(running, 0)
    for agent, (kind, _) in joins.items():
        if kind not in ("and", "or"):
            raise ValueError(f"the join of agent {agent!r} must be and or or, not {kind!r}")
    for _ in joins:
        for agent, (kind, before) in joins.items():
            known = [steps[other] for other in before if other in steps]
            if agent in running or not known or (kind == "and" and len(known) < len(before)):
                continue
            steps[agent] = 1 + (max(known) if kind == "and" else min(known))
    return steps


@score
def _steps(slots, i, now, own, memory, shared):
    away = shared[0] if slots[i].completed else shared[1 + slots[i].role + 1]
    return away * float(_TIMES) - slots[i].paused_us


def _steps_table(setting, steps):
    declared = [(steps or {}).get(role, _NEVER_RUNS) for role in setting.schedule.roles]
    return np.array([_NEVER_RUNS, _NEVER_RUNS, *declared], dtype=np.float64)


def kvflow(name="kvflow", *, steps=None):
    """KVFlow: most steps to execution first, then idle time.

    Parameters
    ----------
    name : str
    steps : dict, optional
        Steps by role name, as ``steps_to_execution`` gives them, at most 1000; a role without is 1000 away.

    Raises
    ------
    ValueError
        For steps out of range.
    """
    for role, away in (steps or {}).items():
        if not 0 <= away <= _NEVER_RUNS:
            raise ValueError(f"the steps of role {role!r} must be 0 to {_NEVER_RUNS}, not {away!r}")
    return Policy(
        name=name,
        summary=f"The session of the agent with most steps to its execution, {_NEVER_RUNS} if no workflow will run it, "
        "then by idle time. Without a step graph every agent is as far away: LRU, completed sessions too. Prefetch of "
        "the next step is left out. Source: KVFlow, mem_cache/hiradix_cache.py.",
        score=_steps,
        needs={"step_graph"} if steps is None else {"completion", "role"},
        prepare=partial(_steps_table, steps=steps),
    )
