"""Requeue and flows: only a child that its parent still counts on, and was never told of, comes back; fenced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import conservation
import pytest
import redis
import wire
import worlds
from conservation import Run, without_ttls

import emqctl.requeue
from emqctl.branded import BrandedId
from emqctl.changes import Outcome, Pace, named
from emqctl.connection import Server
from emqctl.demo.flows import Node, fail_entry
from emqctl.demo.server import PrivateServer
from emqctl.demo.worker import Rejected, Transitions
from emqctl.errors import EmqError, NoAnswer
from emqctl.keyspace import QueueKeys
from emqctl.queues import Queue
from emqctl.requeue import Options, requeue
from emqctl.selection import Filters, walk

PARENTS, CHILDREN = QueueKeys("parents"), QueueKeys("children")
PARENT, CHILD, SIBLING, OTHER, GRANDPARENT = (bytes(BrandedId("JOB", nth << 22)) for nth in range(1, 6))
LEASE = 30_000
FP, ID = False, True
Meanwhile = Callable[[Callable[[], object]], None]
POLICIES = pytest.mark.parametrize("policy", [FP, ID], ids=["fp", "id"])


@pytest.fixture
def parents(redis_client: redis.Redis) -> Transitions:
    """EchoMQ at the queue `parents`."""
    return Transitions(redis_client, "parents")


@pytest.fixture
def children(redis_client: redis.Redis) -> Transitions:
    """EchoMQ at the queue `children`."""
    return Transitions(redis_client, "children")


@pytest.fixture
def run(server: PrivateServer, redis_client: redis.Redis) -> Run:
    """Requeue ids in the core: see ``conservation.requeued``."""
    return partial(conservation.requeued, server.url, queue="parents")


def add(parents: Transitions, *names: bytes, policy: bool = FP, queue: str | None = None) -> None:
    parents.flow_add(Node(PARENT, "p", tuple(Node(name, "c", queue=queue, ignore_failure=policy) for name in names)))


def die(jobs: Transitions, *names: bytes) -> None:
    """Let the oldest waiting jobs, which are these, fail for good."""
    for name in names:
        claimed = jobs.claim(LEASE)
        assert claimed is not None
        assert claimed.id == name
        assert jobs.retry(name, claimed.token, 0, 1, "boom") == "dead"


def lapse(jobs: Transitions, *names: bytes) -> None:
    """Let them be claimed, lapse, and be buried by the sweep, which tells no parent (H14)."""
    for name in names:
        claimed = jobs.claim(-1)
        assert claimed is not None
        assert jobs.sweep_stalled() == {"recovered": [], "dead": [name]}


def state(client: redis.Redis, keys: QueueKeys, job: bytes) -> bytes | None:
    found: bytes | None = client.hget(keys.row(job), "state")
    return found


def sub(job: bytes, name: str, keys: QueueKeys = PARENTS) -> bytes:
    return keys.row(job) + b":" + name.encode()


def refused(client: redis.Redis, run: Run, job: bytes, **options: Any) -> str | None:
    """Return why a job is skipped, having seen that nothing at all is changed, by force either."""
    before = without_ttls(worlds.snapshot(client))
    [outcome] = run(job, **options)
    assert (outcome.result, outcome.place_after) == ("skipped", outcome.place_before)
    [forced] = run(job, force=True, reset_attempts=True, **options)
    assert forced.reason == outcome.reason
    assert without_ttls(worlds.snapshot(client)) == before
    return outcome.reason


# Children of the same queue


@POLICIES
def test_a_child_whose_parent_waits_and_was_not_told_comes_back_fenced_and_the_flow_goes_on(
    redis_client: redis.Redis,
    parents: Transitions,
    run: Run,
    policy: bool,  # noqa: FBT001
) -> None:
    add(parents, CHILD, policy=policy)
    lapse(parents, CHILD)
    [outcome] = run(CHILD)
    assert outcome == Outcome(CHILD, "moved", None, "dead", "pending", None, ("fenced",), 1)
    assert redis_client.hget(PARENTS.row(CHILD), "attempts") == b"2"
    with pytest.raises(Rejected, match="EMQSTALE"):
        parents.complete(CHILD, 1)  # H15: accepted while it waits, this would not be counted
    assert redis_client.get(sub(PARENT, "dependencies")) == b"1"
    claimed = parents.claim(LEASE)
    assert claimed is not None
    assert (claimed.id, claimed.token) == (CHILD, 3)
    parents.complete(CHILD, 3)
    assert redis_client.zrange(PARENTS.pending, 0, -1) == [PARENT]


@POLICIES
def test_a_child_that_dies_again_after_it_came_back_tells_its_parent_once(
    redis_client: redis.Redis,
    parents: Transitions,
    run: Run,
    policy: bool,  # noqa: FBT001
) -> None:
    add(parents, CHILD, SIBLING, policy=policy)
    lapse(parents, CHILD)
    run(CHILD)
    die(parents, CHILD)
    count, told = (b"1", "unsuccessful") if policy else (b"2", "failed")
    assert redis_client.get(sub(PARENT, "dependencies")) == count
    assert redis_client.hgetall(sub(PARENT, told)) == {CHILD: b"boom"}


def test_a_child_that_was_not_told_comes_back_under_a_parent_another_child_killed(
    redis_client: redis.Redis, parents: Transitions, run: Run
) -> None:
    add(parents, CHILD, SIBLING)
    lapse(parents, CHILD)
    die(parents, SIBLING)
    assert state(redis_client, PARENTS, PARENT) == b"dead"
    [outcome] = run(CHILD)
    assert (outcome.result, outcome.notes) == ("moved", ("fenced",))


def test_in_a_dry_run_the_fence_is_said_and_not_set(redis_client: redis.Redis, parents: Transitions, run: Run) -> None:
    add(parents, CHILD)
    lapse(parents, CHILD)
    before = without_ttls(worlds.snapshot(redis_client))
    [outcome] = run(CHILD, dry_run=True)
    assert (outcome.result, outcome.notes) == ("would-move", ("fenced",))
    assert without_ttls(worlds.snapshot(redis_client)) == before


def test_the_budget_of_such_a_child_is_given_back_only_by_force(
    redis_client: redis.Redis, parents: Transitions, run: Run
) -> None:
    """Nobody but a sweep leaves a parent untold: the worker may run still."""
    add(parents, CHILD)
    lapse(parents, CHILD)
    redis_client.hdel(PARENTS.row(CHILD), "stalled")
    [outcome] = run(CHILD, reset_attempts=True)
    assert outcome.reason == "may-still-run"
    [outcome] = run(CHILD, reset_attempts=True, force=True)
    assert outcome.result == "moved"
    with pytest.raises(Rejected, match="EMQSTALE"):
        parents.complete(CHILD, 1)


def test_a_told_child_of_a_parent_it_killed_is_left_for_revive(
    redis_client: redis.Redis, parents: Transitions, run: Run
) -> None:
    add(parents, CHILD, SIBLING)
    die(parents, CHILD)
    assert refused(redis_client, run, CHILD) == "flow-child"


def test_a_told_child_of_a_parent_another_killed_too_is_left_for_revive(
    redis_client: redis.Redis, parents: Transitions, run: Run
) -> None:
    add(parents, CHILD, SIBLING)
    die(parents, CHILD, SIBLING)
    assert refused(redis_client, run, CHILD) == "flow-child"
    assert refused(redis_client, run, SIBLING) == "flow-child"


def test_an_ignored_child_of_a_parent_that_is_held_is_left_for_revive(
    redis_client: redis.Redis, parents: Transitions, run: Run
) -> None:
    add(parents, CHILD, SIBLING, policy=ID)
    die(parents, CHILD)
    assert state(redis_client, PARENTS, PARENT) == b"awaiting_children"
    assert refused(redis_client, run, CHILD) == "flow-child"


def test_an_ignored_child_of_a_parent_another_child_killed_is_left_for_revive(
    redis_client: redis.Redis, parents: Transitions, run: Run
) -> None:
    parents.flow_add(Node(PARENT, "p", (Node(CHILD, "c", ignore_failure=True), Node(SIBLING, "c"), Node(OTHER, "c"))))
    die(parents, CHILD, SIBLING)
    assert refused(redis_client, run, CHILD) == "flow-child"


@pytest.mark.parametrize("place", ["pending", "active", "schedule", "dead by itself", "completed"])
def test_an_ignored_child_of_a_parent_that_was_released_has_nobody_to_run_for(
    redis_client: redis.Redis, parents: Transitions, run: Run, place: str
) -> None:
    add(parents, CHILD, policy=ID)
    die(parents, CHILD)
    assert redis_client.zrange(PARENTS.pending, 0, -1) == [PARENT]
    if place != "pending":
        claimed = parents.claim(LEASE)
        assert claimed is not None
    if place == "schedule":
        parents.retry(PARENT, 1, 60_000, 3, "boom")
    if place == "dead by itself":
        parents.retry(PARENT, 1, 0, 1, "boom")
    if place == "completed":
        parents.complete(PARENT, 1)
    assert refused(redis_client, run, CHILD) == ("parent-gone" if place == "completed" else "parent-released")


@pytest.mark.parametrize("ran", [False, True])
def test_a_child_that_killed_its_parent_which_another_tool_brought_back_has_nobody_to_run_for(
    redis_client: redis.Redis,
    parents: Transitions,
    run: Run,
    ran: bool,  # noqa: FBT001
) -> None:
    """H6: the reference's own reprocess does that."""
    add(parents, CHILD, SIBLING)
    die(parents, CHILD, SIBLING)
    redis_client.zrem(PARENTS.dead, PARENT)
    redis_client.zadd(PARENTS.pending, {PARENT: 0})
    redis_client.hset(PARENTS.row(PARENT), "state", "pending")
    if ran:
        die(parents, PARENT)
    assert refused(redis_client, run, CHILD) == "parent-ran"


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("damage", ["no row", "no payload", "another type"])
def test_a_child_of_a_parent_that_is_gone_has_nobody_to_run_for(
    redis_client: redis.Redis,
    parents: Transitions,
    run: Run,
    told: bool,  # noqa: FBT001
    damage: str,
) -> None:
    add(parents, CHILD, SIBLING)
    (die if told else lapse)(parents, CHILD)
    if damage == "no payload":
        redis_client.hdel(PARENTS.row(PARENT), "payload")
    else:
        redis_client.delete(PARENTS.row(PARENT))
    if damage == "another type":
        redis_client.set(PARENTS.row(PARENT), "x")
    assert refused(redis_client, run, CHILD) == "parent-gone"


