"""The written Verilog: the same bytes every time, plain Verilog-2005, the ports an integrator expects."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from unison.hdl import verilog
from unison.params import N16, Params

SMALL = Params(sessions=4)
PORTS = {
    "clk": ("input", 1),
    "rst": ("input", 1),
    "paddr": ("input", 12),
    "psel": ("input", 1),
    "penable": ("input", 1),
    "pwrite": ("input", 1),
    "pwdata": ("input", 32),
    "pstrb": ("input", 4),
    "pprot": ("input", 3),
    "prdata": ("output", 32),
    "pready": ("output", 1),
    "pslverr": ("output", 1),
    "irq": ("output", 1),
}
SYSTEMVERILOG = {"logic", "always_comb", "always_ff", "always_latch", "bit", "int", "typedef", "enum", "struct"}


@pytest.fixture(scope="module")
def text():
    return verilog.emit(SMALL)


def test_same_parameters_give_the_same_bytes(text, tmp_path):
    assert verilog.emit(SMALL) == text
    for seed in ("1", "2"):
        output = tmp_path / f"{seed}.v"
        command = [sys.executable, "-m", "unison.hdl.verilog", "--sessions", "4", "-o", output]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": seed}, stdout=subprocess.DEVNULL)
        assert output.read_text() == text


def test_other_parameters_give_other_verilog(text):
    assert verilog.emit(SMALL.replace(penalty=7)) != text


def test_no_path_of_the_machine_is_in_it(text):
    assert sys.prefix not in text
    assert os.getcwd() not in text


def test_ports_of_the_top_module(text):
    (header,) = re.findall(r"^module unison\((.*?)\);(.*?)^endmodule", text, re.DOTALL | re.MULTILINE)
    assert sorted(name.strip() for name in header[0].split(",")) == sorted(PORTS)
    declared = re.findall(r"^  (input|output|inout)(?: wire)?(?: \[(\d+):0\])? (\w+) ?;", header[1], re.MULTILINE)
    assert {name: (direction, int(top or 0) + 1) for direction, top, name in declared} == PORTS


def test_plain_verilog(text):
    code = re.sub(r"/\*.*?\*/|//[^\n]*|\(\*.*?\*\)|\\\S+", "", text, flags=re.DOTALL)
    assert not set(re.findall(r"\b[a-z_]+\b", code)) & SYSTEMVERILOG


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")
@pytest.mark.parametrize("p", [SMALL, N16.replace(sessions=11, score_bits=32)], ids=["n4", "n11_32_bit_score"])
def test_icarus_reads_it_as_verilog_2005(p, tmp_path):
    source = tmp_path / "unison.v"
    source.write_text(verilog.emit(p))
    command = ["iverilog", "-g2005", "-Wall", "-Wno-timescale", "-s", "unison", "-o", tmp_path / "unison.vvp", source]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_yosys_on_path_is_not_used(text, tmp_path, monkeypatch):
    fake = tmp_path / "yosys"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert verilog.emit(SMALL) == text


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--sessions", "3", "sessions must lie in 4 ... 256, not 3"),
        ("--sessions", "four", "invalid int value: 'four'"),
        ("--hazard-bits", "13", "hazard_bits must lie in 8 ... 12, not 13"),
        ("--event-depth", "2", "event_depth must lie in 4 ... 512, not 2"),
        ("--penalty", "-1", "penalty must lie in 0 ..."),
        ("--gap-bits", "64", "gap_bits=64 is for the model only"),
        ("--gap-bits", "33", "gap_bits=33 is for the model only"),
    ],
)
def test_bad_parameters_are_told_and_write_nothing(option, value, message, tmp_path):
    output = tmp_path / "unison.v"
    command = [sys.executable, "-m", "unison.hdl.verilog", f"{option}={value}", "-o", output]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())
