"""Files of JSON, plain or gzip: reading that knows the line, writing that leaves no half-written file."""

import gzip
import json
import os
import zlib
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "FileError",
    "json_lines",
    "json_object",
    "whole_file",
    "write_lines",
    "write_json",
    "check_format",
    "check_keys",
    "check_int",
]

_GZIP_MAGIC = b"\x1f\x8b"


class FileError(ValueError):
    """A file that cannot be used; the text begins with ``file:line``."""

    def __init__(self, path, line, reason):
        super().__init__(f"{path}:{line}: {reason}")
        self.path = path
        self.line = line


def _no_duplicates(pairs):
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return fields


def _decode(text, path, line, error):
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as cause:
        raise error(path, line, f"not JSON: {cause.msg} at column {cause.colno}") from None
    except UnicodeDecodeError as cause:
        raise error(path, line, f"not UTF-8: {cause.reason} at byte {cause.start}") from None
    except RecursionError:
        raise error(path, line, "not usable JSON: nested too deep") from None
    except ValueError as cause:
        raise error(path, line, f"not usable JSON: {cause}") from None


def _lines(path, error):
    number = 0
    with open(path, "rb") as raw:
        compressed = raw.peek(2).startswith(_GZIP_MAGIC)
        source = gzip.GzipFile(fileobj=raw) if compressed else raw
        try:
            for line in source:
                number += 1
                yield number, line
        except (EOFError, gzip.BadGzipFile, zlib.error) as cause:
            raise error(path, number + 1, f"broken gzip data: {cause}") from None


def json_lines(path, error=FileError):
    """Yields (line number, value) for the lines of ``path`` that are not blank; gzip is recognised by content.

    Raises
    ------
    FileError
        Or the subclass ``error``, for bytes that are not gzip, UTF-8 or JSON, and for a field given twice.
    OSError
        If the file cannot be read.
    """
    for number, line in _lines(path, error):
        if line.strip():
            yield number, _decode(line, path, number, error)


def json_object(path, error=FileError):
    """The one JSON object that fills ``path``; raises as ``json_lines``."""
    value = _decode(b"".join(line for _, line in _lines(path, error)), path, 1, error)
    if not isinstance(value, dict):
        raise error(path, 1, f"must be a JSON object, not {value!r:.60}")
    return value


@contextmanager
def whole_file(path):
    """A binary file to write; ``path`` appears, or changes, only when the ``with`` block ends without an exception."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            yield file
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_lines(path, lines):
    """Writes text lines, as ``whole_file``.

    A name that ends in ``.gz`` is compressed; equal lines give equal bytes.
    """
    with whole_file(path) as raw:
        if Path(path).suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file:
                file.writelines(f"{line}\n".encode() for line in lines)
        else:
            raw.writelines(f"{line}\n".encode() for line in lines)


def write_json(path, value):
    """Writes one JSON value, a field of the top object a line; as ``whole_file``."""
    fields = [f" {json.dumps(name)}: {json.dumps(field)}" for name, field in value.items()]
    write_lines(path, ["{", *(f"{field}," for field in fields[:-1]), fields[-1], "}"])


def check_format(fields, name, version):
    """Raises ValueError unless the object ``fields`` says that it is ``version`` of the format ``name``."""
    if not isinstance(fields, dict) or (fields.get("format"), fields.get("version")) != (name, version):
        raise ValueError(f"is not {name!r} version {version}: {fields!r:.60}")


def check_keys(fields, names):
    """Raises ValueError unless ``fields`` is a dict of exactly these ``names``."""
    if not isinstance(fields, dict):
        raise ValueError(f"must be an object, not {fields!r:.60}")
    for name in names:
        if name not in fields:
            raise ValueError(f"field {name!r} is missing")
    for name in fields:
        if name not in names:
            raise ValueError(f"unknown field {name!r}")


def check_int(name, value, low, high):
    """Raises ValueError unless ``value`` is an integer (a bool is none) from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be an integer, not {value!r:.60}")
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in {low} ... {high}, not {value}")