DOES_NOT_WAIT: dict[str, Callable[[redis.Redis], object]] = {
    "held and pending": lambda client: client.zadd(PARENTS.pending, {PARENT: 0}),
    "held and dead": lambda client: client.zadd(PARENTS.dead, {PARENT: 0}),
    "in no place": lambda client: client.hset(PARENTS.row(PARENT), "state", "pending"),
    "dead by its row alone": lambda client: client.hset(PARENTS.row(PARENT), "state", "dead"),
    "pending": lambda client: put_parent(client, PARENTS.pending, "pending"),
    "dead after a claim": lambda client: put_parent(client, PARENTS.dead, "dead", attempts=1),
    "dead of an error": lambda client: put_parent(client, PARENTS.dead, "dead", last_error="x"),
    "dead and active": lambda client: [
        put_parent(client, PARENTS.dead, "dead"),
        client.zadd(PARENTS.active, {PARENT: 4e12}),
    ],
}


def put_parent(client: redis.Redis, key: bytes, state: str, **fields: Any) -> None:
    client.zadd(key, {PARENT: 0})
    client.hset(PARENTS.row(PARENT), mapping={"state": state, **fields})


@pytest.mark.parametrize("damage", DOES_NOT_WAIT.values(), ids=DOES_NOT_WAIT)
def test_a_child_nobody_told_of_under_a_parent_that_does_not_surely_wait_is_refused(
    redis_client: redis.Redis, parents: Transitions, run: Run, damage: Callable[[redis.Redis], object]
) -> None:
    add(parents, CHILD)
    lapse(parents, CHILD)
    damage(redis_client)
    assert refused(redis_client, run, CHILD) == "parent-released"


