"""What a result depends on: the source code that computed it, what a policy was made with, and the tools' versions."""

import ast
import hashlib
import importlib.metadata
import os
import platform
import sys
from dataclasses import fields, is_dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

import unison
import unison.model

__all__ = ["fingerprint", "modules_digest", "versions"]

#: Ours that matter here; the longer name first.
_PACKAGES = {"unison.model": unison.model, "unison": unison}
_TOOLS = ("unison", "numpy", "numba", "llvmlite", "lightgbm", "distributed")


def _path(name):
    """The source file of one of our modules or packages, found without importing it; None for any other name."""
    for prefix, package in _PACKAGES.items():
        if name == prefix or name.startswith(f"{prefix}."):
            place = Path(package.__path__[0], *name.removeprefix(prefix).split(".")[1:])
            found = (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file())
            return next(found, None)
    return None


@cache
def _imports(path):
    """Names of our modules that a source file imports, wherever in it."""
    names = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(name for name in names if _path(name))


def _data_files(name):
    """Files that a loaded module names in its globals."""
    values = vars(sys.modules[name]).values() if name in sys.modules else ()
    return sorted(value for value in values if isinstance(value, Path) and value.is_file())


def modules_digest(*names):
    """A hash of the source of these modules, of all of ours that they import, and of the data files they name.

    The package around a module does not count: a table of all policies changes none of them.
    """
    digest = hashlib.sha256()
    pending, seen = list(names), set()
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += _imports(_path(name))
    for name in sorted(seen):
        for path in (_path(name), *_data_files(name)):
            digest.update(f"{name} {path.name}\n".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _parts(value, modules):
    """A text that tells apart what behaves differently; collects the modules of the functions in it."""
    if hasattr(value, "py_func"):
        value = value.py_func
    if isinstance(value, partial):
        return ["partial", _parts(value.func, modules), _parts(value.args, modules), _parts(value.keywords, modules)]
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if hasattr(value, "__code__"):
        modules.add(value.__module__)
        captured = [cell.cell_contents for cell in value.__closure__ or ()]
        defaults = [value.__defaults__, value.__kwdefaults__]
        code = f"{value.__module__}.{value.__qualname__}:{value.__code__.co_firstlineno}"
        return [code, _parts(captured, modules), _parts(defaults, modules)]
    if is_dataclass(value):
        return [type(value).__name__, *((f.name, _parts(getattr(value, f.name), modules)) for f in fields(value))]
    if isinstance(value, dict):
        return [(key, _parts(value[key], modules)) for key in value]
    if isinstance(value, frozenset | set):
        return sorted(map(repr, value))
    if isinstance(value, tuple | list):
        return [_parts(each, modules) for each in value]
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.shape, value.tobytes()]
    if value is None or isinstance(value, str | int | float | np.generic):
        return value
    raise TypeError(f"no fingerprint of {value!r}")


def fingerprint(policy):
    """A hash of a Policy: the source of its functions, of what they import, and all the parameters in it.

    Raises
    ------
    TypeError
        If a parameter is of a kind whose content is not known here.
    """
    modules = set()
    parts = repr(_parts(policy, modules))
    ours = sorted(name for name in modules if _path(name))
    return hashlib.sha256(f"{modules_digest(*ours)} {parts}".encode()).hexdigest()


def versions():
    """Versions of what was used, the machine's too, by name; None for what is not installed."""
    found = {}
    for name in _TOOLS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return {
        **found,
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }
