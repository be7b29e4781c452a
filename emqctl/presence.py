"""Is this queue in use, idle, or was it never here? EchoMQ keeps no register of queues."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from emqctl import keyspace
from emqctl.connection import Server
from emqctl.errors import NotFound
from emqctl.keyspace import QueueKeys

SCAN_COUNT = 1000
SCAN_LIMIT = 100_000  # keys looked at before a queue is called not seen


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
    cursor, looked_at = 0, 0
    while True:
        [(cursor, found)] = server.ask(("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT))
        for key in found:
            queue = keyspace.queue_of(key)
            if queue is not None:
                yield queue
        looked_at += SCAN_COUNT
        if not cursor or (at_most is not None and looked_at >= at_most):
            return
