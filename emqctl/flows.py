"""Flows across queues: what only looking at both sides can tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emqctl import branded
from emqctl.errors import EmqError, Malformed
from emqctl.keyspace import QueueKeys, decode
from emqctl.numbers import integer
from emqctl.queues import Queue

OUTBOX_LIMIT = 1000  # entries looked through; in a longer outbox nothing is said to be missing


def is_waited_for(queue: Queue, job_id: bytes) -> bool:
    """Tell whether the parent, in another queue, still counts on a dead child and was never told of its death.

    The child's outbox is read first, then the parent: a death is told in the step in which it happens
    and never taken back, so that a yes stays true. In doubt the answer is no. Two round trips.
    """
    server, outbox = queue.server, queue.keys.fixed("flow:outbox")
    entries, (parent, parent_queue) = server.ask(
        ("LRANGE", outbox, 0, OUTBOX_LIMIT),
        ("HMGET", queue.keys.row(job_id), "parent", "parent_queue"),
    )
    if len(entries) > OUTBOX_LIMIT or any(job_id in entry.split(b"\0") for entry in entries):
        return False
    try:
        keys, parent_id = QueueKeys(decode(parent_queue or b"")), branded.parse(parent or b"")
    except Malformed:
        return False
    row = keys.job(parent_id)
    replies = server.try_ask(
        ("HMGET", row, "state", "attempts", "last_error", "group"),
        ("HEXISTS", row, "payload"),
        ("GET", keys.job(parent_id, "dependencies")),
        *(("HEXISTS", keys.job(parent_id, told), job_id) for told in ("failed", "unsuccessful", "processed")),
        *(("ZSCORE", key, bytes(parent_id)) for key in (keys.pending, keys.active, keys.schedule, keys.dead)),
    )
    return not any(isinstance(reply, EmqError) for reply in replies) and _waits(replies)


def _waits(replies: Sequence[Any]) -> bool:
    (state, attempts, last_error, group), has_payload, count, *told = replies[:6]
    *elsewhere, in_dead = (score is not None for score in replies[6:])
    if not has_payload or group is not None or any(told) or any(elsewhere):
        return False
    held = state == b"awaiting_children" and not in_dead
    dead_by_children = state == b"dead" and in_dead and attempts in {None, b"0"} and last_error is None
    return (integer(count) or 0) >= 1 and (held or dead_by_children)
