"""What goes over the wire: reads alone, bounded, few, and within what an observer may do."""

from __future__ import annotations

from typing import Any

import click
import pytest
import redis
import wire
import worlds
from cli.commands import CHANGES, LINES, OF_ITS_OWN, READS, WITHOUT_SERVER
from cli.running import Emqctl
from cli.stubs import TurnCounter, listening

from emqctl.branded import BrandedId
from emqctl.cli.root import group
from emqctl.demo.server import PrivateServer

AUDITOR = "+@read +@connection +@transaction +time ~emq:* ~{emq}:*"  # cli.md 3


def upper(command: list[bytes]) -> str:
    return command[0].decode().upper()


def test_every_command_is_known_as_reading_a_server_or_not() -> None:
    """A new command has to be put into one of the tables of tests/cli/commands.py."""
    assert set(group.commands) <= set(READS) | WITHOUT_SERVER | OF_ITS_OWN | CHANGES


@pytest.fixture
def reading(redis_client: redis.Redis) -> set[str]:
    """The commands an observer is allowed: they change nothing."""
    categories = ("read", "connection", "transaction")
    names = {name.upper() for each in categories for name in redis_client.acl_cat(each)}
    return names | {"TIME", "CLUSTER", "INFO", "CONFIG"}  # the last two where they are allowed


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_a_read_sends_read_commands_alone_on_one_connection_each_bounded(
    emqctl: Emqctl,
    world: worlds.World,
    redis_client: redis.Redis,
    monitor: wire.Monitor,
    reading: set[str],
    words: tuple[str, ...],
) -> None:
    before = worlds.snapshot(redis_client)
    connections = redis_client.info("stats")["total_connections_received"]
    with monitor() as commands:
        result = emqctl(*words)
    assert result.code in {0, 3, 4, 5, 9}
    assert commands or words[0] == "slot"  # before 7.0 MONITOR does not show CLUSTER
    assert {upper(command) for command in commands} <= reading
    for command in commands:
        assert is_bounded(command), command
    after = redis_client.info("stats")["total_connections_received"]
    assert after - connections <= 2  # emqctl's, and the monitor's
    changed = worlds.snapshot(redis_client)
    assert {key: value.content for key, value in changed.items()} == {k: v.content for k, v in before.items()}


def is_bounded(command: list[bytes]) -> bool:
    """Tell whether no command can return more than a page."""
    words = [word.upper() for word in command]
    if words[0] in {b"KEYS", b"SMEMBERS", b"HGETALL", b"HKEYS", b"HVALS", b"SORT"}:
        return False
    if words[0] == b"ZRANGE" and b"BYLEX" in words:
        return int(words[words.index(b"LIMIT") + 2]) <= 1000
    if words[0] in {b"ZRANGE", b"LRANGE"}:
        return 0 <= int(words[3]) - int(words[2]) <= 1000
    if words[0] in {b"SCAN", b"HSCAN", b"SSCAN", b"ZSCAN"}:
        return int(words[words.index(b"COUNT") + 1]) <= 1000
    return True


@pytest.mark.parametrize("words", [("key", "orders", "pending"), ("slot", "orders"), ("id", "JOB0Nb1VTbfnu4")])
def test_what_needs_no_server_asks_none(emqctl: Emqctl, words: tuple[str, ...]) -> None:
    assert emqctl(*words, url="redis://127.0.0.1:1/0").code == 0


def test_browse_reads_the_pending_set_by_the_protocols_own_command(
    emqctl: Emqctl, world: worlds.World, monitor: wire.Monitor
) -> None:
    with monitor() as commands:
        emqctl("browse", "orders", "-n", "20")
    expected = b"ZRANGE emq:{orders}:pending + - BYLEX REV LIMIT 0 20".split()
    assert [command for command in commands if upper(command) == "ZRANGE"] == [expected]
    assert commands[0] == [b"GET", b"{emq}:version"]


def test_browse_by_time_reads_between_two_ids(emqctl: Emqctl, world: worlds.World, monitor: wire.Monitor) -> None:
    low, high = emqctl("id", "--at", "2025-12-31").out.strip(), emqctl("id", "--at", "2026-01-01").out.strip()
    with monitor() as commands:
        emqctl("browse", "orders", "--flat", "--since", "2025-12-31", "--until", "2026-01-01", "--state", "dead")
        emqctl("browse", "orders", "--flat", "--since", "2025-12-31", "--until", "2026-01-01", "-n", "9")
    asked = f"ZRANGE emq:{{orders}}:pending ({high} [{low} BYLEX REV LIMIT 0 9".encode().split()
    assert asked in commands


def test_flat_depth_is_one_zcard(emqctl: Emqctl, world: worlds.World, monitor: wire.Monitor) -> None:
    with monitor() as commands:
        emqctl("depth", "orders", "--flat")
    counted = [command for command in commands if upper(command) not in {"GET", "TIME", "EXISTS"}]
    assert counted == [[b"ZCARD", b"emq:{orders}:pending"]]


