"""The audit: what is wrong is found, all of it and nothing else, whatever goes on meanwhile."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from threading import Event, Thread
from typing import Any

import invariants
import pytest
import redis
import wire
import worlds
from auditing import audited, living, opened, recorded, subject, worth_knowing
from conservation import job_id as job
from conservation import lane_name as lane
from damage import Operator
from servers import connect

from emqctl.audit import Audit, jobs, sweep, waits
from emqctl.branded import BrandedId
from emqctl.demo.flows import Node
from emqctl.demo.server import PrivateServer
from emqctl.demo.worker import Transitions
from emqctl.keyspace import VERSION_KEY, QueueKeys
from emqctl.presence import key_pages
from emqctl.queues import Queue

LOOKS = 50
DEPTH = os.environ.get("EMQCTL_TEST_DEPTH", "ci")
#: Rules the recorded audit does not have: what they find in the recorded world.
EXTRA = {
    ("broken", "bad_attempts"): 1,
    ("broken", "flat_jobs_beside_lanes"): 1,
    ("broken", "lapsed_before"): 2,
    ("broken", "outbox_waiting"): 1,
    ("broken-meta", "queue_paused"): 1,
    ("emails", "flat_jobs_beside_lanes"): 1,
    ("frozen", "flat_jobs_beside_lanes"): 1,
    ("frozen", "queue_paused"): 1,
    ("orders", "lapsed_before"): 2,
    ("payments", "outbox_waiting"): 1,
}
#: Rules of the independent checker that are stricter than the audit, or go by other names.
CHECKERS_OWN = {*invariants.STRICTER}
K = QueueKeys("jobs")


def test_the_recorded_world_is_found_exactly_as_it_was_recorded(server: PrivateServer, world: worlds.World) -> None:
    found = [finding for finding in audited(server.url) if finding.queue in world.queues]
    wanted = Counter(recorded(world.raw["audit"]))
    rules = {rule for _, rule, _ in wanted}
    assert Counter((str(f.queue), f.rule, subject(f)) for f in found if f.rule in rules) == wanted
    assert Counter((str(f.queue), f.rule) for f in found if f.rule not in rules) == EXTRA


def test_details_of_the_recorded_world_are_told(server: PrivateServer, world: worlds.World) -> None:
    audit = world.raw["audit"]
    found = {(f.queue, f.rule, subject(f)): f for f in audited(server.url) if f.queue}
    for queue, rules in audit.items():
        for name, places in [*rules.get("dangling", {}).items(), *rules.get("in_two_places", {}).items()]:
            rule = "dangling" if len(places) == 1 else "in_two_places"
            assert found[queue, rule, name.encode()].place == " ".join(place.partition(":")[0] for place in places)
        for group, (counter, flying) in rules.get("gactive_mismatch", {}).items():
            text = f"its counter says {counter} in flight, and {flying} are"
            assert text in found[queue, "gactive_mismatch", group.encode()].meaning
        for parent, (waits_for, living_) in rules.get("held_parent_stuck", {}).items():
            text = f"so many children: {waits_for}, and so many can still tell it anything: {living_}"
            assert text in found[queue, "held_parent_stuck", parent.encode()].meaning
        for name, subs in rules.get("orphan_subkeys", {}).items():
            assert sorted(str(found[queue, "orphan_subkeys", name.encode()].place).split()) == subs


def test_an_independent_checker_finds_the_same(
    server: PrivateServer, redis_client: redis.Redis, world: worlds.World
) -> None:
    ours = Counter((f.queue, f.rule) for f in audited(server.url) if f.queue)
    theirs = Counter((f.queue, f.rule) for f in invariants.look(redis_client).findings)
    known = {rule for _, rule in theirs} - CHECKERS_OWN
    assert {key: n for key, n in ours.items() if key[1] in known} == {
        key: n for key, n in theirs.items() if key[1] in known
    }


def test_one_queue_is_found_as_it_is_among_all(server: PrivateServer, world: worlds.World) -> None:
    among_all = [finding for finding in audited(server.url) if finding.queue]
    for name in world.queues:
        alone = [finding for finding in audited(server.url, name) if finding.queue]
        assert Counter(alone) == Counter(finding for finding in among_all if finding.queue == name)
    some = [finding for finding in audited(server.url, "orders", "emails") if finding.queue]
    assert Counter(some) == Counter(finding for finding in among_all if finding.queue in {"orders", "emails"})


def test_every_level_of_the_issue_is_told(server: PrivateServer, world: worlds.World) -> None:
    levels = {finding.rule: finding.level for finding in audited(server.url)}
    notes = {"lock_string", "orphan_subkeys", "paused_lane_with_backlog", "dedup_dangling", "flat_jobs_beside_lanes"}
    stuck = {"active_expired", "schedule_overdue", "lane_starved", "held_parent_ready", "held_parent_stuck"}
    broken = {"dangling", "in_two_places", "gactive_mismatch", "grouped_in_flat_pending", "bad_member", "ghost_row"}
    assert {levels[rule] for rule in notes} == {"note"}
    assert {levels[rule] for rule in stuck} == {"stuck"}
    assert {levels[rule] for rule in broken} == {"broken"}


def test_what_is_late_by_less_than_a_minute_is_a_note(server: PrivateServer, redis_client: redis.Redis) -> None:
    queue, now_ms = Transitions(redis_client, "jobs"), worlds.server_ms(redis_client)
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    for nth, late_ms in enumerate((30_000, 90_000, -30_000)):
        queue.enqueue_at(job(nth), b"{}", now_ms - late_ms)
    found = {f.id: f.level for f in audited(server.url, "jobs") if f.rule == "schedule_overdue"}
    assert found == {job(0): "note", job(1): "stuck"}


def test_a_sound_world_has_nothing_broken(server: PrivateServer, redis_client: redis.Redis, demo_world: int) -> None:
    found = audited(server.url)
    assert worth_knowing(found) == {"active_expired", "schedule_overdue", "no_reaper", "no_promoter"}
    notes = {finding.rule for finding in found if finding.level == "note"}
    assert notes <= {
        *("lock_string", "paused_lane_with_backlog", "queue_paused", "lapsed_before", "flat_jobs_beside_lanes"),
        *("active_expired", "schedule_overdue"),
    }


def test_beside_running_workers_fifty_looks_find_nothing_above_a_note(
    server: PrivateServer, redis_client: redis.Redis, demo_world: int
) -> None:
    done = QueueKeys("orders").fixed("metrics:completed")
    with living(lambda: connect(server)), opened(server.url) as looking:
        deadline = time.monotonic() + 20
        while {"active_expired", "schedule_overdue"} & worth_knowing(Audit(looking)):
            assert time.monotonic() < deadline
        before = int(redis_client.hget(done, "count"))
        for _ in range(LOOKS):
            found = [finding for finding in Audit(looking) if finding.level != "note"]
            assert found == []
        assert int(redis_client.hget(done, "count")) > before + 10


def test_flows_that_are_settled_meanwhile_are_no_findings(server: PrivateServer, redis_client: redis.Redis) -> None:
    """Old enough to be judged; their children run here and in another queue, die, are retried, and are delivered."""
    here, away = Operator(redis_client, "jobs"), Operator(redis_client, "away")
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    names = map(job, count())
    for nth in range(60):
        children = [
            Node(next(names), b"c", queue=(None, "away")[nth % 2], ignore_failure=each % 2 == 0) for each in range(3)
        ]
        here.flow_add(Node(next(names), b"p", tuple(children)))
    stop, rng = Event(), Random(7)

    def work() -> None:
        with connect(server) as client:
            crews = [Operator(client, "jobs"), Operator(client, "away")]
            while not stop.is_set():
                for queue in crews:
                    claimed = queue.claim(60_000)
                    if claimed and rng.random() < 0.8:
                        queue.complete(claimed.id, claimed.token)
                    elif claimed:
                        queue.retry(claimed.id, claimed.token, 0, rng.choice((1, 3)), "boom")
                    queue.promote()
                    queue.pump_deliver()

    worker = Thread(target=work)
    worker.start()
    try:
        with opened(server.url) as looking:
            looks = 0
            while away.client.zcard(K.pending) or looks < 5:
                assert [finding for finding in Audit(looking) if finding.level != "note"] == []
                looks += 1
    finally:
        stop.set()
        worker.join()
    assert [finding for finding in audited(server.url) if finding.level != "note"] == []
    assert redis_client.zcard(K.dead) > 3


def test_a_settlement_that_is_posted_after_the_scan_has_passed_is_under_way(
    server: PrivateServer, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outbox comes to be when its key can no longer be met, and the row of the child goes before it is read."""
    away, parent = Operator(redis_client, "away"), job(1)
    Operator(redis_client, "jobs").flow_add(Node(parent, b"p", (Node(job(2), b"c", queue="away"),)))

    def scan(*of: Any) -> Iterator[list[bytes]]:
        pages = list(key_pages(*of))
        claimed = away.claim(60_000)
        assert claimed
        away.complete(claimed.id, claimed.token)
        yield from pages

    monkeypatch.setattr(waits, "key_pages", scan)
    suspects = waits.Waits({("jobs", parent): 1})
    with opened(server.url) as looking:
        assert list(waits.judged(looking, suspects)) == []
    assert redis_client.llen(away.keys.fixed("flow:outbox")) == 1