@pytest.mark.parametrize("fields", [{"attempts": 1}, {"last_error": "x"}])
def test_a_child_that_killed_a_parent_which_then_died_by_itself_has_nobody_to_run_for(
    redis_client: redis.Redis, parents: Transitions, run: Run, fields: dict[str, Any]
) -> None:
    add(parents, CHILD, SIBLING)
    die(parents, CHILD)
    redis_client.hset(PARENTS.row(PARENT), mapping=fields)
    assert refused(redis_client, run, CHILD) == "parent-ran"


@pytest.mark.parametrize(
    "damage",
    [
        lambda client: client.hset(sub(PARENT, "processed"), CHILD, "r"),
        lambda client: [client.hset(sub(PARENT, told), CHILD, "e") for told in ("failed", "unsuccessful")],
        lambda client: client.set(sub(PARENT, "dependencies"), 0),
        lambda client: client.set(sub(PARENT, "dependencies"), -1),
        lambda client: client.delete(sub(PARENT, "dependencies")),
        lambda client: client.set(sub(PARENT, "dependencies"), "many"),
    ],
    ids=["processed", "told twice", "count 0", "count -1", "no count", "a count that is none"],
)
def test_a_child_whose_parent_contradicts_itself_is_refused(
    redis_client: redis.Redis, parents: Transitions, run: Run, damage: Callable[[redis.Redis], object]
) -> None:
    add(parents, CHILD, SIBLING)
    lapse(parents, CHILD)
    damage(redis_client)
    assert refused(redis_client, run, CHILD) == "flow-contradiction"


