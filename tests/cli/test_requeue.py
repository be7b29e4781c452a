"""``emqctl requeue``: which jobs, the question, the records, the account, the exit code, and how it is stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pexpect
import pytest
import redis
import wire
import worlds
from cli import stubs
from cli.running import Emqctl, EmqctlProcess, Result, rfc3339
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from emqctl.branded import EPOCH_MS, BrandedId
from emqctl.changes import BATCH
from emqctl.cli.session import Session
from emqctl.connection import Server
from emqctl.demo.worker import Transitions
from emqctl.folding import group_of
from emqctl.keyspace import VERSION_KEY, QueueKeys

KEYS = QueueKeys("q")
LANE, OTHER_LANE = "TEN0IlTdEM44g4", "TEN0IlTd9mDCbY"
PATIENCE_S = 20
FIELDS = ["id", "result", "reason", "place_before", "place_after", "lane", "notes"]

Requeue = Callable[..., Result]


def job(nth: int) -> str:
    """Return an id; a later one is younger by a millisecond."""
    return str(BrandedId("JOB", nth << 22))


A, B, C, D, E, F = map(job, range(1, 7))


def put(client: redis.Redis, *names: str, queue: str = "q", **fields: Any) -> list[str]:
    """Write dead jobs; fields of the row may be named."""
    keys = QueueKeys(queue)
    row = {"state": "dead", "attempts": 1, "payload": "{}", "last_error": "boom", **fields}
    rows = [(b"HSET", keys.row(name.encode()), *chain(*row.items())) for name in names]
    worlds.send(client, [*rows, *((b"ZADD", keys.dead, 0, name) for name in names)])
    return list(names)


def dead(client: redis.Redis, queue: str = "q") -> list[str]:
    return [member.decode() for member in client.zrange(QueueKeys(queue).dead, 0, -1)]


def pending(client: redis.Redis, queue: str = "q") -> list[str]:
    return [member.decode() for member in client.zrange(QueueKeys(queue).pending, 0, -1)]


@pytest.fixture
def client(redis_client: redis.Redis) -> redis.Redis:
    """An empty deployment."""
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    return redis_client


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str | None]:
    """Variables that keep the journal of a test to itself."""
    return {"XDG_STATE_HOME": str(tmp_path)}


@pytest.fixture
def requeue(emqctl: Emqctl, client: redis.Redis, env: dict[str, str | None]) -> Requeue:
    """Run ``emqctl requeue`` in this process."""

    def run(*words: str, env: dict[str, str | None] = env, **options: Any) -> Result:
        return emqctl("requeue", *words, env=env, **options)

    return run


@pytest.fixture
def start(
    emqctl_process: EmqctlProcess, client: redis.Redis, env: dict[str, str | None]
) -> Callable[..., subprocess.Popen[bytes]]:
    """Start ``emqctl requeue`` in a process of its own."""
    return partial(emqctl_process.start, "requeue", env=env)


def summary(result: Result) -> str:
    """Return the account of a run."""
    [line] = [line for line in result.err.splitlines() if "requeued" in line]
    told: str = json.loads(line)["note"] if line.startswith("{") else line.removeprefix("note: ")
    return told


def reasons(result: Result) -> dict[str, str | None]:
    return {each["id"]: each["reason"] for each in result.records}


# Ids named one by one


def test_each_id_that_cannot_move_is_one_record_with_its_reason_and_the_others_move(
    client: redis.Redis, requeue: Requeue
) -> None:
    put(client, A, B, C, D, E, F)
    put(client, job(7), queue="other")
    client.delete(KEYS.row(B.encode()))  # a member without a row
    client.zadd(KEYS.schedule, {C: 4_000_000_000_000})  # in two sets
    client.delete(KEYS.row(D.encode()))
    client.rpush(KEYS.row(D.encode()), "no hash")
    client.set(KEYS.row(E.encode()) + b":lock", 1)
    kind = "EVT" + A[3:]
    words = [A, B, C, D, E, kind, A, "garbage", job(7), job(8), F]
    result = requeue("q", *words, "-o", "jsonl")
    assert [(each["id"], each["result"], each["reason"]) for each in result.records] == [
        (A, "moved", None),
        (B, "skipped", "missing"),
        (C, "skipped", "two-places"),
        (D, "skipped", "wrong-type"),
        (E, "skipped", "locked"),
        (kind, "skipped", "malformed"),
        (A, "skipped", "duplicate"),
        ("garbage", "skipped", "malformed"),
        (job(7), "skipped", "missing"),
        (job(8), "skipped", "missing"),
        (F, "moved", None),
    ]
    assert result.code == 3
    assert pending(client) == [A, F]
    assert summary(result) == (
        "requeued 2 dead jobs of q; not: 1 duplicate, 1 locked, 2 malformed, 3 missing, 1 two-places, 1 wrong-type"
    )


def test_without_a_format_only_what_was_not_done_is_printed(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A, B)
    result = requeue("q", A, C, B)
    assert result.cells == [[C, "skipped", "missing", "none", "none", "-", "-"]]
    assert summary(result) == "requeued 2 dead jobs of q; not: 1 missing"
    assert result.code == 3


def test_a_run_in_which_all_is_done_prints_nothing_on_stdout(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A)
    result = requeue("q", A)
    assert result.summary == (0, "", "note: requeued 1 dead job of q\n")


@pytest.mark.parametrize("verbose", [("-v",), ("-o", "plain")])
def test_with_a_format_or_verbose_there_is_a_record_of_each_job(
    client: redis.Redis, requeue: Requeue, verbose: tuple[str, ...]
) -> None:
    put(client, A)
    put(client, B, group=LANE)
    client.sadd(KEYS.fixed("paused"), LANE)
    result = requeue("q", B, A, *verbose)
    assert result.cells == [
        [B, "moved", "-", "dead", "lane", LANE, "lane-paused"],
        [A, "moved", "-", "dead", "pending", "-", "-"],
    ]


def test_records_have_the_fields_of_the_contract(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A, group=LANE)
    client.sadd(KEYS.fixed("paused"), LANE)
    result = requeue("q", A, "-o", "json")
    assert result.json["schema"] == "emqctl/requeue/1"
    assert result.json["more"] is False
    [record] = result.records
    assert list(record) == FIELDS
    assert record == {
        "id": A,
        "result": "moved",
        "reason": None,
        "place_before": "dead",
        "place_after": "lane",
        "lane": LANE,
        "notes": ["lane-paused"],
    }
    put(client, A)
    assert requeue("q", A, "-o", "csv").lines[0].split(",") == FIELDS


def test_ids_prints_what_was_done_and_nothing_else(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A, B)
    result = requeue("q", B, C, A, "-o", "ids")
    assert (result.code, result.lines) == (3, [B, A])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((A,), 0),
        ((A, B), 0),
        ((A, C), 3),
        ((A, A), 3),
        ((A, "x"), 3),
        ((C,), 4),
        ((C, D), 4),
        ((C, "x"), 5),
        (("x",), 5),
        ((E,), 5),
        ((E, C), 5),
        (("--all", "--yes"), 0),
        (("--error", "no such error", "--yes"), 0),
        (("--since", "1s", "--yes"), 0),
        ((), 2),
        (("--limit", "0"), 2),
        ((A, "--all"), 2),
        ((A, "--flat"), 2),
        ((A, "--limit", "3"), 2),
        (("-", "--all"), 2),
        (("--flat", "--lane", LANE), 2),
        (("--all", "--since", "yesterday"), 2),
        (("--all", "--error-re", "("), 2),
        (("--all", "--error-group", "xyz"), 2),
        (("--all", "--rate", "fast"), 2),
        (("--all", "--rate", "0/s"), 2),
        (("--all", "--limit", "-1"), 2),
        (("--all", "--before", "EVT" + A[3:]), 2),
    ],
)
def test_the_exit_code_is_that_of_the_table(
    client: redis.Redis, requeue: Requeue, words: tuple[str, ...], code: int
) -> None:
    put(client, A, B)
    client.hset(KEYS.row(E.encode()), mapping={"state": "pending", "attempts": 0, "payload": "{}"})
    client.zadd(KEYS.pending, {E: 0})
    result = requeue("q", *words)
    assert result.code == code, result.err
    if code == 2:
        assert result.out == ""
        assert dead(client) == [A, B]


def test_a_walked_member_without_a_row_is_missing_and_counts(client: redis.Redis, requeue: Requeue) -> None:
    client.zadd(KEYS.dead, {A: 0})
    assert requeue("q", "--all", "--yes").code == 4
    put(client, B)
    assert requeue("q", "--all", "--yes").code == 3


@pytest.mark.parametrize(("words", "code"), [(("--all", "--yes"), 0), ((A,), 4)])
def test_an_idle_queue_has_no_dead_jobs_and_gets_a_note(
    client: redis.Redis, requeue: Requeue, words: tuple[str, ...], code: int
) -> None:
    result = requeue("nope", *words)
    assert result.code == code
    assert "no key of queue 'nope' exists" in result.err


def test_a_database_without_a_deployment_is_refused(client: redis.Redis, requeue: Requeue) -> None:
    client.flushall()
    result = requeue("q", "--all", "--yes")
    assert result.code == 4
    assert "no EchoMQ deployment" in result.err


# Ids on stdin


@pytest.mark.parametrize(
    "text",
    [
        f"{A}\n{B}\n",
        f"{A}\n{B}",
        f"{A}\r\n{B}\r\n",
        f"\n  \n{A}\n\n{B}\n",
        f"id\n{A}\n{B}\n",
        f"id,minted,attempts\n{A},2024-01-01T00:00:00.001Z,1\n{B},x,y\n",
        f"id\tminted\n{A}\tx y\n{B}\tz\n",
        f"{A} some words\n{B}, more\n",
    ],
)
def test_listings_are_ids_on_stdin(client: redis.Redis, requeue: Requeue, text: str) -> None:
    put(client, A, B)
    result = requeue("q", "-", "-o", "ids", stdin=text.encode())
    assert (result.code, result.lines) == (0, [A, B])


def test_anything_else_on_stdin_is_malformed_in_its_place(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A, B)
    text = b"\xff\xfe\nid\n" + A.encode() + b'\n{"id": "x"}\n' + B.encode() + b"\nid\n"
    result = requeue("q", "-", "-o", "jsonl", stdin=text)
    assert [each["reason"] for each in result.records] == [
        "malformed",
        "malformed",
        None,
        "malformed",
        None,
        "malformed",
    ]
    assert result.records[0]["id_base64"] == "//4="
    assert result.code == 3


def test_a_repeat_on_stdin_is_found_however_far_apart(client: redis.Redis, requeue: Requeue) -> None:
    names = put(client, *(job(nth) for nth in range(1, 251)))
    lines = "".join(f"{name}\n" for name in [*names, names[0]])
    result = requeue("q", "-", stdin=lines.encode())
    assert result.cells == [[names[0], "skipped", "duplicate", "-", "-", "-", "-"]]
    assert len(pending(client)) == 250


@pytest.mark.parametrize("text", [b"", b"\n\n", b"id\n"])
def test_no_ids_on_stdin_is_nothing_to_do(requeue: Requeue, text: bytes) -> None:
    result = requeue("q", "-", stdin=text)
    assert (result.code, result.out) == (0, "")


@pytest.mark.parametrize("output", ["ids", "plain", "csv"])
def test_a_listing_of_browse_requeues_every_job_it_lists(
    emqctl: Emqctl, client: redis.Redis, requeue: Requeue, output: str
) -> None:
    names = put(client, *(job(nth) for nth in range(1, 150)))
    listing = emqctl("browse", "q", "--state", "dead", "-n", "0", "-o", output)
    result = requeue("q", "-", stdin=listing.stdout)
    assert (result.code, listing.err) == (0, "")
    assert pending(client) == names


def test_a_listing_that_was_cut_at_twenty_says_so_and_requeues_twenty(
    emqctl: Emqctl, client: redis.Redis, requeue: Requeue
) -> None:
    names = put(client, *(job(nth) for nth in range(1, 150)))
    listing = emqctl("browse", "q", "--state", "dead", "-o", "ids")
    assert listing.err.startswith("note: 20 of 149 shown, ")
    assert requeue("q", "-", stdin=listing.stdout).code == 0
    assert pending(client) == names[-20:]


def test_the_two_commands_in_a_real_pipe(client: redis.Redis, emqctl_process: EmqctlProcess, tmp_path: Path) -> None:
    names = put(client, *(job(nth) for nth in range(1, 1500)))
    command = f"{sys.executable} -m emqctl"
    line = f"{command} browse q --state dead -n 0 -o ids | {command} requeue q -"
    variables = emqctl_process.variables({"XDG_STATE_HOME": str(tmp_path)})
    run = subprocess.run(line, shell=True, env=variables, capture_output=True, timeout=PATIENCE_S, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"note: requeued 1,499 dead jobs of q\n")
    assert pending(client) == names


# Not asked, and not waiting


def test_a_set_is_refused_at_once_where_nobody_can_be_asked(
    client: redis.Redis, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """An open pipe that never says anything is no reason to wait."""
    put(client, A)
    with subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE) as sleeper:
        began = time.monotonic()
        process = start("q", "--all", stdin=sleeper.stdout)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert time.monotonic() - began < 10
        assert sleeper.poll() is None
        sleeper.kill()
    assert (process.returncode, out) == (5, b"")
    assert b"hint: pass --yes" in err
    assert dead(client) == [A]


@pytest.mark.parametrize("words", [("--all",), ("--since", "2h"), ("--limit", "5"), ("--error", "x")])
def test_every_set_is_asked_about_and_refused_before_connecting(requeue: Requeue, words: tuple[str, ...]) -> None:
    result = requeue("q", *words, url=f"redis://127.0.0.1:{stubs.refused_port()}/0")
    assert (result.code, result.out) == (5, "")
    assert "--yes" in result.err


def test_a_closed_stdin_is_nobody_too(client: redis.Redis, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    put(client, A)
    process = start("q", "--all", preexec_fn=lambda: os.close(0))
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 5
    assert b"--yes" in err


def test_named_ids_are_their_own_confirmation(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A, B)
    assert requeue("q", A).code == 0
    assert requeue("q", "-", stdin=B.encode()).code == 0


# Asked


def test_the_question_names_where_how_many_which_and_what_follows(client: redis.Redis, requeue: Requeue) -> None:
    names = put(client, *(job(nth) for nth in range(1, 1235)), attempts=2)
    put(client, *names[:1000], attempts=3)
    client.zadd(KEYS.pending, {job(5000 + nth): 0 for nth in range(1443)})
    result = requeue("q", "--all", tty=True, stdin=b"no\n", columns=200)
    assert (result.code, result.out) == (5, "")
    question = result.err.partition("Type yes")[0]
    assert re.search(r"redis://127.0.0.1:\d+/0, queue q: " + ", ".join([*names[:3], "…"]) + "\n", question)
    assert (
        "1,234 dead jobs go to the FRONT of q, ahead of 1,443 waiting; "
        "1,000 have 3 or more attempts and die at their next failure where workers allow 3.\n"
    ) in question
    assert dead(client) == names


def test_the_question_about_one_job_is_a_sentence_about_one_job(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A)
    result = requeue("q", "--all", tty=True, stdin=b"no\n", columns=200)
    assert f"queue q: {A}\n1 dead job goes to the FRONT of q, ahead of 0 waiting; 0 have 3 or more" in result.err
    put(client, A, attempts=3)
    result = requeue("q", "--all", tty=True, stdin=b"no\n", columns=200)
    assert "; 1 has 3 or more attempts and dies at its next failure where workers allow 3.\n" in result.err


def test_the_question_about_a_reset_says_what_it_risks(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A)
    result = requeue("q", "--all", "--reset-attempts", tty=True, stdin=b"no\n", columns=200)
    assert "may be taken for a new one" in result.err


def test_the_question_counts_what_the_filters_and_the_limit_choose(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A, B, C, last_error="x")
    put(client, D, E)
    result = requeue("q", "--error", "x", "--limit", "2", tty=True, stdin=b"yes\n", columns=200)
    assert f"queue q: {A}, {B}\n2 dead jobs go to the FRONT" in result.err
    assert (result.code, pending(client)) == (0, [A, B])


@pytest.mark.parametrize("answer", [b"", b"\n", b"y\n", b"n\n", b"no\n", b"YES\n", b"yes please\n", b"q\nyes\n"])
def test_no_answer_but_yes_is_one(client: redis.Redis, requeue: Requeue, answer: bytes) -> None:
    put(client, A)
    result = requeue("q", "--all", tty=True, stdin=answer)
    assert result.code == 5
    assert "not confirmed: nothing was changed" in result.err
    assert dead(client) == [A]


@pytest.mark.parametrize("answer", [b"yes\n", b"yes", b" yes \n"])
def test_yes_is_the_answer(client: redis.Redis, requeue: Requeue, answer: bytes) -> None:
    put(client, A)
    assert requeue("q", "--all", tty=True, stdin=answer).code == 0
    assert pending(client) == [A]


def test_nothing_chosen_is_nothing_asked(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A)
    result = requeue("q", "--error", "no such", tty=True)
    assert result.code == 0
    assert "Type yes" not in result.err


def test_yes_in_advance_asks_and_counts_nothing(client: redis.Redis, requeue: Requeue, monitor: wire.Monitor) -> None:
    put(client, A)
    with monitor() as commands:
        assert requeue("q", "--all", "--yes").code == 0
    sent = {command[0] for command in commands} - {b"MULTI", b"DISCARD"}  # before 7.0 permissions are asked for so
    assert sent <= {b"GET", b"TIME", b"EXISTS", b"ZRANGE", b"EVALSHA", b"SCRIPT"}


@pytest.fixture
def terminal(
    emqctl_process: EmqctlProcess, client: redis.Redis, env: dict[str, str | None]
) -> Iterator[Callable[..., pexpect.spawn]]:
    """Run ``emqctl requeue`` at a real terminal."""
    children: list[pexpect.spawn] = []

    def run(*words: str) -> pexpect.spawn:
        line = ["-m", "emqctl", "requeue", *words]
        variables = emqctl_process.variables({**env, "COLUMNS": None})
        child = pexpect.spawn(
            sys.executable, line, env=variables, timeout=PATIENCE_S, dimensions=(40, 200), encoding="utf-8"
        )
        children.append(child)
        return child

    yield run
    for child in children:
        child.close(force=True)


@pytest.mark.parametrize(("send", "code"), [("yes\n", 0), ("n\n", 5), ("\x04", 5)])
def test_at_a_real_terminal(client: redis.Redis, terminal: Callable[..., pexpect.spawn], send: str, code: int) -> None:
    put(client, A, B, C, D, attempts=3)
    child = terminal("q", "--all")
    child.expect(r"queue q: JOB\w+, JOB\w+, JOB\w+, …\r\n4 dead jobs go to the FRONT of q, ahead of 0 waiting; 4 have")
    child.expect("Type yes to go on: ")
    child.send(send)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == code
    assert len(pending(client)) == (0 if code else 4)


def test_ctrl_c_at_the_question_is_no(client: redis.Redis, terminal: Callable[..., pexpect.spawn]) -> None:
    put(client, A)
    child = terminal("q", "--all")
    child.expect("Type yes to go on: ")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert dead(client) == [A]


def test_a_password_is_asked_for_once(client: redis.Redis, requeue: Requeue, monkeypatch: pytest.MonkeyPatch) -> None:
    put(client, A)
    asked: list[str] = []

    def ask(_self: Session, prompt: str) -> str:
        asked.append(prompt)
        return "secret"

    monkeypatch.setattr(Session, "_ask_password", ask)
    requeue("q", A, "--askpass")
    assert len(asked) == 1


# Allowed


@pytest.mark.parametrize(
    ("words", "variables"), [(("--read-only",), {}), ((), {"EMQCTL_READ_ONLY": "1"})], ids=["flag", "variable"]
)
def test_a_read_only_run_refuses_before_it_connects(
    client: redis.Redis,
    requeue: Requeue,
    proxy: wire.Proxy,
    env: dict[str, str | None],
    words: tuple[str, ...],
    variables: dict[str, str],
) -> None:
    put(client, A)
    for choice in ((A,), ("--all", "--yes"), ("--all",)):
        result = requeue("q", *choice, *words, url=proxy.url, env={**env, **variables}, tty=True)
        assert result.code == 5
        assert "read-only" in result.err
    assert proxy.connections == 0
    result = requeue("q", "--all", "--dry-run", *words, "-o", "ids", url=proxy.url, env={**env, **variables})
    assert (result.code, result.lines) == (0, [A])
    assert dead(client) == [A]


def test_an_unknown_wire_version_stops_writes_until_that_very_one_is_accepted(
    client: redis.Redis, requeue: Requeue
) -> None:
    put(client, A)
    client.set(VERSION_KEY, "echomq:4.0.0")
    result = requeue("q", A)
    assert (result.code, result.out) == (7, "")
    assert "--accept-version echomq:4.0.0" in result.err
    assert requeue("q", A, "--accept-version", "echomq:4.0.1").code == 7
    assert requeue("q", "--all", "--dry-run").code == 0
    assert dead(client) == [A]
    assert requeue("q", A, "--accept-version", "echomq:4.0.0").code == 0
    assert pending(client) == [A]


def test_a_hidden_wire_version_stops_writes(client: redis.Redis, keeper: redis.Redis, requeue: Requeue) -> None:
    put(client, A)
    keeper.execute_command("ACL", "SETUSER", "default", "resetkeys", "~emq:*")
    result = requeue("q", A)
    assert (result.code, result.out) == (8, "")
    assert "~{emq}:*" in result.err
    assert keeper.zcard(KEYS.dead) == 1


def test_a_deployment_that_states_no_version_is_changed_with_a_note(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A)
    client.delete(VERSION_KEY)
    result = requeue("q", A)
    assert result.code == 0
    assert "states no wire version" in result.err


@pytest.mark.parametrize("command", ["zadd", "hset", "evalsha"])
def test_a_denied_command_is_named_and_nothing_is_written(
    client: redis.Redis, keeper: redis.Redis, requeue: Requeue, command: str
) -> None:
    put(client, A)
    keeper.execute_command("ACL", "SETUSER", "default", f"-{command}")
    result = requeue("q", "--all", "--yes", "-o", "json")
    assert result.code == 8
    assert command.upper() in result.error["message"].upper()
    assert result.error["code"] == 8
    assert keeper.zrange(KEYS.dead, 0, -1) == [A.encode()]


def test_a_replica_changes_nothing_and_says_where_to_go(
    client: redis.Redis, keeper: redis.Redis, requeue: Requeue
) -> None:
    put(client, A)
    keeper.execute_command("REPLICAOF", "127.0.0.1", str(stubs.refused_port()))
    try:
        result = requeue("q", A)
    finally:
        keeper.execute_command("REPLICAOF", "NO", "ONE")
    assert result.code == 5
    assert "is a replica" in result.err
    assert dead(client) == [A]


# What it says of attempts


def test_the_account_says_how_many_attempts_are_spent(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A, attempts=12)
    put(client, B, attempts=3)
    put(client, C, attempts=2)
    told = "2 have spent 3 or more attempts (up to 12): a worker that allows no more buries them at their first failure"
    assert told in requeue("q", "--all", "--dry-run").err
    assert told in requeue("q", "--all", "--yes").err
    client.delete("emq:{q}:pending")
    put(client, A, attempts=12)
    told = "1 has spent 3 or more attempts (up to 12): a worker that allows no more buries it at its first failure"
    assert told in requeue("q", A, "--dry-run").err
    reset = requeue("q", A, "--reset-attempts")
    assert (reset.code, "spent" in reset.err) == (0, False)


def test_quiet_leaves_the_account_out(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A)
    assert requeue("q", A, "-q").summary == (0, "", "")


# Dry runs, limits, filters


@pytest.mark.parametrize("queue", ["orders", "emails", "invoices", "payments", "frozen", "broken"])
@pytest.mark.parametrize(
    "line", ["--all", "--all --limit 7", "--error upstream", "--attempts-min 2", "--flat", "--all --force"]
)
def test_a_dry_run_prints_the_ids_the_run_then_moves_in_the_same_order(
    world: worlds.World, redis_client: redis.Redis, requeue: Requeue, queue: str, line: str
) -> None:
    words = line.split()
    before = set(dead(redis_client, queue))
    would = requeue(queue, *words, "--dry-run", "-o", "ids")
    assert set(dead(redis_client, queue)) == before
    done = requeue(queue, *words, "--yes", "-o", "ids")
    assert would.lines == done.lines
    assert would.code == done.code
    assert before - set(dead(redis_client, queue)) == set(done.lines)


def test_a_dry_run_shows_every_job_and_writes_nothing_at_all(
    client: redis.Redis, requeue: Requeue, env: dict[str, str | None]
) -> None:
    put(client, A)
    put(client, B, group=LANE)
    client.set(KEYS.row(B.encode()) + b":lock", 1)
    before = worlds.snapshot(client)
    result = requeue("q", "--all", "--dry-run")
    assert [row[:4] for row in result.cells] == [
        [A, "would-move", "-", "dead"],
        [B, "would-skip", "locked", "dead"],
    ]
    assert summary(result) == "would have requeued 1 dead job of q; not: 1 locked"
    assert worlds.snapshot(client) == before
    assert list(Path(str(env["XDG_STATE_HOME"])).iterdir()) == []


def test_a_limit_takes_the_oldest_and_a_second_run_the_next(client: redis.Redis, requeue: Requeue) -> None:
    names = put(client, *(job(nth) for nth in range(1, 331)))
    for begin in (0, 100, 200):
        result = requeue("q", "--limit", "100", "--yes", "-o", "ids")
        assert (result.code, result.lines) == (0, names[begin : begin + 100])
    assert requeue("q", "--limit", "100", "--yes", "-o", "ids").lines == names[300:]


@dataclass(frozen=True)
class Dead:
    """A dead job of the model."""

    ms: int
    sequence: int
    lane: str | None
    error: bytes | None
    payload: bytes
    attempts: int

    @property
    def id(self) -> str:
        """Its id."""
        return str(BrandedId("JOB", self.ms << 22 | self.sequence))


ERRORS = [None, b"", b"timeout after 5 ms", b"timeout after 17 ms", b"no 'x'", b"no 'yy'", b"\xffodd", b"Timeout"]
DEAD = st.lists(
    st.builds(
        Dead,
        ms=st.integers(1, 6),
        sequence=st.integers(0, 3),
        lane=st.sampled_from([None, LANE, OTHER_LANE]),
        error=st.sampled_from(ERRORS),
        payload=st.sampled_from([b"{}", b'{"n":1}', b"", b"\xff\x00n"]),
        attempts=st.integers(0, 4),
    ),
    unique_by=lambda each: each.id,
    max_size=16,
)
IDS = st.builds(lambda ms, sequence: str(BrandedId("JOB", ms << 22 | sequence)), st.integers(0, 7), st.integers(0, 3))
ASKED = st.fixed_dictionaries(
    {},
    optional={
        "since": st.integers(0, 7),
        "until": st.integers(0, 7),
        "after": IDS,
        "before": IDS,
        "flat": st.just(value=True),
        "lane": st.sampled_from([LANE, OTHER_LANE]),
        "error": st.sampled_from(["timeout", "no 'x'", ""]),
        "error-re": st.sampled_from(["(?i)^timeout", "^no '.{2}'$", "ms$"]),
        "error-group": st.sampled_from([group_of(error) for error in ERRORS if error]),
        "grep": st.sampled_from(["n", "{", ""]),
        "attempts-min": st.integers(0, 4),
        "limit": st.integers(0, 6),
    },
).filter(lambda asked: not {"flat", "lane"} <= set(asked))


def model(jobs: Sequence[Dead], asked: dict[str, Any]) -> list[str]:
    """Return the ids that are meant, oldest first."""
    chosen = sorted(each.id for each in jobs if is_meant(each, asked))
    return list(islice(chosen, asked.get("limit") or None))


def is_meant(each: Dead, asked: dict[str, Any]) -> bool:
    error = each.error if each.error is not None else None
    told = [name for name in ("error", "error-re", "error-group") if name in asked]
    return (
        asked.get("since", 0) <= each.ms < asked.get("until", 99)
        and asked.get("after", "") < each.id < asked.get("before", "~")
        and not (asked.get("flat") and each.lane)
        and asked.get("lane", each.lane) == each.lane
        and asked.get("grep", "").encode() in each.payload
        and each.attempts >= asked.get("attempts-min", 0)
        and not (told and error is None)
        and asked.get("error", "").encode() in (error or b"")
        and ("error-re" not in asked or re.search(asked["error-re"].encode(), error or b"") is not None)
        and ("error-group" not in asked or group_of(error or b"") == asked["error-group"])
    )


def words_of(asked: dict[str, Any]) -> list[str]:
    words = []
    for name, value in asked.items():
        if name in {"since", "until"}:
            words += [f"--{name}", rfc3339(EPOCH_MS + value)]
        else:
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=DEAD, asked=ASKED)
def test_what_is_chosen_is_what_the_model_says(
    client: redis.Redis, requeue: Requeue, jobs: list[Dead], asked: dict[str, Any]
) -> None:
    with client.pipeline() as pipeline:
        pipeline.flushdb()
        pipeline.set(VERSION_KEY, "echomq:3.0.0").hset(KEYS.fixed("meta"), "max", 1)
        for each in jobs:
            pipeline.zadd(KEYS.dead, {each.id: 0})
            row: dict[str, Any] = {"state": "dead", "payload": each.payload, "attempts": each.attempts}
            row |= {"group": each.lane} if each.lane else {}
            row |= {} if each.error is None else {"last_error": each.error}
            pipeline.hset(KEYS.row(each.id.encode()), mapping=row)
        pipeline.execute()
    words = words_of(asked)
    words += [] if set(asked) - {"limit"} or asked.get("limit") else ["--all"]
    meant = model(jobs, asked)
    event(f"{len(asked)} filters, {min(len(meant), 3)} or more meant")
    assert requeue("q", *words, "--dry-run", "-o", "ids").lines == meant
    result = requeue("q", *words, "--yes", "-o", "ids")
    assert (result.code, result.lines) == (0, meant)
    assert set(dead(client)) == {each.id for each in jobs} - set(meant)


FILTERS = {
    "--error": ("card declined", lambda row: b"card declined" in row[b"last_error"]),
    "--error-re": (r"after \d{5}ms$", lambda row: re.search(rb"after \d{5}ms$", row[b"last_error"])),
    "--error-group": (
        group_of(b"card declined: insufficient_funds (order 1)"),
        lambda row: row[b"last_error"].startswith(b"card declined: insufficient_funds (order "),
    ),
    "--grep": ("4", lambda row: b"4" in row[b"payload"]),
    "--attempts-min": ("4", lambda row: int(row[b"attempts"]) >= 4),
    "--flat": (None, lambda row: b"group" not in row),
    "--lane": (LANE, lambda row: row.get(b"group") == LANE.encode()),
}


@pytest.mark.parametrize("flag", FILTERS)
@pytest.mark.parametrize("queue", ["orders", "emails"])
def test_filters_over_the_recorded_world(
    world: worlds.World, redis_client: redis.Redis, requeue: Requeue, queue: str, flag: str
) -> None:
    value, is_meant_here = FILTERS[flag]
    keys = QueueKeys(queue)
    rows = {name: redis_client.hgetall(keys.row(name.encode())) for name in dead(redis_client, queue)}
    meant = [name for name, row in rows.items() if b"last_error" in row and is_meant_here(row)]
    words = (flag,) if value is None else (flag, value)
    result = requeue(queue, *words, "--dry-run", "-o", "jsonl")
    assert [each["id"] for each in result.records] == meant


def test_relative_times_count_back_from_the_servers_clock(client: redis.Redis, requeue: Requeue) -> None:
    now_ms = worlds.server_ms(client) - EPOCH_MS
    young, old = job(now_ms - 59 * 60_000), job(now_ms - 61 * 60_000)
    put(client, young, old)
    assert requeue("q", "--since", "1h", "--dry-run", "-o", "ids").lines == [young]
    assert requeue("q", "--until", "1h", "--dry-run", "-o", "ids").lines == [old]
    assert requeue("q", "--since", "62m", "--until", "60m", "--dry-run", "-o", "ids").lines == [old]


# Races


@pytest.fixture
def before_the_program(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Let something happen between the selection and the first program."""
    run = Server.run

    def arrange(action: Callable[[], object]) -> None:
        actions = [action]

        def late(self: Server, *words: Any) -> Any:
            while actions:
                actions.pop()()
            return run(self, *words)

        monkeypatch.setattr(Server, "run", late)

    return arrange


