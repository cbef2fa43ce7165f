"""The register map, and the documents made from it."""

import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from unison import __version__, exports
from unison.formats import AnswerKind, Opcode, Residency, entry_layout
from unison.params import N16, N64, N256, Params
from unison.registers import ADDRESS_BITS, Kind, compile_rdl, register_map

ROOT = Path(__file__).parent.parent
ODD = Params(sessions=5, hazard_bits=9, gap_bits=24, score_bits=32, turn_limit=9, event_depth=4, answer_depth=512)
INSTANCES = pytest.mark.parametrize("p", [N16, N64, N256, ODD], ids=["N16", "N64", "N256", "odd"])
GUARDED = {"CONFIG", "CAPACITY_SRAM", "CAPACITY_HBM", "BANDWIDTH", "GAP_PRIOR"}
EXTERNAL = {"COMMIT", "EVENT0", "EVENT1", "ANSWER0", "ENTRY0", "ENTRY1", "ENTRY2", "ENTRY3", "HAZARD"}
WRITE_ONLY = {"CONTROL", "COMMIT", "EVENT0"}
READ_WRITE = {"IRQ_STATUS", "IRQ_ENABLE", "EVENT1", "ENTRY_INDEX", "HAZARD"} | GUARDED


@INSTANCES
def test_registers_are_aligned_apart_and_inside_the_page(p):
    addresses = [register.address + 4 * index for register in register_map(p) for index in range(register.count)]
    assert addresses == sorted(set(addresses))
    assert all(address % 4 == 0 for address in addresses)
    assert addresses[-1] < 1 << ADDRESS_BITS


@INSTANCES
def test_fields_are_apart_and_resets_fit(p):
    for register in register_map(p):
        used = 0
        for field in register.fields:
            mask = ((1 << field.width) - 1) << field.lsb
            assert field.width > 0 and not used & mask and mask < 1 << 32, (register.name, field.name)
            assert 0 <= field.reset < 1 << field.width, (register.name, field.name)
            used |= mask


def test_everything_is_described():
    top = compile_rdl(N64).top
    nodes = [top, *top.descendants(unroll=False)]
    bare = [node.get_path() for node in nodes if not (node.get_property("desc") or "").strip()]
    unnamed = [node.get_path() for node in top.children() if node.get_property("name") == node.inst_name]
    assert len(nodes) > 100 and not bare and not unnamed


@INSTANCES
def test_constants_tell_the_instance(p):
    values = {
        f"{register.name}.{field.name}": field.reset
        for register in register_map(p)
        for field in register.fields
        if field.kind is Kind.CONSTANT
    }
    major, minor, patch = map(int, __version__.split("."))
    assert values == {
        "ID.value": int.from_bytes(b"UNIS", "big"),
        "VERSION.major": major,
        "VERSION.minor": minor,
        "VERSION.patch": patch,
        "SIZES.sessions": p.sessions,
        "SIZES.turns": p.turns,
        "SIZES.capacity_bits": p.capacity_bits,
        "DEPTHS.event": p.event_depth,
        "DEPTHS.answer": p.answer_depth,
        "FORMAT.hazard_bits": p.hazard_bits,
        "FORMAT.gap_bits": p.gap_bits,
        "FORMAT.score_bits": p.score_bits,
        "GAP_UNIT.ns": p.gap_unit_ns,
        "PENALTY.units": p.penalty & 0xFFFF_FFFF,
    }


def test_sizes_follow_the_parameters():
    registers = register_map(ODD)
    assert registers["HAZARD"].count == ODD.turns == 10
    assert registers["HAZARD"].field("hazard").width == 9
    assert registers["CAPACITY_HBM"].field("tokens").width == ODD.capacity_bits == 23
    assert registers["GAP_PRIOR"].field("gap").width == 24


def test_access_and_flags():
    registers = register_map(N64)
    assert {r.name for r in registers if r.guarded} == GUARDED
    assert {r.name for r in registers if r.external} == EXTERNAL
    assert {r.name for r in registers if not r.readable} == WRITE_ONLY
    assert {r.name for r in registers if r.readable and r.writable} == READ_WRITE
    sticky = {field.name for field in registers["IRQ_STATUS"].fields if field.kind is Kind.STICKY}
    assert sticky == {"drained", "committed", "refused", "error"}
    assert {field.name for field in registers["IRQ_ENABLE"].fields} == sticky | {"answer"}
    assert {field.kind for field in registers["CONTROL"].fields} == {Kind.PULSE}


