"""``ping`` in the core: what kind of server answers, what a user may do there, and that nothing is executed to tell."""

from __future__ import annotations

import os
import stat
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import redis
import servers
import wire
import worlds
from servers import Connect

from emqctl import permissions, scripts
from emqctl.connection import Server
from emqctl.demo.server import PrivateServer, find_binary
from emqctl.errors import Denied, EmqError, NoAnswer, Refused, Unreachable
from emqctl.keyspace import VERSION_KEY, QueueKeys
from emqctl.permissions import commands_of
from emqctl.permissions import permissions as asked
from emqctl.ping import ping

CHANGES = tuple(permissions.changes())
EVERYTHING = ("look", *CHANGES)
NAMED = tuple(kind for kind in CHANGES if kind not in permissions.FINDING)  # changes of what is named
KEYS = QueueKeys("q")
WRITES = [("SET", KEYS.dead, "x"), ("DEL", KEYS.pending), ("HSET", KEYS.row(b"x"), "a", "b"), ("FLUSHALL",)]


@pytest.fixture
def as_user(redis_client: redis.Redis, server: PrivateServer, connected: Connect) -> Connect:
    """Connect as a user with these rights and no others."""

    def to(rules: str) -> AbstractContextManager[Server]:
        redis_client.execute_command("ACL", "SETUSER", "watcher", "reset", "on", ">secret", *rules.split())
        return connected(server.url.replace("//", "//watcher:secret@"))

    return to


# The server


def test_a_server_is_told_by_kind_version_and_role(
    redis_client: redis.Redis, connected: Connect, notes: list[str]
) -> None:
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    about = redis_client.info("server")
    kind = str(about.get("server_name", "redict" if "redict_version" in about else "redis"))
    with connected() as ours:
        answer = ping(ours)
    assert (answer.kind, answer.version) == (kind, about[f"{kind}_version"])
    assert (answer.topology, answer.role, answer.database, answer.user) == ("standalone", "primary", 0, "default")
    assert (answer.wire_version, answer.known) == ("echomq:3.0.0", True)
    assert (answer.may, answer.may_not) == (EVERYTHING, {})
    assert 0 < answer.round_trip_ms < 1000
    assert notes == []


