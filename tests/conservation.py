"""Whether a queue is sound: every job in one place, nothing lost, lane counters and ring true."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

import redis
import worlds

from emqctl.branded import BrandedId
from emqctl.changes import BATCH, Outcome, Pace, named
from emqctl.config import Settings
from emqctl.connection import connect
from emqctl.endpoint import parse_url
from emqctl.keyspace import VERSION_KEY, QueueKeys, parse
from emqctl.queues import Queue
from emqctl.requeue import Options, requeue
from emqctl.selection import Filters, walk

STATE_OF = {"pending": b"pending", "lane": b"pending", "active": b"active", "schedule": b"scheduled", "dead": b"dead"}

Run = Callable[..., list[Outcome]]

#: What a requeue reaches of a queue without lanes and without an outbox, as ends of the ACL patterns that allow it.
REACHED = (
    *("pending", "active", "schedule", "dead", "ring", "wake", "paused", "gactive", "glimit", "gweight", "meta"),
    *("job:*", ""),
)


class Look:
    """A queue as it stands, read at once while nothing runs."""

    def __init__(self, client: redis.Redis, queue: str) -> None:
        self.keys = QueueKeys(queue)
        self.rows: dict[bytes, dict[bytes, bytes]] = {}
        self.places: defaultdict[bytes, list[str]] = defaultdict(list)  # id -> words of where it is
        self.lanes: defaultdict[bytes, list[bytes]] = defaultdict(list)  # id -> lanes it is in
        self.fixed: dict[str, worlds.Value] = {}
        for key, value in worlds.snapshot(client).items():
            name = parse(key)
            if name.queue == queue and name.type is not None:
                self._take(name.type, name.id, name.sub, value)

    def _take(self, kind: str, name: str | None, sub: str | None, value: worlds.Value) -> None:
        if kind == "job" and sub is None:
            self.rows[str(name).encode()] = value.content
        elif kind == "lane":
            for member in value.content:
                self.places[member].append("lane")
                self.lanes[member].append(str(name).encode())
        elif kind in STATE_OF:
            for member in value.content:
                self.places[member].append(kind)
        elif name is None:
            self.fixed[kind] = value

    def content(self, kind: str) -> Mapping[bytes, bytes]:
        """Return a hash of the queue, empty where there is none."""
        hash_: Mapping[bytes, bytes] = self.fixed[kind].content if kind in self.fixed else {}
        return hash_

    def at(self, place: str) -> set[bytes]:
        """Return the ids in a place."""
        return {member for member, places in self.places.items() if place in places}

    def faults(self) -> list[str]:
        """Say what is wrong by semantics.md 9, rules 1 to 6, of a queue without flows."""
        return [*self._of_jobs(), *self._of_lanes()]

    def _of_jobs(self) -> Iterator[str]:
        for member in self.places.keys() | self.rows.keys():
            places, row = self.places.get(member, []), self.rows.get(member)
            shown = member.decode("utf-8", "backslashreplace")
            if row is None or b"payload" not in row:
                yield f"{shown} in {places}: no row with a payload"
            elif len(places) != 1:
                yield f"{shown} is in {places or 'no place'}"
            elif row[b"state"] != STATE_OF[places[0]]:
                yield f"{shown} in {places[0]} says {row[b'state']!r}"
            elif self.lanes.get(member, [row.get(b"group")]) != [row.get(b"group")]:
                yield f"{shown} is in the lane {self.lanes[member]}, its group is {row.get(b'group')!r}"
            elif b"group" in row and places == ["pending"]:
                yield f"{shown} has a group and is in flat pending"

    def _of_lanes(self) -> Iterator[str]:
        groups = {member: row[b"group"] for member, row in self.rows.items() if b"group" in row}
        flying = Counter(groups[member] for member in self.at("active") if member in groups)
        counted = {group: int(count) for group, count in self.content("gactive").items()}
        if counted != flying:
            yield f"gactive is {counted}, in flight are {dict(flying)}"
        waiting = {lane for lanes in self.lanes.values() for lane in lanes}
        limits, paused = self.content("glimit"), self.fixed["paused"].content if "paused" in self.fixed else set()
        servable = {lane for lane in waiting - paused if lane not in limits or counted.get(lane, 0) < int(limits[lane])}
        ring = self.fixed["ring"].content if "ring" in self.fixed else []
        if sorted(ring) != sorted(servable):
            yield f"ring is {sorted(ring)}, servable are {sorted(servable)}"


def lane_name(nth: int) -> bytes:
    """Return the name of a lane."""
    return bytes(BrandedId("TEN", (nth + 1) << 22))


def job_id(nth: int) -> bytes:
    """Return the id of a job; a later one sorts behind."""
    return bytes(BrandedId("JOB", (nth + 1) << 22))


def dead_queue(queue: str, jobs: int, lanes: int, rng: Random) -> Iterator[tuple[bytes | int, ...]]:
    """Yield the commands that make a sound queue with ``jobs`` dead jobs over some lanes and flat pending.

    Every tenth lane is paused, another tenth at its limit, another tenth below it; a third has waiting jobs,
    and is on the ring if it can be served. Dead jobs have one to four attempts behind them.
    """
    keys = QueueKeys(queue)
    groups = [lane_name(nth) for nth in range(lanes)]
    yield b"SET", VERSION_KEY, b"echomq:3.0.0"
    for nth in range(jobs):
        group = rng.choice([None, *groups])
        yield b"HSET", keys.row(job_id(nth)), *_row(b"dead", group, rng.randint(1, 4)), b"last_error", b"boom %d" % nth
        yield b"ZADD", keys.dead, 0, job_id(nth)
    extra = iter(range(jobs, jobs + 10 * lanes))
    for nth, group in enumerate(groups):
        flying, waits = {1: 2, 2: 1}.get(nth % 10, 0), nth % 3 == 0
        if nth % 10 == 0:
            yield b"SADD", keys.fixed("paused"), group
        if flying:
            yield b"HSET", keys.fixed("glimit"), group, 2
            yield b"HSET", keys.fixed("gactive"), group, flying
        for _ in range(flying):
            job = job_id(next(extra))
            yield b"HSET", keys.row(job), *_row(b"active", group, 1)
            yield b"ZADD", keys.active, 4_000_000_000_000, job
        if waits:
            job = job_id(next(extra))
            yield b"HSET", keys.row(job), *_row(b"pending", group, 0)
            yield b"ZADD", keys.prefix + b"g:" + group + b":pending", 0, job
        if waits and nth % 10 and flying < 2:
            yield b"RPUSH", keys.fixed("ring"), group


def _row(state: bytes, group: bytes | None, attempts: int) -> list[bytes | int]:
    grouped = [b"group", group] if group else []
    return [b"state", state, b"attempts", attempts, b"payload", b"{}", *grouped]


def requeued(
    url: str, *ids: bytes, queue: str = "jobs", walked: bool = False, batch: int = BATCH, **options: Any
) -> list[Outcome]:
    """Requeue ids, or with ``walked`` the whole dead set, in the core; return the outcomes in order."""
    with opened(url, queue) as target:
        pages = walk(target, target.keys.dead, Filters()) if walked else named(ids)
        batches = requeue(target, pages, Options(**options), Pace(walked, batch))
        return [outcome for outcomes in batches for outcome in outcomes]


@contextmanager
def opened(url: str, queue: str = "jobs") -> Iterator[Queue]:
    """Yield a queue as emqctl has it, notes thrown away."""
    with connect(Settings(parse_url(url), 5, read_only=False), lambda _: None) as server:
        yield Queue(server, queue)


def without_ttls(snapshot: worlds.Snapshot) -> dict[bytes, Any]:
    """Return what can be compared with a later snapshot: values, and whether they expire."""
    return {key: (value.type, value.content, value.ttl_ms is None) for key, value in snapshot.items()}
