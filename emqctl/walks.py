"""Walking a set of ids in mint order: pages by a lexical cursor, never by an offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from emqctl.connection import Server
from emqctl.replies import Command
from emqctl.window import Window

PAGE = 1000


@dataclass(frozen=True)
class SetWalk:
    """One pass over a sorted set whose scores are equal (pending, dead, a lane), through a window."""

    key: bytes
    window: Window
    newest_first: bool
    page: int = PAGE

    @property
    def page_command(self) -> Command:
        """The command for the first page."""
        return self._range(self.window)

    @property
    def count_command(self) -> Command:
        """The command for how many members the window holds; O(log n)."""
        return ("ZCARD", self.key) if self.window.is_open else ("ZLEXCOUNT", self.key, *self.window.lexical)

    def pages(self, server: Server, first: Sequence[bytes] | None = None) -> Iterator[Sequence[bytes]]:
        """Yield page after page, the last one not full; ``first`` is the first one where it was read already.

        The cursor never turns back: what enters behind it is not met, what was there all the time is met once.
        """
        window = self.window
        while True:
            found = server.ask(self._range(window))[0] if first is None else first
            yield found
            if len(found) < self.page:
                return
            window = window.below(found[-1]) if self.newest_first else window.above(found[-1])
            first = None

    def _range(self, window: Window) -> Command:
        low, high = window.lexical
        bounds = (high, low, "BYLEX", "REV") if self.newest_first else (low, high, "BYLEX")
        return ("ZRANGE", self.key, *bounds, "LIMIT", 0, self.page)
