"""The cocotb module that fuzzes the instance of its job; ``resets`` is for a job of its own."""

import json
from fractions import Fraction
from pathlib import Path

import cocotb

from unison.params import Params
from unison.sim.fuzz import fuzz, reset_everywhere
from unison.sim.runner import load_job


def _params(job):
    return Params(**job["params"] | {"epsilon": Fraction(job["params"]["epsilon"])})


@cocotb.test()
async def fuzzes(dut):
    """RTL and golden model agree on random events."""
    job = load_job()
    Path(job["result"]).write_text(json.dumps(await fuzz(dut, _params(job), job)))


@cocotb.test()
async def resets(dut):
    """RTL and golden model agree after a reset in every state."""
    job = load_job()
    Path(job["result"]).write_text(json.dumps(await reset_everywhere(dut, _params(job), job)))
