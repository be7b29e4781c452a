"""The lanes of a queue, however each can be known, and why one is not served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from emqctl import branded
from emqctl.connection import Server
from emqctl.counting import FRONT
from emqctl.errors import BadValue, EmqError
from emqctl.keyspace import decode, place_of
from emqctl.lanes import first_pages, known_lanes
from emqctl.numbers import integer
from emqctl.presence import key_pages
from emqctl.queues import Queue
from emqctl.records import Lane
from emqctl.replies import Command
from emqctl.walks import PAGE

LOOKS = 3  # times a page is looked at while jobs come and go

_OFTEN = {1: "on the ring", 2: "on the ring twice"}


class Reading(NamedTuple):
    """What the keys of a queue say of one lane, of one moment."""

    name: bytes
    depth: int | EmqError
    front: Sequence[bytes] | EmqError
    paused: int
    active: bytes | None
    limit: bytes | None
    weight: bytes | None


class LaneListing:
    """All lanes of a queue by name, read while they are iterated, a thousand of one moment.

    A lane is known when ring, paused, gactive, glimit or gweight name it, when it holds a job, or when a job
    that runs, is scheduled or is dead belongs to it. ``is_paused`` is whether the whole queue is. Raises
    NotFound for a queue not seen, WrongType where a key that would tell cannot.
    """

    def __init__(self, queue: Queue) -> None:
        keys = queue.keys
        asked = (("ZCARD", keys.active), ("HEXISTS", keys.fixed("meta"), "paused"))
        *self._named, active, paused = _checked(queue.look(*first_pages(keys), *asked, counting=False))
        ring, *_ = self._named
        self.is_paused = bool(paused)
        self._queue = queue
        # to a page beyond the end, for what comes meanwhile
        self._ring: list[Command] = [("LRANGE", keys.fixed("ring"), *span) for span in _spans(ring + PAGE)]
        self._active: list[Command] = [("ZRANGE", keys.active, *span) for span in _spans(active + PAGE)]
        self._group_of: dict[bytes, bytes | None] = {}  # of a job in flight; it stays the same while it is
        self._names: set[bytes] = set()

    def find(self) -> Iterator[int]:
        """Find the lanes; yield how many are known, page by page of what is looked at."""
        server, keys = self._queue.server, self._queue.keys
        self._names.update(map(bytes, known_lanes(server, keys, self._named)))
        for page in key_pages(server, keys.lane_pattern):
            self._names.update(name for _, name in map(place_of, page) if name is not None)
            yield len(self._names)
        for key in (keys.active, keys.schedule, keys.dead):
            for members in _members(server, key):
                groups = {group for _, group, _ in self._rows(members) if group is not None}
                self._names.update(filter(branded.is_branded, groups))
                yield len(self._names)

    def __iter__(self) -> Iterator[Lane]:
        names = iter(sorted(self._names))
        while some := list(islice(names, PAGE)):
            yield from self._page(some)

    def _page(self, names: Sequence[bytes]) -> Iterator[Lane]:
        for _ in range(LOOKS):
            ring, flying, readings = self._moment(names)
            gone = self._learn(flying)
            if not gone:
                break
        on_ring, in_flight = Counter(ring), Counter(self._group_of[member] for member in flying)
        return (lane(each, on_ring[each.name], in_flight[each.name], gone) for each in readings)

    def _moment(self, names: Sequence[bytes]) -> tuple[list[bytes], list[bytes], list[Reading]]:
        """Return the ring, the jobs in flight and what is said of some lanes, all of one moment."""
        keys = self._queue.keys
        lanes = [keys.lane_as_named(name) for name in names]
        figures: list[Command] = [("HMGET", keys.fixed(kind), *names) for kind in ("gactive", "glimit", "gweight")]
        asked: list[list[Command]] = [
            *(self._ring, self._active),
            [("ZCARD", lane) for lane in lanes],
            [("ZRANGE", lane, 0, FRONT - 1) for lane in lanes],
            [("SMISMEMBER", keys.fixed("paused"), *names), *figures],
        ]
        replies = iter(self._queue.server.try_ask(*chain(*asked), atomic=True))
        ring, flying, depths, fronts, rest = (list(islice(replies, len(commands))) for commands in asked)
        readings = zip(names, depths, fronts, *_checked(rest), strict=True)
        return list(chain(*_checked(ring))), list(chain(*_checked(flying))), [Reading(*each) for each in readings]

    def _learn(self, members: Iterable[bytes]) -> int:
        """Read the groups of jobs not met before; return how many were gone before that."""
        gone = 0
        for member, group, has_row in self._rows([each for each in members if each not in self._group_of]):
            self._group_of[member] = group
            gone += not has_row
        return gone

    def _rows(self, members: Iterable[bytes]) -> Iterator[tuple[bytes, bytes | None, bool]]:
        """Yield of each job its group, and whether there is a row to tell it."""
        rest = iter(members)
        while some := list(islice(rest, PAGE)):
            asked = (("HMGET", self._queue.keys.row(member), "group", "state") for member in some)
            for member, row in zip(some, self._queue.server.try_ask(*asked), strict=True):
                group, state = (None, None) if isinstance(row, EmqError) else row
                yield member, group, state is not None


def lane(reading: Reading, times_on_ring: int, found: int, gone: int = 0) -> Lane:
    """Return what is said of a lane that the ring holds so often and of which so many jobs were found in flight.

    So many more were ``gone`` before their lane could be read: no counter is called wrong for want of those.
    """
    active = _number("the count in flight", reading.active or b"0")
    true = active if isinstance(active, int) and found < active <= found + gone else found
    limit = None if reading.limit is None else _number("the limit", reading.limit)
    is_readable = not isinstance(reading.depth, EmqError)
    against = list(_against(reading, active, limit))
    front = () if isinstance(reading.front, EmqError) else reading.front
    return Lane(
        lane=decode(reading.name),
        depth=reading.depth,
        active=active,
        max_active=limit,
        weight=None if reading.weight is None else _number("the weight", reading.weight),
        paused=bool(reading.paused),
        on_ring=times_on_ring > 0,
        servable=not against if is_readable else None,
        why=_why(", ".join(against), times_on_ring) if is_readable else None,
        oldest=next((branded.minted_at(member) for member in front if branded.is_branded(member)), None),
        active_true=true,
    )


def _against(reading: Reading, active: int | EmqError, limit: int | EmqError | None) -> Iterator[str]:
    """Yield each reason why a lane does not belong on the ring, as the programs see it."""
    if reading.paused:
        yield "paused"
    if limit is not None:
        if isinstance(limit, EmqError) or isinstance(active, EmqError):
            yield "its limit or its count in flight is no number"
        elif active >= limit:
            yield f"at its limit {active} of {limit}"
    if not reading.depth:
        yield "empty"


def _why(against: str, times_on_ring: int) -> str | None:
    """Say why a lane is not served, or is and should not be, or too often; None where all is well."""
    if not times_on_ring:
        return against or "not on the ring though it could be served"
    often = _OFTEN.get(times_on_ring, f"on the ring {times_on_ring} times")
    if against:
        return f"{often} though {against}"
    return None if times_on_ring == 1 else often


def _number(what: str, raw: bytes) -> int | EmqError:
    number = integer(raw)
    return BadValue(what, decode(raw), "it is no number") if number is None else number


def _members(server: Server, key: bytes) -> Iterator[list[bytes]]:
    """Yield the members of a sorted set in pages, in no order; some may come twice."""
    cursor = 0
    while True:
        [(cursor, page)] = server.ask(("ZSCAN", key, cursor, "COUNT", PAGE))
        yield [member for member, _ in page]
        if not cursor:
            return


def _spans(length: int) -> Iterator[tuple[int, int]]:
    """Yield first and last index of each page of a list so long."""
    yield from ((at, at + PAGE - 1) for at in range(0, length, PAGE))


def _checked(replies: Sequence[Any]) -> Sequence[Any]:
    for reply in replies:
        if isinstance(reply, EmqError):
            raise reply
    return replies