@pytest.mark.parametrize("kind", ["failed", "unsuccessful", "processed", "dependencies"])
def test_what_the_parent_was_told_must_be_readable(
    redis_client: redis.Redis, parents: Transitions, run: Run, kind: str
) -> None:
    """In a key of another type nobody can see that a child was not told of."""
    add(parents, CHILD, SIBLING)
    lapse(parents, CHILD)
    redis_client.delete(sub(PARENT, kind))
    redis_client.rpush(sub(PARENT, kind), "x")
    assert refused(redis_client, run, CHILD) is not None


def test_a_locked_child_is_told_apart_before_its_flow_is_looked_at(
    redis_client: redis.Redis, parents: Transitions, run: Run
) -> None:
    add(parents, CHILD)
    lapse(parents, CHILD)
    redis_client.set(sub(CHILD, "lock"), 1)
    [outcome] = run(CHILD)
    assert outcome.reason == "locked"
    [outcome] = run(CHILD, force=True)
    assert (outcome.result, outcome.notes) == ("moved", ("fenced",))
    assert redis_client.hget(PARENTS.row(CHILD), "attempts") == b"2"


# Parents


def test_a_parent_its_child_killed_comes_back_only_with_it(
    redis_client: redis.Redis, parents: Transitions, run: Run
) -> None:
    add(parents, CHILD, SIBLING)
    die(parents, CHILD)
    assert refused(redis_client, run, PARENT) == "flow-parent"


def test_a_parent_that_is_held_is_not_dead(redis_client: redis.Redis, parents: Transitions, run: Run) -> None:
    add(parents, CHILD)
    assert refused(redis_client, run, PARENT) == "not-dead"


