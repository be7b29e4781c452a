"""What the core returns: flat records whose field order is the column order of every format.

Text from Redis stays bytes, or str with surrogate escapes, until it is printed. In the place of a
value that cannot be read stands the error that says why; it is shown as an error, never as 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from emqctl.errors import EmqError


@dataclass(frozen=True)
class QueueDepth:
    """How many jobs of one queue are where; ``lanes`` sums the known lanes, ``waiting`` adds pending."""

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


def unreadable(record: object) -> EmqError | None:
    """Return the reason for the first value of a record that could not be read, if there is one."""
    return next((value for value in vars(record).values() if isinstance(value, EmqError)), None)
