"""One id seen from every side at one moment: the closer look that decides about a suspect."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

from emqctl import branded
from emqctl.errors import EmqError, Malformed
from emqctl.keyspace import QueueKeys, decode
from emqctl.queues import Queue
from emqctl.replies import Command, NotPermitted, permitted

SETS = ("pending", "active", "schedule", "dead")
FIELDS = ("state", "attempts", "group", "parent", "parent_queue", "stalled", "lock")
TOLD = ("processed", "failed", "unsuccessful")
GONE, FOR_EVER, SOME_MS = -2, -1, 1  # of a field's time to live
LOOKS = 3  # times a job is looked for that changes its lane or parent meanwhile
BATCH = 50  # ids looked at in one round trip, each of one moment


def is_job_id(member: bytes) -> bool:
    """Tell whether a member can be a job."""
    return member.startswith(b"JOB") and branded.is_branded(member)


_NUMBER = re.compile(rb"0|-?[1-9][0-9]{0,14}")  # what both a server and a program count on from


def number(raw: bytes | None) -> int | None:
    """Return a number as servers and programs count on from it, None for anything else."""
    return int(raw) if raw is not None and _NUMBER.fullmatch(raw) else None


@dataclass(frozen=True)
class Parent:
    """The other end of a child's link: whether it has a row, and in which of its hashes the child stands."""

    is_here: bool  # in the child's own queue
    exists: bool
    told: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """What was read of one id. ``sets`` and ``lanes`` are where it stands, ``row`` the fields its hash has.

    ``lock_ttl_ms`` is what is left of the row's ``lock`` field, 0 where it does not expire; ``count`` is how
    many children it waits for by its own account, ``failed`` how many it was told have failed it.
    """

    queue: str
    id: bytes
    now_ms: int
    type: str
    row: Mapping[str, bytes]
    has_payload: bool
    has_error: bool
    sets: tuple[str, ...]
    lanes: tuple[bytes, ...]
    deadline_ms: float | None
    has_lock_string: bool
    lock_ttl_ms: int
    count: bytes | None
    failed: int
    parent: Parent | None

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is."""
        return {"queue": self.queue, "id": self.id, "lane": self.lane, "place": " ".join(self.places) or "none"}

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The words of where it stands."""
        return (*self.sets, *("lane" for _ in self.lanes))

    @property
    def lane(self) -> bytes | None:
        """The lane it stands in, else the one its row names."""
        return self.lanes[0] if self.lanes else self.row.get("group")

    @property
    def foreign_lane(self) -> bytes | None:
        """A lane it stands in that is not the one its row names."""
        return next((lane for lane in self.lanes if lane != self.row.get("group")), None)

    @property
    def is_sound_id(self) -> bool:
        """Whether its id is a branded one, so that its row can be a job's."""
        return branded.is_branded(self.id)

    @property
    def has_bad_attempts(self) -> bool:
        """Whether its row counts attempts in what is no count."""
        return has_bad_attempts(self.row)

    @property
    def has_live_lease(self) -> bool:
        """Whether a worker holds it."""
        return self.deadline_ms is not None and self.deadline_ms > self.now_ms

    @property
    def is_passing_mark(self) -> bool:
        """Whether its row is nothing but a lock set too late, which goes by itself."""
        return self.row.keys() == {"lock"} and self.lock_ttl_ms > 0 and not self.has_payload and not self.places

    @property
    def is_held(self) -> bool:
        """Whether its row says that it waits for its children."""
        return self.row.get("state") == b"awaiting_children"

    @property
    def is_dead_by_children(self) -> bool:
        """Whether a child killed it, and it never ran itself."""
        never_ran = self.row.get("attempts", b"0") == b"0" and not self.has_error
        return self.places == ("dead",) and self.row.get("state") == b"dead" and never_ran


@dataclass(frozen=True)
class Link:
    """What a row says of its parent; ``keys`` are None where no queue can have the name it gives."""

    keys: QueueKeys | None
    id: bytes
    is_here: bool

    def asked(self, child: bytes) -> list[Command]:
        """Return the commands whose replies ``answered`` takes."""
        if self.keys is None:
            return []
        told = (("HEXISTS", self.keys.row(self.id, sub), child) for sub in TOLD)
        return [("EXISTS", self.keys.row(self.id)), *told]

    def answered(self, replies: Sequence[Any]) -> Parent:
        """Return what is known of the parent."""
        exists, *told = replies or (0, 0, 0, 0)
        return Parent(self.is_here, exists == 1, tuple(sub for sub, yes in zip(TOLD, told, strict=True) if yes == 1))


def link_of(keys: QueueKeys, row: Mapping[str, bytes]) -> Link | None:
    """Return the link of a row to its parent, if it has one."""
    if "parent" not in row:
        return None
    named = row.get("parent_queue")
    try:
        there = QueueKeys(decode(named)) if named else keys
    except Malformed:
        return Link(None, row["parent"], is_here=False)
    return Link(there, row["parent"], there.queue == keys.queue)


def has_bad_attempts(row: Mapping[str, bytes]) -> bool:
    """Tell whether a row counts attempts in what is no count."""
    attempts = number(row.get("attempts", b"0"))
    return attempts is None or attempts < 0


def row_of(reply: Any) -> dict[str, bytes]:
    """Return the fields a hash has, from the reply to HMGET of ``FIELDS``; none for what is no hash."""
    if isinstance(reply, EmqError):
        return {}
    return {name: value for name, value in zip(FIELDS, reply, strict=True) if value is not None}