@pytest.mark.parametrize("count", ["0", "-1", None])
def test_a_parent_that_waits_for_nobody_is_a_job_like_any(
    redis_client: redis.Redis, parents: Transitions, run: Run, count: str | None
) -> None:
    add(parents, CHILD)
    parents.claim(LEASE)
    parents.complete(CHILD, 1)
    die(parents, PARENT)
    if count is None:
        redis_client.delete(sub(PARENT, "dependencies"))
    else:
        redis_client.set(sub(PARENT, "dependencies"), count)
    [outcome] = run(PARENT)
    assert (outcome.result, outcome.notes) == ("moved", ())


def test_a_node_is_a_parent_first(redis_client: redis.Redis, parents: Transitions, run: Run) -> None:
    middle = Node(PARENT, "p", (Node(CHILD, "c"), Node(SIBLING, "c")))
    parents.flow_add(Node(GRANDPARENT, "g", (middle,)))
    die(parents, CHILD)
    assert state(redis_client, PARENTS, PARENT) == b"dead"
    assert refused(redis_client, run, PARENT) == "flow-parent"
    assert refused(redis_client, run, CHILD) == "flow-child"


def test_in_a_walk_flows_are_skipped_and_all_others_move(
    redis_client: redis.Redis, parents: Transitions, run: Run
) -> None:
    add(parents, CHILD, SIBLING)
    die(parents, CHILD)
    parents.enqueue(OTHER, "{}")
    parents.claim(LEASE)
    die(parents, OTHER)
    assert [(each.id, each.reason) for each in run(walked=True)] == [
        (PARENT, "flow-parent"),
        (CHILD, "flow-child"),
        (OTHER, None),
    ]


# Children of another queue


def abroad(parents: Transitions, children: Transitions, *, policy: bool = FP, by_sweep: bool = True) -> None:
    """Add a parent in `parents` with two children in `children`, one of which dies."""
    add(parents, CHILD, SIBLING, policy=policy, queue="children")
    (lapse if by_sweep else die)(children, CHILD)


@POLICIES
def test_a_child_abroad_that_was_not_told_comes_back_fenced_and_the_flow_goes_on(
    redis_client: redis.Redis,
    parents: Transitions,
    children: Transitions,
    run: Run,
    policy: bool,  # noqa: FBT001
) -> None:
    abroad(parents, children, policy=policy)
    [outcome] = run(CHILD, queue="children")
    assert outcome == Outcome(CHILD, "moved", None, "dead", "pending", None, ("fenced",), 1)
    with pytest.raises(Rejected, match="EMQSTALE"):
        children.complete(CHILD, 1)
    for name, token in ((CHILD, 3), (SIBLING, 1)):
        children.claim(LEASE)
        children.complete(name, token)
    assert children.pump_deliver() == 2
    assert redis_client.zrange(PARENTS.pending, 0, -1) == [PARENT]


@POLICIES
@pytest.mark.parametrize("delivered", [False, True])
def test_a_child_abroad_whose_death_was_told_is_refused(
    redis_client: redis.Redis,
    parents: Transitions,
    children: Transitions,
    run: Run,
    policy: bool,  # noqa: FBT001
    delivered: bool,  # noqa: FBT001
) -> None:
    abroad(parents, children, policy=policy, by_sweep=False)
    if delivered:
        assert children.pump_deliver() == 1
    assert refused(redis_client, run, CHILD, queue="children") == "cross-queue"


def test_a_child_abroad_under_a_parent_another_child_killed_comes_back(
    redis_client: redis.Redis, parents: Transitions, children: Transitions, run: Run
) -> None:
    abroad(parents, children)
    die(children, SIBLING)
    children.pump_deliver()
    assert state(redis_client, PARENTS, PARENT) == b"dead"
    [outcome] = run(CHILD, queue="children")
    assert (outcome.result, outcome.notes) == ("moved", ("fenced",))


