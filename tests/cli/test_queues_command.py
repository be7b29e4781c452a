"""``queues``: one row a queue, as printed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
import worlds
from cli.running import Emqctl

from emqctl.branded import BrandedId
from emqctl.cli import progress
from emqctl.demo.server import PrivateServer
from emqctl.render import FORMATS

SHOWN = ["queue", "waiting", "active", "lapsed", "dead", "oldest", "paused"]
FIELDS = [*SHOWN, "pending", "lanes", "scheduled", "overdue", "completed", "failed"]
CASES = {"queues.all": "queues", "queues.every_column": "queues --columns all"}
STRANGE = (
    "note: 7 keys begin like those of a queue and belong to none: "
    "emq:nobraces:pending, emq:{a{b}c}:pending, emq:{emq}:pending, …\n"
)


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_output_is_known(
    emqctl: Emqctl, world: worlds.World, golden: Callable[[str, str], None], case: str, output: str
) -> None:
    result = emqctl(*CASES[case].split(), "-o", output, "--time", "iso")
    text = "".join([f"$ emqctl {CASES[case]} -o {output}\n", result.out, result.err, f"[exit {result.code}]\n"])
    golden(f"{case}.{output}", text)


def test_people_see_seven_columns_and_machines_all(emqctl: Emqctl, world: worlds.World) -> None:
    assert emqctl("queues", "--color", "never", tty=True).lines[0].split() == SHOWN
    assert {len(row) for row in emqctl("queues").cells} == {len(SHOWN)}
    assert {len(row) for row in emqctl("queues", "--columns", "all").cells} == {len(FIELDS)}
    assert emqctl("queues", "-o", "csv").lines[0].split(",")[: len(FIELDS)] == FIELDS
    assert list(emqctl("queues", "-o", "jsonl").records[0]) == FIELDS


def test_the_world_is_as_recorded_and_one_broken_queue_does_not_hide_the_others(
    emqctl: Emqctl, world: worlds.World
) -> None:
    result = emqctl("queues", "-o", "json")
    assert result.code == 3
    rows = {row["queue"]: row for row in result.records if "queue" in row}
    assert set(rows) == set(world.queues)
    assert [row for row in result.records if row.get("queue_base64") == "//4="]
    for name, known in world.queues.items():
        if name != "wrongtype":
            assert rows[name]["waiting"] == known["pending"] + known.get("lane_pending", 0)
            assert rows[name]["paused"] is known["paused"]
            assert (rows[name]["completed"], rows[name]["failed"]) == (known["completed"], known["failed"])
    assert rows["wrongtype"]["dead"] is None
    assert rows["wrongtype"]["dead_error"] == "emq:{wrongtype}:dead is a list, not a zset"


def test_depth_without_names_counts_the_same_but_for_lanes_that_no_key_names(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis
) -> None:
    columns = ["--columns", "queue,pending,lanes,waiting,active,lapsed,scheduled,overdue,dead,completed,failed"]
    assert emqctl("queues", *columns).out == emqctl("depth", "--states", *columns).out
    redis_client.zadd("emq:{orders}:g:TEN0IlTd9mDCbY:pending", {"JOB0Nb1VTbfnu4": 0})
    counts = {row[0]: row[1] for row in emqctl("queues", "--columns", "queue,lanes").cells}
    assert (counts["orders"], emqctl("depth", "orders").out) == ("1", "443\n")


def test_keys_that_belong_to_no_queue_are_noted_once(emqctl: Emqctl, world: worlds.World) -> None:
    assert emqctl("queues").err == STRANGE
    assert emqctl("queues", "-q").err == ""


def test_one_such_key_is_spoken_of_as_one(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    redis_client.set("emq:{orders}", "x")
    redis_client.hset("emq:{orders}:meta", "max", 1)
    assert emqctl("queues").err == "note: 1 key begins like those of a queue and belongs to none: emq:{orders}\n"


def test_a_hostile_key_cannot_steer_a_terminal(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    redis_client.set("emq:\x1b[31m\u202e", "x")
    redis_client.hset("emq:{\u202eq [red]}:meta", "max", 1)
    for output in ("table", "plain"):
        result = emqctl("queues", "-o", output, "--color", "never", tty=True)
        assert not any(character in result.out + result.err for character in "\x1b\u202e")
        assert r"\u202eq [red]" in result.out


def test_no_queue_and_no_version_is_no_deployment(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    redis_client.set("session:1", "x")
    assert emqctl("queues").code == 4
    redis_client.set("{emq}:version", "echomq:3.0.0")
    assert emqctl("queues").summary == (0, "", "")


def test_the_names_alone_are_a_list_of_queues(emqctl: Emqctl, world: worlds.World) -> None:
    names = emqctl("queues", "-o", "ids", "-q").lines
    assert names == emqctl("depth", "-o", "ids", "-q").lines
    assert names[:3] == ["audit", "broken", "broken-meta"]


def test_ages_are_told_by_the_servers_clock(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    now_ms = worlds.server_ms(redis_client)
    minted = str(BrandedId("JOB", (now_ms - 5 * 3_600_000 - 60_000 - 1_704_067_200_000) << 22))
    redis_client.zadd("emq:{q}:pending", {minted: 0})
    assert emqctl("queues", "--columns", "oldest", "--time", "relative").out == "5h ago\n"


def test_a_long_scan_shows_where_it_is_at_a_terminal_alone(
    emqctl: Emqctl, world: worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 0)
    assert "\r1,000 keys looked at, 14 queues" in emqctl("queues", tty=True).err
    assert emqctl("queues").err == STRANGE


def test_a_user_of_one_queue_sees_it_and_that_the_others_are_denied(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, server: PrivateServer
) -> None:
    redis_client.execute_command("ACL", "SETUSER", "tenant", "on", ">p", "+@all", "~emq:{orders}:*", "~{emq}:*")
    url = server.url.replace("//", "//tenant:p@")
    result = emqctl("queues", "-q", url=url)
    assert result.code == 3
    rows = {row[0]: row[1:] for row in result.cells}
    assert rows.pop("orders")[:4] == ["443", "12", "4", "149"]
    assert {cell for row in rows.values() for cell in row} == {"! denied"}


def test_a_user_of_no_queue_is_denied(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, server: PrivateServer
) -> None:
    redis_client.execute_command("ACL", "SETUSER", "nobody", "on", ">p", "+@all", "~{emq}:*")
    result = emqctl("queues", url=server.url.replace("//", "//nobody:p@"))
    assert (result.code, result.out) == (8, "")
    assert "denied" in result.err
