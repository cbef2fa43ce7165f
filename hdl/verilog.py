"""Writes the IP as one plain Verilog file, the same bytes for the same parameters."""

import argparse
import os
from pathlib import Path

# A Yosys on PATH would silently be preferred, and the Verilog it writes is another.
os.environ["AMARANTH_USE_YOSYS"] = "builtin"

from amaranth.back import verilog

from unison.hdl.top import Unison
from unison.params import N64

__all__ = ["emit", "main"]


def emit(p):
    """The Verilog text of an instance ``p``; the top module is ``unison``.

    Ports: ``clk``, ``rst`` (synchronous, active high), APB4 (``paddr`` ... ``pslverr``), ``irq``.
    """
    top = Unison(p)
    ports = [getattr(top, name) for name in top.signature.members]
    return verilog.convert(top, name="unison", ports=ports, emit_src=False, strip_internal_attrs=True)


def main(arguments=None):
    """Command line: ``python -m unison.hdl.verilog --sessions 64 -o build/unison.v``."""
    parser = argparse.ArgumentParser(prog="python -m unison.hdl.verilog", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="file to write")
    for name in ("sessions", "event_depth", "answer_depth", "score_bits", "gap_bits", "hazard_bits", "penalty"):
        default = getattr(N64, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, help=f"default {default}")
    options = vars(parser.parse_args(arguments))
    output = options.pop("output")
    try:
        text = emit(N64.replace(**options))
    except ValueError as error:
        parser.error(str(error))
    output.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when complete: an interrupted run leaves no half-written file.
    partial = output.with_name(output.name + ".partial")
    partial.write_text(text)
    partial.replace(output)
    print(f"{output}: {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()
