"""The arrows of import: unison <- model, hdl <- sim <- tests."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: Folder: what it may import of ours, by the longest prefix of the dotted name.
ALLOWED = {
    "unison": {"unison"},
    "model": {"unison", "unison.model"},
    "hdl": {"unison", "unison.hdl"},
    "sim": {"unison", "unison.model", "unison.hdl", "unison.sim"},
    "tests": {"unison", "unison.model", "unison.hdl", "unison.sim", "tests"},
    "tools": set(),
}
LAYERS = ("unison.model", "unison.hdl", "unison.sim", "unison", "tests")


def imports(source):
    """Dotted names that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer(name):
    """The layer that a dotted name belongs to, or None if it is not ours."""
    return next((known for known in LAYERS if name == known or name.startswith(f"{known}.")), None)


def forbidden(folder, source):
    """Imports in a module of ``folder`` that go against the arrows."""
    return [name for name in imports(source) if layer(name) is not None and layer(name) not in ALLOWED[folder]]


@pytest.mark.parametrize("folder", ALLOWED)
def test_imports_follow_the_arrows(folder):
    modules = sorted((ROOT / folder).rglob("*.py"))
    assert modules
    wrong = {str(path.relative_to(ROOT)): forbidden(folder, path.read_bytes()) for path in modules}
    assert {path: names for path, names in wrong.items() if names} == {}


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("unison", "import unison.model"),
        ("unison", "from unison import model"),
        ("model", "from unison.hdl.top import Unison"),
        ("hdl", "def late():\n    from unison.model import engine"),
        ("hdl", "import unison.sim.apb"),
        ("sim", "from tests.test_layers import layer"),
        ("tools", "import unison"),
    ],
)
def test_an_import_against_the_arrows_is_found(folder, source):
    assert forbidden(folder, source)
