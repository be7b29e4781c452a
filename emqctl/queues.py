"""One queue: how deep it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from emqctl.connection import Server
from emqctl.counting import STATES, Waiting, count, locate, overview
from emqctl.errors import EmqError
from emqctl.keyspace import QueueKeys
from emqctl.lanes import first_pages
from emqctl.presence import discover, require_deployment, require_seen
from emqctl.records import QueueState
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

    def depth(self, *, flat: bool = False) -> QueueState:
        """Return the waiting jobs: the pending set and, unless ``flat``, every known lane.

        One ZCARD a set; an idle queue has 0. Two round trips, one when ``flat``.
        """
        if flat:
            [pending] = self.look(("ZCARD", self.keys.pending), counting=True)
            return QueueState(self.name, waiting=pending)
        return self._count()

    def depths(self) -> QueueState:
        """Return every count of the queue, of one moment where this user may use MULTI."""
        return self._count(*STATES)

    def _count(self, *figures: str) -> QueueState:
        pages = self.look(*first_pages(self.keys), counting=True)
        [state] = count(self.server, [locate(self.server, self.keys, pages)], figures)
        return state


def open_queues(server: Server, names: Sequence[str]) -> list[Queue]:
    """Return the queues of these names, or every queue found by a scan when none is given."""
    return [Queue(server, name) for name in names or _found(server)]


def every_depth(server: Server, *, flat: bool, states: bool) -> Iterator[QueueState]:
    """Yield what ``Queue.depth`` or ``Queue.depths`` tells of every queue found by a scan, many in a round trip."""
    if flat:
        return count(server, [Waiting(QueueKeys(name), ()) for name in _found(server)])
    return overview(server, _found(server), STATES if states else ())


def _found(server: Server) -> list[str]:
    found = discover(server)
    if not found:
        require_deployment(server)
    return found
