"""``browse``: which jobs, in which order, and what is shown of each."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
import redis
import worlds
from cli.running import Emqctl, Result, rfc3339
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from emqctl import branded, times
from emqctl.branded import EPOCH_MS, BrandedId

ALWAYS = ["id", "minted", "attempts", "lane"]
BY_STATE = {
    "pending": [],
    "active": ["deadline", "lease_ms", "lapsed"],
    "scheduled": ["due", "overdue"],
    "dead": ["error", "error_bytes"],
}
SET_OF = {"pending": "pending", "active": "active", "scheduled": "schedule", "dead": "dead"}
A, B = "TEN0IlTd9mDCbY", "TEN0IlTdEM44g4"


def ids(result: Result) -> list[str]:
    return [record.get("id", record.get("id_base64")) for record in result.records]


# The recorded world


@pytest.mark.parametrize("state", list(BY_STATE))
def test_every_state_of_every_recorded_queue_is_listed_whole(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, state: str
) -> None:
    """The sizes, the named jobs and the members themselves agree; what is no id is listed too."""
    for queue, known in world.queues.items():
        if isinstance(known[SET_OF[state]], dict):
            assert emqctl("browse", queue, "--state", state).code == 5
            continue
        result = emqctl("browse", queue, "--state", state, "-n", "0", "-o", "json")
        records, lanes = result.records, known.get("lanes", {})
        assert result.code == 0
        assert len(records) == known[SET_OF[state]] + (known.get("lane_pending", 0) if state == "pending" else 0)
        members = list(redis_client.zrange(f"emq:{{{queue}}}:{SET_OF[state]}", 0, -1))
        if state == "pending":
            for lane in lanes:
                members += redis_client.zrange(f"emq:{{{queue}}}:g:{lane}:pending", 0, -1)
        listed = [r["id"].encode() if "id" in r else b64decode(r["id_base64"]) for r in records]
        assert sorted(listed) == sorted(members)
        assert all(list(record)[1:4] == ALWAYS[1:] or "attempts_error" in record for record in records)
        for each in world.ids.values():
            if each["queue"] == queue and each.get("reference_state") == state:
                assert each["id"].encode() in listed


def test_lanes_are_listed_with_their_names_and_depths(emqctl: Emqctl, world: worlds.World) -> None:
    for queue, known in world.queues.items():
        for lane, facts in known.get("lanes", {}).items():
            result = emqctl("browse", queue, "--lane", lane, "-n", "0", "-o", "jsonl")
            assert len(result.records) == facts["depth"]
            assert all(record["lane"] == lane for record in result.records)
            dead = emqctl("browse", queue, "--state", "dead", "--lane", lane, "-n", "0", "-o", "ids")
            assert len(dead.lines) == facts["dead"]
            active = emqctl("browse", queue, "--state", "active", "--lane", lane, "-n", "0", "-o", "ids")
            assert len(active.lines) == facts["active"]


def test_flat_lists_the_pending_set_alone(emqctl: Emqctl, world: worlds.World) -> None:
    assert ids(emqctl("browse", "emails", "--flat", "-o", "json")) == ["JOB0JVx3Kv7ZYW", "JOB0JVwwzBmZI8"]


def test_lapsed_and_overdue_jobs_are_told_by_the_servers_clock(emqctl: Emqctl, world: worlds.World) -> None:
    for queue, audit in world.raw["audit"].items():
        if queue == "wrongtype":
            continue
        active = emqctl("browse", queue, "--state", "active", "-n", "0", "-o", "jsonl").records
        assert {each["id"] for each in active if each["lapsed"]} == set(audit.get("active_expired", ()))
        assert all((each["lease_ms"] <= 0) == each["lapsed"] for each in active)
        due = emqctl("browse", queue, "--state", "scheduled", "-n", "0", "-o", "jsonl").records
        assert {each["id"] for each in due if each["overdue"]} == set(audit.get("schedule_overdue", ()))


def test_a_lease_is_shown_with_its_deadline_and_what_is_left_of_it(emqctl: Emqctl, world: worlds.World) -> None:
    first = world.ids["active.live_0"]["id"]
    [job] = [
        each
        for each in emqctl("browse", "orders", "--state", "active", "-n", "0", "-o", "jsonl").records
        if each["id"] == first
    ]
    assert job["deadline"] == rfc3339(world.now_ms + 3_600_000)
    assert 3_500_000 < job["lease_ms"] <= 3_600_000


def test_the_default_is_the_twenty_newest_with_a_note_of_the_rest(emqctl: Emqctl, world: worlds.World) -> None:
    result = emqctl("browse", "orders", "-o", "ids")
    assert result.out.count("\n") == 20
    assert result.lines == sorted(result.lines, reverse=True)
    assert result.lines[0] == world.ids["pending.last"]["id"]
    assert result.err == f"note: 20 of 443 shown, next: --before {result.lines[-1]}, all: -n 0\n"
    assert emqctl("browse", "orders", "-o", "json").json["more"] is True


@pytest.mark.parametrize("limit", ["443", "444", "0"])
def test_a_listing_that_is_whole_says_nothing(emqctl: Emqctl, world: worlds.World, limit: str) -> None:
    result = emqctl("browse", "orders", "-n", limit, "-o", "json")
    assert (result.err, result.json["more"], len(result.records)) == ("", False, 443)


@pytest.mark.parametrize("output", ["table", "plain", "json", "jsonl", "csv", "ids"])
def test_every_format_shows_the_same_jobs(emqctl: Emqctl, world: worlds.World, output: str) -> None:
    expected = emqctl("browse", "orders", "-n", "7", "-o", "ids").lines
    result = emqctl("browse", "orders", "-n", "7", "-o", output)
    assert [word for word in result.out.replace('"', " ").replace(",", " ").split() if word in expected] == expected


@pytest.mark.parametrize("state", list(BY_STATE))
def test_the_columns_of_each_state_are_those_of_the_contract(emqctl: Emqctl, world: worlds.World, state: str) -> None:
    columns = [*ALWAYS, *BY_STATE[state], "payload_bytes", "preview"]
    result = emqctl("browse", "orders", "--state", state, "-n", "1", "-o", "csv", "-q")
    assert result.lines[0].removesuffix(",preview_base64") == ",".join(columns)
    whole = emqctl("browse", "orders", "--state", state, "-n", "1", "-o", "csv", "--payload", "-q")
    assert whole.lines[0].removesuffix(",payload_base64") == ",".join([*columns[:-1], "payload"])
    plain = emqctl("browse", "orders", "--state", state, "-n", "1", "-q")
    assert len(plain.cells[0]) == (len([*ALWAYS, "error_bytes", "error"]) if state == "dead" else len(columns))


def test_jobs_without_a_row_are_shown_and_counted_in_a_note(emqctl: Emqctl, world: worlds.World) -> None:
    """Among the dead two have none, and of one the row is no hash: it says so in its cell."""
    result = emqctl("browse", "broken", "--state", "dead")
    assert result.code == 0
    assert "note: 3 of these ids have no job behind them" in result.err
    wrong = world.ids["wrongtype.row"]["id"]
    [row] = [cells for cells in result.cells if cells[0] == wrong]
    assert row[2] == "! string, not hash"


def test_a_row_without_payload_counts_as_no_job_whatever_else_it_holds(emqctl: Emqctl, world: worlds.World) -> None:
    """In `active` one id has no row, and one has a ghost row of attempts and state."""
    result = emqctl("browse", "broken", "--state", "active")
    assert "note: 2 of these ids have no job behind them" in result.err


def test_attempts_that_are_no_number_are_an_error_in_their_cell(emqctl: Emqctl, world: worlds.World) -> None:
    record = next(
        each
        for each in emqctl("browse", "broken", "-o", "jsonl").records
        if each.get("id") == world.ids["two_sets.pending_dead"]["id"]
    )
    assert record["attempts"] is None
    assert "not a number" in record["attempts_error"]


# One job at a time


@pytest.fixture
def queue(redis_client: redis.Redis) -> redis.Redis:
    """A deployment without jobs."""
    redis_client.set("{emq}:version", "echomq:3.0.0")
    redis_client.hset("emq:{q}:meta", "max", 1)
    return redis_client


def put(client: redis.Redis, state: str = "pending", score: float | str = 0, job: str = A, **row: Any) -> str:
    """Put one job of a name after ``JOB`` into a set; a row only when fields are given."""
    job = "JOB" + job[3:]
    client.execute_command("ZADD", f"emq:{{q}}:{SET_OF[state]}", score, job)
    if row:
        client.hset(f"emq:{{q}}:job:{job}", mapping=row)
    return job


def one(emqctl: Emqctl, *words: str) -> dict[str, Any]:
    [record] = emqctl("browse", "q", "-o", "json", *words).records
    return record


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"", {"payload_bytes": 0, "preview": ""}),
        (b"x" * 61, {"payload_bytes": 61, "preview": "x" * 60}),
        ("é".encode() * 61, {"payload_bytes": 122, "preview": "é" * 60}),
        (b"x" * 4096, {"payload_bytes": 4096, "preview": "x" * 60}),
        (b"x" * 4097, {"payload_bytes": 4097, "preview": None}),
        (b"\xff", {"payload_bytes": 1, "preview_base64": "/w=="}),
        (None, {"payload_bytes": None, "preview": None}),
    ],
    ids=lambda value: repr(value)[:12],
)
def test_a_preview_is_the_first_60_characters_of_a_payload_of_at_most_4096_bytes(
    emqctl: Emqctl, queue: redis.Redis, payload: bytes | None, shown: dict[str, Any]
) -> None:
    put(queue, attempts=0, **({} if payload is None else {"payload": payload}))
    record = one(emqctl)
    assert {name: record[name] for name in record if name.startswith(("payload", "preview"))} == shown


@pytest.mark.parametrize("payload", [b"", b"x" * 100_000, bytes(range(256)), "naïve ✓".encode()], ids=len)
def test_payload_gives_it_whole(emqctl: Emqctl, queue: redis.Redis, payload: bytes) -> None:
    put(queue, attempts=0, payload=payload)
    record = one(emqctl, "--payload")
    found = b64decode(record["payload_base64"]) if "payload_base64" in record else record["payload"].encode()
    assert (found, record["payload_bytes"]) == (payload, len(payload))
    assert "preview" not in record


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (b"boom", {"error": "boom", "error_bytes": 4}),
        (b"", {"error": "", "error_bytes": 0}),
        (b"x" * 4096, {"error": "x" * 4096, "error_bytes": 4096}),
        (b"x" * 4097, {"error": None, "error_bytes": 4097}),
        (b"\xe9", {"error_base64": "6Q==", "error_bytes": 1}),
        (None, {"error": None, "error_bytes": None}),
    ],
    ids=lambda value: repr(value)[:12],
)
def test_an_error_is_whole_or_it_is_its_length(
    emqctl: Emqctl, queue: redis.Redis, error: bytes | None, shown: dict[str, Any]
) -> None:
    put(queue, "dead", attempts=3, payload="{}", **({} if error is None else {"last_error": error}))
    record = one(emqctl, "--state", "dead")
    assert {name: record[name] for name in record if name.startswith("error")} == shown


@pytest.mark.parametrize("attempts", [b"", b"-1", b"1.0", b"\xff", b" 1", b"9" * 5000], ids=lambda value: value[:8])
def test_odd_attempts_are_an_error_in_their_cell(emqctl: Emqctl, queue: redis.Redis, attempts: bytes) -> None:
    put(queue, attempts=attempts, payload="{}")
    result = emqctl("browse", "q")
    assert (result.code, result.cells[0][2][:2]) == (0, "! ")
    record = one(emqctl)
    assert record["attempts"] is None
    assert record["attempts_error"]


@pytest.mark.parametrize("style", ["relative", "iso", "local", "epoch"])
@pytest.mark.parametrize("score", ["+inf", "-inf", "1e300", "-1e300", "0", "-1", "0.5", "253402300799999"])
@pytest.mark.parametrize("state", ["active", "scheduled"])
def test_a_score_no_calendar_holds_does_not_stop_a_listing(
    emqctl: Emqctl, queue: redis.Redis, state: str, score: str, style: str
) -> None:
    put(queue, state, score, attempts=1, payload="{}")
    for zone in ("Asia/Tokyo", "America/Los_Angeles"):
        result = emqctl("browse", "q", "--state", state, "--time", style, env={"TZ": zone})
        assert (result.code, len(result.lines), result.err) == (0, 1, "")
    assert emqctl("browse", "q", "--state", state, "-o", "json").code == 0


def test_members_that_are_no_job_ids_are_listed_as_they_stand(emqctl: Emqctl, queue: redis.Redis) -> None:
    odd = [b"\xff", b"not-a-branded-id", A.encode(), b"JOBzzzzzzzzzzz", b"", b"JOB0Nb1VTbfnu4 "]
    queue.zadd("emq:{q}:pending", dict.fromkeys(odd, 0))
    records = emqctl("browse", "q", "-o", "json").records
    listed = [each["id"].encode() if "id" in each else b64decode(each["id_base64"]) for each in records]
    assert listed == sorted(odd, reverse=True)
    minted = times.rfc3339(branded.parse(A).minted)
    assert [each["minted"] for each in records] == [minted if name == A.encode() else None for name in listed]


@pytest.mark.parametrize("output", ["table", "plain", "json", "jsonl", "csv", "ids"])
def test_a_member_that_is_the_empty_text_is_a_row_too(emqctl: Emqctl, queue: redis.Redis, output: str) -> None:
    queue.zadd("emq:{q}:pending", {"": 0})
    result = emqctl("browse", "q", "-o", output)
    assert result.code == 0
    assert result.out


def test_the_cursor_of_a_note_is_one_that_is_accepted(emqctl: Emqctl, queue: redis.Redis) -> None:
    """A member that is an id, but no job's, cannot be named with --before."""
    queue.zadd("emq:{q}:pending", dict.fromkeys([A, B, "JOB0Nb1VTbfnu4"], 0))
    note = emqctl("browse", "q", "-n", "1").err
    assert note.startswith("note: 1 of 3 shown")
    if "--before" in note:
        cursor = note.split("--before ")[1].split(",")[0]
        assert emqctl("browse", "q", "--before", cursor).code == 0


