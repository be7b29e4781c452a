"""Lanes: counters that tell the truth, and a ring of exactly the lanes that can be served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from emqctl.audit.jobs import number
from emqctl.audit.rules import BROKEN, FIX, NOTE, STUCK, YES, Family, Found, quoted
from emqctl.errors import EmqError
from emqctl.queues import Queue
from emqctl.replies import Command, permitted
from emqctl.walks import PAGE

FAMILY = Family()
LOOKS = 5  # times the jobs in flight are counted while some that were seen are gone before their lane is known
MOST_ACTIVE = 10_000  # jobs in flight that are counted at one moment
MOST_RUNG = 100_000  # lanes on a ring that are read at one moment
NAMES = 500  # lanes asked for in one command; a server may answer with a few more
BATCH = 100  # lanes looked at together


@dataclass(frozen=True)
class Lane:
    """What was read of one lane at one moment.

    ``rung`` is how often it is on the ring. ``flying`` is how many rows in `active` name it, ``unknown`` how
    many more may. None: there are too many to count.
    """

    queue: str
    group: bytes
    depth: int
    paused: bool
    counter: bytes | None
    limit: bytes | None
    rung: int | None
    flying: int | None
    unknown: int

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is."""
        return {"queue": self.queue, "lane": self.group, "place": "lane"}

    @property
    def has_numbers(self) -> bool:
        """Whether its limit and counter are numbers, where it has them."""
        return all(raw is None or number(raw) is not None for raw in (self.counter, self.limit))

    @property
    def is_servable(self) -> bool:
        """Whether it belongs on the ring."""
        most, counted = number(self.limit), number(self.counter) or 0
        return self.depth > 0 and not self.paused and (most is None or counted < most)


@FAMILY.rule(
    BROKEN,
    "H35",
    "its limit is {limit}, no number: a claim takes a job out of the lane and then fails",
    "emqctl tune {queue} {lane} --max-active none",
)
def bad_limit(lane: Lane) -> Found:
    """A limit that is no number."""
    is_bad = lane.limit is not None and number(lane.limit) is None
    return {"limit": quoted(lane.limit or b"")} if is_bad else None


@FAMILY.rule(
    BROKEN,
    "H35",
    "its count in flight is {counter}, no number: a claim takes a job out of the lane and then fails",
    FIX,
)
def bad_counter(lane: Lane) -> Found:
    """A counter that is no number."""
    is_bad = lane.counter is not None and number(lane.counter) is None
    return {"counter": quoted(lane.counter or b"")} if is_bad else None


@FAMILY.rule(
    BROKEN,
    "H3",
    "its counter says {counter} in flight, and {flying} are: with a limit it is held back for ever or runs over it",
    FIX,
)
def gactive_mismatch(lane: Lane) -> Found:
    """A counter that is not how many rows in active name the lane."""
    counter = number(lane.counter or b"0")
    if counter is None or lane.flying is None or lane.flying <= counter <= lane.flying + lane.unknown:
        return None
    return {"counter": counter, "flying": lane.flying, "hazard": "H3" if counter > lane.flying else "H1"}


@FAMILY.rule(NOTE, None, "its counter stands at 0, where EchoMQ would have taken it away", FIX)
def gactive_at_zero(lane: Lane) -> Found:
    """A counter that stays though nothing is in flight."""
    return YES if number(lane.counter) == 0 and lane.flying == 0 else None


@FAMILY.rule(
    STUCK,
    "H16",
    "{depth} wait in it, it could be served and is not on the ring: nobody does until the next one comes",
    "emqctl resume {queue} --lane {lane}",
)
def lane_starved(lane: Lane) -> Found:
    """Nonempty, unpaused, below its limit by the counter, not on the ring."""
    return {"depth": lane.depth} if lane.has_numbers and lane.is_servable and lane.rung == 0 else None


@FAMILY.rule(BROKEN, "H17", "it is on the ring, and is {why}: workers trust the ring and serve it all the same", FIX)
def lane_on_ring_not_serviceable(lane: Lane) -> Found:
    """On the ring while empty, paused or at its limit."""
    if not lane.has_numbers or lane.is_servable or not lane.rung:
        return None
    return {"why": "paused" if lane.paused else "empty" if not lane.depth else "at its limit"}


@FAMILY.rule(BROKEN, "H17", "it is on the ring {rung} times: it gets as many turns as others get one", FIX)
def lane_on_ring_twice(lane: Lane) -> Found:
    """On the ring more than once."""
    return {"rung": lane.rung} if lane.rung is not None and lane.rung > 1 else None


@FAMILY.rule(NOTE, None, "{depth} wait in it, and it is paused", "emqctl resume {queue} --lane {lane}")
def paused_lane_with_backlog(lane: Lane) -> Found:
    """Paused with jobs waiting."""
    return {"depth": lane.depth} if lane.paused and lane.depth else None