def look(queue: Queue, suspects: Mapping[bytes, Collection[bytes]]) -> list[Job]:
    """Return the facts of some ids, each of one moment; ``suspects`` names the lanes each was met in.

    A parent in another queue is read before its child: what it lacks while the child is there, it lacks. A job
    that has another lane or parent each time it is looked for is in motion, and left out.
    """
    jobs: list[Job] = []
    rest = list(suspects)
    for _ in range(LOOKS):
        moved: list[bytes] = []
        for at in range(0, len(rest), BATCH):
            for view in _look(queue, rest[at : at + BATCH], suspects):
                if view.has_moved:
                    moved.append(view.member)
                else:
                    jobs.append(view.job(queue))
        rest = moved
    return _with_lock_ttls(queue, jobs)


@dataclass
class _View:
    """One id while it is looked at: what its row said beforehand, and the replies."""

    member: bytes
    row: dict[str, bytes]
    lanes: list[bytes]
    link: Link | None
    parent: Parent | None = None
    replies: Sequence[Any] = ()

    def asked(self, keys: QueueKeys) -> list[Command]:
        """Return what is asked at one moment."""
        row = keys.row(self.member)
        return [
            ("TYPE", row),
            ("HMGET", row, *FIELDS),
            ("HEXISTS", row, "payload"),
            ("HEXISTS", row, "last_error"),
            ("EXISTS", keys.row(self.member, "lock")),
            ("GET", keys.row(self.member, "dependencies")),
            ("HLEN", keys.row(self.member, "failed")),
            *(("ZSCORE", keys.fixed(place), self.member) for place in SETS),
            *(("ZSCORE", keys.lane_as_named(group), self.member) for group in self.lanes),
            *(self.link.asked(self.member) if self.link and self.link.is_here else ()),
        ]

    @property
    def has_moved(self) -> bool:
        """Whether it has another lane or parent than beforehand, so that the replies are about the wrong ones."""
        now = row_of(self.replies[1])
        return any(now.get(name) != self.row.get(name) for name in ("group", "parent", "parent_queue"))

    def job(self, queue: Queue) -> Job:
        """Return the facts."""
        rest = iter(self.replies)
        kind, fields, *figures = islice(rest, 7)
        has_payload, has_error, has_lock, count, failed = (None if _is_error(each) else each for each in figures)
        scores = dict(zip(SETS, rest, strict=False))
        lanes = tuple(lane for lane, score in zip(self.lanes, rest, strict=False) if isinstance(score, float))
        link, deadline = self.link, scores["active"]
        return Job(
            queue=queue.name,
            id=self.member,
            now_ms=queue.server.now_ms(),
            type=decode(kind),
            row=row_of(fields),
            has_payload=has_payload == 1,
            has_error=has_error == 1,
            sets=tuple(place for place in SETS if isinstance(scores[place], float)),
            lanes=lanes,
            deadline_ms=deadline if isinstance(deadline, float) else None,
            has_lock_string=has_lock == 1,
            lock_ttl_ms=0,
            count=count,
            failed=failed or 0,
            parent=link.answered(list(rest)) if link and link.is_here else self.parent,
        )


def _look(queue: Queue, members: Sequence[bytes], suspects: Mapping[bytes, Collection[bytes]]) -> list[_View]:
    keys = queue.keys
    rows = map(row_of, _ask(queue, [("HMGET", keys.row(member), *FIELDS) for member in members]))
    views = [
        _View(member, row, sorted({*suspects[member], *_own_lane(row)}), link_of(keys, row))
        for member, row in zip(members, rows, strict=True)
    ]
    _see_parents_abroad(queue, views)
    for view, replies in zip(views, queue.server.try_ask_each([view.asked(keys) for view in views]), strict=True):
        view.replies = permitted(replies)
    return views


def _see_parents_abroad(queue: Queue, views: Sequence[_View]) -> None:
    abroad = [(view, view.link) for view in views if view.link and not view.link.is_here]
    asked = [link.asked(view.member) for view, link in abroad]
    replies = iter(_ask(queue, [command for commands in asked for command in commands]))
    for (view, link), commands in zip(abroad, asked, strict=True):
        view.parent = link.answered(list(islice(replies, len(commands))))


def _with_lock_ttls(queue: Queue, jobs: Sequence[Job]) -> list[Job]:
    """Ask how long each ``lock`` field lives: outside MULTI, which a command that a server lacks would break off."""
    locked = [job.id for job in jobs if "lock" in job.row]
    asked = [("HPTTL", queue.keys.row(member), "FIELDS", 1, "lock") for member in locked]
    ttls = dict(zip(locked, map(_ttl_ms, queue.server.try_ask(*asked) if asked else ()), strict=True))
    return [replace(job, lock_ttl_ms=ttls.get(job.id, 0)) for job in jobs]


def _ttl_ms(reply: Any) -> int:
    """Return what is left of a field, 0 for one that does not expire; of what is gone or hidden nothing is said."""
    if isinstance(reply, EmqError):
        return SOME_MS if isinstance(reply, NotPermitted) else 0
    [ttl_ms] = reply or (GONE,)
    return {GONE: SOME_MS, FOR_EVER: 0}.get(int(ttl_ms), int(ttl_ms))


def _own_lane(row: Mapping[str, bytes]) -> list[bytes]:
    return [row["group"]] if branded.is_branded(row.get("group", b"")) else []


def _ask(queue: Queue, commands: Sequence[Command]) -> list[Any]:
    return permitted(queue.server.try_ask(*commands)) if commands else []


def _is_error(reply: Any) -> bool:
    return isinstance(reply, EmqError)
