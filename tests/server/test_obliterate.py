"""Obliterating a queue in the core: nothing of it is left, nothing else is touched, and it may end at any step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from random import Random
from threading import Event, Thread
from typing import Any

import invariants
import pytest
import redis
import servers
import wire
import worlds
from conservation import Look, dead_queue, job_id, lane_name, opened, without_ttls

from emqctl.changes import Outcome
from emqctl.demo.flows import Node
from emqctl.demo.server import PrivateServer
from emqctl.demo.worker import Rejected, Transitions
from emqctl.errors import Denied, NoAnswer
from emqctl.keyspace import FIXED, VERSION_KEY, QueueKeys, queue_of
from emqctl.obliteration import BATCH, LANES, ROUNDS, _commands, obliterate, preview
from emqctl.permissions import changes, commands_of
from emqctl.scripts import SHARED, lua
from emqctl.stock import Stock, Tie, take_stock

KEYS = QueueKeys("jobs")
META = KEYS.fixed("meta")
LANE = lane_name(0)
LEASE = 30_000
NOW_MS = 1_796_061_600_000
WORLD = list(worlds._recorded("world_ids.json")["queues"])
#: What can be wrong for a while because a flow is deleted job by job.
OF_FLOWS = {
    *("held_parent_ready", "held_parent_stuck", "held_parent_failed", "dead_parent_unfailed"),
    *("parent_count_mismatch", "child_without_parent"),
}

Hook = Callable[[Sequence[bytes]], None]


@pytest.fixture
def jobs(redis_client: redis.Redis) -> Transitions:
    """EchoMQ's producers and workers at the queue `jobs`."""
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    return Transitions(redis_client, "jobs")


def run(
    url: str, queue: str = "jobs", *, force: bool = False, steps: int | None = None, begin: Hook = lambda _: None
) -> list[Outcome]:
    """Obliterate a queue, or take only so many steps; return what was deleted, and why not all."""
    found: list[Outcome] = []
    with opened(url, queue) as target:
        target.server.now_ms()  # greets: the calls that follow are the programs alone
        for nth, outcomes in enumerate(obliterate(target, begin, force=force), 1):
            assert len(outcomes) <= BATCH
            found += outcomes
            if nth == steps:
                break
    return found


def left(client: redis.Redis, queue: str = "jobs") -> list[bytes]:
    """Return the keys of a queue."""
    return [key for key in client.scan_iter(count=1000) if queue_of(key) == queue]


def others(client: redis.Redis, queue: str) -> dict[bytes, Any]:
    """Return every key that is not of a queue, and what it holds."""
    return {key: value for key, value in without_ttls(worlds.snapshot(client)).items() if queue_of(key) != queue}


def fill(jobs: Transitions, number: int = 1, first: int = 0) -> list[bytes]:
    """Let jobs be everywhere: so many flat, in a lane, scheduled and dead, some with logs; return their ids."""
    ids = [job_id(first + nth) for nth in range(4 * number)]
    for nth in range(number):
        jobs.enqueue(ids[4 * nth], "{}")
        claimed = jobs.claim(LEASE)
        assert claimed
        jobs.retry(claimed.id, claimed.token, 0, 1, "boom")
    for nth in range(number):
        jobs.enqueue(ids[4 * nth + 1], "{}")
        jobs.lane_enqueue(LANE, ids[4 * nth + 2], "{}")
        jobs.enqueue_in(ids[4 * nth + 3], "{}", 60_000)
        jobs.add_log(ids[4 * nth + 1], "a line")
    jobs.repeat_register("daily", 60_000, "{}", 60_000)
    return ids


# The recorded world


@pytest.mark.parametrize("queue", WORLD)
def test_no_key_of_the_queue_is_left_and_no_other_key_is_touched(
    server: PrivateServer, world: worlds.World, redis_client: redis.Redis, queue: str
) -> None:
    before = others(redis_client, queue)
    assert left(redis_client, queue)
    run(server.url, queue, force=True)
    assert left(redis_client, queue) == []
    assert others(redis_client, queue) == before


