"""Every hazard of the protocol that one keyspace can show is found, by the rule that says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
import redis
import worlds
from auditing import audited, worth_knowing
from conservation import job_id, lane_name
from damage import Operator

from emqctl import audit
from emqctl.audit import flows, lanes, leftovers, places, pumps, rows, servers, times, waits, whole
from emqctl.audit.rules import Rule
from emqctl.branded import BrandedId, smallest_at
from emqctl.connection import Server
from emqctl.demo.flows import Node
from emqctl.demo.server import PrivateServer
from emqctl.keyspace import VERSION_KEY, QueueKeys
from emqctl.replies import Command
from emqctl.slots import slot_of

K, AWAY = QueueKeys("jobs"), QueueKeys("away")
HOUR_MS = 3_600_000
MODULES = (places, rows, flows, lanes, times, waits, leftovers, pumps, whole, servers)
RULES: dict[str, Rule] = {}
for module in MODULES:
    for family in vars(module).values():
        if isinstance(family, audit.rules.Family):
            RULES.update(family.rules)

TABLE = dict(re.findall(r"^(H\d+) +(.*)$", str(audit.__doc__), re.MULTILINE))
SHOWN = {hazard: text.split() for hazard, text in TABLE.items() if not text.startswith("not shown: ")}
RECORDINGS = [each for each in worlds.transitions() if set(each["hazards"]) & set(SHOWN)]
SOUND = [each for each in worlds.transitions() if not each["hazards"]]
#: Recordings of a hazard of which nothing is to be seen, and why.
UNSEEN = {
    "sweep_stalled.dead_on_first_lapse": "a dead job that lapsed once, as others that lapsed too often",
    "obliterate.lanes_on_ring_and_paused": "a weight of a lane without jobs, as an operator may have set it",
}


PARENT, CHILD, OTHER = job_id(1), job_id(2), job_id(3)
LANE = lane_name(0)


def found(server: PrivateServer) -> dict[str, set[str | None]]:
    rules: dict[str, set[str | None]] = {}
    for finding in audited(server.url):
        rules.setdefault(finding.rule, set()).add(finding.hazard)
    return rules


def test_the_table_has_every_hazard_once_and_a_reason_for_each_that_is_not_shown() -> None:
    assert list(TABLE) == [f"H{nth}" for nth in range(1, 37)]
    assert set(TABLE) - set(SHOWN) == {"H18", "H19", "H21"}
    assert all(len(TABLE[hazard]) > 40 for hazard in set(TABLE) - set(SHOWN))


def test_the_table_names_rules_there_are_and_each_rule_with_a_hazard_in_its_line() -> None:
    assert set(chain.from_iterable(SHOWN.values())) <= set(RULES)
    for rule in RULES.values():
        assert rule.hazard is None or rule.name in SHOWN[rule.hazard], rule.name


def test_every_rule_says_what_it_finds_and_what_comes_of_it() -> None:
    for rule in RULES.values():
        assert rule.look.__doc__, rule.name
        assert rule.meaning[0].islower() or rule.meaning[0] == "{", rule.name
        assert not rule.meaning.endswith("."), rule.name


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda each: each["name"])
def test_a_recorded_hazard_is_found(
    server: PrivateServer, redis_client: redis.Redis, recording: dict[str, Any]
) -> None:
    """Afterwards, or, where the damage is in what was done by hand, before."""
    rules: set[str] = set()
    for moment in ("before", "after"):
        redis_client.flushall()
        redis_client.set(VERSION_KEY, "echomq:2.4.2")
        worlds.put(redis_client, recording[moment], worlds.server_ms(redis_client))
        rules |= found(server).keys()
    seen = [bool(rules & set(SHOWN[hazard])) for hazard in set(recording["hazards"]) & set(SHOWN)]
    assert all(seen) != (recording["name"] in UNSEEN), rules


@pytest.mark.parametrize("recording", SOUND, ids=lambda each: each["name"])
def test_a_sound_transition_leaves_nothing_broken_or_stuck(
    server: PrivateServer, redis_client: redis.Redis, recording: dict[str, Any]
) -> None:
    redis_client.set(VERSION_KEY, "echomq:2.4.2")
    worlds.put(redis_client, recording["after"], worlds.server_ms(redis_client))
    late = {"schedule_overdue", "no_promoter"} if recording["name"] == "enqueue_at.past" else set()
    assert worth_knowing(audited(server.url)) == late


@pytest.fixture
def queue(redis_client: redis.Redis) -> Operator:
    """Every verb of EchoMQ on the queue `jobs` of an empty server."""
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    return Operator(redis_client, "jobs")


def fired_twice(queue: Operator) -> None:
    """Two pumps see the same run due; each mints its own occurrence before the other has set the next run."""
    now_ms = worlds.server_ms(queue.client)
    queue.repeat_register(b"daily", HOUR_MS, b"report", 0)
    for nth in range(2):
        queue.enqueue(bytes(BrandedId("JOB", smallest_at(now_ms).snowflake + nth)), b"report")
    queue.repeat_advance(b"daily", HOUR_MS)


def cross_queue_child_runs_again(queue: Operator) -> None:
    """An ignored child of another queue is brought back to life after its parent was told of its death."""
    away = Operator(queue.client, "away")
    queue.flow_add(Node(PARENT, b"p", (Node(CHILD, b"c", queue="away", ignore_failure=True), Node(OTHER, b"o"))))
    claimed = away.claim(HOUR_MS)
    assert claimed
    away.retry(CHILD, claimed.token, 0, 1, "boom")
    away.pump_deliver()
    reprocess(queue.client, AWAY, CHILD)


def reprocess(client: redis.Redis, keys: QueueKeys, id_: bytes) -> None:
    """Do what EchoMQ's own verb does."""
    client.zrem(keys.dead, id_)
    client.hdel(keys.row(id_), "last_error")
    client.hset(keys.row(id_), "state", "pending")
    client.zadd(keys.pending, {id_: 0})


