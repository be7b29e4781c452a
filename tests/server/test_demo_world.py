"""The sample world keeps its promises and is sound."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
import redis
import worlds

from emqctl import branded, keyspace
from emqctl.branded import EPOCH_MS
from emqctl.demo.samples import ODD
from emqctl.demo.world import commands
from emqctl.keyspace import QueueKeys

NOW_MS = 1_796_065_000_000
QUEUES = ("orders", "emails", "invoices", "frozen")
STATES = {"pending": b"pending", "active": b"active", "schedule": b"scheduled", "dead": b"dead", "lane": b"pending"}


@pytest.fixture
def snapshot(redis_client: redis.Redis, demo_world: int) -> worlds.Snapshot:
    return worlds.snapshot(redis_client)


def places(snapshot: worlds.Snapshot, queue: str) -> list[tuple[bytes, keyspace.KeyName]]:
    """Return pairs (job id, its set as a KeyName)."""
    names = [keyspace.parse(key) for key in snapshot]
    return [
        (job, name)
        for name in names
        if name.queue == queue and name.type in STATES
        for job in snapshot[name.key].content
    ]


def rows(snapshot: worlds.Snapshot, queue: str) -> dict[bytes, dict[bytes, bytes]]:
    names = [keyspace.parse(key) for key in snapshot]
    return {
        name.id.encode(): snapshot[name.key].content
        for name in names
        if name.queue == queue and name.type == "job" and name.sub is None
    }


def content(snapshot: worlds.Snapshot, queue: str, kind: str, empty: Any) -> Any:
    value = snapshot.get(QueueKeys(queue).fixed(kind))
    return value.content if value else empty


def test_the_same_moment_gives_the_same_world() -> None:
    assert list(commands(NOW_MS)) == list(commands(NOW_MS))
    assert all(isinstance(word, bytes) for command in commands(NOW_MS) for word in command)


@pytest.mark.parametrize("now_ms", [EPOCH_MS + 100 * 86_400_000, EPOCH_MS + 2**41 - 1])
def test_it_can_be_built_at_any_time_an_id_can_hold(now_ms: int) -> None:
    assert len(list(commands(now_ms))) == len(list(commands(NOW_MS)))


def test_every_key_is_of_the_protocol_and_of_its_type(snapshot: worlds.Snapshot) -> None:
    for key, value in snapshot.items():
        name = keyspace.parse(key)
        assert name.kind in {"queue", "reserve"}
        if name.kind == "queue":
            named = (
                keyspace.JOB_SUBS[name.sub] if name.sub else (keyspace.NAMED if name.id else keyspace.FIXED)[name.type]
            )
            assert value.type == named
    assert snapshot[keyspace.VERSION_KEY].content == b"echomq:3.0.0"


@pytest.mark.parametrize("queue", QUEUES)
def test_each_job_is_in_the_one_place_its_row_says(demo_world: int, snapshot: worlds.Snapshot, queue: str) -> None:
    held = {job for job, row in rows(snapshot, queue).items() if row[b"state"] == b"awaiting_children"}
    found = places(snapshot, queue)
    assert Counter(job for job, _ in found) == Counter(rows(snapshot, queue).keys() - held)
    for job, name in found:
        row = rows(snapshot, queue)[job]
        assert row[b"state"] == STATES[name.type]
        assert row[b"attempts"].isdigit()
        assert b"payload" in row
        assert branded.parse_job(job).minted_ms <= demo_world
        if name.type in {"pending", "lane"}:
            assert row.get(b"group", b"").decode() == (name.id or "")


@pytest.mark.parametrize("queue", QUEUES)
def test_ring_and_lane_counters_are_right(snapshot: worlds.Snapshot, queue: str) -> None:
    table = rows(snapshot, queue)
    in_flight = Counter(
        table[job][b"group"]
        for job, name in places(snapshot, queue)
        if name.type == "active" and b"group" in table[job]
    )
    waiting = {name.id.encode() for _, name in places(snapshot, queue) if name.type == "lane"}
    limits = {group: int(limit) for group, limit in content(snapshot, queue, "glimit", {}).items()}
    paused = content(snapshot, queue, "paused", set())
    ring = content(snapshot, queue, "ring", [])
    assert {group: int(jobs) for group, jobs in content(snapshot, queue, "gactive", {}).items()} == in_flight
    servable = {group for group in waiting - paused if in_flight[group] < limits.get(group, 99)}
    assert Counter(ring) == Counter(servable)
    assert content(snapshot, queue, "wake", []) == [b"1"] * len(ring)


def test_flow_counts_are_right(snapshot: worlds.Snapshot) -> None:
    keys, table = QueueKeys("invoices"), rows(snapshot, "invoices")
    parents = {row[b"parent"] for row in table.values() if b"parent" in row}
    assert parents <= table.keys()
    states = {}
    for parent in map(branded.parse, parents):
        children = [row for row in table.values() if row.get(b"parent") == bytes(parent)]
        assert int(snapshot[keys.job(parent, "dependencies")].content) == len(children) > 0
        row, failed = table[bytes(parent)], keys.job(parent, "failed") in snapshot
        assert failed == (row[b"state"] == b"dead")
        assert (row[b"attempts"], b"last_error" in row) == (b"0", False)
        states[row[b"state"]] = {child[b"state"] for child in children}
        assert snapshot[keys.job(parent, "processed")].content
    assert states == {b"awaiting_children": {b"active", b"pending"}, b"dead": {b"dead", b"pending"}}
    for parent in map(branded.parse, parents):
        for child in snapshot.get(keys.job(parent, "failed"), worlds.Value("hash", {})).content:
            assert table[child][b"state"] == b"dead"


def test_orders_hold_what_was_promised(redis_client: redis.Redis, demo_world: int, snapshot: worlds.Snapshot) -> None:
    keys, table = QueueKeys("orders"), rows(snapshot, "orders")
    assert redis_client.zcard(keys.pending) == 300
    assert set(ODD) <= {row[b"payload"] for row in table.values()}
    assert redis_client.zcount(keys.active, "-inf", demo_world) == 3
    assert redis_client.zcount(keys.active, demo_world + 300_000, "+inf") == 7
    assert redis_client.zcount(keys.schedule, "-inf", demo_world) == 4
    assert redis_client.zcount(keys.schedule, demo_world + 240_000, "+inf") == 10
    dead = [table[job] for job in redis_client.zrange(keys.dead, 0, -1)]
    assert len(dead) == 60
    assert [row[b"stalled"] for row in dead if row[b"last_error"] == b"stalled"] == [b"1"]
    assert len({row[b"last_error"].split()[0] for row in dead}) >= 6
    assert sum(b"\n" in row[b"last_error"] for row in dead) >= 10
    assert {keyspace.parse(key).sub for key in snapshot if key.startswith(keys.prefix)} >= {"lock", "logs"}
    owner = snapshot[keys.dedup(b"order-48213")]
    assert owner.content in table
    assert owner.ttl_ms > 0


def test_the_newest_orders_look_like_any_days_work(redis_client: redis.Redis, demo_world: int) -> None:
    keys = QueueKeys("orders")
    newest = redis_client.zrange(keys.pending, 0, 19, desc=True)
    payloads = [redis_client.hget(keys.row(job), "payload") for job in newest]
    assert 1 <= len(set(payloads) & set(ODD)) <= 2
    kinds = {next(iter(json.loads(payload))) for payload in payloads if payload not in ODD}
    assert len(kinds) >= 4
    assert demo_world - branded.parse(newest[-1]).minted_ms < 600_000


def test_lanes_of_every_condition_are_there(snapshot: worlds.Snapshot) -> None:
    depths = Counter(name.id.encode() for _, name in places(snapshot, "emails") if name.type == "lane")
    ring = content(snapshot, "emails", "ring", [])
    in_flight = content(snapshot, "emails", "gactive", {})
    limits = content(snapshot, "emails", "glimit", {})
    (paused,) = content(snapshot, "emails", "paused", set())
    (weighted,) = content(snapshot, "emails", "gweight", {})
    dead = {row[b"group"] for row in rows(snapshot, "emails").values() if row[b"state"] == b"dead"}
    assert depths[paused]
    assert weighted in ring
    assert [group for group in limits if group not in ring and in_flight[group] == limits[group] and depths[group]]
    assert [group for group in in_flight if not depths[group]]
    assert [group for group in dead if not depths[group] and group not in in_flight]


def test_frozen_is_paused_with_flat_and_lane_jobs(snapshot: worlds.Snapshot) -> None:
    assert content(snapshot, "frozen", "meta", {}) == {b"paused": b"1"}
    assert {name.type for _, name in places(snapshot, "frozen")} == {"pending", "lane"}


def test_counters_and_a_repeat_are_there(redis_client: redis.Redis, demo_world: int, snapshot: worlds.Snapshot) -> None:
    assert int(content(snapshot, "orders", "metrics:failed", {})[b"count"]) >= 60
    assert int(content(snapshot, "orders", "metrics:completed", {})[b"count"]) > 0
    ((name, next_ms),) = content(snapshot, "invoices", "repeat", {}).items()
    assert next_ms > demo_world
    assert snapshot[QueueKeys("invoices").repeat(name)].content.keys() == {b"every_ms", b"template"}
