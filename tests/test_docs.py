"""The documents say what is there: links, targets, tests and registers they name exist, and their examples run."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from unison.formats import AnswerKind, ErrorCode, Opcode
from unison.hdl.apb import ApbSignature
from unison.hdl.top import Unison
from unison.hdl.verilog import emit
from unison.params import N64, Params
from unison.registers import register_map
from unison.sim.pysim import ApbHost, run

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.glob("*.md")]
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
#: Names of capitals and underscores that are no register.
OTHER_NAMES = {"UNISON_TRACES", *Opcode.__members__, *AnswerKind.__members__, *ErrorCode.__members__}
STATES = set(re.findall(r'm\.State\("(\w+)"\)', (ROOT / "hdl" / "engine.py").read_text()))
#: The bus of the C example over pipes: a request a line on stderr, each answered by a word on stdin.
PIPES = r"""
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
uint32_t unison_read32(uint32_t offset);
void unison_write32(uint32_t offset, uint32_t value);
static uint32_t reply(void)
{
    uint32_t word;
    if (scanf("%" SCNx32, &word) != 1) {
        exit(2);
    }
    return word;
}
uint32_t unison_read32(uint32_t offset)
{
    fprintf(stderr, "%" PRIx32 "\n", offset);
    return reply();
}
void unison_write32(uint32_t offset, uint32_t value)
{
    fprintf(stderr, "%" PRIx32 " %" PRIx32 "\n", offset, value);
    reply();
}
"""

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
needs_iverilog = pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")


def blocks(page, language):
    """The fenced code blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXTS[page], re.MULTILINE | re.DOTALL)


def anchors(text):
    """The anchors of a page's headings, as they are made from their text."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXTS[page]):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(target)
    assert not broken


def test_every_page_is_in_the_index():
    index = TEXTS["docs/README.md"]
    others = {page.name for page in DOCS.iterdir() if page.suffix == ".md"} - {"README.md"}
    assert {name for name in others if f"]({name})" not in index} == set()


@pytest.mark.parametrize("page", TEXTS)
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", TEXTS[page])) <= targets


def test_commands_exist():
    known = set(re.findall(r'command\(_\w+, "([a-z-]+)"', (ROOT / "model" / "cli.py").read_text()))
    named = {name for text in TEXTS.values() for name in re.findall(r"`unison ([a-z-]+)", text)}
    assert known and named <= known


@pytest.mark.parametrize("page", TEXTS)
def test_tests_that_are_named_exist(page):
    missing = []
    for name in re.findall(r"`(?:tests/)?(test_\w+\.py(?:::\w+)?)`", TEXTS[page]):
        file, _, test = name.partition("::")
        path = ROOT / "tests" / file
        if not path.exists() or (test and not re.search(rf"^def {test}\(", path.read_text(), re.MULTILINE)):
            missing.append(name)
    assert not missing


@pytest.mark.parametrize("page", [page for page in TEXTS if page.startswith("docs/")])
def test_files_that_are_named_exist(page):
    named = re.findall(r"`((?:hdl|model|sim|unison|tests|fpga|docs|tools)/[\w./]+)`", TEXTS[page])
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", [page for page, text in TEXTS.items() if "(registers.md" in text])
def test_registers_and_fields_exist(page):
    registers = register_map(N64)
    names = {register.name for register in registers}
    text = re.sub(r"^```.*?^```$", "", TEXTS[page], flags=re.MULTILINE | re.DOTALL)
    unknown = set(re.findall(r"(?<![\w/])[A-Z][A-Z0-9]+_[A-Z0-9_]+\b", text)) - names - OTHER_NAMES - STATES
    for name, field in re.findall(r"`([A-Z][A-Z0-9_]+)\.([a-z_]+)`", text):
        if name not in names or field not in {each.name for each in registers[name].fields}:
            unknown.add(f"{name}.{field}")
    assert not unknown


def test_every_state_is_in_the_table():
    section = TEXTS["docs/theory_of_operation.md"].partition("## The engine's states")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([A-Z_, ]+) \| .* \|.*\| (.*) \|$", section, re.MULTILINE)
    assert sorted(state for names, _ in rows for state in names.split(", ")) == sorted(STATES)
    following = {name for _, names in rows for name in re.findall(r"[A-Z_]{3,}", names)}
    assert following <= STATES


def test_every_mutant_is_listed():
    mutants = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text())["mutant"]
    missing = [f"| `{each['name']}` | `{each['file']}` |" for each in mutants
               if f"| `{each['name']}` |" not in TEXTS["docs/verification.md"]]  # fmt: skip
    listed = set(re.findall(r"^\| `(\w+)` \| `(?:hdl|model|sim|unison)/", TEXTS["docs/verification.md"], re.MULTILINE))
    assert not missing, "add to docs/verification.md:\n" + "\n".join(missing)
    assert listed == {each["name"] for each in mutants}


def test_every_port_and_parameter_is_in_the_integration_guide():
    text = TEXTS["docs/integration.md"]
    ports = {"clk", "rst", "irq", *ApbSignature().members}
    parameters = set(Params.__dataclass_fields__)
    assert {name for name in ports | parameters if not re.search(rf"^\| [^|]*`{name}`", text, re.MULTILINE)} == set()


@needs_iverilog
def test_the_instantiation_template_compiles(tmp_path):
    (template,) = blocks("docs/integration.md", "verilog")
    (tmp_path / "soc.v").write_text(template)
    (tmp_path / "unison.v").write_text(emit(Params(sessions=4)))
    command = ["iverilog", "-g2005", "-Wall", "-t", "null", "-s", "soc", "soc.v", "unison.v"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    # What Icarus says of the written Verilog is none of the template's.
    assert [line for line in result.stderr.splitlines() if "soc.v" in line] == []


def test_fragments_in_the_guide_are_the_examples():
    example = (DOCS / "examples" / "bringup.c").read_text()
    fragments = blocks("docs/programmers_guide.md", "c")
    assert fragments and all(fragment in example for fragment in fragments)


@needs_gcc
def test_the_c_example_runs_on_the_rtl(tmp_path):
    (tmp_path / "pipes.c").write_text("#include <stdint.h>\n" + PIPES)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    sources = [DOCS / "examples" / "bringup.c", tmp_path / "pipes.c"]
    program = tmp_path / "bringup"
    subprocess.run(["gcc", *strict, "-I", ROOT / "fpga" / "sw", *sources, "-o", program], check=True)
    p = Params(sessions=4)
    dut = Unison(p)
    host = ApbHost(dut, p)
    pipe = subprocess.PIPE

    with subprocess.Popen([program], stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1) as process:

        async def bus(ctx):
            for line in process.stderr:
                offset, *data = (int(word, 16) for word in line.split())
                value, error = await host.transfer(ctx, offset, *data)
                assert not error, f"PSLVERR: {line}"
                process.stdin.write(f"{value:x}\n")

        try:
            run(dut, bus, deadline=50_000)
        finally:
            process.stdin.close()
        printed = process.stdout.read()
    assert process.returncode == 0
    assert [printed] == blocks("docs/programmers_guide.md", "text")


def test_the_python_example_runs():
    command = [sys.executable, "-W", "error", DOCS / "examples" / "golden_model.py"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for kind in ("OUTCOME", "EVICT", "MIGRATE"):
        assert f"    {kind} " in printed
    assert "slot 2: HBM, turn 1, 8000 tokens" in printed
