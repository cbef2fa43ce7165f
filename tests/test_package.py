"""What is shipped: the wheel holds the four packages and nothing else, and works where there is no repository."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = PROJECT["tool"]["setuptools"]["package-dir"]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", *FOLDERS.values())


def shipped_files():
    """Every file of the package folders, by the path it has in the wheel."""
    return {
        f"{package.replace('.', '/')}/{path.relative_to(ROOT / folder)}"
        for package, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    # A copy, because setuptools leaves files in the source folder and picks up what an earlier build left.
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source)
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source], check=True)
    (path,) = folder.iterdir()
    return path


def test_packages_listed_are_the_folders_with_modules():
    found = {
        ".".join((package, *path.parent.relative_to(ROOT / folder).parts))
        for package, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*.py")
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


def test_wheel_holds_exactly_the_packages_and_their_data(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == shipped_files()


def test_wheel_carries_licence_and_version(wheel):
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    lines = archive.read(metadata).decode().splitlines()
    assert {"Name: unison", "License-Expression: Apache-2.0", "Requires-Python: >=3.11"} <= set(lines)
    assert [name for name in archive.namelist() if name.endswith("/LICENSE")]


def test_installed_wheel_runs_outside_the_repository(wheel, tmp_path):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", wheel], check=True)
    # Dependencies come from this environment; the .pth files of a folder named in a .pth file, and with them its
    # editable install of the repository, are not read.
    (site,) = (venv / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program = (
        "import unison, unison.hdl, unison.model, unison.sim, unison.params, unison.registers as r;"
        "assert len(list(r.register_map(unison.params.N16))) > 40; print(unison.__file__)"
    )
    run = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    imported = subprocess.run([python, "-c", program], **run)
    assert imported.returncode == 0, imported.stderr
    assert Path(imported.stdout.strip()).is_relative_to(venv)
    helped = subprocess.run([venv / "bin" / "unison", "--help"], **run)
    assert helped.returncode == 0, helped.stderr
    assert "usage: unison" in helped.stdout
