"""Producers and workers, compared with recordings of a real EchoMQ, the damaged ones too."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import redis
import worlds
from listener import Listener

from emqctl import branded
from emqctl.branded import BrandedId
from emqctl.demo import transitions
from emqctl.demo.flows import Node
from emqctl.demo.server import PrivateServer
from emqctl.demo.worker import Claimed, Rejected, Transitions
from emqctl.errors import Malformed

#: Verbs of producers and workers -> number of recordings; the other verbs are an operator's.
RECORDED = {
    "enqueue": 9,
    "enqueue_at": 4,
    "enqueue_in": 1,
    "claim": 7,
    "claim_batch": 2,
    "lane_enqueue": 10,
    "lane_claim": 13,
    "lane_wclaim": 4,
    "lane_bclaim": 1,
    "complete": 24,
    "retry": 19,
    "delay": 4,
    "promote": 9,
    "reap": 7,
    "reap_group": 2,
    "sweep_stalled": 10,
    "extend_lock": 5,
    "extend_locks": 1,
    "track_lock": 2,
    "add_log": 4,
    "update_progress": 2,
    "flow_add": 5,
    "pump_deliver": 6,
    "repeat_register": 2,
    "repeat_cancel": 2,
    "repeat_advance": 2,
    "repeat_fire": 1,
}
RECORDINGS = [recording for recording in worlds.transitions() if recording["verb"] in RECORDED]
JOBS = tuple(str(BrandedId("JOB", nth << 22)) for nth in range(1, 11))
GROUP = "TEN0IlTdEM44g4"
LEASE = 30_000


@pytest.fixture
def client(server: PrivateServer, redis_client: redis.Redis) -> Iterator[Listener]:
    """A listener on an empty server."""
    with Listener(unix_socket_path=str(server.socket), protocol=2, driver_info=None) as client:
        yield client


@pytest.fixture
def jobs(client: Listener) -> Transitions:
    """Transitions of the queue `jobs`."""
    return Transitions(client, "jobs")


def test_every_recording_of_these_verbs_is_compared() -> None:
    assert Counter(recording["verb"] for recording in RECORDINGS) == RECORDED
    assert len(RECORDINGS) == 158


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording["name"])
def test_as_recorded(client: Listener, recording: dict[str, Any]) -> None:
    before_ms = worlds.server_ms(client)
    worlds.put(client, recording["before"], before_ms)
    with published(client) as messages:
        answer = call(client, recording["verb"], recording["args"], before_ms)
    after_ms = worlds.server_ms(client)

    reply = recording["reply"]
    assert plain(answer) == plain(reply["answer"])
    assert worlds.differences(client, recording["after"], before_ms, after_ms) == []
    wire = reply.get("wire_each", [reply["wire"]] if "wire" in reply else [])
    assert [plain(told) for _, _, told in client.heard] == [plain(told) for told in wire]
    assert messages == reply.get("published", [])
    for verb, words, _ in client.heard:
        assert_documented(verb, words)


def call(client: redis.Redis, verb: str, args: dict[str, Any], now_ms: int) -> Any:
    """Make a recorded call; an empty list of claims is the client's null."""
    verb_args = {"job_id" if name == "id" else name: plain(value) for name, value in args.items() if name != "queue"}
    if verb == "flow_add":
        verb_args = {"root": node({**args["parent"], "children": args["children"]})}
    if verb == "enqueue_at":
        verb_args["run_at_ms"] = now_ms + verb_args.pop("run_at_rel_ms")
    try:
        answer = getattr(Transitions(client, args["queue"]), verb)(**verb_args)
    except Rejected as refused:
        return {"error": refused.word}
    return None if answer == [] and "claim" in verb else answer


@contextmanager
def published(client: redis.Redis) -> Iterator[list[list[Any]]]:
    """Collect what goes out on any channel meanwhile, as [channel, object] pairs."""
    messages: list[list[Any]] = []
    with client.pubsub() as ears:
        ears.psubscribe("*")
        heard = ears.listen()
        next(heard)
        yield messages
        client.publish("end", "")
        ours = takewhile(lambda message: message["channel"] != b"end", heard)
        messages.extend([message["channel"].decode(), json.loads(message["data"])] for message in ours)