def comes_back_and_dies(client: redis.Redis) -> None:
    jobs = Transitions(client, "q")
    client.zrem(KEYS.dead, A)
    client.zadd(KEYS.pending, {A: 0})
    claimed = jobs.claim(1000)
    assert claimed is not None
    jobs.retry(A, claimed.token, 0, 1, "of something else")


@pytest.mark.parametrize(
    "words", [("--error", "boom"), ("--error-re", "b"), ("--grep", "{"), ("--attempts-min", "1")], ids=" ".join
)
def test_a_job_that_came_back_and_died_of_something_else_is_not_the_one_that_was_chosen(
    client: redis.Redis,
    requeue: Requeue,
    before_the_program: Callable[[Callable[[], object]], None],
    words: tuple[str, ...],
) -> None:
    put(client, A, B)
    before_the_program(lambda: comes_back_and_dies(client))
    result = requeue("q", *words, "--yes", "-o", "jsonl")
    assert reasons(result) == {A: "changed", B: None}
    assert result.code == 3
    assert client.hget(KEYS.row(A.encode()), "last_error") == b"of something else"


def test_a_job_chosen_by_its_place_alone_is_taken_whatever_it_died_of(
    client: redis.Redis, requeue: Requeue, before_the_program: Callable[[Callable[[], object]], None]
) -> None:
    put(client, A, B)
    before_the_program(lambda: comes_back_and_dies(client))
    assert requeue("q", "--all", "--yes").code == 0


