"""Listing jobs: from which sets, in which order, how many, and what is shown of each.

Sets with equal scores (pending, dead, lanes) are read by lexical bounds and a lexical cursor; sets
scored by time (active, schedule) from their near end, or, when all or a mint window is wanted, by
ZSCAN and a sort. No command asks for more than a page, and no payload is fetched before its length.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from emqctl import branded, times
from emqctl.connection import Server
from emqctl.errors import EmqError
from emqctl.keyspace import decode
from emqctl.lanes import first_pages, known_lanes
from emqctl.queues import Queue
from emqctl.records import BrowsedJob
from emqctl.replies import Command
from emqctl.rows import SHORT, WHOLE, Row, read_rows
from emqctl.selection import Filters
from emqctl.walks import PAGE, SetWalk

LANE_ROWS = 10_000  # ids read ahead over all lanes together …
FEWEST = 20  # … but so many of each
ROWS = 500  # rows read in one round trip
PREVIEW = 60  # characters

STATES = ("pending", "active", "scheduled", "dead")


@dataclass(frozen=True)
class Request:
    """What to list. ``limit`` 0 is all; of ``pending`` a lane is told by its set, of other states by the row."""

    state: str = "pending"
    limit: int = 20
    filters: Filters = field(default_factory=Filters)
    reverse: bool = False
    payload: bool = False

    @property
    def wants_row(self) -> bool:
        """Whether only the row of a job tells if it is wanted."""
        return self.filters.wants_content if self.state == "pending" else self.filters.wants_row

    def match(self, row: Row) -> bool:
        """Tell whether a job with this row is wanted."""
        return self.filters.match_content(row) if self.state == "pending" else self.filters.match(row)

    @property
    def texts(self) -> dict[str, int | None]:
        """The bytes up to which payloads and errors are shown."""
        return {"payload": WHOLE if self.payload else SHORT, "error": SHORT if self.state == "dead" else None}


class Place(NamedTuple):
    """Where an id was met: the lane it waits in, or the score it has."""

    member: bytes
    lane: bytes | None = None
    score: float | None = None


class Listing:
    """The jobs of a request, read while they are iterated; the counts are true afterwards.

    ``total`` is how many the request would show without its limit, None where only reading all rows
    would tell; ``rowless`` how many of the shown ids have no row; ``last`` is the id shown last.
    """

    def __init__(self, jobs: Iterator[BrowsedJob], limit: int, total: int | None) -> None:
        self._jobs = jobs
        self._limit = limit
        self.total = total
        self.shown = 0
        self.rowless = 0
        self.last: bytes | None = None

    def __iter__(self) -> Iterator[BrowsedJob]:
        for job in islice(self._jobs, self._limit or None):
            self.shown += 1
            self.last = job.id
            self.rowless += job.payload_bytes is None
            yield job

    @cached_property
    def more(self) -> bool:
        """Whether the limit cut the listing; asked when it was iterated, and may read on to find out."""
        if not self._limit or self.shown < self._limit:
            return False
        return self.shown < self.total if self.total is not None else next(self._jobs, None) is not None


def browse(queue: Queue, request: Request) -> Listing:
    """List the jobs of one state, newest first (by mint), or next in time for active and scheduled."""
    by_score = request.state in {"active", "scheduled"}
    places, total = _by_score(queue, request) if by_score else _by_mint(queue, request)
    if request.wants_row:
        return Listing(_read_rows(queue, request, places), request.limit, None)
    wanted = islice(places, request.limit or None)
    return Listing(_read_rows(queue, request, wanted), request.limit, total)


def _by_mint(queue: Queue, request: Request) -> tuple[Iterator[Place], int]:
    """Return the members of all sets of the state merged by id, and how many there are."""
    server, keys = queue.server, queue.keys
    newest_first = not request.reverse
    lane, flat = request.filters.lane, request.filters.flat
    merged = request.state == "pending" and not flat and not lane
    walk = SetWalk(
        keys.dead if request.state == "dead" else keys.lane(lane) if lane else keys.pending,
        request.filters.bounds.window(server.now_ms),
        newest_first,
        min(request.limit or PAGE, PAGE),
    )
    sources = first_pages(keys) if merged else []
    first, count, *named = _checked(queue.look(walk.page_command, walk.count_command, *sources, counting=False))
    places = [_places(server, walk, first, bytes(lane) if lane else None)]
    lanes = known_lanes(server, keys, named) if merged else []
    page = min(walk.page, max(FEWEST, LANE_ROWS // max(len(lanes), 1)))
    for some in _batches(lanes, PAGE):
        walks = [replace(walk, key=keys.lane(group), page=page) for group in some]
        replies = server.ask(*(command for each in walks for command in (each.page_command, each.count_command)))
        for group, each, found, in_lane in zip(some, walks, replies[::2], replies[1::2], strict=True):
            count += in_lane
            places.append(_places(server, each, found, bytes(group)))
    return heapq.merge(*places, key=lambda place: place.member, reverse=newest_first), count


def _places(server: Server, walk: SetWalk, first: Sequence[bytes], lane: bytes | None) -> Iterator[Place]:
    for page in walk.pages(server, first):
        yield from (Place(member, lane) for member in page)


def _by_score(queue: Queue, request: Request) -> tuple[Iterator[Place], int]:
    """Return the members of a set scored by time, nearest first, and how many there are."""
    keys = queue.keys
    key = keys.active if request.state == "active" else keys.schedule
    window = request.filters.bounds.window(queue.server.now_ms)
    if window.is_open and 0 < request.limit <= PAGE and not request.wants_row:
        order = ("REV",) if request.reverse else ()
        nearest = ("ZRANGE", key, 0, request.limit - 1, *order, "WITHSCORES")
        flat, count = _checked(queue.look(nearest, ("ZCARD", key), counting=False))
        return (Place(m, None, float(score)) for m, score in zip(flat[::2], flat[1::2], strict=True)), count
    [page] = _checked(queue.look(_scan(key, 0), counting=False))
    scores: dict[bytes, float] = {}
    while True:
        cursor, found = page
        scores.update((member, score) for member, score in found if member in window)
        if not cursor:
            break
        [page] = queue.server.ask(_scan(key, cursor))
    ordered = sorted(scores.items(), key=lambda item: (item[1], item[0]), reverse=request.reverse)
    return (Place(member, None, score) for member, score in ordered), len(ordered)


def _scan(key: bytes, cursor: int) -> Command:
    return ("ZSCAN", key, cursor, "COUNT", PAGE)


def _read_rows(queue: Queue, request: Request, places: Iterator[Place]) -> Iterator[BrowsedJob]:
    for some in _batches(places, ROWS):
        yield from _read_batch(queue, request, some)


def _read_batch(queue: Queue, request: Request, places: Sequence[Place]) -> Iterator[BrowsedJob]:
    server, keys = queue.server, queue.keys
    if request.wants_row:
        told = read_rows(server, keys, [place.member for place in places], **request.filters.texts)
        places = [place for place, row in zip(places, told, strict=True) if request.match(row)]
    rows = read_rows(server, keys, [place.member for place in places], **request.texts)
    for place, row in zip(places, rows, strict=True):
        yield _job(place, row, request, server.now_ms() if place.score is not None else 0)


def _job(place: Place, row: Row, request: Request, now_ms: int) -> BrowsedJob:
    moment = None if place.score is None else _moment_ms(place.score)
    active_ms = moment if request.state == "active" else None
    due_ms = moment if request.state == "scheduled" else None
    return BrowsedJob(
        id=place.member,
        minted=branded.minted_at(place.member),
        attempts=row.attempts,
        lane=place.lane if request.state == "pending" else row.group,
        deadline=None if active_ms is None else times.from_ms(active_ms),
        lease_ms=None if active_ms is None else active_ms - now_ms,
        lapsed=None if active_ms is None else active_ms <= now_ms,
        due=None if due_ms is None else times.from_ms(due_ms),
        overdue=None if due_ms is None else due_ms <= now_ms,
        error=row.error,
        error_bytes=row.error_bytes,
        payload_bytes=row.payload_bytes,
        preview=None if request.payload or row.payload is None else decode(row.payload)[:PREVIEW],
        payload=row.payload if request.payload else None,
    )


def _moment_ms(score: float) -> int | None:
    """Return a score as whole ms, or None for the infinities and not-a-numbers a broken set can hold."""
    return int(score) if math.isfinite(score) else None


def _batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while some := list(islice(iterator, size)):
        yield some


def _checked(replies: Sequence[Any]) -> Sequence[Any]:
    for reply in replies:
        if isinstance(reply, EmqError):
            raise reply
    return replies
