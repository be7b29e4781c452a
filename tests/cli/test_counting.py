"""``depth``: numbers that equal what is recorded, and queues that are idle, absent or broken."""

from __future__ import annotations

from typing import Any

import pytest
import redis
import worlds
from cli.running import Emqctl

STATES = ["queue", "pending", "lanes", "waiting", "active", "lapsed", "scheduled", "overdue", "dead", "completed"]
STATES += ["failed"]


def test_one_queue_is_the_bare_number_of_everything_that_waits(emqctl: Emqctl, world: worlds.World) -> None:
    """The pending set and the known lanes; an odd name is noted and counted all the same."""
    for name, known in world.queues.items():
        if name != "wrongtype":
            result = emqctl("depth", name)
            assert (result.code, result.out) == (0, f"{known['pending'] + known.get('lane_pending', 0)}\n")
            assert emqctl("depth", name, tty=True).out == result.out


def test_several_queues_are_a_row_each_in_the_order_given(emqctl: Emqctl, world: worlds.World) -> None:
    assert emqctl("depth", "orders", "emails", "idle").summary == (0, "orders\t443\nemails\t67\nidle\t0\n", "")


def test_no_queue_named_is_every_queue_there_is(emqctl: Emqctl, world: worlds.World) -> None:
    """Keys that only look like EchoMQ make no queue; names outside the grammar do."""
    result = emqctl("depth", "-o", "jsonl")
    names = [record.get("queue", record.get("queue_base64")) for record in result.records]
    odd = [name for name in world.raw["discovery"]["outside_grammar"] if isinstance(name, str) and name != "emq"]
    assert sorted(names) == sorted([*world.raw["discovery"]["queues"], *odd, "//4="])
    assert names[:-1] == sorted(names[:-1])
    assert result.code == 3  # wrongtype


def test_states_equal_the_recorded_world_queue_by_queue(emqctl: Emqctl, world: worlds.World) -> None:
    found = {
        record["queue"]: record for record in emqctl("depth", "--states", "-o", "jsonl").records if "queue" in record
    }
    for name in world.queues:
        row = found.pop(name)
        if name == "wrongtype":
            for kind in ("pending", "dead"):
                assert (row[kind], row[f"{kind}_error"][:4]) == (None, "emq:")
            continue
        assert list(row) == STATES
        assert row == world.counts(name)
    assert found == {}


def test_flat_counts_the_pending_set_alone(emqctl: Emqctl, world: worlds.World) -> None:
    for name, known in world.queues.items():
        if name != "wrongtype":
            assert emqctl("depth", name, "--flat").out == f"{known['pending']}\n"


def test_states_of_one_queue_are_a_row_not_a_number(emqctl: Emqctl, world: worlds.World) -> None:
    assert emqctl("depth", "orders", "--states").summary == (
        0,
        "orders\t443\t0\t443\t12\t4\t16\t5\t149\t25\t150\n",
        "",
    )


def test_a_column_chosen_for_one_queue_is_a_row_too(emqctl: Emqctl, world: worlds.World) -> None:
    assert emqctl("depth", "orders", "--columns", "waiting,queue").out == "443\torders\n"
    assert emqctl("depth", "orders", "--states", "--columns", "dead,dead").out == "149\t149\n"


def test_machine_formats_show_a_row_for_one_queue_too(emqctl: Emqctl, world: worlds.World) -> None:
    assert emqctl("depth", "orders", "-o", "json").json == {
        "schema": "emqctl/depth/1",
        "records": [{"queue": "orders", "waiting": 443}],
        "more": False,
    }
    assert emqctl("depth", "orders", "-o", "jsonl").out == '{"queue": "orders", "waiting": 443}\n'
    assert emqctl("depth", "orders", "-o", "csv").out == "queue,waiting\norders,443\n"
    assert emqctl("depth", "orders", "-o", "ids").out == "orders\n"


# Idle or absent


@pytest.fixture
def deployment(redis_client: redis.Redis) -> redis.Redis:
    """A database with a wire version and one busy queue."""
    redis_client.set("{emq}:version", "echomq:3.0.0")
    redis_client.zadd("emq:{orders}:pending", {"JOB0Nb1VTbfnu4": 0})
    return redis_client


