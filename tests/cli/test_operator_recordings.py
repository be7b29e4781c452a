"""Every recording of an operator's verb, and the command line that means it: the same result, or a better one."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import redis
import worlds
from cli.running import Emqctl

Recording = dict[str, Any]
State = dict[bytes, worlds.Value]
Words = list[str]


def _remove(a: dict[str, Any]) -> list[Words]:
    dedup = ["--dedup", a["dedup_id"]] if a["dedup_id"] else []
    return [["remove", a["queue"], a["id"], "--yes", *dedup]]


def _drain(a: dict[str, Any]) -> list[Words]:
    states = [["pending", "--flat"], *([["scheduled"]] if a["include_schedule"] else [])]
    return [["remove", a["queue"], "--state", *state, "--all", "--yes"] for state in states]


#: Verb of the recordings -> the command lines that mean it. `reap_group` has no filter: the ids are named.
MEANS: dict[str, Callable[[dict[str, Any]], list[Words]]] = {
    "remove": _remove,
    "drain": _drain,
    "update_data": lambda a: [["edit", a["queue"], a["id"], "--payload", "-"]],
    "queue_pause": lambda a: [["pause", a["queue"]]],
    "queue_resume": lambda a: [["resume", a["queue"]]],
    "lane_pause": lambda a: [["pause", a["queue"], "--lane", a["group"]]],
    "lane_resume": lambda a: [["resume", a["queue"], "--lane", a["group"]]],
    "lane_limit": lambda a: [["tune", a["queue"], a["group"], "--max-active", str(a["limit"])]],
    "lane_weight": lambda a: [["tune", a["queue"], a["group"], "--weight", str(a["weight"])]],
    "lane_reassign": lambda a: [["move", a["queue"], a["id"], "--to", a["group"]]],
    "lane_drain": lambda a: [["remove", a["queue"], "--state", "pending", "--lane", a["group"], "--all", "--yes"]],
    "obliterate": lambda a: [["obliterate", a["queue"], "--confirm", a["queue"], *(["--force"] if a["force"] else [])]],
    "promote": lambda a: [["promote", a["queue"], "--due"]],
    "reap": lambda a: [["reap", a["queue"]]],
    "reap_group": lambda a: [["reap", a["queue"], *a["lapsed_of_group"]]],
}


def untouched(recording: Recording, before: State, after: State) -> None:
    """Nothing was written; time went on."""
    del recording
    contents = [{key: (value.type, value.content) for key, value in state.items()} for state in (before, after)]
    assert contents[0] == contents[1]


def without_trace(recording: Recording, before: State, after: State) -> None:
    """Nothing of the job is left, and nothing of any other job is gone."""
    gone = recording["args"]["id"].encode()
    assert not [key for key, value in after.items() if gone in key or gone in value.content]
    assert {key for key in before if b":job:" in key and gone not in key} == {key for key in after if b":job:" in key}


def empty(recording: Recording, before: State, after: State) -> None:
    """No key of the queue is left."""
    del before
    queue = recording["args"]["queue"].encode()
    assert not [key for key in after if key.startswith(b"emq:{" + queue + b"}:")]


def as_wanted(recording: Recording, before: State, after: State) -> None:
    """It was done for all that it is for; the jobs are those there were."""
    del recording
    assert after != before
    rows = [{key for key in state if b":job:" in key} for state in (before, after)]
    assert rows[0] == rows[1]


Check = Callable[[Recording, State, State], None]

#: Where the result differs on purpose: what holds instead, the exit code, and why.
DIFFERS: dict[str, tuple[Check, int, str]] = {
    "promote.batch_limit": (as_wanted, 0, "takes all that are due; the reference stops at the size of its batch"),
    "promote.dangling": (untouched, 4, "makes no ghost of an id without a row (H11)"),
    "reap.dangling": (untouched, 4, "makes no ghost of an id without a row (H11)"),
    "reap_group.hidden_by_limit": (as_wanted, 0, "ids are named, so that no other group's hide them"),
    "remove.active": (untouched, 5, "a worker holds it: --force"),
    "remove.grouped_active": (untouched, 5, "a worker holds it: --force, which gives the slot back (H3)"),
    "remove.grouped_active_at_limit": (untouched, 5, "a worker holds it: --force, which gives the slot back (H3)"),
    "remove.lock_field_never_expires": (without_trace, 0, "a field that never expires is no sign of a worker (H22)"),
    "remove.grouped_lane_pending": (without_trace, 0, "leaves no member in the lane (H2)"),
    "remove.grouped_lane_pending_last": (without_trace, 0, "leaves no member, and the lane off the ring (H2)"),
    "remove.dangling_dead": (without_trace, 0, "prunes what has no row (H10)"),
    "remove.flow_child": (untouched, 5, "its parent would wait for ever (H4)"),
    "remove.held_parent": (untouched, 5, "its last child would make a job without payload (H5)"),
    "drain.ignores_locks_and_dedup": (untouched, 5, "a worker's lock holds it (H25)"),
    "obliterate.not_paused": (empty, 0, "pauses by itself"),
    "obliterate.not_paused_forced": (empty, 0, "pauses by itself"),
    "obliterate.bounded_more": (empty, 0, "goes on by itself until nothing is left"),
    "obliterate.lanes_on_ring_and_paused": (empty, 0, "leaves nothing behind (H20)"),
    "obliterate.leftovers": (empty, 0, "leaves nothing behind (H20)"),
    "lane_reassign.reprocessed_job": (as_wanted, 0, "repairs a job with a lane that waits in flat pending (H1)"),
    "update_data.active_and_locked": (untouched, 5, "its worker has the old payload already: --force"),
}
#: Flow children stay, everything else goes: what holds is looked at in a test of its own.
OF_ITS_OWN = {"drain.flow_children"}
#: With --force these come out as recorded.
FORCED = ("remove.active", "update_data.active_and_locked")

RECORDINGS = {each["name"]: each for each in worlds.transitions() if each["verb"] in MEANS}


def run(emqctl: Emqctl, recording: Recording, *more: str) -> list[int]:
    given = dict(recording["args"])
    active = recording["before"].get(f"emq:{{{given['queue']}}}:active", {"value": []})["value"]
    groups = {key.rpartition(":")[2]: entry["value"] for key, entry in recording["before"].items() if ":job:" in key}
    wanted = given.get("group")
    given["lapsed_of_group"] = [id_ for id_, at in active if at <= 0 and groups.get(id_, {}).get("group") == wanted]
    payload = given.get("payload", "")
    stdin = base64.b64decode(payload["b64"]) if isinstance(payload, dict) else payload.encode()
    return [emqctl(*words, *more, stdin=stdin).code for words in MEANS[recording["verb"]](given)]


def replay(client: redis.Redis, recording: Recording) -> tuple[int, State]:
    now_ms = worlds.server_ms(client)
    worlds.put(client, recording["before"], now_ms)
    client.set("{emq}:version", "echomq:2.4.2")
    return now_ms, worlds.snapshot(client)


@pytest.mark.parametrize("name", [name for name in RECORDINGS if name not in {*DIFFERS, *OF_ITS_OWN}])
def test_a_command_line_comes_to_what_was_recorded(emqctl: Emqctl, redis_client: redis.Redis, name: str) -> None:
    recording = RECORDINGS[name]
    now_ms, _ = replay(redis_client, recording)
    codes = run(emqctl, recording)
    assert worlds.differences(redis_client, recording["after"], now_ms, worlds.server_ms(redis_client)) == []
    failed = isinstance(recording["reply"]["answer"], dict)
    assert all(codes) if failed else not any(codes)


@pytest.mark.parametrize("name", DIFFERS)
def test_a_command_line_does_better_than_what_was_recorded(
    emqctl: Emqctl, redis_client: redis.Redis, name: str
) -> None:
    check, code, _why = DIFFERS[name]
    _, before = replay(redis_client, RECORDINGS[name])
    assert run(emqctl, RECORDINGS[name]) == [code]
    check(RECORDINGS[name], before, worlds.snapshot(redis_client))


@pytest.mark.parametrize("name", FORCED)
def test_by_force_it_comes_to_what_was_recorded(emqctl: Emqctl, redis_client: redis.Redis, name: str) -> None:
    recording = RECORDINGS[name]
    now_ms, _ = replay(redis_client, recording)
    assert run(emqctl, recording, "--force") == [0]
    assert worlds.differences(redis_client, recording["after"], now_ms, worlds.server_ms(redis_client)) == []


def test_children_of_a_flow_stay_when_everything_else_is_removed(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    """H4: the reference deletes them, and their parent waits for ever."""
    recording = RECORDINGS["drain.flow_children"]
    replay(redis_client, recording)
    assert run(emqctl, recording) == [3]
    left = redis_client.zrange("emq:{jobs}:pending", 0, -1)
    assert left
    assert all(redis_client.hexists(b"emq:{jobs}:job:" + each, "parent") for each in left)


def test_no_recording_of_an_operator_is_left_out() -> None:
    counted = Counter(each["verb"] for each in RECORDINGS.values())
    print(f"{counted.total()} recordings of operator verbs: {dict(counted)}")  # noqa: T201 - the count is the point
    assert counted.total() == 84
    assert set(DIFFERS) | OF_ITS_OWN <= set(RECORDINGS)
