"""The connection: what it says first, what it never says twice, and what its failures become."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest
import redis
import wire
import worlds
from servers import Connect

from emqctl.connection import KNOWN_VERSIONS, Server
from emqctl.demo.server import PrivateServer
from emqctl.errors import Denied, NotFound, Refused, Unreachable, WrongType
from emqctl.keyspace import VERSION_KEY, QueueKeys

KEYS = QueueKeys("q")
GREETING = [[b"GET", VERSION_KEY], [b"TIME"]]


@pytest.fixture
def ours(redis_client: redis.Redis, connected: Connect) -> Iterator[Server]:
    """A connection to the private server, nothing sent yet."""
    with connected() as server:
        yield server


def allow(client: redis.Redis, server: PrivateServer, *rules: str) -> str:
    """Give the user `watcher` these rights and no others; return the URL to connect with."""
    client.execute_command("ACL", "SETUSER", "watcher", "reset", "on", ">secret", *rules)
    return f"redis://watcher:secret@127.0.0.1:{server.port}/0"


def test_the_first_thing_said_is_the_command_itself(ours: Server, monitor: wire.Monitor) -> None:
    """No HELLO, no CLIENT, no PING: the wire version and the clock come along, once."""
    with monitor() as commands:
        assert ours.ask(("ZCARD", KEYS.pending), ("EXISTS", KEYS.dead)) == [0, 0]
        assert ours.ask(("ZCARD", KEYS.dead)) == [0]
    assert commands == [
        *GREETING,
        [b"ZCARD", KEYS.pending],
        [b"EXISTS", KEYS.dead],
        [b"ZCARD", KEYS.dead],
    ]
    assert (ours.round_trips, ours.commands) == (2, 5)


def test_nothing_is_connected_before_the_first_command(connected: Connect) -> None:
    with connected("redis://127.0.0.1:1/0") as server, pytest.raises(Unreachable, match="refused"):
        server.ask(("PING",))


def test_the_connection_ends_with_the_block(redis_client: redis.Redis, connected: Connect) -> None:
    before = len(redis_client.client_list())
    with connected() as server:
        server.ask(("PING",))
        assert len(redis_client.client_list()) == before + 1
    deadline = time.monotonic() + 2
    while len(redis_client.client_list()) != before:
        assert time.monotonic() < deadline


def test_replies_are_bytes_as_they_stand(redis_client: redis.Redis, ours: Server) -> None:
    odd = bytes(range(256))
    redis_client.hset(b"emq:{\xff}:job:x", odd, odd)
    assert ours.ask(("HGET", b"emq:{\xff}:job:x", odd), ("HMGET", b"emq:{\xff}:job:x", odd, b"y")) == [odd, [odd, None]]


def test_an_error_stands_in_its_place_or_is_raised(redis_client: redis.Redis, ours: Server) -> None:
    redis_client.set(KEYS.dead, "x")
    first, wrong, last = ours.try_ask(("ZCARD", KEYS.pending), ("ZCARD", KEYS.dead), ("EXISTS", KEYS.dead))
    assert (first, last) == (0, 1)
    assert isinstance(wrong, WrongType)
    with pytest.raises(WrongType):
        ours.ask(("ZCARD", KEYS.pending), ("ZCARD", KEYS.dead))


@pytest.mark.parametrize(
    ("key", "command", "message"),
    [
        (KEYS.dead, ("ZCARD",), "emq:{q}:dead is a string, not a zset"),
        (KEYS.fixed("ring"), ("LLEN",), "emq:{q}:ring is a string, not a list"),
        (KEYS.fixed("gactive"), ("HLEN",), "emq:{q}:gactive is a string, not a hash"),
        (KEYS.row(b"JOB00000000000"), ("HLEN",), "emq:{q}:job:JOB00000000000 is a string, not a hash"),
        (KEYS.prefix + b"repeat", ("ZCARD",), "emq:{q}:repeat is a string, not a zset"),
        (KEYS.prefix + b"repeat:daily", ("HLEN",), "emq:{q}:repeat:daily is a string, not a hash"),
        (VERSION_KEY + b"x", ("HLEN",), "{emq}:versionx is a string, not"),
    ],
)
def test_a_wrong_type_is_named_with_the_one_it_should_be(
    redis_client: redis.Redis, ours: Server, key: bytes, command: tuple[str], message: str
) -> None:
    redis_client.set(key, "x")
    for atomic in (False, True):
        [wrong] = ours.try_ask((*command, key), atomic=atomic)
        assert str(wrong).startswith(message)


def test_all_wrong_types_of_a_round_trip_are_asked_for_together(redis_client: redis.Redis, ours: Server) -> None:
    for kind in ("pending", "dead", "active"):
        redis_client.set(KEYS.fixed(kind), "x")
    ours.try_ask(*(("ZCARD", KEYS.fixed(kind)) for kind in ("pending", "dead", "active", "schedule")))
    assert ours.round_trips == 2


def test_an_atomic_question_is_one_moment(redis_client: redis.Redis, ours: Server, monitor: wire.Monitor) -> None:
    redis_client.zadd(KEYS.pending, {"a": 0})
    with monitor() as commands:
        assert ours.ask(("ZCARD", KEYS.pending), ("SSCAN", KEYS.fixed("paused"), 0), atomic=True) == [1, (0, [])]
    words = [command[0] for command in commands[2:]]
    assert words == [b"MULTI", b"ZCARD", b"SSCAN", b"EXEC"]
    assert ours.round_trips == 1


def test_without_multi_it_is_asked_bare_with_a_note(
    redis_client: redis.Redis, server: PrivateServer, connected: Connect, notes: list[str]
) -> None:
    redis_client.zadd(KEYS.pending, {"a": 0})
    redis_client.set(KEYS.dead, "x")
    with connected(allow(redis_client, server, "+@all", "-multi", "~*")) as watching:
        for _ in range(3):
            found, wrong = watching.try_ask(("ZCARD", KEYS.pending), ("ZCARD", KEYS.dead), atomic=True)
            assert found == 1
            assert isinstance(wrong, WrongType)
    assert notes == ["this user may not use MULTI: the figures are not of one moment"]


def test_a_command_denied_inside_multi_is_raised(
    redis_client: redis.Redis, server: PrivateServer, connected: Connect
) -> None:
    url = allow(redis_client, server, "+@all", "-zcard", "~*")
    with connected(url) as watching, pytest.raises(Denied, match="ZCARD"):
        watching.ask(("EXISTS", KEYS.dead), ("ZCARD", KEYS.pending), atomic=True)


# The greeting


@pytest.mark.parametrize("version", [*KNOWN_VERSIONS, None])
def test_a_known_or_absent_version_is_silent(
    redis_client: redis.Redis, ours: Server, notes: list[str], version: str | None
) -> None:
    if version:
        redis_client.set(VERSION_KEY, version)
    assert ours.version == version
    assert not ours.hides_version
    assert ours.round_trips == 1
    assert notes == []


def test_the_version_is_read_and_never_written(redis_client: redis.Redis, ours: Server) -> None:
    assert ours.version is None
    ours.ask(("ZCARD", KEYS.pending))
    assert redis_client.dbsize() == 0


def test_an_unknown_version_is_noted_once(redis_client: redis.Redis, ours: Server, notes: list[str]) -> None:
    redis_client.set(VERSION_KEY, "echomq:9.0.0")
    ours.ask(("PING",))
    ours.ask(("PING",))
    assert ours.version == "echomq:9.0.0"
    assert len(notes) == 1
    assert "'echomq:9.0.0'" in notes[0]


def test_a_hidden_version_is_noted_and_told_from_an_absent_one(
    redis_client: redis.Redis, server: PrivateServer, connected: Connect, notes: list[str]
) -> None:
    with connected(allow(redis_client, server, "+@all", "~emq:*")) as watching:
        assert watching.version is None
        assert watching.hides_version
    assert len(notes) == 1


def test_the_clock_is_the_servers_and_costs_no_round_trip(redis_client: redis.Redis, ours: Server) -> None:
    for _ in range(3):
        before = worlds.server_ms(redis_client)
        now = ours.now_ms()
        assert before - 500 <= now <= worlds.server_ms(redis_client) + 500
    assert ours.round_trips == 1


def test_where_time_is_denied_the_clock_is_this_machines_with_one_note(
    redis_client: redis.Redis, server: PrivateServer, connected: Connect, notes: list[str]
) -> None:
    with connected(allow(redis_client, server, "+@all", "-time", "~*")) as watching:
        watching.ask(("ZCARD", KEYS.pending))
        assert notes == []
        for _ in range(3):
            assert abs(watching.now_ms() - time.time() * 1000) < 100
    assert len(notes) == 1
    assert "clock" in notes[0]


def test_a_greeting_that_fails_otherwise_is_raised(redis_client: redis.Redis, ours: Server) -> None:
    redis_client.rpush(VERSION_KEY, "x")
    with pytest.raises(WrongType, match="is a list, not a string"):
        ours.ask(("PING",))


# Never twice


@pytest.mark.parametrize("cut", [0, 1, 20])
def test_what_was_sent_is_not_sent_again(
    redis_client: redis.Redis, connected: Connect, proxy: wire.Proxy, cut: int
) -> None:
    """The answer is lost, the deed is done once: on one connection, without a second try."""
    proxy.cut_down = cut
    with connected(proxy.url) as server, pytest.raises(Unreachable):
        server.ask(("INCR", "counter"))
    assert redis_client.get("counter") == b"1"
    assert proxy.connections == 1


def test_a_command_that_outlives_its_timeout_is_not_sent_again(redis_client: redis.Redis, connected: Connect) -> None:
    redis_client.execute_command("CLIENT", "PAUSE", 150, "WRITE")
    with connected(timeout_s=0.05) as server, pytest.raises(Unreachable, match=r"no answer from .* within 50ms"):
        server.ask(("INCR", "counter"))
    redis_client.execute_command("CLIENT", "UNPAUSE")
    redis_client.ping()
    assert redis_client.get("counter") in {None, b"1"}


def test_a_connection_lost_between_two_commands_loses_or_runs_the_second_once(
    redis_client: redis.Redis, connected: Connect, proxy: wire.Proxy
) -> None:
    with connected(proxy.url) as server:
        server.ask(("PING",))
        proxy.cut()
        try:
            assert server.ask(("INCR", "counter")) == [1]
        except Unreachable:
            assert redis_client.get("counter") is None
        else:
            assert redis_client.get("counter") == b"1"


def test_a_failed_connection_names_the_server_without_its_secrets(connected: Connect) -> None:
    with connected("redis://user:s3cret@127.0.0.1:1/0") as server, pytest.raises(Unreachable) as caught:
        server.ask(("PING",))
    assert str(caught.value) == "cannot reach redis://***@127.0.0.1:1/0: connection refused"
    assert "s3cret" not in repr(caught.value.__cause__)


def test_errors_are_ours_whatever_the_command(redis_client: redis.Redis, ours: Server) -> None:
    unknown, arity, *_ = ours.try_ask(("NOSUCHCOMMAND", "x"), ("ZCARD",))
    assert isinstance(unknown, Refused)
    assert "does not know a command" in str(unknown)
    assert isinstance(arity, Refused)
    assert NotFound not in type(arity).__mro__


def test_connections_in_any_number_do_not_meet(redis_client: redis.Redis, connected: Connect) -> None:
    with connected() as one, connected() as two:
        assert one.ask(("ECHO", "1")) == [b"1"]
        assert two.ask(("ECHO", "2")) == [b"2"]


def test_a_unix_socket_serves_as_well(redis_client: redis.Redis, server: PrivateServer, connected: Connect) -> None:
    open_socket = partial(connected, f"unix://{server.socket}?db=3")
    with open_socket() as there:
        there.ask(("SET", "x", "1"))
    with redis.Redis(unix_socket_path=str(server.socket), db=3) as client:
        assert client.get("x") == b"1"
    assert redis_client.get("x") is None