@pytest.mark.parametrize(
    ("key", "write"),
    [
        ("pending", ("ZADD", 0, "JOB0Nb1VTbfnu4")),
        ("active", ("ZADD", 0, "JOB0Nb1VTbfnu4")),
        ("schedule", ("ZADD", 0, "JOB0Nb1VTbfnu4")),
        ("dead", ("ZADD", 0, "JOB0Nb1VTbfnu4")),
        ("ring", ("RPUSH", "TEN0IlTd9mDCbY")),
        ("paused", ("SADD", "TEN0IlTd9mDCbY")),
        ("gactive", ("HSET", "TEN0IlTd9mDCbY", 0)),
        ("glimit", ("HSET", "TEN0IlTd9mDCbY", 1)),
        ("gweight", ("HSET", "TEN0IlTd9mDCbY", 1)),
        ("wake", ("LPUSH", 1)),
        ("meta", ("HSET", "max", 1)),
        ("limiter", ("SET", 1)),
        ("repeat", ("ZADD", 0, "daily")),
        ("metrics:completed", ("HSET", "count", 1)),
        ("metrics:failed", ("HSET", "count", 1)),
        ("flow:outbox", ("RPUSH", "x")),
        ("job:JOB0Nb1VTbfnu4", ("HSET", "state", "awaiting_children")),  # these are found by a scan
        ("g:TEN0IlTd9mDCbY:pending", ("ZADD", 0, "JOB0Nb1VTbfnu4")),
        ("repeat:daily", ("HSET", "every_ms", 1)),
        ("de:order-1", ("SET", "JOB0Nb1VTbfnu4")),
        ("stream:logins", ("XADD", "*", "id", "EVT0JYvJEGuK80")),
    ],
)
def test_a_queue_is_seen_when_any_of_its_keys_exists(
    emqctl: Emqctl, deployment: redis.Redis, key: str, write: tuple[Any, ...]
) -> None:
    verb, *words = write
    deployment.execute_command(verb, f"emq:{{q[*]}}:{key}", *words)
    assert emqctl("depth", "q[*]", "-q").summary[::2] == (0, "")
    assert "exists" not in emqctl("depth", "q[*]").err
    assert emqctl("browse", "q[*]", "-q").code == 0


def test_a_queue_not_seen_counts_as_idle_with_near_names(emqctl: Emqctl, deployment: redis.Redis) -> None:
    for words in (["depth", "ordrs"], ["depth", "ordrs", "--flat"]):
        assert emqctl(*words).summary == (
            0,
            "0\n",
            "note: no key of queue 'ordrs' exists: it is idle or misspelt; did you mean orders?\n",
        )
    assert emqctl("depth", "ordrs", "--states", "-q").summary == (0, "ordrs" + "\t0" * 10 + "\n", "")


def test_a_queue_not_seen_has_nothing_to_look_at(emqctl: Emqctl, deployment: redis.Redis) -> None:
    for state in ("pending", "active", "scheduled", "dead"):
        result = emqctl("browse", "ordrs", "--state", state)
        assert result.summary == (
            4,
            "",
            f"emqctl: no queue 'ordrs' at {emqctl.url}\nhint: did you mean orders?\n",
        )


def test_a_name_near_no_other_is_pointed_to_the_list(emqctl: Emqctl, deployment: redis.Redis) -> None:
    assert emqctl("browse", "zzz").err.endswith("\nhint: emqctl depth lists the queues there are\n")


def test_an_idle_queue_that_is_seen_has_no_jobs_and_that_is_fine(emqctl: Emqctl, world: worlds.World) -> None:
    assert emqctl("browse", "idle").summary == (0, "", "")
    assert emqctl("depth", "idle").summary == (0, "0\n", "")


@pytest.mark.parametrize(
    "words", [("depth",), ("depth", "orders"), ("depth", "orders", "--flat"), ("browse", "orders")]
)
def test_a_database_without_a_deployment_is_named_with_its_number(
    emqctl: Emqctl, redis_client: redis.Redis, words: tuple[str, ...]
) -> None:
    """Foreign keys are no deployment; the hint names the port of the reference."""
    redis_client.set("session:1", "x")
    result = emqctl(*words)
    assert (result.code, result.out) == (4, "")
    message, hint = result.err.splitlines()
    assert message == f"emqctl: no EchoMQ deployment at {emqctl.url}"
    assert "database" in hint
    assert "6390" in hint


