"""Computed cells kept on disk, each under a hash of all that it depends on."""

import json
import sqlite3
import zlib
from pathlib import Path

import numpy as np

__all__ = ["Store"]


class Store:
    """Cells by key in a file of SQLite, which is whole whenever a process ends; a context manager.

    A value is a cell, a dict, and the cost of each session, float64[sessions].

    Raises
    ------
    ValueError
        If the file is something else.
    """

    def __init__(self, path):
        self.path = Path(path)

    def __enter__(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(self.path, timeout=60)
        try:
            self._connection.execute("CREATE TABLE IF NOT EXISTS cells (key TEXT PRIMARY KEY, cell TEXT, costs BLOB)")
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise ValueError(f"{self.path} is no store of cells ({error}); remove it or name another") from None
        return self

    def __exit__(self, *error):
        self._connection.close()

    def __contains__(self, key):
        return self._connection.execute("SELECT 1 FROM cells WHERE key = ?", (key,)).fetchone() is not None

    def __getitem__(self, key):
        row = self._connection.execute("SELECT cell, costs FROM cells WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        return json.loads(row[0]), np.frombuffer(zlib.decompress(row[1]))

    def keep(self, values):
        """Stores a dict of values by key, all of them or, if interrupted, none."""
        rows = [
            (key, json.dumps(cell), zlib.compress(np.ascontiguousarray(costs).tobytes(), 1))
            for key, (cell, costs) in values.items()
        ]
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO cells VALUES (?, ?, ?)", rows)