@pytest.mark.parametrize(
    "damage",
    [
        lambda client: client.delete(PARENTS.row(PARENT)),
        lambda client: client.hdel(PARENTS.row(PARENT), "payload"),
        lambda client: client.zadd(PARENTS.pending, {PARENT: 0}),
        lambda client: client.zadd(PARENTS.active, {PARENT: 0}),
        lambda client: client.zadd(PARENTS.schedule, {PARENT: 0}),
        lambda client: client.zadd(PARENTS.dead, {PARENT: 0}),
        lambda client: client.hset(PARENTS.row(PARENT), "state", "pending"),
        lambda client: client.hset(PARENTS.row(PARENT), "state", "dead"),
        lambda client: put_parent(client, PARENTS.dead, "dead", attempts=1),
        lambda client: put_parent(client, PARENTS.dead, "dead", last_error="x"),
        lambda client: client.set(sub(PARENT, "dependencies"), 0),
        lambda client: client.delete(sub(PARENT, "dependencies")),
        lambda client: client.set(sub(PARENT, "dependencies"), "many"),
        *(lambda client, told=told: client.hset(sub(PARENT, told), CHILD, "x") for told in ("failed", "unsuccessful")),
        lambda client: client.hset(sub(PARENT, "processed"), CHILD, "x"),
        lambda client: client.set(sub(PARENT, "failed"), "no hash"),
        lambda client: [client.delete(PARENTS.row(PARENT)), client.set(PARENTS.row(PARENT), "no hash")],
        lambda client: client.hset(CHILDREN.row(CHILD), "parent_queue", "a{b}"),
        lambda client: client.hset(CHILDREN.row(CHILD), "parent_queue", "emq"),
        lambda client: client.hset(CHILDREN.row(CHILD), "parent_queue", "nowhere"),
        lambda client: client.rpush(CHILDREN.fixed("flow:outbox"), *["x"] * 1001),
        lambda client: client.rpush(CHILDREN.fixed("flow:outbox"), b"parents\0" + PARENT + b"\0" + CHILD + b"\0r"),
        lambda client: client.rpush(
            CHILDREN.fixed("flow:outbox"), fail_entry(b"parents", PARENT, CHILD, b"fp", b"x\0y")
        ),
    ],
    ids=[
        *("no parent", "a ghost", "pending", "active", "scheduled", "held and dead", "state"),
        *("dead in its row", "dead after a claim", "dead of an error", "count 0", "no count"),
        *("odd count", "failed", "unsuccessful", "processed", "odd type", "row type", "bad queue", "reserved queue"),
        *("no such queue", "long outbox", "completion on its way", "death on its way"),
    ],
)
def test_a_child_abroad_whose_parent_does_not_surely_wait_for_it_is_refused(
    redis_client: redis.Redis,
    parents: Transitions,
    children: Transitions,
    run: Run,
    damage: Callable[[redis.Redis], object],
) -> None:
    abroad(parents, children)
    damage(redis_client)
    assert refused(redis_client, run, CHILD, queue="children") == "cross-queue"


def test_a_thousand_entries_on_their_way_can_be_looked_through(
    redis_client: redis.Redis, parents: Transitions, children: Transitions, run: Run
) -> None:
    abroad(parents, children)
    redis_client.rpush(CHILDREN.fixed("flow:outbox"), *["x"] * 1000)
    assert run(CHILD, queue="children")[0].result == "moved"


def test_a_parent_said_to_be_in_another_queue_that_is_this_one_is_looked_at_here(
    redis_client: redis.Redis, parents: Transitions, run: Run
) -> None:
    add(parents, CHILD)
    lapse(parents, CHILD)
    redis_client.hset(PARENTS.row(CHILD), "parent_queue", "parents")
    assert run(CHILD, dry_run=True)[0].result == "would-move"
    redis_client.hset(sub(PARENT, "unsuccessful"), CHILD, "x")
    assert refused(redis_client, run, CHILD) == "flow-child"


