"""Counting queues: the figures of each of one moment, many queues in a round trip."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from emqctl import branded
from emqctl.branded import BrandedId
from emqctl.connection import Server
from emqctl.errors import BadValue, EmqError
from emqctl.keyspace import QueueKeys, decode
from emqctl.lanes import first_pages, known_lanes
from emqctl.records import QueueState
from emqctl.replies import Command

AT_ONCE = 50  # queues counted in one round trip
MOMENT = 10_000  # commands the server runs without a pause: some 5 ms
_DIGITS = 19  # what a counter of the server can have
FRONT = 8  # members read of a set to find its oldest job, for those in front of it that are no ids
BRAND = 3  # letters of an id before its mint time

STATES = ("active", "lapsed", "scheduled", "overdue", "dead", "completed", "failed")
EVERYTHING = (*STATES, "paused", "oldest")


@dataclass(frozen=True)
class Waiting:
    """Where the waiting jobs of a queue are: its pending set, and these lanes; an error where they are unreadable."""

    keys: QueueKeys
    lanes: Sequence[BrandedId] | EmqError

    @property
    def sets(self) -> list[bytes]:
        """The keys of those sets."""
        return [self.keys.pending, *([] if isinstance(self.lanes, EmqError) else map(self.keys.lane, self.lanes))]


def count(server: Server, waiting: Sequence[Waiting], figures: Sequence[str] = ()) -> Iterator[QueueState]:
    """Yield the state of each queue: what waits, and the ``figures`` of ``EVERYTHING`` that are asked for.

    A queue with more lanes than a moment has room for is counted in several, with a note.
    """
    some: list[_Counting] = []
    for each in (_Counting(queue, figures, server.now_ms() if figures else 0) for queue in waiting):
        if sum(counting.size for counting in some) + each.size > MOMENT:
            yield from _counted(server, some)
            some = []
        some.append(each)
    yield from _counted(server, some)


def overview(
    server: Server, names: Iterable[str], figures: Sequence[str], met: Mapping[str, Iterable[bytes]] | None = None
) -> Iterator[QueueState]:
    """Yield the state of many queues, in order: two round trips for 50 of them.

    ``met`` are lanes of each queue that are counted beside those its own keys name.
    """
    rest = iter(names)
    while some := [QueueKeys(name) for name in islice(rest, AT_ONCE)]:
        pages = [first_pages(keys) for keys in some]
        replies = iter(server.try_ask(*(command for commands in pages for command in commands)))
        waiting = [
            locate(server, keys, list(islice(replies, len(commands))), (met or {}).get(keys.queue, ()))
            for keys, commands in zip(some, pages, strict=True)
        ]
        yield from count(server, waiting, figures)


def locate(server: Server, keys: QueueKeys, pages: Sequence[Any], met: Iterable[bytes] = ()) -> Waiting:
    """Return where jobs wait, from the replies to ``lanes.first_pages`` and lanes that were met otherwise."""
    unreadable = next((reply for reply in pages if isinstance(reply, EmqError)), None)
    if unreadable:
        return Waiting(keys, unreadable)
    known = known_lanes(server, keys, pages)
    named = set(map(bytes, known))
    return Waiting(keys, [*known, *(branded.parse(lane) for lane in sorted(met) if lane not in named)])


class _Counting:
    """One queue being counted: the commands, a moment after the other, and what their replies say."""

    def __init__(self, waiting: Waiting, figures: Sequence[str], now_ms: int) -> None:
        self.waiting = waiting
        self._figures = [figure for figure in figures if figure != "oldest"]
        self._of_set = (_size_of, _front_of) if "oldest" in figures else (_size_of,)
        fixed = [_FIGURES[figure][0](waiting.keys, now_ms) for figure in self._figures]
        of_sets = [command(key) for key in waiting.sets for command in self._of_set]
        self._commands: list[Command] = [*fixed, *of_sets]

    @property
    def size(self) -> int:
        return len(self._commands)

    @property
    def moments(self) -> list[Sequence[Command]]:
        return [self._commands[at : at + MOMENT] for at in range(0, self.size, MOMENT)]

    def state(self, replies: Sequence[Any]) -> QueueState:
        fixed, of_sets = replies[: len(self._figures)], replies[len(self._figures) :]
        found = {figure: _FIGURES[figure][1](reply) for figure, reply in zip(self._figures, fixed, strict=True)}
        step = len(self._of_set)
        pending, *in_lanes = of_sets[::step]
        unreadable = self.waiting.lanes if isinstance(self.waiting.lanes, EmqError) else None
        lanes = unreadable or _total(in_lanes)
        if step > 1:
            found["oldest"] = unreadable or _oldest(of_sets[1::step])
        return QueueState(
            self.waiting.keys.queue, pending=pending, lanes=lanes, waiting=_total([pending, lanes]), **found
        )


def _counted(server: Server, some: Sequence[_Counting]) -> Iterator[QueueState]:
    replies = iter(server.try_ask_each([moment for each in some for moment in each.moments]))
    for each in some:
        moments = list(islice(replies, len(each.moments)))
        if len(moments) > 1:
            lanes = len(each.waiting.sets) - 1
            server.notify(f"queue {each.waiting.keys.queue!r} has {lanes:,} lanes: its figures are not of one moment")
        yield each.state([reply for moment in moments for reply in moment])


def _size_of(key: bytes) -> Command:
    return ("ZCARD", key)


def _front_of(key: bytes) -> Command:
    return ("ZRANGE", key, 0, FRONT - 1)


def _oldest(fronts: Sequence[Any]) -> datetime | EmqError | None:
    """Return the mint time of the oldest job at the front of some sets, or the first error among them."""
    firsts = []
    for front in fronts:
        if isinstance(front, EmqError):
            return front
        firsts += [next((member for member in front if branded.is_branded(member)), None)]
    oldest = min(filter(None, firsts), key=lambda member: member[BRAND:], default=None)
    return None if oldest is None else branded.minted_at(oldest)


def _total(counts: Sequence[int | EmqError]) -> int | EmqError:
    """Return the sum, or the first count that could not be read."""
    total = 0
    for each in counts:
        if isinstance(each, EmqError):
            return each
        total += each
    return total


def _as_is(reply: Any) -> Any:
    return reply


def _number(raw: bytes | EmqError | None) -> int | EmqError:
    if raw is None or isinstance(raw, EmqError):
        return raw or 0
    is_count = raw.isdigit() and len(raw) <= _DIGITS
    return int(raw) if is_count else BadValue("a count", decode(raw), f"it is not up to {_DIGITS} digits")


def _is_there(reply: bytes | EmqError | None) -> bool | EmqError:
    return reply if isinstance(reply, EmqError) else reply is not None


#: How each figure is asked for, given the keys and the time in ms, and what its reply says.
_FIGURES: dict[str, tuple[Callable[[QueueKeys, int], Command], Callable[[Any], Any]]] = {
    "active": (lambda keys, _now: _size_of(keys.active), _as_is),
    "lapsed": (lambda keys, now: ("ZCOUNT", keys.active, "-inf", now), _as_is),
    "scheduled": (lambda keys, _now: _size_of(keys.schedule), _as_is),
    "overdue": (lambda keys, now: ("ZCOUNT", keys.schedule, "-inf", now), _as_is),
    "dead": (lambda keys, _now: _size_of(keys.dead), _as_is),
    "completed": (lambda keys, _now: ("HGET", keys.fixed("metrics:completed"), "count"), _number),
    "failed": (lambda keys, _now: ("HGET", keys.fixed("metrics:failed"), "count"), _number),
    "paused": (lambda keys, _now: ("HGET", keys.fixed("meta"), "paused"), _is_there),
}