def test_what_left_the_set_meanwhile_is_reported_and_no_failure(
    client: redis.Redis, requeue: Requeue, before_the_program: Callable[[Callable[[], object]], None]
) -> None:
    put(client, A, B)
    before_the_program(lambda: client.zrem(KEYS.dead, A))
    result = requeue("q", "--all", "--yes", "-o", "jsonl")
    assert reasons(result) == {A: "not-dead", B: None}
    assert result.code == 0
    client.delete(KEYS.pending)
    put(client, A, B)
    before_the_program(lambda: client.zrem(KEYS.dead, A))
    assert requeue("q", A, B).code == 3


# Pace


def test_a_rate_is_kept(client: redis.Redis, requeue: Requeue, monitor: wire.Monitor) -> None:
    put(client, *(job(nth) for nth in range(1, 61)))
    began = time.monotonic()
    with monitor() as commands:
        assert requeue("q", "--all", "--yes", "--rate", "40/s").code == 0
    assert 0.9 < time.monotonic() - began < 4
    sizes = Counter(sum(word.startswith(b"JOB") for word in each) for each in commands if each[0] == b"EVALSHA")
    assert max(sizes) <= 40


def test_a_slow_rate_moves_job_by_job(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A, B, C)
    began = time.monotonic()
    assert requeue("q", "--all", "--yes", "--rate", "2/s").code == 0
    assert 0.9 < time.monotonic() - began < 3


