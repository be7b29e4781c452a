"""Choosing jobs: by their mint time, their lane, their error, their payload, their attempts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import NamedTuple

from emqctl.branded import BrandedId
from emqctl.folding import group_of
from emqctl.keyspace import decode
from emqctl.lanes import first_pages, known_lanes
from emqctl.queues import Queue
from emqctl.rows import WHOLE, Row, read_rows
from emqctl.walks import SetWalk
from emqctl.window import MintBounds, Window

ROWS = 500  # rows read in one round trip


@dataclass(frozen=True)
class Filters:
    """Which jobs of a set are meant; each filter narrows the others. Texts are compared as bytes."""

    bounds: MintBounds = field(default_factory=MintBounds)
    lane: BrandedId | None = None
    flat: bool = False
    error: bytes | None = None
    error_re: re.Pattern[bytes] | None = None
    error_group: str | None = None
    grep: bytes | None = None
    attempts_min: int | None = None

    @property
    def wants_error(self) -> bool:
        """Whether the error text of a job tells if it is meant."""
        return not (self.error is None and self.error_re is None and self.error_group is None)

    @property
    def wants_content(self) -> bool:
        """Whether what a row holds tells if the job is meant, its lane left aside."""
        return self.wants_error or self.grep is not None or self.attempts_min is not None

    @property
    def wants_row(self) -> bool:
        """Whether anything in its row tells if a job is meant."""
        return self.wants_content or self.flat or self.lane is not None

    @property
    def texts(self) -> dict[str, int | None]:
        """The bytes up to which payload and error have to be read to tell, as ``read_rows`` takes them."""
        return {
            "payload": None if self.grep is None else WHOLE,
            "error": WHOLE if self.wants_error else None,
        }

    def match(self, row: Row) -> bool:
        """Tell whether a job with this row is meant, mint time aside; its texts must be whole."""
        return self._match_lane(row.group) and self.match_content(row)

    def match_content(self, row: Row) -> bool:
        """Tell whether error, payload and attempts are as asked for."""
        enough = self.attempts_min is None or (isinstance(row.attempts, int) and row.attempts >= self.attempts_min)
        found = self.grep is None or (row.payload is not None and self.grep in row.payload)
        return enough and found and (not self.wants_error or self._match_error(row.error))

    def _match_lane(self, group: bytes | None) -> bool:
        if self.lane:
            return group == bytes(self.lane)
        return group is None or not self.flat

    def _match_error(self, error: bytes | None) -> bool:
        if error is None:
            return False
        return (
            (self.error is None or self.error in error)
            and (self.error_re is None or self.error_re.search(error) is not None)
            and (self.error_group is None or group_of(error) == self.error_group)
        )


class Target(NamedTuple):
    """A job to change: its id as given, the ``attempts`` the choice was made by, the lane it was met in (b"": none)."""

    id: bytes
    seen: bytes = b""
    lane: bytes = b""


@dataclass(frozen=True)
class Source:
    """A set to choose from: in mint order, or, where the scores are times, those of at most ``until_ms``."""

    key: bytes
    lane: bytes = b""
    by_time: bool = False
    until_ms: int | None = None


@dataclass(frozen=True)
class Survey:
    """What a selection comes to: how many, the first ids, and how many have ``spent`` attempts or more."""

    count: int
    first: list[str]
    spent: int


def walk(queue: Queue, key: bytes, filters: Filters, limit: int = 0) -> Iterator[list[Target]]:
    """Yield the chosen members of a set in pages, oldest first; see ``walk_all``."""
    return walk_all(queue, [Source(key)], filters, limit)


def walk_all(queue: Queue, sources: Sequence[Source], filters: Filters, limit: int = 0) -> Iterator[list[Target]]:
    """Yield the chosen members of some sets in pages, at most ``limit`` (0: all), one set after the other.

    A set in mint order is walked from its oldest member to the newest there was at the start; one scored
    by time in no order. Pages may be empty: each is a moment at which a run can be ended.
    """
    left = limit or None
    for source in sources:
        pages = _by_time(queue, source, filters) if source.by_time else _by_mint(queue, source, filters)
        for page in pages:
            chosen = list(islice(_choose(queue, page, source, filters), left))
            yield chosen
            if left is not None:
                left -= len(chosen)
                if not left:
                    return


def waiting(queue: Queue, filters: Filters) -> tuple[list[Source], Filters]:
    """Return where a queue's waiting jobs are, the flat set and the known lanes, and what is left to filter."""
    rest = replace(filters, lane=None, flat=False)
    if filters.lane:
        return [Source(queue.keys.lane(filters.lane), bytes(filters.lane))], rest
    flat = Source(queue.keys.pending)
    if filters.flat:
        return [flat], rest
    groups = known_lanes(queue.server, queue.keys, queue.server.ask(*first_pages(queue.keys)))
    return [flat, *(Source(queue.keys.lane(group), bytes(group)) for group in groups)], rest


def survey(queue: Queue, pages: Iterable[Sequence[Target]], spent: int) -> Iterator[Survey]:
    """Yield, page by page, what a walk comes to; the last one is the answer."""
    so_far = Survey(0, [], 0)
    for page in pages:
        rows = read_rows(queue.server, queue.keys, [target.id for target in page])
        worn = sum(isinstance(row.attempts, int) and row.attempts >= spent for row in rows)
        first = (so_far.first + [decode(target.id) for target in page[:3]])[:3]
        so_far = Survey(so_far.count + len(page), first, so_far.spent + worn)
        yield so_far


def _by_mint(queue: Queue, source: Source, filters: Filters) -> Iterator[list[bytes]]:
    server = queue.server
    window = filters.bounds.window(server.now_ms)
    [newest] = server.ask(SetWalk(source.key, window, newest_first=True, page=1).page_command)
    if newest:
        # jobs that come in meanwhile are not chased: the run would never end beside a storm of them
        to_newest = Window(window.low, newest[0] + b"\0")
        yield from map(list, SetWalk(source.key, to_newest, newest_first=False, page=ROWS).pages(server))


def _by_time(queue: Queue, source: Source, filters: Filters) -> Iterator[list[bytes]]:
    window = filters.bounds.window(queue.server.now_ms)
    until_ms = inf if source.until_ms is None else source.until_ms
    cursor = 0
    while True:
        [(cursor, found)] = queue.server.ask(("ZSCAN", source.key, cursor, "COUNT", ROWS))
        yield sorted({member for member, score in found if score <= until_ms and member in window})
        if not cursor:
            return


def _choose(queue: Queue, page: list[bytes], source: Source, filters: Filters) -> Iterator[Target]:
    if not filters.wants_row:
        yield from (Target(member, lane=source.lane) for member in page)
        return
    rows = read_rows(queue.server, queue.keys, page, **filters.texts)
    for member, row in zip(page, rows, strict=True):
        if filters.match(row):
            seen = _seen(row) if filters.wants_content else b""
            yield Target(member, seen, source.lane)


def _seen(row: Row) -> bytes:
    """Return the ``attempts`` a choice was made by; a row without any counts from 0."""
    return str(row.attempts or 0).encode() if row.attempts is None or isinstance(row.attempts, int) else b""
