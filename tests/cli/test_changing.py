"""What holds for every command that changes something, and the small changes of jobs as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
import worlds
from cli.running import Emqctl
from cli.stubs import refused_port

JOB, LANE = "JOB0JXc5YNUBkm", "TEN0IlTd9mDCbY"

CHANGES = [
    ["requeue", "orders", "--all", "--yes"],
    ["bury", "orders", JOB, "--reason", "x"],
    ["reap", "orders"],
    ["promote", "orders", "--due"],
    ["move", "orders", JOB, "--to", LANE],
    ["remove", "orders", JOB, "--yes"],
    ["edit", "orders", JOB, "--payload", "-"],
    ["pause", "orders"],
    ["resume", "orders"],
    ["tune", "emails", LANE, "--weight", "2"],
    ["obliterate", "orders", "--confirm", "orders"],
    ["doctor", "--fix", "--yes"],
]
each_change = pytest.mark.parametrize("words", CHANGES, ids=[words[0] for words in CHANGES])


@each_change
def test_a_read_only_run_refuses_before_it_connects(emqctl: Emqctl, words: list[str]) -> None:
    result = emqctl(*words, "--read-only", url=f"redis://127.0.0.1:{refused_port()}/0")
    assert (result.code, result.out) == (5, "")
    assert "read-only" in result.err


@each_change
def test_an_unknown_wire_version_stops_a_change_unless_it_is_named(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, words: list[str]
) -> None:
    redis_client.set("{emq}:version", "echomq:9.9.9")
    before = worlds.snapshot(redis_client).keys()
    result = emqctl(*words)
    assert result.code == 7
    assert "--accept-version echomq:9.9.9" in result.err
    assert worlds.snapshot(redis_client).keys() == before
    assert emqctl(*words, "--accept-version", "echomq:9.9.9").code != 7


ASKING = [
    (["bury", "orders", "--all", "--reason", "x"], "dead"),
    (["promote", "orders", "--all"], "before the time"),
    (["remove", "orders", JOB], "for good"),
    (["remove", "orders", "--state", "dead", "--all"], "for good"),
]


@pytest.mark.parametrize(("words", "consequence"), ASKING, ids=[" ".join(words) for words, _ in ASKING])
def test_what_asks_names_server_queue_count_ids_and_consequence(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, words: list[str], consequence: str
) -> None:
    before = worlds.snapshot(redis_client).keys()
    result = emqctl(*words, tty=True, stdin=b"no\n")
    assert result.code == 5
    assert worlds.snapshot(redis_client).keys() == before
    for named in (emqctl.url, "queue orders", "JOB0J", consequence):
        assert named in result.err
    assert emqctl(*words).code == 5  # no terminal: refused at once
    assert "--yes" in emqctl(*words).err


def test_what_was_buried_comes_back_to_its_place_with_its_bytes(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis
) -> None:
    lane_job = redis_client.zrange(f"emq:{{emails}}:g:{LANE}:pending", 0, 0)[0].decode()
    for queue, job in (("orders", JOB), ("emails", lane_job)):
        before = worlds.snapshot(redis_client)
        assert emqctl("bury", queue, job, "--reason", "to be sure").code == 0
        assert redis_client.hget(f"emq:{{{queue}}}:job:{job}", "last_error") == b"buried by operator: to be sure"
        assert emqctl("requeue", queue, job).code == 0
        after = worlds.snapshot(redis_client)
        wake = b"emq:{emails}:wake"
        assert {key: v.content for key, v in after.items() if key != wake} == {
            key: v.content for key, v in before.items() if key != wake
        }


def test_edit_keeps_the_old_payload_and_writes_the_new_one_byte_for_byte(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, tmp_path: Path
) -> None:
    row = f"emq:{{orders}}:job:{JOB}"
    old = redis_client.hget(row, "payload")
    new = b"\xff\x00 new \n"
    saved = tmp_path / "old"
    result = emqctl("edit", "orders", JOB, "--payload", "-", "--save", str(saved), stdin=new)
    assert result.code == 0
    assert (redis_client.hget(row, "payload"), saved.read_bytes()) == (new, old)
    assert emqctl("edit", "orders", JOB, "--payload", "-", "-o", "json", stdin=new).records[0]["reason"] == "same"
    again = emqctl("edit", "orders", JOB, "--payload", "-", "--save", str(saved), stdin=b"x")
    assert again.code == 1
    assert "cannot keep the old payload" in again.err
    assert redis_client.hget(row, "payload") == new


def test_drain_is_answered_with_what_to_type_instead(emqctl: Emqctl) -> None:
    result = emqctl("drain", "orders")
    assert result.code == 2
    assert "hint: 'pause' lets what runs finish; 'remove --state pending --all' deletes the backlog" in result.err


def test_a_set_is_removed_from_one_state_that_is_named(emqctl: Emqctl, world: worlds.World) -> None:
    result = emqctl("remove", "orders", "--all", "--yes")
    assert result.code == 2
    assert "--state" in result.err


def test_a_pause_says_what_goes_on_and_a_second_one_that_it_was_so(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis
) -> None:
    first, second = emqctl("pause", "orders"), emqctl("pause", "orders")
    assert (first.code, second.code) == (0, 0)
    assert "a claim that had looked before may still start one job" in first.err
    assert "paused already" in second.err
    assert redis_client.hget("emq:{orders}:meta", "paused") == b"1"
    assert emqctl("resume", "orders").code == 0
    assert not redis_client.exists("emq:{orders}:meta")


def test_a_ceiling_of_nothing_is_refused_with_what_does_it(emqctl: Emqctl, world: worlds.World) -> None:
    result = emqctl("tune", "emails", LANE, "--max-active", "0")
    assert result.code == 2
    assert "pause the lane" in result.err
