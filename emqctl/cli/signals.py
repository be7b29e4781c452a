"""Signals that end a run: turned into Interrupted where nothing is left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from emqctl.errors import Interrupted

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Shield:
    """Holds a signal back from ``begin`` to ``end``, so that a batch is finished and accounted for."""

    def __init__(self) -> None:
        self._is_up = False
        self._pending: int | None = None

    def begin(self) -> None:
        """Hold signals back from here on."""
        self._is_up = True

    def end(self) -> None:
        """Let signals through again; raise Interrupted if one came meanwhile."""
        self._is_up = False
        if self._pending is not None:
            raise Interrupted(self._pending)

    def heed(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal: raise Interrupted, or remember it while the shield is up; a second one raises at once."""
        if self._is_up and self._pending is None:
            self._pending = number
            return
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)


@contextmanager
def raised(shield: Shield) -> Iterator[None]:
    """Raise Interrupted in this thread when INT, TERM or HUP comes; once, later ones are ignored (see ``Shield``).

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
