"""Producers, workers, zombies, operators and emqctl at random on a real server: nothing is lost, nothing breaks.

After every step all invariants are looked at, see ``machine.Scene``. A new change of emqctl is an entry of
``machine.HOMES`` and one of ``Scene.act``, and its rules a method of ``expected.Oracle``.

    EMQCTL_TEST_DEPTH=full   twenty times the steps
    --randomly-seed=N       the same steps again
"""
# ruff: noqa: D102
# A rule's name says what is done.

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from itertools import product
from random import Random
from typing import Any

import hypothesis.strategies as st
import invariants
import pytest
import redis
import worlds
from damage import Held, Operator
from expected import STRUCTURES, Oracle, keys_differ
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
    rule,
    run_state_machine_as_test,
)
from machine import (
    COMMANDS,
    DEDUP,
    HOMES,
    HOUR_MS,
    LANES,
    NOBODY,
    PARENTS,
    QUEUES,
    Account,
    Asked,
    Scene,
    bound,
    one_of,
)

from emqctl import branded, connection, control
from emqctl.config import Settings
from emqctl.connection import Server
from emqctl.demo.flows import Node
from emqctl.demo.server import PrivateServer
from emqctl.endpoint import Endpoint
from emqctl.errors import Denied, WrongType
from emqctl.queues import Queue
from emqctl.selection import Filters, Target, walk

DEPTH = os.environ.get("EMQCTL_TEST_DEPTH", "ci")
STEPS = 50  # of one run, from an empty server
RUNS = {"ci": 200, "full": 4000}[DEPTH]
FLOWS = {"ci": 600, "full": 100_000}[DEPTH]  # made up by hand, at most
ENDS = ("completes", "dies", "dies", "is tried again", "lapses", "is swept")
CONTROLS = ("pause", "resume", "pause-lane", "resume-lane", "limit", "weight")
COUNTS = (b"1", b"2", b"0", b"-1", None, b"many")
TOLD = ((), ("failed",), ("unsuccessful",), ("processed",), ("failed", "unsuccessful"), ("unsuccessful", "processed"))
LINKS = ("here", "named", "away", "posted")

queues = st.sampled_from(("jobs", "jobs", "jobs", "away"))
lanes = st.sampled_from(LANES)
any_lane = st.sampled_from((None, *LANES))
picks = st.integers(0, 99)
leases = st.sampled_from((0, 0, HOUR_MS))
delays = st.sampled_from((0, HOUR_MS))
payloads = st.sampled_from((b"{}", b"", b"\x00\xff", b"payload"))
kinds_of_children = st.tuples(st.sampled_from(("fp", "id")), st.sampled_from(("here", "here", "away", "node")))
changes = st.sampled_from((*HOMES, "requeue", "requeue"))
asked = st.builds(
    Asked,
    force=st.booleans(),
    dry=st.sampled_from((False, False, False, True)),
    batch=st.integers(1, 3),
    reset=st.sampled_from((False, False, True)),
    due=st.booleans(),
    group=lanes,
    state=st.sampled_from(("", "", "", "pending", "schedule", "dead")),
    dedup=st.booleans(),
    old=st.sampled_from((None, None, b"not it")),
    new=st.sampled_from((b"edited", b"{}")),
)


