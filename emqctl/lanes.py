"""Which lanes a queue has, as far as its own keys name them: no scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emqctl import branded
from emqctl.branded import BrandedId
from emqctl.connection import Server
from emqctl.keyspace import QueueKeys
from emqctl.replies import Command
from emqctl.walks import PAGE


def first_pages(keys: QueueKeys) -> list[Command]:
    """Return the commands whose replies ``known_lanes`` takes: one page of each key that names lanes."""
    return [
        ("LLEN", keys.fixed("ring")),
        ("LRANGE", keys.fixed("ring"), 0, PAGE - 1),
        ("SSCAN", keys.fixed("paused"), 0, "COUNT", PAGE),
        *(("HSCAN", keys.fixed(kind), 0, "COUNT", PAGE) for kind in ("gactive", "glimit", "gweight")),
    ]


def known_lanes(server: Server, keys: QueueKeys, replies: Sequence[Any]) -> list[BrandedId]:
    """Return the lanes named in ring, paused, gactive, glimit or gweight, sorted; ``named_groups`` that are ids.

    A name that is no branded id cannot be a lane and is left out.
    """
    groups = named_groups(server, keys, replies)
    return sorted(branded.parse(group) for group in groups if branded.is_branded(group))


def named_groups(server: Server, keys: QueueKeys, replies: Sequence[Any]) -> set[bytes]:
    """Return what stands for a lane in ring, paused, gactive, glimit or gweight, whatever it is.

    ``replies`` answer ``first_pages``; more pages of 1,000 are read where those were full.
    """
    length, ring, *scanned = replies
    groups = set(ring if length <= PAGE else _whole_ring(server, keys, length))
    for (command, key, *_), page in zip(first_pages(keys)[2:], scanned, strict=True):
        cursor, found = page
        groups.update(found)
        while cursor:
            [(cursor, found)] = server.ask((command, key, cursor, "COUNT", PAGE))
            groups.update(found)
    return groups


def _whole_ring(server: Server, keys: QueueKeys, length: int) -> list[bytes]:
    ring = keys.fixed("ring")
    # one moment: workers turn the ring, and a lane must not slip from one page to another
    pages = server.ask(*(("LRANGE", ring, at, at + PAGE - 1) for at in range(0, length, PAGE)), atomic=True)
    return [group for page in pages for group in page]
