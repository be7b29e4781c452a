"""Choosing jobs: by their mint time, their lane, their error, their payload, their attempts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from emqctl.branded import BrandedId
from emqctl.folding import group_of
from emqctl.keyspace import decode
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
    """A job to change: its id as given, and the ``attempts`` that the choice was made by (b"" for none)."""

    id: bytes
    seen: bytes = b""


@dataclass(frozen=True)
class Survey:
    """What a selection comes to: how many, the first ids, and how many have ``spent`` attempts or more."""

    count: int
    first: list[str]
    spent: int


def walk(queue: Queue, key: bytes, filters: Filters, limit: int = 0) -> Iterator[list[Target]]:
    """Yield the chosen members of a set in pages, oldest first, at most ``limit`` (0: all).

    The walk ends at the newest member there was at its start. Pages may be empty: each is a moment at
    which a run can be ended.
    """
    left = limit or None
    for page in _pages(queue, key, filters):
        chosen = list(islice(_choose(queue, page, filters), left))
        yield chosen
        if left is not None:
            left -= len(chosen)
            if not left:
                return


def survey(queue: Queue, key: bytes, filters: Filters, limit: int, spent: int) -> Iterator[Survey]:
    """Yield, page by page, what ``walk`` would choose; the last one is the answer."""
    so_far = Survey(0, [], 0)
    for page in walk(queue, key, filters, limit):
        rows = read_rows(queue.server, queue.keys, [target.id for target in page])
        worn = sum(isinstance(row.attempts, int) and row.attempts >= spent for row in rows)
        first = (so_far.first + [decode(target.id) for target in page[:3]])[:3]
        so_far = Survey(so_far.count + len(page), first, so_far.spent + worn)
        yield so_far


def _pages(queue: Queue, key: bytes, filters: Filters) -> Iterator[list[bytes]]:
    server = queue.server
    window = filters.bounds.window(server.now_ms)
    [newest] = server.ask(SetWalk(key, window, newest_first=True, page=1).page_command)
    if newest:
        # jobs that come in meanwhile are not chased: the run would never end beside a storm of them
        to_newest = Window(window.low, newest[0] + b"\0")
        yield from map(list, SetWalk(key, to_newest, newest_first=False, page=ROWS).pages(server))


def _choose(queue: Queue, page: list[bytes], filters: Filters) -> Iterator[Target]:
    if not filters.wants_row:
        yield from map(Target, page)
        return
    rows = read_rows(
        queue.server,
        queue.keys,
        page,
        payload=WHOLE if filters.grep is not None else None,
        error=WHOLE if filters.wants_error else None,
    )
    for member, row in zip(page, rows, strict=True):
        if filters.match(row):
            seen = str(row.attempts).encode() if filters.wants_content and isinstance(row.attempts, int) else b""
            yield Target(member, seen)
