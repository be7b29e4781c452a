"""Telling ids that come again: exactly, and in bounded memory however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emqctl.errors import Refused

if TYPE_CHECKING:
    import sqlite3

IN_MEMORY = 50_000  # ids, 4 MB; those after them go to a temporary file


class Repeats:
    """The ids that came so far."""

    def __init__(self) -> None:
        self._first: set[bytes] = set()
        self._rest: sqlite3.Connection | None = None

    def close(self) -> None:
        """Delete the file, if there is one."""
        if self._rest is not None:
            self._rest.close()

    def has(self, word: bytes) -> bool:
        """Tell whether an id came before, and remember it. Raises Refused where there is no room for it."""
        if word in self._first:
            return True
        if len(self._first) < IN_MEMORY:
            self._first.add(word)
            return False
        return self._is_in_file(word)

    def _is_in_file(self, word: bytes) -> bool:
        try:
            import sqlite3  # here: few runs need it, and all would wait for it
        except ImportError:  # a Python that was built without
            self._first.add(word)
            return False
        try:
            if self._rest is None:  # a file of its own, gone with the connection
                self._rest = sqlite3.connect("", isolation_level=None, check_same_thread=False)
                self._rest.execute("PRAGMA journal_mode = OFF")
                self._rest.execute("CREATE TABLE ids (id BLOB PRIMARY KEY) WITHOUT ROWID")
            return self._rest.execute("INSERT OR IGNORE INTO ids VALUES (?)", (word,)).rowcount == 0
        except sqlite3.Error as error:
            hint = "make room where TMPDIR points, or give the ids in several runs"
            raise Refused(f"no room to remember which ids were given: {error}", hint=hint) from error
