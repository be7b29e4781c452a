"""The recorded data and the instruments of the tests themselves."""

from __future__ import annotations

from typing import Any

import pytest
import redis
import worlds
from servers import KEEPER, connect, restore

from emqctl.demo.server import PrivateServer

RECORDINGS = worlds.transitions()
each_recording = pytest.mark.parametrize("recording", RECORDINGS, ids=[recording["name"] for recording in RECORDINGS])


def test_the_recorded_world_is_whole(redis_client: redis.Redis, world: worlds.World) -> None:
    assert redis_client.dbsize() == world.raw["discovery"]["keys_total"] == 894
    assert redis_client.zcard("emq:{orders}:pending") == world.queues["orders"]["pending"]
    assert redis_client.zscore("emq:{orders}:dead", world.ids["dead.err_stack"]["id"]) == 0


def test_times_are_moved_to_the_moment_of_loading(redis_client: redis.Redis) -> None:
    recorded_ms = worlds.load_world(redis_client, 1_767_225_600_000).now_ms
    scores = dict(redis_client.zrange("emq:{orders}:active", 0, -1, withscores=True))
    redis_client.flushdb()
    later_ms = worlds.load_world(redis_client).now_ms
    assert dict(redis_client.zrange("emq:{orders}:active", 0, -1, withscores=True)) == {
        job: score + later_ms - recorded_ms for job, score in scores.items()
    }
    assert redis_client.zcount("emq:{orders}:active", "-inf", later_ms) == 4


@each_recording
def test_a_state_that_was_put_matches(redis_client: redis.Redis, recording: dict[str, Any]) -> None:
    clock_ms = worlds.server_ms(redis_client)
    worlds.put(redis_client, recording["before"], clock_ms)
    assert worlds.differences(redis_client, recording["before"], clock_ms) == []
    assert worlds.matches(redis_client, recording["after"], clock_ms) == recording["unchanged"]


def test_differences_are_named(redis_client: redis.Redis) -> None:
    client, clock_ms = redis_client, worlds.server_ms(redis_client)
    state = {
        "gone": {"type": "string", "value": "x"},
        "h": {"type": "hash", "value": {"state": "dead"}},
        "l": {"type": "list", "value": ["a", "b"]},
        "short": {"type": "string", "value": "x", "ttl_ms": 1000},
        "s": {"type": "set", "value": ["a"]},
        "z": {"type": "zset", "value": [["a", 5], ["b", 6]], "rel": True},
    }
    worlds.put(client, {**state, "new": {"type": "string", "value": {"b64": "/w=="}}}, clock_ms)
    client.delete("gone", "s")
    client.hset("h", mapping={"state": "pending", "group": "g"})
    client.lpush("l", "c")
    client.persist("short")
    client.set("s", "a")
    client.zadd("z", {"a": clock_ms + 15})
    assert worlds.differences(client, state, clock_ms, clock_ms + 9) == [
        "gone: missing, should be string b'x'",
        "h: group is b'g', should be None",
        "h: state is b'pending', should be b'dead'",
        "l: is [b'c', b'a', b'b'], should be [b'a', b'b']",
        "new: unexpected string b'\\xff'",
        "s: is a string, should be a set",
        "short: expires in None ms, should in 1000 ms",
        f"z: a is {clock_ms + 15.0!r}, should be 5 + {clock_ms}..{clock_ms + 9}",
    ]
    client.zadd("z", {"a": clock_ms + 14})
    assert len(worlds.differences(client, state, clock_ms, clock_ms + 9)) == 7


def test_a_test_cannot_spoil_the_server_for_the_next_one(
    server: PrivateServer, keeper: redis.Redis, pristine: dict[str, str], redis_client: redis.Redis
) -> None:
    redis_client.set("key", "value")
    redis_client.script_load("return 1")
    redis_client.config_set("maxmemory", "5mb")
    redis_client.config_set("requirepass", "secret")
    redis_client.execute_command("ACL", "SETUSER", "operator", "on", "nopass")
    redis_client.execute_command("ACL", "SETUSER", "default", "off", "-@all")
    restore(keeper, pristine)
    with connect(server) as client:
        assert client.dbsize() == 0
        assert client.config_get() == pristine
        assert client.acl_whoami() == "default"
        assert client.acl_users() == ["default", KEEPER]
        assert client.script_exists("e0e1f9fabfc9d4800c877a703b823ac0578ff8db") == [False]
