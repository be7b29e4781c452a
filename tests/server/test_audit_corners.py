"""The audit where there is too much of something, or where what is broken is broken oddly."""

from __future__ import annotations

from typing import Any

import pytest
import redis
import worlds
from auditing import audited
from conservation import job_id, lane_name
from invariants import has_field_ttls

from emqctl.audit import in_order, lanes, order, sweep, waits
from emqctl.branded import BrandedId, smallest_at
from emqctl.demo.flows import Node
from emqctl.demo.server import PrivateServer
from emqctl.demo.worker import Transitions
from emqctl.errors import Unreachable
from emqctl.keyspace import VERSION_KEY, QueueKeys
from emqctl.records import Finding

K = QueueKeys("jobs")
JOB, CHILD, LANE = job_id(1), job_id(2), lane_name(0)


@pytest.fixture
def jobs(redis_client: redis.Redis) -> Transitions:
    """Transitions of the queue `jobs` on an empty server."""
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    return Transitions(redis_client, "jobs")


def rules(url: str, *names: str) -> dict[str, Finding]:
    return {finding.rule: finding for finding in audited(url, *names)}


@pytest.mark.parametrize("limit", ["MOST_ACTIVE", "MOST_RUNG"])
def test_lanes_that_cannot_be_judged_are_told_and_not_called_broken(
    server: PrivateServer, jobs: Transitions, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(lanes, limit, 0)
    for nth in range(3):
        jobs.lane_enqueue(LANE, job_id(nth), b"{}")
    jobs.lane_claim(60_000)
    jobs.client.hincrby(K.fixed("gactive"), LANE, 1)
    jobs.client.rpush(K.fixed("ring"), LANE)
    found = rules(server.url)
    assert ("gactive_mismatch" in found, "lane_on_ring_twice" in found) == (
        limit == "MOST_RUNG",
        limit == "MOST_ACTIVE",
    )
    assert found["too_many_to_check"].level == "note"


def test_lanes_that_cannot_be_remembered_are_judged_where_they_are_named(
    server: PrivateServer, jobs: Transitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "MOST_LANES", 0)
    jobs.lane_enqueue(LANE, JOB, b"{}")
    jobs.client.delete(K.fixed("ring"))
    assert rules(server.url)["too_many_to_check"].meaning == "more than is looked at: 0 lanes"
    jobs.client.hset(K.fixed("glimit"), LANE, 5)
    assert "lane_starved" in rules(server.url)


def test_findings_that_cannot_be_remembered_may_be_told_again_and_are_never_lost(
    server: PrivateServer, jobs: Transitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MOST_TOLD", "MOST_MET"):
        monkeypatch.setattr(sweep, name, 1)
    jobs.client.zadd(K.dead, {job_id(nth): 0 for nth in range(5)})
    assert {finding.id for finding in audited(server.url) if finding.rule == "dangling"} == set(map(job_id, range(5)))


def test_of_flows_that_may_go_on_in_hidden_queues_nothing_is_said_and_that_is_told(
    server: PrivateServer, jobs: Transitions, keeper: redis.Redis
) -> None:
    """A child in a queue that this user may not look into is no reason to call its parent stuck."""
    jobs.flow_add(Node(JOB, b"p", (Node(CHILD, b"c", queue="away"),)))
    rights = ("reset", "on", ">pw", "~emq:{jobs}:*", "~{emq}:*", "&*", "+@all")
    keeper.execute_command("ACL", "SETUSER", "one-queue", *rights)
    found = rules(server.url.replace("//", "//one-queue:pw@"), "jobs")
    assert "held_parent_stuck" not in found
    assert (found["flows_hidden"].queue, found["flows_hidden"].level) == (None, "note")
    assert "flows_hidden" not in rules(server.url, "jobs")


@pytest.mark.parametrize("name", ["ACL failure in script", "no password is set", "max number of clients"])
def test_a_name_that_an_error_quotes_is_not_taken_for_the_error(
    server: PrivateServer, jobs: Transitions, name: str
) -> None:
    """A server without HPTTL says so with the words it was given."""
    row = {"lock": "1", "payload": "x", "state": "pending", "attempts": "0"}
    jobs.client.hset(K.row(name.encode()), mapping=row)
    jobs.client.zadd(K.pending, {name: 0})
    assert "bad_member" in rules(server.url, "jobs")


def test_of_too_many_flows_nothing_is_said_and_that_is_told(
    server: PrivateServer, jobs: Transitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.flow_add(Node(JOB, b"p", (Node(CHILD, b"c"), Node(job_id(3), b"c"))))
    jobs.client.delete(K.row(CHILD))
    jobs.client.zrem(K.pending, CHILD)
    assert {"held_parent_stuck"} <= rules(server.url).keys()
    monkeypatch.setattr(waits, "MOST_FLOWS", 1)
    found = rules(server.url)
    assert "held_parent_stuck" not in found
    assert (found["too_many_flows"].queue, found["too_many_flows"].level) == (None, "note")


def test_an_outbox_that_is_too_long_is_told_and_no_parent_is_called_stuck(
    server: PrivateServer, jobs: Transitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "MOST_POSTED", 100)
    jobs.flow_add(Node(JOB, b"p", (Node(CHILD, b"c"),)))
    jobs.client.delete(K.row(CHILD))
    jobs.client.zrem(K.pending, CHILD)
    jobs.client.rpush(K.fixed("flow:outbox"), *[b"other\0JOB\0JOB\0done"] * 150)
    found = rules(server.url)
    assert found["outbox_waiting"].meaning.startswith("150 settlements")
    assert "settlements in the outbox" in found["too_many_to_check"].meaning
    assert "held_parent_stuck" not in found


def test_a_parent_that_may_still_be_getting_its_children_is_not_called_stuck(
    server: PrivateServer, jobs: Transitions
) -> None:
    now_ms = worlds.server_ms(jobs.client)
    for age_ms in (30_000, 90_000):
        parent = bytes(smallest_at(now_ms - age_ms))
        jobs.flow_add(Node(parent, b"p", (Node(str(BrandedId("JOB", age_ms << 22)), b"c"),)))
        jobs.client.incr(K.row(parent, "dependencies"))
    stuck = [finding.id for finding in audited(server.url) if finding.rule == "held_parent_stuck"]
    assert stuck == [bytes(smallest_at(now_ms - 90_000))]


@pytest.mark.parametrize(
    ("link", "repair"),
    [
        ({"parent": job_id(7)}, "emqctl doctor jobs --fix"),
        ({"parent": job_id(7), "parent_queue": "jobs"}, "emqctl doctor jobs --fix"),
        ({"parent": job_id(7), "parent_queue": "away"}, None),
        ({"parent": job_id(7), "parent_queue": "{}"}, None),
        ({"parent": "nobody"}, None),
    ],
)
def test_a_link_to_nobody_is_cut_only_where_nobody_else_has_a_say(
    server: PrivateServer, jobs: Transitions, link: dict[str, Any], repair: str | None
) -> None:
    jobs.enqueue(JOB, b"{}")
    jobs.client.hset(K.row(JOB), mapping=link)
    assert rules(server.url)["child_without_parent"].repair == repair


def test_a_lane_that_is_no_set_is_named(server: PrivateServer, jobs: Transitions) -> None:
    jobs.client.set(K.lane_as_named(LANE), "x")
    jobs.client.set(K.fixed("repeat"), "x")
    jobs.client.hset(K.fixed("paused"), "x", "y")
    found = [f for f in audited(server.url) if f.rule == "wrong_type_key"]
    assert {(f.place, f.lane, f.meaning.split(":")[0]) for f in found} == {
        ("lane", LANE, "this key is a string, not a zset"),
        ("repeat", None, "this key is a string, not a zset"),
        ("paused", None, "this key is a hash, not a set"),
    }


@pytest.mark.parametrize(
    ("row", "extra", "repair"),
    [
        ({"state": "pending"}, (), f"emqctl remove jobs {JOB.decode()}"),
        ({"state": "pending"}, (("SET", K.row(JOB, "lock"), 1),), f"emqctl remove jobs {JOB.decode()} --force"),
        ({"state": "pending"}, (("ZREM", K.pending, JOB),), f"emqctl remove jobs {JOB.decode()} --force"),
        ({"state": "pending"}, (("SET", K.row(JOB, "dependencies"), 0),), f"emqctl remove jobs {JOB.decode()}"),
        ({"state": "pending"}, (("SET", K.row(JOB, "dependencies"), 2),), None),
        ({"state": "pending", "parent": CHILD}, (), None),
        ({"state": "awaiting_children"}, (), None),
    ],
)
def test_a_ghost_is_removed_by_hand_where_no_flow_depends_on_it(
    server: PrivateServer, jobs: Transitions, row: dict[str, Any], extra: Any, repair: str | None
) -> None:
    jobs.client.hset(K.row(JOB), mapping=row)
    jobs.client.zadd(K.pending, {JOB: 0})
    worlds.send(jobs.client, extra)
    assert rules(server.url)["ghost_row"].repair == repair


@pytest.mark.parametrize("ttl_ms", [None, 60_000])
def test_a_row_of_a_late_lock_alone_is_broken_unless_it_goes_by_itself(
    server: PrivateServer, jobs: Transitions, ttl_ms: int | None
) -> None:
    jobs.client.hset(K.row(JOB), "lock", 1)
    if ttl_ms:
        if not has_field_ttls(jobs.client):
            pytest.skip("this server's fields do not expire")
        jobs.client.hpexpire(K.row(JOB), ttl_ms, "lock")
    found = rules(server.url)
    assert {found[rule].level for rule in ("ghost_row", "row_in_no_set")} == {"note" if ttl_ms else "broken"}
    assert ("lock_field_without_ttl" in found) == (ttl_ms is None)


def test_a_dedup_key_of_another_type_and_a_record_by_any_name_do_no_harm(
    server: PrivateServer, jobs: Transitions
) -> None:
    jobs.client.rpush(K.dedup(b"x"), "y")
    jobs.client.zadd(K.fixed("repeat"), {b"": 1, b"\xff name": 4_000_000_000_000})
    jobs.client.hset(K.repeat(b"\xff name"), mapping={"every_ms": "never", "template": "x" * 5000})
    assert {finding.rule for finding in audited(server.url) if finding.queue} == {"repeat_overdue"}


def test_a_template_too_old_or_too_long_to_compare_is_passed_over(server: PrivateServer, jobs: Transitions) -> None:
    for name, template, every_ms in ((b"a", b"x" * 5000, 1), (b"b", b"x", 10**14)):
        jobs.repeat_register(name, every_ms, template, 3_600_000)
    assert {finding.rule for finding in audited(server.url)} == set()


def finding(nth: int, level: str = "broken") -> Finding:
    return Finding(level, "dangling", None, "jobs", job_id(nth), None, None, "", None)


def test_findings_are_sorted_so_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "AT_ONCE", 2)
    given = [finding(3), finding(1, "note"), finding(2), finding(0, "note"), finding(9)]
    chunks = list(in_order(given, "note"))
    assert chunks == [[given[0], given[1]], [given[2], given[3]], [given[4]]]
    assert list(in_order(given, "broken")) == [[given[2], given[0]], [given[4]]]


def test_what_was_found_before_an_error_is_told_before_it() -> None:
    def broken_off() -> Any:
        yield finding(1)
        raise Unreachable("gone")

    told = in_order(broken_off(), "note")
    assert next(told) == [finding(1)]
    with pytest.raises(Unreachable):
        next(told)