@pytest.mark.parametrize("queue", WORLD)
def test_each_row_is_told_of_once_and_with_where_it_stood(
    server: PrivateServer, world: worlds.World, redis_client: redis.Redis, queue: str
) -> None:
    view = invariants.look(redis_client).queues[queue]
    outcomes = run(server.url, queue, force=True)
    assert sorted({each.id for each in outcomes}) == sorted({*view.rows, *view.odd_rows, *view.places} - _bad(view))
    for each in outcomes:
        assert (each.result, each.place_after) == ("removed", "none")
        places = {"lane" if place.startswith("lane:") else place for place in view.places.get(each.id or b"", ["none"])}
        assert each.place_before in places
        assert each.lane == (view.rows.get(each.id or b"", {}).get(b"group") or b"").decode() or each.lane is None


def _bad(view: invariants.QueueView) -> set[bytes]:
    """Rows under names that are no ids, in no place: they go as any other key."""
    return {member for member in view.rows if not invariants.is_id(member) and member not in view.places}


# Ended at any step


@pytest.mark.parametrize("queue", ["orders", "emails", "broken", "invoices"])
def test_after_any_step_the_queue_is_paused_and_sound_and_another_run_completes_it(
    server: PrivateServer, redis_client: redis.Redis, queue: str
) -> None:
    _reload(redis_client)
    before, untouched, steps = invariants.look(redis_client), others(redis_client, queue), 0
    while left(redis_client, queue):
        steps += 1
        run(server.url, queue, force=True, steps=steps)
        if left(redis_client, queue):
            _check_interrupted(redis_client, queue, before)
            run(server.url, queue, force=True)
            assert left(redis_client, queue) == []
            assert others(redis_client, queue) == untouched
            _reload(redis_client)
    assert steps > 6


def test_after_any_lost_answer_the_queue_is_paused_and_sound_and_another_run_completes_it(
    server: PrivateServer, redis_client: redis.Redis, proxy: wire.Proxy
) -> None:
    _reload(redis_client)
    before, untouched = invariants.look(redis_client), others(redis_client, "emails")
    run(server.url, "emails", force=True)  # so that the server holds the programs
    calls, is_cut = 0, True
    while is_cut:
        calls += 1
        _reload(redis_client)
        try:
            run(proxy.url, "emails", force=True, begin=_CutAt(proxy, calls))
            is_cut = False
        except NoAnswer:
            proxy.cut_down = None
            if left(redis_client, "emails"):  # the last answer is lost with everything done
                _check_interrupted(redis_client, "emails", before)
                run(server.url, "emails", force=True)
        assert left(redis_client, "emails") == []
    assert others(redis_client, "emails") == untouched
    assert calls > 6


def _reload(client: redis.Redis) -> None:
    client.flushall()
    worlds.load_world(client, NOW_MS)


def _check_interrupted(client: redis.Redis, queue: str, before: invariants.Look) -> None:
    is_begun = sorted(left(client, queue)) != [key for key in before.keys if queue_of(key) == queue]
    assert client.hexists(QueueKeys(queue).fixed("meta"), "paused") or not is_begun
    found = invariants.worse(before, invariants.look(client))
    assert [finding for finding in found if finding.rule not in OF_FLOWS] == []


class _CutAt:
    """Lose the answer to the nth call."""

    def __init__(self, proxy: wire.Proxy, nth: int) -> None:
        self._proxy, self._left = proxy, nth

    def __call__(self, _ids: Sequence[bytes]) -> None:
        self._left -= 1
        if not self._left:
            self._proxy.cut_down = 0


def test_jobs_go_in_order_and_at_most_25_a_step(server: PrivateServer, jobs: Transitions) -> None:
    ids = fill(jobs, 150)
    claimed = jobs.claim(LEASE)
    assert claimed
    outcomes = run(server.url, force=True)
    assert sorted(each.id for each in outcomes if each.id) == sorted(ids)
    places = [each.place_before for each in outcomes]
    assert places == ["schedule"] * 150 + ["pending"] * 149 + ["lane"] * 150 + ["dead"] * 150 + ["active"]
    assert {each.lane for each in outcomes if each.place_before == "lane"} == {LANE.decode()}


def test_repeats_go_first_since_they_make_jobs(server: PrivateServer, jobs: Transitions) -> None:
    fill(jobs)
    run(server.url, steps=2)
    assert not jobs.client.exists(KEYS.fixed("repeat"), KEYS.repeat(b"daily"))
    assert jobs.client.zcard(KEYS.schedule) == 1