def test_a_run_ends_with_its_last_job_whatever_the_rate(
    client: redis.Redis, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    put(client, A)
    process = start("q", A, "--rate", "20/h")
    try:
        process.communicate(timeout=5)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0


# Stopped in mid-run

MANY = 1000


@pytest.fixture
def many(client: redis.Redis) -> list[str]:
    """A thousand dead jobs."""
    return put(client, *(job(nth) for nth in range(1, MANY + 1)))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


SIGNALS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["INT", "TERM", "HUP"]
)


@SIGNALS
def test_a_signal_between_batches_ends_the_run_with_a_true_account(
    client: redis.Redis,
    start: Callable[..., subprocess.Popen[bytes]],
    many: list[str],
    number: int,
    code: int,
) -> None:
    process = start("q", "--all", "--yes", "--rate", "200/s", "-o", "ids")
    wait_until(lambda: len(pending(client)) >= 200)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert_true(client, Result(process.returncode, out, err), many)


def assert_true(client: redis.Redis, result: Result, names: list[str], *, most: int = MANY - 1) -> None:
    """Check that the account, and the ids where they are printed, are what was moved: whole batches, the oldest."""
    moved = pending(client)
    assert moved == names[: len(moved)]
    assert len(moved) % BATCH == 0
    assert len(moved) <= most
    assert summary(result).startswith(f"requeued {len(moved):,} dead jobs of q")
    assert result.lines == moved


