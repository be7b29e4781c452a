"""Pausing and resuming queues and lanes, and a lane's ceiling and weight."""

from __future__ import annotations

from emqctl.branded import BrandedId
from emqctl.changes import flags, usual_looks
from emqctl.keyspace import QueueKeys
from emqctl.lanes import first_pages, known_lanes
from emqctl.queues import Queue
from emqctl.replies import Command, NeedsProbe
from emqctl.scripts import program


def pause(queue: Queue, lane: BrandedId | None = None, *, dry_run: bool = False) -> bool:
    """Pause a queue, or one lane of it; tell whether that changed anything."""
    if lane:
        return _control(queue, "pause-lane", queue.keys.fixed("paused"), lane, dry_run=dry_run)
    return _control(queue, "pause", queue.keys.fixed("meta"), dry_run=dry_run)


def resume(queue: Queue, lane: BrandedId | None = None, *, dry_run: bool = False) -> bool:
    """Resume a queue, or one lane of it, which is rung if it can be served; tell whether that changed anything."""
    if lane:
        return _control(queue, "resume-lane", queue.keys.fixed("paused"), lane, dry_run=dry_run)
    return _control(queue, "resume", queue.keys.fixed("meta"), dry_run=dry_run)


def limit(queue: Queue, lane: BrandedId, most: int | None, *, dry_run: bool = False) -> bool:
    """Set how many jobs of a lane may be in flight, None for any number; tell whether that changed anything."""
    value = "" if most is None else str(most)
    return _control(queue, "limit", queue.keys.fixed("glimit"), lane, value, dry_run=dry_run)


def weigh(queue: Queue, lane: BrandedId, weight: int | None, *, dry_run: bool = False) -> bool:
    """Set how many jobs of a lane are served a turn, None for one; tell whether that changed anything."""
    value = "" if weight is None else str(weight)
    return _control(queue, "weight", queue.keys.fixed("gweight"), lane, value, dry_run=dry_run)


def is_known(queue: Queue, lane: BrandedId) -> bool:
    """Tell whether any key of the queue names this lane, or it holds jobs."""
    *sources, depth = queue.server.ask(*first_pages(queue.keys), ("ZCARD", queue.keys.lane(lane)))
    return depth > 0 or lane in known_lanes(queue.server, queue.keys, sources)


def _control(
    queue: Queue, what: str, key: bytes, lane: BrandedId | None = None, value: str = "", *, dry_run: bool
) -> bool:
    keys, letters = (queue.keys.prefix, key), flags(d=dry_run)
    words = (what, bytes(lane) if lane else b"", value)
    try:
        changed = queue.server.run(program("control"), keys, (letters, *words))
    except NeedsProbe:
        queue.server.may_run(_writes(queue.keys))
        changed = queue.server.run(program("control"), keys, (letters + "p", *words))
    return bool(changed)


def _writes(keys: QueueKeys) -> list[Command]:
    """Return commands of the kinds the program sends, to look and to write."""
    hashes = [keys.fixed(kind) for kind in ("meta", "glimit", "gweight")]
    return [
        *usual_looks(keys),
        *(("HSET", key, "x", "1") for key in hashes),
        *(("HDEL", key, "x") for key in hashes),
        *(("SADD", keys.fixed("paused"), "x"), ("SREM", keys.fixed("paused"), "x")),
        *(("RPUSH", keys.fixed("ring"), "x"), ("LREM", keys.fixed("ring"), 0, "x")),
        *(("LPUSH", keys.fixed("wake"), "1"), ("LTRIM", keys.fixed("wake"), 0, 63)),
    ]
