"""``emqctl doctor`` at the command line: what it prints, asks and answers."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import redis
import worlds
from cli.running import Emqctl

from emqctl.cli.doctor import COLUMNS, Account
from emqctl.keyspace import VERSION_KEY, QueueKeys
from emqctl.records import Finding

K = QueueKeys("jobs")
JOB = b"JOB0JZ8AskbOfw"


@pytest.fixture
def dangling(redis_client: redis.Redis) -> redis.Redis:
    """A queue of which one dead job has no row."""
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    redis_client.zadd(K.dead, {JOB: 0})
    return redis_client


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A home to keep the journal in."""
    return {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}


def test_a_finding_is_a_record_with_the_fields_of_the_contract(emqctl: Emqctl, dangling: redis.Redis) -> None:
    result = emqctl("doctor", "jobs", "-o", "json")
    assert result.code == 9
    assert result.json["schema"] == "emqctl/doctor/1"
    [record] = result.records
    assert tuple(record) == COLUMNS
    assert record["repair"] == f"emqctl remove jobs {JOB.decode()}"
    assert {name: record[name] for name in COLUMNS[:7]} == {
        "level": "broken",
        "rule": "dangling",
        "hazard": "H10",
        "queue": "jobs",
        "id": JOB.decode(),
        "lane": None,
        "place": "dead",
    }