def node(recorded: dict[str, Any]) -> Node:
    children = tuple(node(child) for child in recorded.get("children", ()))
    ignores = recorded.get("ignore_dependency_on_failure", False)
    return Node(recorded["id"], recorded["payload"], children, recorded.get("queue"), ignores)


def plain(answer: Any) -> Any:
    """Return what was recorded or answered in one form: text as bytes, tuples as lists."""
    if isinstance(answer, Claimed):
        return plain(answer[:3] if answer.group is None else list(answer))
    if isinstance(answer, dict) and set(answer) == {"b64"}:
        return b64decode(answer["b64"])
    if isinstance(answer, dict):
        return {name: plain(value) for name, value in answer.items()}
    if isinstance(answer, (list, tuple)):
        return [plain(value) for value in answer]
    return answer.encode() if isinstance(answer, str) else answer


def assert_documented(verb: str, words: list[Any]) -> None:
    """Check the words of a call, the prefix and the arguments, against the header of the verb's file."""
    header = (Path(transitions.__file__).parent / f"{verb}.lua").read_text("utf-8").partition("\n\n")[0]
    keys, arguments = (re.findall(rf"{name}\[(\d+)\]", header) for name in ("KEYS", "ARGV"))
    given = len(words) - len(keys)
    assert keys == ["1"]
    assert arguments == [str(nth + 1) for nth in range(len(arguments))]
    if "in pairs" in header:
        assert (given - len(arguments)) % 2 == 0
    else:
        assert given == len(arguments)


def test_a_death_climbs_from_queue_to_queue(client: Listener, jobs: Transitions) -> None:
    root, middle, leaf = JOBS[:3]
    nested = Node(middle, "m", (Node(leaf, "l", queue="children"),), queue="jobs")
    jobs.flow_add(Node(root, "r", (nested,)))
    children = Transitions(client, "children")
    assert children.claim(LEASE) == (leaf.encode(), b"l", 1, None)
    assert children.retry(leaf, 1, 0, 1, "a\0b") == "dead"
    assert (children.pump_deliver(), children.pump_deliver()) == (1, 0)
    assert client.hget(jobs.keys.row(root.encode()), "state") == b"awaiting_children"
    assert jobs.pump_deliver() == 1
    assert client.zrange(jobs.keys.dead, 0, -1) == [root.encode(), middle.encode()]
    assert client.hgetall(jobs.keys.job(branded.parse(root), "failed")) == {middle.encode(): b"a\0b"}


def test_an_ignored_death_does_not_climb(client: Listener, jobs: Transitions) -> None:
    root, middle, leaf = JOBS[:3]
    nested = Node(middle, "m", (Node(leaf, "l", queue="children", ignore_failure=True),))
    jobs.flow_add(Node(root, "r", (nested,)))
    children = Transitions(client, "children")
    children.claim(LEASE)
    children.retry(leaf, 1, 0, 1, "boom")
    assert (children.pump_deliver(), jobs.pump_deliver()) == (1, 0)
    assert jobs.claim(LEASE) == (middle.encode(), b"m", 1, None)


@pytest.mark.parametrize(("names", "word"), [(JOBS[:9], "flow_too_deep"), ((*JOBS[:3], JOBS[0]), "flow_cycle")])
def test_a_flow_of_a_bad_shape_is_refused_before_it_is_written(
    client: Listener, jobs: Transitions, names: tuple[str, ...], word: str
) -> None:
    flow = Node(names[-1], "{}")
    for name in names[-2::-1]:
        flow = Node(name, "{}", (flow,))
    with pytest.raises(Rejected, match=word):
        jobs.flow_add(flow)
    assert client.dbsize() == 0


def test_a_deep_flow_is_refused_at_the_node_that_is_no_job(client: Listener, jobs: Transitions) -> None:
    with pytest.raises(Rejected, match="EMQKIND"):
        jobs.flow_add(Node(JOBS[0], "{}", (Node(GROUP, "{}", (Node(JOBS[1], "{}"),)),)))
    root = jobs.keys.row(JOBS[0].encode())
    assert set(client.keys()) == {root, root + b":dependencies"}
    assert client.hget(root, "state") == b"awaiting_children"


def test_only_a_job_can_be_put_off(jobs: Transitions) -> None:
    with pytest.raises(Rejected, match="EMQKIND"):
        jobs.delay(GROUP, 1, 0)