def test_a_limit_larger_than_any_queue_is_all(emqctl: Emqctl, queue: redis.Redis) -> None:
    put(queue, attempts=0, payload="{}")
    assert emqctl("browse", "q", "-n", str(10**30), "-o", "ids").lines == ["JOB" + A[3:]]


def test_lanes_of_rows_do_not_fetch_payloads_of_other_lanes(emqctl: Emqctl, queue: redis.Redis, proxy: Any) -> None:
    """`--lane` of dead jobs is told by the rows; those of other lanes are not carried over whole."""
    for nth in range(10):
        put(queue, "dead", 0, f"JOB0000000000{nth}", attempts=1, payload="x" * 200_000, group=B)
    put(queue, "dead", 0, "JOB00000000010", attempts=1, payload="mine", group=A)
    result = emqctl("browse", "q", "--state", "dead", "--lane", A, "--payload", "-o", "jsonl", url=proxy.url)
    assert [each["payload"] for each in result.records] == ["mine"]
    assert proxy.down < 100_000


# A generated queue against a model


@dataclass(frozen=True)
class Job:
    """A job of the model."""

    ms: int
    sequence: int
    state: str
    lane: str | None
    score: int
    attempts: int
    payload: str
    error: str | None

    @property
    def id(self) -> str:
        """The id, as minted."""
        return str(BrandedId("JOB", self.ms << 22 | self.sequence))