def test_the_ids_of_a_step_are_told_beforehand_where_they_are_known(server: PrivateServer, jobs: Transitions) -> None:
    fill(jobs)
    held = job_id(900)
    jobs.client.hset(KEYS.row(held), mapping={"state": "awaiting_children", "payload": "{}"})
    told: list[bytes] = []
    outcomes = run(server.url, begin=told.extend)
    assert told == [held]
    assert outcomes[-1] == Outcome(held, "removed", None, "none", "none")


def test_a_job_that_gets_a_place_just_before_it_is_deleted_keeps_row_and_place_until_both_go(
    server: PrivateServer, jobs: Transitions
) -> None:
    """As a held parent whose last child is done in that moment."""
    held = job_id(900)
    jobs.client.hset(KEYS.row(held), mapping={"state": "awaiting_children", "attempts": 0, "payload": "{}"})

    def release(ids: Sequence[bytes]) -> None:
        if ids:
            jobs.client.hset(KEYS.row(held), "state", "pending")
            jobs.client.zadd(KEYS.pending, {held: 0})
            jobs.client.set(KEYS.row(held, "lock"), "1")
            released.append(held)
        elif released:
            found = Look(jobs.client, "jobs")
            assert found.faults() == []
            assert jobs.client.exists(KEYS.row(held), KEYS.row(held, "lock")) in {0, 2}

    released: list[bytes] = []
    assert run(server.url, begin=release) == [Outcome(held, "removed", None, "pending", "none")]
    assert released == [held]
    assert left(jobs.client) == []


def test_a_repeat_registered_meanwhile_keeps_its_record_until_both_go(server: PrivateServer, jobs: Transitions) -> None:
    jobs.client.hset(KEYS.repeat(b"daily"), "every_ms", 1)  # a record of no registration, so that the sweep meets it
    calls = [0]

    def register(_ids: Sequence[bytes]) -> None:
        calls[0] += 1
        if calls[0] == 7:  # after the pause and the five sets
            jobs.client.zadd(KEYS.fixed("repeat"), {b"daily": 0})
        if calls[0] == 8:
            assert jobs.client.exists(KEYS.fixed("repeat"), KEYS.repeat(b"daily")) == 2

    run(server.url, begin=register)
    assert calls[0] > 8
    assert left(jobs.client) == []


def test_a_lane_that_fills_meanwhile_keeps_its_wake_up(server: PrivateServer, jobs: Transitions) -> None:
    fill(jobs)
    calls = [0]

    def enqueue(_ids: Sequence[bytes]) -> None:
        calls[0] += 1
        if calls[0] == 8:  # after the pause, the five sets and the lane
            jobs.lane_enqueue(LANE, job_id(900), "{}")
        if calls[0] == 9:
            assert jobs.client.exists(KEYS.fixed("ring"), KEYS.fixed("wake")) == 2

    run(server.url, begin=enqueue)
    assert calls[0] > 9
    assert left(jobs.client) == []


# What keeps it from the end


def test_with_jobs_in_flight_nothing_is_deleted_but_the_queue_is_paused(
    server: PrivateServer, jobs: Transitions
) -> None:
    fill(jobs)
    assert jobs.lane_claim(LEASE)
    before = without_ttls(worlds.snapshot(jobs.client))
    assert run(server.url) == [Outcome(None, "skipped", "active")]
    assert jobs.client.hgetall(META) == {b"paused": b"1"}
    after = without_ttls(worlds.snapshot(jobs.client))
    assert {key: value for key, value in after.items() if key != META} == before


@pytest.mark.parametrize("step", range(2, 10))
def test_a_claim_that_lands_after_the_pause_stops_it_with_nothing_lost_of_the_claimed(
    server: PrivateServer, jobs: Transitions, step: int
) -> None:
    fill(jobs, 2)
    held, claimed, calls = job_id(900), [], [0]

    def claim(_ids: Sequence[bytes]) -> None:
        calls[0] += 1
        if calls[0] == step:
            jobs.enqueue(held, "{}")
            claimed.extend(jobs._run("claim", LEASE))  # a host that had looked for a pause before

    outcomes = run(server.url, begin=claim)
    assert calls[0] <= step + 1  # the step at the end does not ask: it finds that something is left
    assert outcomes[-1] == Outcome(None, "skipped", "active")
    assert jobs.client.hexists(META, "paused")
    assert Look(jobs.client, "jobs").faults() == []
    assert jobs.complete(claimed[0], int(claimed[2])) == "ok"
    run(server.url)
    assert left(jobs.client) == []