def test_a_parent_that_waits_again_dies_of_a_later_death(client: Listener, jobs: Transitions) -> None:
    parent, child = JOBS[:2]
    jobs.flow_add(Node(parent, "{}", (Node(child, "{}"),)))
    jobs.claim(LEASE)
    client.zadd(jobs.keys.pending, {parent: 0})
    assert jobs.retry(child, 1, 0, 1, "boom") == "dead"
    assert client.zcard(jobs.keys.pending) == 0
    assert client.zrange(jobs.keys.dead, 0, -1) == [parent.encode(), child.encode()]


@pytest.mark.parametrize("queue", ["", "emq", "a{b}"])
def test_an_entry_for_what_cannot_be_a_parent_blocks_the_outbox(client: Listener, queue: str) -> None:
    children = Transitions(client, "children")
    outbox = children.keys.fixed("flow:outbox")
    client.rpush(outbox, "\0".join((queue, *JOBS[:2], "r")), "\0".join(("jobs", "garbage", JOBS[1], "r")))
    assert (children.pump_deliver(), client.llen(outbox)) == (0, 2)
    client.lpop(outbox)
    assert (children.pump_deliver(), client.llen(outbox)) == (0, 1)


def test_a_worker_ends_at_a_parent_that_is_no_id(client: Listener, jobs: Transitions) -> None:
    jobs.enqueue(JOBS[0], "{}")
    client.hset(jobs.keys.row(JOBS[0].encode()), "parent", "garbage")
    jobs.claim(LEASE)
    with pytest.raises(Malformed, match="'garbage' is not a branded id"):
        jobs.complete(JOBS[0], 1)
    assert client.zcard(jobs.keys.active) == 1


def test_a_claim_loses_a_job_whose_attempts_are_no_number(client: Listener, jobs: Transitions) -> None:
    jobs.enqueue(JOBS[0], "{}")
    client.hset(jobs.keys.row(JOBS[0].encode()), "attempts", "many")
    with pytest.raises(redis.ResponseError, match="not an integer"):
        jobs.claim(LEASE)
    assert client.keys() == [jobs.keys.row(JOBS[0].encode())]


def test_a_lane_claim_fails_at_a_limit_that_is_no_number_with_the_job_in_flight(
    client: Listener, jobs: Transitions
) -> None:
    jobs.lane_enqueue(GROUP, JOBS[0], "{}")
    client.hset(jobs.keys.fixed("glimit"), GROUP, "many")
    with pytest.raises(redis.ResponseError, match="compare number with nil"):
        jobs.lane_claim(LEASE)
    assert client.zrange(jobs.keys.active, 0, -1) == [JOBS[0].encode()]


def test_the_mark_on_the_row_expires_with_the_other_where_the_server_can(client: Listener, jobs: Transitions) -> None:
    row = jobs.keys.row(JOBS[0].encode())
    jobs.enqueue(JOBS[0], "{}")
    jobs.track_lock(JOBS[0], 1, 60_000)
    try:
        (left_ms,) = client.hpttl(row, "lock")
    except redis.ResponseError:
        assert client.hget(row, "lock") == b"1"
    else:
        assert 0 < left_ms <= 60_000
    jobs.untrack_lock(JOBS[0])
    assert client.keys(f"{row.decode()}*") == [row]
    assert client.hkeys(row) == [b"state", b"attempts", b"payload"]


def test_a_mark_that_fails_for_another_reason_is_an_error(client: Listener, jobs: Transitions) -> None:
    client.rpush(jobs.keys.row(JOBS[0].encode()), "no hash")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        jobs.track_lock(JOBS[0], 1, 60_000)


def test_due_repeats_fire_once(client: Listener, jobs: Transitions) -> None:
    jobs.repeat_register("hourly", 3_600_000, "{}", 0)
    jobs.repeat_register("later", 3_600_000, "{}", 60_000)
    jobs.repeat_register("gone", 3_600_000, "{}", 0)
    client.delete(jobs.keys.repeat(b"gone"))
    ids = iter(name.encode() for name in JOBS)
    assert (jobs.repeat_tick(ids), jobs.repeat_tick(ids)) == (2, 0)
    assert client.zcard(jobs.keys.pending) == 1
    assert client.zrange(jobs.keys.fixed("repeat"), 0, -1) == [b"later", b"hourly"]
