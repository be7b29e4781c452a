"""The checker of invariants: it finds what is wrong with the recorded world, and nothing in a sound one."""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import invariants
import pytest
import redis
import worlds
from auditing import living
from invariants import BROKEN, NOTES, STRICTER, Finding, Look, has_field_ttls
from servers import connect

from emqctl.demo.flows import Node
from emqctl.demo.server import PrivateServer
from emqctl.demo.worker import Transitions
from emqctl.keyspace import QueueKeys

JOB, CHILD, SISTER = b"JOB00000000001", b"JOB00000000002", b"JOB00000000003"
LANE, LANE_2 = b"TEN00000000001", b"TEN00000000002"
#: Rules of which the recorded world holds no case.
UNRECORDED = {"group_mismatch"}
#: Rules whose details are recorded.
DETAILED = {
    *("dangling", "bad_member", "in_two_places", "state_mismatch", "gactive_mismatch", "held_parent_stuck"),
    "orphan_subkeys",
}


@pytest.fixture
def jobs(redis_client: redis.Redis) -> Transitions:
    """Transitions of the queue `jobs` on an empty server."""
    return Transitions(redis_client, "jobs")


def test_each_kind_of_damage_of_the_recorded_world_is_found_and_no_more(
    redis_client: redis.Redis, world: worlds.World
) -> None:
    findings = [finding for finding in invariants.look(redis_client).findings if finding.rule not in STRICTER]
    found = sorted(as_audited(finding) for finding in findings if finding.queue in world.queues)
    assert found == sorted(audited(world.raw["audit"]))
    assert {rule for _, rule, _, _ in found} == {*BROKEN, *NOTES} - {*STRICTER, *UNRECORDED}


def test_stricter_rules_find_an_uncounted_child_and_odd_numbers_in_the_recorded_world(
    redis_client: redis.Redis, world: worlds.World
) -> None:
    findings = [finding for finding in invariants.look(redis_client).findings if finding.rule in STRICTER]
    names = {(thing["queue"], thing["id"].encode()): name for name, thing in world.ids.items()}
    assert {(names.get((queue, subject), queue), rule, detail) for queue, rule, subject, detail in findings} == {
        ("two_sets.pending_dead", "bad_number", ("attempts", b"not a number")),
        ("flow.orphaned.parent", "parent_count_mismatch", (1, 0)),
        ("broken-meta", "gactive_not_positive", (-1,)),
    }


def test_a_sound_world_is_sound(redis_client: redis.Redis, demo_world: int) -> None:
    found = invariants.look(redis_client)
    assert found.broken == []
    notes = {"active_expired", "schedule_overdue", "paused_lane_with_backlog", "lock_string"}
    assert {finding.rule for finding in found.findings} == notes


def test_a_living_world_is_sound_at_every_moment(
    server: PrivateServer, redis_client: redis.Redis, demo_world: int
) -> None:
    looks = 0
    with living(lambda: connect(server)):
        deadline = time.monotonic() + 3
        before = invariants.look(redis_client)
        while time.monotonic() < deadline:
            now = invariants.look(redis_client)
            assert now.broken == []
            looks += 1
    assert looks > 20
    assert now.ids != before.ids


@dataclass(frozen=True)
class Damage:
    """What is done to a sound queue, and what the checker makes of it."""

    commands: tuple[tuple[Any, ...], ...]
    found: tuple[tuple[Any, ...], ...]


