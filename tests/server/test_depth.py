"""Counting a queue in the core: a model over generated queues, and counts that are of one moment."""

from __future__ import annotations

import threading
from typing import Any

import redis
import wire
import worlds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emqctl.branded import BrandedId
from emqctl.connection import Server
from emqctl.demo.server import PrivateServer
from emqctl.keyspace import VERSION_KEY, QueueKeys
from emqctl.queues import Queue

KEYS = QueueKeys("q")
LANES = [BrandedId("TEN", nth) for nth in range(4)]
HOUR = 3_600_000


COUNTS = st.integers(0, 5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    pending=COUNTS,
    lanes=st.lists(
        st.tuples(COUNTS, st.sampled_from(["ring", "paused", "gactive", "glimit", "gweight", None])), max_size=4
    ),
    active=st.tuples(COUNTS, COUNTS),
    scheduled=st.tuples(COUNTS, COUNTS),
    dead=COUNTS,
    completed=st.none() | st.integers(0, 10**15),
    failed=st.none() | st.integers(0, 10**15),
)
def test_every_count_is_what_was_put_there(
    redis_client: redis.Redis,
    ours: Server,
    pending: int,
    lanes: list[tuple[int, str | None]],
    active: tuple[int, int],
    scheduled: tuple[int, int],
    dead: int,
    completed: int | None,
    failed: int | None,
) -> None:
    """Lanes named in none of the five keys are not known, wherever their jobs are."""
    now, ids = ours.now_ms(), iter(range(1000))

    def put(client: Any, key: bytes, count: int, score: float = 0) -> None:
        for _ in range(count):
            client.zadd(key, {str(BrandedId("JOB", next(ids))): score})

    with redis_client.pipeline() as pipeline:
        pipeline.flushdb().set(VERSION_KEY, "echomq:3.0.0").hset(KEYS.fixed("meta"), "max", 1)
        put(pipeline, KEYS.pending, pending)
        put(pipeline, KEYS.dead, dead)
        for key, (past, future) in ((KEYS.active, active), (KEYS.schedule, scheduled)):
            put(pipeline, key, past, now - HOUR)
            put(pipeline, key, future, now + HOUR)
        for lane, (count, named_in) in zip(LANES, lanes, strict=False):
            put(pipeline, KEYS.lane(lane), count)
            if named_in == "ring":
                pipeline.rpush(KEYS.fixed("ring"), str(lane), str(lane))
            elif named_in == "paused":
                pipeline.sadd(KEYS.fixed("paused"), str(lane))
            elif named_in:
                pipeline.hset(KEYS.fixed(named_in), str(lane), 1)
        for name, count in (("completed", completed), ("failed", failed)):
            if count is not None:
                pipeline.hset(KEYS.fixed(f"metrics:{name}"), "count", count)
        pipeline.execute()
    in_lanes = sum(count for count, named_in in lanes if named_in)
    queue = Queue(ours, "q")
    depths = queue.depths()
    assert vars(depths) == {
        "queue": "q",
        "pending": pending,
        "lanes": in_lanes,
        "waiting": pending + in_lanes,
        "active": sum(active),
        "lapsed": active[0],
        "scheduled": sum(scheduled),
        "overdue": scheduled[0],
        "dead": dead,
        "completed": completed or 0,
        "failed": failed or 0,
        "paused": None,
        "oldest": None,
    }
    assert queue.depth().waiting == pending + in_lanes
    assert queue.depth(flat=True).waiting == pending


def test_counts_are_of_one_moment(redis_client: redis.Redis, ours: Server, server: PrivateServer) -> None:
    """While jobs are passed from set to set, none is counted twice and none is missed."""
    jobs = [str(BrandedId("JOB", nth)) for nth in range(20)]
    lane = LANES[0]
    places = [KEYS.pending, KEYS.active, KEYS.schedule, KEYS.dead, KEYS.lane(lane)]
    redis_client.rpush(KEYS.fixed("ring"), str(lane))
    redis_client.zadd(KEYS.pending, dict.fromkeys(jobs, 0))
    stop = threading.Event()

    def turn() -> None:
        step = 0
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            while not stop.is_set():
                here, there = places[step % 5], places[(step + 1) % 5]
                with client.pipeline(transaction=True) as pipeline:
                    for job in jobs:
                        pipeline.zrem(here, job).zadd(there, {job: 0})
                    pipeline.execute()
                step += 1

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        seen = set()
        for _ in range(300):
            found = vars(Queue(ours, "q").depths())
            counts = tuple(found[state] for state in ("pending", "lanes", "active", "scheduled", "dead"))
            assert sum(counts) == len(jobs)
            seen.add(counts)
    finally:
        stop.set()
        thread.join()
    assert len(seen) > 1


def test_a_lapse_is_a_deadline_that_is_not_in_the_future(redis_client: redis.Redis, ours: Server) -> None:
    """As every worker reads it: a score of now has expired."""
    now = worlds.server_ms(redis_client)
    for nth, offset in enumerate((-1000, -1, 60_000)):
        redis_client.zadd(KEYS.active, {str(BrandedId("JOB", nth)): now + offset})
    assert Queue(ours, "q").depths().lapsed == 2


def test_depth_asks_one_zcard_a_set(redis_client: redis.Redis, ours: Server, monitor: wire.Monitor) -> None:
    redis_client.rpush(KEYS.fixed("ring"), *map(str, LANES))
    with monitor() as commands:
        Queue(ours, "q").depth()
    counted = [command[1] for command in commands if command[0] == b"ZCARD"]
    assert counted == [KEYS.pending, *map(KEYS.lane, LANES)]
