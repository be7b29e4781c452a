"""What the core returns: flat records whose field order is the column order of every format.

Text from Redis stays bytes, or str with surrogate escapes, until it is printed. In the place of a
value that cannot be read stands the error that says why; it is shown as an error, never as 0.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from emqctl.errors import EmqError


@dataclass(frozen=True)
class QueueState:
    """How many jobs of one queue are where; None is what was not asked for.

    ``lanes`` sums the lanes, ``waiting`` adds pending; ``paused`` is any value at all in the queue's own flag,
    ``oldest`` when the oldest waiting job was made, None too where none waits.
    """

    queue: str
    pending: int | EmqError | None = None
    lanes: int | EmqError | None = None
    waiting: int | EmqError | None = None
    active: int | EmqError | None = None
    lapsed: int | EmqError | None = None
    scheduled: int | EmqError | None = None
    overdue: int | EmqError | None = None
    dead: int | EmqError | None = None
    completed: int | EmqError | None = None
    failed: int | EmqError | None = None
    paused: bool | EmqError | None = None
    oldest: datetime | EmqError | None = None


@dataclass(frozen=True)
class BrowsedJob:
    """One job of a listing. Fields of other states than the listed one are None.

    ``lane`` is the lane it waits in, or the group of its row; ``lease_ms`` is negative once lapsed;
    ``error`` is None with ``error_bytes`` over 4096; ``preview`` is the first 60 characters of a
    payload of at most 4096 bytes.
    """

    id: bytes
    minted: datetime | None
    attempts: int | EmqError | None
    lane: bytes | None
    deadline: datetime | None
    lease_ms: int | None
    lapsed: bool | None
    due: datetime | None
    overdue: bool | None
    error: bytes | None
    error_bytes: int | None
    payload_bytes: int | None
    preview: str | None
    payload: bytes | None


@dataclass(frozen=True)
class Inspection:
    """Everything about one job; what does not apply is None.

    ``place`` names each place its id stands in, ``lane`` the group of its row. ``children`` holds how
    many are ``outstanding``, what the ``processed``, ``failed`` and ``unsuccessful`` ones answered, and,
    with a deep look, all that are ``linked``. ``servable`` and ``why`` speak of a waiting job.
    ``fields`` is whatever else the row holds.
    """

    id: str
    queue: str
    place: str
    lane: bytes | None
    state: bytes | None
    attempts: int | str | None
    minted: datetime
    deadline: datetime | None
    lease_ms: int | None
    due: datetime | None
    error: bytes | None
    stalled: int | str | None
    progress: bytes | None
    lock: bytes | None
    lock_ttl_ms: int | None
    parent: bytes | None
    parent_queue: bytes | None
    parent_policy: bytes | None
    children: dict[str, Any] | None
    logs: list[bytes]
    payload_bytes: int | None
    payload: bytes | None
    contradictions: list[str]
    fields: dict[str, bytes]
    servable: bool | None
    why: str | None
    parent_state: bytes | None
    dedup: list[str] | None


@dataclass(frozen=True)
class Lane:
    """One lane of a queue.

    ``active`` is the counter that workers go by, ``active_true`` how many jobs in flight are of this lane;
    ``max_active`` and ``weight`` are None where none is set. ``servable`` tells whether it belongs on the
    ring, ``why`` why not, or what is wrong; ``oldest`` is when its oldest waiting job was made.
    """

    lane: str
    depth: int | EmqError
    active: int | EmqError
    max_active: int | EmqError | None
    weight: int | EmqError | None
    paused: bool
    on_ring: bool
    servable: bool | None
    why: str | None
    oldest: datetime | None
    active_true: int | None


@dataclass(frozen=True)
class ErrorGroup:
    """Dead jobs of one queue that died of the same; a queue that cannot be read has the reason for a ``count``.

    ``group`` is what ``--error-group`` takes; it is None where there is no error text, and ``error`` says in
    parentheses what is known instead. ``sample`` is the newest of the jobs and ``error`` its text, None where
    that takes too much memory to be kept.
    """

    queue: str
    group: str | None
    count: int | EmqError
    oldest: datetime | None = None
    newest: datetime | None = None
    sample: bytes | None = None
    error: bytes | None = None


#: How bad a finding is, the least first: worth knowing, served by nobody, against the protocol's rules.
LEVELS = ("note", "stuck", "broken")


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be, or worth knowing; without a ``queue`` it is of the server.

    ``place`` is where a job's id stands, or the suffix of a key that is no job's. ``meaning`` says what comes
    of it, ``repair`` which command repairs it, None where a person has to decide. ``result`` and ``reason``
    tell what a repair made of it.
    """

    level: str
    rule: str
    hazard: str | None
    queue: str | None
    id: bytes | None
    lane: bytes | None
    place: str | None
    meaning: str
    repair: str | None
    result: str | None = None
    reason: str | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether it was repaired, or would be."""
        return self.result in {"fixed", "would-fix"}


@dataclass(frozen=True)
class Answer:
    """What one connection tells of a server and of this user; None is what could not be asked.

    ``topology`` is ``standalone``, ``cluster`` or ``sentinel``, ``role`` ``primary`` or ``replica``;
    ``known`` tells whether emqctl knows the wire version. ``may`` are the kinds of command this user may run on
    every queue, ``may_not`` maps the others to the ACL rule that is missing first, or to what else is in the way.
    """

    server: str
    kind: str | None
    version: str | None
    topology: str | None
    role: str | None
    round_trip_ms: float
    database: int
    wire_version: str | None
    known: bool | None
    user: str
    may: tuple[str, ...] | None
    may_not: dict[str, str] | None


@dataclass(frozen=True)
class SlotRow:
    """The cluster slot of a queue or key, and the node that serves it where one was asked."""

    name: str
    tag: bytes
    slot: int
    node: str | None = None


@dataclass(frozen=True)
class IdParts:
    """A branded id taken apart; ``snowflake`` is text because it can exceed 2^53."""

    id: str
    namespace: str
    snowflake: str
    minted: datetime
    node: int
    sequence: int


def columns_of(record_type: Any) -> tuple[str, ...]:
    """Return the names of a record's fields, which are its columns."""
    return tuple(each.name for each in fields(record_type))


def unreadable(record: object) -> EmqError | None:
    """Return the reason for the first value of a record that could not be read, if there is one."""
    return next((value for value in vars(record).values() if isinstance(value, EmqError)), None)
