"""A line on a terminal that says how far a long run is."""

from __future__ import annotations

import time
from typing import TextIO

QUIET_S = 1.0  # a run shorter than this shows nothing
STEP_S = 0.1


class Progress:
    """One line, written over itself, on stderr; silent where stderr is no terminal."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream if stream is not None and stream.isatty() else None
        self._next = time.monotonic() + QUIET_S
        self._width = 0

    def show(self, text: str) -> None:
        """Show where the run is, if it takes long enough to want to know."""
        now = time.monotonic()
        if self._stream is None or now < self._next:
            return
        self._next = now + STEP_S
        self._stream.write(f"\r{text:<{self._width}}")
        self._stream.flush()
        self._width = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._stream is not None and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._width = 0
