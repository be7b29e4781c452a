"""Choosing jobs of a set: in pages, oldest first, to the newest there was; what was seen of each goes along."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import conservation
import pytest
import redis
import wire
import worlds

from emqctl import branded
from emqctl.branded import BrandedId
from emqctl.demo.server import PrivateServer
from emqctl.errors import WrongType
from emqctl.folding import group_of
from emqctl.keyspace import QueueKeys
from emqctl.queues import Queue
from emqctl.selection import ROWS, Filters, Survey, Target, survey, walk
from emqctl.times import Instant
from emqctl.window import MintBounds

KEYS = QueueKeys("jobs")
LANE = "TEN0IlTdEM44g4"


def job(ms: int, sequence: int = 0) -> bytes:
    return bytes(BrandedId("JOB", ms << 22 | sequence))


@pytest.fixture
def queue(server: PrivateServer, redis_client: redis.Redis) -> Iterator[Queue]:
    """The queue `jobs`, empty."""
    with conservation.opened(server.url) as queue:
        yield queue


def put(client: redis.Redis, *names: bytes, **fields: Any) -> None:
    row = {"state": "dead", "attempts": 1, "payload": "{}", **fields}
    worlds.send(client, [(b"HSET", KEYS.row(name), *chain(*row.items())) for name in names])
    worlds.send(client, [(b"ZADD", KEYS.dead, 0, name) for name in names])


def chosen(queue: Queue, limit: int = 0, **filters: Any) -> list[bytes]:
    return [target.id for page in walk(queue, KEYS.dead, Filters(**filters), limit) for target in page]


# Pages


@pytest.mark.parametrize("count", [0, 1, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS, 2 * ROWS + 3])
def test_every_member_is_met_once_in_mint_order(redis_client: redis.Redis, queue: Queue, count: int) -> None:
    names = [job(nth) for nth in range(1, count + 1)]
    put(redis_client, *names[::-1])
    pages = list(walk(queue, KEYS.dead, Filters()))
    assert [target.id for page in pages for target in page] == names
    assert all(len(page) <= ROWS for page in pages)


@pytest.mark.parametrize("limit", [1, ROWS - 1, ROWS, ROWS + 1, 5000])
@pytest.mark.parametrize("by_row", [False, True])
def test_a_limit_takes_the_oldest(
    redis_client: redis.Redis,
    queue: Queue,
    limit: int,
    by_row: bool,  # noqa: FBT001
) -> None:
    names = [job(nth) for nth in range(1, 1201)]
    put(redis_client, *names)
    put(redis_client, *names[::3], group=LANE)
    expected = [name for nth, name in enumerate(names) if nth % 3 or not by_row]
    assert chosen(queue, limit, flat=by_row) == expected[:limit]


def test_a_limit_reads_no_page_more_than_it_needs(
    redis_client: redis.Redis, queue: Queue, monitor: wire.Monitor
) -> None:
    put(redis_client, *(job(nth) for nth in range(1, 3 * ROWS)))
    with monitor() as commands:
        chosen(queue, ROWS)
    assert sum(command[0] == b"ZRANGE" for command in commands) == 2  # the newest, then one page


def test_pages_in_which_nothing_is_meant_are_empty_and_there(redis_client: redis.Redis, queue: Queue) -> None:
    """Each is a moment at which a run can be ended."""
    put(redis_client, *(job(nth) for nth in range(1, 2 * ROWS + 1)))
    assert [len(page) for page in walk(queue, KEYS.dead, Filters(flat=False, error=b"x"))] == [0, 0, 0]


def test_no_command_asks_for_more_than_a_page_and_none_for_an_offset(
    redis_client: redis.Redis, queue: Queue, monitor: wire.Monitor
) -> None:
    put(redis_client, *(job(nth) for nth in range(1, 2 * ROWS + 1)), last_error="x", group=LANE)
    with monitor() as commands:
        chosen(queue, error=b"x", grep=b"{", lane=branded.parse(LANE))
    ranges = [command for command in commands if command[0] == b"ZRANGE"]
    assert {tuple(words[words.index(b"LIMIT") + 1 :]) for words in ranges} == {(b"0", b"1"), (b"0", b"%d" % ROWS)}
    assert {command[0] for command in commands} <= {b"GET", b"TIME", b"ZRANGE", b"HMGET", b"HSTRLEN", b"HGET"}


def test_what_comes_in_younger_than_all_is_not_chased(redis_client: redis.Redis, queue: Queue) -> None:
    names = [job(nth) for nth in range(1, ROWS + 2)]
    put(redis_client, *names)
    pages = walk(queue, KEYS.dead, Filters())
    met = [target.id for target in next(pages)]
    put(redis_client, job(10_000))  # younger than all
    put(redis_client, job(1, 1))  # behind the cursor
    put(redis_client, job(ROWS, 1))  # before it, and no younger than the newest
    met += [target.id for page in pages for target in page]
    assert met == [*names[:-1], job(ROWS, 1), names[-1]]


def test_the_newest_may_leave_and_the_walk_still_ends(redis_client: redis.Redis, queue: Queue) -> None:
    names = [job(nth) for nth in range(1, ROWS + 2)]
    put(redis_client, *names)
    pages = walk(queue, KEYS.dead, Filters())
    next(pages)
    redis_client.zrem(KEYS.dead, names[-1])
    put(redis_client, job(10_000))
    assert list(pages) == [[]]


def test_bounds_are_looked_up_by_id_and_other_members_stay_out(redis_client: redis.Redis, queue: Queue) -> None:
    names = [job(nth) for nth in range(1, 9)]
    put(redis_client, *names, b"", b"AAA", b"not-an-id", b"\xff")
    since, until = (Instant(branded.EPOCH_MS + ms) for ms in (3, 6))
    assert chosen(queue, bounds=MintBounds(since=since)) == names[2:]
    assert chosen(queue, bounds=MintBounds(until=until)) == names[:5]
    bounds = MintBounds(since, until, branded.parse(names[2]), branded.parse(names[4]))
    assert chosen(queue, bounds=bounds) == [names[3]]
    assert chosen(queue) == [b"", b"AAA", *names, b"not-an-id", b"\xff"]


def test_a_time_before_now_counts_from_the_servers_clock(redis_client: redis.Redis, queue: Queue) -> None:
    """One job minted 59 minutes ago and one 61: an hour takes one."""
    now_ms = worlds.server_ms(redis_client) - branded.EPOCH_MS
    young, old = job(now_ms - 59 * 60_000), job(now_ms - 61 * 60_000)
    put(redis_client, young, old)
    assert chosen(queue, bounds=MintBounds(since=Instant(None, 3_600_000))) == [young]
    assert chosen(queue, bounds=MintBounds(until=Instant(None, 3_600_000))) == [old]


def test_a_set_of_another_type_is_said(redis_client: redis.Redis, queue: Queue) -> None:
    redis_client.set(KEYS.dead, "x")
    with pytest.raises(WrongType):
        chosen(queue)


# What was seen


def targets(queue: Queue, **filters: Any) -> list[Target]:
    return [target for page in walk(queue, KEYS.dead, Filters(**filters)) for target in page]


@pytest.mark.parametrize(
    "filters",
    [
        {"error": b"x"},
        {"error_re": re.compile(b"x")},
        {"error_group": group_of(b"x 7")},
        {"grep": b"{"},
        {"attempts_min": 1},
        {"attempts_min": 0},
    ],
    ids=str,
)
def test_a_choice_by_content_binds_the_attempts_it_saw(
    redis_client: redis.Redis, queue: Queue, filters: dict[str, Any]
) -> None:
    put(redis_client, job(1), last_error="x 1", attempts=7)
    assert [target[:2] for target in targets(queue, **filters)] == [(job(1), b"7")]


@pytest.mark.parametrize("filters", [{}, {"flat": True}, {"bounds": MintBounds(after=branded.parse(job(0)))}], ids=str)
def test_a_choice_by_anything_else_binds_nothing(
    redis_client: redis.Redis, queue: Queue, filters: dict[str, Any]
) -> None:
    put(redis_client, job(1), attempts=7)
    assert [target[:2] for target in targets(queue, **filters)] == [(job(1), b"")]


def test_a_row_without_attempts_is_bound_to_having_none(redis_client: redis.Redis, queue: Queue) -> None:
    """Else one that was requeued, claimed for the first time, and died of something else would be taken."""
    put(redis_client, job(1), last_error="x")
    redis_client.hdel(KEYS.row(job(1)), "attempts")
    [target] = targets(queue, error=b"x")
    assert target.seen == b"0"


# Filters


def test_texts_are_compared_as_bytes(redis_client: redis.Redis, queue: Queue) -> None:
    put(redis_client, job(1), last_error=b"\xff\x00boom", payload=b"\x83h\x02")
    put(redis_client, job(2), last_error="Verbindung weg: über".encode(), payload="ü")
    put(redis_client, job(3), last_error="", payload="")
    assert chosen(queue, error=b"\xff\x00b") == [job(1)]
    assert chosen(queue, error="über".encode()) == [job(2)]
    assert chosen(queue, grep=b"\x83") == [job(1)]
    assert chosen(queue, error_re=re.compile(b"^$")) == [job(3)]
    assert chosen(queue, error=b"", grep=b"") == [job(1), job(2), job(3)]


def test_whole_texts_are_looked_through_however_long(redis_client: redis.Redis, queue: Queue) -> None:
    put(redis_client, job(1), last_error="e" * 3_000_000 + "needle", payload="p" * 9_000_000 + "needle")
    put(redis_client, job(2), last_error="e" * 3_000_000, payload="p" * 9_000_000)
    put(redis_client, job(3), last_error="needle", payload="needle")
    assert chosen(queue, error=b"needle", grep=b"needle") == [job(1), job(3)]


def test_texts_are_fetched_only_where_they_are_asked_about(
    redis_client: redis.Redis, queue: Queue, monitor: wire.Monitor
) -> None:
    put(redis_client, job(1), last_error="x")
    for filters, fields in (
        ({}, set()),
        ({"flat": True}, set()),
        ({"attempts_min": 1}, set()),
        ({"error": b"x"}, {b"last_error"}),
        ({"grep": b"{"}, {b"payload"}),
    ):
        with monitor() as commands:
            assert chosen(queue, **filters) == [job(1)]
        assert {command[2] for command in commands if command[0] == b"HGET"} == fields
        assert (b"HMGET" in {command[0] for command in commands}) == bool(filters)


def test_a_job_without_what_is_asked_about_is_not_meant(redis_client: redis.Redis, queue: Queue) -> None:
    put(redis_client, job(1))  # no error
    redis_client.zadd(KEYS.dead, {job(2): 0})  # no row
    redis_client.zadd(KEYS.dead, {job(3): 0})
    redis_client.set(KEYS.row(job(3)), "no hash")
    put(redis_client, job(4), attempts="many", last_error="x")
    for filters in ({"error": b""}, {"error_re": re.compile(b"")}, {"error_group": group_of(b"")}):
        assert set(chosen(queue, **filters)) <= {job(4)}
    assert chosen(queue, grep=b"") == [job(1), job(4)]
    assert chosen(queue, attempts_min=0) == [job(1)]
    assert chosen(queue, lane=branded.parse(LANE)) == []


@pytest.mark.parametrize("attempts", ["٣", "9" * 5000, "-1", ""])
def test_attempts_that_are_no_count_do_not_stop_a_walk(redis_client: redis.Redis, queue: Queue, attempts: str) -> None:
    put(redis_client, job(1), attempts=attempts)
    put(redis_client, job(2), attempts=2)
    assert chosen(queue, attempts_min=2)[-1] == job(2)


# Counting


def test_a_survey_says_how_many_the_first_three_and_how_many_are_spent(redis_client: redis.Redis, queue: Queue) -> None:
    names = [job(nth) for nth in range(1, ROWS + 6)]
    put(redis_client, *names, attempts=2)
    put(redis_client, *names[:4], names[-1], attempts=3)
    put(redis_client, names[5], attempts="many")
    shown = [name.decode() for name in names[:3]]
    pages = walk(queue, KEYS.dead, Filters())
    assert list(survey(queue, pages, 3)) == [Survey(ROWS, shown, 4), Survey(ROWS + 5, shown, 5)]


def test_a_survey_of_nothing_is_empty(queue: Queue) -> None:
    assert list(survey(queue, walk(queue, KEYS.dead, Filters()), 3)) == []
