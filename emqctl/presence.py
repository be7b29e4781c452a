"""Is this queue in use, idle, or was it never here? EchoMQ keeps no register of queues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from emqctl import keyspace
from emqctl.connection import Server
from emqctl.errors import NotFound
from emqctl.keyspace import QueueKeys

SCAN_COUNT = 1000
SCAN_LIMIT = 100_000  # keys looked at before a queue is called not seen
LANES_LIMIT = 200_000  # lanes a census remembers
EXAMPLES = 3  # keys of no queue that it remembers


@dataclass
class Census:
    """What a scan of the database has met.

    ``queues`` are the names of all that have a key, ``lanes`` the lanes of each that hold a job,
    ``lanes_beyond`` how many more there were than are remembered. ``strangers`` counts the keys that
    begin like those of a queue and belong to none; ``strange`` are the first of them by name.
    """

    looked_at: int = 0
    queues: set[str] = field(default_factory=set)
    lanes: defaultdict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    lanes_beyond: int = 0
    strangers: int = 0
    strange: list[bytes] = field(default_factory=list)
    _lanes_kept: int = 0

    def meet(self, key: bytes) -> None:
        """Take note of a key."""
        queue, lane = keyspace.place_of(key)
        if queue is None:
            self.strangers += 1
            self.strange = sorted({*self.strange, key})[:EXAMPLES]
            return
        self.queues.add(queue)
        if lane is not None:
            self._meet_lane(queue, lane)

    def _meet_lane(self, queue: str, lane: bytes) -> None:
        if lane in self.lanes[queue]:
            return
        if self._lanes_kept == LANES_LIMIT:
            self.lanes_beyond += 1
        else:
            self.lanes[queue].add(lane)
            self._lanes_kept += 1


def census(server: Server) -> Iterator[Census]:
    """Scan the whole database; yield the census after each page of 1,000 keys, complete in the end.

    Raises NotFound when there is neither a queue nor a wire version.
    """
    met = Census()
    for page in key_pages(server, keyspace.EVERY_QUEUE_KEY, None):
        for key in page:
            met.meet(key)
        met.looked_at += SCAN_COUNT
        yield met
    if not met.queues:
        require_deployment(server)


def discover(server: Server, *, at_most: int | None = None) -> list[str]:
    """Return the names of all queues that have a key, sorted; O(keys of the database)."""
    return sorted(set(_queues_of_keys(server, keyspace.EVERY_QUEUE_KEY, at_most)))


def require_deployment(server: Server) -> None:
    """Raise NotFound when this database states no wire version."""
    if server.version is None and not server.hides_version:
        hint = "check the database number, and the port: EchoMQ's own default is 6390"
        raise NotFound(f"no EchoMQ deployment at {server.shown}", hint=hint)


def require_seen(server: Server, keys: QueueKeys, fixed_keys: int, *, counting: bool) -> None:
    """Pass for a queue that is in use; for an idle one only when ``counting``, with a note.

    ``fixed_keys`` is how many of ``keys.seen_by`` exist; with none, up to 100,000 keys are scanned
    for another of its keys. Raises NotFound for a queue not seen, or a database without EchoMQ.
    """
    if fixed_keys or next(_queues_of_keys(server, keys.scan_pattern, SCAN_LIMIT), None) is not None:
        return
    require_deployment(server)
    near = get_close_matches(keys.queue, discover(server, at_most=SCAN_LIMIT), n=3)
    suggestion = f"did you mean {' or '.join(near)}?" if near else "emqctl depth lists the queues there are"
    if not counting:
        raise NotFound(f"no queue {keys.queue!r} at {server.shown}", hint=suggestion)
    server.notify(f"no key of queue {keys.queue!r} exists: it is idle or misspelt; {suggestion}")


def _queues_of_keys(server: Server, pattern: bytes, at_most: int | None) -> Iterator[str]:
    for page in key_pages(server, pattern, at_most):
        for key in page:
            queue = keyspace.queue_of(key)
            if queue is not None:
                yield queue


def key_pages(server: Server, pattern: bytes, at_most: int | None = None) -> Iterator[Sequence[bytes]]:
    """Yield the keys of a pattern in pages, some of which are empty, looking at some ``at_most`` keys; SCAN."""
    cursor, looked_at = 0, 0
    while True:
        [(cursor, found)] = server.ask(("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT))
        yield found
        looked_at += SCAN_COUNT
        if not cursor or (at_most is not None and looked_at >= at_most):
            return
