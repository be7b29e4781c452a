"""Repairs beside everybody else: two at once, beside running workers, on findings that are out of date."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import invariants
import pytest
import redis
import worlds
from auditing import audited, batches, contents, living, name_of, opened, repaired
from conservation import job_id, lane_name
from damage import Operator
from servers import connect

from emqctl.demo.flows import Node
from emqctl.demo.server import PrivateServer
from emqctl.demo.worker import Rejected
from emqctl.errors import Malformed
from emqctl.keyspace import VERSION_KEY, QueueKeys
from emqctl.records import Finding
from emqctl.repairs import REPAIRS, repair_of

K = QueueKeys("jobs")
JOB, LANE, LANE_2 = job_id(1), lane_name(0), lane_name(1)
HOUR_MS = 3_600_000
ROUNDS = {"ci": 25, "full": 1000}[os.environ.get("EMQCTL_TEST_DEPTH", "ci")]


def test_two_runs_at_once_come_to_what_one_does(server: PrivateServer, redis_client: redis.Redis) -> None:
    world = worlds.load_world(redis_client)
    repaired(server.url, audited(server.url))
    alone = contents(redis_client)
    redis_client.flushall()
    worlds.load_world(redis_client, world.now_ms)
    with ThreadPoolExecutor(2) as pool:
        findings = list(pool.map(audited, [server.url] * 2))
        made = list(pool.map(repaired, [server.url] * 2, findings))
    together = contents(redis_client)
    wake = QueueKeys("emails").fixed("wake")
    assert {k: v for k, v in together.items() if k != wake} == {k: v for k, v in alone.items() if k != wake}
    fixed = [name_of(finding) for run in made for finding in run if finding.is_fixed]
    assert len(fixed) == len(set(fixed))


HARMS = """
local p, harm = KEYS[1], ARGV[1]
local groups = redis.call('HKEYS', p .. 'glimit')
local group = redis.call('LINDEX', p .. 'ring', 0) or groups[1]
if not group then return 0 end
local lane = p .. 'g:' .. group .. ':pending'
local id = redis.call('ZRANGE', lane, 0, 0)[1]
if harm == 'off' then return redis.call('LREM', p .. 'ring', 0, group) end
if harm == 'twice' then return redis.call('RPUSH', p .. 'ring', group) end
if harm == 'leak' then return redis.call('HINCRBY', p .. 'gactive', group, 1) end
if harm == 'flat' and id then redis.call('ZADD', p .. 'pending', 0, id); return redis.call('ZREM', lane, id) end
if harm == 'state' and id then return redis.call('HSET', p .. 'job:' .. id, 'state', 'dead') end
if harm == 'lock' and id then return redis.call('HSET', p .. 'job:' .. id, 'lock', '1') end
return 0
"""


def test_beside_running_workers_repairs_leave_a_sound_world(
    server: PrivateServer, redis_client: redis.Redis, demo_world: int
) -> None:
    emails, rng, fixed = QueueKeys("emails"), Random(5), []
    harms = ("off", "twice", "leak", "flat", "state", "lock")
    deadline = time.monotonic() + 4
    with living(lambda: connect(server)), opened(server.url) as target:
        while time.monotonic() < deadline:
            redis_client.eval(HARMS, 1, emails.prefix, rng.choice(harms))
            findings = audited(server.url, "emails")
            fixed += [f for batch in batches(target, findings) for f in batch.findings if f.is_fixed]
    repaired(server.url, audited(server.url, "emails"))
    assert [finding for finding in invariants.look(redis_client).broken if finding.queue == "emails"] == []
    assert len({finding.rule for finding in fixed}) > 4


class Scene:
    """Producers, workers, zombies and clumsy hands on one queue, at random."""

    def __init__(self, queue: Operator, rng: Random) -> None:
        self.queue, self.rng = queue, rng
        self.names = map(job_id, count(100))
        self.held: list[tuple[bytes, int]] = []

    def step(self) -> None:
        """Let one of them act."""
        with suppress(Rejected, Malformed, redis.ResponseError):  # refused, or the worker dies of what it met
            self.rng.choice(self.acts)()

    @property
    def acts(self) -> list[Callable[[], Any]]:
        """What any of them may do."""
        queue, rng = self.queue, self.rng
        group = rng.choice((LANE, LANE_2))
        held = rng.choice(self.held) if self.held else (JOB, 1)
        return [
            lambda: queue.enqueue(next(self.names), b"{}"),
            lambda: queue.lane_enqueue(group, next(self.names), b"{}"),
            lambda: queue.lane_enqueue(group, next(self.names), b"{}"),
            lambda: queue.enqueue_in(next(self.names), b"{}", rng.choice((0, HOUR_MS))),
            lambda: queue.flow_add(Node(next(self.names), b"p", (Node(next(self.names), b"c"),))),
            lambda: self.claim(queue.claim(rng.choice((0, HOUR_MS)))),
            lambda: self.claim(queue.lane_claim(rng.choice((0, HOUR_MS)))),
            lambda: self.claim(queue.lane_claim(rng.choice((0, HOUR_MS)))),
            lambda: queue.complete(*held),
            lambda: queue.retry(*held, rng.choice((0, HOUR_MS)), rng.choice((1, 3)), "boom"),
            lambda: queue.delay(*held, HOUR_MS),
            lambda: queue.extend_lock(*held, rng.choice((0, HOUR_MS))),
            lambda: queue.track_lock(*held, HOUR_MS),
            lambda: queue.untrack_lock(held[0]),
            queue.promote,
            queue.reap,
            lambda: queue.sweep_stalled(rng.choice((1, 2))),
            lambda: queue.lane_pause(group),
            lambda: queue.lane_resume(group),
            lambda: queue.lane_limit(group, rng.choice((1, 2))),
        ]

    def claim(self, claimed: Any) -> None:
        """Keep what a worker was given, for good."""
        if claimed:
            self.held.append((claimed.id, claimed.token))

    def harm(self) -> None:
        """Do what hands do that do not know the protocol."""
        client, rng = self.queue.client, self.rng
        rows = sorted(client.scan_iter(match=K.row(b"*")))
        some = rng.choice(rows) if rows else K.row(JOB)
        id_, group = some.removeprefix(K.row(b"")).partition(b":")[0], rng.choice((LANE, LANE_2))
        commands: list[tuple[Any, ...]] = [
            ("UNLINK", K.row(id_)),
            ("ZADD", rng.choice((K.pending, K.dead, K.schedule, K.active)), 1, id_),
            ("ZADD", K.lane_as_named(group), 0, id_),
            ("HSET", K.row(id_), "state", rng.choice(("pending", "active", "dead", "scheduled"))),
            ("HSET", K.row(id_), "lock", 1),
            ("HSET", K.row(id_), "group", group),
            ("HINCRBY", K.fixed("gactive"), group, rng.choice((-2, 1))),
            ("HSET", K.fixed("gactive"), group, rng.choice(("0", "many"))),
            ("RPUSH", K.fixed("ring"), group),
            ("LREM", K.fixed("ring"), 0, group),
            ("ZADD", K.pending, 0, "no id"),
            ("HSET", K.fixed("glimit"), group, rng.choice(("0", "many", "3"))),
        ]
        with suppress(redis.ResponseError):  # a counter that is no number by now
            worlds.send(client, [rng.choice(commands)])


@pytest.mark.timeout(1800)
def test_findings_that_are_out_of_date_never_make_anything_worse(
    server: PrivateServer, redis_client: redis.Redis
) -> None:
    """Between the audit and the repair everyone goes on; then it is asked for again, from the start."""
    fixed: set[str] = set()
    for nth in range(ROUNDS):
        redis_client.flushall()
        redis_client.set(VERSION_KEY, "echomq:3.0.0")
        scene = Scene(Operator(redis_client, "jobs"), Random(nth))
        for _ in range(40):
            scene.step()
            if scene.rng.random() < 0.2:
                scene.harm()
        findings = audited(server.url, "jobs")
        for _ in range(scene.rng.choice((0, 3, 10))):
            scene.step()
        before = invariants.look(redis_client)
        made = repaired(server.url, findings)
        after = invariants.look(redis_client)
        fixed |= {finding.rule for finding in made if finding.is_fixed}
        dropped = {("jobs", f.id) for f in made if f.rule in {"dangling", "bad_member"} and f.is_fixed}
        assert worse(before, after) == [], nth
        assert invariants.conserved(before, after, removed=dropped) == [], nth
        assert before.payloads == after.payloads, nth
        repaired(server.url, audited(server.url, "jobs"))
        assert [f for f in audited(server.url, "jobs") if repair_of(f)] == left(server.url), nth
    assert len({rule for each in REPAIRS for rule in each.rules} - fixed) <= (6 if ROUNDS < 100 else 0)


def left(url: str) -> list[Finding]:
    """Return what a third run would be asked to repair, and would not."""
    return [
        replace(f, result=None, reason=None) for f in repaired(url, audited(url, "jobs")) if f.reason and repair_of(f)
    ]


def worse(before: invariants.Look, after: invariants.Look) -> list[invariants.Finding]:
    """Return what is broken anew.

    A job among the dead whose row said something else says `dead` now; the checker takes one that never ran for
    a parent that its child has killed, and there is none.
    """
    return [f for f in invariants.worse(before, after) if f.rule != "dead_parent_unfailed"]
