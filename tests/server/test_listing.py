"""Listing in the core: read no more than is iterated, in order, whatever changes meanwhile."""

from __future__ import annotations

from itertools import islice

import pytest
import redis
import wire

from emqctl.branded import BrandedId
from emqctl.connection import Server
from emqctl.errors import NotFound, WrongType
from emqctl.keyspace import QueueKeys
from emqctl.listing import ROWS, STATES, Request, browse
from emqctl.queues import Queue
from emqctl.selection import Filters
from emqctl.walks import PAGE

KEYS = QueueKeys("q")
LANE = BrandedId("TEN", 7)
SET_OF = {"pending": KEYS.pending, "active": KEYS.active, "scheduled": KEYS.schedule, "dead": KEYS.dead}


@pytest.fixture
def queue(ours: Server) -> Queue:
    """The queue `q`."""
    return Queue(ours, "q")


def job(nth: int) -> bytes:
    return bytes(BrandedId("JOB", nth << 22))


def put(
    client: redis.Redis, count: int, *, state: str = "pending", key: bytes | None = None, rows: bool = True
) -> None:
    """Put jobs 0, 1, 2 … into a set, scored by their number."""
    with client.pipeline(transaction=False) as pipeline:
        for nth in range(count):
            pipeline.zadd(key or SET_OF[state], {job(nth): nth if state in {"active", "scheduled"} else 0})
            if rows:
                pipeline.hset(KEYS.row(job(nth)), mapping={"attempts": nth, "payload": f"p{nth}"})
        pipeline.execute()


@pytest.mark.parametrize("state", STATES)
def test_a_listing_reads_rows_as_it_is_iterated(
    redis_client: redis.Redis, queue: Queue, monitor: wire.Monitor, state: str
) -> None:
    """Whoever stops after ten of three thousand has read one batch of rows."""
    put(redis_client, 3000, state=state)
    with monitor() as commands:
        ten = list(islice(browse(queue, Request(state=state, limit=0)), 10))
    assert len(ten) == 10
    assert sum(command[0] == b"HMGET" for command in commands) == ROWS


def test_a_listing_knows_afterwards_what_it_showed(redis_client: redis.Redis, queue: Queue) -> None:
    put(redis_client, 30)
    listing = browse(queue, Request(limit=20))
    assert (listing.total, listing.shown, listing.last) == (30, 0, None)
    listed = list(listing)
    assert (listing.shown, listing.last, listing.more, listing.rowless) == (20, listed[-1].id, True, 0)
    whole = browse(queue, Request(limit=30))
    assert len(list(whole)) == 30
    assert not whole.more
    assert not browse(queue, Request(limit=0)).more


def test_a_listing_by_rows_finds_out_whether_there_are_more(redis_client: redis.Redis, queue: Queue) -> None:
    put(redis_client, 10, state="dead")
    for nth in (2, 5, 7):
        redis_client.hset(KEYS.row(job(nth)), "group", str(LANE))
    for limit, more in ((1, True), (2, True), (3, False), (4, False), (0, False)):
        listing = browse(queue, Request(state="dead", limit=limit, filters=Filters(lane=LANE)))
        listed = [each.id for each in listing]
        assert listed == [job(7), job(5), job(2)][: limit or None]
        assert listing.total is None
        assert listing.more == more


def test_rows_that_go_meanwhile_are_listed_without(redis_client: redis.Redis, queue: Queue) -> None:
    put(redis_client, ROWS + 10)
    listing = browse(queue, Request(limit=0))
    found = iter(listing)
    next(found)
    redis_client.flushdb()
    rest = list(found)
    assert len(rest) == ROWS + 9
    assert listing.rowless == 10
    assert rest[-1].payload is None


def test_members_that_go_meanwhile_end_a_walk_early(redis_client: redis.Redis, queue: Queue) -> None:
    put(redis_client, 2 * PAGE + 10, rows=False)
    found = iter(browse(queue, Request(limit=0)))
    next(found)
    redis_client.delete(KEYS.pending)
    assert len(list(found)) < 2 * PAGE


def test_an_id_in_the_pending_set_and_a_lane_is_shown_in_both(redis_client: redis.Redis, queue: Queue) -> None:
    """A damaged queue: neither place is hidden."""
    put(redis_client, 2)
    put(redis_client, 1, key=KEYS.lane(LANE))
    redis_client.rpush(KEYS.fixed("ring"), str(LANE))
    listing = browse(queue, Request())
    assert sorted((each.id, each.lane or b"") for each in listing) == [
        (job(0), b""),
        (job(0), bytes(LANE)),
        (job(1), b""),
    ]
    assert listing.total == 3


def test_a_lane_that_is_named_and_not_known_is_read_all_the_same(redis_client: redis.Redis, queue: Queue) -> None:
    put(redis_client, 3, key=KEYS.lane(LANE))
    redis_client.hset(KEYS.fixed("meta"), "max", 1)
    assert len(list(browse(queue, Request(filters=Filters(lane=LANE))))) == 3
    assert list(browse(queue, Request())) == []


def test_whole_payloads_are_read_in_replies_of_some_megabytes(
    redis_client: redis.Redis, ours: Server, queue: Queue
) -> None:
    for nth in range(20):
        redis_client.zadd(KEYS.pending, {job(nth): 0})
        redis_client.hset(KEYS.row(job(nth)), mapping={"attempts": 0, "payload": b"x" * 2_000_000})
    listed = [each.payload for each in browse(queue, Request(payload=True))]
    assert listed == [b"x" * 2_000_000] * 20
    assert ours.round_trips == 2 + 5


@pytest.mark.parametrize("state", STATES)
def test_a_set_of_another_type_is_named(redis_client: redis.Redis, queue: Queue, state: str) -> None:
    redis_client.set(SET_OF[state], "x")
    for request in (Request(state=state), Request(state=state, limit=0)):
        with pytest.raises(WrongType, match="is a string, not a zset"):
            list(browse(queue, request))


def test_a_queue_that_is_not_there_is_said_before_anything_is_listed(queue: Queue) -> None:
    with pytest.raises(NotFound, match="no queue 'q'"):
        browse(queue, Request())


def test_hundreds_of_thousands_of_jobs_show_their_first_page_at_once(
    redis_client: redis.Redis, ours: Server, queue: Queue
) -> None:
    """Three round trips, whatever the size of the set; nothing is counted by reading it."""
    redis_client.eval(
        "for nth = 1, 200000 do redis.call('ZADD', KEYS[1], 0, string.format('JOB%011d', nth)) end", 1, KEYS.pending
    )
    listing = browse(queue, Request())
    assert [each.id for each in listing][:2] == [b"JOB00000200000", b"JOB00000199999"]
    assert listing.total == 200_000
    assert ours.round_trips <= 3
