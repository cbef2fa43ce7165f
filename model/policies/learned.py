"""What several policies learn from the waits and roles they have seen: kept in ``shared`` and ``memory``."""

import numba
import numpy as np

from unison.model.accounting import TTFT_UNIT_US
from unison.model.schedule import USER

__all__ = [
    "ROLE_MEMORY",
    "WAIT_MEMORY",
    "began_wait",
    "ended_wait",
    "ended_role",
    "learn_mean",
    "learn_role",
    "mean_of",
    "mean_table",
    "role_chances",
    "role_table",
    "tool_calls",
    "us_per_token",
]

#: Numbers a session that ``began_wait`` and ``learn_role`` keep, from place 0 of ``memory``.
WAIT_MEMORY = ROLE_MEMORY = 1
#: Waits that no tool caused.
NO_CALLS = (USER, "none")


def us_per_token(cost):
    """Microseconds of a token at ``cost`` units."""
    return cost * TTFT_UNIT_US


def tool_calls(schedule):
    """1 for each tool class of the schedule that is the call of a tool, 0 for a person's wait or none."""
    return [float(name not in NO_CALLS) for name in schedule.tools]


@numba.njit(cache=True)
def began_wait(slots, i, now, memory):
    """Remembers that the session of slot ``i`` pauses."""
    memory[slots[i].session, 0] = now + 1


@numba.njit(cache=True)
def ended_wait(slots, i, now, memory):
    """The wait that ends with this arrival, us, -1 where none was seen.

    It counts also when the slot was lost meanwhile, as GAP_END does not: the longest waits are those. A turn that found
    no slot at all is not seen and lengthens it.
    """
    began = np.int64(memory[slots[i].session, 0])
    memory[slots[i].session, 0] = 0.0
    return now - (began - 1) if began else np.int64(-1)


def mean_table(schedule):
    """Counts and sums by tool class, all classes pooled in the first row; flat, for ``shared``."""
    return [0.0] * (2 * (1 + len(schedule.tools)))


@numba.njit(cache=True)
def learn_mean(shared, at, tool, value):
    """Adds ``value`` to the class and to the pool of the ``mean_table`` that begins at ``at``."""
    shared[at] += 1
    shared[at + 1] += value
    if tool >= 0:
        shared[at + 2 * (tool + 1)] += 1
        shared[at + 2 * (tool + 1) + 1] += value


@numba.njit(cache=True)
def mean_of(shared, at, tool):
    """Mean of the class, else of the pool; -1 where nothing was seen."""
    row = at + 2 * (tool + 1)
    if shared[row] == 0:
        row = at
    return shared[row + 1] / shared[row] if shared[row] else -1.0


def role_table(schedule):
    """Counts of steps from a role to a role or, in the last column, to the end; the first role is the unknown one."""
    roles = 1 + len(schedule.roles)
    return [0.0] * (roles * (roles + 1))


@numba.njit(cache=True)
def learn_role(slots, i, memory, table):
    """Counts the step from the session's last role to that of this arrival."""
    roles = int(np.sqrt(len(table)))
    before = int(memory[slots[i].session, 0])
    role = slots[i].role + 1
    if before:
        table[(before - 1) * (roles + 1) + role] += 1
    memory[slots[i].session, 0] = role + 1


@numba.njit(cache=True)
def ended_role(slots, i, table):
    """Counts the end of a session in its role."""
    roles = int(np.sqrt(len(table)))
    table[(slots[i].role + 1) * (roles + 1) + roles] += 1


@numba.njit(cache=True)
def role_chances(table):
    """Chances of the next role by role, float64[roles, roles]; what is missing to 1 is the end.

    A role that was never left stays itself.
    """
    roles = int(np.sqrt(len(table)))
    chances = np.zeros((roles, roles))
    for role in range(roles):
        row = table[role * (roles + 1) : (role + 1) * (roles + 1)]
        total = row.sum()
        if total == 0:
            chances[role, role] = 1.0
        else:
            chances[role] = row[:roles] / total
    return chances
