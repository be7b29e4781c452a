"""Dead jobs by what they died of, over sets of any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice
from typing import Any, NamedTuple

from emqctl import branded
from emqctl.connection import Server
from emqctl.errors import Denied, EmqError, WrongType
from emqctl.folding import group_of
from emqctl.keyspace import QueueKeys
from emqctl.records import ErrorGroup
from emqctl.rows import SHORT, WHOLE, Row, read_rows
from emqctl.walks import SetWalk
from emqctl.window import MintBounds

GROUPS = 10_000  # kept apart in one run
TEXTS = 32_000_000  # bytes that sample texts longer than SHORT may take together
ROWS = 500  # rows read in one round trip
QUEUES = 100  # dead sets counted in one round trip

#: What is said of dead jobs that no error text tells anything of; they have no group.
KILLED_BY_CHILD = b"(killed by a child)"
NO_TEXT = b"(no error text)"
NO_ROW = b"(no row)"
NO_HASH = b"(a row of another type)"
FURTHER = b"(further errors)"

_LONG_AGO = datetime.min.replace(tzinfo=timezone.utc)


class Failure(NamedTuple):
    """One dead job: the group of its error and the text, or, without a group, what is said instead.

    A text that is not going to be shown is None.
    """

    id: bytes
    group: str | None
    error: bytes | None


class Page(NamedTuple):
    """Some dead jobs of one queue, newest first."""

    queue: str
    failures: Sequence[Failure]


@dataclass
class _Group:
    """The dead jobs of one group, met from the newest to the oldest; the first stands for them."""

    sample: Failure
    count: int = 0
    newest: bytes | None = None
    oldest: bytes | None = None

    def add(self, job_id: bytes) -> None:
        self.count += 1
        if branded.is_branded(job_id):
            self.newest = self.newest or job_id
            self.oldest = job_id


class Failures:
    """What the dead jobs of some queues died of, as far as they were looked at.

    ``total`` is how many there are, known when the first page comes, ``looked_at`` how many of them were
    added. ``further`` counts those of groups beyond the 10,000 that are kept apart; ``untold`` the groups
    whose text takes too much memory to be shown.
    """

    def __init__(self, server: Server, queues: Sequence[QueueKeys], bounds: MintBounds, *, alone: bool) -> None:
        self._server, self._queues, self._bounds, self._alone = server, queues, bounds, alone
        self._groups: dict[tuple[str, str | bytes | None], _Group] = {}
        self._text_bytes = 0
        self.unreadable: dict[str, EmqError] = {}
        self.total = self.looked_at = self.further = self.untold = 0

    def pages(self) -> Iterator[Page]:
        """Read the dead jobs of all queues, page by page; nothing is added by that.

        Raises the reason where the queue asked for ``alone`` cannot be read, or this user is denied all.
        """
        window = self._bounds.window(self._server.now_ms)
        walks = {keys: SetWalk(keys.dead, window, newest_first=True, page=ROWS) for keys in self._queues}
        for keys in self._count(walks):
            for members in walks[keys].pages(self._server):
                yield Page(keys.queue, list(self._read(keys, members)))

    def add(self, page: Page) -> None:
        """Count the jobs of a page."""
        for failure in page.failures:
            self._add(page.queue, failure)
        self.looked_at += len(page.failures)

    def groups(self) -> list[ErrorGroup]:
        """Return the groups found so far, the most frequent first, then the queues that could not be read."""
        found = [_record(queue, group) for (queue, _), group in self._groups.items()]
        found.sort(key=lambda record: (record.queue, record.group or ""))
        found.sort(key=lambda record: (record.count, record.newest or _LONG_AGO), reverse=True)
        return found + [ErrorGroup(queue, None, reason) for queue, reason in sorted(self.unreadable.items())]

    def _count(self, walks: dict[QueueKeys, SetWalk]) -> list[QueueKeys]:
        """Count every dead set; return the queues in which there is something to look at."""
        counted: list[tuple[QueueKeys, Any]] = []
        rest = iter(walks)
        while some := list(islice(rest, QUEUES)):
            counted += zip(some, self._server.try_ask(*(walks[keys].count_command for keys in some)), strict=True)
        unreadable = {keys.queue: count for keys, count in counted if isinstance(count, EmqError)}
        reasons = list(unreadable.values())
        denied = len(reasons) == len(counted) and all(isinstance(reason, Denied) for reason in reasons)
        if reasons and (self._alone or denied):
            raise reasons[0]
        self.unreadable = unreadable
        self.total = sum(count for _, count in counted if not isinstance(count, EmqError))
        return [keys for keys, count in counted if count and not isinstance(count, EmqError)]

    def _read(self, keys: QueueKeys, members: Sequence[bytes]) -> Iterator[Failure]:
        met: set[str] = set()
        silent: list[tuple[bytes, Row]] = []
        for member, row in zip(members, read_rows(self._server, keys, members, error=WHOLE), strict=True):
            if row.error is None:
                silent.append((member, row))
                continue
            group = group_of(row.error)
            is_new = group not in met and (keys.queue, group) not in self._groups
            met.add(group)
            yield Failure(member, group, row.error if is_new else None)
        ghosts = [member for member, row in silent if row.attempts is None]
        exist = self._server.ask(*(("EXISTS", keys.row(member)) for member in ghosts)) if ghosts else []
        rowless = {member for member, exists in zip(ghosts, exist, strict=True) if not exists}
        for member, row in silent:
            yield Failure(member, None, NO_ROW if member in rowless else _why_silent(row))

    def _add(self, queue: str, failure: Failure) -> None:
        known = self._groups.get((queue, failure.group or failure.error))
        if known is None and failure.group and len(self._groups) >= GROUPS:
            self.further += 1
            failure = Failure(failure.id, None, FURTHER)
            known = self._groups.get((queue, FURTHER))
        if known is None:
            known = self._groups[queue, failure.group or failure.error] = _Group(self._within_memory(failure))
        known.add(failure.id)

    def _within_memory(self, failure: Failure) -> Failure:
        if failure.error is None or len(failure.error) <= SHORT:
            return failure
        if self._text_bytes + len(failure.error) > TEXTS:
            self.untold += 1
            return failure._replace(error=None)
        self._text_bytes += len(failure.error)
        return failure


def _why_silent(row: Row) -> bytes:
    if isinstance(row.attempts, WrongType):
        return NO_HASH
    return KILLED_BY_CHILD if row.attempts == 0 else NO_TEXT


def _record(queue: str, group: _Group) -> ErrorGroup:
    return ErrorGroup(
        queue=queue,
        group=group.sample.group,
        count=group.count,
        oldest=branded.minted_at(group.oldest) if group.oldest else None,
        newest=branded.minted_at(group.newest) if group.newest else None,
        sample=group.sample.id,
        error=group.sample.error,
    )
