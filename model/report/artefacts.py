"""The paper's tables and figures as recomputed here: JSON files, one an artefact.

An artefact is an object; only ``rows`` must be there:

* ``title``, ``command``, ``seconds``: what it is, the command that computed it, and how long that took.
* ``traces``: a list of objects with name, sessions and turns.
* ``notes``: a sentence, or a list of them: load, definitions, caveats.
* ``claims``: a list of objects: what the paper claims, the paper's figure, ours, and ``holds``: true, false or null.
* ``rows``: a list of objects of numbers, texts and intervals (two numbers). A key with ``paper`` as its first or last
  word (``hr_paper``) is the paper's number for the key without it (``hr``) and stands beside that.
* ``columns``: labels, with units, by key.
* ``chart``: ``{"x": key, "y": [keys], "series": key or null, "x_label", "y_label", "log_x": bool,
  "where": {key: value}}``; lines over ``x``, one for each value of ``series`` and each y, of the rows that have these
  values and, unless ``series`` is that, the completion that the page shows. A y with a number of the paper's shows
  that as well, dashed.
"""

import json
from dataclasses import dataclass

__all__ = ["Artefact", "read_artefacts"]

_CLAIM = ("claim", "paper", "ours", "holds")


@dataclass(frozen=True)
class Artefact:
    """One table or figure; ``claims`` are tuples (claim, the paper's figure, ours, holds)."""

    name: str
    title: str
    command: str | None
    seconds: float | None
    traces: list
    notes: tuple
    columns: dict
    rows: list
    claims: list
    chart: dict | None


def _paper_of(key):
    """The key whose number in the paper ``key`` holds, or None."""
    words = key.split("_")
    if len(words) < 2 or "paper" not in (words[0], words[-1]):
        return None
    return "_".join(words[1:] if words[0] == "paper" else words[:-1])


def _columns(rows, labels):
    """Labels by key; each of the paper's columns right of ours."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    ordered = [key for key in keys if _paper_of(key) not in keys]
    for key in keys:
        ours = _paper_of(key)
        if ours in keys:
            ordered.insert(ordered.index(ours) + 1, key)
    named = {key: labels.get(key, key.replace("_", " ")) for key in ordered}
    for key in ordered:
        if _paper_of(key) in named and key not in labels:
            named[key] = f"{named[_paper_of(key)]}, paper"
    return named


def _read(path):
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    rows = content.get("rows") if isinstance(content, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path}: no artefact: an object with a list of rows, each an object, is needed")
    notes = content.get("notes") or ()
    labels = content["columns"] if isinstance(content.get("columns"), dict) else {}
    chart = content.get("chart")
    columns = _columns(rows, labels)
    if chart is not None:
        unknown = {chart["x"], *chart["y"], *filter(None, [chart.get("series")])} - set(columns)
        if unknown:
            raise ValueError(f"{path}: the chart names {', '.join(sorted(unknown))}, which no row has")
    return Artefact(
        name=path.stem,
        title=str(content.get("title") or path.stem.replace("_", " ")),
        command=content.get("command"),
        seconds=content.get("seconds"),
        traces=content.get("traces") or [],
        notes=(notes,) if isinstance(notes, str) else tuple(map(str, notes)),
        columns=columns,
        rows=rows,
        claims=[tuple(claim.get(key) for key in _CLAIM) for claim in content.get("claims") or ()],
        chart=chart,
    )


def read_artefacts(folder):
    """The Artefacts of a folder's JSON files, by file name; none if there is no such folder.

    Raises
    ------
    ValueError
        If a file holds no artefact.
    """
    return [_read(path) for path in sorted(folder.glob("*.json"))]
