"""One value, as machines read it and as people do.

Data is hostile: whatever could steer a terminal is shown escaped to people, and stands inside
quotes or base64 for machines.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from emqctl import times
from emqctl.errors import EmqError
from emqctl.keyspace import decode, encode

# C0, DEL, C1, marks and overrides of direction, line separators, byte order mark, bytes that are no UTF-8
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_NAMED = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}

Clock = Callable[[], int]  # ms since 1970; asked only for relative times

#: How a moment is written, by the name of the style.
TIME_STYLES: dict[str, Callable[[datetime, Clock], str]] = {
    "relative": lambda moment, now_ms: times.relative(moment, now_ms()),
    "iso": lambda moment, _now_ms: times.rfc3339(moment),
    "local": lambda moment, _now_ms: _local(moment),
    "epoch": lambda moment, _now_ms: str(times.to_ms(moment)),
}


def _local(moment: datetime) -> str:
    try:
        return moment.astimezone().isoformat(sep=" ", timespec="milliseconds")
    except OverflowError:  # the first and the last day of the calendar have no local time everywhere
        return times.rfc3339(moment)


def machine_items(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the JSON members of one field.

    Text that is not UTF-8 is ``<name>_base64`` instead; a value that could not be read is null, with
    the reason in ``<name>_error``.
    """
    if isinstance(value, EmqError):
        yield name, None
        yield f"{name}_error", printable(str(value))
    elif isinstance(value, bytes | str) and _utf8(value) is None:
        yield f"{name}_base64", _base64(value)
    else:
        yield name, to_plain(value)


def to_plain(value: Any) -> Any:
    """Return what JSON can hold: text, numbers, booleans, null, and lists and objects of them."""
    if isinstance(value, bytes | str):
        text = _utf8(value)
        return {"base64": _base64(value)} if text is None else text
    if isinstance(value, datetime):
        return times.rfc3339(value)
    if isinstance(value, dict):
        return {key: plain for name, inner in value.items() for key, plain in machine_items(name, inner)}
    if isinstance(value, list | tuple):
        return [to_plain(inner) for inner in value]
    return value


def to_json(value: Any, *, ascii_only: bool) -> str:
    """Return JSON on one line in which nothing can steer a terminal."""
    text = json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def to_text(value: Any, time_style: str, now_ms: Clock) -> str:
    """Return a value as one line for people, not yet escaped; an absent or empty one is ``""``."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return TIME_STYLES[time_style](value, now_ms)
    if isinstance(value, bytes):
        return decode(value)
    if isinstance(value, EmqError):
        return f"! {value.brief}"
    if isinstance(value, tuple):  # words of our own, without commas
        return ",".join(value)
    if isinstance(value, dict | list):
        return to_json(to_plain(value), ascii_only=False) if value else ""
    return str(value)


def printable(text: str, encoding: str = "utf-8") -> str:
    """Return text with everything escaped that steers a terminal or that the encoding lacks."""
    return _unencodable(_STEERING.sub(_escape, text), encoding)


def to_cell(text: str, encoding: str = "utf-8") -> str:
    r"""Return a cell of the plain format: reversible, ``-`` for nothing, escapes ``\\ \t \n \r \xNN \uNNNN``."""
    if not text:
        return "-"
    return r"\x2d" if text == "-" else printable(text.replace("\\", "\\\\"), encoding)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if 0xDC80 <= code <= 0xDCFF:  # noqa: PLR2004 # surrogate escapes: a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"  # noqa: PLR2004 # ASCII


def _unencodable(text: str, encoding: str) -> str:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(_fitting(character, encoding) for character in text)
    return text


def _fitting(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    return character


def _utf8(value: bytes | str) -> str | None:
    try:
        return encode(value).decode("utf-8") if isinstance(value, str) else value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _base64(value: bytes | str) -> str:
    return base64.b64encode(encode(value) if isinstance(value, str) else value).decode("ascii")
