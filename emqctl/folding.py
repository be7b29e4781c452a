"""Folding error texts: failures that differ only in an id, a number, an address, a path or a quoted name are one.

A text is folded line by line, so that the frames of a trace, which come again with each job, are folded once.
Every pattern takes time in proportion to the line, whatever stands in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache

_TEXT = 65_536  # bytes of an error that are looked at
_LINE = 4096  # … and of a line
_KEPT = 1024  # bytes of a folded line that was cut: its end is not the same from job to job
_FOLDED = 4096  # bytes of a folded error that count
_CACHED = 512  # bytes of a line that is remembered

_Token = bytes | Callable[[re.Match[bytes]], bytes]


def _quote(match: re.Match[bytes]) -> bytes:
    """Fold what is quoted, but for the key of a JSON object or a Python dict."""
    before, quoted, after = match.groups(b"")
    mark = quoted[:1]
    return match[0] if before and after else before + mark + b"\xe2\x80\xa6" + mark + after


def _unescaped(match: re.Match[bytes]) -> bytes:
    return b"\\" if match[1] == b"\\" else b""


_HEX = rb"[0-9a-fA-F]"
_GROUP = _HEX + rb"{1,4}"  # of an IPv6 address
_IPV6 = rb"(?:(?:G:){7}G|(?:G:){1,7}:(?:G(?::G){0,6})?|::G(?::G){0,6})(?:\.\d{1,3}){0,3}(?:%\w+)?".replace(b"G", _GROUP)
_BEGIN, _END = rb"(?<![0-9A-Za-z])", rb"(?![0-9A-Za-z])"
_IN_PATH = rb"[\w.@%+=~#$\x80-\xff-]"

#: What a line must hold for a pattern to be tried, the pattern, what takes its place. In this order: quotes,
#: what has a shape of its own, words that hold a digit, numbers, lists of what was folded, blanks.
_FOLDS: tuple[tuple[re.Pattern[bytes], re.Pattern[bytes], _Token], ...] = tuple(
    (re.compile(needed), re.compile(pattern), token)
    for needed, pattern, token in (
        (rb"\\", rb"\\([\\\"'])", _unescaped),
        (rb'"', rb'([{,]\s*)?("[^"]*")(\s*:)?', _quote),
        (rb"'", rb"([{,]\s*)?((?<![0-9A-Za-z])'[^']*'(?![0-9A-Za-z]))(\s*:)?", _quote),
        (rb"`", rb"`[^`']*[`']", b"`\xe2\x80\xa6`"),
        (
            rb"\xe2\x80[\x9c\x9e]",
            rb"\xe2\x80[\x9c\x9e](?:[^\xe2]|\xe2(?!\x80[\x9c-\x9e]))*\xe2\x80[\x9c\x9d]",
            b'"\xe2\x80\xa6"',
        ),
        (rb"\xc2\xab", rb"\xc2\xab(?:[^\xc2]|\xc2(?![\xab\xbb]))*\xc2\xbb", b'"\xe2\x80\xa6"'),
        (rb"#[A-Z]", rb"#([A-Z][\w.]*)<[^<>]*>", rb"#\1<" + b"\xe2\x80\xa6>"),  # inspected by Elixir
        (rb"://", rb"(?<![0-9A-Za-z+.-])[A-Za-z][0-9A-Za-z+.-]{1,15}://[^\s\"'`<>,;|)\]}]*", b"<url>"),
        (rb"@", rb"(?<![\w.+%-])[\w.+%-]{1,64}@[\w-]+(?:\.[\w-]+)+", b"<address>"),
        (rb"-\w{4}-", _BEGIN + rb"H{8}-(?:H{4}-){3}H{12}".replace(b"H", _HEX) + _END, b"<uuid>"),
        (
            rb"\d-\d\d",
            _BEGIN + rb"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)?" + _END,
            b"<time>",
        ),
        (rb"::|:\w*:", rb"(?<![\w:.])(?:\[" + _IPV6 + rb"\](?::\d+)?|" + _IPV6 + rb"(?!\w|:[\w:]))", b"<address>"),
        (rb":\w\w:\w\w:", _BEGIN + rb"(?:H{2}:){5}H{2}".replace(b"H", _HEX) + _END, b"<address>"),
        (rb"\d\.\d", rb"(?<![0-9A-Za-z.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?" + _END, b"<address>"),
        (
            rb"/",
            rb"(?<![\w<>.~/\x80-\xff-])(?:~|\.{1,2})?/P+(?:/P*)*(?:\?[^\s\"'<>]*)?".replace(b"P", _IN_PATH),
            b"<path>",
        ),
        (rb":\\", _BEGIN + rb"[A-Za-z]:\\[^\s\"'<>|:*?,;)\]]*", b"<path>"),
        (rb"[A-Z]{3}\d", _BEGIN + rb"[A-Z]{3}\d[0-9A-Za-z]{10}" + _END, b"<id>"),
        (rb"[a-fA-F]\d", _BEGIN + rb"(?=[a-fA-F]+\d)" + _HEX + rb"{4,}" + _END, b"<n>"),
        (rb"[a-fA-F]{4}", _BEGIN + rb"(?:[a-f]{8,}|[A-F]{8,}|(?<=[-=#@])(?:[a-f]{4,}|[A-F]{4,}))" + _END, b"<n>"),
        (
            rb"\d",
            _BEGIN
            + rb"(?:\d[0-9A-Za-z]*|[A-Za-z]+\d+[A-Za-z]+\d[0-9A-Za-z]*"
            + rb"|(?:[a-z]+\d+[a-z][0-9a-z]*|[A-Z]+\d+[A-Z][0-9A-Z]*)(?![0-9A-Za-z]))",
            b"<n>",
        ),
        (rb"\d", rb"\d+", b"<n>"),
        (rb"<n>", rb"(?:(?<![\w>])[+-])?<n>(?:(?:[.:]|, ?)[+-]?<n>)*", b"<n>"),
        (rb",", b"(\"\xe2\x80\xa6\"|'\xe2\x80\xa6'|<[a-z]+>)(?:, ?\\1)+", rb"\1"),
        (rb"\s\s|[^\S ]", rb"\s+", b" "),
    )
)


def fold(error: bytes) -> bytes:
    """Return the part of an error text that its kind has in common, at most 4096 bytes of it."""
    lines: list[bytes] = []
    size = 0
    for line in error[:_TEXT].splitlines():
        folded = (_remembered if len(line) <= _CACHED else _fold_line)(line)
        if folded:
            lines.append(folded)
            size += len(folded) + 1
            if size > _FOLDED:
                break
    return b"\n".join(lines)[:_FOLDED]


def group_of(error: bytes) -> str:
    """Return the name of an error's group: 8 hex digits that stay the same from run to run."""
    return hashlib.blake2s(fold(error), digest_size=4).hexdigest()


def _fold_line(line: bytes) -> bytes:
    text = line[:_LINE]
    if len(line) > _LINE and text.count(b'"') % 2:
        text += b'"'  # the quote ends somewhere behind
    for needed, pattern, token in _FOLDS:
        if needed.search(text):
            text = pattern.sub(token, text)
    text = text.strip()
    return text[:_KEPT] if len(line) > _LINE else text


_remembered = lru_cache(maxsize=2048)(_fold_line)
