"""Deleting a whole queue in bounded steps, each of which leaves it paused and sound, and may be the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from emqctl.changes import BATCH, Outcome, flags
from emqctl.keyspace import FIXED, QueueKeys, decode, encode, parse, place_of
from emqctl.lanes import first_pages, named_groups
from emqctl.presence import key_pages
from emqctl.queues import Queue
from emqctl.replies import Command, NeedsProbe
from emqctl.scripts import program
from emqctl.stock import job_rows

ROUNDS = 20  # after which whoever keeps writing has won
LANES = 25  # emptied in one call, which looks through the whole ring for each

#: Keys that go with the last of what they hold, and are never deleted as a whole.
_EMPTIED = {
    *("pending", "active", "schedule", "dead", "repeat"),
    *("ring", "paused", "gactive", "glimit", "gweight", "meta"),
}
_NO_KEYS = {"meta", "events"}  # the pause, which goes last, and a channel

Begin = Callable[[Sequence[bytes]], None]


class _InFlight(Exception):
    """Jobs are in flight, and are not to be deleted."""


def obliterate(queue: Queue, begin: Begin, *, force: bool = False) -> Iterator[list[Outcome]]:
    """Pause a queue and delete every key of it; yield the deleted jobs after each step.

    Without ``force`` nothing is deleted while a job is in flight. ``begin`` is called before each step, with
    the ids it is for where they are known. What was not done comes last, with no id: ``active`` where a job
    is in flight, ``written-meanwhile`` where keys kept coming; the queue stays paused then, as after any error.
    """
    run = _Run(queue, begin, force=force)
    try:
        yield run.pause()
        for rounds_left in reversed(range(ROUNDS)):
            yield from run.round()
            if run.end():
                yield []
                return
            yield [] if rounds_left else [Outcome(None, "skipped", "written-meanwhile")]
    except _InFlight:
        yield [Outcome(None, "skipped", "active")]


def preview(queue: Queue) -> Iterator[list[Outcome]]:
    """Yield every job that has a row, as what would be deleted."""
    for page in key_pages(queue.server, queue.keys.scan_pattern):
        yield [Outcome(each, "would-remove") for each in job_rows(map(parse, page))]


class _Run:
    def __init__(self, queue: Queue, begin: Begin, *, force: bool) -> None:
        self._queue, self._begin, self._force = queue, begin, force
        self._flags = flags(f=force)

    def pause(self) -> list[Outcome]:
        if self._call("obliterate_begin") and not self._force:
            raise _InFlight
        return []

    def round(self) -> Iterator[list[Outcome]]:
        """Empty every set, repeats first since they make jobs, then delete what no set speaks for."""
        for place in ("repeat", "schedule", "pending"):
            yield from self._empty(place)
        for groups in _batches(self._lanes(), LANES):
            yield from self._empty("lane", groups)
        for place in ("dead", "active"):
            yield from self._empty(place)
        yield from self._sweep()

    def end(self) -> bool:
        """Take the pause away if nothing else is left; tell whether that is so."""
        keys = self._queue.keys
        return bool(self._call("obliterate_end", *(keys.fixed(kind) for kind in FIXED if kind not in _NO_KEYS)))

    def _empty(self, place: str, groups: Sequence[bytes] = ()) -> Iterator[list[Outcome]]:
        """Take out as many members as there are; those that come in meanwhile are left to the next round."""
        left, batches = 1, None
        while left and batches != 0:
            left, *deleted = self._step("obliterate_members", place, groups)
            batches = -(-left // BATCH) if batches is None else batches - 1
            pairs = zip(deleted[::2], deleted[1::2], strict=True)
            yield [Outcome(each, "removed", None, place, "none", decode(group) or None) for each, group in pairs]

    def _lanes(self) -> Iterator[bytes]:
        """Yield whatever is named as a lane, and every lane that holds a job."""
        server, keys = self._queue.server, self._queue.keys
        named = named_groups(server, keys, server.ask(*first_pages(keys)))
        holding = (place_of(key)[1] for page in key_pages(server, keys.lane_pattern) for key in page)
        return iter(sorted({*named, *filter(None, holding)}))

    def _sweep(self) -> Iterator[list[Outcome]]:
        keys = self._queue.keys
        for page in key_pages(self._queue.server, keys.scan_pattern):
            names = [parse(key) for key in page]
            rest = {
                "job": {encode(str(name.id)) for name in names if name.type == "job"},
                "repeat": {encode(name.id) for name in names if name.type == "repeat" and name.id is not None},
                "key": {name.key for name in names if name.type not in {"job", "lane", *_EMPTIED}},
            }
            for what, words in rest.items():
                for some in _batches(sorted(words)):
                    _, *deleted = self._step("obliterate_rest", what, some, ids=some if what == "job" else ())
                    yield [Outcome(each, "removed", None, "none", "none") for each in deleted]

    def _step(self, name: str, what: str, words: Sequence[bytes], ids: Sequence[bytes] = ()) -> list[Any]:
        answer: list[Any] = self._call(name, what, *words, ids=ids)
        if answer[0] < 0:
            raise _InFlight
        return answer

    def _call(self, name: str, *words: bytes | str, ids: Sequence[bytes] = ()) -> Any:
        server, keys = self._queue.server, self._queue.keys
        declared = (keys.prefix, keys.fixed("meta"))
        self._begin(ids)
        try:
            return server.run(program(name), declared, (self._flags, *words))
        except NeedsProbe:
            server.may_run(_commands(keys))
            self._flags += "p"
            return server.run(program(name), declared, (self._flags, *words))


def _commands(keys: QueueKeys) -> list[Command]:
    """Return commands of the kinds the programs send, to look and to delete."""
    row, (ring, wake, paused, meta) = keys.row(b"x"), map(keys.fixed, ("ring", "wake", "paused", "meta"))
    hashes = [keys.fixed(kind) for kind in ("gactive", "glimit", "gweight")]
    sets = (keys.pending, keys.active, keys.schedule, keys.dead, keys.fixed("repeat"))
    return [
        *((name, key) for name in ("TYPE", "EXISTS", "UNLINK") for key in (row, *keys.seen_by)),
        *((name, key, "x") for name in ("ZREM", "ZSCORE", "ZMSCORE") for key in sets),
        *(("ZCARD", key) for key in sets),
        *(("ZRANGE", key, 0, 0) for key in sets),
        *((name, key, "x") for name in ("HDEL", "HGET") for key in hashes),
        *(("HINCRBY", hashes[0], "x", 1), ("HSETNX", meta, "paused", "1")),
        *(("GET", row), ("HMGET", row, "state"), ("HEXISTS", row, "payload")),
        *(("SREM", paused, "x"), ("SISMEMBER", paused, "x")),
        *(("RPUSH", ring, "x"), ("LREM", ring, 0, "x"), ("LLEN", ring), ("LRANGE", ring, 0, 1)),
        *(("LPUSH", wake, "1"), ("LTRIM", wake, 0, 63)),
    ]


def _batches(words: Iterable[bytes], size: int = BATCH) -> Iterator[list[bytes]]:
    rest = iter(words)
    while some := list(islice(rest, size)):
        yield some