def test_a_producer_that_does_not_stop_wins_after_twenty_rounds_and_the_queue_stays_paused(
    server: PrivateServer, jobs: Transitions
) -> None:
    fill(jobs)
    fresh = iter(range(1000, 100_000))

    def produce(_ids: Sequence[bytes]) -> None:
        jobs.lane_enqueue(lane_name(7), job_id(next(fresh)), "{}")

    assert run(server.url, begin=produce)[-1] == Outcome(None, "skipped", "written-meanwhile")
    assert next(fresh) - 1000 <= ROUNDS * 20
    assert jobs.client.hexists(META, "paused")
    assert Look(jobs.client, "jobs").faults() == []
    run(server.url)
    assert left(jobs.client) == []


def test_a_set_that_is_filled_as_fast_as_it_is_emptied_does_not_hold_up_the_others(
    server: PrivateServer, jobs: Transitions
) -> None:
    fill(jobs)
    fresh = iter(range(1000, 100_000))

    def produce(_ids: Sequence[bytes]) -> None:
        worlds.send(jobs.client, (("ZADD", KEYS.pending, 0, job_id(next(fresh))) for _ in range(BATCH)))

    places = [each.place_before for each in run(server.url, begin=produce, steps=12)]
    assert places.count("pending") >= 4 * BATCH
    assert places[-1] == "dead"


@contextmanager
def working(server: PrivateServer, threads: int = 3) -> Iterator[None]:
    """Let producers and workers do everything they do at the queue `jobs`."""
    stop = Event()
    crew = [Thread(target=_work, args=(server, stop, nth)) for nth in range(threads)]
    for each in crew:
        each.start()
    try:
        yield
    finally:
        stop.set()
        for each in crew:
            each.join()


def _work(server: PrivateServer, stop: Event, worker: int) -> None:
    rng = Random(worker)
    fresh = iter(range(1000 + worker * 1_000_000, 10**9))
    with servers.connect(server) as client:
        queue = Transitions(client, "jobs")
        while not stop.is_set():
            queue.enqueue(job_id(next(fresh)), "{}")
            queue.lane_enqueue(lane_name(rng.randrange(4)), job_id(next(fresh)), "{}")
            queue.enqueue_in(job_id(next(fresh)), "{}", rng.choice([0, 60_000]))
            queue.promote()
            for claimed in (queue.claim(rng.choice([0, LEASE])), queue.lane_claim(rng.choice([0, LEASE]))):
                with suppress(Rejected):
                    if claimed and rng.random() < 0.5:
                        queue.complete(claimed.id, claimed.token)
                    elif claimed:
                        queue.retry(claimed.id, claimed.token, 10, rng.choice([1, 3]), "boom")
            queue.reap()


@pytest.mark.parametrize("force", [False, True], ids=["", "force"])
def test_among_live_workers_it_stays_sound_and_completes_when_they_have_stopped(
    server: PrivateServer,
    jobs: Transitions,
    world: worlds.World,
    force: bool,  # noqa: FBT001 - a table
) -> None:
    untouched = others(jobs.client, "jobs")
    fill(jobs, 20, first=10**9)
    with working(server):
        for _ in range(5):
            run(server.url, force=force)
    assert Look(jobs.client, "jobs").faults() == []
    run(server.url, force=True)
    assert left(jobs.client) == []
    assert others(jobs.client, "jobs") == untouched


# Damage


def _value(client: redis.Redis, key: bytes, kind: str) -> None:
    """Put something of another type than ``kind`` there."""
    client.delete(key)
    if kind == "string":
        client.rpush(key, "x", "y")
    else:
        client.set(key, "x")


@pytest.mark.parametrize("kind", [kind for kind in FIXED if kind != "events"])
def test_a_key_of_another_type_is_deleted_and_not_tripped_over(
    server: PrivateServer, jobs: Transitions, kind: str
) -> None:
    fill(jobs)
    _value(jobs.client, KEYS.fixed(kind), FIXED[kind])
    run(server.url)
    assert left(jobs.client) == []