# Round trips and bytes


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (("browse", "orders", "-n", "20"), 3),
        (("browse", "emails", "-n", "20"), 4),
        (("browse", "orders", "--state", "dead"), 3),
        (("browse", "orders", "--state", "active"), 3),
        (("browse", "orders", "--state", "scheduled"), 3),
        (("depth", "orders", "--flat"), 1),
        (("depth", "orders"), 2),
        (("depth", "emails"), 2),
        (("depth", "emails", "--states"), 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_round_trips_are_few(
    emqctl: Emqctl, world: worlds.World, server: PrivateServer, words: tuple[str, ...], most: int
) -> None:
    counter = TurnCounter(server.socket)
    with listening(counter) as port:
        result = emqctl(*words, url=f"redis://127.0.0.1:{port}/0")
    assert result.code == 0
    assert counter.connections == 1
    assert counter.turns <= most


def test_verbose_tells_the_round_trips_there_were(emqctl: Emqctl, world: worlds.World, proxy: wire.Proxy) -> None:
    result = emqctl("browse", "orders", "-v", url=proxy.url)
    assert f"in {proxy.round_trips} round trips" in result.err
    assert emqctl("browse", "orders", "-v", "-q", url=proxy.url).err == ""
    assert "round trips" in emqctl("browse", "orders", url=proxy.url, env={"EMQCTL_VERBOSE": "1"}).err


def test_a_thousand_lanes_take_one_round_trip_more(
    emqctl: Emqctl, redis_client: redis.Redis, server: PrivateServer
) -> None:
    lanes = [str(BrandedId("TEN", nth)) for nth in range(1000)]
    with redis_client.pipeline(transaction=False) as pipeline:
        pipeline.rpush("emq:{q}:ring", *lanes)
        for nth, lane in enumerate(lanes):
            for turn in range(3):
                job = str(BrandedId("JOB", (nth * 7 + turn) << 22 | nth))
                pipeline.zadd(f"emq:{{q}}:g:{lane}:pending", {job: 0})
                pipeline.hset(f"emq:{{q}}:job:{job}", mapping={"attempts": 0, "payload": "{}"})
        pipeline.execute()
    counter = TurnCounter(server.socket)
    with listening(counter) as port:
        result = emqctl("browse", "q", "-n", "20", url=f"redis://127.0.0.1:{port}/0")
    assert len(result.lines) == 20
    assert "20 of 3000 shown" in result.err
    assert (counter.connections, counter.turns) == (1, 4)


def test_a_page_of_huge_payloads_crosses_the_wire_as_lengths(
    emqctl: Emqctl, redis_client: redis.Redis, proxy: wire.Proxy
) -> None:
    """50 jobs of 5 MB, dead of errors as long, within 1 MB in both directions."""
    for state in ("pending", "dead"):
        for nth in range(50):
            job = str(BrandedId("JOB", nth << 22 | len(state)))
            row = f"emq:{{q}}:job:{job}"
            redis_client.hset(row, mapping={"attempts": 0, "payload": ""})
            redis_client.eval(  # made on the server: 250 MB need not cross the socket
                "redis.call('HSET', KEYS[1], 'payload', string.rep('x', 5e6), 'last_error', string.rep('e', 1e5))",
                1,
                row,
            )
            redis_client.zadd(f"emq:{{q}}:{state}", {job: 0})
        result = emqctl("browse", "q", "--state", state, "-n", "50", "-o", "jsonl", url=proxy.url)
        assert [each["payload_bytes"] for each in result.records] == [5_000_000] * 50
        assert proxy.up + proxy.down < 1_000_000
        redis_client.flushdb()


def test_whole_payloads_come_in_replies_of_a_few_megabytes(
    emqctl: Emqctl, redis_client: redis.Redis, proxy: wire.Proxy
) -> None:
    for nth in range(5):
        job = str(BrandedId("JOB", nth << 22))
        redis_client.hset(f"emq:{{q}}:job:{job}", mapping={"attempts": 0, "payload": b"x" * 5_000_000})
        redis_client.zadd("emq:{q}:pending", {job: 0})
    result = emqctl("browse", "q", "--payload", "-o", "jsonl", url=proxy.url)
    assert [len(each["payload"]) for each in result.records] == [5_000_000] * 5
    assert proxy.round_trips >= 2 + 5


# What an observer may do


def allow(client: redis.Redis, server: PrivateServer, *rules: str) -> str:
    """Give the user `watcher` these rights and no others; return the URL to connect with."""
    client.execute_command("ACL", "SETUSER", "watcher", "reset", "on", ">secret", *rules)
    return f"redis://watcher:secret@127.0.0.1:{server.port}/0"


@pytest.mark.parametrize(
    "words", [words for words in LINES if words[0] not in {"slot", "ping", "doctor"}], ids=" ".join
)
def test_an_observer_can_run_every_read(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, server: PrivateServer, words: tuple[str, ...]
) -> None:
    """With the rights the contract states, everything is as for a user who may do everything."""
    everything = emqctl(*words, "-o", "csv")
    url = allow(redis_client, server, *AUDITOR.split())
    observed = emqctl(*words, "-o", "csv", url=url)
    assert observed.code == everything.code
    assert without_ages(observed.out) == without_ages(everything.out)
    assert observed.err.replace("redis://***@", "redis://") == everything.err


@pytest.mark.parametrize(
    ("lacks", "note"),
    [
        ("-multi", "this user may not use MULTI: the figures are not of one moment"),
        ("-@transaction", "this user may not use MULTI: the figures are not of one moment"),
        ("-time", "this user may not ask for the server's time: ages and leases are by this machine's clock"),
        ("-info", None),
        ("-client", None),
        ("-type", None),
        ("-scan", None),
    ],
)
def test_a_weaker_user_still_gets_answers_with_a_note_where_they_are_weaker(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, server: PrivateServer, lacks: str, note: str | None
) -> None:
    lines = [
        ("browse", "emails"),
        ("browse", "orders", "--state", "active", "--columns", "id,lapsed"),
        ("browse", "orders", "--since", "520w"),
        ("depth", "emails"),
        ("depth", "emails", "--states"),
        ("depth", "emails", "orders", "invoices"),
    ]
    everything = [emqctl(*words) for words in lines]
    url = allow(redis_client, server, *AUDITOR.split(), lacks)
    observed = [emqctl(*words, url=url) for words in lines]
    assert [each.code for each in observed] == [0] * len(lines)
    assert [each.out for each in observed] == [each.out for each in everything]
    for each in observed:
        assert len(each.err.splitlines()) == len(set(each.err.splitlines()))
    notes = {line for each in observed for line in each.err.splitlines() if " shown, " not in line}
    assert notes == ({f"note: {note}"} if note else set())


def test_a_user_who_may_not_read_the_wire_version_reads_on_with_a_note(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, server: PrivateServer
) -> None:
    url = allow(redis_client, server, *AUDITOR.replace("~{emq}:*", "").split())
    result = emqctl("depth", "orders", url=url)
    assert (result.code, result.out) == (0, "443\n")
    assert result.err == "note: this user may not read the wire version: reading on as if it were known\n"
    assert emqctl("depth", "nope", url=url).code == 0


@pytest.mark.parametrize(
    ("rules", "words", "named"),
    [
        ("+@all -zcard ~*", ("depth", "orders"), "ZCARD emq:{orders}:pending"),
        ("+@all -zrange ~*", ("browse", "orders"), "ZRANGE emq:{orders}:pending"),
        ("+@all -exists ~*", ("depth", "orders"), "EXISTS emq:{orders}:pending"),
        ("+@all -scan ~*", ("depth",), "SCAN"),
        ("+@all ~{emq}:* ~emq:{emails}:*", ("depth", "orders"), "emq:{orders}:"),
        ("+@all -hmget ~*", ("browse", "orders"), "HMGET emq:{orders}:job:"),
        ("+@all -hstrlen ~*", ("browse", "orders"), "HSTRLEN emq:{orders}:job:"),
        ("+@all -hget ~*", ("browse", "orders"), "HGET emq:{orders}:job:"),
        ("+@all -zcount ~*", ("depth", "orders", "--states"), "ZCOUNT emq:{orders}:active"),
        ("+@all -zcard ~*", ("depth", "orders", "emails"), "ZCARD emq:{orders}:pending"),
    ],
)
def test_a_command_or_key_that_is_denied_is_named(
    emqctl: Emqctl,
    world: worlds.World,
    redis_client: redis.Redis,
    server: PrivateServer,
    rules: str,
    words: tuple[str, ...],
    named: str,
) -> None:
    """Exit 8, the command and the key, and which rights would help."""
    result = emqctl(*words, url=allow(redis_client, server, *rules.split()))
    assert (result.code, result.out) == (8, "")
    message, hint = result.err.splitlines()
    assert named in message
    assert "secret" not in result.err
    assert hint.startswith("hint: ")
    assert "~emq:*" in hint


def without_ages(csv: str) -> list[Any]:
    """Return rows of csv, the column of what is left of a lease taken out."""
    rows = [line.split(",") for line in csv.splitlines()]
    at = rows[0].index("lease_ms") if rows and "lease_ms" in rows[0] else None
    return [row if at is None else row[:at] + row[at + 1 :] for row in rows]


def test_options_common_to_all_are_on_every_command() -> None:
    for command in group.commands.values():
        assert {"-o", "-u"} <= {name for each in command.params for name in each.opts}
        assert isinstance(command, click.Command)
