"""Windows of waves, and the view that shows them."""

import re
import shutil
import subprocess

import pytest

from unison.model.generate import open_trace
from unison.model.load import record
from unison.params import N64
from unison.sim import __main__ as command
from unison.sim import runner
from unison.sim.wave import first_windows, view_signals, write_view


def _written(waves):
    """Names and widths of the signals in an FST file."""
    text = subprocess.run(["fst2vcd", str(waves)], capture_output=True, text=True, check=True).stdout
    scope, found = [], set()
    for line in text.partition("$enddefinitions")[0].splitlines():
        words = line.split()
        if line.startswith("$scope"):
            scope.append(words[2])
        elif line.startswith("$upscope"):
            scope.pop()
        elif line.startswith("$var"):
            found.add((".".join([*scope, words[4]]), int(words[2])))
    return found, text


@pytest.mark.skipif(not shutil.which("fst2vcd"), reason="needs fst2vcd, which comes with GTKWave")
def test_window_holds_every_signal_of_the_view(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command.main(["wave", "--from", "40", "--to", "44"]) == 0
    capsys.readouterr()
    (waves,) = (tmp_path / "build" / "wave").glob("*.fst")
    assert waves.stat().st_size < 1_000_000
    found, text = _written(waves)
    shown = {(path, width) for signals in view_signals(N64).values() for path, width, _, _ in signals}
    assert shown <= found, shown - found
    times = [int(time) for time in re.findall(r"^#(\d+)$", text, flags=re.MULTILINE)]
    # Four events take some hundreds of cycles of 10 ns, and the reset is not in the window.
    assert times[0] > 1_000_000 and times[-1] - times[0] < 100_000_000
    view = waves.with_suffix(".gtkw").read_text()
    for group in ("Bus", "FIFOs", "Engine", "Scan", "Tide"):
        assert f"-{group}\n" in view
    states = waves.with_name(f"{waves.stem}.state.txt").read_text()
    assert re.search(r"^[0-9a-f]+ EVICT$", states, flags=re.MULTILINE)


def test_default_windows_hold_the_first_eviction_and_migration():
    recording = record(open_trace("gaia"), N64, keep_steps=True)
    windows = first_windows(recording.stream)
    for kind in ("EVICT", "MIGRATE"):
        first = next(
            number
            for number, step in enumerate(recording.steps)
            if kind in (answer.kind.name for answer in step.answers)
        )
        assert any(begin <= first < end for begin, end in windows)
    assert sum(end - begin for begin, end in windows) <= 10


def test_a_stream_without_either_needs_a_window():
    stream = record(open_trace("gaia"), N64, capacity="60000000:0", max_events=50).stream
    with pytest.raises(ValueError, match="give a window"):
        first_windows(stream)


def test_another_main_program_is_refused():
    with pytest.raises(runner.SimulationError, match="not the main program"):
        runner._windowed_main("int main() {}")


def test_view_is_written_beside_the_waves(tmp_path):
    view = write_view(tmp_path / "x.fst", N64)
    assert view == tmp_path / "x.gtkw" and (tmp_path / "x.opcode.txt").read_text().startswith("1 ARRIVE\n")
