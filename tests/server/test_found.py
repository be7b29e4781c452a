"""What the state machine has found, each as a plain test of its own."""

from __future__ import annotations

from collections.abc import Iterator

import invariants
import pytest
import redis

from emqctl import branded, connection, control, moves
from emqctl.changes import Pace, named
from emqctl.config import Settings
from emqctl.demo.flows import Node
from emqctl.demo.server import PrivateServer
from emqctl.demo.worker import Transitions
from emqctl.endpoint import Endpoint
from emqctl.errors import Denied
from emqctl.queues import Queue
from emqctl.requeue import Options, requeue

JOB, CHILD, LANE = b"JOB00000000001", b"JOB00000000002", b"TEN00000000001"


@pytest.fixture
def jobs(redis_client: redis.Redis) -> Transitions:
    """Transitions of the queue `jobs` on an empty server."""
    return Transitions(redis_client, "jobs")


@pytest.fixture
def queue(server: PrivateServer, redis_client: redis.Redis) -> Iterator[Queue]:
    """The queue as emqctl sees it."""
    settings = Settings(Endpoint("unix", path=str(server.socket)), 30, read_only=False)
    with connection.connect(settings, [].append) as emqctl:
        yield Queue(emqctl, "jobs")


@pytest.mark.parametrize("force", [False, True], ids=["gently", "by force"])
def test_a_job_in_flight_is_not_removed_where_its_slot_cannot_be_given_back(
    redis_client: redis.Redis, jobs: Transitions, queue: Queue, *, force: bool
) -> None:
    """The row went, then the counter that is no number stopped the program: the lane's ring was never put right."""
    jobs.lane_enqueue(LANE, JOB, "{}")
    jobs.lane_claim(0)
    redis_client.hset(jobs.keys.fixed("gactive"), LANE, "many")
    before = invariants.look(redis_client)
    [[outcome]] = moves.remove(queue, named([JOB]), moves.How(force=force), Pace())
    assert (outcome.result, outcome.reason) == ("skipped", "bad-row")
    assert invariants.look(redis_client).keys == before.keys


def test_a_job_in_flight_of_a_group_that_names_no_lane_is_not_removed_where_its_slot_cannot_be_given_back(
    redis_client: redis.Redis, jobs: Transitions, queue: Queue
) -> None:
    redis_client.hset(jobs.keys.row(JOB), mapping={"state": "active", "attempts": 1, "payload": "{}", "group": "bad"})
    redis_client.zadd(jobs.keys.active, {JOB: 1})
    redis_client.hset(jobs.keys.fixed("gactive"), "bad", "x")
    before = invariants.look(redis_client)
    [[outcome]] = moves.remove(queue, named([JOB]), moves.How(), Pace())
    assert (outcome.result, outcome.reason) == ("skipped", "bad-row")
    assert invariants.look(redis_client).keys == before.keys


def test_an_edit_of_a_user_who_may_not_write_names_what_was_denied(
    redis_client: redis.Redis, keeper: redis.Redis, jobs: Transitions, queue: Queue
) -> None:
    jobs.enqueue(JOB, "{}")
    keeper.execute_command("ACL", "SETUSER", "default", "-hset")
    with pytest.raises(Denied, match="denied HSET emq"):
        moves.edit(queue, branded.parse(JOB), b"{}", b"[]", moves.How())
    assert redis_client.hget(jobs.keys.row(JOB), "payload") == b"{}"


@pytest.mark.parametrize("command", ["hget", "zcard", "llen", "lrange", "sismember", "type"])
def test_a_control_of_a_user_who_may_not_look_is_refused_whole(
    redis_client: redis.Redis, keeper: redis.Redis, jobs: Transitions, queue: Queue, command: str
) -> None:
    """The lane was paused and stood on the ring still."""
    jobs.lane_enqueue(LANE, JOB, "{}")
    before = invariants.look(keeper)
    keeper.execute_command("ACL", "SETUSER", "default", f"-{command}")
    for act in (
        lambda: control.pause(queue, branded.parse(LANE)),
        lambda: control.limit(queue, branded.parse(LANE), 0),
    ):
        with pytest.raises(Denied, match=command.upper()):
            act()
    assert invariants.look(keeper).keys == before.keys


def test_a_late_completion_is_not_told_to_a_parent_in_another_queue(
    redis_client: redis.Redis, jobs: Transitions
) -> None:
    """As EchoMQ does (H15); no recording shows it, and nothing that is looked at after a step would."""
    jobs.flow_add(Node(JOB, "{}", (Node(CHILD, "{}", queue="away"),)))
    away = Transitions(redis_client, "away")
    assert away.claim(0)
    assert away.reap() == 1
    assert away.complete(CHILD, 1) == "ok"
    assert redis_client.exists(away.keys.fixed("flow:outbox")) == 0


def test_a_repeat_of_a_child_of_another_queue_stays_a_repeat(
    redis_client: redis.Redis, jobs: Transitions, server: PrivateServer
) -> None:
    """Asked for once more, with what its parent's queue tells, it was reported as moved twice."""
    jobs.flow_add(Node("JOB00000000002", "{}", (Node(JOB, "{}", queue="away"),)))
    away = Transitions(redis_client, "away")
    away.claim(0)
    away.sweep_stalled(1, 100)
    settings = Settings(Endpoint("unix", path=str(server.socket)), 30, read_only=False)
    with connection.connect(settings, [].append) as emqctl:
        [outcomes] = requeue(Queue(emqctl, "away"), named([JOB, JOB]), Options(), Pace())
    assert [(each.result, each.reason) for each in outcomes] == [("moved", None), ("skipped", "duplicate")]
