"""What the IP costs on a Xilinx 7-series FPGA, block by block, by Yosys: ``make synth``.

Counts after ``synth_xilinx`` without place and route. LUT in total is the usual upper bound: LUTs, one for each shift
register and four for each RAM32M or RAM64M.
"""

import argparse
import json
import os
import re
import tempfile
from importlib.metadata import version
from pathlib import Path

from unison.model.files import write_json
from unison.params import N64

os.environ["AMARANTH_USE_YOSYS"] = "builtin"

REPORT = Path("build/synth/area.json")
#: Cells by the kind that is counted.
KINDS = {
    "lut": r"LUT[1-6]|INV",
    "ff": r"FD[RSCP]E",
    "srl": r"SRL(16E|C32E)",
    "lutram": r"RAM(32M|64M|32X1D|64X1D|128X1D|256X1D)",
    "dsp": r"DSP48E1",
    "bram": r"RAMB(18|36)E1",
    "carry": r"CARRY4",
}
LUTS_OF_A_LUTRAM = 4


def synthesise(p):
    """The statistics of Yosys for an instance, as it writes them in JSON."""
    from amaranth.back import rtlil
    from pyosys import libyosys

    from unison.hdl.top import Unison

    top = Unison(p)
    ports = [getattr(top, name) for name in top.signature.members]
    with tempfile.TemporaryDirectory() as folder:
        source, statistics = Path(folder, "unison.il"), Path(folder, "stat.json")
        source.write_text(rtlil.convert(top, name="unison", ports=ports, emit_src=False))
        design = libyosys.Design()
        for command in (
            f"read_rtlil {source}",
            "synth_xilinx -family xc7 -top unison -noiopad -noclkbuf",
            f"tee -q -o {statistics} stat -json -tech xilinx",
        ):
            libyosys.run_pass(f"tee -q {command}" if not command.startswith("tee") else command, design)
        return json.loads(statistics.read_text())


def count(cells):
    """Cells of each of KINDS, and ``lut_total``, from a dict of cell types."""
    counts = {kind: 0 for kind in KINDS}
    for cell, number in cells.items():
        for kind, pattern in KINDS.items():
            if re.fullmatch(pattern, cell):
                counts[kind] += int(number)
    counts["lut_total"] = counts["lut"] + counts["srl"] + LUTS_OF_A_LUTRAM * counts["lutram"]
    return counts


def blocks(statistics):
    """Counts of each module alone, by its name in the hierarchy, and of the whole under ``total``."""
    cells = {name.lstrip("\\"): module["num_cells_by_type"] for name, module in statistics["modules"].items()}
    rows = {name: count(own) for name, own in sorted(cells.items())}

    def whole(name):
        below = [(whole(cell.lstrip("\\")), n) for cell, n in cells[name].items() if cell.lstrip("\\") in cells]
        return {kind: own + sum(part[kind] * n for part, n in below) for kind, own in rows[name].items()}

    rows["total"] = whole("unison")
    return rows


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=N64.sessions, help="default %(default)s")
    p = N64.replace(sessions=parser.parse_args(arguments).sessions)
    rows = blocks(synthesise(p))
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    tools = {name: version(name) for name in ("amaranth", "pyosys", "unison")}
    write_json(REPORT, {"tools": tools, "family": "xc7", "n": p.sessions, "blocks": rows})
    kinds = list(rows["total"])
    width = max(map(len, rows))
    print(f"{'block':{width}}  " + "  ".join(f"{kind:>9}" for kind in kinds))
    for name, counts in rows.items():
        print(f"{name:{width}}  " + "  ".join(f"{counts[kind]:>9,}" for kind in kinds))
    print(f"N = {p.sessions}, xc7, no place and route; {REPORT}")


if __name__ == "__main__":
    main()