JOBS = st.lists(
    st.builds(
        Job,
        ms=st.integers(1, 6),
        sequence=st.integers(0, 3),
        state=st.sampled_from(["pending", "pending", "active", "scheduled", "dead"]),
        lane=st.sampled_from([None, A, B]),
        score=st.integers(1, 4),
        attempts=st.integers(0, 3),
        payload=st.sampled_from(["tea", "tea and coffee", "", "[x]"]),
        error=st.sampled_from([None, "", "refused", "connection refused [x]"]),
    ),
    unique_by=lambda job: job.id,
    max_size=16,
)
IDS = st.builds(lambda ms, sequence: str(BrandedId("JOB", ms << 22 | sequence)), st.integers(0, 7), st.integers(0, 3))
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "state": st.sampled_from(list(BY_STATE)),
        "limit": st.integers(0, 8),
        "reverse": st.just(value=True),
        "flat": st.just(value=True),
        "lane": st.sampled_from([A, B]),
        "since": st.integers(0, 7),
        "until": st.integers(0, 7),
        "after": IDS,
        "before": IDS,
        "grep": st.sampled_from(["tea", "coffee", "[x]"]),
        "attempts-min": st.integers(0, 4),
        "error": st.sampled_from(["refused", "[x]", "nope"]),
        "error-re": st.sampled_from(["refused$", "^c.*n", r"\[x\]"]),
    },
)


