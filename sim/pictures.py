"""Draws docs/wave_eviction.png and docs/wave_migration.png: what GTKWave shows of one event of each kind.

``make pictures``, from the root of the project. Runs GTKWave on a virtual display; needs the Debian packages gtkwave
and xvfb.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from unison.formats import AnswerKind
from unison.model.generate import open_trace
from unison.model.load import default_load, record
from unison.params import N64
from unison.sim.__main__ import main as simulate
from unison.sim.wave import first_events

TRACE = "gaia"
PICTURES = {AnswerKind.EVICT: "wave_eviction.png", AnswerKind.MIGRATE: "wave_migration.png"}
SIZE = (1500, 1380)


def draw(view, picture):
    """Opens a saved view in GTKWave and writes what its window shows."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "grab.tcl")
        script.write_text(
            f"gtkwave::/Time/Zoom/Zoom_Full\ngtkwave::/File/Grab_To_File {{{picture}}}\ngtkwave::/File/Quit\n"
        )
        width, height = SIZE
        settings = {"initial_window_x": width, "initial_window_y": height, "hide_sst": 1}
        command = ["xvfb-run", "-a", "-s", f"-screen 0 {width + 20}x{height + 60}x24", "gtkwave", "-g"]
        for name, value in settings.items():
            command += ["--rcvar", f"{name} {value}"]
        # Names without a folder: the title of the window shows them.
        command += ["-S", str(script), view.with_suffix(".fst").name, view.name]
        subprocess.run(command, check=True, timeout=120, capture_output=True, cwd=view.parent)
    print(picture)


def main():
    missing = [program for program in ("gtkwave", "xvfb-run") if not shutil.which(program)]
    if missing:
        print(f"pictures: {' and '.join(missing)} not found: apt-get install gtkwave xvfb", file=sys.stderr)
        return 2
    trace = open_trace(TRACE)
    stream = record(trace, N64, load=default_load(trace)).stream
    for kind, number in first_events(stream).items():
        if simulate(["wave", "--trace", TRACE, "--from", str(number), "--to", str(number + 1)]):
            return 1
        draw(Path("build/wave", f"{trace.name}.gtkw").resolve(), Path("docs", PICTURES[kind]).resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
