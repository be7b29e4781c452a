"""Requeue in the core: recordings of EchoMQ's own verb, the table of semantics.md 3, and what must be refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import conservation
import pytest
import redis
import wire
import worlds
from conservation import Run, without_ttls

from emqctl.branded import BrandedId
from emqctl.changes import BATCH, Outcome, Pace, named
from emqctl.demo.server import PrivateServer
from emqctl.demo.worker import Rejected, Transitions
from emqctl.errors import Denied, EmqError, WrongType
from emqctl.keyspace import QueueKeys, parse
from emqctl.requeue import Options, requeue
from emqctl.selection import Filters, Target, walk
from emqctl.slots import slot_of

KEYS = QueueKeys("jobs")
A, B, C, D, *REST = (bytes(BrandedId("JOB", nth << 22)) for nth in range(1, 301))
LANE, OTHER_LANE = b"TEN0IlTdEM44g4", b"TEN0IlTd9mDCbY"
IN_LANE = KEYS.prefix + b"g:" + LANE + b":pending"
RING, WAKE, GACTIVE, GLIMIT, PAUSED, META = map(KEYS.fixed, ("ring", "wake", "gactive", "glimit", "paused", "meta"))
LEASE = 30_000
GROUPED = pytest.mark.parametrize("lane", [None, LANE], ids=["flat", "grouped"])


@pytest.fixture
def run(server: PrivateServer, redis_client: redis.Redis) -> Run:
    """Requeue ids of the queue `jobs` in the core: see ``conservation.requeued``."""
    return partial(conservation.requeued, server.url)


@pytest.fixture
def jobs(redis_client: redis.Redis) -> Transitions:
    """EchoMQ's producers and workers at the queue `jobs`."""
    return Transitions(redis_client, "jobs")


def die(jobs: Transitions, job: bytes, lane: bytes | None = None, *, error: str = "boom", attempts: int = 1) -> bytes:
    """Let a job be enqueued, claimed and buried by its worker."""
    if lane:
        jobs.lane_enqueue(lane, job, "{}")
    else:
        jobs.enqueue(job, "{}")
    bury(jobs, lane, error)
    if attempts != 1:
        jobs.client.hset(KEYS.row(job), "attempts", attempts)
    return job


def bury(jobs: Transitions, lane: bytes | None, error: str = "boom") -> None:
    claimed = claim(jobs, lane)
    assert jobs.retry(claimed.id, claimed.token, 0, 1, error) == "dead"


def claim(jobs: Transitions, lane: bytes | None) -> Any:
    claimed = jobs.lane_claim(LEASE) if lane else jobs.claim(LEASE)
    assert claimed is not None
    return claimed


def sweep(jobs: Transitions, job: bytes, lane: bytes | None = None) -> int:
    """Let the lease of a job lapse and the sweep bury it; return its worker's token."""
    if lane:
        jobs.lane_enqueue(lane, job, "{}")
    else:
        jobs.enqueue(job, "{}")
    claimed = jobs.lane_claim(-1) if lane else jobs.claim(-1)
    assert claimed is not None
    assert jobs.sweep_stalled() == {"recovered": [], "dead": [job]}
    return claimed.token