def test_lanes_rows_and_what_hangs_below_may_be_of_any_type(server: PrivateServer, jobs: Transitions) -> None:
    ids = fill(jobs, 2)
    claimed = jobs.lane_claim(LEASE)
    assert claimed
    jobs.client.rpush(KEYS.fixed("ring"), lane_name(1))
    keys = [
        *(KEYS.row(ids[1]), KEYS.row(ids[3]), KEYS.lane_as_named(LANE), KEYS.lane_as_named(lane_name(1))),
        *(KEYS.lane_as_named(lane_name(2)), KEYS.repeat(b"daily"), KEYS.row(ids[0], "logs"), KEYS.dedup(b"x")),
    ]
    for key in keys:
        _value(jobs.client, key, "string")
    run(server.url, force=True)
    assert left(jobs.client) == []


@pytest.mark.parametrize("company", [[], [job_id(50)]], ids=["alone", "not alone"])
def test_a_job_in_two_places_leaves_both_in_one_step(
    server: PrivateServer, jobs: Transitions, company: list[bytes]
) -> None:
    ids = fill(jobs)
    jobs.client.zadd(KEYS.schedule, dict.fromkeys(ids, 0))
    for job in company:
        jobs.lane_enqueue(LANE, job, "{}")
    run(server.url, steps=3)
    assert left_jobs(jobs.client) == {*company}
    assert Look(jobs.client, "jobs").faults() == []
    run(server.url)
    assert left(jobs.client) == []


def left_jobs(client: redis.Redis) -> set[bytes]:
    view = Look(client, "jobs")
    return {*view.rows, *view.places}


def test_members_and_names_that_are_no_ids_go_too(server: PrivateServer, jobs: Transitions) -> None:
    fill(jobs)
    odd = b"odd \x00\xff:name*"
    for key in (KEYS.pending, KEYS.schedule, KEYS.dead, KEYS.lane_as_named(LANE), KEYS.fixed("repeat")):
        jobs.client.zadd(key, {odd: 0, b"": 0})
    jobs.client.rpush(KEYS.fixed("ring"), odd, LANE, LANE)
    jobs.client.sadd(KEYS.fixed("paused"), odd)
    for kind in ("gactive", "glimit", "gweight"):
        jobs.client.hset(KEYS.fixed(kind), odd, "many")
    jobs.client.hset(KEYS.row(odd), "group", odd)
    jobs.client.zadd(KEYS.lane_as_named(odd), {odd: 0})
    jobs.client.set(KEYS.prefix + b"unheard of", 1)
    run(server.url)
    assert left(jobs.client) == []


@pytest.mark.parametrize("counter", ["many", "1.5", "7", "-1", "0", None])
def test_whatever_the_counter_of_a_lane_says_it_goes(
    server: PrivateServer, jobs: Transitions, counter: str | None
) -> None:
    fill(jobs, 2)
    assert jobs.lane_claim(LEASE)
    jobs.client.hdel(KEYS.fixed("gactive"), LANE)
    if counter is not None:
        jobs.client.hset(KEYS.fixed("gactive"), LANE, counter)
    run(server.url, force=True)
    assert left(jobs.client) == []


def test_a_name_with_the_marks_of_a_pattern_deletes_only_itself(
    server: PrivateServer, redis_client: redis.Redis
) -> None:
    for queue in ("a*", "ab", "a[b]", "a?", "a\\*"):
        fill(Transitions(redis_client, queue))
    before = others(redis_client, "a*")
    run(server.url, "a*")
    assert left(redis_client, "a*") == []
    assert others(redis_client, "a*") == before


# Many


def test_five_thousand_lanes_go_in_bounded_calls(
    server: PrivateServer, redis_client: redis.Redis, monitor: wire.Monitor
) -> None:
    worlds.send(redis_client, dead_queue("jobs", 3000, 5000, Random(1)))
    with monitor() as commands:
        outcomes = run(server.url, force=True)
    assert left(redis_client) == []
    assert len(outcomes) > 5000
    calls = [command for command in commands if command[0] == b"EVALSHA"]
    assert len(calls) < 5000 // LANES + len(outcomes) // BATCH + 100
    for name, *words in commands:
        if name == b"EVALSHA":
            assert len(words) <= 2 + 2 + 2 + BATCH
        elif name == b"LRANGE":
            assert int(words[2]) - int(words[1]) < 1000
        elif name in {b"SCAN", b"SSCAN", b"HSCAN"}:
            assert words[-1] == b"1000"
        else:
            assert name in {b"GET", b"TIME", b"LLEN", b"SCRIPT", b"MULTI", b"EXEC", b"DISCARD"}


