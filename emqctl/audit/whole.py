"""A queue as a whole: keys of their types, nothing paused unawares, an outbox that can move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from emqctl.audit.rules import BROKEN, NOTE, YES, Family, Found
from emqctl.errors import EmqError, WrongType
from emqctl.keyspace import FIXED, QueueKeys, decode
from emqctl.queues import Queue
from emqctl.records import Finding
from emqctl.replies import permitted

FAMILY = Family()
KEYS = Family()
TYPED = {kind: type_ for kind, type_ in FIXED.items() if type_ != "channel"}


@dataclass
class Whole:
    """What was read of a queue that is of no one job.

    ``malformed_at`` is where in the outbox the first entry stands that no pump can read, ``too_many`` what there
    is more of than is looked at.
    """

    queue: str
    is_paused: bool
    flat: int
    posted: int
    has_lanes: bool
    slot_moves: bool
    malformed_at: int | None = None
    too_many: list[str] = field(default_factory=list)

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is."""
        return {"queue": self.queue}


@dataclass(frozen=True)
class WrongKey:
    """A key of another type than the protocol says; ``lane`` where it is one's."""

    queue: str
    place: str
    lane: bytes | None
    found: str
    expected: str

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is."""
        return {"queue": self.queue, "place": self.place, "lane": self.lane}


def look(queue: Queue) -> Whole:
    """Return what is to be known of a queue as a whole; its lanes, slot and outbox are looked at elsewhere."""
    keys = queue.keys
    replies = permitted(
        queue.server.try_ask(
            ("HEXISTS", keys.fixed("meta"), "paused"), ("ZCARD", keys.pending), ("LLEN", keys.fixed("flow:outbox"))
        )
    )
    paused, flat, posted = (0 if isinstance(reply, EmqError) else reply for reply in replies)
    return Whole(queue.name, paused == 1, flat, posted, has_lanes=False, slot_moves=False)


def wrong_keys(queue: Queue) -> Iterator[Finding]:
    """Yield what is said of the keys that stand alone and are of another type."""
    replies = permitted(queue.server.try_ask(*(("TYPE", queue.keys.fixed(kind)) for kind in TYPED)))
    for (kind, expected), reply in zip(TYPED.items(), replies, strict=True):
        found = decode(reply)
        if found not in {expected, "none"}:
            yield from KEYS.judge(WrongKey(queue.name, kind, None, found, expected))


def wrong_lane(queue: Queue, lane: bytes, error: WrongType) -> Iterator[Finding]:
    """Yield what is said of a lane that is no sorted set."""
    return KEYS.judge(WrongKey(queue.name, "lane", lane, error.found, error.expected))


@KEYS.rule(BROKEN, None, "this key is a {found}, not a {expected}: every script that needs it fails, some half-way")
def wrong_type_key(key: WrongKey) -> Found:
    """A key that stands alone, or a lane, of another type."""
    return {"found": key.found, "expected": key.expected}


@FAMILY.rule(
    NOTE,
    None,
    "the whole queue is paused: no worker claims; retries, reaping and new jobs go on",
    "emqctl resume {queue}",
)
def queue_paused(whole: Whole) -> Found:
    """A queue that is paused, by any value."""
    return {"place": "meta"} if whole.is_paused else None


@FAMILY.rule(
    NOTE,
    None,
    "{flat} wait in flat pending of a queue that has lanes: workers of lanes never look there",
)
def flat_jobs_beside_lanes(whole: Whole) -> Found:
    """Flat jobs waiting on a queue that has lanes."""
    return {"place": "pending", "flat": whole.flat} if whole.flat and whole.has_lanes else None


@FAMILY.rule(NOTE, None, "{posted} settlements for parents in other queues wait for a pump on this one")
def outbox_waiting(whole: Whole) -> Found:
    """Entries in the outbox."""
    return {"place": "flow:outbox", "posted": whole.posted} if whole.posted else None


@FAMILY.rule(
    BROKEN,
    "H24",
    "entry {nth} of the outbox has fewer than four parts: a pump stops there for ever, and every parent behind it "
    "waits; that entry alone has to be taken out by hand",
    "redis-cli LINDEX {key} {nth}",
)
def outbox_malformed_at(whole: Whole) -> Found:
    """An entry of the outbox that no pump can read."""
    if whole.malformed_at is None:
        return None
    key = QueueKeys(whole.queue).fixed("flow:outbox")
    return {"place": "flow:outbox", "nth": whole.malformed_at, "key": key}


@FAMILY.rule(
    NOTE,
    "H36",
    "its cluster slot is being moved: workers see half of it, take live jobs for missing and split lanes; pause it, "
    "and look again afterwards",
    "emqctl pause {queue}",
)
def slot_migrating(whole: Whole) -> Found:
    """A queue whose slot is on its way to another node, or from one."""
    return YES if whole.slot_moves else None


@FAMILY.rule(NOTE, None, "more than is looked at: {too_many}")
def too_many_to_check(whole: Whole) -> Found:
    """More lanes, jobs in flight or outbox entries than are read."""
    return {"too_many": ", ".join(whole.too_many)} if whole.too_many else None