def test_the_round_trip_is_the_wires(
    redis_client: redis.Redis, connected: Connect, proxy: wire.Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the time it takes to connect, and the shortest of three."""
    count = proxy.count
    naps = iter([0.2, 0.2, 0.1, 0.15])  # HELLO, then three times PING

    def slow(size: int, *, up: bool, turned: bool) -> None:
        if not up:
            time.sleep(next(naps, 0))
        count(size, up=up, turned=turned)

    monkeypatch.setattr(proxy, "count", slow)
    with connected(proxy.url) as ours:
        assert 100 <= ping(ours).round_trip_ms < 150


@pytest.mark.parametrize(
    ("version", "known"), [("echomq:2.4.1", True), ("echomq:4.0.0", False), (b"\xff", False), (None, None)]
)
def test_the_wire_version_is_shown_known_or_not(
    redis_client: redis.Redis, connected: Connect, notes: list[str], version: str | bytes | None, *, known: bool | None
) -> None:
    if version is not None:
        redis_client.set(VERSION_KEY, version)
    with connected() as ours:
        answer = ping(ours)
    assert answer.wire_version == (
        version.decode("utf-8", "surrogateescape") if isinstance(version, bytes) else version
    )
    assert answer.known is known
    assert len(notes) == (0 if known else 1)
    assert ("6390" in notes[0] if version is None else "unknown wire version" in notes[0]) if notes else True
    assert redis_client.get(VERSION_KEY) == (version.encode() if isinstance(version, str) else version)


def test_a_database_and_a_user_are_those_of_the_connection(
    redis_client: redis.Redis, server: PrivateServer, connected: Connect
) -> None:
    redis_client.execute_command("ACL", "SETUSER", "ops", "on", ">p", "+@all", "~*")
    with connected(server.url.replace("//", "//ops:p@").removesuffix("0") + "3") as ours:
        answer = ping(ours)
    assert (answer.database, answer.user) == (3, "ops")
    assert "p@" not in answer.server


def test_a_replica_may_be_looked_at_and_nothing_changed(
    server: PrivateServer, redis_client: redis.Redis, connected: Connect
) -> None:
    options = ("--replicaof", "127.0.0.1", str(server.port))
    with PrivateServer(find_binary(os.environ), *options, tcp=True) as replica, connected(replica.url) as ours:
        answer = ping(ours)
    assert (answer.topology, answer.role, answer.may) == ("standalone", "replica", ("look",))
    assert answer.may_not == dict.fromkeys(CHANGES, "is a replica: nothing can be changed there")


def test_a_node_of_a_cluster_answers_whatever_slots_it_serves(connected: Connect, notes: list[str]) -> None:
    """Permissions do not depend on the slots; the wire version stands on one node."""
    options = ("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
    with PrivateServer(find_binary(os.environ), *options, tcp=True) as node, servers.connect(node) as client:
        with connected(node.url) as ours, pytest.raises(Unreachable, match="cluster is down"):
            ping(ours)  # nobody serves a slot
        client.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
        deadline = time.monotonic() + 20
        while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        client.set(VERSION_KEY, "echomq:3.0.0")
        with connected(node.url) as ours:
            answer = ping(ours)
    assert (answer.topology, answer.role, answer.wire_version, answer.may) == (
        "cluster",
        "primary",
        "echomq:3.0.0",
        EVERYTHING,
    )
    assert notes == []


def test_a_sentinel_is_told(connected: Connect, tmp_path: Path, notes: list[str]) -> None:
    program = tmp_path / "sentinel"
    program.write_text(
        f'#!/bin/sh\n: >{tmp_path}/conf\nexec {find_binary(os.environ)} {tmp_path}/conf --sentinel "$@"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with PrivateServer(program, tcp=True) as sentinel, connected(sentinel.url) as ours:
        answer = ping(ours)
    assert (answer.topology, answer.role, answer.wire_version, answer.may, answer.may_not) == ("sentinel", *[None] * 4)
    assert notes == ["a sentinel holds no queues: name the primary it watches"]


def test_where_hello_is_not_known_info_tells_the_same(connected: Connect, notes: list[str]) -> None:
    with PrivateServer(find_binary(os.environ), tcp=True) as plain, connected(plain.url) as ours:
        expected = ping(ours)
    with PrivateServer(find_binary(os.environ), "--rename-command", "HELLO", "", tcp=True) as old:
        with connected(old.url) as ours:
            answer = ping(ours)
        names = ("kind", "version", "topology", "role", "may")
        assert [getattr(answer, name) for name in names] == [getattr(expected, name) for name in names]
        notes.clear()
        with servers.connect(old) as client:
            client.execute_command("ACL", "SETUSER", "default", "-info")
        with connected(old.url) as ours:
            answer = ping(ours)
        assert [getattr(answer, name) for name in names] == [*[None] * 4, EVERYTHING]
        assert notes[0] == "this user may use neither HELLO nor INFO: what kind of server this is cannot be told"


# What this user may do


@pytest.mark.parametrize(
    ("rules", "may", "missing"),
    [
        ("+@all ~*", EVERYTHING, None),
        ("+@read +@connection +@transaction +time ~emq:* ~{emq}:*", ("look",), "+script|load"),
        ("+@all -hset ~*", ("look", "obliterate", "remove"), "+hset ~emq:*"),
        ("+@all -zcount ~*", NAMED, "+zcount ~emq:*"),
        ("+@all -scan ~*", NAMED, "+scan"),
        ("+@all -evalsha ~*", ("look",), "+evalsha ~emq:*"),
        ("+@all ~emq:*", ("look",), "+get ~{emq}:*"),
        ("+@all ~emq:{orders}:* ~{emq}:*", (), "+exists ~emq:*"),
        ("+@connection +@transaction ~*", (), None),
        ("+@all -time -type -info -client ~*", ("look",), None),
    ],
)  # fmt: skip
def test_what_a_user_may_do_is_told_with_the_first_rule_that_is_missing(
    as_user: Connect, rules: str, may: tuple[str, ...], missing: str | None
) -> None:
    with as_user(rules) as theirs:
        found = asked(theirs)
        assert set(found.may) == set(may)
        assert set(found.may_not) == set(EVERYTHING) - set(found.may)
        if missing:
            assert set(found.may_not.values()) == {missing}
        assert theirs.ask_this_node(("PING",)) == b"PONG"  # the connection is as before


def test_a_user_without_multi_is_told_nothing_rather_than_risking_anything(
    as_user: Connect, notes: list[str], monitor: wire.Monitor
) -> None:
    with as_user("+@all -multi ~*") as theirs:
        with pytest.raises(Denied, match="MULTI"):
            asked(theirs)
        with monitor() as commands:
            answer = ping(theirs)
    assert (answer.may, answer.may_not) == (None, None)
    assert notes[-1] == "this user may not use MULTI: what it may do cannot be told without doing it"
    assert {command[0].upper() for command in commands} <= {b"HELLO", b"PING", b"GET", b"TIME"}


def test_nothing_is_executed(
    world: worlds.World, redis_client: redis.Redis, connected: Connect, monitor: wire.Monitor
) -> None:
    before = worlds.snapshot(redis_client)
    redis_client.config_resetstat()
    with monitor() as commands, connected() as ours:
        ping(ours)
    assert {command[0].upper() for command in commands} <= {b"PING", b"GET", b"TIME", b"MULTI", b"DISCARD"}
    ran = set(redis_client.info("commandstats"))
    assert not ran & {f"cmdstat_{name.lower()}" for name in permissions._WELL_FORMED if name not in {"GET", "TIME"}}
    after = worlds.snapshot(redis_client)
    assert {key: value.content for key, value in after.items()} == {key: value.content for key, value in before.items()}
    assert redis_client.script_exists("e0e1f9fabfc9d4800c877a703b823ac0578ff8db") == [False]  # SHA1 of `return 1`


@pytest.mark.parametrize("passed", [0, 3, 5, 14, 40])
def test_a_connection_that_breaks_while_asking_executes_nothing(
    redis_client: redis.Redis, connected: Connect, proxy: wire.Proxy, passed: int
) -> None:
    """The answer to MULTI may be lost, come in part, or be the last there is."""
    redis_client.set(KEYS.pending, "here")
    with connected(proxy.url) as ours:
        ours.ask_this_node(("PING",))
        proxy.cut_down = proxy.down + passed
        with pytest.raises(NoAnswer):
            ours.refusals(WRITES)
        proxy.cut_down = None
        for _ in range(2):
            with pytest.raises(NoAnswer):
                ours.refusals(WRITES)
    assert (redis_client.get(KEYS.pending), redis_client.dbsize()) == (b"here", 1)
    assert proxy.connections == 1


def test_a_connection_made_anew_is_never_asked_outside_of_multi(
    redis_client: redis.Redis, connected: Connect, proxy: wire.Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server hangs up after it has answered MULTI, before the commands are sent."""
    redis_client.set(KEYS.pending, "here")
    send = Server._send

    def cut_after(self: Server, commands: list[tuple[str, ...]]) -> list[object]:
        replies = send(self, commands)
        if commands[0] == ("MULTI",):
            proxy.cut()
            time.sleep(0.05)
        return replies

    monkeypatch.setattr(Server, "_send", cut_after)
    with connected(proxy.url) as ours:
        ours.ask_this_node(("PING",))
        for _ in range(3):
            with pytest.raises(NoAnswer):
                ours.refusals(WRITES)
    assert (redis_client.get(KEYS.pending), redis_client.dbsize()) == (b"here", 1)


def test_a_run_that_is_ended_while_asking_leaves_nothing_begun(
    redis_client: redis.Redis, connected: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Server._send

    def interrupted(self: Server, commands: list[tuple[str, ...]]) -> list[object]:
        if commands[-1] == ("DISCARD",):
            send(self, commands[:-1])
            raise KeyboardInterrupt
        return send(self, commands)

    monkeypatch.setattr(Server, "_send", interrupted)
    with connected() as ours:
        with pytest.raises(KeyboardInterrupt):
            ours.refusals(WRITES)
        with pytest.raises(NoAnswer):
            ours.ask(("EXEC",))
    assert redis_client.dbsize() == 0


def test_a_user_who_may_not_discard_loses_the_connection_and_nothing_else(
    redis_client: redis.Redis, as_user: Connect
) -> None:
    with as_user("+@all -discard ~*") as theirs:
        assert asked(theirs).may == EVERYTHING
        with pytest.raises(NoAnswer):
            theirs.ask(("EXEC",))
    assert redis_client.dbsize() == 0


def test_refusals_stand_in_the_order_of_the_commands(as_user: Connect) -> None:
    with as_user("+@all -set -flushall ~emq:{q}:*") as theirs:
        found = theirs.refusals([*WRITES, ("GET", "x"), ("NOSUCH",), ("GET",)])
    kinds: list[type[EmqError] | None] = [Denied, None, None, Denied, Denied, Refused, Refused]
    assert [
        kind is None if reply is None else kind and isinstance(reply, kind)
        for reply, kind in zip(found, kinds, strict=True)
    ] == [True] * 7


# The lists


def test_every_command_that_is_asked_for_is_well_formed(redis_client: redis.Redis, connected: Connect) -> None:
    """A command of the wrong length would be refused for that, and taken for one that may be run."""
    with connected() as ours:
        names = list(permissions._WELL_FORMED)
        found = dict(zip(names, ours.refusals([permissions._WELL_FORMED[name] for name in names]), strict=True))
    assert {name: refusal for name, refusal in found.items() if refusal} == {}


@pytest.mark.parametrize("name", scripts.names())
def test_the_commands_of_every_program_can_be_asked_for(name: str) -> None:
    assert commands_of(name) <= set(permissions._WELL_FORMED)
    assert {"LREM", "RPUSH"} <= commands_of(name)


def test_a_program_is_taken_to_send_what_it_can_come_to_and_no_more() -> None:
    assert {"ZADD", "ZREM", "HDEL", "HSET", "HINCRBY", "LRANGE", "SISMEMBER", "ZCARD"} <= commands_of("requeue")
    assert commands_of("requeue") & {"DEL", "SADD", "TIME", "UNLINK"} == set()
    assert commands_of("edit") & {"ZADD", "ZREM", "HINCRBY"} == set()
    assert {"SADD", "SREM", "HDEL"} <= commands_of("control")
    assert "HPTTL" not in set().union(*map(commands_of, scripts.names()))  # old servers do not know it
