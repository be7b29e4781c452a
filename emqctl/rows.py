"""Job rows, read so that a huge payload or error crosses the wire only when it is wanted."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emqctl.connection import Server
from emqctl.errors import BadValue, EmqError
from emqctl.keyspace import QueueKeys, decode
from emqctl.numbers import count
from emqctl.replies import Command, permitted

SHORT = 4096  # bytes up to which a text is fetched unasked
WHOLE = sys.maxsize
REPLY_BYTES = 8_000_000  # about what one round trip may bring when whole texts are wanted


@dataclass(frozen=True)
class Row:
    """What a listing needs of one job hash; a field the hash lacks, or that was not asked for, is None.

    ``payload`` and ``error`` are None too when they are longer than was wanted. ``attempts`` is an
    error where the hash, or the number in it, is none.
    """

    attempts: int | EmqError | None
    group: bytes | None
    payload_bytes: int | None
    payload: bytes | None
    error_bytes: int | None
    error: bytes | None


@dataclass(frozen=True)
class _Measured:
    """A row of which the fields are read and the texts measured; a length is an error with the row."""

    key: bytes
    head: Any
    sizes: dict[str, Any]
    wanted: tuple[str, ...]

    @property
    def weight(self) -> int:
        return sum(self.sizes[name] for name in self.wanted)


def read_rows(
    server: Server, keys: QueueKeys, members: Sequence[bytes], *, payload: int | None = None, error: int | None = None
) -> Iterator[Row]:
    """Yield one Row a member, in order.

    ``payload`` and ``error`` are the bytes up to which that text is fetched, None leaves it alone. One
    round trip for fields and lengths of all, then one for the texts, more where they pass 8 MB together.
    """
    if not members:
        return
    limits = {"payload": payload, "last_error": error}
    wanted = {name: limit for name, limit in limits.items() if limit is not None}
    for some in _by_weight(_measure(server, [keys.row(member) for member in members], wanted)):
        asked: list[Command] = [("HGET", row.key, name) for row in some for name in row.wanted]
        replies = iter(permitted(server.try_ask(*asked)) if asked else ())
        for row in some:
            yield _row(row, {name: next(replies) for name in row.wanted})


def _measure(server: Server, rows: Sequence[bytes], limits: Mapping[str, int]) -> list[_Measured]:
    asked: list[Command] = []
    for key in rows:
        asked += [("HMGET", key, "attempts", "group"), *(("HSTRLEN", key, name) for name in limits)]
    replies = iter(permitted(server.try_ask(*asked)))
    measured = []
    for key in rows:
        head = next(replies)
        sizes = {name: next(replies) for name in limits}
        wanted = tuple(name for name, size in sizes.items() if isinstance(size, int) and size <= limits[name])
        measured.append(_Measured(key, head, sizes, wanted))
    return measured


def _by_weight(rows: Sequence[_Measured]) -> Iterator[list[_Measured]]:
    some: list[_Measured] = []
    weight = 0
    for row in rows:
        if some and weight + row.weight > REPLY_BYTES:
            yield some
            some, weight = [], 0
        some.append(row)
        weight += row.weight
    if some:
        yield some


def _row(row: _Measured, texts: dict[str, Any]) -> Row:
    if isinstance(row.head, EmqError):
        return Row(row.head, None, None, None, None, None)
    attempts, group = row.head
    payload, payload_bytes = _text(row, texts, "payload")
    error, error_bytes = _text(row, texts, "last_error")
    return Row(_attempts(attempts), group, payload_bytes, payload, error_bytes, error)


def _text(row: _Measured, texts: dict[str, Any], name: str) -> tuple[bytes | None, int | None]:
    """Return a text and its length; HSTRLEN says 0 for an absent field too, so that both are None then."""
    size = row.sizes.get(name)
    text = texts.get(name)
    if not isinstance(size, int) or isinstance(text, EmqError):
        return None, None
    if name in row.wanted:
        return text, None if text is None else len(text)
    return None, size


def _attempts(raw: bytes | None) -> int | EmqError | None:
    if raw is None:
        return None
    attempts = count(raw)
    return BadValue("the attempts", decode(raw), "they are no count") if attempts is None else attempts
