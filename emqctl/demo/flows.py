"""The shape of EchoMQ's flows, and the entries by which they are settled between queues; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from emqctl import branded
from emqctl.errors import Malformed
from emqctl.keyspace import decode

Text = str | bytes

MAX_DEPTH = 8
_FAIL = b"\0fail\0"


@dataclass(frozen=True)
class Node:
    """A job of a flow. A queue of None is its parent's; ``ignore_failure``: the parent goes on without it."""

    id: Text
    payload: Text
    children: tuple[Node, ...] = ()
    queue: str | None = None
    ignore_failure: bool = False

    def flaw(self) -> str | None:
        """Say why EchoMQ refuses a flow before it writes anything: `flow_too_deep`, `flow_cycle` or None."""
        levels = list(self._levels())
        if len(levels) > MAX_DEPTH:
            return "flow_too_deep"
        ids = [branded.parse(node.id) for level in levels for node in level]
        return "flow_cycle" if len(set(ids)) < len(ids) else None

    def names(self) -> list[object]:
        """Return the ids as EchoMQ's client answers: [root, [child...]], of a deep flow [root, [[child, [...]]...]]."""
        deep = any(child.children for child in self.children)
        return self._tree() if deep else [self.id, [child.id for child in self.children]]

    def _levels(self) -> Iterator[tuple[Node, ...]]:
        level: tuple[Node, ...] = (self,)
        while level:
            yield level
            level = tuple(child for node in level for child in node.children)

    def _tree(self) -> list[object]:
        return [self.id, [child._tree() for child in self.children]]  # noqa: SLF001 - its own kind


class Settlement(NamedTuple):
    """An outbox entry: a child is done (``policy`` None, ``told`` its result), or dead (``told`` its error)."""

    parent_queue: bytes
    parent: bytes
    child: bytes
    policy: bytes | None
    told: bytes


def fail_entry(parent_queue: bytes, parent: bytes, child: bytes, policy: bytes, error: bytes) -> bytes:
    """Return the outbox entry of a dead child."""
    return _FAIL + b"\0".join((parent_queue, parent, child, policy, error))


def parse_entry(entry: bytes) -> Settlement:
    """Read an outbox entry. Raises Malformed when parts are missing; the last part may hold NUL."""
    failed = entry.startswith(_FAIL)
    parts: list[bytes] = entry.removeprefix(_FAIL).split(b"\0", 4 if failed else 3)
    if len(parts) < (5 if failed else 4):
        raise Malformed("an outbox entry", decode(entry), "parts are missing")
    *link, told = parts
    return Settlement(link[0], link[1], link[2], link[3] if failed else None, told)