def test_a_dry_run_says_of_children_abroad_what_the_run_then_does(
    redis_client: redis.Redis, parents: Transitions, children: Transitions, run: Run
) -> None:
    abroad(parents, children)
    die(children, SIBLING)
    before = without_ttls(worlds.snapshot(redis_client))
    would = run(queue="children", walked=True, dry_run=True)
    assert without_ttls(worlds.snapshot(redis_client)) == before
    done = run(queue="children", walked=True)
    assert [(each.result, each.reason) for each in would] == [("would-move", None), ("would-skip", "cross-queue")]
    assert [(each.result, each.reason) for each in done] == [("moved", None), ("skipped", "cross-queue")]


def test_of_several_children_abroad_each_is_answered_in_its_place(
    redis_client: redis.Redis, parents: Transitions, children: Transitions, run: Run
) -> None:
    """Asked a second time are those alone of which it is known."""
    names = [bytes(BrandedId("JOB", nth << 22)) for nth in range(10, 20)]
    add(parents, *names, queue="children")
    for nth, name in enumerate(names):
        (lapse if nth % 3 else die)(children, name)
    outcomes = run(*names, queue="children")
    assert [each.id for each in outcomes] == names
    assert [each.result for each in outcomes] == ["moved" if nth % 3 else "skipped" for nth in range(10)]


def test_however_many_children_their_parents_cost_two_round_trips(
    redis_client: redis.Redis, parents: Transitions, children: Transitions, run: Run, monitor: wire.Monitor
) -> None:
    names = [bytes(BrandedId("JOB", nth << 22)) for nth in range(10, 30)]
    add(parents, *names, queue="children")
    for name in names:
        lapse(children, name)
    with monitor() as commands:
        assert {each.result for each in run(*names, queue="children")} == {"moved"}
    assert [name for name, *_ in commands].count(b"LRANGE") == 1


def test_a_child_that_died_when_it_held_no_count_of_attempts_is_asked_for_as_one_that_has_none(
    redis_client: redis.Redis, server: PrivateServer, two_dead: None, meanwhile: Meanwhile
) -> None:
    redis_client.hdel(CHILDREN.row(CHILD), "attempts")
    meanwhile(lambda: redis_client.hset(CHILDREN.row(CHILD), "attempts", 1))
    with conservation.opened(server.url, "children") as queue:
        outcomes, _ = collected(queue, OTHER, CHILD)
    assert [each.reason for each in outcomes] == [None, "changed"]


# Between the first look at a child abroad and the second