@SIGNALS
def test_a_signal_in_a_batch_lets_it_finish_and_starts_no_other(
    client: redis.Redis,
    keeper: redis.Redis,
    start: Callable[..., subprocess.Popen[bytes]],
    many: list[str],
    number: int,
    code: int,
) -> None:
    """The server holds the second batch back; the signal comes, and comes again, before it is let go."""
    process = start("q", "--all", "--yes", "--rate", "500/s", "-o", "ids")
    wait_until(lambda: len(pending(client)) >= 100)
    keeper.execute_command("CLIENT", "PAUSE", "60000", "WRITE")
    try:
        wait_until(lambda: is_held(keeper))
        for _ in range(2):
            process.send_signal(number)
            time.sleep(0.4)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
    finally:
        keeper.execute_command("CLIENT", "UNPAUSE")
    held = len(pending(client))
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert_true(client, Result(process.returncode, out, err), many, most=held + BATCH)


def is_held(keeper: redis.Redis) -> bool:
    """Tell whether a program waits for the server to take writes again."""
    return any(each["cmd"] == "evalsha" and "b" in each["flags"] for each in keeper.client_list())


@SIGNALS
def test_a_signal_ends_a_run_whose_reader_does_not_read(
    client: redis.Redis,
    start: Callable[..., subprocess.Popen[bytes]],
    number: int,
    code: int,
) -> None:
    """At the latest when it comes again: a full pipe must not make a process that only kill -9 ends."""
    names = put(client, *(job(nth) for nth in range(1, 5001)))
    process = start("q", "--all", "--yes", "-o", "jsonl")
    try:
        wait_until(lambda: len(pending(client)) >= 400)
        time.sleep(0.5)  # the pipe holds 64 KB, some four batches
        moved = pending(client)
        assert moved == names[: len(moved)]
        assert len(moved) < 2000
        for _ in range(2):
            process.send_signal(number)
            time.sleep(0.5)
        assert process.wait(5) in {code, -number}
        assert pending(client) == moved
    finally:
        process.kill()
        process.communicate()


