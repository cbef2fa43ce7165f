"""The cocotb module that replays the stream of its job."""

import json
from pathlib import Path

import cocotb

from unison.model.stream import read_stream
from unison.sim.replay import replay
from unison.sim.runner import load_job


@cocotb.test()
async def replays(dut):
    """RTL and golden model give the same answers, counters and tables."""
    job = load_job()
    result = await replay(dut, read_stream(job["stream"]), job)
    Path(job["result"]).write_text(json.dumps(result))
