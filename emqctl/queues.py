"""One queue: how deep it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emqctl.connection import Server
from emqctl.errors import EmqError, Malformed
from emqctl.keyspace import QueueKeys, decode
from emqctl.lanes import first_pages, known_lanes
from emqctl.presence import discover, require_deployment, require_seen
from emqctl.records import QueueDepth
from emqctl.replies import Command


class Queue:
    """A queue on a server. Raises Malformed for a name that cannot be one."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.keys = QueueKeys(name)

    @property
    def name(self) -> str:
        """The name as given."""
        return self.keys.queue

    def look(self, *commands: Command, counting: bool) -> list[Any]:
        """Return the replies to reads, in the round trip that also finds whether the queue is seen.

        Errors stand in the place of replies. Raises NotFound as ``presence.require_seen`` does.
        """
        seen, *replies = self.server.try_ask(("EXISTS", *self.keys.seen_by), *commands)
        if isinstance(seen, EmqError):
            raise seen
        require_seen(self.server, self.keys, seen, counting=counting)
        return replies

    def depth(self, *, flat: bool = False) -> QueueDepth:
        """Return the waiting jobs: the pending set and, unless ``flat``, every known lane.

        One ZCARD a set; an idle queue has 0. Two round trips, one when ``flat``.
        """
        if flat:
            [pending] = self.look(("ZCARD", self.keys.pending), counting=True)
            return QueueDepth(self.name, waiting=pending)
        return QueueDepth(self.name, waiting=_total(self._counts()))

    def depths(self) -> QueueDepth:
        """Return every count of the queue, of one moment where this user may use MULTI."""
        keys, now = self.keys, self.server.now_ms()
        pending, lanes, active, lapsed, scheduled, overdue, dead, completed, failed = self._counts(
            ("ZCARD", keys.active),
            ("ZCOUNT", keys.active, "-inf", now),
            ("ZCARD", keys.schedule),
            ("ZCOUNT", keys.schedule, "-inf", now),
            ("ZCARD", keys.dead),
            ("HGET", keys.fixed("metrics:completed"), "count"),
            ("HGET", keys.fixed("metrics:failed"), "count"),
        )
        return QueueDepth(
            queue=self.name,
            pending=pending,
            lanes=lanes,
            waiting=_total([pending, lanes]),
            active=active,
            lapsed=lapsed,
            scheduled=scheduled,
            overdue=overdue,
            dead=dead,
            completed=_counter(completed),
            failed=_counter(failed),
        )

    def _counts(self, *commands: Command) -> list[Any]:
        """Return the flat count, the sum of the known lanes, then the replies to ``commands``."""
        sources = self.look(*first_pages(self.keys), counting=True)
        unreadable = next((reply for reply in sources if isinstance(reply, EmqError)), None)
        lanes = [] if unreadable else known_lanes(self.server, self.keys, sources)
        sets = [self.keys.pending, *map(self.keys.lane, lanes)]
        replies = self.server.try_ask(*(("ZCARD", key) for key in sets), *commands, atomic=True)
        pending, *in_lanes = replies[: len(sets)]
        return [pending, unreadable or _total(in_lanes), *replies[len(sets) :]]


def open_queues(server: Server, names: Sequence[str]) -> list[Queue]:
    """Return the queues of these names, or every queue found by a scan when none is given."""
    if names:
        return [Queue(server, name) for name in names]
    found = discover(server)
    if not found:
        require_deployment(server)
    return [Queue(server, name) for name in found]


def _total(counts: Sequence[int | EmqError]) -> int | EmqError:
    """Return the sum, or the first count that could not be read."""
    total = 0
    for count in counts:
        if isinstance(count, EmqError):
            return count
        total += count
    return total


def _counter(raw: bytes | EmqError | None) -> int | EmqError:
    if raw is None or isinstance(raw, EmqError):
        return raw or 0
    return int(raw) if raw.isdigit() else Malformed("a count", decode(raw), "it is not all digits")