def test_a_hang_up_that_is_ignored_from_outside_ends_nothing(
    client: redis.Redis, start: Callable[..., subprocess.Popen[bytes]], many: list[str]
) -> None:
    process = start(
        *("q", "--all", "--yes", "--rate", "1000/s"),
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    wait_until(lambda: len(pending(client)) >= 100)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert pending(client) == many


def test_a_signal_ends_a_json_document_with_what_happened(
    client: redis.Redis, start: Callable[..., subprocess.Popen[bytes]], many: list[str]
) -> None:
    process = start("q", "--all", "--yes", "--rate", "200/s", "-o", "json")
    wait_until(lambda: len(pending(client)) >= 100)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_S)
    result = Result(process.returncode, out, err)
    assert result.code == 143
    assert [each["id"] for each in result.records] == pending(client)
    assert (result.json["more"], result.json["error"]["code"]) == (True, 143)


@pytest.mark.parametrize("output", ["ids", "jsonl", "plain"])  # csv holds a thousand back to know its columns
def test_a_reader_that_goes_away_ends_the_run_after_the_batch_in_flight(
    client: redis.Redis, start: Callable[..., subprocess.Popen[bytes]], many: list[str], output: str
) -> None:
    process = start("q", "--all", "--yes", "--rate", "500/s", "-o", output)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(PATIENCE_S) == 141
    moved = pending(client)
    assert moved == many[: len(moved)]
    assert len(moved) == BATCH
    account = Result(141, b"", err)
    assert f"requeued {BATCH} dead jobs of q" in account.err
    assert "Traceback" not in account.err


