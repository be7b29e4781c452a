"""Folding error texts: failures that differ only in an id, a number, an address or a quoted name are one."""

from __future__ import annotations

import hashlib
import re

_LONGEST = 4096  # bytes of an error that are looked at: enough for any message, a bound for any trace

# In this order: what is inside quotes first, then what has a shape of its own, numbers last.
_FOLDS = tuple(
    (re.compile(pattern), token)
    for pattern, token in (
        (rb'"[^"\n]*"', b'"\xe2\x80\xa6"'),
        (rb"(?<![A-Za-z0-9])'[^'\n]*'(?![A-Za-z0-9])", b"'\xe2\x80\xa6'"),
        (rb"`[^`\n]*`", b"`\xe2\x80\xa6`"),
        (rb"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", b"<uuid>"),
        (rb"\b[A-Z]{3}[0-9A-Za-z]{11}\b(?<=\d[0-9A-Za-z]{10}|[0-9A-Za-z]{11})", b"<id>"),
        (rb"\b[a-z][a-z0-9+.-]*://[^\s,;)\]}>]+", b"<url>"),
        (rb"\b[\w.+-]+@[\w-]+\.[\w.-]+\b", b"<address>"),
        (rb"\[[0-9a-fA-F:]*:[0-9a-fA-F:.]+\](?::\d+)?", b"<address>"),
        (rb"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", b"<address>"),
        (rb"(?<![\w<])(?:~|\.{0,2})/[\w.@%+-]+(?:/[\w.@%+-]*)*", b"<path>"),
        (rb"\b0[xX][0-9a-fA-F]+\b", b"<n>"),
        (rb"\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{4,}\b", b"<n>"),
        (rb"[+-]?\d+(?:[.,:]\d+)*", b"<n>"),
        (rb"\s+", b" "),
    )
)


def fold(error: bytes) -> bytes:
    """Return the part of an error text that its kind has in common; looks at the first 4096 bytes."""
    text = error[:_LONGEST]
    for pattern, token in _FOLDS:
        text = pattern.sub(token, text)
    return text.strip()


def group_of(error: bytes) -> str:
    """Return the name of an error's group: 8 hex digits that stay the same from run to run."""
    return hashlib.blake2s(fold(error), digest_size=4).hexdigest()