def collected(queue: Queue, *ids: bytes, walked: bool = False) -> tuple[list[Outcome], EmqError | None]:
    """Requeue, and return the outcomes up to an error, and the error."""
    pages = walk(queue, queue.keys.dead, Filters()) if walked else named(ids)
    outcomes: list[Outcome] = []
    try:
        for batch in requeue(queue, pages, Options(), Pace(walked)):
            outcomes += batch
    except EmqError as error:
        return outcomes, error
    return outcomes, None


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Let something happen when a child abroad was found to be waited for."""
    asked = emqctl.requeue.waited_for

    def arrange(event: Callable[[], object]) -> None:
        def waited_for(queue: Queue, found: Sequence[bytes]) -> set[bytes]:
            answer = asked(queue, found)
            event()
            return answer

        monkeypatch.setattr(emqctl.requeue, "waited_for", waited_for)

    return arrange


@pytest.fixture
def two_dead(parents: Transitions, children: Transitions) -> None:
    """Two dead jobs in `children`: an ordinary one, and after it a child nobody was told of."""
    children.enqueue(OTHER, "{}")
    die(children, OTHER)
    abroad(parents, children)


def test_a_child_that_left_between_two_looks_left_the_walk(
    redis_client: redis.Redis,
    server: PrivateServer,
    two_dead: None,
    meanwhile: Meanwhile,
) -> None:
    meanwhile(lambda: redis_client.zrem(CHILDREN.dead, CHILD))
    with conservation.opened(server.url, "children") as queue:
        outcomes, _ = collected(queue, walked=True)
    assert {each.id: (each.reason, each.left) for each in outcomes} == {
        OTHER: (None, False),
        CHILD: ("not-dead", True),
    }


def test_a_child_that_ran_and_died_between_two_looks_is_another_case(
    redis_client: redis.Redis,
    server: PrivateServer,
    two_dead: None,
    meanwhile: Meanwhile,
) -> None:
    meanwhile(lambda: redis_client.hincrby(CHILDREN.row(CHILD), "attempts", 1))
    with conservation.opened(server.url, "children") as queue:
        outcomes, _ = collected(queue, OTHER, CHILD)
    assert [each.reason for each in outcomes] == [None, "changed"]


@pytest.mark.parametrize("walked", [False, True])
def test_a_connection_that_ends_between_two_looks_takes_nothing_of_the_account(
    redis_client: redis.Redis,
    server: PrivateServer,
    two_dead: None,
    meanwhile: Meanwhile,
    walked: bool,  # noqa: FBT001
) -> None:
    """What the first call did is known, and has to be said."""

    def cut() -> None:
        raise NoAnswer("gone")

    meanwhile(cut)
    with conservation.opened(server.url, "children") as queue:
        outcomes, error = collected(queue, OTHER, CHILD, walked=walked)
    assert isinstance(error, NoAnswer)
    assert {each.id: each.result for each in outcomes} == {OTHER: "moved", CHILD: "skipped"}
    assert redis_client.zrange(CHILDREN.dead, 0, -1) == [CHILD]


def test_an_outbox_of_another_type_takes_nothing_of_the_account(
    redis_client: redis.Redis, server: PrivateServer, two_dead: None
) -> None:
    redis_client.delete(CHILDREN.fixed("flow:outbox"))
    redis_client.set(CHILDREN.fixed("flow:outbox"), "x")
    with conservation.opened(server.url, "children") as queue:
        outcomes, _ = collected(queue, OTHER, CHILD)
    moved = [OTHER] if not redis_client.zscore(CHILDREN.dead, OTHER) else []
    assert [each.id for each in outcomes if each.result == "moved"] == moved


def test_an_outbox_this_user_may_not_read_takes_nothing_of_the_account(
    redis_client: redis.Redis, keeper: redis.Redis, server: PrivateServer, two_dead: None
) -> None:
    allowed = [f"~emq:{{children}}:{each}" for each in conservation.REACHED]
    keeper.execute_command("ACL", "SETUSER", "default", "resetkeys", "~{emq}:*", *allowed)
    with conservation.opened(server.url, "children") as queue:
        outcomes, _ = collected(queue, OTHER, CHILD)
    moved = [OTHER] if keeper.zscore(CHILDREN.dead, OTHER) is None else []
    assert [each.id for each in outcomes if each.result == "moved"] == moved


def test_an_answer_lost_the_second_time_is_lost_for_those_asked_again_alone(
    redis_client: redis.Redis, server: PrivateServer, two_dead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_once = Server.run

    def run(self: Server, *words: Any) -> Any:
        answers = run_once(self, *words)
        if "1" in words[2]:  # the parent of one of them is known to wait
            raise NoAnswer("gone")
        return answers

    monkeypatch.setattr(Server, "run", run)
    with conservation.opened(server.url, "children") as queue:
        outcomes, error = collected(queue, OTHER, CHILD)
    assert isinstance(error, NoAnswer)
    assert [(each.result, each.reason) for each in outcomes] == [("moved", None), ("failed", "no-answer")]


# The recorded world


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("flow.fp.parent", "flow-parent"),
        ("flow.fp.child_0", "flow-child"),
        ("flow.ignore.child_0", "flow-child"),
        ("flow.ignore_released.child_0", "parent-released"),
        ("flow.cross.child_1", "cross-queue"),
        ("flow.stalled.child_0", None),
    ],
)
def test_flows_of_the_recorded_world(world: worlds.World, run: Run, name: str, reason: str | None) -> None:
    found = world.ids[name]
    [outcome] = run(found["id"].encode(), queue=found["queue"])
    assert outcome.reason == reason
    assert outcome.notes == (() if reason else ("fenced",))
