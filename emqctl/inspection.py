"""Everything there is to know of one job: its row, then where it is and what surrounds it, of one moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from typing import Any

from emqctl import branded, times
from emqctl.branded import BrandedId
from emqctl.connection import Server
from emqctl.contradictions import Facts, Parent, contradictions, unserved
from emqctl.errors import EmqError, Malformed
from emqctl.keyspace import QueueKeys, decode, parse
from emqctl.numbers import integer
from emqctl.presence import SCAN_COUNT, discover
from emqctl.queues import Queue
from emqctl.records import Inspection
from emqctl.replies import Command

PAGE = 1000  # fields of a hash read in one call
QUEUES = 100  # queues looked through in one round trip
LOOKS = 3  # times a job in motion is looked at again
PLACES = ("pending", "active", "schedule", "dead")
OUTCOMES = ("processed", "failed", "unsuccessful")
MOVING = (b"state", b"attempts", b"group", b"parent")


@dataclass(frozen=True)
class Depth:
    """How far an inspection goes: so many log lines, and, when ``deep``, a scan of all keys of the queue."""

    logs: int = 20
    deep: bool = False


def find(server: Server, job_id: BrandedId) -> list[Queue]:
    """Return the queues that hold a row or a place of a job, among all there are; a round trip for 100."""
    found = []
    names = iter(discover(server))
    while some := [Queue(server, name) for name in islice(names, QUEUES)]:
        traces = server.try_ask(*(command for queue in some for command in _traces(queue.keys, job_id)))
        each = 1 + len(PLACES)
        for at, queue in enumerate(some):
            row, *scores = traces[at * each : (at + 1) * each]
            if row == 1 or any(isinstance(score, float) for score in scores):
                found.append(queue)
    return found


def inspect(queue: Queue, job_id: BrandedId, depth: Depth) -> Inspection | None:
    """Return what there is of a job, or None where the queue has neither a row nor a place of it.

    Two round trips for a job at rest; two more when it moved between them.
    """
    for _ in range(LOOKS):
        row, row_error = _read_row(queue, job_id)
        look = _Look(queue, job_id, row, row_error, depth)
        if not look.has_moved:
            break
    if not (row or row_error or look.facts.places):
        return None
    return look.record(_scan(queue, job_id) if depth.deep else None)


def _traces(keys: QueueKeys, job_id: BrandedId) -> list[Command]:
    return [("EXISTS", keys.job(job_id)), *(("ZSCORE", keys.fixed(place), bytes(job_id)) for place in PLACES)]


def _read_row(queue: Queue, job_id: BrandedId) -> tuple[dict[bytes, bytes], EmqError | None]:
    key = queue.keys.job(job_id)
    [page] = queue.look(("HSCAN", key, 0, "COUNT", PAGE), counting=False)
    if isinstance(page, EmqError):
        return {}, page
    cursor, row = page
    while cursor:
        [(cursor, more)] = queue.server.ask(("HSCAN", key, cursor, "COUNT", PAGE))
        row.update(more)
    return row, None


class _Look:
    """One look, in one moment, at where a job is and what surrounds it."""

    def __init__(
        self, queue: Queue, job_id: BrandedId, row: dict[bytes, bytes], row_error: EmqError | None, depth: Depth
    ) -> None:
        self._queue, self._id, self._row, self._row_error = queue, job_id, row, row_error
        asked = dict(self._commands(depth))
        replies = queue.server.try_ask(*asked.values(), atomic=True)
        self._replies = dict(zip(asked, replies, strict=True))
        self._now_ms = queue.server.now_ms()
        self.facts = self._facts()

    @property
    def has_moved(self) -> bool:
        """Whether the row changed between the two round trips."""
        seen = self._replies["moving"]
        return not isinstance(seen, EmqError) and seen != [self._row.get(name) for name in MOVING]

    def record(self, deep: tuple[list[str], list[str]] | None) -> Inspection:
        """Return the record; ``deep`` is what ``_scan`` found."""
        facts, row = self.facts, self._row
        known = {*MOVING, *_SHOWN}
        scores = {place: self._replies[place] for place in PLACES}
        why = unserved(facts)
        waiting = bool({"pending", "lane"} & set(facts.places))
        return Inspection(
            id=str(self._id),
            queue=self._queue.name,
            place=" ".join(facts.places) or "none",
            lane=row.get(b"group"),
            state=row.get(b"state"),
            attempts=_count(row.get(b"attempts")),
            minted=self._id.minted,
            deadline=_moment(scores["active"]),
            lease_ms=_distance_ms(scores["active"], self._now_ms),
            due=_moment(scores["schedule"]),
            error=row.get(b"last_error"),
            stalled=_count(row.get(b"stalled")),
            progress=row.get(b"progress"),
            lock=facts.lock if facts.lock is not None else row.get(b"lock"),
            lock_ttl_ms=self._lock_ttl_ms(),
            parent=row.get(b"parent"),
            parent_queue=row.get(b"parent_queue"),
            parent_policy=row.get(b"parent_policy"),
            children=self._children(deep),
            logs=self._ok("logs", []),
            payload_bytes=len(row[b"payload"]) if b"payload" in row else None,
            payload=row.get(b"payload"),
            contradictions=list(contradictions(facts)),
            fields={decode(name): value for name, value in row.items() if name not in known},
            servable=why is None if waiting or facts.is_held else None,
            why=why,
            parent_state=facts.parent.state if facts.parent else None,
            dedup=deep[0] if deep else None,
        )

    def _commands(self, depth: Depth) -> Iterator[tuple[str, Command]]:
        keys, member = self._queue.keys, bytes(self._id)
        job = keys.job
        yield "moving", ("HMGET", job(self._id), *MOVING)
        for place in PLACES:
            yield place, ("ZSCORE", keys.fixed(place), member)
        yield "queue_paused", ("HEXISTS", keys.fixed("meta"), "paused")
        yield "lock", ("GET", job(self._id, "lock"))
        yield "lock_ttl", ("PTTL", job(self._id, "lock"))
        yield "outstanding", ("GET", job(self._id, "dependencies"))
        for outcome in OUTCOMES:
            yield outcome, ("HSCAN", job(self._id, outcome), 0, "COUNT", PAGE)
        if depth.logs:
            yield "logs", ("LRANGE", job(self._id, "logs"), -depth.logs, -1)
        group = self._row.get(b"group")
        if group is not None and branded.is_branded(group):
            yield "lane", ("ZSCORE", keys.lane(branded.parse(group)), member)
            yield "lane_paused", ("SISMEMBER", keys.fixed("paused"), group)
            yield "lane_limit", ("HGET", keys.fixed("glimit"), group)
            yield "lane_active", ("HGET", keys.fixed("gactive"), group)
            yield "lane_on_ring", ("LPOS", keys.fixed("ring"), group)
        yield from self._parent_commands()

    def _parent_commands(self) -> Iterator[tuple[str, Command]]:
        try:
            parent = branded.parse(self._row[b"parent"])
            own = b"parent_queue" not in self._row
            keys = self._queue.keys if own else QueueKeys(decode(self._row[b"parent_queue"]))
        except (KeyError, Malformed):
            return
        yield "parent", ("HMGET", keys.job(parent), "state", "payload")
        yield "parent_outstanding", ("GET", keys.job(parent, "dependencies"))
        for outcome in OUTCOMES:
            yield f"parent_{outcome}", ("HEXISTS", keys.job(parent, outcome), bytes(self._id))

    def _facts(self) -> Facts:
        ok = self._ok
        places = [place for place in (*PLACES, "lane") if ok(place) is not None]
        return Facts(
            row=self._row,
            row_error=self._row_error,
            places=places,
            queue_paused=ok("queue_paused") == 1,
            lane_paused=ok("lane_paused") == 1,
            lane_limit=ok("lane_limit"),
            lane_active=ok("lane_active"),
            lane_on_ring=ok("lane_on_ring") is not None,
            lock=ok("lock"),
            lock_field_ttl_ms=self._lock_field_ttl_ms(),
            outstanding=ok("outstanding"),
            parent=self._parent(),
            outcomes={outcome: ok(outcome, (0, {}))[1] for outcome in OUTCOMES},
        )

    def _parent(self) -> Parent | None:
        if "parent" not in self._replies:
            return None
        state, payload = self._ok("parent", (None, None))
        told = tuple(outcome for outcome in OUTCOMES if self._ok(f"parent_{outcome}") == 1)
        return Parent(None if payload is None else state or b"", self._ok("parent_outstanding"), told)

    def _lock_field_ttl_ms(self) -> int | None:
        if b"lock" not in self._row:
            return None
        row = self._queue.keys.job(self._id)
        [reply] = self._queue.server.try_ask(("HPTTL", row, "FIELDS", 1, "lock"))  # servers with field TTLs know it
        return None if isinstance(reply, EmqError) else int(reply[0])

    def _lock_ttl_ms(self) -> int | None:
        ttl_ms = self._ok("lock_ttl") if self.facts.lock is not None else self.facts.lock_field_ttl_ms
        return ttl_ms if ttl_ms is not None and ttl_ms >= 0 else None

    def _children(self, deep: tuple[list[str], list[str]] | None) -> dict[str, Any] | None:
        facts = self.facts
        if facts.outstanding is None and not any(facts.outcomes.values()) and not (deep and deep[1]):
            return None
        linked = {"linked": deep[1]} if deep else {}
        told = {outcome: {decode(id_): text for id_, text in facts.outcomes[outcome].items()} for outcome in OUTCOMES}
        return {"outstanding": _count(facts.outstanding), **told, **linked}

    def _ok(self, name: str, default: Any = None) -> Any:
        """Return a reply, or the default where it was not asked for or could not be read."""
        reply = self._replies.get(name, default)
        return default if isinstance(reply, EmqError) else reply


_SHOWN = (b"payload", b"last_error", b"stalled", b"progress", b"lock", b"parent_queue", b"parent_policy")


def _scan(queue: Queue, job_id: BrandedId) -> tuple[list[str], list[str]]:
    """Return the dedup ids that point at a job, and the ids of the rows that call it their parent; O(keys)."""
    dedup: list[str] = []
    children: list[str] = []
    cursor = 0
    while True:
        [(cursor, keys)] = queue.server.ask(("SCAN", cursor, "MATCH", queue.keys.scan_pattern, "COUNT", SCAN_COUNT))
        names = [parse(key) for key in keys]
        found = [name for name in names if name.type in {"dedup", "job"} and name.sub is None]
        asked = [("GET", n.key) if n.type == "dedup" else ("HGET", n.key, "parent") for n in found]
        for name, reply in zip(found, queue.server.try_ask(*asked) if asked else (), strict=True):
            if reply == bytes(job_id):
                (dedup if name.type == "dedup" else children).append(str(name.id))
        if not cursor:
            return sorted(dedup), sorted(children)


def _count(raw: bytes | None) -> int | str | None:
    number = integer(raw)
    return decode(raw) if number is None and raw is not None else number


def _moment(score: Any) -> Any:
    return times.from_ms(int(score)) if isinstance(score, float) and isfinite(score) else None


def _distance_ms(score: Any, now_ms: int) -> int | None:
    return int(score) - now_ms if isinstance(score, float) and isfinite(score) else None