def test_another_database_of_the_same_server_is_another_deployment(emqctl: Emqctl, deployment: redis.Redis) -> None:
    url = emqctl.url.removesuffix("0") + "3"
    result = emqctl("depth", "orders", url=url)
    assert (result.code, result.err.splitlines()[0]) == (4, f"emqctl: no EchoMQ deployment at {url}")


def test_a_queue_without_a_wire_version_is_counted_where_its_keys_are(
    emqctl: Emqctl, redis_client: redis.Redis
) -> None:
    redis_client.zadd("emq:{orders}:pending", {"JOB0Nb1VTbfnu4": 0})
    assert emqctl("depth", "orders").summary == (0, "1\n", "")
    assert emqctl("depth").summary == (0, "orders\t1\n", "")


def test_a_deployment_without_queues_has_none_to_list(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    redis_client.set("{emq}:version", "echomq:3.0.0")
    assert emqctl("depth").summary == (0, "", "")
    assert emqctl("depth", "-o", "json").json["records"] == []


# Wire version


@pytest.mark.parametrize("version", ["echomq:2.4.1", "echomq:2.4.2", "echomq:3.0.0", None])
def test_reads_say_nothing_of_a_known_or_absent_wire_version(
    emqctl: Emqctl, deployment: redis.Redis, version: str | None
) -> None:
    deployment.delete("{emq}:version") if version is None else deployment.set("{emq}:version", version)
    assert emqctl("depth", "orders").summary == (0, "1\n", "")


@pytest.mark.parametrize("version", [b"echomq:4.0.0", b"", b"\xff\x1b[31m\n"])
def test_reads_warn_of_an_unknown_wire_version_and_go_on(
    emqctl: Emqctl, deployment: redis.Redis, version: bytes
) -> None:
    deployment.set("{emq}:version", version)
    result = emqctl("depth", "orders")
    assert (result.code, result.out) == (0, "1\n")
    assert result.err.startswith("note: unknown wire version ")
    assert result.err.count("\n") == 1
    assert "\x1b" not in result.err


def test_a_wire_version_of_the_wrong_type_is_named_with_the_type_it_has(
    emqctl: Emqctl, deployment: redis.Redis
) -> None:
    deployment.delete("{emq}:version")
    deployment.rpush("{emq}:version", "x")
    result = emqctl("depth", "orders")
    assert result.summary == (5, "", "emqctl: {emq}:version is a list, not a string\n")


# Keys of the wrong type, counters that are no numbers


@pytest.mark.parametrize(
    ("key", "should"),
    [
        ("pending", "zset"),
        ("ring", "list"),
        ("paused", "set"),
        ("gactive", "hash"),
        ("glimit", "hash"),
        ("gweight", "hash"),
        ("g:TEN0IlTd9mDCbY:pending", "zset"),
    ],
)
def test_a_key_of_the_wrong_type_is_an_error_for_one_queue_and_a_cell_among_several(
    emqctl: Emqctl, deployment: redis.Redis, key: str, should: str
) -> None:
    if key.startswith("g:"):
        deployment.rpush("emq:{orders}:ring", "TEN0IlTd9mDCbY")
    deployment.delete(f"emq:{{orders}}:{key}")
    deployment.setbit(f"emq:{{orders}}:{key}", 0, 1)
    deployment.zadd("emq:{other}:pending", {"JOB0Nb1VTbfnu4": 0})
    for words in (["depth", "orders"], ["browse", "orders"]):
        assert emqctl(*words).summary == (5, "", f"emqctl: emq:{{orders}}:{key} is a string, not a {should}\n")
    assert emqctl("depth", "orders", "other").summary == (3, f"orders\t! string, not {should}\nother\t1\n", "")
    row, other = emqctl("depth", "orders", "other", "-o", "jsonl").records
    assert row == {
        "queue": "orders",
        "waiting": None,
        "waiting_error": f"emq:{{orders}}:{key} is a string, not a {should}",
    }
    assert other == {"queue": "other", "waiting": 1}
    csv = emqctl("depth", "orders", "other", "-o", "csv").records
    assert [each["waiting"] for each in csv] == ["", "1"]
    assert [each["waiting_error"] for each in csv] == [row["waiting_error"], ""]


@pytest.mark.parametrize("key", ["active", "schedule", "dead", "metrics:completed", "metrics:failed"])
def test_states_show_a_key_of_the_wrong_type_in_its_own_cell(emqctl: Emqctl, deployment: redis.Redis, key: str) -> None:
    deployment.set(f"emq:{{orders}}:{key}", "x")
    row = emqctl("depth", "orders", "orders", "--states", "-o", "jsonl")
    assert row.code == 3
    unread = [name for name in row.records[0] if name.endswith("_error")]
    assert unread
    assert row.records[0]["waiting"] == 1
    alone = emqctl("depth", "orders", "--states")
    assert (alone.code, alone.out) == (5, "")
    assert f"emq:{{orders}}:{key} is a string" in alone.err


@pytest.mark.parametrize("count", [b"many", b"", b"-1", b"1.5", b"\xff\x1b[31m", b"9" * 5000])
def test_a_counter_that_is_no_number_is_shown_as_an_error_never_as_0(
    emqctl: Emqctl, deployment: redis.Redis, count: bytes
) -> None:
    """It is the deployment's fault, not the command line's: exit 5, never 2."""
    deployment.hset("emq:{orders}:metrics:completed", "count", count)
    several = emqctl("depth", "orders", "orders", "--states")
    assert several.code == 3
    assert several.cells[0][STATES.index("completed")].startswith("! ")
    assert "\x1b" not in several.out
    alone = emqctl("depth", "orders", "--states")
    assert (alone.code, alone.out) == (5, "")
    assert alone.err.count("\n") == 1


def test_whole_numbers_beyond_2_to_the_53_are_read_whole(emqctl: Emqctl, deployment: redis.Redis) -> None:
    deployment.hset("emq:{orders}:metrics:completed", "count", 2**63 - 1)
    assert emqctl("depth", "orders", "--states", "--columns", "completed").out == f"{2**63 - 1}\n"


# Lanes


def test_lanes_named_in_any_of_the_five_keys_are_counted_once(emqctl: Emqctl, deployment: redis.Redis) -> None:
    """A lane on the ring twice, and in every other key too, counts once; a lane named nowhere is not known."""
    groups = [f"TEN0IlTd9mDCb{letter}" for letter in "YZabcd"]
    for group in groups:
        deployment.zadd(f"emq:{{orders}}:g:{group}:pending", {f"JOB0Nb1VTbfn{group[-1]}0": 0})
    ring, paused, active, limit, weight, _unknown = groups
    deployment.rpush("emq:{orders}:ring", ring, ring, weight)
    deployment.sadd("emq:{orders}:paused", paused, ring)
    deployment.hset("emq:{orders}:gactive", active, 1)
    deployment.hset("emq:{orders}:glimit", mapping={limit: 1, ring: 2})
    deployment.hset("emq:{orders}:gweight", weight, 1)
    assert emqctl("depth", "orders").out == "6\n"
    assert emqctl("depth", "orders", "--states", "--columns", "pending,lanes,waiting").out == "1\t5\t6\n"


def test_a_lane_name_that_is_no_id_is_no_lane(emqctl: Emqctl, deployment: redis.Redis) -> None:
    deployment.rpush("emq:{orders}:ring", "eu", b"\xff", "", "TEN0IlTd9mDCbY:x", "zzz0IlTd9mDCbY")
    assert emqctl("depth", "orders").summary == (0, "1\n", "")
    assert emqctl("browse", "orders", "-o", "ids").code == 0


def test_more_lanes_than_a_page_are_all_counted(emqctl: Emqctl, deployment: redis.Redis) -> None:
    """2,500 lanes on the ring, other 2,500 limited: each is read in pages of 1,000."""
    with deployment.pipeline(transaction=False) as pipeline:
        for nth in range(5000):
            group = f"TEN0IlTd{nth:06d}"
            pipeline.zadd(f"emq:{{orders}}:g:{group}:pending", {f"JOB0Nb1V{nth:06d}": 0})
            if nth % 2:
                pipeline.rpush("emq:{orders}:ring", group)
            else:
                pipeline.hset("emq:{orders}:glimit", group, 1)
        pipeline.execute()
    assert emqctl("depth", "orders").out == "5001\n"
    assert emqctl("browse", "orders", "-n", "0", "-o", "ids").out.count("\n") == 5001