class Machine(Scene, RuleBasedStateMachine):
    """Everyone who acts on the two queues."""

    held = Bundle("held")  # what workers have in their hands, zombies too

    # Producers

    @initialize()
    def begin(self) -> None:
        """Let there be something to do, and some of it gone wrong."""
        for lane in (None, LANES[0], None, LANES[1], LANES[0], LANES[0]):
            self.produce("jobs", lane, b"{}")
        for lane in (None, LANES[0]):
            self.go_through_a_job("jobs", lane, "dies")
        self.produce_flow("jobs", [("fp", "here"), ("id", "away")])

    @rule(queue=queues, lane=any_lane, payload=payloads)
    def produce(self, queue: str, lane: bytes | None, payload: bytes) -> None:
        job = next(self.ids)
        if lane:
            self.acts("lane_enqueue", queue, lane, job, payload, added=[job])
        else:
            self.acts("enqueue", queue, job, payload, added=[job])

    @rule(queue=queues, delay_ms=delays)
    def produce_for_later(self, queue: str, delay_ms: int) -> None:
        job = next(self.ids)
        self.acts("enqueue_in", queue, job, b"later", delay_ms, added=[job])

    @rule(queue=queues, pick=picks, lane=any_lane)
    def produce_again(self, queue: str, pick: int, lane: bytes | None) -> None:
        """An id that is taken changes nothing."""
        job = one_of(sorted(self.view(queue).rows), pick)
        if job:
            before, args = self.now, (lane, job, b"again") if lane else (job, b"again")
            assert self.acts("lane_enqueue" if lane else "enqueue", queue, *args) == "duplicate"
            assert keys_differ(self.now.keys, before.keys) == []

    @rule(queue=queues, kinds=st.lists(kinds_of_children, min_size=1, max_size=3))
    def produce_flow(self, queue: str, kinds: list[tuple[str, str]]) -> None:
        parent, children, added = next(self.ids), [], []
        for policy, where in kinds:
            child, leaf = next(self.ids), next(self.ids)
            below = (Node(leaf, b"leaf"),) if where == "node" else ()
            place = QUEUES[queue == QUEUES[0]] if where == "away" else queue
            children.append(Node(child, b"child", below, place, policy == "id"))
            added += [(place, child), *((place, leaf) for _ in below)]
        self.acts("flow_add", queue, Node(parent, b"parent", tuple(children)), added=[parent, *added])

    @rule(queue=queues, pick=picks)
    def produce_once(self, queue: str, pick: int) -> None:
        """Let a deduplication key name a job."""
        job = one_of(sorted(self.view(queue).rows), pick)
        if job:
            self.does("dedup", lambda: self.client.set(self.queue[queue].keys.dedup(DEDUP), job))

    # Workers

    @rule(target=held, queue=queues, size=st.integers(0, 4), lease_ms=leases)
    def claim(self, queue: str, size: int, lease_ms: int) -> Any:
        """Claim one job, or a batch."""
        damage = self.damage(queue).claim(max(size, 1))
        if size:
            return multiple(*self.claims("claim_batch", queue, size, lease_ms, damage=damage))
        return multiple(*self.claims("claim", queue, lease_ms, damage=damage))

    @rule(
        target=held, queue=queues, verb=st.sampled_from(("lane_claim", "lane_wclaim", "lane_bclaim")), lease_ms=leases
    )
    def claim_from_a_lane(self, queue: str, verb: str, lease_ms: int) -> Any:
        return multiple(*self.claims(verb, queue, lease_ms, damage=self.damage(queue).lane_claim()))

    @rule(target=held, queue=queues, lane=any_lane, end=st.sampled_from(ENDS))
    def go_through_a_job(self, queue: str, lane: bytes | None, end: str) -> Any:
        """Let a job come, another be claimed, and that one end, without waiting for all that by chance."""
        self.produce(queue, lane, b"{}")
        damage, verb = self.damage(queue), "lane_claim" if lane else "claim"
        claimed = self.claims(verb, queue, HOUR_MS, damage=damage.lane_claim() if lane else damage.claim())
        for job in claimed:
            if end == "dies":
                self.fail(job, 0, 1)
            elif end == "is tried again":
                self.fail(job, HOUR_MS, job.token + 1)
            elif end == "completes":
                self.complete(job)
            else:
                self.lose(job, "sweep" if end == "is swept" else "nothing")
        return multiple(*(claimed if end in {"lapses", "is swept"} else ()))

    @rule(job=consumes(held))
    def complete(self, job: Held) -> None:
        self.settles("complete", job, damage=self.damage(job.queue).complete(job), removed=[job.id])

    @rule(job=consumes(held), delay_ms=delays, most=st.sampled_from((1, 1, 2, 3)))
    def fail(self, job: Held, delay_ms: int, most: int) -> None:
        self.settles("retry", job, delay_ms, most, "boom", damage=self.damage(job.queue).retry(job, most))

    @rule(job=held, lease_ms=leases)
    def extend(self, job: Held, lease_ms: int) -> None:
        self.settles("extend_lock", job, lease_ms, damage=self.damage(job.queue).extend(job))

    @rule(jobs=st.lists(held, min_size=1, max_size=3), lease_ms=leases)
    def extend_some(self, jobs: list[Held], lease_ms: int) -> None:
        queue = jobs[0].queue
        ours, damage = [job for job in jobs if job.queue == queue], self.damage(queue)
        for job in ours:
            damage.extend(job)
        lost = self.acts("extend_locks", queue, [(job.id, job.token) for job in ours], lease_ms, damage=damage)
        assert lost == [job.id for job in ours if not damage.accepts(job)]
        assert all(job.id in lost for job in ours if job.token <= self.fences.get((queue, job.id), 0))

    @rule(job=held)
    def track(self, job: Held) -> None:
        damage = self.damage(job.queue).track(job)
        self.acts("track_lock", job.queue, job.id, job.token, HOUR_MS, damage=damage, added=[job.id])

    @rule(job=held)
    def untrack(self, job: Held) -> None:
        damage = self.damage(job.queue).untrack(job)
        self.acts("untrack_lock", job.queue, job.id, damage=damage, removed=[job.id] if damage else [])

    @rule(job=held)
    def log(self, job: Held) -> None:
        self.acts("add_log", job.queue, job.id, "line", 2)

    # Time, and those who look after it

    @rule(queue=queues, pick=picks)
    def stall(self, queue: str, pick: int) -> None:
        """Let any lease lapse."""
        job = one_of(sorted(self.view(queue).sets.get("active", ())), pick)
        if job:
            self.lapses(queue, job)

    @rule(job=held, to=st.sampled_from(("reap", "sweep")))
    def lose(self, job: Held, to: str) -> None:
        """Let a job lapse in a worker's hands and be taken from it; the worker knows nothing of that."""
        self.lapses(job.queue, job.id)
        if to == "reap":
            self.reap(job.queue)
        elif to == "sweep":
            self.sweep(job.queue, 1, 100)

    @rule(queue=queues)
    def let_an_hour_pass(self, queue: str) -> None:
        """Let everything scheduled fall due."""
        schedule = self.queue[queue].keys.schedule
        due = dict.fromkeys(self.view(queue).sets.get("schedule", ()), 1)
        if due:
            self.does("let_an_hour_pass", lambda: self.client.zadd(schedule, due, xx=True))

    @rule(queue=queues, batch=st.sampled_from((1, 100)))
    def promote(self, queue: str, batch: int) -> None:
        self.acts("promote", queue, batch, damage=self.damage(queue).promote())

    @rule(queue=queues)
    def reap(self, queue: str) -> None:
        self.acts("reap", queue, damage=self.damage(queue).reap())

    @rule(queue=queues, lane=lanes)
    def reap_group(self, queue: str, lane: bytes) -> None:
        self.acts("reap_group", queue, lane, damage=self.damage(queue).reap())

    @rule(queue=queues, max_stalled=st.integers(1, 2), limit=st.sampled_from((1, 100)))
    def sweep(self, queue: str, max_stalled: int, limit: int) -> None:
        self.acts("sweep_stalled", queue, max_stalled, limit, damage=self.damage(queue).sweep(max_stalled))

    @rule(queue=queues, batch=st.sampled_from((1, 100)))
    def deliver(self, queue: str, batch: int) -> None:
        self.acts("pump_deliver", queue, batch, damage=self.damage(queue).deliver())

    # Operators, by EchoMQ's own verbs

    @rule(queue=queues, verb=st.sampled_from(("queue_pause", "queue_resume", "queue_resume")))
    def pause_or_resume(self, queue: str, verb: str) -> None:
        self.acts(verb, queue)

    @rule(queue=queues, verb=st.sampled_from(("lane_pause", "lane_resume")), lane=lanes)
    def pause_or_resume_a_lane(self, queue: str, verb: str, lane: bytes) -> None:
        self.acts(verb, queue, lane)

    @rule(queue=queues, verb=st.sampled_from(("lane_limit", "lane_weight")), lane=lanes, number=st.integers(1, 3))
    def tune(self, queue: str, verb: str, lane: bytes, number: int) -> None:
        self.acts(verb, queue, lane, number)

    # emqctl

    @rule(name=changes, queue=queues, some=st.lists(picks, min_size=1, max_size=4), how=asked)
    def emqctl_changes_named_jobs(self, name: str, queue: str, some: list[int], how: Asked) -> None:
        words = [self.word(queue, name, pick) for pick in some[: 1 if name == "edit" else None]]
        self.change(name, queue, words, how)

    @rule(queue=queues, how=asked, chosen=st.sampled_from(("all", "flat", "lane", "worn")), limit=st.integers(0, 3))
    def emqctl_requeues_a_set(self, queue: str, how: Asked, chosen: str, limit: int) -> None:
        view, lane = self.view(queue), branded.parse(how.group)
        filters, is_meant = {
            "all": (Filters(), lambda _: True),
            "flat": (Filters(flat=True), lambda row: b"group" not in row),
            "lane": (Filters(lane=lane), lambda row: row.get(b"group") == how.group),
            "worn": (Filters(attempts_min=2), lambda row: int(row.get(b"attempts", b"0")) > 1),
        }[chosen]
        met = [member for member in sorted(view.sets.get("dead", ())) if is_meant(view.rows.get(member, {}))]
        seen = [view.rows[member][b"attempts"] if chosen == "worn" else b"" for member in met]
        targets = [Target(*each) for each in zip(met, seen, strict=True)][: limit or None]
        there = Queue(self.servers(""), queue)
        self.change("requeue", queue, targets, how, walk(there, there.keys.dead, filters, limit))

    @rule(
        queue=queues,
        what=st.sampled_from(CONTROLS),
        lane=lanes,
        number=st.sampled_from((None, 1, 2)),
        dry_run=st.booleans(),
    )
    def emqctl_controls(self, queue: str, what: str, lane: bytes, number: int | None, *, dry_run: bool) -> None:
        self.controls(queue, what, lane, number, dry_run=dry_run)

    @rule(
        data=st.data(),
        name=changes,
        queue=queues,
        pick=picks,
        how=asked,
        seen=st.sampled_from(("any", "true", "other")),
    )
    def emqctl_changes_a_damaged_job(
        self, data: st.DataObject, name: str, queue: str, pick: int, how: Asked, seen: str
    ) -> None:
        job = one_of(self.jobs_in(queue, HOMES[name]), pick)
        if job:
            damages = self.damages(queue, job, how.group)
            commands = damages[data.draw(st.sampled_from(sorted(damages)))]
            self.in_a_bubble(commands, name, queue, job, bound(self, queue, job, how, seen))

    @rule(
        name=changes,
        queue=queues,
        pick=picks,
        how=asked,
        parent=st.sampled_from(tuple(PARENTS)),
        waits_for=st.sampled_from(COUNTS),
        told=st.sampled_from(TOLD),
        where=st.sampled_from(LINKS),
    )
    def emqctl_changes_a_child(
        self,
        name: str,
        queue: str,
        pick: int,
        how: Asked,
        parent: str,
        waits_for: bytes | None,
        told: tuple[str, ...],
        where: str,
    ) -> None:
        job = one_of(self.jobs_in(queue, HOMES[name]), pick)
        if job:
            commands = self.adoption(queue, job, parent, waits_for, told, where)
            self.in_a_bubble(commands, name, queue, job, how)

    @rule(name=changes, queue=queues, pick=picks, how=asked, command=st.sampled_from(COMMANDS))
    def emqctl_is_denied_a_command(self, name: str, queue: str, pick: int, how: Asked, command: str) -> None:
        job = one_of(self.jobs_in(queue, HOMES[name]), pick)
        if job:
            self.change(name, queue, [Target(job)], replace(how, dry=False), user=f"no-{command}")

    def controls(
        self, queue: str, what: str, lane: bytes, number: int | None, *, dry_run: bool = False, user: str = ""
    ) -> None:
        act = controls_of(Queue(self.servers(user), queue), lane, number, dry_run=dry_run)[what]
        oracle, is_queue_s = Oracle(self.now, queue, dry=dry_run), what in {"pause", "resume"}
        changed = oracle.control(what, b"" if is_queue_s else lane, b"" if number is None else b"%d" % number)
        before = self.now
        try:
            assert self.changes(f"control {what}", oracle, act) is changed
        except Denied:
            assert user
            assert keys_differ(invariants.look(self.client).keys, before.keys) == []

    def word(self, queue: str, name: str, pick: int) -> Target:
        """Return what an operator may give: mostly a job the change is for, at times another or none at all."""
        anything = [b"garbage", NOBODY, *sorted(self.now.ids and {*self.view(queue).rows, *self.view(queue).places})]
        jobs = self.jobs_in(queue, HOMES[name]) if pick % 4 else anything
        return Target(one_of(jobs or anything, pick // 4) or NOBODY)


def controls_of(queue: Queue, lane: bytes, number: int | None, *, dry_run: bool) -> dict[str, Callable[[], bool]]:
    """Return what an operator can do to a queue and a lane."""
    group = branded.parse(lane)
    return {
        "pause": lambda: control.pause(queue, dry_run=dry_run),
        "resume": lambda: control.resume(queue, dry_run=dry_run),
        "pause-lane": lambda: control.pause(queue, group, dry_run=dry_run),
        "resume-lane": lambda: control.resume(queue, group, dry_run=dry_run),
        "limit": lambda: control.limit(queue, group, number, dry_run=dry_run),
        "weight": lambda: control.weigh(queue, group, number, dry_run=dry_run),
    }


@pytest.fixture
def scene(server: PrivateServer, redis_client: redis.Redis) -> Iterator[dict[str, Any]]:
    """What a Scene needs: clients, and a user for each command that may be denied."""
    for command in COMMANDS:
        rights = ("~*", "&*", "+@all", f"-{command}")
        redis_client.execute_command("ACL", "SETUSER", f"no-{command}", "on", ">secret", *rights)
    with ExitStack() as open_:

        @cache
        def emqctl_as(user: str) -> Server:
            who = {"username": user, "password": "secret"} if user else {}
            endpoint = Endpoint("unix", path=str(server.socket), **who)
            return open_.enter_context(connection.connect(Settings(endpoint, 30, read_only=False), [].append))

        yield {
            "client": redis_client,
            "servers": staticmethod(emqctl_as),
            "account": Account(),
            "has_field_ttls": invariants.has_field_ttls(redis_client),
        }


@pytest.mark.timeout(7200)
def test_nothing_is_lost_and_nothing_breaks_whatever_happens(
    scene: dict[str, Any],
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
) -> None:
    machine, account = type("Machine", (Machine,), scene), scene["account"]
    number = int(request.config.getoption("randomly_seed", 0))
    began = time.monotonic()
    try:
        run_state_machine_as_test(
            seed(number)(machine),
            settings=settings(
                max_examples=RUNS,
                stateful_step_count=STEPS,
                suppress_health_check=list(HealthCheck),
                report_multiple_bugs=False,
                phases=[Phase.reuse, Phase.generate, Phase.shrink],
            ),
        )
    finally:
        summary = f"{account.steps:,} steps in {time.monotonic() - began:.0f} s, --randomly-seed={number}"
        record_property("state machine", summary)
        with capsys.disabled():
            sys.stdout.write("\n".join(("", summary, *account.lines(), "")))
    assert account.steps > STEPS * RUNS // 2


@pytest.fixture
def populated(scene: dict[str, Any]) -> Machine:
    """A queue with a job in every place, flat and in a lane; one lane can be served, one has reached its limit."""
    machine: Machine = type("Populated", (Machine,), scene)()
    for lane in (None, LANES[0], LANES[1]):
        for end in ("dies", "is swept", "is tried again", "lapses"):
            machine.go_through_a_job("jobs", lane, end)
        machine.produce("jobs", lane, b"waits")
        verb, damage = (
            ("lane_claim", machine.damage("jobs").lane_claim()) if lane else ("claim", machine.damage("jobs").claim())
        )
        machine.claims(verb, "jobs", HOUR_MS, damage=damage)
        machine.produce("jobs", lane, b"waits")
    machine.let_an_hour_pass("jobs")
    machine.go_through_a_job("jobs", None, "is tried again")
    machine.tune("jobs", "lane_limit", LANES[1], 1)
    machine.produce("jobs", LANES[0], b"waits")  # the others went as their lane had its turn
    assert machine.view("jobs").ring == [LANES[0]]
    return machine


@pytest.mark.parametrize("force", [False, True], ids=["gently", "by force"])
@pytest.mark.parametrize("name", HOMES)
def test_a_change_answers_all_damage_of_a_job_as_the_rules_say(populated: Machine, name: str, *, force: bool) -> None:
    jobs = kinds_of_jobs(populated, name)
    assert len(jobs) >= 3
    for nth, job in enumerate(jobs):
        how = bound(populated, "jobs", job, Asked(force=force, group=LANES[2], dedup=True, due=True), "any")
        damages = populated.damages("jobs", job, how.group)
        for commands in damages.values():
            populated.in_a_bubble(commands, name, "jobs", job, how)
        for seen, reset, state in product(("true", "other"), (False, True), ("pending", "schedule", "dead")):
            asked_for = replace(how, reset=reset, state=state, dry=bool(nth % 2))
            populated.in_a_bubble([], name, "jobs", job, bound(populated, "jobs", job, asked_for, seen))
        for lane in LANES:
            populated.in_a_bubble([], name, "jobs", job, replace(how, group=lane))


def kinds_of_jobs(machine: Machine, name: str) -> list[bytes]:
    """Return one job of each place a change is for, flat and of each lane, in time and lapsed, failed and stalled."""
    view, kinds = machine.view("jobs"), {}
    for place in HOMES[name]:
        for job in machine.jobs_in("jobs", [place]):
            row, deadline = view.rows[job], view.sets["active"].get(job, 0)
            kinds[place, row.get(b"group"), deadline > machine.now.now_ms, b"stalled" in row] = job
    return [*kinds.values()]


@pytest.mark.parametrize("name", HOMES)
def test_a_change_answers_jobs_that_are_elsewhere_as_the_rules_say(populated: Machine, name: str) -> None:
    for job in kinds_of_jobs(populated, "edit"):
        damages = populated.damages("jobs", job, LANES[2])
        for what in ("nothing", "row gone", "row no hash", "lock string", "waits for 1"):
            for force in (False, True):
                populated.in_a_bubble(damages[what], name, "jobs", job, Asked(force=force))


@pytest.mark.parametrize("name", HOMES)
def test_a_change_answers_every_link_to_a_parent_as_the_rules_say(populated: Machine, name: str) -> None:
    every = list(product(PARENTS, COUNTS, TOLD, LINKS, (False, True), (False, True)))
    rng = Random()  # seeded by pytest-randomly
    jobs = kinds_of_jobs(populated, name)
    for parent, waits_for, told, where, force, reset in rng.sample(every, min(FLOWS, len(every))):
        job = rng.choice(jobs)
        commands = populated.adoption("jobs", job, parent, waits_for, told, where)
        populated.in_a_bubble(commands, name, "jobs", job, Asked(force=force, reset=reset))


@pytest.mark.parametrize("name", ["requeue", "reap", "promote", "bury", "move"])
def test_a_walk_leaves_a_member_that_is_no_id_where_it_is(populated: Machine, name: str) -> None:
    keys, member = populated.queue["jobs"].keys, Target(b"garbage")
    place = keys.pending if name == "move" else keys.fixed(HOMES[name][0])
    populated.damaged([("HSET", keys.row(member.id), "attempts", 1, "payload", "{}"), ("ZADD", place, 1, member.id)])
    [outcome] = populated.act(name, "jobs", [member], Asked(force=True), pages=[[member]])
    assert outcome.reason == "bad-row"
    assert invariants.look(populated.client).keys == populated.now.keys


@pytest.mark.parametrize("name", HOMES)
def test_a_lock_field_holds_a_job_exactly_as_long_as_it_lives(populated: Machine, name: str) -> None:
    if not populated.has_field_ttls:
        pytest.skip("this server cannot let one field of a hash expire: Redis can from 7.4 on, Valkey from 9 on")
    how = Asked(dry=True, due=True, force=False, group=LANES[2])
    job = next(
        job for job in kinds_of_jobs(populated, name) if populated.act(name, "jobs", [Target(job)], how)[0].is_done
    )
    row = populated.queue["jobs"].keys.row(job)
    for ttl_ms, force, reason in ((HOUR_MS, False, "locked"), (HOUR_MS, True, None), (1, False, None)):
        before = populated.damaged([("HSET", row, "lock", "1"), ("HPEXPIRE", row, ttl_ms, "FIELDS", 1, "lock")])
        time.sleep(0.005)
        populated.damaged([])
        [outcome] = populated.act(name, "jobs", [Target(job)], replace(how, force=force))
        assert outcome.reason == reason
        assert ("fenced" in outcome.notes) is (force and name not in {"remove", "edit"})
        populated.undo(populated.now, before)


@pytest.mark.parametrize("kind", [*STRUCTURES, "lane"])
@pytest.mark.parametrize("name", HOMES)
def test_a_change_is_refused_whole_where_a_key_is_of_another_type(populated: Machine, name: str, kind: str) -> None:
    keys, job = populated.queue["jobs"].keys, populated.jobs_in("jobs", HOMES[name])[0]
    key = keys.lane(branded.parse(LANES[2])) if kind == "lane" else keys.fixed(kind)
    populated.damaged([("DEL", key), ("SET", key, "x")])
    damaged = populated.now
    if kind == "lane" and name != "move":
        populated.change(name, "jobs", [Target(job)], Asked(dry=True))
        return
    assert kind == "lane" or Oracle(damaged, "jobs").wrong_type == key
    with pytest.raises(WrongType) as refused:
        populated.act(name, "jobs", [Target(job)], Asked(group=LANES[2]))
    assert refused.value.key.encode() == key
    assert invariants.look(populated.client).keys == damaged.keys


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", HOMES)
def test_a_change_of_a_user_who_lacks_a_command_is_whole_or_none(populated: Machine, name: str, command: str) -> None:
    before = populated.now
    for job in kinds_of_jobs(populated, name):
        for mark in ([], [("SET", populated.queue["jobs"].keys.row(job) + b":lock", "1")]):
            populated.damaged(mark)
            populated.change(name, "jobs", [Target(job)], Asked(force=True, dedup=True), user=f"no-{command}")
            populated.undo(populated.now, before)


SITUATIONS = (
    *("nothing", "queue paused", "lane paused", "off the ring", "on the ring, whether it can be served or not"),
    *("lane limited to 1", "lane limited to 2", "slot leaked", "slot not counted", "many tokens", "limit 'many'"),
)


def test_controls_answer_and_write_as_the_rules_say(populated: Machine) -> None:
    job = populated.jobs_in("jobs", ["lane"])[0]
    damages = populated.damages("jobs", job, LANES[1])
    for situation, what, lane in product(SITUATIONS, CONTROLS, LANES[:2]):
        before = populated.damaged(damages[situation])
        for number in (None, 1, 2) if what in {"limit", "weight"} else (None,):
            populated.controls("jobs", what, lane, number, dry_run=True)
            populated.controls("jobs", what, lane, number)
            populated.controls("jobs", what, lane, number)
        populated.undo(populated.now, before)


@pytest.mark.parametrize("kind", [*STRUCTURES, "lane"])
def test_a_control_is_refused_whole_where_a_key_is_of_another_type(populated: Machine, kind: str) -> None:
    keys = populated.queue["jobs"].keys
    key = keys.lane(branded.parse(LANES[2])) if kind == "lane" else keys.fixed(kind)
    populated.damaged([("DEL", key), ("SET", key, "x")])
    for what in CONTROLS:
        if kind == "lane" and what in {"pause", "resume"}:
            continue
        with pytest.raises(WrongType) as refused:
            controls_of(Queue(populated.servers(""), "jobs"), LANES[2], 2, dry_run=False)[what]()
        assert refused.value.key.encode() == key
        assert invariants.look(populated.client).keys == populated.now.keys


@pytest.mark.parametrize("command", COMMANDS)
def test_a_control_of_a_user_who_lacks_a_command_is_whole_or_none(populated: Machine, command: str) -> None:
    before = populated.now
    for what, number, earlier in product(CONTROLS, (None, 1), ("resume", "pause-lane", "limit", "pause")):
        populated.controls("jobs", earlier, LANES[0], 1)
        populated.controls("jobs", what, LANES[0], number, user=f"no-{command}")
        populated.undo(invariants.look(populated.client), before)


OPERATOR_VERBS = {
    *("queue_pause", "queue_resume", "lane_pause", "lane_resume", "lane_limit", "lane_weight"),
}
RECORDINGS = [recording for recording in worlds.transitions() if recording["verb"] in OPERATOR_VERBS]


def test_all_recordings_of_the_operator_s_verbs_are_compared() -> None:
    assert Counter(recording["verb"] for recording in RECORDINGS).keys() == OPERATOR_VERBS
    assert len(RECORDINGS) == 19


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording["name"])
def test_the_operator_s_verbs_do_as_recorded(redis_client: redis.Redis, recording: dict[str, Any]) -> None:
    before_ms = worlds.server_ms(redis_client)
    worlds.put(redis_client, recording["before"], before_ms)
    args = dict(recording["args"])
    operator = Operator(redis_client, args.pop("queue"))
    assert getattr(operator, recording["verb"])(**args) == recording["reply"]["answer"]
    assert worlds.differences(redis_client, recording["after"], before_ms, worlds.server_ms(redis_client)) == []
