"""Errors and notes: where they go, in which form, and what is left on standard output."""

from __future__ import annotations

import json

import pytest
import redis
import wire
import worlds
from cli.running import Emqctl

from emqctl.branded import BrandedId

OUTPUTS = ["table", "plain", "json", "jsonl", "csv", "ids"]


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_error_leaves_stdout_empty_in_every_format(
    emqctl: Emqctl, world: worlds.World, proxy: wire.Proxy, output: str
) -> None:
    proxy.cut_down = 0
    for words, url, code in (
        (["browse", "nope"], "", 4),
        (["browse", "wrongtype"], "", 5),
        (["depth", "wrongtype"], "", 5),
        (["browse", "orders"], proxy.url, 6),
        (["depth", "a{b"], "", 2),
    ):
        result = emqctl(*words, "-o", output, url=url)
        assert (result.code, result.out) == (code, "")
        assert result.err.endswith("\n")


@pytest.mark.parametrize("output", ["json", "jsonl"])
def test_json_formats_have_json_errors_and_notes_alone(emqctl: Emqctl, world: worlds.World, output: str) -> None:
    result = emqctl("browse", "nope", "-o", output)
    assert result.error == {
        "code": 4,
        "kind": "not-found",
        "message": f"no queue 'nope' at {emqctl.url}",
        "hint": "emqctl depth lists the queues there are",
    }
    assert result.err.count("\n") == 1
    listing = emqctl("browse", "broken", "-n", "3", "-o", output, "-v")
    notes = [json.loads(line) for line in listing.err.splitlines()]
    assert len(notes) == 3
    assert all(list(note) == ["note"] for note in notes)
    assert notes[0]["note"].startswith("3 of 9 shown")


def test_json_errors_follow_the_variable_and_the_flag_beats_it(emqctl: Emqctl, world: worlds.World) -> None:
    env = {"EMQCTL_OUTPUT": "json"}
    assert emqctl("browse", "nope", env=env).err.startswith('{"error": ')
    assert emqctl("browse", "nope", "-o", "csv", env=env).err.startswith("emqctl: ")


def test_a_usage_error_is_text_in_every_format(emqctl: Emqctl) -> None:
    for output in OUTPUTS:
        for words in (["depth", "a{b"], ["depth", "--nope"], ["browse"]):
            assert emqctl("-o", output, *words).err.startswith("emqctl: ")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["browse", "nope"], "not-found"),
        (["browse", "wrongtype"], "refused"),
        (["depth", "-u", "redis://127.0.0.1:1/0"], "unreachable"),
        (["depth", "-u", "redis://:x@127.0.0.1:{port}/0"], "denied"),
        (["depth", "--password-file", "/nonexistent"], "local-fault"),
    ],
)
def test_kinds_of_errors_have_stable_names(emqctl: Emqctl, world: worlds.World, words: list[str], kind: str) -> None:
    port = emqctl.url.split(":")[2].split("/")[0]
    result = emqctl(*(word.format(port=port) for word in words), "-o", "json")
    assert result.error["kind"] == kind
    assert result.error["code"] == result.code
    assert list(result.error) == ["code", "kind", "message", "hint"]


@pytest.fixture
def many(redis_client: redis.Redis) -> redis.Redis:
    """A queue of 1,500 jobs: three batches of rows."""
    redis_client.set("{emq}:version", "echomq:3.0.0")
    with redis_client.pipeline(transaction=False) as pipeline:
        for nth in range(1500):
            job = str(BrandedId("JOB", nth << 22))
            pipeline.zadd("emq:{q}:pending", {job: 0})
            pipeline.hset(f"emq:{{q}}:job:{job}", mapping={"attempts": 0, "payload": f"{nth:060d}"})
        pipeline.execute()
    return redis_client