# Permissions


@pytest.mark.parametrize(
    "command",
    [
        *("unlink", "hsetnx", "zrem", "hdel", "srem", "lrem", "hincrby", "rpush"),
        *("type", "zrange", "zcard", "hget", "exists", "zscore", "sismember"),
    ],
)
def test_a_user_who_may_not_send_all_of_it_changes_nothing(
    server: PrivateServer, jobs: Transitions, keeper: redis.Redis, command: str
) -> None:
    fill(jobs)
    before = worlds.snapshot(jobs.client)
    keeper.execute_command("ACL", "SETUSER", "short", "on", "nopass", "~*", "+@all", f"-{command}")
    with pytest.raises(Denied, match=command.upper()):
        run(server.url.replace("redis://", "redis://short:x@"))
    assert worlds.snapshot(jobs.client).keys() == before.keys()


@pytest.mark.parametrize("command", ["unlink", "zrem", "rpush", "lrem"])
def test_a_step_of_a_user_who_lost_a_right_meanwhile_changes_nothing(
    server: PrivateServer, jobs: Transitions, keeper: redis.Redis, command: str
) -> None:
    try:
        keeper.execute_command("ACL", "DRYRUN", "default", "ping")
    except redis.ResponseError:
        pytest.skip("no program is told here what its user may do")
    fill(jobs)
    keeper.execute_command("ACL", "SETUSER", "short", "on", ">pw", "~*", "&*", "+@all")
    with opened(server.url.replace("//", "//short:pw@"), "jobs") as target:
        steps = obliterate(target, lambda _: None)
        next(steps)
        keeper.execute_command("ACL", "SETUSER", "short", f"-{command}")
        before = worlds.snapshot(jobs.client)
        with pytest.raises(Denied, match=command.upper()):
            next(steps)
    assert worlds.snapshot(jobs.client) == before


def test_whatever_the_programs_send_is_asked_for_in_the_first_of_them() -> None:
    programs = changes()["obliterate"]
    assert programs == tuple(f"obliterate_{step}" for step in ("begin", "end", "members", "rest"))
    sent = {word for name in programs for word in re.findall(r"\bcall\('([A-Z]+)'", lua(name))}
    assert len(sent) > 8
    asked = "".join(map(lua, ("obliterate_begin", *SHARED)))
    assert sent <= set(re.findall(r"\{ '([A-Z]+)',", asked))
    assert {word for name in programs for word in commands_of(name)} <= {str(each[0]) for each in _commands(KEYS)}


# What is found out beforehand


def stock_of(url: str, queue: str = "jobs") -> Stock:
    with opened(url, queue) as target:
        return list(take_stock(target))[-1]


@pytest.mark.parametrize("queue", WORLD)
def test_stock_is_taken_of_all_keys_and_rows(
    server: PrivateServer, world: worlds.World, redis_client: redis.Redis, queue: str
) -> None:
    view = invariants.look(redis_client).queues[queue]
    rows = {member for member in (*view.rows, *view.odd_rows) if invariants.is_id(member)}
    stock = stock_of(server.url, queue)
    assert (stock.keys, stock.jobs) == (len(left(redis_client, queue)), len(rows))
    assert stock.active == len(view.sets.get("active", ()))
    assert {name.encode() for name in stock.first} <= rows
    assert len(stock.first) == min(3, len(rows))
    with opened(server.url, queue) as target:
        previewed = [each for page in preview(target) for each in page]
    assert {each.id for each in previewed} == rows
    assert {each.result for each in previewed} <= {"would-remove"}


P, C, D, E = (job_id(nth) for nth in range(4))


def flow(jobs: Transitions, *children: Node) -> None:
    jobs.flow_add(Node(P, "{}", children))


