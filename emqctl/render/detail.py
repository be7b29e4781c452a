"""Values over several lines, for one record looked at closely."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from emqctl import times
from emqctl.keyspace import decode
from emqctl.render.cells import Clock, to_text

_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|\[\s*\]|\{\s*\}|[\[\]{},:]|[^\s\[\]{},:"]+')
_HEX_WIDTH = 16
_OPENING, _CLOSING, _BREAKING = {"[", "{"}, {"]", "}"}, {"[", "{", ","}
_DEEPEST = 200  # brackets inside brackets that are indented; Python's own reader gives up later


def detail_lines(value: Any, time_style: str, now_ms: Clock) -> list[str]:
    """Return a value as lines, not yet escaped: JSON indented, text by its line breaks, other bytes as hex."""
    if isinstance(value, bytes):
        return list(_blob(value))
    if isinstance(value, list):
        return [line for item in value for line in detail_lines(item, time_style, now_ms)]
    if isinstance(value, dict):
        return [line for name, item in value.items() for line in _named(name, item, time_style, now_ms)]
    if time_style == "relative" and hasattr(value, "tzinfo"):
        return [f"{times.rfc3339(value)} ({times.relative(value, now_ms())})"]
    return [to_text(value, time_style, now_ms)]


def _named(name: str, value: Any, time_style: str, now_ms: Clock) -> Iterator[str]:
    lines = detail_lines(value, time_style, now_ms) if value not in (None, {}, []) else []
    if len(lines) == 1:
        yield f"{name}: {lines[0]}"
    elif lines:
        yield f"{name}:"
        yield from (f"  {line}" for line in lines)


def _blob(raw: bytes) -> Iterator[str]:
    text = decode(raw)
    if text.isprintable():
        yield from indented(text) or [text]
    elif _is_text(text):
        yield from indented(text) or text.split("\n")
    else:
        yield from _hex(raw)


def indented(text: str) -> list[str] | None:
    """Return JSON with an object or list at the top over several lines, or None for anything else.

    The text is only laid out anew: numbers, escapes and repeated keys stay as they were written.
    """
    stripped = text.strip()
    if stripped[:1] not in {"[", "{"}:
        return None
    try:
        json.loads(stripped, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    return _laid_out(_TOKENS.findall(stripped))


def _laid_out(tokens: list[str]) -> list[str]:
    lines = [""]
    depth = 0
    for mark in tokens:
        if mark in _CLOSING:
            depth -= 1
            lines.append("")
        indent = "" if lines[-1] else "  " * min(depth, _DEEPEST)
        lines[-1] += indent + (": " if mark == ":" else mark)
        if mark in _OPENING:
            depth += 1
        if mark in _BREAKING:
            lines.append("")
    return lines


def _is_text(text: str) -> bool:
    """Tell whether bytes were UTF-8 text, whatever odd characters it holds."""
    return not re.search(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\ud800-\udfff]", text)


def _hex(raw: bytes) -> Iterator[str]:
    for at in range(0, len(raw), _HEX_WIDTH):
        some = raw[at : at + _HEX_WIDTH]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in some)  # noqa: PLR2004 # printable ASCII
        yield f"{at:08x}  {some.hex(' '):<{_HEX_WIDTH * 3}} {shown}"