def test_a_sound_database_is_exit_0_and_no_records(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    redis_client.hset(K.fixed("metrics:completed"), "count", 1)
    result = emqctl("doctor")
    assert (result.code, result.out) == (0, "")
    assert "1 queue, 1 key looked at: 0 broken, 0 stuck, 0 notes" in result.err
    assert emqctl("doctor", "-q").summary == (0, "", "")


def test_notes_are_no_reason_for_exit_9(emqctl: Emqctl, world: worlds.World) -> None:
    assert emqctl("doctor", "frozen").code == 0
    assert {record["level"] for record in emqctl("doctor", "frozen", "-o", "jsonl").records} == {"note"}


@pytest.mark.parametrize(("level", "shown"), [("note", 3), ("stuck", 2), ("broken", 1)])
def test_level_is_the_least_that_is_shown(emqctl: Emqctl, world: worlds.World, level: str, shown: int) -> None:
    records = emqctl("doctor", "-o", "jsonl", "--level", level).records
    assert len({record["level"] for record in records}) == shown


def test_the_server_comes_first_then_queue_by_queue_the_worst_first(emqctl: Emqctl, world: worlds.World) -> None:
    records = emqctl("doctor", "-o", "jsonl").records
    order = [(record.get("queue") or "", ("broken", "stuck", "note").index(record["level"])) for record in records]
    order = [each for each, record in zip(order, records, strict=True) if "queue_base64" not in record]
    assert order == sorted(order)
    assert records[0]["queue"] is None


def test_ids_are_the_ids_of_findings_once_each(emqctl: Emqctl, world: worlds.World) -> None:
    lines = emqctl("doctor", "broken", "-o", "ids").lines
    records = emqctl("doctor", "broken", "-o", "jsonl").records
    assert len(lines) == len(set(lines))
    assert {line for line in lines if line.startswith("JOB")} == {
        record["id"] for record in records if (record.get("id") or "").startswith("JOB")
    }


def test_hostile_names_are_escaped_for_people_and_quoted_for_shells(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    hostile = QueueKeys("a b'$(x)")
    redis_client.zadd(hostile.dead, {JOB: 0})
    redis_client.zadd(hostile.pending, {b"\x1b[31m\xff": 0})
    result = emqctl("doctor")
    assert "\x1b" not in result.out
    assert r"\x1b[31m\xff" in result.out
    assert f"emqctl remove 'a b'\"'\"'$(x)' {JOB.decode()}" in result.out


def test_an_idle_queue_is_sound_and_no_deployment_at_all_is_exit_4(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    assert emqctl("doctor").code == 4
    assert emqctl("doctor", "jobs").code == 4
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    result = emqctl("doctor", "jobs")
    assert result.code == 0
    assert "idle or misspelt" in result.err


def test_fix_repairs_and_tells_what_it_did(emqctl: Emqctl, dangling: redis.Redis, home: dict[str, str]) -> None:
    result = emqctl("doctor", "jobs", "--fix", "--yes", "-o", "json", env=home)
    assert result.code == 0
    [record] = result.records
    assert (record["result"], record["reason"]) == ("fixed", None)
    assert dangling.exists(K.dead) == 0
    again = emqctl("doctor", "jobs", "--fix", "--yes", "-o", "json", env=home)
    assert (again.code, again.records) == (0, [])


def test_fix_prints_what_it_did_not_do_and_an_account(
    emqctl: Emqctl, world: worlds.World, home: dict[str, str]
) -> None:
    result = emqctl("doctor", "broken", "--fix", "--yes", "--columns", "result,reason,rule", env=home)
    assert result.code == 9
    assert {tuple(row[:2]) for row in result.cells} == {("skipped", "for-a-person")}
    assert ["skipped", "for-a-person", "ghost_row"] in result.cells
    text = "repaired: 2 bad_member, 1 child_without_parent, 6 dangling, .*; (\\d+) broken or stuck are left"
    account = re.search(text, result.err)
    assert account
    assert int(account[1]) == len(result.lines)


def test_fix_prints_the_ids_it_repaired(emqctl: Emqctl, dangling: redis.Redis, home: dict[str, str]) -> None:
    assert emqctl("doctor", "--fix", "--yes", "-o", "ids", env=home).lines == [JOB.decode()]


def test_a_dry_run_is_allowed_to_look_and_changes_nothing(emqctl: Emqctl, dangling: redis.Redis) -> None:
    result = emqctl("doctor", "--fix", "--dry-run", "--read-only", "-o", "jsonl")
    assert (result.code, [record["result"] for record in result.records]) == (0, ["would-fix"])
    assert "would be repaired: 1 dangling" in json.loads(result.err.splitlines()[-1])["note"]
    assert dangling.zcard(K.dead) == 1


@pytest.mark.parametrize("word", ["--dry-run", "--yes", "--note=x", "--accept-version=x"])
def test_what_only_a_repair_can_be_told_wants_fix(emqctl: Emqctl, word: str) -> None:
    result = emqctl("doctor", word, url=None)
    assert (result.code, result.out) == (2, "")
    assert "go with --fix" in result.err


def test_without_a_terminal_fix_wants_yes(emqctl: Emqctl, dangling: redis.Redis) -> None:
    result = emqctl("doctor", "--fix")
    assert result.code == 5
    assert "hint: pass --yes" in result.err
    assert dangling.zcard(K.dead) == 1


@pytest.mark.parametrize(("answer", "code", "left"), [(b"yes\n", 0, 0), (b"n\n", 5, 1), (b"", 5, 1)])
def test_the_question_names_server_queue_and_repairs(
    emqctl: Emqctl, dangling: redis.Redis, home: dict[str, str], answer: bytes, code: int, left: int
) -> None:
    result = emqctl("doctor", "--fix", tty=True, stdin=answer, env=home)
    assert result.code == code
    assert f"{emqctl.url}, jobs\n1 repair: 1 dangling; no job is deleted" in result.err
    assert dangling.zcard(K.dead) == left


def test_nothing_is_asked_where_nothing_can_be_repaired(
    emqctl: Emqctl, redis_client: redis.Redis, home: dict[str, str]
) -> None:
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    redis_client.hset(K.row(JOB), mapping={"state": "pending", "payload": "{}"})
    result = emqctl("doctor", "--fix", "-o", "jsonl", tty=True, env=home)
    assert result.code == 9
    assert "Type yes" not in result.err
    assert [(record["rule"], record["reason"]) for record in result.records] == [("row_in_no_set", "for-a-person")]


def test_fix_honours_read_only_and_the_wire_version(
    emqctl: Emqctl, dangling: redis.Redis, home: dict[str, str]
) -> None:
    assert emqctl("doctor", "--fix", "--yes", "--read-only").code == 5
    dangling.set(VERSION_KEY, "echomq:9.9.9")
    assert emqctl("doctor", "--fix", "--yes", env=home).code == 7
    assert dangling.zcard(K.dead) == 1
    assert emqctl("doctor", "--fix", "--yes", "--accept-version", "echomq:9.9.9", env=home).code == 0
    assert dangling.zcard(K.dead) == 0


def test_a_user_who_may_not_repair_is_exit_8(emqctl: Emqctl, dangling: redis.Redis, keeper: redis.Redis) -> None:
    keeper.execute_command("ACL", "SETUSER", "looker", "on", ">pw", "~*", "+@all", "-zrem")
    url = emqctl.url.replace("//", "//looker:pw@")
    assert emqctl("doctor", "--fix", "--yes", url=url).code == 8
    assert dangling.zcard(K.dead) == 1


def test_repairs_are_written_down_and_a_dry_run_is_not(
    emqctl: Emqctl, dangling: redis.Redis, home: dict[str, str]
) -> None:
    journal = Path(home["XDG_STATE_HOME"]) / "emqctl" / "journal.jsonl"
    emqctl("doctor", "--fix", "--dry-run", env=home)
    assert not journal.exists()
    emqctl("doctor", "--fix", "--yes", "--note", "after the crash", env=home)
    text = journal.read_text("utf-8")
    assert JOB.decode() in text
    assert "after the crash" in text
    assert '"fixed"' in text


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([], 0),
        ([("broken", "fixed", None)], 0),
        ([("broken", "skipped", "already")], 0),
        ([("note", None, None)], 0),
        ([("broken", None, None)], 9),
        ([("broken", "fixed", None), ("stuck", "skipped", "for-a-person")], 9),
        ([("broken", "fixed", None), ("broken", "skipped", "locked")], 3),
        ([("broken", "skipped", "locked")], 5),
        ([("broken", "failed", "no-answer")], 5),
    ],
)
def test_the_exit_code_says_how_the_run_went(outcomes: list[tuple[Any, ...]], code: int) -> None:
    account = Account()
    for level, result, reason in outcomes:
        account.add(Finding(level, "dangling", None, "q", b"x", None, None, "", "r", result, reason))
    assert account.exit_code == code


def test_progress_and_ctrl_c_leave_what_was_found(
    emqctl: Emqctl, world: worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from emqctl.audit import Audit
    from emqctl.errors import Interrupted

    def some(_audit: Audit) -> Any:
        yield Finding("broken", "dangling", "H10", "orders", JOB, None, "dead", "m", "r")
        raise Interrupted(2)

    monkeypatch.setattr(Audit, "__iter__", some)
    result = emqctl("doctor", "-o", "plain")
    assert result.code == 130
    assert [row[1] for row in result.cells] == ["dangling"]


def test_every_command_that_a_finding_names_repairs_it(
    emqctl: Emqctl, world: worlds.World, home: dict[str, str]
) -> None:
    """What a person decides is no command; `doctor --fix` is proved elsewhere."""
    records = emqctl("doctor", "-o", "jsonl").records
    commands = {
        record["repair"]: record
        for record in records
        if (record.get("repair") or "").startswith("emqctl ") and "doctor" not in record["repair"]
    }
    assert len(commands) > 15
    for command in sorted(commands, key=lambda command: " remove " not in command):  # of what has no row nothing helps
        words = shlex.split(command)[1:]
        result = emqctl(*words, *(["--yes"] if words[0] == "remove" else []), env=home)
        assert result.code == 0, (command, result.err)
    left = [record.get("repair") for record in emqctl("doctor", "-o", "jsonl").records]
    assert set(left) & set(commands) == set()