def test_records_are_out_as_soon_as_their_batch_is_done(
    client: redis.Redis, start: Callable[..., subprocess.Popen[bytes]], many: list[str]
) -> None:
    """Whoever reads along can tell what was done, even after a kill -9."""
    process = start("q", "--all", "--yes", "--rate", "50/s", "-o", "ids")
    try:
        wait_until(lambda: len(pending(client)) >= 50)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        time.sleep(0.5)
        seen = (process.stdout.read() or b"").decode().split()
    finally:
        process.kill()
        process.communicate()
    assert seen[:50] == many[:50]


def test_a_full_disk_ends_the_run_with_a_true_account(
    client: redis.Redis, start: Callable[..., subprocess.Popen[bytes]], many: list[str]
) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        process = start("q", "--all", "--yes", "-o", "ids", stdout=full)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert f"requeued {len(pending(client)):,} dead jobs of q" in err.decode()
    assert "cannot write to standard output" in err.decode()


def test_a_stdout_that_is_closed_from_the_start_changes_nothing(
    client: redis.Redis, start: Callable[..., subprocess.Popen[bytes]], many: list[str]
) -> None:
    process = start("q", "--all", "--yes", stdout=None, preexec_fn=lambda: os.close(1))
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert dead(client) == many


def test_programs_the_server_forgets_in_mid_run_are_sent_again(
    client: redis.Redis, start: Callable[..., subprocess.Popen[bytes]], many: list[str]
) -> None:
    process = start("q", "--all", "--yes", "--rate", "500/s")
    for moved in (100, 400, 700):
        wait_until(lambda: len(pending(client)) >= moved)  # noqa: B023 # it is over before the next round
        client.script_flush()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert pending(client) == many


