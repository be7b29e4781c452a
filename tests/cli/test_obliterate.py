"""``emqctl obliterate``: what it demands, what it says, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis
import worlds
from cli import stubs
from cli.running import Emqctl, EmqctlProcess, Result
from conservation import Look, dead_queue, without_ttls

from emqctl.keyspace import VERSION_KEY, QueueKeys, queue_of

QUEUE = "frozen"  # 25 jobs, none in flight, no flows
MANY = 8000  # jobs of a run that can be ended half-way
OPEN_AGAIN = "the queue is open again: workers, or a pump that was firing a repeat just now, may refill it"
DELETED = f"note: deleted 25 jobs of {QUEUE} and every key of it; {OPEN_AGAIN}\n"


@pytest.fixture(autouse=True)
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal of the test's own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME")
    return tmp_path / ".local/state/emqctl/journal.jsonl"


def left(client: redis.Redis, queue: str = QUEUE) -> list[bytes]:
    return [key for key in client.scan_iter(count=1000) if queue_of(key) == queue]


def content(client: redis.Redis) -> dict[bytes, Any]:
    return without_ttls(worlds.snapshot(client))


def test_named_it_deletes_the_queue_and_says_last_that_it_is_open_again(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis
) -> None:
    assert emqctl("obliterate", QUEUE, "--confirm", QUEUE).summary == (0, "", DELETED)
    assert left(redis_client) == []


def test_at_a_terminal_the_name_is_typed_at_a_prompt_that_says_what_will_go(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis
) -> None:
    keys = len(left(redis_client))
    result = emqctl("obliterate", QUEUE, stdin=b"frozen\n", tty=True)
    assert (result.code, result.out) == (0, "")
    where, what, question = result.err.split("\n", 2)
    assert where.startswith(f"{emqctl.url}, queue {QUEUE}: JOB")
    assert where.endswith(", …")
    assert where.count("JOB") == 3
    assert what == f"25 jobs in {keys} keys are deleted for good."
    assert question == f"Type the name of the queue to go on: {DELETED}"


@pytest.mark.parametrize("typed", [b"", b"\n", b"yes\n", b"y\n", b"Frozen\n", b"frozen orders\n", b"\xff\n"])
def test_anything_else_that_is_typed_changes_nothing(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, typed: bytes
) -> None:
    before = content(redis_client)
    result = emqctl("obliterate", QUEUE, stdin=typed, tty=True)
    assert (result.code, result.out) == (5, "")
    assert result.err.endswith("emqctl: not confirmed: nothing was changed\n")
    assert content(redis_client) == before


def test_an_odd_name_can_be_typed(emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis) -> None:
    queue = "eu-west.orders:v2 ü"
    assert emqctl("obliterate", queue, stdin=queue.encode() + b"\n", tty=True).code == 0
    assert left(redis_client, queue) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the queue's name, and stdin is no terminal to type it at\nhint: pass --confirm frozen\n"),
        (("--force",), "obliterate asks for the queue's name, and stdin is no terminal"),
        (("--confirm", "orders"), "not confirmed: --confirm names 'orders', not 'frozen'\n"),
        (("--read-only", "--confirm", QUEUE), "this run is read-only, and obliterate writes\n"),
        (("--read-only",), "this run is read-only, and obliterate writes\n"),
    ],
)
def test_what_cannot_be_permitted_is_refused_before_a_connection_is_made(
    emqctl: Emqctl, words: tuple[str, ...], message: str
) -> None:
    result = emqctl("obliterate", QUEUE, *words, url=f"redis://127.0.0.1:{stubs.refused_port()}/0")
    assert (result.code, result.out) == (5, "")
    assert message in result.err


@pytest.mark.parametrize("words", [("--confirm", "a{b}"), ("--confirm", ""), ("--yes",), ("--rate", "5/s")])
def test_what_makes_no_sense_is_usage(emqctl: Emqctl, words: tuple[str, ...]) -> None:
    assert emqctl("obliterate", QUEUE, *words).code == 2


def test_a_wrong_name_is_refused_at_a_terminal_too(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis
) -> None:
    assert emqctl("obliterate", QUEUE, "--confirm", "orders", stdin=b"frozen\n", tty=True).code == 5
    assert left(redis_client)


# Dry run


@pytest.mark.parametrize("read_only", [(), ("--read-only",)], ids=["", "read-only"])
def test_a_dry_run_names_every_job_asks_nothing_and_changes_nothing(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, read_only: tuple[str, ...]
) -> None:
    before = content(redis_client)
    rows = set(Look(redis_client, QUEUE).rows)
    result = emqctl("obliterate", QUEUE, "--dry-run", *read_only)
    assert (result.code, result.err) == (0, f"note: {QUEUE} holds 25 jobs in {len(left(redis_client))} keys\n")
    assert {cells[0].encode() for cells in result.cells} == rows
    assert {cells[1] for cells in result.cells} == {"would-remove"}
    assert set(emqctl("obliterate", QUEUE, "--dry-run", "-o", "ids").out.encode().split()) == rows
    assert content(redis_client) == before


@pytest.mark.parametrize(("queue", "reason"), [("orders", "active"), ("invoices", "cross-queue")])
def test_a_dry_run_is_refused_as_the_run_would_be(emqctl: Emqctl, world: worlds.World, queue: str, reason: str) -> None:
    dry, real = emqctl("obliterate", queue, "--dry-run"), emqctl("obliterate", queue, "--confirm", queue)
    assert dry.code == real.code == 5
    assert dry.out == real.out
    assert dry.err == f"note: {queue} holds {dry.err.partition(' holds ')[2]}"
    assert dry.err.endswith(real.err)
    assert real.err.startswith(f"emqctl: {reason}: ")


# Refusals of the queue itself


def test_jobs_in_flight_need_force(emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis) -> None:
    before = content(redis_client)
    result = emqctl("obliterate", "orders", "--confirm", "orders")
    assert (result.code, result.out) == (5, "")
    assert result.err == (
        "emqctl: active: 12 jobs of orders in flight; nothing was deleted\n"
        "hint: 'pause' lets them finish, 'depth --states' counts them; --force takes them from their workers\n"
    )
    assert content(redis_client) == before
    assert emqctl("obliterate", "orders", "--confirm", "orders", "--force").code == 0
    assert left(redis_client, "orders") == []


def test_flows_of_other_queues_are_each_named_before_anything_is_deleted(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis
) -> None:
    before = content(redis_client)
    result = emqctl("obliterate", "payments", "--confirm", "payments")
    assert result.code == 5
    parent, other = "parent JOB0JXbsD1Jey0 of invoices", "parent JOB0JXbssDzVce of invoices"
    untold = f"its end is not yet told to {parent}"
    assert [(row[0], row[1], row[2], row[6]) for row in result.cells] == [
        ("JOB0JXbsHbAX2W", "skipped", "cross-queue", untold),
        ("JOB0JXbsMB1P72", "skipped", "cross-queue", untold),
        ("JOB0JXbsMB1P72", "skipped", "cross-queue", f"{parent} waits for it"),
        ("JOB0JXbsQksHBY", "skipped", "cross-queue", f"{parent} waits for it"),
        ("JOB0JXbswnqNhA", "skipped", "cross-queue", f"{other} waits for it"),
    ]
    assert "flows of other queues depend on payments" in result.err
    assert "hint: with --force" in result.err
    assert content(redis_client) == before

    forced = emqctl("obliterate", "payments", "--confirm", "payments", "--force")
    assert (forced.code, forced.out) == (0, "")
    told, last = forced.err.splitlines()
    assert told.startswith("note: flows of other queues depend on payments: ")
    assert last.startswith("note: deleted 3 jobs of payments")
    assert left(redis_client, "payments") == []


def test_a_claim_in_the_last_moment_leaves_the_queue_paused_and_says_so(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    from emqctl.cli import obliterate

    def claimed_meanwhile(*arguments: Any, **options: Any) -> Any:
        redis_client.zadd(QueueKeys(QUEUE).active, {"JOB00000000001": 4e12})
        return carry_out(*arguments, **options)

    carry_out = obliterate.obliterate
    monkeypatch.setattr(obliterate, "obliterate", claimed_meanwhile)
    result = emqctl("obliterate", QUEUE, "--confirm", QUEUE)
    assert (result.code, result.cells) == (5, [["-", "skipped", "active", "-", "-", "-", "-"]])
    assert result.err == (
        f"note: deleted 0 jobs of {QUEUE}; it stays paused; jobs are in flight: let them finish, or take them from "
        "their workers with --force; the same command, run again, goes on\n"
    )
    assert redis_client.hexists(QueueKeys(QUEUE).fixed("meta"), "paused")


@pytest.mark.parametrize("version", ["echomq:9.9.9"])
def test_an_unknown_wire_version_has_to_be_accepted(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, version: str
) -> None:
    redis_client.set(VERSION_KEY, version)
    before = content(redis_client)
    assert emqctl("obliterate", QUEUE, "--confirm", QUEUE).code == 7
    assert content(redis_client) == before
    assert emqctl("obliterate", QUEUE, "--confirm", QUEUE, "--accept-version", version).code == 0
    assert left(redis_client) == []


def test_a_denied_user_is_told_what_is_denied_and_nothing_of_a_pause(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, keeper: redis.Redis
) -> None:
    before = content(redis_client)
    keeper.execute_command("ACL", "SETUSER", "short", "on", "nopass", "~*", "+@all", "-unlink")
    result = emqctl("obliterate", QUEUE, "--confirm", QUEUE, url=emqctl.url.replace("redis://", "redis://short:x@"))
    assert (result.code, result.out) == (8, "")
    assert "UNLINK" in result.err
    assert "paused" not in result.err
    assert content(redis_client) == before


def test_a_queue_not_seen_is_idle_and_nothing_is_asked_of_it(emqctl: Emqctl, world: worlds.World) -> None:
    result = emqctl("obliterate", "nope", "--confirm", "nope")
    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines()[-1] == "note: there is no key of nope: nothing was deleted"
    assert emqctl("obliterate", "nope", tty=True).code == 0


def test_without_a_deployment_it_ends_with_4(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    assert emqctl("obliterate", "nope", "--confirm", "nope").code == 4


# Output and journal


@pytest.mark.parametrize("output", ["json", "jsonl", "csv", "ids"])
def test_with_a_format_every_deleted_job_is_a_record(emqctl: Emqctl, world: worlds.World, output: str) -> None:
    result = emqctl("obliterate", QUEUE, "--confirm", QUEUE, "-o", output)
    assert result.code == 0
    if output == "ids":
        assert len(result.lines) == 25
        return
    places = [(record["result"], record["place_before"], record["place_after"]) for record in result.records]
    expected = [("pending", 20), ("lane", 3), ("dead", 2)]
    assert places == [("removed", place, "none") for place, number in expected for _ in range(number)]


def test_the_journal_holds_each_step_with_what_it_deleted_and_no_payload(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, journal: Path
) -> None:
    rows = Look(redis_client, QUEUE).rows
    words = ("obliterate", QUEUE, "--confirm", QUEUE, "--note", "ticket 7")
    emqctl(*words)
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    begun, ended = (
        {entry["batch"]: entry for entry in entries if entry["phase"] == phase} for phase in ("begin", "end")
    )
    assert begun.keys() == ended.keys()
    assert {(entry["command"], entry["queue"], entry["note"]) for entry in begun.values()} == {
        ("obliterate", QUEUE, "ticket 7")
    }
    assert {outcome[0].encode() for entry in ended.values() for outcome in entry["outcomes"]} == rows.keys()
    assert [row for row in rows.values() if row[b"payload"] in journal.read_bytes()] == []


def test_a_run_without_a_change_writes_no_journal(emqctl: Emqctl, world: worlds.World, journal: Path) -> None:
    emqctl("obliterate", QUEUE, "--dry-run")
    emqctl("obliterate", "orders", "--confirm", "orders")
    assert not journal.exists()


# Ended half-way


@pytest.fixture
def many(redis_client: redis.Redis) -> redis.Redis:
    """A queue of thousands of dead jobs, and lanes."""
    worlds.send(redis_client, dead_queue("jobs", MANY, 30, Random(1)))
    return redis_client


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_lets_the_step_in_flight_finish_and_leaves_the_queue_paused_and_sound(
    emqctl: Emqctl, emqctl_process: EmqctlProcess, many: redis.Redis, number: int, code: int
) -> None:
    words = ("obliterate", "jobs", "--confirm", "jobs", "--force", "-o", "jsonl")
    with emqctl_process.start(*words, stdout=subprocess.DEVNULL) as process:
        wait_for_pause(many)
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    found = Look(many, "jobs")
    assert process.returncode == code
    assert found.faults() == []
    assert found.rows
    assert many.hexists(QueueKeys("jobs").fixed("meta"), "paused")
    [note] = [json.loads(line)["note"] for line in err.splitlines() if b'"note"' in line]
    assert note.endswith("; it stays paused; the same command, run again, goes on")
    done = int(note.split()[1].replace(",", ""))
    assert 0 < done <= MANY + 200 - len(found.rows)

    again = emqctl(*words[:-2])
    assert (again.code, again.out) == (0, "")
    assert left(many, "jobs") == []


def wait_for_pause(client: redis.Redis) -> None:
    for _ in range(10_000):
        if client.zcard(QueueKeys("jobs").dead) < MANY:
            return
        time.sleep(0.001)
    pytest.fail("it never began")


def test_a_reader_that_goes_away_ends_it_after_the_step_in_flight(
    emqctl_process: EmqctlProcess, many: redis.Redis
) -> None:
    words = ("obliterate", "jobs", "--confirm", "jobs", "--force", "-o", "ids")
    with emqctl_process.start(*words) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 141
    assert b"it stays paused" in err
    found = Look(many, "jobs")
    assert found.rows
    assert found.faults() == []


def test_a_killed_run_leaves_a_paused_and_sound_queue_that_another_run_completes(
    emqctl: Emqctl, emqctl_process: EmqctlProcess, many: redis.Redis
) -> None:
    words = ("obliterate", "jobs", "--confirm", "jobs", "--force")
    with emqctl_process.start(*words) as process:
        wait_for_pause(many)
        process.kill()
    found = Look(many, "jobs")
    assert found.faults() == []
    assert many.hexists(QueueKeys("jobs").fixed("meta"), "paused")
    assert emqctl(*words).code == 0
    assert left(many, "jobs") == []


def test_progress_is_shown_at_a_terminal_alone(
    emqctl: Emqctl, world: worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emqctl.cli.progress.QUIET_S", 0.0)
    monkeypatch.setattr("emqctl.cli.progress.STEP_S", 0.0)

    def run(*, tty: bool) -> Result:
        return emqctl("obliterate", QUEUE, "--confirm", QUEUE, tty=tty)

    assert "20 of 25 jobs deleted" in run(tty=True).err
    assert "jobs deleted" not in run(tty=False).err