def in_queue(queue: Queue, met: Collection[bytes], flying: Counter[bytes]) -> Iterator[Lane]:
    """Yield, as far as looks taken one after another tell, what is known of each lane of a queue.

    ``met`` are lanes that hold jobs, ``flying`` is how many jobs in flight are of which lane; others are
    those that ring, paused, gactive or glimit name.
    """
    [length] = queue.server.try_ask(("LLEN", queue.keys.fixed("ring")))
    ring = _counted(permitted(queue.server.try_ask(*_ring_pages(queue, length)))) if _is_short(length) else None
    groups = sorted({*met, *flying, *(ring or ()), *_named(queue)})
    for some in _batches(groups):
        replies = iter(permitted(queue.server.try_ask(*_asked(queue, some))))
        for group in some:
            yield _lane(queue, group, list(islice(replies, 4)), ring, flying, 0)


def _named(queue: Queue) -> Iterator[bytes]:
    for command, kind in (("SSCAN", "paused"), ("HSCAN", "gactive"), ("HSCAN", "glimit")):
        cursor = 0
        while True:
            [page] = permitted(queue.server.try_ask((command, queue.keys.fixed(kind), cursor, "COUNT", NAMES)))
            cursor, names = (0, ()) if isinstance(page, EmqError) else page
            yield from names
            if not cursor:
                break


def closely(queue: Queue, groups: Sequence[bytes]) -> Iterator[Lane]:
    """Yield what is known of some lanes, their ring and the jobs in flight, a hundred of one moment."""
    lane_of: dict[bytes, bytes | None] = {}  # of a job in flight: it stays the same while it is
    for some in _batches(groups):
        yield from _closely(queue, some, lane_of)


def _closely(queue: Queue, groups: Sequence[bytes], lane_of: dict[bytes, bytes | None]) -> list[Lane]:
    server = queue.server
    lanes: list[Lane] = []
    for _ in range(LOOKS):
        length, active = server.try_ask(("LLEN", queue.keys.fixed("ring")), ("ZCARD", queue.keys.active))
        ring_pages = _ring_pages(queue, length) if _is_short(length) else []
        active_pages = _active_pages(queue, active) if _is_few(active) else []
        for member in _learn(queue, _flat(server.try_ask(*active_pages)) if active_pages else [], lane_of):
            lane_of[member] = None  # no row, and if it is still in flight below there never was one
        replies = iter(permitted(server.try_ask(*ring_pages, *active_pages, *_asked(queue, groups), atomic=True)))
        ring = _counted(list(islice(replies, len(ring_pages)))) if ring_pages else None
        in_flight = _flat(list(islice(replies, len(active_pages))))
        unknown = len(_learn(queue, in_flight, lane_of))
        flying = Counter(map(lane_of.get, in_flight)) if active_pages else None
        lanes = [_lane(queue, group, list(islice(replies, 4)), ring, flying, unknown) for group in groups]
        if not unknown:
            break
    return lanes


def _learn(queue: Queue, members: Sequence[bytes], lane_of: dict[bytes, bytes | None]) -> list[bytes]:
    """Read the lanes of jobs not met before; return those that have no row to tell it."""
    unmet = [member for member in members if member not in lane_of]
    without: list[bytes] = []
    for at in range(0, len(unmet), PAGE):
        some = unmet[at : at + PAGE]
        asked = [("HMGET", queue.keys.row(member), "group", "attempts") for member in some]
        for member, row in zip(some, permitted(queue.server.try_ask(*asked)), strict=True):
            if row == [None, None]:
                without.append(member)
            else:
                lane_of[member] = None if isinstance(row, EmqError) else row[0]
    return without


def _asked(queue: Queue, groups: Sequence[bytes]) -> list[Command]:
    keys = queue.keys
    return [
        command
        for group in groups
        for command in (
            ("ZCARD", keys.lane_as_named(group)),
            ("SISMEMBER", keys.fixed("paused"), group),
            ("HGET", keys.fixed("gactive"), group),
            ("HGET", keys.fixed("glimit"), group),
        )
    ]


def _lane(
    queue: Queue,
    group: bytes,
    replies: Sequence[Any],
    ring: Counter[bytes] | None,
    flying: Counter[Any] | None,
    unknown: int,
) -> Lane:
    depth, paused, counter, limit = (None if isinstance(reply, EmqError) else reply for reply in replies)
    rung = None if ring is None else ring[group]
    in_flight = None if flying is None else flying[group]
    return Lane(queue.name, group, depth or 0, paused == 1, counter, limit, rung, in_flight, unknown)


def _is_short(length: Any) -> bool:
    return isinstance(length, int) and length <= MOST_RUNG


def _is_few(active: Any) -> bool:
    return isinstance(active, int) and active <= MOST_ACTIVE


def _ring_pages(queue: Queue, length: int) -> list[Command]:
    return [("LRANGE", queue.keys.fixed("ring"), at, at + PAGE - 1) for at in _starts(length)]


def _active_pages(queue: Queue, length: int) -> list[Command]:
    return [("ZRANGE", queue.keys.active, at, at + PAGE - 1) for at in _starts(length)]


def _starts(length: int) -> range:
    """Return where whole pages begin, up to one beyond the end, where members may have come meanwhile."""
    return range(0, length + PAGE, PAGE)


def _flat(pages: Sequence[Any]) -> list[bytes]:
    return [member for page in pages if not isinstance(page, EmqError) for member in page]


def _counted(pages: Sequence[Any]) -> Counter[bytes]:
    return Counter(_flat(pages))


def _batches(groups: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (groups[at : at + BATCH] for at in range(0, len(groups), BATCH))
