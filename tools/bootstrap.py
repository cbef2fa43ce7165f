"""Makes this machine ready for a make target: Debian packages, then the virtual environment ``.venv``.

``python3 tools/bootstrap.py [verilator] [icarus] [extra ...]`` where an extra is one of pyproject.toml. It is run by
the system's Python, before anything is installed, so it uses the standard library only, and its syntax is older than
the Python that it asks for. As root it installs missing Debian packages, as a user it stops with the command to run.
A call that finds everything in place takes a fraction of a second and needs no network.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON_MIN = (3, 11)
SIMULATORS = ("verilator", "icarus")


class BootstrapError(Exception):
    """The machine lacks something; the text says what to do."""


def check_python(version):
    """Raise BootstrapError if ``version``, a tuple, is older than what the project needs."""
    if tuple(version[:2]) < PYTHON_MIN:
        needed, found = (".".join(map(str, v[:2])) for v in (PYTHON_MIN, version))
        raise BootstrapError(
            f"{sys.executable} is Python {found}, and {needed} or newer is needed; name one: make PYTHON=python3.12 ..."
        )


def check_needs(needs):
    """Raise BootstrapError for a need that is neither a simulator nor an extra of pyproject.toml."""
    import tomllib  # here, because an older Python must still reach check_python

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for need in needs:
        if need not in SIMULATORS and need not in extras:
            raise BootstrapError(f"no simulator or extra {need!r}: {', '.join((*SIMULATORS, *extras))}")


def _is_debian_python():
    return sys.base_prefix == "/usr"


def _has_module(name):
    """Whether the interpreter below any virtual environment has a module."""
    return subprocess.run([base_python(), "-c", f"import {name}"], stderr=subprocess.DEVNULL).returncode == 0


def _has_libpython():
    """Whether the shared library of Python is there, which cocotb loads into the simulator."""
    shared = sysconfig.get_config_var("Py_ENABLE_SHARED")
    return bool(shared) and Path(sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME")).exists()


def _has_header(name):
    """Whether the C++ compiler, if there is one, finds a header."""
    if not shutil.which("g++"):
        return False
    command = ["g++", "-x", "c++", "-fsyntax-only", "-"]
    source = f"#include <{name}>\n".encode()
    return subprocess.run(command, input=source, stderr=subprocess.DEVNULL).returncode == 0


def base_python():
    """The interpreter below any virtual environment that this one runs in."""
    return getattr(sys, "_base_executable", None) or sys.executable


def missing_packages(needs):
    """Debian packages that are missing for ``needs``, an iterable of simulators and extras.

    Raises
    ------
    BootstrapError
        If a Python that is not Debian's lacks what only a rebuild of it can add.
    """
    packages = []
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not (_has_module("venv") and _has_module("ensurepip")):
        if not _is_debian_python():
            raise BootstrapError(f"{base_python()} lacks the modules venv and ensurepip")
        packages.append(f"python{version}-venv")
    if any(need in SIMULATORS for need in needs) and not _has_libpython():
        if not _is_debian_python():
            raise BootstrapError(
                f"{base_python()} has no shared library, which cocotb needs: build it with --enable-shared, "
                "or use the system's: make PYTHON=/usr/bin/python3 ..."
            )
        packages.append(f"libpython{version}")
    if "verilator" in needs:
        packages += [command for command in ("g++", "make", "perl") if not shutil.which(command)]
        headers = {"zlib.h": "zlib1g-dev", "lz4.h": "liblz4-dev"}
        packages += [package for header, package in headers.items() if not _has_header(header)]
    if "icarus" in needs and not shutil.which("iverilog"):
        packages.append("iverilog")
    return packages


def install_command(packages):
    """The shell command that installs Debian packages, without sudo."""
    apt = "apt-get -o DPkg::Lock::Timeout=600"
    return f"{apt} update && {apt} install -y --no-install-recommends {' '.join(packages)}"


def install_packages(packages, is_root):
    """Install Debian packages, or raise BootstrapError with the command that does."""
    command = install_command(packages)
    names = " ".join(packages)
    if not shutil.which("apt-get"):
        raise BootstrapError(f"missing: {names} (Debian's names; install what this system calls them)")
    if not is_root:
        prefix = "sudo sh -c" if shutil.which("sudo") else "su -c"
        raise BootstrapError(f"missing: {names}; run this, then make again:\n  {prefix} '{command}'")
    print(f"installing Debian packages: {names}", flush=True)
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    if subprocess.run(["sh", "-c", command], env=environment, stdout=subprocess.DEVNULL).returncode:
        raise BootstrapError(f"could not install {names}; try as root:\n  {command}")


def wanted_stamp(root, extras):
    """What a complete virtual environment of ``root`` with ``extras`` was made from."""
    return {
        "root": str(root),
        "python": f"{sys.base_prefix} {sys.version}",
        "pyproject": hashlib.sha256((root / "pyproject.toml").read_bytes()).hexdigest(),
        "extras": sorted(extras),
    }


def read_stamp(root):
    """The stamp of the virtual environment; empty if there is none, or none that was finished."""
    try:
        stamp = json.loads((root / ".venv" / "unison.json").read_text())
        return stamp if (root / ".venv" / "bin" / "python").exists() else {}
    except (OSError, ValueError):
        return {}


def update_environment(root, extras, run=subprocess.run):
    """Make or update ``root/.venv`` so that it holds the project and ``extras``; True if there was something to do.

    The stamp is removed first and written last: what an interrupted call left is made anew.
    """
    venv = root / ".venv"
    found = read_stamp(root)
    wanted = wanted_stamp(root, set(extras).union(found.get("extras", [])))
    if found == wanted:
        return False
    stamp = venv / "unison.json"
    stamp.unlink(missing_ok=True)
    if (found.get("root"), found.get("python")) != (wanted["root"], wanted["python"]):
        print("making .venv", flush=True)
        run([base_python(), "-m", "venv", "--clear", str(venv)], check=True)
    print("installing Python packages into .venv (a minute or so)", flush=True)
    project = f"{root}[{','.join(wanted['extras'])}]" if wanted["extras"] else str(root)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run([*pip, "--editable", project], check=True)
    stamp.write_text(json.dumps(wanted, indent=2) + "\n")
    return True


def main(needs):
    """Bring the machine up to ``needs``; raise BootstrapError where that is not possible."""
    check_python(sys.version_info)
    check_needs(needs)
    packages = missing_packages(needs)
    if packages:
        install_packages(packages, os.geteuid() == 0)
        packages = missing_packages(needs)
        if packages:
            raise BootstrapError(f"still missing after the installation: {' '.join(packages)}")
    extras = {need for need in needs if need not in SIMULATORS}
    if any(need in SIMULATORS for need in needs):
        extras.add("sim")
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "bootstrap.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            update_environment(ROOT, extras)
        except subprocess.CalledProcessError as error:
            raise BootstrapError(f"failed: {' '.join(error.cmd)}") from None


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BootstrapError as error:
        sys.exit(f"unison: {error}")
