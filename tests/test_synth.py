"""The area report adds up what Yosys counts."""

import importlib.util
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("area", Path(__file__).parent.parent / "synth" / "area.py")
area = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(area)


def test_cells_are_counted_by_kind():
    cells = {"LUT6": 3, "LUT2": 1, "INV": 1, "FDRE": 7, "FDSE": 2, "SRL16E": 4, "RAM32M": 2, "RAM64M": 1, "DSP48E1": 5}
    cells |= {"RAMB36E1": 1, "CARRY4": 6, "MUXF7": 9, "unison.core": 1}
    assert area.count(cells) == {
        "lut": 5,
        "ff": 9,
        "srl": 4,
        "lutram": 3,
        "dsp": 5,
        "bram": 1,
        "carry": 6,
        "lut_total": 5 + 4 + 4 * 3,
    }


def test_a_block_that_stands_twice_counts_twice_in_the_total():
    modules = {
        "\\unison": {"num_cells_by_type": {"\\unison.pair": 1, "LUT1": 1}},
        "\\unison.pair": {"num_cells_by_type": {"\\unison.leaf": 2, "FDRE": 1}},
        "\\unison.leaf": {"num_cells_by_type": {"LUT6": 10, "RAM32M": 1}},
    }
    rows = area.blocks({"modules": modules})
    assert list(rows) == ["unison", "unison.leaf", "unison.pair", "total"]
    assert (rows["unison.leaf"]["lut"], rows["unison.pair"]["lut"]) == (10, 0)
    assert (rows["total"]["lut"], rows["total"]["ff"], rows["total"]["lut_total"]) == (21, 1, 21 + 2 * 4)
