"""``emqctl lanes``: what is shown of a lane in each format, and how the command ends."""

from __future__ import annotations

import pytest
import redis
import worlds
from cli.running import Emqctl

from emqctl.keyspace import QueueKeys

FIELDS = "lane depth active max_active weight paused on_ring servable why oldest active_true".split()  # noqa: SIM905
LEAKED, BUSY = "TEN0IlTdoyt3GC", "TEN0IlTdIvuwka"


@pytest.mark.parametrize("output", ["json", "jsonl", "csv"])
def test_the_fields_are_those_of_the_contract_in_order(emqctl: Emqctl, world: worlds.World, output: str) -> None:
    result = emqctl("lanes", "emails", "-o", output)
    assert (result.code, result.err) == (0, "")
    assert {tuple(record) for record in result.records} == {tuple(FIELDS)}
    assert [record["lane"] for record in result.records] == sorted(world.queues["emails"]["lanes"])


def test_machines_are_always_told_how_many_jobs_are_in_flight(emqctl: Emqctl, world: worlds.World) -> None:
    records = {record["lane"]: record for record in emqctl("lanes", "emails", "-o", "json").records}
    assert (records[LEAKED]["active"], records[LEAKED]["active_true"]) == (1, 0)
    assert (records[BUSY]["active"], records[BUSY]["active_true"]) == (2, 2)
    assert (records[LEAKED]["servable"], records[LEAKED]["why"]) == (False, "at its limit 1 of 1")
    assert emqctl("lanes", "emails").cells == [
        [
            "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            for value in record.values()
        ]
        for record in records.values()
    ]


def test_a_table_shows_how_many_are_in_flight_where_the_counter_is_wrong(emqctl: Emqctl, world: worlds.World) -> None:
    result = emqctl("lanes", "emails", "--columns", "lane,active,active_true", "-o", "table")
    shown = {row.split()[0]: row.split()[1:] for row in result.lines[2:]}
    assert {lane: cells for lane, cells in shown.items() if cells[1] != "-"} == {LEAKED: ["1", "0"]}
    assert shown[BUSY] == ["2", "-"]


def test_a_table_of_lanes_whose_counters_are_right_has_no_such_column(emqctl: Emqctl, world: worlds.World) -> None:
    header = emqctl("lanes", "broken", "-o", "table").lines[0]
    assert header.split() == ["lane", "depth", "active", "paused", "on_ring", "servable", "why", "oldest"]


def test_a_paused_queue_is_said_to_be_so(emqctl: Emqctl, world: worlds.World) -> None:
    assert emqctl("lanes", "frozen").err == "note: frozen is paused: no lane of it is served\n"
    assert emqctl("lanes", "emails").err == ""


def test_a_queue_without_lanes_is_no_error(emqctl: Emqctl, world: worlds.World) -> None:
    assert emqctl("lanes", "orders").summary == (0, "", "")
    assert emqctl("lanes", "orders", "-o", "json").json == {"schema": "emqctl/lanes/1", "records": [], "more": False}


def test_a_queue_not_seen_ends_with_4(emqctl: Emqctl, world: worlds.World) -> None:
    result = emqctl("lanes", "email")
    assert (result.code, result.out) == (4, "")
    assert "no queue 'email'" in result.err
    assert "did you mean emails?" in result.err


def test_a_lane_that_cannot_be_read_says_why_and_the_exit_is_3(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis
) -> None:
    key = QueueKeys("emails").lane_as_named(BUSY.encode())
    redis_client.delete(key)
    redis_client.set(key, "x")
    redis_client.hset(QueueKeys("emails").fixed("glimit"), LEAKED, "many")
    result = emqctl("lanes", "emails", "-o", "json")
    assert result.code == 3
    records = {record["lane"]: record for record in result.records}
    assert records[BUSY]["depth"] is None
    assert records[BUSY]["depth_error"] == f"{key.decode()} is a string, not a zset"
    assert records[LEAKED]["max_active_error"] == "the limit is 'many': it is no number"
    assert emqctl("lanes", "emails", "--columns", "lane,depth").cells[2] == [BUSY, "! string, not zset"]


def test_a_key_of_another_type_ends_with_5(emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis) -> None:
    redis_client.set(QueueKeys("idle").fixed("ring"), "x")
    result = emqctl("lanes", "idle")
    assert (result.code, result.out, result.err) == (5, "", "emqctl: emq:{idle}:ring is a string, not a list\n")
