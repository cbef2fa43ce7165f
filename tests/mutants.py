"""Breaks the design on purpose, one mutation of ``mutants.toml`` at a time, and sees whether its tests fail.

``python -m tests.mutants [--quick] [NAME ...]``; exit code 1 if a mutant survives or the tests fail without one.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["FOLDERS", "Mutant", "main", "mutate", "read_mutants"]

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).with_name("mutants.toml")
REPORT = Path("build/mutants/report.json")
#: Folder of the repository: where its package lies under a folder of PYTHONPATH.
FOLDERS = {"unison": "unison", "model": "unison/model", "hdl": "unison/hdl", "sim": "unison/sim", "tests": "tests"}
AT_ONCE = 2
TIME_LIMIT = 300
#: What pytest returns when all tests passed, and when some failed.
PASSED, FAILED = 0, 1
#: How the summary of a test begins that failed because of what it saw, not because the mutant can't be built.
SEEN = ("assert ", "AssertionError", "unison.sim.pysim.DeadlineError")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One mutation: ``old``, which occurs once in ``file``, becomes ``new``; one of ``tests`` must then fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple
    quick: bool = False


def read_mutants(path=LIST):
    """The mutants of a TOML file."""
    entries = tomllib.loads(Path(path).read_text())["mutant"]
    return [Mutant(**entry | {"tests": tuple(entry["tests"])}) for entry in entries]


def mutate(text, mutant):
    """The mutated text; ValueError unless ``old`` occurs exactly once and ``new`` differs."""
    if text.count(mutant.old) != 1 or mutant.old == mutant.new:
        raise ValueError(f"{mutant.name}: {mutant.old!r} is {text.count(mutant.old)} times in {mutant.file}")
    return text.replace(mutant.old, mutant.new)


@contextlib.contextmanager
def copied_tree(mutant=None):
    """A copy of the tree as an installed package has it, so that PYTHONPATH alone puts it before any installed one."""
    with tempfile.TemporaryDirectory(prefix="unison-mutant-") as name:
        copy = Path(name)
        for folder, package in FOLDERS.items():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / folder, copy / package, ignore=ignored, dirs_exist_ok=True)
        shutil.copy(ROOT / "pyproject.toml", copy)
        if mutant is not None:
            folder, _, rest = mutant.file.partition("/")
            file = copy / FOLDERS[folder] / rest
            file.write_text(mutate(file.read_text(), mutant))
        yield copy


def python(copy, *arguments):
    """Runs Python on a copy of the tree; returns its exit code, None if it took too long, and what it wrote."""
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]
    return process.returncode, output


def check_imports():
    """Asserts that a copy imports itself and nothing of this tree."""
    packages = [package.replace("/", ".") for package in FOLDERS.values() if package != "tests"]
    program = "import importlib, sys; print(*(importlib.import_module(n).__file__ for n in sys.argv[1:]), sep='\\n')"
    with copied_tree() as copy:
        code, output = python(copy, "-c", program, *packages)
        assert code == 0 and all(Path(line).is_relative_to(copy) for line in output.split()), output


def run_tests(tests, mutant=None):
    """Exit code of pytest, why each test failed that did, seconds, and the output."""
    begin = time.monotonic()
    options = ["-x", "-q", "--tb=short", "-p", "no:cacheprovider"]
    with copied_tree(mutant) as copy:
        code, output = python(copy, "-m", "pytest", *options, *tests)
    lines = [line.removeprefix("FAILED ") for line in output.splitlines() if line.startswith("FAILED ")]
    failed = {test: reason for test, _, reason in (line.partition(" - ") for line in lines)}
    return code, failed, round(time.monotonic() - begin, 1), output


def judge(mutant):
    """The report of one mutant."""
    code, failed, seconds, output = run_tests(mutant.tests, mutant)
    verdict = {PASSED: "survived", FAILED: "killed", None: "timeout"}.get(code, "broken")
    if verdict == "killed" and not any(reason.startswith(SEEN) for reason in failed.values()):
        verdict = "broken"
    report = asdict(mutant) | {"verdict": verdict, "killed_by": list(failed), "seconds": seconds}
    return report if verdict == "killed" else report | {"output": output[-4000:]}


def main(arguments=None):
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="only the mutants marked quick")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants")
    options = parser.parse_args(arguments)
    mutants = read_mutants()
    unknown = set(options.names) - {mutant.name for mutant in mutants}
    if unknown:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    chosen = [m for m in mutants if (m.quick or not options.quick) and (m.name in options.names or not options.names)]

    check_imports()
    selections = sorted({test for mutant in chosen for test in mutant.tests})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        unmutated = pool.submit(run_tests, selections)
        reports = []
        for report in pool.map(judge, chosen):
            print(f"{report['verdict']:9}{report['seconds']:7.1f} s  {report['name']}", flush=True)
            reports.append(report)
        code, failed, seconds, output = unmutated.result()
    alive = [report for report in reports if report["verdict"] != "killed"]
    for report in alive:
        print(f"\n{report['name']} in {report['file']}: {report['verdict']}\n{report['output']}")
    if code != PASSED:
        print(f"\nwithout a mutation the tests fail: {' '.join(failed)}\n{output[-4000:]}")
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    baseline = {"passed": code == PASSED, "seconds": seconds}
    REPORT.write_text(json.dumps({"unmutated": baseline, "mutants": reports}, indent=1) + "\n")
    print(f"\n{len(reports) - len(alive)} of {len(reports)} mutants killed; {REPORT}")
    return int(bool(alive) or code != PASSED)


if __name__ == "__main__":
    sys.exit(main())
