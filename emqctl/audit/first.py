"""The first look: cheap, in pages, one command after another. What is unusual is a suspect, no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from emqctl import branded
from emqctl.audit.jobs import FIELDS, Link, has_bad_attempts, is_job_id, link_of, number, row_of
from emqctl.audit.waits import Waits
from emqctl.contradictions import STATE_OF
from emqctl.errors import EmqError, WrongType
from emqctl.keyspace import QueueKeys
from emqctl.queues import Queue
from emqctl.replies import Command, permitted

PAGE = 500  # members asked for in one command; a server may answer with a few more
ROWS = 500  # rows read in one round trip
SETS_AT_ONCE = 50  # of which a page each is asked for in one round trip

PLACE_OF = {state.encode(): place for place, state in STATE_OF.items() if place != "lane"}


@dataclass(frozen=True)
class Standing:
    """A sorted set of ids: `pending`, `active`, `schedule`, `dead`, `repeat`, or a `lane`."""

    key: bytes
    place: str
    lane: bytes | None = None


@dataclass(frozen=True)
class Member:
    """A member of a sorted set, and what its row says of state and group."""

    at: Standing
    id: bytes
    state: bytes | None
    group: bytes | None
    is_late: bool  # its score is a time, and has come

    @property
    def is_unusual(self) -> bool:
        """Whether anything about it asks for a closer look."""
        if not is_job_id(self.id) or self.state != STATE_OF[self.at.place].encode():
            return True
        return self.at.place in {"lane", "pending"} and self.group != self.at.lane


def walk(
    queue: Queue, sets: Sequence[Standing]
) -> Iterator[tuple[list[tuple[Standing, bytes, float]], list[tuple[Standing, WrongType]]]]:
    """Yield the members of some sets with their scores, a page of many of them at once, and those that are no sets.

    What stays in a set all the time is met, some of it perhaps twice.
    """
    waiting = [(standing, 0) for standing in sets]
    while waiting:
        some, waiting = waiting[:SETS_AT_ONCE], waiting[SETS_AT_ONCE:]
        replies = permitted(
            queue.server.try_ask(*(("ZSCAN", standing.key, cursor, "COUNT", PAGE) for standing, cursor in some))
        )
        met: list[tuple[Standing, bytes, float]] = []
        wrong: list[tuple[Standing, WrongType]] = []
        for (standing, _), reply in zip(some, replies, strict=True):
            if isinstance(reply, WrongType):
                wrong.append((standing, reply))
                continue
            cursor, found = reply
            met += [(standing, *each) for each in found]
            waiting += [(standing, cursor)] if cursor else []
        yield met, wrong


def read_members(queue: Queue, met: Sequence[tuple[Standing, bytes, float]]) -> Iterator[Member]:
    """Yield members met in sets, with what their rows say."""
    now_ms = queue.server.now_ms()
    for at in range(0, len(met), ROWS):
        some = met[at : at + ROWS]
        asked = [("HMGET", queue.keys.row(member), "state", "group") for _, member, _ in some]
        for (standing, member, score), reply in zip(some, permitted(queue.server.try_ask(*asked)), strict=True):
            state, group = (None, None) if isinstance(reply, EmqError) else reply
            yield Member(standing, member, state, group, is_late=score <= now_ms)


def unusual_rows(queue: Queue, members: Sequence[bytes], waits: Waits) -> Iterator[bytes]:
    """Yield the rows that ask for a closer look; take note of who waits, and of children."""
    for at in range(0, len(members), ROWS):
        yield from _unusual_rows(queue, members[at : at + ROWS], waits)


@dataclass
class _Row:
    """A row, and what is asked about it next."""

    id: bytes
    fields: dict[str, bytes]
    is_odd: bool
    link: Link | None
    place: bytes | None  # the set it should stand in

    @property
    def is_held(self) -> bool:
        return self.fields.get("state") == b"awaiting_children"

    def asked(self, queue: Queue) -> list[Command]:
        """Return the commands whose replies ``settle`` takes."""
        keys = queue.keys
        return [
            *([("ZSCORE", self.place, self.id)] if self.place else []),
            *(self._asked_of_held(keys) if self.is_held else []),
            *([("ZSCORE", keys.dead, self.id), *self.link.asked(self.id)] if self.link else []),
        ]

    def _asked_of_held(self, keys: QueueKeys) -> list[Command]:
        return [("GET", keys.row(self.id, "dependencies")), ("HLEN", keys.row(self.id, "failed"))]

    def settle(self, queue: Queue, replies: Iterator[Any], waits: Waits) -> bool:
        """Tell whether the replies make it a suspect too."""
        is_odd = self.is_odd
        if self.place:
            is_odd |= not isinstance(next(replies), float)
        if self.is_held:
            count, failed = next(replies), next(replies)
            waiting_for = 0 if isinstance(count, EmqError) else number(count) or 0
            is_odd |= waiting_for < 1 or failed != 0
            waits.hold((queue.name, self.id), waiting_for)
        if self.link:
            is_dead = isinstance(next(replies), float)
            parent = self.link.answered(list(islice(replies, len(self.link.asked(self.id)))))
            is_odd |= not parent.exists or (bool(parent.told) and not is_dead)
            if self.link.keys:
                waits.child((self.link.keys.queue, self.link.id), is_dead=is_dead)
        return is_odd


def _unusual_rows(queue: Queue, members: Sequence[bytes], waits: Waits) -> Iterator[bytes]:
    keys = queue.keys
    asked = [
        command
        for member in members
        for command in (("HMGET", keys.row(member), *FIELDS), ("HEXISTS", keys.row(member), "payload"))
    ]
    replies = permitted(queue.server.try_ask(*asked))
    rows = [_row(queue, *each) for each in zip(members, replies[::2], replies[1::2], strict=True)]
    more = [row.asked(queue) for row in rows]
    flat = [command for commands in more for command in commands]
    answers = iter(permitted(queue.server.try_ask(*flat)) if flat else ())
    for row, commands in zip(rows, more, strict=True):
        if row.settle(queue, islice(answers, len(commands)), waits):
            yield row.id


def _row(queue: Queue, member: bytes, reply: Any, has_payload: Any) -> _Row:
    fields = row_of(reply)
    group, state = fields.get("group"), fields.get("state", b"")
    place = PLACE_OF.get(state)
    is_odd = (
        isinstance(reply, EmqError)
        or has_payload != 1
        or not branded.is_branded(member)
        or has_bad_attempts(fields)
        or (group is not None and not branded.is_branded(group))
        or (place is None and state != b"awaiting_children")
        or "lock" in fields
        or ("stalled" in fields and place != "dead")
        or not branded.is_branded(fields.get("parent", member))
    )
    key = None if place is None else queue.keys.fixed(place)
    if place == "pending" and group is not None:
        key = queue.keys.lane_as_named(group)
    return _Row(member, fields, is_odd, link_of(queue.keys, fields), key)


def busy_parents(queue: Queue, members: Sequence[bytes]) -> Iterator[bytes]:
    """Yield, of jobs that have a count of children, those that count on some and do not wait for them."""
    keys = queue.keys
    asked = [
        command
        for member in members
        for command in (("GET", keys.row(member, "dependencies")), ("HGET", keys.row(member), "state"))
    ]
    replies = permitted(queue.server.try_ask(*asked)) if asked else []
    for member, count, state in zip(members, replies[::2], replies[1::2], strict=True):
        outstanding = 0 if isinstance(count, EmqError) else number(count) or 0
        if outstanding > 0 and state != b"awaiting_children":
            yield member