@pytest.mark.parametrize("settle", ["complete", "retry"])
def test_a_job_that_is_settled_between_two_looks_is_no_finding(
    server: PrivateServer, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, settle: str
) -> None:
    """The first look reads a page of the set, then its rows: by then the job is gone, or elsewhere."""
    queue = Transitions(redis_client, "jobs")
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    queue.enqueue(job(1), b"{}")
    claimed = queue.claim(60_000)
    assert claimed
    real, suspects = sweep.first.walk, []

    def walk(looked_at: Queue, sets: Any) -> Iterator[Any]:
        for page in real(looked_at, sets):
            if any(member == job(1) for _, member, _ in page[0]) and queue.client.exists(K.row(job(1))):
                act[settle]()
            yield page

    def look(looked_at: Queue, members: dict[bytes, Any]) -> list[jobs.Job]:
        suspects.extend(members)
        return real_look(looked_at, members)

    act: dict[str, Callable[[], object]] = {
        "complete": lambda: queue.complete(job(1), claimed.token),
        "retry": lambda: queue.retry(job(1), claimed.token, 60_000, 3, "boom"),
    }
    real_look = jobs.look
    monkeypatch.setattr(sweep.first, "walk", walk)
    monkeypatch.setattr(sweep.jobs, "look", look)
    assert [finding for finding in audited(server.url, "jobs") if finding.queue] == []
    assert suspects == [job(1)]


