"""Numbers as Redis holds them: text, of which only some is a number to HINCRBY and to a Lua program."""

from __future__ import annotations

import re

#: Digits a Lua number holds exactly; no counter of a queue gets near them.
DIGITS = 15

_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,14}")


def integer(raw: bytes | None) -> int | None:
    """Return the number, or None for what is none: no leading zeros or signs, at most 15 digits."""
    return int(raw) if raw is not None and _INTEGER.fullmatch(raw) else None


def count(raw: bytes | None) -> int | None:
    """Return a number that is not negative, or None."""
    number = integer(raw)
    return None if number is None or number < 0 else number