def fail(queue: Transitions) -> None:
    claimed = queue.claim(LEASE)
    assert claimed
    queue.retry(claimed.id, claimed.token, 0, 1, "boom")


def test_a_flow_within_the_queue_ties_it_to_nobody(server: PrivateServer, jobs: Transitions) -> None:
    flow(jobs, Node(C, "{}"), Node(D, "{}", ignore_failure=True), Node(E, "{}"))
    assert stock_of(server.url).ties == []
    claimed = jobs.claim(LEASE)
    assert claimed
    jobs.complete(claimed.id, claimed.token)
    assert stock_of(server.url).ties == []
    fail(jobs)  # D, which is ignored
    assert jobs.client.get(KEYS.row(P, "dependencies")) == b"1"
    assert stock_of(server.url).ties == []
    fail(jobs)  # E, with which the parent dies
    assert jobs.client.zscore(KEYS.dead, P) == 0
    assert stock_of(server.url).ties == []
    jobs.client.delete(KEYS.row(E))  # as EchoMQ's own remove leaves it
    assert stock_of(server.url).ties == []


def test_children_elsewhere_and_parents_elsewhere_are_named_on_both_sides(
    server: PrivateServer, jobs: Transitions
) -> None:
    flow(jobs, Node(C, "{}"), Node(D, "{}", queue="other"), Node(E, "{}", queue="other"))
    assert stock_of(server.url).ties == [Tie(P, "waits for 2 children more than there are here")]
    waits = f"parent {P.decode()} of jobs waits for it"
    assert stock_of(server.url, "other").ties == [Tie(D, waits), Tie(E, waits)]


def test_a_child_elsewhere_is_not_hidden_by_one_here_that_was_ignored(server: PrivateServer, jobs: Transitions) -> None:
    flow(jobs, Node(C, "{}", ignore_failure=True), Node(D, "{}", queue="other"))
    fail(jobs)
    assert jobs.client.get(KEYS.row(P, "dependencies")) == b"1"
    assert stock_of(server.url).ties == [Tie(P, "waits for 1 child more than there are here")]


def test_a_parent_killed_by_a_child_here_still_hears_from_one_elsewhere(
    server: PrivateServer, jobs: Transitions
) -> None:
    flow(jobs, Node(C, "{}"), Node(D, "{}", queue="other"))
    fail(jobs)
    assert jobs.client.zscore(KEYS.dead, P) == 0
    assert stock_of(server.url).ties == [Tie(P, "waits for 1 child more than there are here")]


def test_what_is_not_told_yet_is_named_until_it_is(server: PrivateServer, jobs: Transitions) -> None:
    flow(jobs, Node(C, "{}", queue="other"), Node(D, "{}", queue="other"))
    other = Transitions(jobs.client, "other")
    claimed = other.claim(LEASE)
    assert claimed
    other.complete(claimed.id, claimed.token)
    fail(other)
    untold = f"its end is not yet told to parent {P.decode()} of jobs"
    waits = f"parent {P.decode()} of jobs waits for it"
    assert stock_of(server.url, "other").ties == [Tie(C, untold), Tie(D, untold), Tie(D, waits)]
    other.pump_deliver()
    assert stock_of(server.url, "other").ties == [Tie(D, waits)]


def test_an_outbox_of_thousands_or_of_nonsense_is_read_to_its_end(server: PrivateServer, jobs: Transitions) -> None:
    entries = [b"other\0" + P + b"\0" + job_id(nth) + b"\0ok" for nth in range(2500)]
    jobs.client.rpush(KEYS.fixed("flow:outbox"), b"nonsense", *entries, b"")
    assert [tie.id for tie in stock_of(server.url).ties] == [job_id(nth) for nth in range(2500)]


def test_a_queue_of_wrong_types_has_stock_and_no_ties(server: PrivateServer, jobs: Transitions) -> None:
    for kind in FIXED:
        if kind != "events":
            _value(jobs.client, KEYS.fixed(kind), FIXED[kind])
    _value(jobs.client, KEYS.row(C), "hash")
    _value(jobs.client, KEYS.row(P, "dependencies"), "string")
    stock = stock_of(server.url)
    assert (stock.keys, stock.jobs, stock.active, stock.ties) == (len(FIXED) + 1, 1, 0, [])