def test_a_document_that_breaks_off_midway_is_closed_with_the_error_in_it(
    emqctl: Emqctl, many: redis.Redis, proxy: wire.Proxy
) -> None:
    proxy.cut_down = 120_000
    result = emqctl("browse", "q", "-n", "0", "-o", "json", url=proxy.url)
    document = result.json
    assert (result.code, document["error"]["code"], document["error"]["kind"]) == (6, 6, "unreachable")
    assert result.error == document["error"]
    assert document["more"] is True
    assert document["schema"] == "emqctl/browse/1"
    assert 0 < len(document["records"]) < 1500


@pytest.mark.parametrize("output", ["plain", "jsonl", "ids"])
def test_lines_that_were_printed_before_a_failure_stay(
    emqctl: Emqctl, many: redis.Redis, proxy: wire.Proxy, output: str
) -> None:
    proxy.cut_down = 120_000
    result = emqctl("browse", "q", "-n", "0", "-o", output, url=proxy.url)
    assert result.code == 6
    assert 0 < result.out.count("\n") < 1500
    assert result.out.endswith("\n")


def test_a_document_that_fails_before_its_first_record_does_not_begin(
    emqctl: Emqctl, many: redis.Redis, proxy: wire.Proxy
) -> None:
    for cut in (0, 100, 30_000):
        proxy.cut_down = cut
        result = emqctl("browse", "q", "-n", "0", "-o", "json", url=proxy.url)
        assert (result.code, result.out) == (6, "")


def test_quiet_leaves_out_notes_and_keeps_errors(emqctl: Emqctl, world: worlds.World) -> None:
    assert emqctl("browse", "broken", "-n", "3", "-q", "-v").err == ""
    assert emqctl("-q", "depth", "nope").summary == (0, "0\n", "")
    assert emqctl("browse", "nope", "-q").err.startswith("emqctl: no queue 'nope'")


def test_verbose_names_the_server_without_its_secret(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    redis_client.set("{emq}:version", "echomq:3.0.0")
    redis_client.execute_command("ACL", "SETUSER", "watcher", "on", ">s3cret", "~*", "+@all")
    url = emqctl.url.replace("//", "//watcher:s3cret@")
    result = emqctl("depth", "-v", url=url)
    assert "redis://***@127.0.0.1" in result.err
    assert "s3cret" not in result.err
    assert "watcher" not in result.err


def test_an_odd_queue_name_is_noted_once_and_looked_at(emqctl: Emqctl, world: worlds.World) -> None:
    for words in (["depth", "eu-west.orders:v2 ü"], ["browse", "eu-west.orders:v2 ü", "-o", "ids"]):
        result = emqctl(*words)
        assert result.code == 0
        assert result.err.splitlines() == [
            "note: queue name 'eu-west.orders:v2 ü' is outside the documented grammar [A-Za-z0-9._-]{1,128}"
        ]
    assert emqctl("depth", "eu-west.orders:v2 ü", "-q").err == ""
    assert emqctl("depth", "x" * 129).err.count("outside the documented grammar") == 1
    assert emqctl("depth", "x" * 128).err.count("outside the documented grammar") == 0


def test_nothing_found_is_an_empty_document_and_no_error(emqctl: Emqctl, world: worlds.World) -> None:
    expected = {"table": "", "plain": "", "jsonl": "", "ids": ""}
    expected["json"] = '{"schema": "emqctl/browse/1", "records": [], "more": false}\n'
    expected["csv"] = "id,minted,attempts,lane,payload_bytes,preview\n"
    for output in OUTPUTS:
        assert emqctl("browse", "idle", "-o", output).summary == (0, expected[output], "")


def test_nothing_found_is_said_at_a_terminal(emqctl: Emqctl, world: worlds.World) -> None:
    """A person at a terminal gets one line on stderr in place of a table."""
    result = emqctl("browse", "idle", tty=True)
    assert (result.code, result.out, result.err.count("\n")) == (0, "", 1)
    assert emqctl("browse", "idle", tty=True, env={}, columns=80).err.startswith("note: ")
    assert emqctl("browse", "idle", "-q", tty=True).err == ""