def test_entry_registers_show_every_field_of_an_entry():
    registers = register_map(N64)
    shown = {}
    for name in ("ENTRY0", "ENTRY1", "ENTRY2", "ENTRY3"):
        for field in registers[name].fields:
            shown[field.name] = shown.get(field.name, 0) + field.width
    assert shown == {name: field.width for name, field in entry_layout(N64)}
    layout = entry_layout(N64)
    assert all(field.lsb == layout[field.name].offset for field in registers["ENTRY0"].fields)


@pytest.mark.parametrize(
    ("register", "field", "codes"),
    [("EVENT0", "opcode", Opcode), ("ANSWER0", "kind", AnswerKind), ("ENTRY0", "residency", Residency)],
)
def test_codes_in_descriptions_are_those_of_the_formats(register, field, codes):
    text = compile_rdl(N64).top.get_child_by_name(register).get_child_by_name(field).get_property("desc")
    told = {int(code): name.lower() for code, name in re.findall(r"(\d+) (\w+)", text)}
    assert told == {member.value: member.name.lower() for member in codes}


def test_addresses_of_array_elements():
    registers = register_map(N64)
    assert registers.address("STATUS") == 0x024
    assert registers.address("HAZARD", 50) == 0x2C8
    with pytest.raises(IndexError, match=r"HAZARD\[51\]: the array has 51 registers"):
        registers.address("HAZARD", 51)
    with pytest.raises(KeyError):
        registers["NOTHING"]
    with pytest.raises(KeyError, match="STATUS has no field 'nothing'"):
        registers["STATUS"].field("nothing")


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("registers")
    exports.write_documents(N64, folder)
    return folder


@pytest.mark.parametrize("name", exports.COMMITTED)
def test_committed_documents_are_fresh(documents, name):
    committed = ROOT / exports.COMMITTED[name]
    assert committed.read_bytes() == (documents / name).read_bytes(), f"{committed} is stale: run make registers"


def test_documents_are_reproducible(documents, tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 0.0)
    exports.write_documents(N64, tmp_path)
    files = {path.relative_to(documents) for path in documents.rglob("*") if path.is_file()}
    assert files == {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert Path("unison.xml") in files and Path("html/index.html") in files
    assert [f for f in files if (documents / f).read_bytes() != (tmp_path / f).read_bytes()] == []


def test_update_puts_the_committed_documents_in_place(documents, tmp_path):
    exports.update_committed(documents, tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == set(
        exports.COMMITTED.values()
    )


def test_ip_xact_describes_every_register(documents):
    spirit = "{http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009}"
    found = [
        tuple(node.findtext(f"{spirit}{tag}") for tag in ("name", "addressOffset", "dim"))
        for node in ElementTree.parse(documents / "unison.xml").iter(f"{spirit}register")
    ]
    assert found == [(r.name, hex(r.address), str(r.count) if r.count > 1 else None) for r in register_map(N64)]


def test_headers_compile_and_agree(tmp_path):
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    checks = "\n".join(
        f"typedef char offset_{r.name}[offsetof(unison_t, {r.name}) == UNISON_{r.name}_OFFSET ? 1 : -1];"
        for r in register_map(N64)
    )
    source = tmp_path / "headers.c"
    source.write_text(
        '#include <stddef.h>\n#include "unison_regs.h"\n#include "unison_formats.h"\n'
        f"{checks}\n"
        "typedef char opcode[UNISON__EVENT0__OPCODE_bm == UNISON_EVENT0_OPCODE_bm ? 1 : -1];\n"
        "int main(void) { return UNISON_OPCODE_DMA_DONE - 7; }\n"
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{ROOT / 'fpga' / 'sw'}"]
    done = subprocess.run(["gcc", *flags, source, "-o", tmp_path / "headers"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    subprocess.run([tmp_path / "headers"], check=True)