def model(jobs: list[Job], asked: dict[str, Any]) -> tuple[list[str], bool]:
    """Return the ids to be listed, and whether there are more."""
    state, limit = asked.get("state", "pending"), asked.get("limit", 20)
    chosen = [
        job
        for job in jobs
        if job.state == state
        and not (asked.get("flat") and job.lane)
        and asked.get("lane", job.lane) == job.lane
        and asked.get("since", 0) <= job.ms < asked.get("until", 99)
        and asked.get("after", "") < job.id < asked.get("before", "~")
        and asked.get("grep", "") in job.payload
        and job.attempts >= asked.get("attempts-min", 0)
        and ("error" not in asked or asked["error"] in (job.error or ""))
        and ("error-re" not in asked or re.search(asked["error-re"], job.error or ""))
    ]
    by_time = state in {"active", "scheduled"}
    newest_first = bool(asked.get("reverse")) == by_time
    chosen.sort(key=lambda job: (job.score if by_time else 0, job.id), reverse=newest_first)
    return [job.id for job in islice(chosen, limit or None)], 0 < limit < len(chosen)


def words_of(asked: dict[str, Any]) -> list[str]:
    words = []
    for name, value in asked.items():
        flag = f"--{name}"
        if name in {"since", "until"}:
            words += [flag, rfc3339(EPOCH_MS + value)]
        else:
            words += [flag] if value is True else [flag, str(value)]
    return words


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=JOBS, asked=OPTIONS.filter(lambda asked: not {"flat", "lane"} <= set(asked)))
def test_a_listing_is_what_the_model_says(
    emqctl: Emqctl, queue: redis.Redis, jobs: list[Job], asked: dict[str, Any]
) -> None:
    with queue.pipeline() as pipeline:
        pipeline.flushdb()
        pipeline.set("{emq}:version", "echomq:3.0.0").hset("emq:{q}:meta", "max", 1)
        pipeline.rpush("emq:{q}:ring", A).hset("emq:{q}:glimit", B, 1)
        for job in jobs:
            key = f"g:{job.lane}:pending" if job.lane and job.state == "pending" else SET_OF[job.state]
            pipeline.zadd(f"emq:{{q}}:{key}", {job.id: job.score if job.state in {"active", "scheduled"} else 0})
            row = {"attempts": job.attempts, "payload": job.payload, "group": job.lane, "last_error": job.error}
            row = {name: value for name, value in row.items() if value is not None}
            pipeline.hset(f"emq:{{q}}:job:{job.id}", mapping=row)
        pipeline.execute()
    result = emqctl("browse", "q", *words_of(asked), "-o", "json")
    listed, more = model(jobs, asked)
    event(f"{asked.get('state', 'pending')}, {min(len(listed), 2)} or more")
    assert result.code == 0
    assert ids(result) == listed
    assert result.json["more"] == more
    assert ("note: " in result.err.replace('{"note": "', "note: ")) == more
    by_id = {job.id: job for job in jobs}
    for record in result.records:
        job = by_id[record["id"]]
        assert (record["lane"], record["attempts"], record["preview"]) == (job.lane, job.attempts, job.payload)
        assert record.get("error", job.error) == job.error
