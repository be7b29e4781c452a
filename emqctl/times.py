"""Instants and durations, as operators write them and as emqctl prints them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from emqctl.errors import Malformed

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)(ms|[smhdw])", re.ASCII)
_RATE = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)/([smh])", re.ASCII)
_DATE_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?\s*([Zz]|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ACCEPTED = "write 90s, 2h, 3d, 2026-11-30, or 2026-11-30T18:00:00Z (UTC where no zone is given)"


@dataclass(frozen=True)
class Instant:
    """A point in time as it was given: absolute, or so long before whatever now is."""

    at_ms: int | None
    ago_ms: int = 0

    def resolve(self, now_ms: Callable[[], int]) -> int:
        """Return milliseconds since 1970; asks for the clock only when the instant is relative."""
        return now_ms() - self.ago_ms if self.at_ms is None else self.at_ms


def parse_instant(text: str) -> Instant:
    """Read ``2h`` (before now), a date, or RFC 3339; zoneless ones are UTC. Raises Malformed."""
    duration = _DURATION.fullmatch(text)
    if duration:
        return Instant(None, _duration_ms(duration))
    written = _DATE_TIME.fullmatch(text)
    if not written:
        raise Malformed("a time", text, _ACCEPTED)
    date, hour, minute, second, fraction, zone = written.groups()
    offset = zone.replace(":", "") if zone and zone not in "Zz" else "+0000"
    clock = f"{hour or '00'}:{minute or '00'}:{second or '00'}.{fraction or '':0<6.6}"
    try:
        return Instant(to_ms(datetime.fromisoformat(f"{date}T{clock}{offset[:3]}:{offset[3:]}")))
    except (ValueError, OverflowError) as error:
        raise Malformed("a time", text, str(error)) from error


def parse_duration_ms(text: str) -> int:
    """Read ``500ms``, ``5s``, ``1m``; a bare number is seconds. Whole milliseconds. Raises Malformed."""
    match = _DURATION.fullmatch(text if not text or text[-1:].isalpha() else f"{text}s")
    if not match:
        raise Malformed("a duration", text, "write 500ms, 5s, 1m or 2h")
    return _duration_ms(match)


def parse_rate(text: str) -> float:
    """Read ``50/s``, ``100/m`` or ``20/h`` as so many a second. Raises Malformed."""
    match = _RATE.fullmatch(text)
    if not match or not float(match[1]):
        raise Malformed("a rate", text, "write 50/s, 100/m or 20/h")
    return float(match[1]) * 1000 / _UNITS[match[2]]


def now_ms() -> int:
    """Return this machine's clock in ms since 1970, for what no server tells."""
    return time.time_ns() // 1_000_000


def to_ms(moment: datetime) -> int:
    """Return whole milliseconds since 1970."""
    return (moment - _UNIX_EPOCH) // timedelta(milliseconds=1)


def from_ms(unix_ms: int) -> datetime | None:
    """Return the UTC datetime of a millisecond count, or None where no calendar reaches."""
    try:
        return _UNIX_EPOCH + timedelta(milliseconds=unix_ms)
    except OverflowError:
        return None


def rfc3339(moment: datetime) -> str:
    """Return ``2026-11-29T23:40:12.118Z``."""
    return moment.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def relative(moment: datetime, now_ms: int) -> str:
    """Return ``3h ago`` or ``in 5m``: one unit, rounded down."""
    distance_ms = now_ms - to_ms(moment)
    length = brief_ms(abs(distance_ms))
    return f"{length} ago" if distance_ms >= 0 else f"in {length}"


def brief_ms(length_ms: int) -> str:
    """Return ``950ms``, ``42s``, ``3h``, ``12d`` for a length that is not negative, rounded down."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if length_ms >= size:
            return f"{length_ms // size}{unit}"
    return f"{length_ms}ms"


def _duration_ms(match: re.Match[str]) -> int:
    whole, _, fraction = match[1].partition(".")
    size = _UNITS[match[2]]
    return int(whole) * size + (int(fraction) * size // 10 ** len(fraction) if fraction else 0)
