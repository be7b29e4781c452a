"""Repairs: what is safe is put right, what is not is left as it stands, and nobody is ever worse off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import invariants
import pytest
import redis
import wire
import worlds
from auditing import audited, batches, contents, name_of, opened, repaired
from conservation import job_id, lane_name

from emqctl.demo.server import PrivateServer
from emqctl.errors import Denied, NoAnswer
from emqctl.keyspace import VERSION_KEY, QueueKeys
from emqctl.records import Finding
from emqctl.repairs import FOR_A_PERSON, NO_MORE, repair_of

K = QueueKeys("jobs")
HOUR_MS = 3_600_000
FUTURE = 4_000_000_000_000
JOB, CHILD, LANE, LANE_2 = job_id(1), job_id(2), lane_name(0), lane_name(1)
IN_LANE, IN_LANE_2 = K.lane_as_named(LANE), K.lane_as_named(LANE_2)


@pytest.fixture
def deployment(redis_client: redis.Redis) -> redis.Redis:
    """A client of a deployment without a queue."""
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    return redis_client


def row(state: str, **fields: Any) -> tuple[Any, ...]:
    """Return the command that makes the row of JOB."""
    pairs = {"state": state, "attempts": 0, "payload": "{}", **fields}
    return ("HSET", K.row(JOB), *(word for pair in pairs.items() for word in pair))


def test_the_recorded_world_is_repaired_and_what_is_left_is_for_a_person(
    server: PrivateServer, redis_client: redis.Redis, world: worlds.World
) -> None:
    before = invariants.look(redis_client)
    first = repaired(server.url, audited(server.url))
    after = invariants.look(redis_client)
    second = audited(server.url)
    left = {name_of(finding) for finding in first if finding.reason == FOR_A_PERSON}
    assert {name_of(finding) for finding in second if finding.level != "note" and finding.queue} <= left
    assert [finding for finding in second if repair_of(finding)] == []
    assert invariants.worse(before, after) == []
    dropped = {(f.queue, f.id) for f in first if f.rule in {"dangling", "bad_member"} and f.is_fixed}
    assert invariants.conserved(before, after, removed=dropped) == []
    assert before.payloads == after.payloads
    assert {finding.rule for finding in first if finding.is_fixed} == {
        *("dangling", "bad_member", "in_two_places", "grouped_in_flat_pending", "state_mismatch"),
        *("lock_field_without_ttl", "child_without_parent", "gactive_mismatch"),
        *("lane_starved", "lane_on_ring_not_serviceable"),
    }
    [twice] = [finding for finding in first if finding.rule == "lane_on_ring_twice"]
    assert twice.reason == "already"  # its last member had no row, and with it the lane left the ring


def test_a_dry_run_says_the_same_and_changes_nothing(
    server: PrivateServer, redis_client: redis.Redis, world: worlds.World, monitor: wire.Monitor
) -> None:
    findings = audited(server.url)
    before = contents(redis_client)
    would = repaired(server.url, findings, dry_run=True)
    assert contents(redis_client) == before
    made = repaired(server.url, findings)
    told = {name_of(f): (f.result or "", f.reason) for f in made}
    for finding in would:
        result, reason = told[name_of(finding)]
        if reason in NO_MORE:
            continue  # repaired by an earlier one of the same run
        assert (finding.result or "", finding.reason) == (result and WOULD[result], reason)


WOULD = {"fixed": "would-fix", "skipped": "would-skip"}


@dataclass(frozen=True)
class Case:
    """A queue with one thing wrong: how it is made, the rule it breaks, what a repair answers and leaves."""

    commands: tuple[tuple[Any, ...], ...]
    rule: str
    result: str
    reason: str | None = None
    after: dict[bytes, Any] | None = None  # keys that are different afterwards; None where nothing is


def members(*names: bytes) -> dict[bytes, float]:
    return dict.fromkeys(names, 0.0)


LANE_JOB = (row("pending", group=LANE), ("ZADD", IN_LANE, 0, JOB))
RUNG = ("RPUSH", K.fixed("ring"), LANE)
LINK = {"parent": CHILD}
FIXED = {
    "an id without a row": Case(
        (("ZADD", K.dead, 0, JOB), ("ZADD", K.schedule, FUTURE, JOB)),
        "dangling",
        "fixed",
        None,
        {K.dead: None, K.schedule: None},
    ),
    "the last id of a lane, without a row": Case(
        (("ZADD", IN_LANE, 0, JOB), RUNG), "dangling", "fixed", None, {IN_LANE: None, K.fixed("ring"): None}
    ),
    "a member that is no id": Case((("ZADD", K.pending, 0, "no id"),), "bad_member", "fixed", None, {K.pending: None}),
    "a member that is no id, with a row without payload": Case(
        (("ZADD", K.pending, 0, "no id"), ("HSET", K.row(b"no id"), "state", "active")),
        "bad_member",
        "fixed",
        None,
        {K.pending: None},
    ),
    "in two places, dead by its row": Case(
        (row("dead", attempts=1), ("ZADD", K.dead, 0, JOB), ("ZADD", K.schedule, FUTURE, JOB)),
        "in_two_places",
        "fixed",
        None,
        {K.schedule: None},
    ),
    "dead and in flight, beside another of its lane": Case(
        (
            *(row("dead", group=LANE, attempts=1), ("ZADD", K.dead, 0, JOB), ("ZADD", K.active, 1, JOB)),
            ("HSET", K.row(CHILD), "state", "active", "attempts", 1, "payload", "{}", "group", LANE),
            *(("ZADD", K.active, FUTURE, CHILD), ("HSET", K.fixed("gactive"), LANE, 2)),
        ),
        "in_two_places",
        "fixed",
        None,
        {K.active: members(CHILD) | {CHILD: float(FUTURE)}, K.fixed("gactive"): {LANE: b"1"}},
    ),
    "in flight and in its lane": Case(
        (
            *(row("active", group=LANE), ("ZADD", IN_LANE, 0, JOB), ("ZADD", K.active, 1, JOB), RUNG),
            ("HSET", K.fixed("gactive"), LANE, 1),
        ),
        "in_two_places",
        "fixed",
        None,
        {IN_LANE: None, K.fixed("ring"): None},
    ),
    "in its lane and in flat pending": Case(
        (*LANE_JOB, RUNG, ("ZADD", K.pending, 0, JOB)), "in_two_places", "fixed", None, {K.pending: None}
    ),
    "in its lane and in another": Case(
        (*LANE_JOB, RUNG, ("ZADD", IN_LANE_2, 0, JOB), ("RPUSH", K.fixed("ring"), LANE_2)),
        "in_two_places",
        "fixed",
        None,
        {IN_LANE_2: None, K.fixed("ring"): [LANE]},
    ),
    "in flight by a beat that was never counted, and waiting": Case(
        (*LANE_JOB, RUNG, ("ZADD", K.active, 1, JOB)), "in_two_places", "fixed", None, {K.active: None}
    ),
    "in flight and counted, and waiting": Case(
        (*LANE_JOB, RUNG, ("ZADD", K.active, 1, JOB), ("HSET", K.fixed("gactive"), LANE, 1)),
        "in_two_places",
        "fixed",
        None,
        {K.active: None, K.fixed("gactive"): None},
    ),
    "a lane's job in flat pending": Case(
        (row("pending", group=LANE), ("ZADD", K.pending, 0, JOB)),
        "grouped_in_flat_pending",
        "fixed",
        None,
        {K.pending: None, IN_LANE: members(JOB), K.fixed("ring"): [LANE], K.fixed("wake"): [b"1"]},
    ),
    "a row that says another place": Case(
        (row("dead"), ("ZADD", K.pending, 0, JOB)),
        "state_mismatch",
        "fixed",
        None,
        {K.row(JOB): {b"state": b"pending", b"attempts": b"0", b"payload": b"{}"}},
    ),
    "a lock field that never expires": Case(
        (row("pending", lock="1"), ("ZADD", K.pending, 0, JOB)),
        "lock_field_without_ttl",
        "fixed",
        None,
        {K.row(JOB): {b"state": b"pending", b"attempts": b"0", b"payload": b"{}"}},
    ),
    "a child of a parent without a row": Case(
        (row("pending", parent_policy="fp", parent_queue="jobs", **LINK), ("ZADD", K.pending, 0, JOB)),
        "child_without_parent",
        "fixed",
        None,
        {K.row(JOB): {b"state": b"pending", b"attempts": b"0", b"payload": b"{}"}},
    ),
    "a slot that was never given back": Case(
        (*LANE_JOB, ("HSET", K.fixed("glimit"), LANE, 1), ("HSET", K.fixed("gactive"), LANE, 1)),
        "gactive_mismatch",
        "fixed",
        None,
        {K.fixed("gactive"): None, K.fixed("ring"): [LANE], K.fixed("wake"): [b"1"]},
    ),
    "a slot that was never counted": Case(
        (row("active", group=LANE), ("ZADD", K.active, FUTURE, JOB)),
        "gactive_mismatch",
        "fixed",
        None,
        {K.fixed("gactive"): {LANE: b"1"}},
    ),
    "a counter that is no number": Case(
        (("HSET", K.fixed("gactive"), LANE, "x"),), "bad_counter", "fixed", None, {K.fixed("gactive"): None}
    ),
    "a counter at nothing": Case(
        (("HSET", K.fixed("gactive"), LANE, 0),), "gactive_at_zero", "fixed", None, {K.fixed("gactive"): None}
    ),
    "a lane off the ring": Case(
        LANE_JOB, "lane_starved", "fixed", None, {K.fixed("ring"): [LANE], K.fixed("wake"): [b"1"]}
    ),
    "an empty lane on the ring": Case((RUNG,), "lane_on_ring_not_serviceable", "fixed", None, {K.fixed("ring"): None}),
    "a paused lane on the ring": Case(
        (*LANE_JOB, RUNG, ("SADD", K.fixed("paused"), LANE)),
        "lane_on_ring_not_serviceable",
        "fixed",
        None,
        {K.fixed("ring"): None},
    ),
    "a lane three times on the ring": Case(
        (*LANE_JOB, RUNG, row("pending", group=LANE), ("RPUSH", K.fixed("ring"), LANE, LANE)),
        "lane_on_ring_twice",
        "fixed",
        None,
        {K.fixed("ring"): [LANE]},
    ),
}


@pytest.mark.parametrize("case", FIXED.values(), ids=FIXED)
def test_a_repair_puts_right_what_is_wrong_and_nothing_else(
    server: PrivateServer, deployment: redis.Redis, case: Case
) -> None:
    worlds.send(deployment, case.commands)
    before, looked = contents(deployment), invariants.look(deployment)
    findings = [finding for finding in audited(server.url, "jobs") if finding.rule == case.rule]
    assert findings != []
    made = repaired(server.url, findings)
    assert {(f.result, f.reason) for f in made} == {(case.result, case.reason)}
    wanted = {**{name: content for name, (_, content) in before.items()}, **(case.after or {})}
    found = {name: content for name, (_, content) in contents(deployment).items()}
    assert found == {name: content for name, content in wanted.items() if content is not None}
    assert invariants.worse(looked, invariants.look(deployment)) == []
    assert case.rule not in {finding.rule for finding in audited(server.url, "jobs")}


def stale(rule: str, id_: bytes | None = JOB, group: bytes | None = None, place: str = "pending") -> Finding:
    """Return a finding as it was when things were different."""
    return Finding("broken", rule, None, "jobs", id_, group, place, "", "emqctl doctor jobs --fix")


IN_PENDING = ("ZADD", K.pending, 0, JOB)
IN_DEAD = ("ZADD", K.dead, 0, JOB)
TWO = (IN_PENDING, IN_DEAD)
LOCKED = ("SET", K.row(JOB, "lock"), 1, "PX", HOUR_MS)
NOT_FIXED = {
    "dangling": (
        ("has-row", (row("pending"), IN_PENDING)),
        ("has-row", (("SET", K.row(JOB), "x"), IN_PENDING)),
        ("has-row", (("HSET", K.row(JOB), "state", "pending"), IN_PENDING)),
        ("already", ()),
    ),
    "in_two_places": (
        ("missing", TWO),
        ("already", (row("pending"), IN_PENDING)),
        ("active", (row("active"), ("ZADD", K.active, FUTURE, JOB), IN_DEAD)),
        ("locked", (row("dead"), *TWO, LOCKED)),
        ("flow-child", (row("dead", parent=CHILD), *TWO)),
        ("flow-parent", (row("dead"), *TWO, ("SET", K.row(JOB, "dependencies"), 1))),
        ("state-names-none", (row("active"), *TWO)),
        ("no-payload", (("HSET", K.row(JOB), "state", "dead"), *TWO)),
        ("bad-row", (row("dead", attempts="many"), *TWO)),
        ("wrong-type", (("SET", K.row(JOB), "x"), *TWO)),
        (
            "too-many-active",
            (row("dead", group=LANE), IN_DEAD, *(("ZADD", K.active, 1, n) for n in (JOB, *range(5001)))),
        ),
    ),
    "grouped_in_flat_pending": (
        ("missing", (IN_PENDING,)),
        ("not-pending", (row("dead", group=LANE), IN_DEAD)),
        ("flat", (row("pending"), IN_PENDING)),
        ("two-places", (row("pending", group=LANE), *TWO)),
        ("locked", (row("pending", group=LANE), IN_PENDING, LOCKED)),
        ("no-payload", (("HSET", K.row(JOB), "state", "pending", "group", LANE), IN_PENDING)),
        ("bad-row", (row("pending", group="no id"), IN_PENDING)),
        ("bad-row", (row("pending", group=LANE), IN_PENDING, ("HSET", K.fixed("glimit"), LANE, "many"))),
        ("wrong-type", (row("pending", group=LANE), IN_PENDING, ("SET", IN_LANE, "x"))),
    ),
    "state_mismatch": (
        ("missing", (IN_PENDING,)),
        ("nowhere", (row("pending"),)),
        ("two-places", (row("active"), *TWO)),
        ("held", (row("awaiting_children"), IN_PENDING)),
        ("same", (row("pending"), IN_PENDING)),
        ("no-payload", (("HSET", K.row(JOB), "state", "dead"), IN_PENDING)),
        ("wrong-type", (("SET", K.row(JOB), "x"), IN_PENDING)),
        ("wrong-type", (row("active", group=LANE), IN_PENDING, ("SET", IN_LANE, "x"))),
    ),
    "lock_field_without_ttl": (
        ("missing", ()),
        ("already", (row("pending"), IN_PENDING)),
        ("locked", (row("pending", lock=1), IN_PENDING, LOCKED)),
        ("active", (row("active", lock=1), ("ZADD", K.active, FUTURE, JOB))),
        ("no-payload", (("HSET", K.row(JOB), "lock", 1),)),
        ("wrong-type", (("SET", K.row(JOB), "x"), IN_PENDING)),
    ),
    "child_without_parent": (
        ("missing", ()),
        ("already", (row("pending"), IN_PENDING)),
        ("parent-exists", (row("pending", parent=CHILD), IN_PENDING, ("HSET", K.row(CHILD), "state", "x"))),
        ("cross-queue", (row("pending", parent=CHILD, parent_queue="other"), IN_PENDING)),
        ("bad-row", (row("pending", parent="no id"), IN_PENDING)),
        ("wrong-type", (("SET", K.row(JOB), "x"), IN_PENDING)),
    ),
}
LANES_NOT_FIXED = {
    "gactive_mismatch": (
        ("already", (row("active", group=LANE), ("ZADD", K.active, 1, JOB), ("HSET", K.fixed("gactive"), LANE, 1))),
        ("already", ()),
        ("wrong-type", (("SET", IN_LANE, "x"), ("HSET", K.fixed("gactive"), LANE, 1))),
        ("too-many-active", (("HSET", K.fixed("gactive"), LANE, 1), *(("ZADD", K.active, 1, n) for n in range(5001)))),
    ),
    "lane_starved": (
        ("already", (*LANE_JOB, RUNG)),
        ("already", (*LANE_JOB, ("SADD", K.fixed("paused"), LANE))),
        ("already", (*LANE_JOB, ("HSET", K.fixed("glimit"), LANE, 1), ("HSET", K.fixed("gactive"), LANE, 1))),
        ("bad-lane", (*LANE_JOB, ("HSET", K.fixed("glimit"), LANE, "many"))),
        ("wrong-type", (("SET", IN_LANE, "x"),)),
    ),
}


@pytest.mark.parametrize(
    ("finding", "reason", "commands"),
    [
        *((stale(rule), *case) for rule, cases in NOT_FIXED.items() for case in cases),
        *((stale(rule, None, LANE, "lane"), *case) for rule, cases in LANES_NOT_FIXED.items() for case in cases),
        (stale("in_two_places", JOB, LANE_2), "already", (row("pending"), IN_PENDING)),
        (stale("in_two_places", JOB, LANE_2), "already", (row("pending"), IN_PENDING, ("SET", IN_LANE_2, "x"))),
        (stale("bad_member", b"no id"), "has-row", (("HSET", K.row(b"no id"), "payload", "x"),)),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "rule", ""),
)
def test_a_repair_looks_again_and_leaves_what_is_otherwise_by_now(
    server: PrivateServer,
    deployment: redis.Redis,
    finding: Finding,
    reason: str,
    commands: tuple[tuple[Any, ...], ...],
) -> None:
    worlds.send(deployment, commands)
    before = contents(deployment)
    [made] = repaired(server.url, [finding])
    assert (made.result, made.reason) == ("skipped", reason)
    assert contents(deployment) == before


def test_a_queue_with_a_key_of_another_type_is_left_alone(server: PrivateServer, deployment: redis.Redis) -> None:
    worlds.send(deployment, [IN_DEAD, ("SET", K.fixed("ring"), "x")])
    made = {f.rule: (f.result, f.reason) for f in repaired(server.url, audited(server.url, "jobs"))}
    assert made["dangling"] == ("skipped", "wrong-type")
    assert made["wrong_type_key"] == ("skipped", FOR_A_PERSON)
    assert deployment.zcard(K.dead) == 1


@pytest.mark.parametrize("case", FIXED.values(), ids=FIXED)
def test_a_repair_is_refused_whole_where_a_key_is_of_another_type(
    server: PrivateServer, deployment: redis.Redis, case: Case
) -> None:
    worlds.send(deployment, case.commands)
    findings = [finding for finding in audited(server.url, "jobs") if finding.rule == case.rule]
    unused = next(key for key in map(K.fixed, ("gweight", "wake", "meta")) if not deployment.exists(key))
    deployment.xadd(unused, {"x": "x"})
    before = contents(deployment)
    assert {(f.result, f.reason) for f in repaired(server.url, findings)} == {("skipped", "wrong-type")}
    assert contents(deployment) == before


def test_a_member_that_is_no_id_is_taken_out_whatever_lane_its_row_names(
    server: PrivateServer, deployment: redis.Redis
) -> None:
    named = ("HSET", K.row(b"foo"), "group", LANE)
    worlds.send(deployment, [named, ("ZADD", K.pending, 0, "foo"), ("SET", IN_LANE, "x"), IN_DEAD])
    made = {(f.rule, f.id): f.result for f in repaired(server.url, audited(server.url, "jobs"))}
    assert (made["bad_member", b"foo"], made["dangling", JOB]) == ("fixed", "fixed")
    assert not deployment.exists(K.pending, K.dead)


WRITES = ("zadd", "zrem", "hset", "hdel", "hincrby", "rpush", "lrem", "lpush", "ltrim")


@pytest.mark.parametrize("case", FIXED.values(), ids=FIXED)
def test_a_repair_of_a_user_who_lacks_a_command_is_whole_or_none(
    server: PrivateServer, deployment: redis.Redis, keeper: redis.Redis, case: Case
) -> None:
    """And what was denied is named."""
    denied = {}
    for command in WRITES:
        deployment.flushall()
        deployment.set(VERSION_KEY, "echomq:3.0.0")
        worlds.send(deployment, case.commands)
        before = contents(deployment)
        findings = [finding for finding in audited(server.url, "jobs") if finding.rule == case.rule]
        keeper.execute_command("ACL", "SETUSER", "short", "reset", "on", ">pw", "~*", "&*", "+@all", f"-{command}")
        with opened(server.url.replace("//", "//short:pw@")) as target:
            try:
                made = [each for batch in batches(target, findings) for each in batch.findings]
            except Denied as error:
                denied[command] = str(error)
        if command in denied:
            assert contents(deployment) == before
        else:
            assert {(f.result, f.reason) for f in made} == {(case.result, case.reason)}
            assert case.rule not in {finding.rule for finding in audited(server.url, "jobs")}
    assert denied
    assert [command for command, text in denied.items() if command.upper() not in text] == []


def test_a_user_who_may_not_write_changes_nothing(
    server: PrivateServer, redis_client: redis.Redis, world: worlds.World, keeper: redis.Redis
) -> None:
    findings = audited(server.url)
    keeper.execute_command("ACL", "SETUSER", "halfway", "on", ">pw", "~*", "+@all", "-zrem", "-lrem", "-hdel")
    before, url = contents(redis_client), server.url.replace("//", "//halfway:pw@")
    with opened(url) as target, pytest.raises(Denied):
        list(batches(target, findings))
    assert contents(redis_client) == before


def test_a_batch_whose_answer_is_lost_is_told_and_ends_the_run(proxy: wire.Proxy, deployment: redis.Redis) -> None:
    worlds.send(deployment, [("ZADD", K.dead, 0, job_id(nth)) for nth in range(3)])
    findings = audited(proxy.url, "jobs")
    with opened(proxy.url) as target:
        list(batches(target, findings, dry_run=True))  # the server knows the program from now on
        proxy.cut_down = 0
        making = batches(target, findings)
        told = next(making).findings
        with pytest.raises(NoAnswer):
            next(making)
    assert [(f.result, f.reason) for f in told] == [("failed", "no-answer")] * 3