def row(client: redis.Redis, job: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = client.hgetall(KEYS.row(job))
    return found


def reasons(outcomes: list[Outcome]) -> list[str]:
    return [each.reason or each.result for each in outcomes]


def sound(client: redis.Redis) -> None:
    assert conservation.Look(client, "jobs").faults() == []


# Recordings of EchoMQ's reprocess

PENDING = {"state": "pending", "payload": '{"n":1}'}
GROUP = "TEN0IlTdEM44g4"
JOB = "JOB0JZCSdwjwiO"

#: Recording -> outcome, then what of the recorded `before` is to be otherwise: key -> value, None for gone.
#: The last is the reason where that is not the recorded `after`.
RECORDED: dict[str, tuple[str, dict[str, Any], str]] = {
    "reprocess.dead_flat": (
        "moved",
        {"dead": None, f"job:{JOB}": {**PENDING, "attempts": "3"}, "pending": [[JOB, 0], ["JOB0JZCSiWaomu", 0]]},
        "",
    ),
    "reprocess.dead_grouped": (
        "moved",
        {
            "dead": None,
            f"job:{JOB}": {**PENDING, "attempts": "1", "group": GROUP},
            f"g:{GROUP}:pending": [[JOB, 0]],
            "ring": [GROUP],
            "wake": ["1", "1"],
        },
        "H1: to its own lane, which is rung, not to flat pending where no lane worker looks",
    ),
    "reprocess.dead_grouped_busy_lane": (
        "moved",
        {
            "dead": None,
            f"job:{JOB}": {**PENDING, "attempts": "1", "group": GROUP},
            f"g:{GROUP}:pending": [[JOB, 0], ["JOB0JZCSn6RgrQ", 0]],
        },
        "H1: to its own lane, which is on the ring already",
    ),
    "reprocess.not_dead": ("not-dead", {}, ""),
    "reprocess.active": ("not-dead", {}, ""),
    "reprocess.gone": ("missing", {}, ""),
    "reprocess.dangling_dead": ("missing", {}, "H10: left for doctor, and said so"),
    "reprocess.dead_after_stalls": (
        "moved",
        {"dead": None, f"job:{JOB}": {**PENDING, "attempts": "1"}, "pending": [[JOB, 0]]},
        "H13: `stalled` is cleared, else the next lapse is death",
    ),
    "reprocess.flow_parent": ("flow-parent", {}, "H6: refused, it would run before its children"),
    "reprocess.flow_child_fp": ("flow-child", {}, "H8: refused, it would run for nobody"),
    "reprocess.flow_child_id": ("flow-child", {}, "H7: refused, its parent would be counted down twice"),
    "reprocess.locked": ("locked", {}, "H12: refused, its worker may beat it back into active"),
}
RECORDINGS = [recording for recording in worlds.transitions() if recording["verb"] == "reprocess"]


def expected_after(recording: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded ``before`` with the changes of the table."""
    after = dict(recording["before"])
    for suffix, value in RECORDED[recording["name"]][1].items():
        key = f"emq:{{jobs}}:{suffix}"
        kind = {"w": "list", "r": "list", "j": "hash"}.get(suffix[0], "zset")
        after[key] = {"type": kind, "value": value}
        if value is None:
            del after[key]
    return after


def test_every_recording_is_in_the_table_and_differences_have_their_reasons() -> None:
    assert set(RECORDED) == {recording["name"] for recording in RECORDINGS}
    for recording in RECORDINGS:
        as_recorded = expected_after(recording) == recording["after"]
        reason = RECORDED[recording["name"]][2]
        assert as_recorded or reason
        assert [hazard for hazard in recording["hazards"] if hazard not in reason] == []


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording["name"])
def test_a_sound_recording_comes_out_the_same_and_a_damaged_one_without_the_damage(
    redis_client: redis.Redis, run: Run, recording: dict[str, Any]
) -> None:
    word = RECORDED[recording["name"]][0]
    before_ms = worlds.server_ms(redis_client)
    worlds.put(redis_client, recording["before"], before_ms)
    given = recording["args"]["id"].encode()
    before = worlds.snapshot(redis_client)

    assert reasons(run(given, dry_run=True)) == ["would-move" if word == "moved" else word]
    assert worlds.snapshot(redis_client).keys() == before.keys()
    assert worlds.differences(redis_client, recording["before"], before_ms) == []

    assert reasons(run(given)) == [word]
    after_ms = worlds.server_ms(redis_client)
    assert worlds.differences(redis_client, expected_after(recording), before_ms, after_ms) == []

    assert reasons(run(given)) == ["not-dead" if word == "moved" else word]
    assert worlds.differences(redis_client, expected_after(recording), before_ms, after_ms) == []


# semantics.md 3, row by row


@GROUPED
def test_a_dead_job_comes_back_to_where_it_waits(
    redis_client: redis.Redis, jobs: Transitions, run: Run, lane: bytes | None
) -> None:
    die(jobs, A, lane)
    jobs.add_log(A, "a line")
    jobs.update_progress(A, "half")
    redis_client.hset(KEYS.row(A), "custom", "kept")
    [outcome] = run(A)
    place = "lane" if lane else "pending"
    shown = None if lane is None else lane.decode()
    assert outcome == Outcome(A, "moved", None, "dead", place, shown, (), 1)
    grouped = {b"group": lane} if lane else {}
    kept = {b"progress": b"half", b"custom": b"kept", b"payload": b"{}", b"attempts": b"1"}
    assert row(redis_client, A) == {b"state": b"pending", **kept, **grouped}
    assert redis_client.zrange(IN_LANE if lane else KEYS.pending, 0, -1, withscores=True) == [(A, 0)]
    assert redis_client.lrange(KEYS.row(A) + b":logs", 0, -1) == [b"a line"]
    assert redis_client.hget(KEYS.fixed("metrics:failed"), "count") == b"1"
    sound(redis_client)
    assert claim(jobs, lane).token == 2


@GROUPED
def test_it_goes_to_the_place_of_its_mint_time_ahead_of_younger_ones(
    jobs: Transitions, run: Run, lane: bytes | None
) -> None:
    die(jobs, A, lane)
    for younger in (B, C):
        if lane:
            jobs.lane_enqueue(lane, younger, "{}")
        else:
            jobs.enqueue(younger, "{}")
    run(A)
    assert [claim(jobs, lane).id for _ in range(3)] == [A, B, C]


def test_a_flat_job_wakes_nobody_and_rings_nothing(redis_client: redis.Redis, jobs: Transitions, run: Run) -> None:
    die(jobs, A)
    run(A)
    assert not redis_client.exists(RING, WAKE)


def test_a_lane_is_rung_once_with_one_wake_whatever_number_of_its_jobs_come_back(
    redis_client: redis.Redis, jobs: Transitions, run: Run
) -> None:
    for job in (A, B, C):
        die(jobs, job, LANE)
    redis_client.delete(WAKE)
    assert reasons(run(A, B, C)) == ["moved"] * 3
    assert (redis_client.lrange(RING, 0, -1), redis_client.lrange(WAKE, 0, -1)) == ([LANE], [b"1"])


def test_a_lane_that_is_on_the_ring_is_neither_rung_nor_moved_on_it(
    redis_client: redis.Redis, jobs: Transitions, run: Run
) -> None:
    die(jobs, A, LANE)
    jobs.lane_enqueue(LANE, B, "{}")
    jobs.lane_enqueue(OTHER_LANE, C, "{}")
    wakes = redis_client.llen(WAKE)
    run(A)
    assert redis_client.lrange(RING, 0, -1) == [LANE, OTHER_LANE]
    assert redis_client.llen(WAKE) == wakes


def test_the_wake_list_stays_at_64_tokens(redis_client: redis.Redis, jobs: Transitions, run: Run) -> None:
    lanes = [conservation.lane_name(nth) for nth in range(70)]
    for job, lane in zip(REST, lanes, strict=False):
        die(jobs, job, lane)
    redis_client.delete(WAKE)
    run(*REST[:70])
    assert redis_client.lrange(WAKE, 0, -1) == [b"1"] * 64
    assert redis_client.lrange(RING, 0, -1) == lanes
    sound(redis_client)


def test_a_paused_lane_is_not_rung_and_its_resume_serves_the_job(
    redis_client: redis.Redis, jobs: Transitions, run: Run
) -> None:
    die(jobs, A, LANE)
    redis_client.delete(WAKE)
    redis_client.sadd(PAUSED, LANE)
    [outcome] = run(A)
    assert (outcome.result, outcome.notes) == ("moved", ("lane-paused",))
    assert not redis_client.exists(RING, WAKE)
    sound(redis_client)


def test_a_lane_at_its_limit_is_not_rung_and_the_next_settle_serves_the_job(
    redis_client: redis.Redis, jobs: Transitions, run: Run
) -> None:
    die(jobs, A, LANE)
    redis_client.delete(WAKE)
    redis_client.hset(GLIMIT, LANE, 1)
    jobs.lane_enqueue(LANE, B, "{}")
    held = claim(jobs, LANE)
    [outcome] = run(A)
    assert (outcome.result, outcome.notes) == ("moved", ("lane-at-limit",))
    assert not redis_client.exists(RING)
    sound(redis_client)
    jobs.complete(held.id, held.token)
    assert claim(jobs, LANE).id == A


def test_a_lane_below_its_limit_is_rung(redis_client: redis.Redis, jobs: Transitions, run: Run) -> None:
    die(jobs, A, LANE)
    redis_client.hset(GLIMIT, LANE, 2)
    redis_client.hset(GACTIVE, LANE, 1)
    [outcome] = run(A)
    assert outcome.notes == ()
    assert redis_client.lrange(RING, 0, -1) == [LANE]


@GROUPED
@pytest.mark.parametrize("value", ["1", "0", ""])
def test_in_a_paused_queue_jobs_come_back_all_the_same_and_the_outcome_says_so(
    redis_client: redis.Redis, jobs: Transitions, run: Run, lane: bytes | None, value: str
) -> None:
    die(jobs, A, lane)
    redis_client.hset(META, "paused", value)
    [outcome] = run(A)
    assert (outcome.result, outcome.notes) == ("moved", ("queue-paused",))
    assert redis_client.lrange(RING, 0, -1) == ([lane] if lane else [])


def test_everything_that_keeps_a_job_waiting_is_noted(redis_client: redis.Redis, jobs: Transitions, run: Run) -> None:
    die(jobs, A, LANE)
    redis_client.hset(META, "paused", 1)
    redis_client.sadd(PAUSED, LANE)
    redis_client.hset(GLIMIT, LANE, 1)
    redis_client.hset(GACTIVE, LANE, 1)
    [outcome] = run(A)
    assert set(outcome.notes) == {"queue-paused", "lane-paused", "lane-at-limit"}
    assert not redis_client.exists(RING)


def test_a_lane_the_sweep_left_starved_is_rung(redis_client: redis.Redis, jobs: Transitions, run: Run) -> None:
    """H16: the sweep gives a slot back without looking at the ring."""
    redis_client.hset(GLIMIT, LANE, 1)
    jobs.lane_enqueue(LANE, B, "{}")
    sweep(jobs, A, LANE)
    assert not redis_client.exists(RING)
    run(A)
    assert redis_client.lrange(RING, 0, -1) == [LANE]
    sound(redis_client)


def test_a_lane_that_cannot_be_served_is_taken_off_the_ring_every_time_it_stands_there(
    redis_client: redis.Redis, jobs: Transitions, run: Run
) -> None:
    die(jobs, A, LANE)
    redis_client.sadd(PAUSED, LANE)
    redis_client.rpush(RING, LANE, OTHER_LANE, LANE)
    run(A)
    assert redis_client.lrange(RING, 0, -1) == [OTHER_LANE]


def test_lanes_that_were_not_touched_stay_as_they_are(redis_client: redis.Redis, jobs: Transitions, run: Run) -> None:
    """Wrong as they are: a repair is asked for, not a side effect."""
    die(jobs, A, LANE)
    die(jobs, B, OTHER_LANE)
    redis_client.hset(KEYS.row(B) + b":lock", "x", 1)
    redis_client.rpush(RING, OTHER_LANE)
    assert reasons(run(A, B)) == ["moved", "locked"]
    assert redis_client.lrange(RING, 0, -1) == [OTHER_LANE, LANE]


def test_a_ring_of_several_thousand_lanes_is_known_whole(
    redis_client: redis.Redis, jobs: Transitions, run: Run
) -> None:
    die(jobs, A, LANE)
    jobs.lane_enqueue(LANE, B, "{}")
    redis_client.delete(RING)
    redis_client.rpush(RING, *(conservation.lane_name(nth) for nth in range(2500)), LANE)
    run(A)
    assert redis_client.lrange(RING, 0, -1).count(LANE) == 1


@GROUPED
def test_what_a_sweep_counted_is_cleared_so_that_the_next_lapse_is_not_death(
    redis_client: redis.Redis, jobs: Transitions, run: Run, lane: bytes | None
) -> None:
    sweep(jobs, A, lane)
    assert row(redis_client, A)[b"stalled"] == b"1"
    assert reasons(run(A)) == ["moved"]
    assert {b"stalled", b"last_error"} & set(row(redis_client, A)) == set()
    again = jobs.lane_claim(-1) if lane else jobs.claim(-1)
    assert again is not None
    assert jobs.sweep_stalled(max_stalled=2) == {"recovered": [A], "dead": []}


def test_attempts_are_kept_and_told(jobs: Transitions, run: Run) -> None:
    [outcome] = run(die(jobs, A, attempts=7))
    assert outcome.attempts == 7
    assert claim(jobs, None).token == 8


def test_a_row_without_attempts_is_moved_as_one_that_was_never_claimed(
    redis_client: redis.Redis, jobs: Transitions, run: Run
) -> None:
    die(jobs, A)
    redis_client.hdel(KEYS.row(A), "attempts")
    [outcome] = run(A)
    assert (outcome.result, outcome.attempts) == ("moved", None)
    assert claim(jobs, None).token == 1


@GROUPED
def test_the_budget_can_be_given_back_whole(
    redis_client: redis.Redis, jobs: Transitions, run: Run, lane: bytes | None
) -> None:
    die(jobs, A, lane, attempts=3)
    [outcome] = run(A, reset_attempts=True)
    assert (outcome.result, outcome.attempts, outcome.notes) == ("moved", 3, ())
    assert row(redis_client, A)[b"attempts"] == b"0"
    assert claim(jobs, lane).token == 1


def test_the_budget_of_a_job_buried_by_a_sweep_is_given_back_only_by_force(
    redis_client: redis.Redis, jobs: Transitions, run: Run
) -> None:
    """Its worker may run still, and the next claim would have its token."""
    sweep(jobs, A)
    before = worlds.snapshot(redis_client)
    [outcome] = run(A, reset_attempts=True)
    assert (outcome.result, outcome.reason) == ("skipped", "may-still-run")
    assert worlds.snapshot(redis_client) == before
    assert reasons(run(A, reset_attempts=True, force=True)) == ["moved"]
    assert row(redis_client, A)[b"attempts"] == b"0"


def test_a_handler_that_says_stalled_is_no_sweep(redis_client: redis.Redis, jobs: Transitions, run: Run) -> None:
    die(jobs, A, error="stalled")
    assert reasons(run(A, reset_attempts=True)) == ["moved"]
    assert row(redis_client, A)[b"attempts"] == b"0"


# Locks


@GROUPED
@pytest.mark.parametrize("ttl_ms", [60_000, None])
def test_a_job_whose_workers_marker_is_there_is_left_alone(
    redis_client: redis.Redis, jobs: Transitions, run: Run, lane: bytes | None, ttl_ms: int | None
) -> None:
    die(jobs, A, lane)
    redis_client.set(KEYS.row(A) + b":lock", "1", px=ttl_ms)
    assert refused(redis_client, run, A) == "locked"
    assert refused(redis_client, run, A, reset_attempts=True) == "locked"


def test_a_marker_on_the_row_is_a_lock_while_it_can_expire(
    redis_client: redis.Redis, jobs: Transitions, run: Run
) -> None:
    die(jobs, A)
    redis_client.hset(KEYS.row(A), "lock", "1")
    try:
        redis_client.hpexpire(KEYS.row(A), 60_000, "lock")
    except redis.ResponseError:
        pytest.skip("this server cannot let a field expire")
    assert refused(redis_client, run, A) == "locked"
    redis_client.hpexpire(KEYS.row(A), 1, "lock")
    while redis_client.hexists(KEYS.row(A), "lock"):
        pass
    assert reasons(run(A)) == ["moved"]


def test_a_marker_on_the_row_that_never_expires_is_no_evidence_of_a_worker(
    redis_client: redis.Redis, jobs: Transitions, run: Run
) -> None:
    """H22: left from a server that knows no HPEXPIRE."""
    die(jobs, A)
    redis_client.hset(KEYS.row(A), "lock", "1")
    [outcome] = run(A)
    assert (outcome.result, outcome.notes) == ("moved", ())
    assert row(redis_client, A)[b"lock"] == b"1"


@GROUPED
def test_force_moves_a_locked_job_and_its_old_worker_is_refused_whatever_it_tries(
    redis_client: redis.Redis, jobs: Transitions, run: Run, lane: bytes | None
) -> None:
    token = sweep(jobs, A, lane)
    jobs.track_lock(A, token, 60_000)
    assert reasons(run(A)) == ["locked"]
    [outcome] = run(A, force=True)
    assert (outcome.result, outcome.notes) == ("moved", ("fenced",))
    assert row(redis_client, A)[b"attempts"] == b"2"
    for settle in (
        lambda: jobs.extend_lock(A, token, LEASE),
        lambda: jobs.complete(A, token),
        lambda: jobs.retry(A, token, 0, 1, "late"),
    ):
        with pytest.raises(Rejected, match="EMQSTALE"):
            settle()
    assert jobs.extend_locks([(A, token)], LEASE) == [A]
    sound(redis_client)
    assert claim(jobs, lane).token == 3


def test_force_fences_nothing_that_no_worker_holds(redis_client: redis.Redis, jobs: Transitions, run: Run) -> None:
    die(jobs, A)
    [outcome] = run(A, force=True)
    assert outcome.notes == ()
    assert row(redis_client, A)[b"attempts"] == b"1"


# What is skipped is untouched byte for byte


def refused(client: redis.Redis, run: Run, job: bytes, **options: Any) -> str | None:
    """Return why a job is skipped, having seen that it moves neither alone nor between two that do move."""
    before = worlds.snapshot(client)
    [outcome] = run(job, **options)
    assert outcome.result == "skipped", outcome
    assert outcome.place_after == outcome.place_before
    assert outcome.notes == ()
    assert without_ttls(worlds.snapshot(client)) == without_ttls(before)
    [would] = run(job, dry_run=True, **options)
    assert (would.result, would.reason) == ("would-skip", outcome.reason)
    for other in (REST[-1], REST[-2]):
        client.hset(KEYS.row(other), mapping={"state": "dead", "attempts": 1, "payload": "{}"})
        client.zadd(KEYS.dead, {other: 0})
    outcomes = run(REST[-1], job, REST[-2], **options)
    assert [each.result for each in outcomes] == ["moved", "skipped", "moved"]
    client.zrem(KEYS.pending, REST[-1], REST[-2])
    client.delete(KEYS.row(REST[-1]), KEYS.row(REST[-2]))
    assert without_ttls(worlds.snapshot(client)) == without_ttls(before)
    return outcome.reason


@GROUPED
@pytest.mark.parametrize("place", ["pending", "active", "schedule", "none"])
def test_a_job_that_is_not_dead_is_skipped_and_its_place_is_said(
    redis_client: redis.Redis, jobs: Transitions, run: Run, lane: bytes | None, place: str
) -> None:
    if lane:
        jobs.lane_enqueue(lane, A, "{}")
    else:
        jobs.enqueue(A, "{}")
    if place != "pending":
        claimed = claim(jobs, lane)
    if place == "schedule":
        jobs.retry(A, claimed.token, 60_000, 3, "boom")
    if place == "none":
        redis_client.zrem(KEYS.active, A)
    assert refused(redis_client, run, A) == "not-dead"
    assert run(A)[0].place_before == ("lane" if lane and place == "pending" else place)


def test_an_id_nobody_knows_is_missing(redis_client: redis.Redis, jobs: Transitions, run: Run) -> None:
    die(jobs, B)
    assert refused(redis_client, run, A) == "missing"
    assert run(A)[0].place_before == "none"


def test_a_member_without_a_row_is_missing_and_stays_for_doctor(
    redis_client: redis.Redis, jobs: Transitions, run: Run
) -> None:
    redis_client.zadd(KEYS.dead, {A: 0})
    assert refused(redis_client, run, A) == "missing"
    assert run(A)[0].place_before == "dead"


@GROUPED
def test_a_row_without_payload_is_a_ghost(
    redis_client: redis.Redis, jobs: Transitions, run: Run, lane: bytes | None
) -> None:
    die(jobs, A, lane)
    redis_client.hdel(KEYS.row(A), "payload")
    assert refused(redis_client, run, A) == "no-payload"
    assert refused(redis_client, run, A, force=True) == "no-payload"


def test_an_empty_payload_is_a_payload(redis_client: redis.Redis, jobs: Transitions, run: Run) -> None:
    die(jobs, A)
    redis_client.hset(KEYS.row(A), "payload", "")
    assert reasons(run(A)) == ["moved"]


@pytest.mark.parametrize("place", ["pending", "active", "schedule", "lane"])
@pytest.mark.parametrize("force", [False, True])
def test_a_job_in_two_places_is_left_for_doctor(
    redis_client: redis.Redis,
    jobs: Transitions,
    run: Run,
    place: str,
    force: bool,  # noqa: FBT001
) -> None:
    die(jobs, A, LANE)
    redis_client.zadd(IN_LANE if place == "lane" else KEYS.fixed(place), {A: 0})
    assert refused(redis_client, run, A, force=force) == "two-places"


@pytest.mark.parametrize("kind", ["set", "rpush", "sadd", "zadd"])
def test_a_row_of_another_type_is_left_alone(redis_client: redis.Redis, jobs: Transitions, run: Run, kind: str) -> None:
    redis_client.zadd(KEYS.dead, {A: 0})
    redis_client.execute_command(kind, KEYS.row(A), *(["0"] if kind == "zadd" else []), "x")
    assert refused(redis_client, run, A) == "wrong-type"


def test_a_lane_of_another_type_keeps_its_jobs_out_and_no_others(
    redis_client: redis.Redis, jobs: Transitions, run: Run
) -> None:
    die(jobs, A, LANE)
    redis_client.delete(IN_LANE)
    redis_client.set(IN_LANE, "x")
    assert refused(redis_client, run, A) == "wrong-type"


BAD_ROWS = {
    "attempts that are a word": {"attempts": "many"},
    "attempts that are empty": {"attempts": ""},
    "attempts below nothing": {"attempts": "-1"},
    "attempts with a fraction": {"attempts": "1.5"},
    "attempts with a blank": {"attempts": " 1"},
    "attempts with a zero in front": {"attempts": "007"},
    "attempts beyond any number": {"attempts": "9" * 30},
    "attempts of five thousand digits": {"attempts": "9" * 5000},
    "attempts in another script": {"attempts": "٣"},
    "a parent that is a word": {"parent": "garbage"},
    "a parent that is empty": {"parent": ""},
    "a parent beyond any id": {"parent": "JOBzzzzzzzzzzz"},
    "a group that is a word": {"group": "garbage"},
    "a group that is empty": {"group": ""},
    "a group beyond any id": {"group": "TENzzzzzzzzzzz"},
}


@pytest.mark.parametrize("fields", BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_row_that_would_break_the_worker_that_claims_it_is_left_alone(
    redis_client: redis.Redis, jobs: Transitions, run: Run, fields: dict[str, str]
) -> None:
    """H33, H34: a claim pops such a job and then fails, so that it is in no set."""
    die(jobs, A)
    redis_client.hset(KEYS.row(A), mapping=fields)
    assert refused(redis_client, run, A) == "bad-row"
    assert refused(redis_client, run, A, force=True) == "bad-row"


@pytest.mark.parametrize("counts", ["gactive", "glimit"])
@pytest.mark.parametrize("value", ["many", "", "1.5", "0x1", "9" * 30])
def test_a_lane_whose_counts_are_no_numbers_gets_no_job_back(
    redis_client: redis.Redis, jobs: Transitions, run: Run, counts: str, value: str
) -> None:
    """H35: a lane claim would fail after it has taken the job."""
    die(jobs, A, LANE)
    redis_client.hset(KEYS.fixed(counts), LANE, value)
    assert refused(redis_client, run, A) == "bad-row"


def test_a_lane_whose_count_in_flight_a_claim_cannot_raise_gets_no_job_back(
    redis_client: redis.Redis, jobs: Transitions, run: Run
) -> None:
    die(jobs, A, LANE)
    redis_client.hset(GACTIVE, LANE, "007")
    assert refused(redis_client, run, A) == "bad-row"


@pytest.mark.parametrize(("counts", "value"), [("gactive", "-1"), ("glimit", "0"), ("gactive", "0")])
def test_odd_numbers_are_numbers(
    redis_client: redis.Redis, jobs: Transitions, run: Run, counts: str, value: str
) -> None:
    die(jobs, A, LANE)
    redis_client.hset(KEYS.fixed(counts), LANE, value)
    assert reasons(run(A)) == ["moved"]
    assert redis_client.lrange(RING, 0, -1) == ([] if counts == "glimit" else [LANE])


@pytest.mark.parametrize("member", [b"not-a-branded-id", b"JOBzzzzzzzzzzz", b"\xff\x00\x1b[31m", b""])
def test_a_member_that_is_no_id_is_not_taken_by_a_walk_even_if_it_has_a_row(
    redis_client: redis.Redis, jobs: Transitions, run: Run, member: bytes
) -> None:
    """H33: a worker that claims it dies when it settles it, and the next one again."""
    redis_client.zadd(KEYS.dead, {member: 0})
    redis_client.hset(KEYS.row(member), mapping={"state": "dead", "attempts": 1, "payload": "{}"})
    before = worlds.snapshot(redis_client)
    [outcome] = run(walked=True)
    assert (outcome.id, outcome.result) == (member, "skipped")
    assert outcome.reason in {"bad-row", "malformed"}
    assert worlds.snapshot(redis_client) == before


@pytest.mark.parametrize(
    "kind", ["pending", "active", "schedule", "dead", "ring", "wake", "paused", "gactive", "glimit", "gweight", "meta"]
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_set_of_another_type_refuses_the_whole_call_and_is_named(
    redis_client: redis.Redis,
    jobs: Transitions,
    run: Run,
    kind: str,
    dry_run: bool,  # noqa: FBT001
) -> None:
    die(jobs, A)
    die(jobs, B, LANE)
    redis_client.delete(KEYS.fixed(kind))
    redis_client.set(KEYS.fixed(kind), "x")
    before = worlds.snapshot(redis_client)
    with pytest.raises(WrongType) as raised:
        run(A, B, dry_run=dry_run)
    expected = parse(KEYS.fixed(kind)).redis_type
    assert (raised.value.key, raised.value.found, raised.value.expected) == (
        KEYS.fixed(kind).decode(),
        "string",
        expected,
    )
    assert worlds.snapshot(redis_client) == before


@pytest.mark.parametrize(
    ("seen", "attempts", "reason"),
    [
        (b"", 5, None),
        (b"5", 5, None),
        (b"4", 5, "changed"),
        (b"6", 5, "changed"),
        (b"0", None, None),
        (b"1", None, "changed"),
        (b"0", 0, None),
    ],
)
def test_a_choice_holds_while_the_attempts_are_those_it_saw(
    redis_client: redis.Redis,
    server: PrivateServer,
    jobs: Transitions,
    seen: bytes,
    attempts: int | None,
    reason: str | None,
) -> None:
    die(jobs, A)
    redis_client.hdel(KEYS.row(A), "attempts")
    if attempts is not None:
        redis_client.hset(KEYS.row(A), "attempts", attempts)
    before = worlds.snapshot(redis_client)
    with conservation.opened(server.url) as queue:
        [[outcome]] = requeue(queue, [[Target(A, seen)]], Options(), Pace())
    assert outcome.reason == reason
    assert (worlds.snapshot(redis_client) == before) == bool(reason)


# Permissions

WRITES = ("zadd", "zrem", "hdel", "hset", "hincrby", "rpush", "lrem", "lpush", "ltrim")
READS = (
    *("type", "exists", "hmget", "hexists", "zscore", "zmscore", "hget", "get", "sismember", "zcard", "llen", "lrange"),
    *("evalsha", "script|load"),
)
LEAST = ("+@read", "+@connection", "+@transaction", "+time", "+evalsha", "+script", *(f"+{each}" for each in WRITES))


@pytest.mark.parametrize("command", [*WRITES, *READS])
def test_a_user_that_lacks_one_command_is_told_which_and_nothing_is_written(
    redis_client: redis.Redis, keeper: redis.Redis, jobs: Transitions, run: Run, command: str
) -> None:
    """A program that fails half way leaves jobs that no lane worker is told of."""
    die(jobs, A)
    die(jobs, B, LANE)
    redis_client.set(KEYS.row(B) + b":dependencies", 0)
    redis_client.rpush(RING, OTHER_LANE)
    redis_client.delete(WAKE)
    before = worlds.snapshot(keeper)
    try:
        keeper.execute_command("ACL", "SETUSER", "default", f"-{command}")
    except redis.ResponseError:  # before 7.0 a subcommand could not be taken away
        keeper.execute_command("ACL", "SETUSER", "default", f"-{command.partition('|')[0]}")
    with pytest.raises(Denied) as raised:
        run(A, B)
    assert command.partition("|")[0].upper() in str(raised.value).upper()
    assert worlds.snapshot(keeper) == before


def test_a_lane_that_may_not_be_seen_stops_the_run_with_all_before_it_whole_and_told(
    server: PrivateServer, redis_client: redis.Redis, keeper: redis.Redis, jobs: Transitions
) -> None:
    """The lane of the job before it is on the ring, and what became of each is known."""
    die(jobs, A, LANE)
    die(jobs, B, OTHER_LANE)
    lanes = [KEYS.lane_as_named(lane) for lane in (LANE, b"TEN00000000000")]
    seen = (*(KEYS.prefix + each.encode() for each in conservation.REACHED), *lanes)
    rights = ("reset", "on", ">pw", "&*", "+@all", "~{emq}:*", *(b"~" + key for key in seen))
    keeper.execute_command("ACL", "SETUSER", "short", *rights)
    with conservation.opened(server.url.replace("//", "//short:pw@")) as queue:
        batches = requeue(queue, named([A, B]), Options(), Pace())
        outcomes = next(batches)
        with pytest.raises(Denied, match=B.decode()):
            next(batches)
    assert [(each.id, each.result, each.reason) for each in outcomes] == [(A, "moved", None), (B, "failed", "denied")]
    assert keeper.zrange(KEYS.dead, 0, -1) == [B]
    assert keeper.lrange(RING, 0, -1) == [LANE]


def test_a_user_that_may_not_see_whether_a_field_expires_is_told(
    redis_client: redis.Redis, keeper: redis.Redis, jobs: Transitions, run: Run
) -> None:
    """What cannot be seen must not be taken for an absent lock."""
    die(jobs, A)
    redis_client.hset(KEYS.row(A), "lock", "1")
    try:
        redis_client.hpexpire(KEYS.row(A), 60_000, "lock")
    except redis.ResponseError:
        pytest.skip("this server cannot let a field expire")
    before = without_ttls(worlds.snapshot(keeper))
    keeper.execute_command("ACL", "SETUSER", "default", "-hpttl")
    with pytest.raises(Denied, match=r"(?i)hpttl"):
        run(A)
    assert without_ttls(worlds.snapshot(keeper)) == before


@pytest.mark.parametrize("missing", ["pending", "dead", "ring", "wake", "job:*"])
def test_a_user_that_may_not_touch_one_key_is_told_and_nothing_is_written(
    redis_client: redis.Redis, keeper: redis.Redis, jobs: Transitions, run: Run, missing: str
) -> None:
    die(jobs, A)
    die(jobs, B, LANE)
    redis_client.delete(RING, WAKE)
    before = worlds.snapshot(keeper)
    allowed = [f"~emq:{{jobs}}:{each}" for each in [*conservation.REACHED, "g:*"] if each != missing]
    keeper.execute_command("ACL", "SETUSER", "default", "resetkeys", "~{emq}:*", *allowed)
    with pytest.raises(Denied):
        run(A, B)
    assert worlds.snapshot(keeper) == before


def test_a_user_with_the_least_rights_can_requeue(keeper: redis.Redis, jobs: Transitions, run: Run) -> None:
    die(jobs, A)
    die(jobs, B, LANE)
    keeper.execute_command("ACL", "SETUSER", "default", "reset", "on", "nopass", "~emq:*", "~{emq}:*", *LEAST)
    assert reasons(run(A, B)) == ["moved", "moved"]


def test_permissions_are_asked_for_where_a_program_cannot_know_them(
    redis_client: redis.Redis, jobs: Transitions, run: Run, monitor: wire.Monitor
) -> None:
    die(jobs, A)
    die(jobs, B)
    asks = not redis_client.eval("return redis.acl_check_cmd and 1 or 0", 0)
    with monitor() as commands:
        assert reasons(run(A, B, batch=1)) == ["moved", "moved"]
    words = [command[0].upper() for command in commands]
    assert words.count(b"MULTI") == words.count(b"DISCARD") == (1 if asks else 0)
    assert b"EXEC" not in words


# Batches and calls


def test_each_job_of_a_batch_sees_what_those_before_did(redis_client: redis.Redis, jobs: Transitions, run: Run) -> None:
    """A repeat is told before anything is sent; past that the program itself would say not-dead."""
    die(jobs, A)
    assert reasons(run(A, A)) == ["moved", "duplicate"]
    sound(redis_client)


def test_calls_name_the_prefix_and_the_set_of_one_slot_and_at_most_25_ids(
    redis_client: redis.Redis, run: Run, monitor: wire.Monitor
) -> None:
    for job in REST[:250]:
        redis_client.hset(KEYS.row(job), mapping={"state": "dead", "attempts": 1, "payload": "{}"})
    redis_client.zadd(KEYS.dead, dict.fromkeys(REST[:250], 0))
    with monitor() as commands:
        assert len(run(walked=True)) == 250
    calls = [command for command in commands if command[0].upper() == b"EVALSHA"]
    assert {tuple(call[2:5]) for call in calls} == {(b"2", KEYS.prefix, KEYS.dead)}
    assert slot_of(KEYS.prefix) == slot_of(KEYS.dead)
    sent = [[word for word in call[5:] if word.startswith(b"JOB")] for call in calls]
    assert [len(ids) for ids in sent if ids != sent[0]] == [BATCH] * 9
    assert b"EVAL" not in {command[0].upper() for command in commands}
    assert not redis_client.exists(KEYS.prefix)


def test_a_program_the_server_forgot_is_sent_again(redis_client: redis.Redis, jobs: Transitions, run: Run) -> None:
    die(jobs, A)
    run(A)
    redis_client.script_flush()
    bury(jobs, None)
    assert reasons(run(A)) == ["moved"]


def test_a_walk_ends_at_the_newest_there_was_and_takes_nothing_twice(
    redis_client: redis.Redis, server: PrivateServer, jobs: Transitions
) -> None:
    """Each job dies again as soon as it is moved, older and younger ones die beside it."""
    for job in (B, C, *REST[:20]):
        die(jobs, job)
    moved = []
    with conservation.opened(server.url) as target:
        for outcomes in requeue(target, walk(target, KEYS.dead, Filters()), Options(), Pace(walked=True, batch=1)):
            moved += [(each.id, each.result) for each in outcomes]
            bury(jobs, None)
            if len(moved) == 1:
                die(jobs, A)
                die(jobs, REST[50])
    assert moved == [(job, "moved") for job in (B, C, *REST[:20])]
    assert redis_client.zcard(KEYS.dead) == 24


def test_in_a_walk_what_left_meanwhile_is_reported_and_no_failure(
    redis_client: redis.Redis, server: PrivateServer, jobs: Transitions
) -> None:
    for job in (A, B, C, D):
        die(jobs, job)
    outcomes: list[Outcome] = []
    with conservation.opened(server.url) as target:
        for batch in requeue(target, walk(target, KEYS.dead, Filters()), Options(), Pace(walked=True, batch=1)):
            outcomes += batch
            redis_client.zrem(KEYS.dead, B)  # nowhere now
            redis_client.zrem(KEYS.dead, C)
            redis_client.delete(KEYS.row(C))
            redis_client.delete(KEYS.row(D))  # still a member
    assert reasons(outcomes) == ["moved", "not-dead", "missing", "missing"]
    assert [each.left for each in outcomes] == [False, True, True, False]


def test_the_servers_clock_is_the_only_one(redis_client: redis.Redis, jobs: Transitions, run: Run) -> None:
    """Neither a program nor its arguments hold a time of this machine."""
    for text in (program_text(), *(str(word) for word in arguments_of(redis_client, run, die(jobs, A)))):
        assert "os.time" not in text
        assert "os.clock" not in text


def program_text() -> str:
    from emqctl.scripts import program

    return program("requeue").text


def arguments_of(client: redis.Redis, run: Run, job: bytes) -> list[bytes]:
    with wire.monitor(client) as commands:
        run(job)
    return [word for command in commands if command[0].upper() == b"EVALSHA" for word in command[5:]]


# Payloads


@pytest.mark.parametrize("nothing", [b""])
def test_every_odd_payload_of_the_world_comes_back_as_it_was(
    world: worlds.World, redis_client: redis.Redis, run: Run, nothing: bytes
) -> None:
    keys = QueueKeys("orders")
    waiting = redis_client.zrange(keys.pending, 0, -1)
    before = {job: redis_client.hget(keys.row(job), "payload") for job in waiting}
    assert {type(payload) for payload in before.values()} == {bytes}
    assert nothing in before.values()
    for job in waiting:
        redis_client.zadd(keys.dead, {job: 0})
        redis_client.hset(keys.row(job), mapping={"state": "dead", "last_error": "boom"})
    redis_client.delete(keys.pending)
    outcomes = run(*waiting, queue="orders", force=True)
    assert {each.result for each in outcomes} == {"moved"}
    assert {job: redis_client.hget(keys.row(job), "payload") for job in waiting} == before


@pytest.mark.parametrize("queue", ["orders", "emails", "invoices", "payments", "frozen", "broken", "wrongtype"])
def test_over_each_queue_of_the_world_what_is_skipped_is_untouched_and_nothing_is_lost(
    world: worlds.World, redis_client: redis.Redis, run: Run, queue: str
) -> None:
    keys = QueueKeys(queue)
    before = worlds.snapshot(redis_client)
    try:
        outcomes = run(queue=queue, walked=True)
    except EmqError:
        assert without_ttls(worlds.snapshot(redis_client)) == without_ttls(before)
        return
    after = worlds.snapshot(redis_client)
    moved = {each.id for each in outcomes if each.result == "moved"}
    for key in before.keys() | after.keys():
        name = parse(key)
        of_moved = name.type == "job" and name.queue == queue and name.sub is None and str(name.id).encode() in moved
        sets = {keys.dead, keys.pending, keys.fixed("ring"), keys.fixed("wake")}
        if not (of_moved or key in sets or (name.type == "lane" and name.queue == queue)):
            assert without_ttls(after).get(key) == without_ttls(before).get(key), key
    assert [each.id for each in outcomes] == sorted(before[keys.dead].content)
    left = after[keys.dead].content if keys.dead in after else {}
    assert set(left) == set(before[keys.dead].content) - moved
