"""tools/bootstrap.py: what it asks for, and when it calls a virtual environment complete."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "tools" / "bootstrap.py"
PYTHON_NAME = f"python{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def bootstrap():
    """A fresh copy of the script as a module."""
    spec = importlib.util.spec_from_file_location("bootstrap", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def machine(bootstrap, monkeypatch):
    """A machine described by a set of what it has: commands, headers, modules of Python and ``libpython``."""
    has = set()
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: f"/usr/bin/{name}" if name in has else None)
    monkeypatch.setattr(bootstrap, "_has_header", lambda name: name in has)
    monkeypatch.setattr(bootstrap, "_has_module", lambda name: name in has)
    monkeypatch.setattr(bootstrap, "_has_libpython", lambda: "libpython" in has)
    monkeypatch.setattr(bootstrap, "_is_debian_python", lambda: "debian" in has)
    return has


PYTHON = {"debian", "venv", "ensurepip", "libpython"}
COMPILER = {"g++", "make", "perl", "zlib.h", "lz4.h"}


@pytest.mark.parametrize(
    ("has", "needs", "missing"),
    [
        (PYTHON | COMPILER | {"iverilog"}, ["verilator", "icarus", "test"], []),
        (PYTHON, ["test", "registers"], []),
        ({"debian", "venv"}, [], [f"{PYTHON_NAME}-venv"]),
        ({"debian", "make"}, ["icarus"], [f"{PYTHON_NAME}-venv", f"lib{PYTHON_NAME}", "iverilog"]),
        (PYTHON | {"make"}, ["verilator"], ["g++", "perl", "zlib1g-dev", "liblz4-dev"]),
        (PYTHON | COMPILER - {"lz4.h"}, ["verilator"], ["liblz4-dev"]),
    ],
    ids=["complete", "no_simulator", "no_ensurepip", "fresh_icarus", "fresh_verilator", "one_header"],
)
def test_missing_debian_packages(bootstrap, machine, has, needs, missing):
    machine |= has
    assert bootstrap.missing_packages(needs) == missing


@pytest.mark.parametrize(
    ("lacks", "message"), [("ensurepip", "lacks the modules venv and ensurepip"), ("libpython", "no shared library")]
)
def test_a_python_that_is_not_debians_is_not_mended_by_apt(bootstrap, machine, lacks, message):
    machine |= PYTHON - {"debian", lacks}
    with pytest.raises(bootstrap.BootstrapError, match=message):
        bootstrap.missing_packages(["icarus"])


def test_a_user_is_told_one_command_and_nothing_is_run(bootstrap, machine, monkeypatch):
    monkeypatch.setattr(bootstrap.subprocess, "run", None)
    machine |= {"apt-get", "sudo"}
    with pytest.raises(bootstrap.BootstrapError, match="missing: g\\+\\+ perl; run this") as error:
        bootstrap.install_packages(["g++", "perl"], is_root=False)
    command = str(error.value).splitlines()[-1].strip()
    assert command.startswith("sudo sh -c 'apt-get ") and command.endswith(" g++ perl'")


def test_root_installs_and_a_failure_shows_the_command(bootstrap, machine, monkeypatch):
    calls = []

    def run(command, **_):
        calls.append(command)
        return subprocess.CompletedProcess(command, returncode=len(calls) - 1)

    monkeypatch.setattr(bootstrap.subprocess, "run", run)
    machine.add("apt-get")
    bootstrap.install_packages(["perl"], is_root=True)
    assert calls == [["sh", "-c", bootstrap.install_command(["perl"])]]
    with pytest.raises(bootstrap.BootstrapError, match="could not install perl"):
        bootstrap.install_packages(["perl"], is_root=True)


def test_a_system_without_apt_gets_the_names(bootstrap, machine):
    with pytest.raises(bootstrap.BootstrapError, match="missing: perl zlib1g-dev"):
        bootstrap.install_packages(["perl", "zlib1g-dev"], is_root=True)


def test_python_bounds(bootstrap):
    bootstrap.check_python((3, 11, 0))
    bootstrap.check_python((3, 14, 0))
    with pytest.raises(bootstrap.BootstrapError, match=r"is Python 3\.10, and 3\.11 or newer is needed"):
        bootstrap.check_python((3, 10, 9))


def test_a_word_that_is_no_simulator_is_refused():
    done = subprocess.run([sys.executable, SCRIPT, "verilater"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("unison: no simulator or extra 'verilater': verilator, icarus, ")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    return tmp_path


@pytest.fixture
def installer(root):
    """Stands for the commands that make and fill an environment; ``fail`` is the word at which they stop."""

    class Installer:
        def __init__(self):
            self.calls, self.fail = [], None

        def __call__(self, command, check):
            assert check
            self.calls.append("venv" if "venv" in command else command[-1])
            if "venv" in command:
                assert "--clear" in command
                shutil.rmtree(root / ".venv", ignore_errors=True)
                (root / ".venv" / "bin").mkdir(parents=True)
                (root / ".venv" / "bin" / "python").touch()
            if self.fail in command:
                raise subprocess.CalledProcessError(1, command)

    return Installer()


def test_an_environment_is_made_once(bootstrap, root, installer):
    assert bootstrap.update_environment(root, ["sim"], run=installer)
    assert installer.calls == ["venv", f"{root}[sim]"]
    assert not bootstrap.update_environment(root, ["sim"], run=installer)
    assert not bootstrap.update_environment(root, [], run=installer)
    assert len(installer.calls) == 2


def test_a_new_extra_is_added_to_the_others(bootstrap, root, installer):
    bootstrap.update_environment(root, ["test"], run=installer)
    bootstrap.update_environment(root, ["sim"], run=installer)
    assert installer.calls == ["venv", f"{root}[test]", f"{root}[sim,test]"]


def test_a_changed_pyproject_installs_again(bootstrap, root, installer):
    bootstrap.update_environment(root, [], run=installer)
    (root / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    bootstrap.update_environment(root, [], run=installer)
    assert installer.calls == ["venv", str(root), str(root)]


@pytest.mark.parametrize("step", ["venv", "pip"])
def test_an_interrupted_call_is_begun_anew(bootstrap, root, installer, step):
    installer.fail = step
    with pytest.raises(subprocess.CalledProcessError):
        bootstrap.update_environment(root, [], run=installer)
    installer.fail, installer.calls = None, []
    assert bootstrap.update_environment(root, [], run=installer)
    assert installer.calls == ["venv", str(root)]


def test_an_interrupted_update_leaves_nothing_that_counts_as_complete(bootstrap, root, installer):
    bootstrap.update_environment(root, ["sim"], run=installer)
    installer.fail = "pip"
    with pytest.raises(subprocess.CalledProcessError):
        bootstrap.update_environment(root, ["test"], run=installer)
    installer.fail = None
    assert bootstrap.update_environment(root, ["sim"], run=installer)


@pytest.mark.parametrize("damage", ["moved", "other_python", "no_interpreter", "garbled"])
def test_an_environment_that_does_not_belong_here_is_made_anew(bootstrap, root, installer, damage):
    bootstrap.update_environment(root, [], run=installer)
    stamp = root / ".venv" / "unison.json"
    if damage == "moved":
        stamp.write_text(stamp.read_text().replace(str(root), "/elsewhere"))
    elif damage == "other_python":
        stamp.write_text(stamp.read_text().replace(sys.base_prefix, "/opt/python"))
    elif damage == "no_interpreter":
        (root / ".venv" / "bin" / "python").unlink()
    else:
        stamp.write_text("{")
    installer.calls = []
    assert bootstrap.update_environment(root, [], run=installer)
    assert installer.calls == ["venv", str(root)]