K = QueueKeys("jobs")
FLOW = Node(JOB, "p", (Node(CHILD, "c"), Node(SISTER, "s")))
#: Beyond the recorded world, on a queue with a job waiting in a lane and a flow of two children.
DAMAGES = {
    "a job in another lane than its own": Damage(
        (("HSET", K.row(b"JOB00000000009"), "group", LANE_2),),
        (("group_mismatch", b"JOB00000000009", (f"lane:{LANE.decode()}", LANE_2)),),
    ),
    "a counter that stays at nothing": Damage(
        (("HSET", K.fixed("gactive"), LANE, 0),), (("gactive_not_positive", LANE, (0,)),)
    ),
    "a limit that is no number": Damage(
        (("HSET", K.fixed("glimit"), LANE, "many"),), (("bad_number", LANE, ("glimit", b"many")),)
    ),
    "a parent that waits for one child too many": Damage(
        (("SET", K.row(JOB) + b":dependencies", 3),),
        (("held_parent_stuck", JOB, (3, 2)), ("parent_count_mismatch", JOB, (3, 2))),
    ),
    "a parent that waits for one child too few": Damage(
        (("SET", K.row(JOB) + b":dependencies", 1),), (("parent_count_mismatch", JOB, (1, 2)),)
    ),
    "a parent that still counts on a child it was told to ignore": Damage(
        (("HSET", K.row(JOB) + b":unsuccessful", CHILD, "x"),), (("parent_count_mismatch", JOB, (2, 1)),)
    ),
    "a held parent that knows of a child it could not do without": Damage(
        (("HSET", K.row(JOB) + b":failed", CHILD, "x"),), (("held_parent_failed", JOB, (CHILD,)),)
    ),
    "a parent that no child has killed": Damage(
        (("HSET", K.row(JOB), "state", "dead"), ("ZADD", K.dead, 0, JOB)), (("dead_parent_unfailed", JOB, ()),)
    ),
    "a dead parent that counts on a child whose link was cut": Damage(
        (
            *(("HSET", K.row(JOB), "state", "dead"), ("ZADD", K.dead, 0, JOB)),
            *(("HSET", K.row(JOB) + b":failed", CHILD, "x"), ("HDEL", K.row(CHILD), "parent")),
        ),
        (),
    ),
    "a settlement under way for a child that is gone": Damage(
        (
            *(("DEL", K.row(CHILD)), ("ZREM", K.pending, CHILD)),
            ("RPUSH", QueueKeys("other").fixed("flow:outbox"), b"\0".join((b"jobs", JOB, CHILD, b"r"))),
        ),
        (),
    ),
    "a settlement under way that was delivered": Damage(
        (
            *(("HSET", K.row(JOB) + b":unsuccessful", CHILD, "x"), ("SET", K.row(JOB) + b":dependencies", 1)),
            ("RPUSH", K.fixed("flow:outbox"), b"\0".join((b"", b"fail", b"jobs", JOB, CHILD, b"id", b"x"))),
        ),
        (),
    ),
    "a ring that is no list": Damage(
        (("DEL", K.fixed("ring")), ("SET", K.fixed("ring"), "x")),
        (("wrong_type_key", b"ring", ("string",)), ("lane_starved", LANE, ())),
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_found(redis_client: redis.Redis, jobs: Transitions, damage: Damage) -> None:
    jobs.lane_enqueue(LANE, b"JOB00000000009", "{}")
    jobs.flow_add(FLOW)
    sound = invariants.look(redis_client)
    assert sound.broken == []
    worlds.send(redis_client, damage.commands)
    damaged = invariants.look(redis_client)
    assert {finding[1:] for finding in damaged.broken} == {*damage.found}
    assert invariants.worse(sound, damaged) == damaged.broken
    assert invariants.worse(damaged, damaged) == []


def test_worse_is_a_wider_gap_or_one_more_place(redis_client: redis.Redis, jobs: Transitions) -> None:
    redis_client.hset(K.fixed("gactive"), LANE, 2)
    redis_client.zadd(K.dead, {JOB: 0})
    gap, narrower, wider, more = (
        look_after(redis_client, *command)
        for command in (
            ("PING",),
            ("HINCRBY", K.fixed("gactive"), LANE, -1),
            ("HINCRBY", K.fixed("gactive"), LANE, 2),
            ("ZADD", K.schedule, 0, JOB),
        )
    )
    assert invariants.worse(gap, narrower) == []
    assert invariants.worse(narrower, wider) == [("jobs", "gactive_mismatch", LANE, (3, 0))]
    assert {finding.rule for finding in invariants.worse(wider, more)} == {"dangling", "in_two_places"}
    assert invariants.worse(more, wider) == []


def test_what_is_lost_made_or_changed_is_told(redis_client: redis.Redis, jobs: Transitions) -> None:
    jobs.enqueue(JOB, "a")
    before = invariants.look(redis_client)
    jobs.enqueue(CHILD, "b")
    after = look_after(redis_client, "HSET", K.row(JOB), "payload", "A")
    made, changed = f"made: jobs {CHILD!r}", f"payload changed: jobs {JOB!r}"
    assert invariants.conserved(before, after) == [made, changed]
    assert invariants.conserved(before, after, added=[("jobs", CHILD)]) == [changed]
    assert invariants.conserved(after, before) == [f"lost: jobs {CHILD!r}", changed]
    assert invariants.conserved(after, before, removed=[("jobs", CHILD), ("jobs", JOB)]) == []


def test_a_lock_on_the_row_is_eternal_exactly_if_it_has_no_time_to_live(
    redis_client: redis.Redis, jobs: Transitions
) -> None:
    jobs.enqueue(JOB, "a")
    jobs.track_lock(JOB, 1, 60_000)
    found = {finding.rule for finding in invariants.look(redis_client).findings}
    assert found == {"lock_string"} | ({"lock_field_without_ttl"} if not has_field_ttls(redis_client) else set())
    redis_client.hset(K.row(JOB), "lock", 1)
    assert {finding.rule for finding in invariants.look(redis_client).findings} == {
        "lock_string",
        "lock_field_without_ttl",
    }


def look_after(client: redis.Redis, *command: Any) -> Look:
    client.execute_command(*command)
    return invariants.look(client)


def audited(audit: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str, bytes, list[bytes]]]:
    """Yield the findings of world_ids.json one by one, as (queue, rule, subject, detail)."""
    for queue, rules in audit.items():
        for rule, told in rules.items():
            pairs = (
                told.items() if isinstance(told, dict) else told if rule == "bad_member" else [(it, []) for it in told]
            )
            yield from ((queue, rule, raw(subject), sorted(map(raw, detail))) for subject, detail in pairs)


def as_audited(finding: Finding) -> tuple[str, str, bytes, list[bytes]]:
    """Return a finding as ``audited`` does, which of most leaves the details out."""
    queue, rule, subject, detail = finding
    if rule == "outbox_malformed_at":
        return queue, rule, raw(detail[0]), []
    return queue, rule, subject, sorted(map(raw, detail)) if rule in DETAILED else []


def raw(told: Any) -> bytes:
    """Return a recorded or found value as bytes."""
    if isinstance(told, dict):
        return b64decode(told["b64"])
    return told if isinstance(told, bytes) else str(told).encode()