# Answers that never come


def lost(requeue: Requeue, proxy: wire.Proxy, client: redis.Redis, *words: str, **options: Any) -> Result:
    """Run a line whose last program is carried out and its answer lost."""
    before = worlds.snapshot(client)
    assert requeue(*words, "-o", "jsonl", url=proxy.url).code == 0
    whole = proxy.down
    client.flushall()
    client.script_flush()
    worlds.send(client, restored(before))
    proxy.cut_down = whole - 8  # inside the last answer, however many digits the clock has
    return requeue(*words, url=proxy.url, **options)


def restored(snapshot: worlds.Snapshot) -> Iterator[tuple[Any, ...]]:
    for key, value in snapshot.items():
        if value.type == "zset":
            yield b"ZADD", key, *chain(*((score, member) for member, score in value.content.items()))
        elif value.type == "hash":
            yield b"HSET", key, *chain(*value.content.items())
        else:
            yield b"SET", key, value.content


@pytest.mark.parametrize("output", ["jsonl", "json", "csv"])
def test_jobs_whose_answer_was_lost_may_have_been_moved_or_not(
    client: redis.Redis, requeue: Requeue, proxy: wire.Proxy, output: str
) -> None:
    put(client, A, B)
    result = lost(requeue, proxy, client, "q", A, B, "-o", output)
    assert result.code == 6
    assert [(each["id"], each["result"], each["reason"]) for each in result.records] == [
        (A, "failed", "no-answer"),
        (B, "failed", "no-answer"),
    ]
    assert pending(client) == [A, B]  # they were
    assert "2 no-answer" in result.err


@pytest.mark.parametrize("tty", [False, True])
def test_a_lost_answer_is_told_with_how_to_check(
    client: redis.Redis,
    requeue: Requeue,
    proxy: wire.Proxy,
    tty: bool,  # noqa: FBT001
) -> None:
    put(client, A, B)
    result = lost(requeue, proxy, client, "q", A, B, tty=tty, columns=200)
    assert result.code == 6
    for name in (A, B):
        assert re.search(rf"{name}\s+failed\s+no-answer", result.out)
    assert "may or may not have been" in result.err
    [hint] = [line for line in result.err.splitlines() if line.startswith("hint: ")]
    assert f"emqctl inspect q {A}" in hint or "run it again" in hint


def test_a_server_that_takes_too_long_is_given_up_and_the_account_leaves_it_open(
    client: redis.Redis, keeper: redis.Redis, requeue: Requeue
) -> None:
    put(client, A)
    keeper.execute_command("CLIENT", "PAUSE", "60000", "WRITE")
    try:
        result = requeue("q", A, "--request-timeout", "300ms", "-o", "jsonl")
    finally:
        keeper.execute_command("CLIENT", "UNPAUSE")
    assert result.code == 6
    assert reasons(result) == {A: "no-answer"}
    assert "may or may not have been" in result.err


def test_a_second_run_after_a_lost_answer_says_what_became_of_it(
    client: redis.Redis, requeue: Requeue, proxy: wire.Proxy
) -> None:
    put(client, A)
    lost(requeue, proxy, client, "q", A)
    proxy.cut_down = None
    result = requeue("q", A, "-o", "jsonl", url=proxy.url)
    assert reasons(result) == {A: "not-dead"}
    assert result.code == 5


def test_a_server_that_is_gone_before_anything_was_sent_has_changed_nothing(requeue: Requeue) -> None:
    result = requeue("q", A, url=f"redis://127.0.0.1:{stubs.refused_port()}/0")
    assert (result.code, result.out) == (6, "")
    assert "may or may not" not in result.err


def test_a_set_of_another_type_is_named(client: redis.Redis, requeue: Requeue) -> None:
    put(client, A)
    client.set(KEYS.fixed("glimit"), "x")
    result = requeue("q", A, "-o", "json")
    assert (result.code, result.error["message"]) == (5, "emq:{q}:glimit is a string, not a hash")
    assert dead(client) == [A]


@pytest.mark.parametrize("attempts", ["²", "٣", "9" * 5000, "many", ""])
def test_attempts_of_any_kind_stop_no_run(client: redis.Redis, requeue: Requeue, attempts: str) -> None:
    put(client, A, attempts=attempts)
    put(client, B)
    for words in (("--all", "--dry-run"), ("--attempts-min", "1", "--dry-run"), ("--all", "--yes")):
        assert requeue("q", *words).code in {0, 3}
    assert pending(client) == [B]
    client.zrem(KEYS.pending, B)
    put(client, B)
    assert requeue("q", "--all", tty=True, stdin=b"yes\n").code == 3


def test_members_that_are_no_text_are_shown_and_kept(client: redis.Redis, requeue: Requeue) -> None:
    client.zadd(KEYS.dead, {b"\xff\x1b[31m": 0})
    put(client, A)
    result = requeue("q", "--all", "--yes")
    assert result.code == 3
    assert result.lines == [r"\xff\x1b[31m" + "\tskipped\tmissing\tdead\tdead\t-\t-"]
    assert requeue("q", "--all", "--yes", "-o", "json").records[0]["id_base64"] == "/xtbMzFt"
