"""The listing of lanes in the core: which there are, what is said of each, and that reading is all it does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from threading import Event, Thread
from typing import Any

import pytest
import redis
import servers
import wire
import worlds
from conservation import job_id, lane_name, opened

from emqctl.branded import BrandedId
from emqctl.config import Settings
from emqctl.connection import connect
from emqctl.demo.server import PrivateServer
from emqctl.demo.worker import Transitions
from emqctl.endpoint import parse_url
from emqctl.errors import BadValue, NotFound, WrongType
from emqctl.keyspace import VERSION_KEY, QueueKeys
from emqctl.lane_listing import LaneListing, Reading, lane
from emqctl.queues import Queue
from emqctl.records import Lane

KEYS = QueueKeys("jobs")
RING, PAUSED, GACTIVE, GLIMIT, GWEIGHT = map(KEYS.fixed, ("ring", "paused", "gactive", "glimit", "gweight"))
A, B = lane_name(0), lane_name(1)
JOB, OTHER = job_id(0), job_id(1)
WORLD = worlds._recorded("world_ids.json")["queues"]
READS = {
    *("GET", "TIME", "EXISTS", "SCAN", "LLEN", "LRANGE", "SSCAN", "HSCAN", "ZSCAN", "ZCARD", "ZRANGE"),
    *("HEXISTS", "HMGET", "SMISMEMBER", "MULTI", "EXEC"),
}


def lanes(url: str, queue: str = "jobs") -> list[Lane]:
    """List the lanes of a queue."""
    with opened(url, queue) as target:
        listing = LaneListing(target)
        for _ in listing.find():
            pass
        return list(listing)


def in_lane(client: redis.Redis, group: bytes, *jobs: bytes) -> None:
    """Let jobs wait in a lane that nothing names."""
    for job in jobs:
        client.hset(KEYS.row(job), mapping={"state": "pending", "attempts": 0, "payload": "{}", "group": group})
        client.zadd(KEYS.lane_as_named(group), {job: 0})


@pytest.mark.parametrize("queue", [queue for queue in WORLD if queue != "wrongtype"])
def test_the_lanes_of_the_recorded_world_are_those_it_is_known_to_have(
    server: PrivateServer, world: worlds.World, redis_client: redis.Redis, queue: str
) -> None:
    ring = redis_client.lrange(QueueKeys(queue).fixed("ring"), 0, -1)
    found = {
        each.lane: {
            "depth": each.depth,
            "paused": each.paused,
            "limit": each.max_active,
            "gactive": each.active,
            "weight": each.weight,
            "on_ring": ring.count(each.lane.encode()),
            "active": each.active_true,
        }
        for each in lanes(server.url, queue)
    }
    known = world.queues[queue].get("lanes", {})
    assert found == {name: {word: known[name][word] for word in found[name]} for name in known}
    assert all(each.on_ring == bool(found[each.lane]["on_ring"]) for each in lanes(server.url, queue))


@pytest.mark.parametrize("queue", ["emails", "broken", "frozen", "broken-meta"])
def test_what_the_audit_of_the_world_says_of_a_lane_stands_beside_it(
    server: PrivateServer, world: worlds.World, queue: str
) -> None:
    audit = world.raw["audit"].get(queue, {})
    listed = lanes(server.url, queue)
    assert [each.lane for each in listed if each.servable and not each.on_ring] == audit.get("lane_starved", [])
    wrongly = audit.get("lane_on_ring_not_serviceable", [])
    assert [each.lane for each in listed if each.on_ring and not each.servable] == wrongly
    differing = {each.lane: [each.active, each.active_true] for each in listed if each.active != each.active_true}
    assert differing == audit.get("gactive_mismatch", {})


@pytest.mark.parametrize(
    "commands",
    [
        [("RPUSH", RING, A)],
        [("SADD", PAUSED, A)],
        [("HSET", GACTIVE, A, 1)],
        [("HSET", GLIMIT, A, 1)],
        [("HSET", GWEIGHT, A, 1)],
        [("ZADD", KEYS.lane_as_named(A), 0, JOB)],
        *([("ZADD", KEYS.fixed(key), 0, JOB), ("HSET", KEYS.row(JOB), "group", A)] for key in ("active", "schedule")),
        [("ZADD", KEYS.dead, 0, JOB), ("HSET", KEYS.row(JOB), "group", A)],
    ],
    ids=lambda commands: commands[0][1].decode().partition("}:")[2],
)
def test_a_lane_is_known_by_whatever_tells_of_it(
    server: PrivateServer, redis_client: redis.Redis, commands: list[tuple[Any, ...]]
) -> None:
    worlds.send(redis_client, commands)
    assert [each.lane for each in lanes(server.url)] == [A.decode()]


def test_what_is_no_id_is_no_lane(server: PrivateServer, redis_client: redis.Redis) -> None:
    redis_client.rpush(RING, "garbage")
    redis_client.zadd(KEYS.lane_as_named(b"not an id"), {JOB: 0})
    redis_client.zadd(KEYS.active, {JOB: 0})
    redis_client.hset(KEYS.row(JOB), "group", "garbage")
    assert lanes(server.url) == []


def test_only_the_queues_own_lanes_are_found(server: PrivateServer, redis_client: redis.Redis) -> None:
    for queue in ("a*", "ab", "a[b]", "a"):
        redis_client.zadd(QueueKeys(queue).lane_as_named(lane_name(len(queue))), {JOB: 0})
    for queue in ("a*", "ab", "a[b]", "a"):
        assert [each.lane.encode() for each in lanes(server.url, queue)] == [lane_name(len(queue))]


def reading(**said: Any) -> Reading:
    return Reading(
        **{"name": A, "depth": 1, "front": [], "paused": 0, "active": None, "limit": None, "weight": None, **said}
    )


@pytest.mark.parametrize(
    ("said", "times_on_ring", "servable", "why"),
    [
        ({}, 1, True, None),
        ({}, 0, True, "not on the ring though it could be served"),
        ({}, 2, True, "on the ring twice"),
        ({}, 3, True, "on the ring 3 times"),
        ({"depth": 0}, 0, False, "empty"),
        ({"depth": 0}, 1, False, "on the ring though empty"),
        ({"paused": 1}, 0, False, "paused"),
        ({"paused": 1}, 1, False, "on the ring though paused"),
        ({"paused": 1}, 2, False, "on the ring twice though paused"),
        ({"active": b"2", "limit": b"2"}, 0, False, "at its limit 2 of 2"),
        ({"active": b"2", "limit": b"2"}, 1, False, "on the ring though at its limit 2 of 2"),
        ({"active": b"3", "limit": b"1"}, 0, False, "at its limit 3 of 1"),
        ({"active": b"1", "limit": b"2"}, 1, True, None),
        ({"active": b"9"}, 1, True, None),
        ({"limit": b"0"}, 0, False, "at its limit 0 of 0"),
        ({"active": b"-1", "limit": b"1"}, 1, True, None),
        ({"paused": 1, "depth": 0, "active": b"1", "limit": b"1"}, 0, False, "paused, at its limit 1 of 1, empty"),
        ({"limit": b"many"}, 0, False, "its limit or its count in flight is no number"),
        ({"limit": b"2", "active": b"1.5"}, 0, False, "its limit or its count in flight is no number"),
        ({"active": b"x"}, 1, True, None),
    ],
)
def test_why_a_lane_is_not_served(said: dict[str, Any], times_on_ring: int, servable: bool, why: str | None) -> None:  # noqa: FBT001 - a table
    found = lane(reading(**said), times_on_ring, 0)
    assert (found.servable, found.why, found.on_ring) == (servable, why, times_on_ring > 0)


@pytest.mark.parametrize(
    ("active", "found", "gone", "true"),
    [
        *((b"2", 2, 0, 2), (b"2", 2, 5, 2), (b"2", 1, 0, 1), (b"2", 1, 1, 2), (b"3", 1, 1, 1), (b"3", 1, 9, 3)),
        *((b"1", 2, 9, 2), (None, 0, 9, 0), (b"many", 1, 9, 1)),
    ],
)
def test_jobs_gone_before_they_could_be_looked_at_make_no_counter_wrong(
    active: bytes | None, found: int, gone: int, true: int
) -> None:
    assert lane(reading(active=active), 1, found, gone).active_true == true


def test_a_figure_that_is_no_number_is_shown_as_it_stands(server: PrivateServer, redis_client: redis.Redis) -> None:
    in_lane(redis_client, A, JOB)
    for key in (GACTIVE, GLIMIT, GWEIGHT):
        redis_client.hset(key, A, "many")
    [found] = lanes(server.url)
    figures = (found.active, found.max_active, found.weight)
    assert all(isinstance(figure, BadValue) and figure.brief == "'many'" for figure in figures)
    assert (found.depth, found.servable, found.active_true) == (1, False, 0)


def test_a_lane_of_another_type_says_so_and_hides_no_other(server: PrivateServer, redis_client: redis.Redis) -> None:
    redis_client.rpush(RING, A)
    redis_client.set(KEYS.lane_as_named(A), "no set")
    in_lane(redis_client, B, JOB)
    odd, sound = lanes(server.url)
    assert isinstance(odd.depth, WrongType)
    assert (odd.depth.found, odd.servable, odd.why, odd.oldest) == ("string", None, None, None)
    assert (sound.lane, sound.depth) == (B.decode(), 1)


@pytest.mark.parametrize(
    "kind", ["ring", "paused", "gactive", "glimit", "gweight", "active", "schedule", "dead", "meta"]
)
def test_a_key_that_would_tell_and_is_of_another_type_is_named(
    server: PrivateServer, redis_client: redis.Redis, kind: str
) -> None:
    in_lane(redis_client, A, JOB)
    redis_client.set(KEYS.fixed(kind), "no such thing")
    with pytest.raises(WrongType) as caught:
        lanes(server.url)
    assert (caught.value.key, caught.value.found) == (KEYS.fixed(kind).decode(), "string")


def test_the_oldest_is_when_the_first_job_in_line_was_made(server: PrivateServer, redis_client: redis.Redis) -> None:
    in_lane(redis_client, A, OTHER, JOB)
    redis_client.zadd(KEYS.lane_as_named(A), {b"": 0, b"0 garbage": 0})
    [found] = lanes(server.url)
    assert (found.depth, found.oldest) == (4, BrandedId("JOB", 1 << 22).minted)


def test_a_lane_without_jobs_has_no_oldest(server: PrivateServer, redis_client: redis.Redis) -> None:
    redis_client.hset(GLIMIT, A, 1)
    assert [each.oldest for each in lanes(server.url)] == [None]


@pytest.mark.parametrize("paused", [None, "1", "0", ""])
def test_whether_the_whole_queue_is_paused_is_told(
    server: PrivateServer, redis_client: redis.Redis, paused: str | None
) -> None:
    in_lane(redis_client, A, JOB)
    if paused is not None:
        redis_client.hset(KEYS.fixed("meta"), "paused", paused)
    with opened(server.url) as target:
        assert LaneListing(target).is_paused == (paused is not None)


def test_a_queue_not_seen_has_no_lanes_to_look_at(server: PrivateServer, redis_client: redis.Redis) -> None:
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    with pytest.raises(NotFound, match="no queue 'jobs'"):
        lanes(server.url)


# Thousands


@pytest.fixture
def thousands(redis_client: redis.Redis) -> redis.Redis:
    """5,000 lanes, each named by the ring and the limits, two jobs waiting in each; one in flight in every second."""
    worlds.send(redis_client, _thousands())
    return redis_client


def _thousands() -> Iterator[tuple[Any, ...]]:
    for nth in range(5000):
        group = lane_name(nth)
        waiting, flying = [job_id(3 * nth), job_id(3 * nth + 1)], job_id(3 * nth + 2)
        yield "ZADD", KEYS.lane_as_named(group), *(word for job in waiting for word in (0, job))
        yield "RPUSH", RING, group
        yield "HSET", GLIMIT, group, 7
        if nth % 2:
            yield "HSET", KEYS.row(flying), "state", "active", "group", group
            yield "ZADD", KEYS.active, 4_000_000_000_000, flying
            yield "HSET", GACTIVE, group, 1


def test_five_thousand_lanes_take_commands_of_at_most_a_thousand_items(
    server: PrivateServer, thousands: redis.Redis, monitor: wire.Monitor
) -> None:
    with monitor() as commands:
        found = lanes(server.url)
    assert [each.lane.encode() for each in found] == [lane_name(nth) for nth in range(5000)]
    assert {astuple(each)[1:9] for each in found} == {
        (2, flying, 7, None, False, True, True, None) for flying in (0, 1)
    }
    assert all(each.active == each.active_true for each in found)
    assert {command[0].decode() for command in commands} <= READS
    for name, *words in commands:
        if name in {b"LRANGE", b"ZRANGE"}:
            assert int(words[2]) - int(words[1]) < 1000
        elif b"COUNT" in words:
            assert words[words.index(b"COUNT") + 1] == b"1000"
        else:
            assert len(words) <= 1001
    assert _longest_transaction(commands) < 2100
    assert len(commands) < 22_000


def _longest_transaction(commands: list[list[bytes]]) -> int:
    ends = [nth for nth, command in enumerate(commands) if command[0] in {b"MULTI", b"EXEC"}]
    return max(end - begin for begin, end in zip(ends[::2], ends[1::2], strict=True))


# Meanwhile


@contextmanager
def busy(server: PrivateServer, groups: list[bytes]) -> Iterator[list[int]]:
    """Let a worker enqueue, claim and complete jobs of some lanes meanwhile; the list counts them."""
    stop, done = Event(), [0]

    def work() -> None:
        with servers.connect(server) as client:
            queue = Transitions(client, "jobs")
            while not stop.is_set():
                done[0] += 1
                queue.lane_enqueue(groups[done[0] % len(groups)], job_id(done[0]), "{}")
                claimed = queue.lane_claim(30_000)
                if claimed and done[0] % 7:
                    queue.complete(claimed.id, claimed.token)

    thread = Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


def test_while_jobs_come_and_go_no_lane_is_said_to_be_wrong(server: PrivateServer, redis_client: redis.Redis) -> None:
    groups = [lane_name(nth) for nth in range(5)]
    with busy(server, groups) as done:
        while done[0] < 10:
            pass
        listings = [lanes(server.url) for _ in range(40)]
    seen = [each for listing in listings for each in listing]
    assert len({each.active for each in seen}) > 3
    assert [each for each in seen if each.active != each.active_true] == []
    assert [each for each in seen if each.servable != each.on_ring] == []


def test_a_user_who_may_only_read_can_list_and_nothing_is_changed(
    server: PrivateServer, world: worlds.World, keeper: redis.Redis, redis_client: redis.Redis
) -> None:
    before = worlds.snapshot(redis_client)
    rules = "on nopass resetkeys ~emq:* ~{emq}:* -@all +@read +@connection +@transaction +time"
    keeper.execute_command("ACL", "SETUSER", "looker", *rules.split())
    url = server.url.replace("redis://", "redis://looker:x@")
    assert lanes(url, "emails") == lanes(server.url, "emails")
    assert worlds.snapshot(redis_client).keys() == before.keys()


def test_without_multi_the_lanes_are_listed_with_a_note(
    server: PrivateServer, world: worlds.World, keeper: redis.Redis
) -> None:
    rules = ["on", "nopass", "~*", "-@all", "+@read", "+@connection", "+time"]
    keeper.execute_command("ACL", "SETUSER", "looker", *rules)
    notes: list[str] = []
    url = server.url.replace("redis://", "redis://looker:x@")
    with connect(Settings(parse_url(url), 5, read_only=False), notes.append) as looker:
        listing = LaneListing(Queue(looker, "emails"))
        assert list(listing.find())[-1] == len(list(listing)) == 13
    assert notes == ["this user may not use MULTI: the figures are not of one moment"]
