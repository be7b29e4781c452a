"""What emqctl's changes should answer and write, straight from the rules; no program of emqctl's is looked at.

An ``Oracle`` writes on a copy of the database, so that its keys can be compared with the server's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from invariants import Look, QueueView, is_id, number, parent_of
from worlds import Snapshot, Value

_SETS = ("pending", "active", "schedule", "dead")
#: Keys whose type every change looks at before it writes anything.
STRUCTURES = {
    **dict.fromkeys(_SETS, "zset"),
    **dict.fromkeys(("ring", "wake"), "list"),
    **dict.fromkeys(("gactive", "glimit", "gweight", "meta"), "hash"),
    "paused": "set",
}
_SUBS = ("logs", "lock", "dependencies", "processed", "failed", "unsuccessful")
_TOKENS = 64


class Answer(NamedTuple):
    """What is said of one job."""

    result: str
    reason: str | None
    before: str
    after: str
    notes: frozenset[str] = frozenset()


@dataclass
class Job:
    """All that a change may look at of one job; ``places`` are the four sets and its own lane, in that order."""

    id: bytes
    kind: str
    row: dict[bytes, bytes]
    places: list[str]
    group: bytes | None
    lane_is_set: bool
    is_locked: bool
    is_held: bool
    count: int

    @property
    def place(self) -> str:
        """The first place, `none` where it is in none."""
        return self.places[0] if self.places else "none"

    @property
    def attempts(self) -> bytes:
        """Its attempts as they stand, 0 where none do."""
        return self.row.get(b"attempts", b"0")


class Draft:
    """A database to write on."""

    def __init__(self, look: Look) -> None:
        self._now_ms, self._lock_ttls = look.now_ms, dict(look.lock_ttls)
        self.keys: Snapshot = {key: Value(it.type, copy(it.content), it.ttl_ms) for key, it in look.keys.items()}
        self._look: Look | None = None  # as it is, until something is written

    def look(self) -> Look:
        """Return it as the checker sees it."""
        self._look = self._look or Look(self._now_ms, dict(sorted(self.keys.items())), self._lock_ttls)
        return self._look

    def put(self, key: bytes, kind: str, pairs: dict[bytes, Any]) -> None:
        """Write fields of a hash or members of a sorted set."""
        self._look = None
        self.keys.setdefault(key, Value(kind, {})).content.update(pairs)

    def drop(self, key: bytes, *names: bytes) -> None:
        """Take fields or members out; an empty key goes."""
        self._look = None
        if key in self.keys:
            content = self.keys[key].content
            for name in names:
                content.pop(name, None)
            if not content:
                del self.keys[key]

    def push(self, key: bytes, text: bytes, *, left: bool = False) -> None:
        """Add to a list."""
        self._look = None
        self.keys.setdefault(key, Value("list", [])).content.insert(0 if left else 1_000_000, text)

    def set(self, key: bytes, kind: str, content: Any) -> None:
        """Write a whole key; an empty one goes."""
        self._look = None
        self.keys.pop(key, None)
        if content:
            self.keys[key] = Value(kind, content)


@dataclass
class Oracle:
    """One change of one queue: ``force`` and ``dry`` as its flags say. Each method after the first is one job."""

    look: Look
    queue: str
    force: bool = False
    dry: bool = False
    _touched: list[bytes] = field(default_factory=list)

    @cached_property
    def draft(self) -> Draft:
        """What has been written so far."""
        return Draft(self.look)

    @property
    def keys(self) -> Snapshot:
        """The database as it should be now."""
        return dict(sorted(self.draft.keys.items()))

    @property
    def wrong_type(self) -> bytes | None:
        """The key whose type makes the whole call be refused."""
        prefix = self._key("")
        return next(
            (prefix + name.encode() for name, kind in STRUCTURES.items() if self._type(prefix + name.encode(), kind)),
            None,
        )

    def end_batch(self) -> None:
        """Put right the ring of every lane touched, in the order they were."""
        for group in dict.fromkeys(self._touched):
            view, ring = self._view(), self._key("ring")
            servable, rota = view.is_servable(group), view.ring
            if servable and group not in rota:
                self.draft.push(ring, group)
                self.draft.push(self._key("wake"), b"1", left=True)
                self.draft.set(self._key("wake"), "list", self.draft.keys[self._key("wake")].content[:_TOKENS])
            elif not servable and group in rota:
                self.draft.set(ring, "list", [each for each in rota if each != group])
        self._touched.clear()

    def requeue(self, job_id: bytes, seen: bytes = b"", *, reset: bool = False, untold: bool = False) -> Answer:
        """Dead to the waiting place. ``untold``: the parent elsewhere is known to wait."""
        job = self._job(job_id)
        reason = self._objection(job, "dead", seen, "dead") or self._flow_objection_to_requeue(job, untold=untold)
        stalled = job.row.get(b"last_error") == b"stalled" and b"stalled" in job.row
        if not reason and reset and not self.force and (stalled or b"parent" in job.row):
            reason = "may-still-run"
        if reason:
            return _skipped(job, reason)
        notes = self._waiting_notes(job.group)
        if reset:
            fenced = self._write_row(job, {b"attempts": b"0"})
        else:
            fenced = self._fence(job, b"parent" in job.row or job.is_locked)
        self._shift(job, "dead", "waiting", b"pending", cleared=(b"last_error", b"stalled"))
        return _moved(job, "lane" if job.group else "pending", notes | fenced)

    def reap(self, job_id: bytes, seen: bytes = b"") -> Answer:
        """Lapsed to the waiting place; the slot is given back."""
        job = self._job(job_id)
        if self._lease_left(job) > 0:
            return _skipped(job, "not-lapsed")
        reason = self._objection(job, "active", seen, "active")
        if reason:
            return _skipped(job, reason)
        notes = self._waiting_notes(job.group)
        fenced = self._fence(job, b"parent" in job.row or job.is_locked)
        self._shift(job, "active", "waiting", b"pending")
        self._slot_back(job.group)
        return _moved(job, "lane" if job.group else "pending", notes | fenced)

    def promote(self, job_id: bytes, seen: bytes = b"", *, due: bool = False) -> Answer:
        """Scheduled to the waiting place."""
        job = self._job(job_id)
        reason = "flow-parent" if job.is_held else self._objection(job, "scheduled", seen, "schedule")
        if not reason and due and self._view().sets["schedule"][job_id] > self.look.now_ms + _SLACK_MS:
            reason = "not-due"
        if reason:
            return _skipped(job, reason)
        notes = self._waiting_notes(job.group)
        fenced = self._fence(job, job.is_locked)
        self._shift(job, "schedule", "waiting", b"pending")
        return _moved(job, "lane" if job.group else "pending", notes | fenced)

    def bury(self, job_id: bytes, seen: bytes = b"", *, text: bytes = b"") -> Answer:
        """Waiting or scheduled to the dead."""
        job = self._job(job_id)
        reason = {("dead",): "already", ("active",): "active"}.get(tuple(job.places) if job.kind != "none" else ())
        reason = reason or self._objection(job, "waiting", seen, "pending", "lane", "schedule")
        if not reason and job.count > 0:
            reason = "flow-parent"
        if not reason and b"parent" in job.row:
            abroad = parent_of(self.queue, job.row)[0] != self.queue
            reason = "flow-child" if abroad or self._flow_objection(job) is None else None
        if reason:
            return _skipped(job, reason)
        fenced = self._fence(job, job.is_locked)
        self._shift(job, job.place, "dead", b"dead", {b"last_error": text})
        return _moved(job, "dead", fenced)

    def move(self, job_id: bytes, seen: bytes = b"", *, group: bytes) -> Answer:
        """To another lane; a job that does not wait goes there later."""
        job, view = self._job(job_id), self._view()
        waits = job.place in {"pending", "lane"}
        reason = "held" if job.is_held else "active" if job.places == ["active"] and job.kind != "none" else None
        reason = reason or self._objection(job, "movable", seen, "pending", "lane", "schedule", "dead")
        if not reason and (view.counter(group) is None or view.limit(group) is None):
            reason = "bad-lane"
        if not reason and job.place == "dead" and job.count > 0:
            reason = "flow-parent"
        if not reason and not job.group and not self.force:
            reason = "flat"
        if not reason and job.group == group and job.place != "pending":
            reason = "same-lane"
        if reason:
            return _skipped(job, reason)
        notes = self._waiting_notes(group) if waits else frozenset()
        fenced = self._fence(job, job.is_locked)
        if not self.dry:
            if waits:
                self.draft.put(self._lane(group), "zset", {job.id: 0.0})
                self.draft.drop(self._lane(job.group) if job.place == "lane" else self._key("pending"), job.id)
            self._write_row(job, {b"group": group})
            self._touched += [each for each in (job.group, group if waits else None) if each]
        return _moved(job, "lane" if waits else job.place, notes | fenced)

    def remove(
        self, job_id: bytes, seen: bytes = b"", *, state: str = "", met_in: bytes = b"", dedup: bytes = b""
    ) -> Answer:
        """Out of the queue: from its own places, with everything that hangs below its row."""
        job = self._job(job_id)
        if job.kind == "none" and met_in and job_id in self._view().lanes.get(met_in, {}):
            job.group = met_in
            job.places.append("lane")
        reason = self._objection_to_removal(job, seen, state)
        if reason:
            return _skipped(job, reason)
        key = self._key("de:") + dedup
        releases = bool(dedup) and key in self.draft.keys and self.draft.keys[key].content == job.id
        notes = {"dangling": job.kind == "none", "dedup-released": releases}
        if not self.dry:
            for place in job.places:
                self.draft.drop(self._lane(job.group) if place == "lane" else self._key(place), job.id)
            for sub in ("", *(f":{sub}" for sub in _SUBS)):
                self.draft.set(self._row(job.id) + sub.encode(), "none", None)
            if releases:
                self.draft.set(key, "none", None)
            if "active" in job.places and job.kind == "hash":
                self._slot_back(job.group)
            self._touched += [job.group] if job.group else []
        said = frozenset(note for note, holds in notes.items() if holds)
        return Answer("removed", None, job.place, "none", said)

    def lane_of_lost(self, job_id: bytes) -> bytes:
        """Return the lane in which a member without a row stands, as far as some key but the lane itself names it."""
        view = self._view()
        known = {*view.ring, *view.fixed.get("paused", ())}
        known.update(*(view.fixed.get(kind, {}) for kind in ("gactive", "glimit", "gweight")))
        is_lost = job_id not in view.rows and job_id not in view.odd_rows
        return max((lane for lane in known if is_lost and job_id in view.lanes.get(lane, {})), default=b"")

    def edit(self, job_id: bytes, old: bytes, new: bytes) -> Answer:
        """Another payload for the one that was seen."""
        job = self._job(job_id)
        payload = job.row.get(b"payload")
        reasons = {
            "missing": job.kind == "none",
            "wrong-type": job.kind != "hash",
            "no-payload": payload is None,
            "same": payload == new,
            "changed": payload != old,
            "locked": job.is_locked and not self.force,
            "active": self._lease_left(job) > 0 and not self.force,
        }
        reason = next((reason for reason, holds in reasons.items() if holds), None)
        if reason:
            return _skipped(job, reason)
        self._write_row(job, {b"payload": new})
        return Answer("edited", None, job.place, job.place)

    def control(self, what: str, group: bytes = b"", value: bytes = b"") -> bool:
        """Pause, resume, limit or weigh; tell whether that changed anything."""
        view, paused = self._view(), self._key("paused")
        if what.endswith("-lane"):
            members = set(view.fixed.get("paused", ()))
            wanted = members | {group} if what == "pause-lane" else members - {group}
            changed = wanted != members
            if changed and not self.dry:
                self.draft.set(paused, "set", wanted)
        else:
            name, name_of_field = {"limit": ("glimit", group), "weight": ("gweight", group)}.get(
                what, ("meta", b"paused")
            )
            text = {"pause": b"1", "resume": b""}.get(what, value)
            now = view.fixed.get(name, {}).get(name_of_field)
            changed = now is not None if not text else now is None if what == "pause" else now != text
            if changed and not self.dry and text:
                self.draft.put(self._key(name), "hash", {name_of_field: text})
            elif changed and not self.dry:
                self.draft.drop(self._key(name), name_of_field)
        if group and not self.dry:
            self._touched.append(group)
        self.end_batch()
        return changed

    def is_waited_for_abroad(self, job_id: bytes) -> bool:
        """Tell whether a parent in another queue still counts on a child that nobody has told it is dead."""
        view = self._view()
        row = view.rows.get(job_id, {})
        if b"parent" not in row or not is_id(row[b"parent"]):
            return False
        queue, parent = parent_of(self.queue, row)
        posted = any(job_id in entry.split(b"\0") for entry in view.fixed.get("flow:outbox", ()))
        there = self.draft.look().queues.get(queue, QueueView(queue))
        told = any(job_id in there.told(parent, sub) for sub in ("processed", "failed", "unsuccessful"))
        waits = _waits(there, parent) and b"payload" in there.rows.get(parent, {})
        return waits and not told and not posted and (there.count(parent) or 0) >= 1

    def _objection(self, job: Job, word: str, seen: bytes, *where: str) -> str | None:
        reasons = {
            "missing": job.kind == "none",
            f"not-{word}": not set(where) & set(job.places),
            "wrong-type": job.kind != "hash" or not job.lane_is_set,
            "bad-row": self._is_bad_row(job),
            "two-places": len(job.places) > 1,
            "no-payload": b"payload" not in job.row,
            "locked": job.is_locked and not self.force,
            "changed": seen not in {b"", job.attempts},
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def _objection_to_removal(self, job: Job, seen: bytes, state: str) -> str | None:
        there = {"pending", "lane"} if state == "pending" else {state}
        is_dangling = job.kind == "none"
        reasons = {
            "missing": is_dangling and not job.places,
            f"not-{state}": bool(state) and not there & set(job.places),
            "wrong-type": not is_dangling and (job.kind != "hash" or not job.lane_is_set),
            "bad-row": "active" in job.places and self._view().counter(job.row.get(b"group", b"")) is None,
            "flow-child": b"parent" in job.row,
            "flow-parent": not is_dangling and (job.is_held or job.count > 0),
            "changed": not is_dangling and seen not in {b"", job.attempts},
            "locked": not is_dangling and not self.force and job.is_locked,
            "active": not is_dangling and not self.force and self._lease_left(job) > 0,
            "nowhere": not self.force and not job.places,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def _is_bad_row(self, job: Job) -> bool:
        """Whether a claim or a settle would break on this row."""
        view = self._view()
        group = job.row.get(b"group")
        broken = [
            (number(job.attempts) or 0) < 0 or number(job.attempts) is None,
            b"parent" in job.row and not is_id(job.row[b"parent"]),
            group is not None and (not is_id(group) or None in {view.counter(group), view.limit(group)}),
        ]
        return any(broken)

    def _flow_objection_to_requeue(self, job: Job, *, untold: bool) -> str | None:
        if job.count > 0:
            return "flow-parent"
        if b"parent" not in job.row:
            return None
        if parent_of(self.queue, job.row)[0] != self.queue:
            return None if untold else "cross-queue"
        return self._flow_objection(job)

    def _flow_objection(self, job: Job) -> str | None:
        """Why a dead child does not simply come back: None when its parent counts on it and was told nothing."""
        view, parent = self._view(), job.row[b"parent"]
        told = {sub for sub in ("processed", "failed", "unsuccessful") if job.id in view.told(parent, sub)}
        waits = _waits(view, parent)
        if b"payload" not in view.rows.get(parent, {}):
            return "parent-gone"
        if "processed" in told or len(told) > 1 or (waits and (view.count(parent) or 0) < 1):
            return "flow-contradiction"
        if told == {"failed"}:
            return "flow-child" if view.is_dead_by_children(parent) else "parent-ran"
        if not waits:
            return "parent-released"
        return "flow-child" if told else None

    def _shift(
        self,
        job: Job,
        source: str,
        target: str,
        state: bytes,
        fields: dict[bytes, bytes] | None = None,
        cleared: Collection[bytes] = (),
    ) -> None:
        """Move a job between two places, `lane` and `waiting` being its own."""
        if self.dry:
            return
        if target == "waiting":
            target = "lane" if job.group else "pending"
        score = {job.id: 0.0}
        self.draft.put(self._lane(job.group) if target == "lane" else self._key(target), "zset", score)
        self.draft.drop(self._lane(job.group) if source == "lane" else self._key(source), job.id)
        self.draft.drop(self._row(job.id), *cleared)
        self._write_row(job, {b"state": state, **(fields or {})})
        self._touched += [job.group] if job.group else []

    def _slot_back(self, group: bytes | None) -> None:
        if self.dry or not group:
            return
        left = (self._view().counter(group) or 0) - 1
        if left > 0:
            self.draft.put(self._key("gactive"), "hash", {group: str(left).encode()})
        else:
            self.draft.drop(self._key("gactive"), group)
        self._touched.append(group)

    def _fence(self, job: Job, wanted: bool) -> frozenset[str]:  # noqa: FBT001 - a rule's outcome
        if not wanted:
            return frozenset()
        self._write_row(job, {b"attempts": str(int(job.attempts) + 1).encode()})
        return frozenset({"fenced"})

    def _write_row(self, job: Job, fields: dict[bytes, bytes]) -> frozenset[str]:
        if not self.dry:
            self.draft.put(self._row(job.id), "hash", fields)
        return frozenset()

    def _waiting_notes(self, group: bytes | None) -> frozenset[str]:
        view = self._view()
        notes = {"queue-paused": b"paused" in view.fixed.get("meta", {})}
        if group:
            counter, limit = view.counter(group), view.limit(group)
            notes["lane-paused"] = group in view.fixed.get("paused", ())
            notes["lane-at-limit"] = counter is None or limit is None or counter >= limit
        return frozenset(note for note, holds in notes.items() if holds)

    def _lease_left(self, job: Job) -> float:
        score = self._view().sets.get("active", {}).get(job.id)
        return 0 if score is None or job.kind == "none" else score - self.look.now_ms - _SLACK_MS

    def _job(self, job_id: bytes) -> Job:
        view = self._view()
        row = view.rows.get(job_id, {})
        group = row.get(b"group")
        has_lane = group is not None and is_id(group)
        places = [place for place in _SETS if job_id in view.sets.get(place, {})]
        if has_lane and job_id in view.lanes.get(group or b"", {}):
            places.append("lane")
        kind = "hash" if job_id in view.rows else view.odd_rows.get(job_id, "none")
        return Job(
            id=job_id,
            kind=kind,
            row=row,
            places=places,
            group=group if has_lane else None,
            lane_is_set=not has_lane or not self._type(self._lane(group), "zset"),
            is_locked=view.sub(job_id, "lock") is not None or job_id in view.lock_ttls,
            is_held=row.get(b"state") == b"awaiting_children" and not places,
            count=view.count(job_id) or 0,
        )

    def _view(self) -> QueueView:
        return self.draft.look().queues.get(self.queue, QueueView(self.queue))

    def _type(self, key: bytes, wanted: str) -> str | None:
        """Return the type of a key that is of another than it should be."""
        found = self.draft.keys[key].type if key in self.draft.keys else wanted
        return found if found != wanted else None

    def _key(self, suffix: str) -> bytes:
        return f"emq:{{{self.queue}}}:{suffix}".encode()

    def _row(self, job_id: bytes) -> bytes:
        return self._key("job:") + job_id

    def _lane(self, group: bytes | None) -> bytes:
        return self._key("g:") + (group or b"") + b":pending"


_SLACK_MS = 5000  # leases and delays of the machine are over at once or in an hour


def keys_differ(found: Snapshot, wanted: Snapshot) -> list[str]:
    """Return a line for each key that is not as it should be, how long it lives left aside."""
    return [
        f"{key!r} is {found.get(key)}, should be {wanted.get(key)}"
        for key in sorted({*found, *wanted})
        if _plain(found.get(key)) != _plain(wanted.get(key))
    ]


def _plain(value: Value | None) -> tuple[Any, ...] | None:
    return None if value is None else (value.type, value.content, value.ttl_ms is None)


def _waits(view: QueueView, parent: bytes) -> bool:
    return view.is_held(parent) or view.is_dead_by_children(parent)


def _skipped(job: Job, reason: str) -> Answer:
    return Answer("skipped", reason, job.place, job.place)


def _moved(job: Job, after: str, notes: Iterable[str]) -> Answer:
    return Answer("moved", None, job.place, after, frozenset(notes))
