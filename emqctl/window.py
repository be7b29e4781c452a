"""Which mint times: bounds on ids, since ids sort by the time they were made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emqctl import branded
from emqctl.branded import BrandedId
from emqctl.times import Instant


@dataclass(frozen=True)
class Window:
    """Ids from ``low`` (inclusive) up to ``high`` (exclusive), in byte order; None is open."""

    low: bytes | None = None
    high: bytes | None = None

    @property
    def is_open(self) -> bool:
        """Whether every member is inside."""
        return self.low is None and self.high is None

    @property
    def lexical(self) -> tuple[bytes, bytes]:
        """The bounds as ``ZRANGE … BYLEX`` takes them, low first."""
        return _lowest(self.low), b"+" if self.high is None else b"(" + self.high

    def above(self, member: bytes) -> Window:
        """Return the part of the window that sorts after a member."""
        return Window(member + b"\0", self.high)

    def below(self, member: bytes) -> Window:
        """Return the part of the window that sorts before a member."""
        return Window(self.low, member)

    def __contains__(self, member: bytes) -> bool:
        return (self.low is None or member >= self.low) and (self.high is None or member < self.high)


@dataclass(frozen=True)
class MintBounds:
    """Bounds as an operator gives them; each narrows the others."""

    since: Instant | None = None  # inclusive
    until: Instant | None = None  # exclusive
    after: BrandedId | None = None  # exclusive
    before: BrandedId | None = None  # exclusive

    def window(self, now_ms: Callable[[], int]) -> Window:
        """Return the window; a time bound also leaves out members that are no job ids."""
        lows = [bytes(self.after) + b"\0"] if self.after else []
        highs = [bytes(self.before)] if self.before else []
        if self.since or self.until:
            lows.append(_first_at(self.since.resolve(now_ms)) if self.since else b"JOB")
            highs.append(_first_at(self.until.resolve(now_ms)) if self.until else b"JOC")
        return Window(max(lows, default=None), min(highs, default=None))


def _lowest(low: bytes | None) -> bytes:
    if low is None:
        return b"-"
    # nothing sorts between `x` and `x` + NUL, so that `(x` says the same and reads better
    return b"(" + low[:-1] if low.endswith(b"\0") else b"[" + low


def _first_at(unix_ms: int) -> bytes:
    """Return where the job ids of a moment begin, for moments no id can hold too."""
    if unix_ms < branded.EPOCH_MS:
        return b"JOB"
    return b"JOC" if unix_ms - branded.EPOCH_MS >= 2**41 else bytes(branded.smallest_at(unix_ms))