def test_a_suspect_that_changes_its_lane_is_looked_for_again(
    server: PrivateServer, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Transitions(redis_client, "jobs")
    queue.lane_enqueue(lane(0), job(1), b"{}")
    real = jobs._look

    def look(looked_at: Queue, members: list[bytes], suspects: dict[bytes, set[bytes]]) -> list[jobs._View]:
        views = real(looked_at, members, suspects)
        if redis_client.zscore(K.lane(BrandedId("TEN", 1 << 22)), job(1)) is not None:
            redis_client.zadd(K.lane_as_named(lane(1)), {job(1): 0})
            redis_client.zrem(K.lane_as_named(lane(0)), job(1))
            redis_client.hset(K.row(job(1)), "group", lane(1))
            views = real(looked_at, members, suspects)
            for view in views:
                view.row = {**view.row, "group": lane(0)}
        return views

    monkeypatch.setattr(jobs, "_look", look)
    with opened(server.url) as looking:
        [found] = jobs.look(Queue(looking, "jobs"), {job(1): ()})
    assert (found.lanes, found.row["group"]) == ((lane(1),), lane(1))


def test_a_counter_is_judged_although_a_member_in_flight_has_no_row(
    server: PrivateServer, redis_client: redis.Redis
) -> None:
    queue = Transitions(redis_client, "jobs")
    queue.lane_enqueue(lane(0), job(1), b"{}")
    queue.lane_claim(3_600_000)
    redis_client.zadd(K.active, {job(2): 4_000_000_000_000})
    redis_client.hincrby(K.fixed("gactive"), lane(0), 1)
    assert {f.rule for f in audited(server.url, "jobs") if f.level == "broken"} == {"dangling", "gactive_mismatch"}


def test_an_id_without_a_row_is_told_once_with_every_place_it_stands_in(
    server: PrivateServer, redis_client: redis.Redis
) -> None:
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    for key in (K.lane_as_named(lane(0)), K.pending, K.dead):
        redis_client.zadd(key, {job(1): 0})
    found = {f.rule: f for f in audited(server.url, "jobs") if f.id}
    assert set(found) == {"dangling", "in_two_places"}
    assert found["in_two_places"].place == "pending dead lane"
    assert found["in_two_places"].repair == "emqctl doctor jobs --fix"


def test_no_command_asks_for_more_than_a_thousand(
    server: PrivateServer, redis_client: redis.Redis, monitor: wire.Monitor
) -> None:
    fill(redis_client, 1100)
    with monitor() as commands:
        audited(server.url)
    asked = Counter()
    for words in commands:
        name = words[0].upper()
        if name in {b"SCAN", b"ZSCAN", b"HSCAN", b"SSCAN"}:
            assert int(words[words.index(b"COUNT") + 1]) <= 1000
        elif name in {b"ZRANGE", b"LRANGE"} and b"BYLEX" not in words:
            assert int(words[3]) - int(words[2]) < 1000
        asked[name] += 1
    assert asked[b"ZSCAN"] > 2 * 4 + 550 / 50
    assert not {b"KEYS", b"SMEMBERS", b"HGETALL", b"HKEYS"} & set(asked)


def test_no_reply_holds_more_than_a_thousand_members(
    server: PrivateServer, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(redis_client, 1100)
    with opened(server.url) as looking:
        real = looking.try_ask

        def counting(*commands: Any, **options: bool) -> list[Any]:
            replies = real(*commands, **options)
            members = [reply for command, reply in zip(commands, replies, strict=True) if command[0] != "SCAN"]
            sizes.extend(map(size, members))
            return replies

        sizes: list[int] = []
        monkeypatch.setattr(looking, "try_ask", counting)
        list(Audit(looking))
    assert 500 <= max(sizes) <= 1000


def size(reply: object) -> int:
    inner = reply[1] if isinstance(reply, tuple) and len(reply) == 2 and not isinstance(reply[1], int) else reply
    return len(inner) if isinstance(inner, list | dict) else 1


def test_an_audit_remembers_lanes_and_what_is_wrong_and_no_jobs(
    server: PrivateServer, redis_client: redis.Redis
) -> None:
    fill(redis_client, 300, lanes=30)
    with opened(server.url) as looking:
        audit = Audit(looking)
        list(audit)
    memory = audit._memory
    kept = {name: len(value) for name, value in vars(memory).items() if isinstance(value, dict | set)}
    assert sum(map(len, memory.lanes.values())) == 30
    assert {name for name, number in kept.items() if number} == {"lanes", "_told"}
    assert kept["_told"] == 1  # flat jobs beside lanes
    assert vars(memory.waits) == vars(waits.Waits())


@pytest.mark.skipif(DEPTH != "full", reason="takes minutes")
def test_memory_does_not_grow_with_the_number_of_jobs(server: PrivateServer, redis_client: redis.Redis) -> None:
    peaks = []
    for jobs_ in (4000, 40_000):
        fill(redis_client, jobs_, lanes=400)
        tracemalloc.start()
        audited(server.url)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 2_000_000  # of 180,000 jobs more


def fill(client: redis.Redis, size_: int, lanes: int = 550) -> None:
    """Make a sound queue with so many jobs in flat pending, scheduled, dead, in flight and in lanes each."""
    client.set(VERSION_KEY, "echomq:3.0.0")
    places = {"pending": (K.pending, 0), "scheduled": (K.schedule, 4_000_000_000_000), "dead": (K.dead, 0)}
    places["active"] = (K.active, 4_000_000_000_000)
    commands: list[tuple[bytes | str | int, ...]] = []
    for nth in range(size_):
        for at, (state, (key, score)) in enumerate(places.items()):
            id_ = job(10 * nth + at)
            commands.append(("HSET", K.row(id_), "state", state, "attempts", 0, "payload", "{}"))
            commands.append(("ZADD", key, score, id_))
        id_, group = job(10 * nth + 9), lane(nth % lanes)
        commands.append(("HSET", K.row(id_), "state", "pending", "attempts", 0, "payload", "{}", "group", group))
        commands.append(("ZADD", K.lane_as_named(group), 0, id_))
    commands += [("RPUSH", K.fixed("ring"), lane(nth)) for nth in range(lanes)]
    client.flushall()
    worlds.send(client, commands)
    client.set(VERSION_KEY, "echomq:3.0.0")


def test_it_reads_and_nothing_else(
    server: PrivateServer, redis_client: redis.Redis, world: worlds.World, keeper: redis.Redis
) -> None:
    user = ("on", ">pw", "resetkeys", "~emq:*", "~{emq}:*", "-@all", "+@read", "+@connection", "+@transaction", "+time")
    keeper.execute_command("ACL", "SETUSER", "looker", *user)
    before = worlds.snapshot(redis_client)
    ours = audited(server.url.replace("//", "//looker:pw@"))
    assert ours[0].rule == "eviction_unknown"
    everything = Counter(finding for finding in audited(server.url) if finding.queue)
    assert Counter(finding for finding in ours if finding.queue) == everything
    assert {k: v.content for k, v in worlds.snapshot(redis_client).items()} == {k: v.content for k, v in before.items()}


def test_every_repair_is_a_command_line_that_stands(server: PrivateServer, world: worlds.World) -> None:
    repairs = {finding.repair for finding in audited(server.url) if finding.repair}
    commands = {repair for repair in repairs if not repair.startswith("a person decides: emqctl inspect ")}
    words = {" ".join(command.split()[:2]) for command in commands}
    assert words == {
        *("emqctl doctor", "emqctl move", "emqctl promote", "emqctl reap", "emqctl remove", "emqctl resume"),
        *("redis-cli DEL", "redis-cli LINDEX", "redis-cli UNLINK", "redis-cli ZREM"),
    }