def stale_worker_completes_a_reprocessed_job(queue: Operator) -> None:
    queue.lane_enqueue(LANE, CHILD, b"{}")
    claimed = queue.lane_claim(0)
    assert claimed
    queue.sweep_stalled(1)
    reprocess(queue.client, K, CHILD)
    queue.complete(CHILD, claimed.token)


def complete_after_delay(queue: Operator) -> None:
    queue.enqueue(CHILD, b"{}")
    claimed = queue.claim(HOUR_MS)
    assert claimed
    queue.delay(CHILD, claimed.token, HOUR_MS)
    queue.complete(CHILD, claimed.token)


def sweep_over_a_missing_row(queue: Operator) -> None:
    queue.client.zadd(K.active, {CHILD: 1})
    queue.sweep_stalled(3)


def second_death_of_a_child(queue: Operator) -> None:
    """The parent died with its child, was reprocessed and runs when the reprocessed child dies again."""
    queue.flow_add(Node(PARENT, b"p", (Node(CHILD, b"c"),)))
    for _ in range(2):
        claimed = queue.claim(HOUR_MS)
        assert claimed
        if claimed.id == PARENT:
            claimed = queue.claim(HOUR_MS)
            assert claimed
        queue.retry(CHILD, claimed.token, 0, 1, "boom")
        if _ == 0:
            reprocess(queue.client, K, PARENT)
            reprocess(queue.client, K, CHILD)


def settling_a_foreign_member(queue: Operator) -> None:
    queue.client.zadd(K.pending, {"no id at all": 0})


def a_parent_that_is_no_id(queue: Operator) -> None:
    queue.enqueue(CHILD, b"{}")
    queue.client.hset(K.row(CHILD), "parent", "nobody")


def claim_of_a_bad_row(queue: Operator) -> None:
    queue.enqueue(CHILD, b"{}")
    queue.client.hset(K.row(CHILD), "attempts", "many")
    with pytest.raises(redis.ResponseError):
        queue.claim(HOUR_MS)


def limit_that_is_no_number(queue: Operator) -> None:
    queue.lane_enqueue(LANE, CHILD, b"{}")
    queue.client.hset(K.fixed("glimit"), LANE, "many")


#: Hazards of which there is no recording: how each comes about, and what shows it.
MADE: dict[str, tuple[Callable[[Operator], None], str]] = {
    "H23": (fired_twice, "repeat_fired_twice"),
    "H28": (cross_queue_child_runs_again, "told_child_runs_again"),
    "H29": (stale_worker_completes_a_reprocessed_job, "dangling"),
    "H30": (complete_after_delay, "dangling"),
    "H31": (sweep_over_a_missing_row, "ghost_row"),
    "H32": (second_death_of_a_child, "in_two_places"),
    "H33": (settling_a_foreign_member, "bad_member"),
    "H33 too": (a_parent_that_is_no_id, "bad_parent"),
    "H34": (claim_of_a_bad_row, "row_in_no_set"),
    "H35": (limit_that_is_no_number, "bad_limit"),
}
NAMED_OTHERWISE = {"H30": "H11", "H31": "H11"}  # what stands in the set tells no more


@pytest.mark.parametrize("name", MADE)
def test_a_hazard_is_found_where_it_comes_about(server: PrivateServer, queue: Operator, name: str) -> None:
    make, rule = MADE[name]
    make(queue)
    hazard = name.split(maxsplit=1)[0]
    assert rule in SHOWN[hazard]
    assert NAMED_OTHERWISE.get(hazard, hazard) in found(server)[rule]


def test_every_hazard_that_is_shown_is_made_or_recorded() -> None:
    recorded = {hazard for each in RECORDINGS if each["name"] not in UNSEEN for hazard in each["hazards"]}
    assert set(SHOWN) <= recorded | {name.split()[0] for name in MADE} | {"H36"}


def test_a_slot_on_its_way_is_told(server: PrivateServer, queue: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.enqueue(CHILD, b"{}")
    lines = (
        f"a 10.0.0.1:1@2 myself,master - 0 0 1 connected 0-16383 [{slot_of(K.prefix)}->-b]\nb 10.0.0.2:1@2 master -\n"
    )
    real = Server.ask_this_node

    def answer(self: Server, command: Command) -> Any:
        return lines.encode() if command[0] == "CLUSTER" else real(self, command)

    monkeypatch.setattr(Server, "ask_this_node", answer)
    assert found(server)["slot_migrating"] == {"H36"}


def test_two_repeats_of_one_payload_may_fire_together(server: PrivateServer, queue: Operator) -> None:
    fired_twice(queue)
    queue.repeat_register(b"other", HOUR_MS, b"report", HOUR_MS)
    assert "repeat_fired_twice" not in found(server)


def test_symptoms_name_the_queues_and_are_of_no_queue(server: PrivateServer, world: worlds.World) -> None:
    told = {finding.rule: finding for finding in audited(server.url) if finding.queue is None}
    assert {rule: finding.level for rule, finding in told.items()} == {
        **dict.fromkeys(("no_reaper", "no_promoter", "no_pump"), "stuck"),
        "lock_fields_never_expire": "note",
    }
    assert "broken, emails, orders" in told["no_reaper"].meaning
    assert "in broken, reports" in told["no_pump"].meaning
    assert "orders" in told["lock_fields_never_expire"].meaning
