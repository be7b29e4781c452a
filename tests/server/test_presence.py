"""Whether a queue is in use, idle, or was never here: by its fixed keys, else by a scan of bounded length."""

from __future__ import annotations

import pytest
import redis
import wire

from emqctl import presence
from emqctl.config import Settings
from emqctl.connection import Server, connect
from emqctl.endpoint import parse_url
from emqctl.errors import NotFound
from emqctl.keyspace import VERSION_KEY, QueueKeys
from emqctl.queues import Queue, open_queues

KEYS = QueueKeys("q")
FIXED = [
    "pending",
    "active",
    "schedule",
    "dead",
    "ring",
    "paused",
    "gactive",
    "glimit",
    "gweight",
    "wake",
    "meta",
    "limiter",
    "repeat",
]
FIXED += ["metrics:completed", "metrics:failed", "flow:outbox"]


def fill(client: redis.Redis, count: int, prefix: str = "session:") -> None:
    """Make many foreign keys in one step."""
    client.eval("for nth = 1, ARGV[1] do redis.call('SET', ARGV[2] .. nth, '') end", 0, count, prefix)


def test_discovery_is_sorted_and_takes_names_outside_the_grammar(redis_client: redis.Redis, ours: Server) -> None:
    for key in ("emq:{b}:pending", "emq:{a}:job:x", "emq:{a}:dead", "emq:{x y ü}:anything", b"emq:{\xff}:meta"):
        redis_client.set(key, "")
    for key in ("emq:a:pending", "emq:{}:pending", "emq:{emq}:pending", "emq:{a\x01}:pending", "EMQ:{c}:pending"):
        redis_client.set(key, "")
    assert presence.discover(ours) == ["a", "b", "x y ü", "\udcff"]
    assert [queue.name for queue in open_queues(ours, ())] == ["a", "b", "x y ü", "\udcff"]


def test_discovery_reads_all_pages_of_a_scan(redis_client: redis.Redis, ours: Server, monitor: wire.Monitor) -> None:
    fill(redis_client, 25_000)
    fill(redis_client, 3_000, "emq:{z}:job:")
    redis_client.set("emq:{a}:meta", "")
    with monitor() as commands:
        assert presence.discover(ours) == ["a", "z"]
    scans = [command for command in commands if command[0] == b"SCAN"]
    assert all(command[2:] == [b"MATCH", b"emq:*", b"COUNT", b"1000"] for command in scans)
    assert 20 <= len(scans) <= 60


@pytest.mark.parametrize("kind", FIXED)
def test_a_fixed_key_is_found_without_a_scan(
    redis_client: redis.Redis, ours: Server, monitor: wire.Monitor, kind: str
) -> None:
    redis_client.set(KEYS.fixed(kind), "")
    with monitor() as commands:
        Queue(ours, "q").look(counting=False)
    assert b"SCAN" not in {command[0] for command in commands}


@pytest.mark.parametrize("counting", [True, False])
def test_another_key_is_found_by_a_scan(
    redis_client: redis.Redis, ours: Server, notes: list[str], *, counting: bool
) -> None:
    fill(redis_client, 5_000)
    redis_client.set(KEYS.prefix + b"job:x", "")
    assert Queue(ours, "q").look(counting=counting) == []
    assert notes == []


def test_the_scan_for_one_queue_ends_after_a_hundred_thousand_keys(
    redis_client: redis.Redis, ours: Server, monitor: wire.Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here after five thousand: neither the queue nor near names are looked for any longer."""
    assert presence.SCAN_LIMIT == 100_000
    monkeypatch.setattr(presence, "SCAN_LIMIT", 5_000)
    fill(redis_client, 50_000)
    with monitor() as commands, pytest.raises(NotFound):
        Queue(ours, "q").look(counting=False)
    assert sum(command[0] == b"SCAN" for command in commands) <= 10


def test_a_name_of_glob_characters_matches_itself_alone(redis_client: redis.Redis, ours: Server) -> None:
    redis_client.set("emq:{qq}:job:x", "")
    for name in ("q*", "q?", "q[q]", "[q-r]q", "q\\*", "*"):
        with pytest.raises(NotFound):
            Queue(ours, name).look(counting=False)
    for name in ("a*", "a?", "a[b]", "a\\b", "^a-]"):
        redis_client.set(b"emq:{" + name.encode() + b"}:job:x", "")
        assert Queue(ours, name).look(counting=False) == []


def test_an_idle_queue_counts_and_is_not_looked_at(redis_client: redis.Redis, ours: Server, notes: list[str]) -> None:
    redis_client.set("emq:{orders}:meta", "")
    redis_client.set("emq:{orders-eu}:meta", "")
    assert Queue(ours, "order").look(counting=True) == []
    assert len(notes) == 1
    assert "did you mean orders or orders-eu?" in notes[0]
    with pytest.raises(NotFound, match="no queue 'order' at ") as caught:
        Queue(ours, "order").look(counting=False)
    assert caught.value.hint == "did you mean orders or orders-eu?"


def test_at_most_three_near_names_are_offered(redis_client: redis.Redis, ours: Server) -> None:
    for nth in range(9):
        redis_client.set(f"emq:{{orders{nth}}}:meta", "")
    with pytest.raises(NotFound) as caught:
        Queue(ours, "orders").look(counting=False)
    assert str(caught.value.hint).count("orders") == 3


@pytest.mark.parametrize("counting", [True, False])
def test_without_a_version_and_the_queue_there_is_no_deployment(
    redis_client: redis.Redis, ours: Server, *, counting: bool
) -> None:
    redis_client.delete(VERSION_KEY)
    redis_client.set("emq:{other}:meta", "")
    with pytest.raises(NotFound, match="no EchoMQ deployment at "):
        Queue(ours, "q").look(counting=counting)


def test_all_queues_of_no_deployment_are_an_error_of_a_deployment_none(redis_client: redis.Redis, ours: Server) -> None:
    assert open_queues(ours, ()) == []
    redis_client.delete(VERSION_KEY)
    with (
        connect(Settings(parse_url(ours.shown), 5, read_only=False), print) as fresh,
        pytest.raises(NotFound, match="no EchoMQ deployment"),
    ):
        open_queues(fresh, ())
