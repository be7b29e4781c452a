"""Every queue there is in the core: found by a scan, counted many in a round trip, each at one moment."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import count as numbers
from itertools import islice
from typing import Any

import pytest
import redis
import wire
import worlds
from servers import connect as client_of

from emqctl import counting, presence
from emqctl.branded import EPOCH_MS, BrandedId, is_branded, minted_at
from emqctl.config import Settings
from emqctl.connection import Server, connect
from emqctl.counting import EVERYTHING, overview
from emqctl.demo.server import PrivateServer
from emqctl.endpoint import parse_url
from emqctl.errors import BadValue, Denied, NotFound, WrongType
from emqctl.keyspace import VERSION_KEY, QueueKeys, decode
from emqctl.presence import Census, census
from emqctl.records import QueueState

KEYS = QueueKeys("q")
LANES = [BrandedId("TEN", nth) for nth in range(30)]


def job(nth: int) -> bytes:
    """Return the id of a job minted ``nth`` milliseconds after the first."""
    return bytes(BrandedId("JOB", nth << 22))


def at(nth: int) -> datetime:
    return datetime.fromtimestamp((EPOCH_MS + nth) / 1000, timezone.utc)


def taken(ours: Server) -> Census:
    *_, met = census(ours)
    return met


def states(ours: Server) -> dict[str, QueueState]:
    met = taken(ours)
    rows = list(overview(ours, sorted(met.queues), EVERYTHING, met.lanes))
    assert [row.queue for row in rows] == sorted(met.queues)
    return {row.queue: row for row in rows}


def send(client: redis.Redis, commands: Iterator[tuple[Any, ...]]) -> None:
    while some := list(islice(commands, 2000)):
        with client.pipeline(transaction=False) as pipeline:
            for command in some:
                pipeline.execute_command(*command)
            pipeline.execute()


def test_every_queue_of_the_world_is_as_recorded(world: worlds.World, ours: Server, redis_client: redis.Redis) -> None:
    found = states(ours)
    odd = {name if isinstance(name, str) else "\udcff\udcfe" for name in world.raw["discovery"]["outside_grammar"]}
    assert set(found) == {*world.raw["discovery"]["queues"], *(odd - {"emq"})}
    for name, known in world.queues.items():
        row = found[name]
        if name == "wrongtype":
            assert isinstance(row.pending, WrongType)
            assert isinstance(row.waiting, WrongType)
            assert isinstance(row.oldest, WrongType)
            assert isinstance(row.dead, WrongType)
            continue
        sets = [
            QueueKeys(name).pending,
            *(QueueKeys(name).lane_as_named(each.encode()) for each in known.get("lanes", ())),
        ]
        waiting = [member for key in sets for member in redis_client.zrange(key, 0, -1) if is_branded(member)]
        assert vars(row) == {
            **world.counts(name),
            "paused": known["paused"],
            "oldest": minted_at(min(waiting)) if waiting else None,
        }


def test_keys_that_look_like_those_of_a_queue_are_told_apart(world: worlds.World, ours: Server) -> None:
    met = taken(ours)
    strange = [*world.raw["discovery"]["unclassified_keys"], "emq:{emq}:pending"]
    assert met.strangers == len(strange)
    assert [decode(key) for key in met.strange] == sorted(strange)[:3]


def test_lanes_that_no_key_names_are_counted(redis_client: redis.Redis, ours: Server) -> None:
    named, unnamed, *_ = LANES
    redis_client.rpush(KEYS.fixed("ring"), str(named))
    redis_client.zadd(KEYS.lane(named), {job(5): 0, job(6): 0})
    redis_client.zadd(KEYS.lane(unnamed), {job(3): 0})
    redis_client.zadd(KEYS.pending, {job(4): 0})
    redis_client.zadd(KEYS.prefix + b"g:eu:pending", {job(1): 0})  # no lane: its name is no id
    row = states(ours)["q"]
    assert (row.pending, row.lanes, row.waiting, row.oldest) == (1, 3, 4, at(3))


def test_a_queue_that_only_has_a_lane_is_a_queue(redis_client: redis.Redis, ours: Server) -> None:
    redis_client.zadd(KEYS.lane(LANES[0]), {job(3): 0})
    assert states(ours)["q"] == QueueState("q", 0, 1, 1, *[0] * 7, paused=False, oldest=at(3))


def test_the_oldest_is_the_first_that_is_an_id(redis_client: redis.Redis, ours: Server) -> None:
    """Members that are none sort in front of it; those in flight, scheduled or dead do not wait."""
    for nth, key in enumerate((KEYS.active, KEYS.schedule, KEYS.dead)):
        redis_client.zadd(key, {job(nth): 0})
    assert states(ours)["q"].oldest is None
    redis_client.zadd(KEYS.pending, {"": 0, "AAA": 0, "JOB0": 0, job(30): 0, job(40): 0})
    assert states(ours)["q"].oldest == at(30)
    redis_client.zadd(KEYS.lane(LANES[0]), {bytes(BrandedId("ABC", 20 << 22)): 0})
    assert states(ours)["q"].oldest == at(20)


@pytest.mark.parametrize("value", ["1", "0", "", "false", b"\xff"])
def test_any_value_pauses(redis_client: redis.Redis, ours: Server, value: str | bytes) -> None:
    redis_client.hset(KEYS.fixed("meta"), "max", 1)
    assert states(ours)["q"].paused is False
    redis_client.hset(KEYS.fixed("meta"), "paused", value)
    assert states(ours)["q"].paused is True


@pytest.mark.parametrize(
    ("key", "figures"),
    [
        ("pending", {"pending", "waiting", "oldest"}),
        ("active", {"active", "lapsed"}),
        ("schedule", {"scheduled", "overdue"}),
        ("dead", {"dead"}),
        ("meta", {"paused"}),
        ("metrics:completed", {"completed"}),
        ("metrics:failed", {"failed"}),
        *((key, {"lanes", "waiting", "oldest"}) for key in ("ring", "paused", "gactive", "glimit", "gweight")),
        ("g:TEN00000000000:pending", {"lanes", "waiting", "oldest"}),
    ],
)
def test_a_key_of_another_type_is_an_error_in_its_own_figures(
    redis_client: redis.Redis, ours: Server, key: str, figures: set[str]
) -> None:
    redis_client.set(KEYS.prefix + key.encode(), "x")
    redis_client.zadd(QueueKeys("sound").pending, {job(1): 0})
    rows = states(ours)
    assert {name for name, value in vars(rows["q"]).items() if isinstance(value, WrongType)} == figures
    assert rows["sound"].waiting == 1


@pytest.mark.parametrize("count", [b"", b"-1", b"1e3", b"9" * 20, b"9" * 5000, "٣".encode()])
def test_a_counter_that_is_no_number_is_an_error(redis_client: redis.Redis, ours: Server, count: bytes) -> None:
    redis_client.hset(KEYS.fixed("metrics:failed"), "count", count)
    failed = states(ours)["q"].failed
    assert isinstance(failed, BadValue)
    assert len(str(failed)) < 200
    assert len(failed.brief) < 100


def test_an_empty_database_is_no_deployment(redis_client: redis.Redis, ours: Server) -> None:
    assert states(ours) == {}
    redis_client.delete(VERSION_KEY)
    redis_client.set("session:1", "x")
    with connect(Settings(parse_url(ours.shown), 5, read_only=False), print) as fresh, pytest.raises(NotFound):
        taken(fresh)


# One moment, few calls


def test_the_figures_of_a_queue_are_of_one_moment(
    redis_client: redis.Redis, server: PrivateServer, ours: Server
) -> None:
    """While jobs are passed from place to place in each of 60 queues, none is counted twice and none is missed."""
    queues = [QueueKeys(f"q{nth}") for nth in range(60)]
    jobs = [job(nth) for nth in range(5)]
    for keys in queues:
        redis_client.zadd(keys.pending, dict.fromkeys(jobs, 0))
        redis_client.rpush(keys.fixed("ring"), str(LANES[0]))
    stop = threading.Event()

    def turn() -> None:
        with client_of(server) as client:
            for step in numbers():
                if stop.is_set():
                    return
                for keys in queues:
                    places = [keys.pending, keys.active, keys.schedule, keys.dead, keys.lane(LANES[0])]
                    with client.pipeline(transaction=True) as pipeline:
                        for each in jobs:
                            pipeline.zrem(places[step % 5], each).zadd(places[(step + 1) % 5], {each: 0})
                        pipeline.execute()

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        seen, looks, patience = set(), 0, time.monotonic() + 60
        while looks < 30 or (len(seen) < 5 and time.monotonic() < patience):
            looks += 1
            for row in overview(ours, [keys.queue for keys in queues], EVERYTHING):
                figures = tuple(vars(row)[state] for state in ("pending", "lanes", "active", "scheduled", "dead"))
                assert sum(figures) == len(jobs)
                seen.add(figures)
    finally:
        stop.set()
        thread.join()
    assert len(seen) == 5


def test_calls_are_bounded_at_200_000_keys(redis_client: redis.Redis, ours: Server, monitor: wire.Monitor) -> None:
    """500 queues, 10,000 lanes of which half are named nowhere, 150,000 rows; foreign keys between them."""

    def commands() -> Iterator[tuple[Any, ...]]:
        ids = numbers()
        for nth in range(500):
            keys = QueueKeys(f"queue-{nth}")
            jobs = [job(next(ids)) for _ in range(300)]
            yield from ((b"HSET", keys.row(each), b"payload", b"{}") for each in jobs)
            for key, some in ((keys.pending, jobs[:100]), (keys.dead, jobs[100:])):
                yield b"ZADD", key, *(word for each in some for word in (0, each))
            for turn, lane in enumerate(LANES[:20]):
                yield b"ZADD", keys.lane(lane), 0, job(next(ids))
                if turn % 2:
                    yield b"RPUSH", keys.fixed("ring"), str(lane)
            yield from ((b"SET", b"session:%d:%d" % (nth, turn), b"") for turn in range(78))

    send(redis_client, commands())
    assert redis_client.dbsize() > 200_000
    before = ours.round_trips
    with monitor() as sent:
        rows = states(ours)
    assert len(rows) == 500
    assert all((row.pending, row.lanes, row.dead) == (100, 20, 200) for row in rows.values())
    assert ours.round_trips - before <= 200_000 // 1000 + 10 + 2 * 500 // counting.AT_ONCE
    kinds = {command[0].decode() for command in sent}
    reads = "SCAN GET TIME LRANGE LLEN SSCAN HSCAN ZCARD ZCOUNT HGET ZRANGE"
    assert kinds <= {*reads.split(), "MULTI", "EXEC"}
    scans = [command for command in sent if command[0] == b"SCAN"]
    assert {command[2:] and tuple(command[2:]) for command in scans} == {(b"MATCH", b"emq:*", b"COUNT", b"1000")}
    assert all(int(command[3]) < 1000 for command in sent if command[0] in {b"ZRANGE", b"LRANGE"})


def test_a_queue_with_more_lanes_than_a_moment_has_room_for_says_so(
    redis_client: redis.Redis, ours: Server, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MOMENT", 40)
    for nth, lane in enumerate(LANES):
        redis_client.zadd(KEYS.lane(lane), {job(nth): 0})
    redis_client.zadd(QueueKeys("small").pending, {job(1): 0})
    rows = states(ours)
    assert (rows["q"].lanes, rows["q"].oldest, rows["q"].paused) == (30, at(0), False)
    assert rows["small"].waiting == 1
    assert notes == ["queue 'q' has 30 lanes: its figures are not of one moment"]


def test_a_census_remembers_so_many_lanes_and_says_how_many_more_there_are(
    redis_client: redis.Redis, ours: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "LANES_LIMIT", 10)
    for nth, lane in enumerate(LANES):
        redis_client.zadd(QueueKeys(f"q{nth % 2}").lane(lane), {job(nth): 0})
    met = taken(ours)
    assert sum(map(len, met.lanes.values())) == 10
    assert met.lanes_beyond == 20


def test_a_key_that_a_scan_meets_twice_is_one() -> None:
    met = Census()
    for _ in range(2):
        met.meet(KEYS.lane(LANES[0]))
        met.meet(b"emq:x")
    assert (met.queues, met.lanes, met.strange) == ({"q"}, {"q": {bytes(LANES[0])}}, [b"emq:x"])


def test_a_census_of_many_jobs_takes_no_memory_for_them() -> None:
    met = Census()
    tracemalloc.start()
    try:
        for nth in range(10_000):
            met.meet(KEYS.row(job(nth)))
            met.meet(b"emq:%d" % nth)
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()


# What a user may not do


def over(server: PrivateServer, client: redis.Redis, notes: list[str], *rules: str) -> Any:
    client.execute_command("ACL", "SETUSER", "watcher", "reset", "on", ">p", *rules)
    url = server.url.replace("//", "//watcher:p@")
    return connect(Settings(parse_url(url), 5, read_only=False), notes.append)


def test_without_multi_the_figures_are_the_same_with_one_note(
    world: worlds.World, ours: Server, server: PrivateServer, redis_client: redis.Redis, notes: list[str]
) -> None:
    everything = states(ours)
    with over(server, redis_client, notes, "+@all", "-multi", "~*") as theirs:
        assert {name: vars(row) for name, row in states(theirs).items() if name != "wrongtype"} == {
            name: vars(row) for name, row in everything.items() if name != "wrongtype"
        }
    assert notes == ["this user may not use MULTI: the figures are not of one moment"]


def test_queues_this_user_may_not_read_are_denied_in_their_rows_alone(
    redis_client: redis.Redis, ours: Server, server: PrivateServer, notes: list[str]
) -> None:
    for name in ("mine", "theirs"):
        redis_client.zadd(QueueKeys(name).pending, {job(1): 0})
        redis_client.hset(QueueKeys(name).fixed("metrics:failed"), "count", 7)
    for rules in (["+@all"], ["+@all", "-multi"]):
        with over(server, redis_client, notes, *rules, "~emq:{mine}:*", "~{emq}:*") as theirs:
            rows = states(theirs)
        assert (rows["mine"].waiting, rows["mine"].failed) == (1, 7)
        assert all(isinstance(value, Denied) for name, value in vars(rows["theirs"]).items() if name != "queue")
