"""``errors``: what dead jobs died of, as printed; what the groups are good for; runs that are ended early."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
import wire
import worlds
from cli.running import Emqctl, EmqctlProcess

from emqctl.branded import BrandedId
from emqctl.cli import progress
from emqctl.keyspace import QueueKeys
from emqctl.render import FORMATS

FIELDS = ["group", "count", "oldest", "newest", "sample", "error"]
CASES = {
    "errors.one": "errors orders",
    "errors.several": "errors orders invoices broken wrongtype",
    "errors.none": "errors idle",
}


def job(nth: int) -> str:
    return str(BrandedId("JOB", nth << 22))


@pytest.fixture
def many_dead(redis_client: redis.Redis) -> int:
    """A queue `q` with 12,000 dead jobs of three errors."""
    redis_client.set("{emq}:version", "echomq:3.0.0")
    keys = QueueKeys("q")
    for some in range(0, 12_000, 3000):
        with redis_client.pipeline(transaction=False) as pipeline:
            for nth in range(some, some + 3000):
                pipeline.hset(keys.row(job(nth).encode()), mapping={"attempts": 3, "last_error": "xyz"[nth % 3] * 200})
            pipeline.zadd(keys.dead, {job(nth): 0 for nth in range(some, some + 3000)})
            pipeline.execute()
    return 12_000


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_output_is_known(
    emqctl: Emqctl, world: worlds.World, golden: Callable[[str, str], None], case: str, output: str
) -> None:
    result = emqctl(*CASES[case].split(), "-o", output, "--time", "iso")
    text = "".join([f"$ emqctl {CASES[case]} -o {output}\n", result.out, result.err, f"[exit {result.code}]\n"])
    golden(f"{case}.{output}", text.replace(emqctl.url, "redis://SERVER/0"))


def test_one_queue_has_no_column_for_it_several_and_all_have(emqctl: Emqctl, world: worlds.World) -> None:
    def fields(*words: str) -> list[str]:
        return list(emqctl("errors", *words, "-o", "jsonl").records[0])

    assert fields("orders") == FIELDS
    assert fields("orders", "emails") == ["queue", *FIELDS]
    assert fields() == ["queue", *FIELDS]
    assert emqctl("errors", "emails", "-o", "csv").lines[0] == ",".join(FIELDS)


def test_a_group_names_the_same_jobs_to_browse_and_requeue(emqctl: Emqctl, world: worlds.World) -> None:
    for queue in ("orders", "emails", "invoices", "frozen"):
        groups = emqctl("errors", queue, "-o", "jsonl").records
        met: list[str] = []
        for group in groups:
            if group["group"] is None:
                continue
            chosen = ["--error-group", group["group"]]
            browsed = emqctl("browse", queue, "--state", "dead", "-n", "0", *chosen, "-o", "ids").lines
            tried = emqctl("requeue", queue, *chosen, "--dry-run", "-o", "jsonl").records
            assert len(browsed) == group["count"]
            assert [each["id"] for each in tried] == browsed[::-1]
            assert (browsed[0], len(browsed) > 0) == (group["sample"], True)
            met += browsed
        dead = emqctl("browse", queue, "--state", "dead", "-n", "0", "-o", "ids").lines
        groupless = sum(group["count"] for group in groups if group["group"] is None)
        assert len(set(met)) == len(met) == len(dead) - groupless


def test_a_sample_is_a_job_with_that_error(emqctl: Emqctl, world: worlds.World) -> None:
    for group in emqctl("errors", "orders", "-o", "jsonl").records:
        [job] = emqctl("inspect", "orders", group["sample"], "-o", "jsonl").records
        shown = [job.get("error"), job.get("error_base64")]
        assert shown == [group.get("error"), group.get("error_base64")]


def test_every_dead_job_is_counted(emqctl: Emqctl, world: worlds.World) -> None:
    for name, known in world.queues.items():
        if isinstance(known["dead"], int):
            result = emqctl("errors", name, "-o", "jsonl")
            assert (result.code, result.err) == (0, "" if name.isascii() else result.err)
            assert sum(group["count"] for group in result.records) == known["dead"]


def test_bounds_choose_by_mint_time_as_those_of_browse(emqctl: Emqctl, world: worlds.World) -> None:
    dead = emqctl("browse", "orders", "--state", "dead", "-n", "0", "-o", "ids").lines
    for bounds in (
        ["--since", "2025-12-23T13:40:13Z"],
        ["--until", "2025-12-23T13:40:13Z"],
        ["--since", "2025-12-23T07:00:00Z", "--until", "2025-12-23T13:40:13Z"],
        ["--after", dead[100]],
        ["--before", dead[100], "--since", "2025-12-23T07:00:00Z"],
        ["--since", "1h"],
    ):
        browsed = emqctl("browse", "orders", "--state", "dead", "-n", "0", *bounds, "-o", "ids").lines
        grouped = emqctl("errors", "orders", *bounds, "-o", "jsonl").records
        assert sum(group["count"] for group in grouped) == len(browsed)


def test_a_queue_not_seen_is_named_before_anything_is_looked_at(
    emqctl: Emqctl, world: worlds.World, monitor: wire.Monitor
) -> None:
    for words in (["ordrs"], ["orders", "ordrs"]):
        with monitor() as commands:
            result = emqctl("errors", *words)
        assert result.summary == (
            4,
            "",
            f"emqctl: no queue 'ordrs' at {emqctl.url}\nhint: did you mean orders?\n",
        )
        assert not {command[0] for command in commands} & {b"HSTRLEN", b"HMGET", b"HGET"}


def test_a_database_without_a_deployment_has_nothing_to_look_at(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    assert emqctl("errors").code == 4
    redis_client.set("{emq}:version", "echomq:3.0.0")
    assert emqctl("errors").summary == (0, "", "")
    assert emqctl("errors", "-o", "json").json == {"schema": "emqctl/errors/1", "records": [], "more": False}


def test_a_set_of_another_type_is_an_error_alone_and_a_row_among_others(emqctl: Emqctl, world: worlds.World) -> None:
    reason = "emq:{wrongtype}:dead is a list, not a zset"
    assert emqctl("errors", "wrongtype").summary == (5, "", f"emqctl: {reason}\n")
    result = emqctl("errors", "wrongtype", "idle")
    assert result.summary == (3, "wrongtype\t-\t! list, not zset\t-\t-\t-\t-\n", "")
    [row] = emqctl("errors", "wrongtype", "idle", "-o", "jsonl").records
    assert (row["queue"], row["count"], row["count_error"]) == ("wrongtype", None, reason)


def test_hostile_errors_cannot_steer_a_terminal(emqctl: Emqctl, world: worlds.World) -> None:
    for output in ("table", "plain", "json", "jsonl"):
        out = emqctl("errors", "-o", output, "--color", "never", tty=True, columns=1000).out
        assert not any(character in out for character in "\x1b\x07\x9b\u202e\x00")
        assert "[bold red]boom[/bold red]" in out


def test_many_errors_say_how_many_are_not_kept_apart(
    emqctl: Emqctl, many_dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emqctl.failures.GROUPS", 2)
    monkeypatch.setattr("emqctl.cli.errors.GROUPS", 2)
    result = emqctl("errors", "q", "--columns", "count,error")
    assert result.out == f"4000\t{'z' * 200}\n4000\t{'y' * 200}\n4000\t(further errors)\n"
    assert result.err == "note: 2 groups are kept apart; 4,000 dead jobs of further errors are not\n"
    assert emqctl("errors", "q", "-q").err == ""


# Long runs, and runs that are ended


def test_a_long_run_shows_where_it_is_at_a_terminal_alone(
    emqctl: Emqctl, many_dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 0)
    monkeypatch.setattr(progress, "STEP_S", 0)
    assert "\r6,000 of 12,000 dead jobs looked at" in emqctl("errors", "q", tty=True).err
    assert emqctl("errors", "q").err == ""


def interrupted(process: EmqctlProcess, client: redis.Redis, number: int, *words: str) -> tuple[int, str, str]:
    """Start a run, send the signal once it reads rows, and return its code and what it printed."""
    client.config_resetstat()
    with process.start("errors", "q", *words) as running:
        deadline = time.monotonic() + 20
        while client.info("commandstats").get("cmdstat_hstrlen", {}).get("calls", 0) < 2000:
            assert time.monotonic() < deadline
            assert running.poll() is None
        running.send_signal(number)
        out, err = running.communicate(timeout=20)
    return running.returncode, out.decode(), err.decode()


@pytest.mark.parametrize("output", ["table", "plain", "csv", "jsonl"])
def test_what_was_found_is_printed_when_the_run_is_ended(
    emqctl_process: EmqctlProcess, redis_client: redis.Redis, many_dead: int, output: str
) -> None:
    code, out, err = interrupted(emqctl_process, redis_client, signal.SIGINT, "-o", output, "--columns", "count,error")
    assert code == 130
    assert all(letter * 200 in out for letter in "xyz")
    assert err.count("ended early: ") == 1
    looked_at = int(err.split("ended early: ")[1].split(" of 12,000 dead jobs")[0].replace(",", ""))
    assert 0 < looked_at < many_dead
    if output == "plain":
        assert sum(int(line.split("\t")[0]) for line in out.splitlines()) == looked_at


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_json_document_is_closed_when_the_run_is_ended(
    emqctl_process: EmqctlProcess, redis_client: redis.Redis, many_dead: int, number: int, code: int
) -> None:
    from json import loads

    ended, out, _ = interrupted(emqctl_process, redis_client, number, "-o", "json")
    document: dict[str, Any] = loads(out)
    assert ended == code
    assert (document["more"], document["error"]["code"]) == (True, code)
    assert len(document["records"]) == 3


@pytest.mark.parametrize("output", ["table", "plain", "csv", "json", "jsonl"])
def test_what_was_found_is_printed_when_the_connection_is_lost(
    emqctl: Emqctl, many_dead: int, proxy: wire.Proxy, output: str
) -> None:
    proxy.cut_down = 500_000
    result = emqctl("errors", "q", "-o", output, url=proxy.url)
    assert result.code == 6
    assert all(letter * 200 in result.out for letter in "xyz")
    assert "ended early: " in result.err
    assert "closed the connection" in result.err
    if output == "json":
        assert result.json["more"] is True
        assert result.json["error"]["code"] == 6


def test_a_closed_reader_ends_it_quietly(emqctl_process: EmqctlProcess, many_dead: int) -> None:
    with emqctl_process.start("errors", "q") as running:
        assert running.stdout
        running.stdout.close()
        assert running.stderr
        assert running.stderr.read() == b""
        assert running.wait(timeout=20) == 141
