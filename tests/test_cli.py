"""The command line: what it writes, how it fails, how it shows progress."""

import io
import itertools
import subprocess
import sys

import pytest

from unison.model import cli
from unison.model.generate import generate, read_family
from unison.model.hazard import hazard_table, read_hazard_file
from unison.model.load import default_load, record
from unison.model.progress import Progress
from unison.model.stream import read_stream
from unison.model.trace import read_trace
from unison.params import N16, N64


@pytest.fixture
def gaia(tmp_path):
    """A small generated trace file; its name makes it a member of the family."""
    path = tmp_path / "gaia_small.jsonl.gz"
    assert cli.main(["generate", "gaia", "--sessions", "9", "--seed", "2", "-o", str(path)]) == 0
    return path


def test_generate_writes_what_the_library_draws(tmp_path, capsys):
    path = tmp_path / "t.jsonl"
    assert cli.main(["generate", "gaia", "--sessions", "9", "--seed", "2", "-o", str(path)]) == 0
    trace = generate(read_family("gaia"), sessions=9, seed=2)
    assert read_trace(path).sessions == trace.sessions
    assert capsys.readouterr().out == f"{path}: 9 sessions, {len(trace.turns)} turns\n"


def test_fit_writes_a_family_that_generates(gaia, tmp_path, capsys):
    path = tmp_path / "mine.json"
    assert cli.main(["fit", str(gaia), "-o", str(path), "--sessions", "4"]) == 0
    family = read_family(str(path))
    assert (family["name"], family["sessions"]) == ("gaia_small", 4)
    assert len(generate(family).sessions) == 4
    capsys.readouterr()
    assert cli.main(["fit-check", str(path), str(gaia)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("gaia_small: measured on gaia_small: 9 sessions")
    assert len({len(line) for line in lines[1:]}) == 1
    assert [line.split()[0] for line in lines[2:6]] == ["turns", "generated", "gap", "generated"]


def test_hazard_writes_the_traces_table(gaia, tmp_path):
    assert cli.main(["hazard", str(gaia), "-o", str(tmp_path / "h.json")]) == 0
    assert read_hazard_file(tmp_path / "h.json", N64) == hazard_table(read_trace(gaia), N64)


def test_stream_records_what_it_prints(gaia, tmp_path, capsys):
    hazards = tmp_path / "h.json"
    cli.main(["hazard", "acg", "-o", str(hazards)])
    capsys.readouterr()
    options = ["--slots", "16", "--capacity", "edge", "--completion", "silent", "--concurrency", "6", "--scale", "1/2"]
    arguments = [*options, "--hazards", str(hazards), "--gap-prior", "77", "--max-events", "150"]
    assert cli.main(["stream", str(gaia), "-o", str(tmp_path / "s.gz"), *arguments]) == 0
    trace = read_trace(gaia)
    expected = record(
        trace,
        N16,
        load=default_load(trace, concurrency=6, completion="silent", scale=cli.Fraction(1, 2)),
        capacity="edge",
        hazards=read_hazard_file(hazards, N16),
        max_events=150,
        gap_prior=77,
    )
    assert read_stream(tmp_path / "s.gz") == expected.stream
    shown = capsys.readouterr()
    assert f"s.gz: 150 events, {expected.summary.answers} answers" in shown.out
    assert f"decisions   {expected.summary.decisions}\n" in shown.out
    assert f"evictions   {expected.summary.evictions} in" in shown.out
    assert "gaia_small: 150 events" in shown.err


@pytest.mark.parametrize(
    "option, arrivals", [(["--rate", "0.5"], "poisson"), (["--recorded"], "recorded"), ([], "closed")]
)
def test_stream_places_sessions_as_asked(gaia, tmp_path, option, arrivals):
    assert cli.main(["stream", str(gaia), "-o", str(tmp_path / "s"), "--max-events", "9", *option]) == 0
    assert read_stream(tmp_path / "s").provenance["arrivals"] == arrivals


def test_check_prints_a_summary(gaia, capsys):
    capsys.readouterr()
    assert cli.main(["check", str(gaia)]) == 0
    shown = capsys.readouterr().out
    assert f"9 sessions, {len(read_trace(gaia).turns)} turns, 0 without completion" in shown
    assert "mean footprint at 20 sessions in a closed loop: " in shown


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["check", "{tmp}/none"], "{tmp}/none: No such file or directory"),
        (["check", "{tmp}/bad"], "{tmp}/bad:1: not JSON"),
        (["check", "{tmp}"], "{tmp}: Is a directory"),
        (["generate", "gaja", "-o", "{tmp}/out"], "family must be a file or one of"),
        (["generate", "gaia", "--sessions", "0", "-o", "{tmp}/out"], "sessions must be positive, not 0"),
        (["generate", "gaia", "-o", "{tmp}/no/out"], "No such file or directory"),
        (["stream", "gaia", "-o", "{tmp}/out", "--slots", "3"], "sessions must lie in 4 ... 256, not 3"),
        (["stream", "gaia", "-o", "{tmp}/out", "--capacity", "much"], "capacity must be SRAM:HBM .*, not 'much'"),
        (["stream", "gaia", "-o", "{tmp}/out", "--capacity", "9999999999:0"], "capacity_sram must .*, not 9999999999"),
        (["stream", "gaia", "-o", "{tmp}/out", "--concurrency", "0"], "concurrency must be a positive integer, not 0"),
        (["stream", "gaia", "-o", "{tmp}/out", "--rate", "-1"], "rate must be a positive number .*, not -1.0"),
        (["stream", "gaia", "-o", "{tmp}/out", "--scale", "-1"], "scale must be a Fraction that is not negative"),
        (["stream", "gaia", "-o", "{tmp}/out", "--max-events", "0"], "max_events must be positive, not 0"),
        (["stream", "gaia", "-o", "{tmp}/out", "--hazards", "{tmp}/bad"], "{tmp}/bad:1: not JSON"),
        (["hazard", "gaia", "-o", "{tmp}/out", "--hazard-bits", "3"], "hazard_bits must lie in 8 ... 12, not 3"),
    ],
)
def test_a_users_error_is_one_line_and_code_2(tmp_path, capsys, arguments, reason):
    (tmp_path / "bad").write_text("{")
    assert cli.main([argument.format(tmp=tmp_path) for argument in arguments]) == 2
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1 and shown.out == ""
    start, *rest = reason.format(tmp=tmp_path).split(" .*")
    assert shown.err.startswith("unison: error: ") and start in shown.err and all(part in shown.err for part in rest)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments", [[], ["fly"], ["stream", "gaia"], ["stream", "gaia", "-o", "x", "--scale", "much"], ["check"]]
)
def test_a_wrong_command_line_is_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert "usage: unison" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["", "generate", "fit", "fit-check", "hazard", "stream", "check"])
def test_help_is_there_for_every_command(command, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([*command.split(), "--help"])
    assert caught.value.code == 0
    assert "usage: unison" in capsys.readouterr().out


def test_an_interrupt_leaves_no_file(gaia, tmp_path, capsys, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "record", interrupt)
    before = set(tmp_path.iterdir())
    assert cli.main(["stream", str(gaia), "-o", str(tmp_path / "s.gz")]) == 130
    assert set(tmp_path.iterdir()) == before
    assert capsys.readouterr().err == "unison: interrupted\n"


def test_a_closed_pipe_is_no_error():
    code = "import sys; from unison.model.cli import main; sys.exit(main(['fit-check', 'gaia', '--sessions', '3']))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 1


class Terminal(io.StringIO):
    def isatty(self):
        return True


def ticking(step):
    """A clock that is ``step`` seconds later at each look."""
    times = itertools.count()
    return lambda: next(times) * step


def test_progress_is_a_bar_on_a_terminal():
    file = Terminal()
    with Progress("work", 256, file=file, clock=ticking(1.0)) as progress:
        for _ in range(256):
            progress.advance()
    shown = [line.rstrip() for line in file.getvalue().replace("\n", "\r").split("\r")[:-1]]
    # Looked at every 64 steps, one second each.
    assert shown[0] == "[#####               ] work: 64 events, 64/s, 25%, 3 s left"
    assert shown[1] == "[##########          ] work: 128 events, 64/s, 50%, 2 s left"
    assert shown[-1] == "work: 256 events, 51/s"


def test_progress_is_plain_lines_in_a_log():
    file = io.StringIO()
    with Progress("work", 256, file=file, clock=ticking(6.0)) as progress:
        for _ in range(256):
            progress.advance()
    assert file.getvalue().splitlines() == [
        "work: 128 events, 11/s, 50%, 12 s left",
        "work: 256 events, 11/s",
        "work: 256 events, 9/s",
    ]


def test_progress_without_an_end_shows_the_rate_only():
    file = io.StringIO()
    with Progress("work", unit="cycles", file=file, clock=ticking(20.0)) as progress:
        progress.advance(500)
    assert file.getvalue().splitlines()[0] == "work: 500 cycles, 25/s"
