"""Pieces of HTML: escaped text, cells of tables, tables that the page's script sorts."""

import html
import json

from unison.model.report.metrics import exact, readable

__all__ = ["cell", "row_head", "table", "text", "wide"]


def text(value):
    """A value as text of HTML."""
    return html.escape(str(value))


def row_head(name, note=""):
    """The cell that names its row; ``note`` is HTML."""
    return f'<th scope="row">{text(name)}{note}</th>'


def cell(value, kind=None, *, note=""):
    """A table cell; numbers carry their exact value for sorting and hovering; ``note`` is HTML."""
    if value is None or isinstance(value, str):
        return f"<td>{text(value or '–')}{note}</td>"
    if isinstance(value, bool):
        return f'<td data-value="{int(value)}">{"yes" if value else "no"}{note}</td>'
    if isinstance(value, list | tuple):
        if len(value) == 2 and all(isinstance(each, int | float) for each in value):
            return f"<td class=n>{' to '.join(text(readable(each, kind or 'amount')) for each in value)}{note}</td>"
        return f'<td class="wide">{text(", ".join(map(str, value)) or "–")}{note}</td>'
    if not isinstance(value, int | float):
        return f"<td>{text(json.dumps(value))}{note}</td>"
    shown = f"{value:,}" if isinstance(value, int) and kind is None else readable(value, kind or "amount")
    return f'<td class=n data-value="{value!r}" data-tip="{text(exact(value))}">{text(shown)}{note}</td>'


def wide(value):
    """A table cell whose text may take several lines."""
    return f'<td class="wide">{text(value)}</td>' if isinstance(value, str) else cell(value)


def table(caption, head, rows):
    """A sortable table of cells that are HTML already."""
    heads = "".join(f'<th scope="col">{text(label)}</th>' for label in head)
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}"><table class="sortable">'
        f"<caption>{text(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
    )
