"""What the audit says of the server itself."""

from __future__ import annotations

import pytest
import redis
from auditing import audited

from emqctl.demo.server import PrivateServer
from emqctl.keyspace import VERSION_KEY, QueueKeys
from emqctl.records import Finding

K = QueueKeys("jobs")


@pytest.fixture(autouse=True)
def a_queue(redis_client: redis.Redis) -> None:
    """A deployment with one queue, of which there is nothing to say."""
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    redis_client.hset(K.fixed("metrics:completed"), "count", 1)


def told(url: str) -> dict[str, Finding]:
    findings = audited(url)
    assert all(finding.queue is None for finding in findings)
    return {finding.rule: finding for finding in findings}


def test_of_a_sound_server_nothing_is_said(server: PrivateServer) -> None:
    assert told(server.url) == {}


@pytest.mark.parametrize("version", [None, "echomq:9.9.9"])
def test_a_wire_version_that_is_missing_or_unknown_is_a_note(
    server: PrivateServer, redis_client: redis.Redis, version: str | None
) -> None:
    redis_client.delete(VERSION_KEY)
    if version:
        redis_client.set(VERSION_KEY, version)
    rule, text = ("version_unknown", "echomq:9.9.9") if version else ("version_missing", "claims its own")
    [(name, finding)] = told(server.url).items()
    assert (name, finding.level) == (rule, "note")
    assert text in finding.meaning


def test_a_wire_version_that_is_hidden_is_a_note(server: PrivateServer, keeper: redis.Redis) -> None:
    keeper.execute_command("ACL", "SETUSER", "blind", "on", ">pw", "~emq:*", "+@all")
    assert told(server.url.replace("//", "//blind:pw@")).keys() == {"version_hidden"}


@pytest.mark.parametrize(
    ("policy", "limit", "level"),
    [
        ("allkeys-lru", "900mb", "broken"),
        ("allkeys-random", "900mb", "broken"),
        ("allkeys-lru", "0", "note"),
        ("volatile-lru", "900mb", None),
        ("noeviction", "900mb", None),
    ],
)
def test_an_eviction_policy_that_would_drop_jobs_is_broken_once_memory_is_limited(
    server: PrivateServer, redis_client: redis.Redis, policy: str, limit: str, level: str | None
) -> None:
    redis_client.config_set("maxmemory", limit)
    redis_client.config_set("maxmemory-policy", policy)
    finding = told(server.url).get("eviction_drops_jobs")
    assert (finding and finding.level) == level


@pytest.mark.parametrize(
    ("rights", "rules"),
    [("-config", {"eviction_drops_jobs"}), ("-info", {"eviction_drops_jobs"}), ("-info -config", {"eviction_unknown"})],
)
def test_the_policy_is_read_by_whatever_the_user_may(
    server: PrivateServer, redis_client: redis.Redis, keeper: redis.Redis, rights: str, rules: set[str]
) -> None:
    redis_client.config_set("maxmemory-policy", "allkeys-lfu")
    keeper.execute_command("ACL", "SETUSER", "half", "on", ">pw", "~*", "+@all", *rights.split())
    assert told(server.url.replace("//", "//half:pw@")).keys() == rules


def test_a_replica_that_is_read_as_a_primary_is_told(server: PrivateServer, keeper: redis.Redis) -> None:
    keeper.execute_command("REPLICAOF", "127.0.0.1", 1)
    try:
        finding = told(server.url)["replica_read"]
    finally:
        keeper.execute_command("REPLICAOF", "NO", "ONE")
    assert (finding.level, finding.queue) == ("note", None)
    assert "cut off from its primary" in finding.meaning
