"""Signals that end a run: turned into Interrupted where nothing is left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from emqctl.errors import Interrupted

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Shield:
    """Turns signals into Interrupted, and holds them back while a batch is on its way or accounted for.

    ``abandon`` gives standard output up: called when a signal comes once more while somebody who does
    not read keeps the run from ending.
    """

    def __init__(self, abandon: Callable[[], None]) -> None:
        self._abandon = abandon
        self._holds = False
        self._answered = True
        self._came: int | None = None

    def begin(self) -> None:
        """Hold signals back: a batch is about to be sent."""
        self._holds, self._answered = True, False

    def answered(self) -> None:
        """The batch is answered; what is left is to print what came of it."""
        self._answered = True

    def end(self) -> None:
        """Let signals through again; raise Interrupted if one came meanwhile."""
        self._holds, self._answered = False, True
        if self._came is not None:
            raise Interrupted(self._came)

    def heed(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal: raise Interrupted, at once or at the end of the batch."""
        first, self._came = self._came is None, self._came or number
        if first and not self._holds:
            raise Interrupted(number)
        if not first and self._answered:
            self._abandon()


@contextmanager
def raised(shield: Shield) -> Iterator[None]:
    """Raise Interrupted in this thread when INT, TERM or HUP comes, once; see ``Shield``.

    A signal that was ignored from outside (nohup) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    heeded = [number for number in ENDING if before[number] != signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, shield.heed)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, before[number])
