"""Flows across queues: what only looking at both sides can tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emqctl import branded
from emqctl.errors import EmqError, Malformed
from emqctl.keyspace import QueueKeys, decode
from emqctl.numbers import integer
from emqctl.queues import Queue
from emqctl.replies import Command

OUTBOX_LIMIT = 1000  # entries looked through; in a longer outbox nothing is said to be missing


def waited_for(queue: Queue, children: Sequence[bytes]) -> set[bytes]:
    """Return those dead children on whom parents in other queues still count, and were never told of the death.

    The outbox is read first, then the parents: a death is told in the step in which it happens and never
    taken back, so that a yes stays true. In doubt the answer is no. Two round trips, however many children.
    """
    entries, *links = queue.server.ask(
        ("LRANGE", queue.keys.fixed("flow:outbox"), 0, OUTBOX_LIMIT),
        *(("HMGET", queue.keys.row(child), "parent", "parent_queue") for child in children),
    )
    told = {part for entry in entries for part in entry.split(b"\0")}
    if len(entries) > OUTBOX_LIMIT:
        return set()
    asked = {
        child: commands
        for child, link in zip(children, links, strict=True)
        if child not in told and (commands := _about_parent(child, *link))
    }
    replies = iter(queue.server.try_ask(*(command for commands in asked.values() for command in commands)))
    return {child for child, commands in asked.items() if _waits([next(replies) for _ in commands])}


def _about_parent(child: bytes, parent: bytes | None, parent_queue: bytes | None) -> list[Command]:
    """Return what to ask of a parent; nothing where the link names none."""
    try:
        keys, parent_id = QueueKeys(decode(parent_queue or b"")), branded.parse(parent or b"")
    except Malformed:
        return []
    row = keys.job(parent_id)
    return [
        ("HMGET", row, "state", "attempts", "last_error", "group"),
        ("HEXISTS", row, "payload"),
        ("GET", keys.job(parent_id, "dependencies")),
        *(("HEXISTS", keys.job(parent_id, told), child) for told in ("failed", "unsuccessful", "processed")),
        *(("ZSCORE", key, bytes(parent_id)) for key in (keys.pending, keys.active, keys.schedule, keys.dead)),
    ]


def _waits(replies: Sequence[Any]) -> bool:
    if any(isinstance(reply, EmqError) for reply in replies):
        return False
    (state, attempts, last_error, group), has_payload, count, *told = replies[:6]
    *elsewhere, in_dead = (score is not None for score in replies[6:])
    if not has_payload or group is not None or any(told) or any(elsewhere):
        return False
    held = state == b"awaiting_children" and not in_dead
    dead_by_children = state == b"dead" and in_dead and attempts in {None, b"0"} and last_error is None
    return (integer(count) or 0) >= 1 and (held or dead_by_children)
