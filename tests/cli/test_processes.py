"""What only a process can show: signals, closed and full outputs, locales, and what a start costs."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
import worlds
from cli import stubs
from cli.running import Emqctl, EmqctlProcess, Result

from emqctl.branded import BrandedId
from emqctl.demo.server import PrivateServer

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
JOBS = 2000


@pytest.fixture
def many(redis_client: redis.Redis) -> redis.Redis:
    """A queue of 2,000 jobs: several batches of rows."""
    redis_client.set("{emq}:version", "echomq:3.0.0")
    with redis_client.pipeline(transaction=False) as pipeline:
        for nth in range(JOBS):
            job = str(BrandedId("JOB", nth << 22))
            pipeline.zadd("emq:{q}:pending", {job: 0})
            pipeline.hset(f"emq:{{q}}:job:{job}", mapping={"attempts": 0, "payload": f"{nth:060d}"})
        pipeline.execute()
    return redis_client


@contextmanager
def held(server: PrivateServer, limit: int) -> Iterator[tuple[str, threading.Event]]:
    """Yield a URL whose answers stop after so many bytes, and the event of that."""
    stopped = threading.Event()
    with stubs.listening(stubs.holding_after(server.socket, limit, stopped)) as port:
        yield f"redis://127.0.0.1:{port}/0", stopped


@pytest.mark.parametrize(("number", "code"), SIGNALS, ids=str)
@pytest.mark.parametrize("output", ["plain", "json"])
def test_a_signal_ends_a_run_that_waits_for_an_answer_quietly(
    emqctl_process: EmqctlProcess, many: redis.Redis, server: PrivateServer, number: int, code: int, output: str
) -> None:
    """128 and its number, nothing on either stream, no traceback."""
    with held(server, 0) as (url, stopped), emqctl_process.start("browse", "q", "-o", output, url=url) as process:
        assert stopped.wait(10)
        process.send_signal(number)
        out, err = process.communicate(timeout=5)
    assert (process.returncode, out, err) == (code, b"", b"")


@pytest.mark.parametrize(("number", "code"), SIGNALS, ids=str)
def test_a_signal_midway_keeps_what_was_found_and_closes_the_document(
    emqctl_process: EmqctlProcess, many: redis.Redis, server: PrivateServer, tmp_path: Path, number: int, code: int
) -> None:
    result = interrupted(emqctl_process, server, tmp_path / "out", "json", number)
    document = result.json
    assert document["error"] == {
        "code": code,
        "kind": "interrupted",
        "message": f"ended by signal {number}",
        "hint": None,
    }
    assert document["more"] is True
    assert 500 <= len(document["records"]) < JOBS
    assert (result.code, result.err) == (code, "")


@pytest.mark.parametrize("output", ["jsonl", "plain", "ids"])
def test_a_signal_midway_keeps_whole_lines(
    emqctl_process: EmqctlProcess, many: redis.Redis, server: PrivateServer, tmp_path: Path, output: str
) -> None:
    result = interrupted(emqctl_process, server, tmp_path / "out", output, signal.SIGINT)
    assert (result.code, result.err) == (130, "")
    assert result.out.endswith("\n")
    assert 500 <= len(result.lines) < JOBS


def interrupted(emqctl_process: EmqctlProcess, server: PrivateServer, file: Path, output: str, number: int) -> Result:
    """List everything, of which a part arrives; then send a signal."""
    words = ("browse", "q", "-n", "0", "-o", output)
    with (
        held(server, 150_000) as (url, stopped),
        file.open("wb") as out,
        emqctl_process.start(*words, url=url, stdout=out) as process,
    ):
        assert stopped.wait(10)
        time.sleep(0.2)  # for it to read what was passed on
        process.send_signal(number)
        _, err = process.communicate(timeout=5)
    return Result(process.returncode, file.read_bytes(), err)


def test_a_signal_ignored_from_outside_stays_ignored(
    emqctl_process: EmqctlProcess, many: redis.Redis, server: PrivateServer
) -> None:
    """As under nohup."""
    with held(server, 0) as (url, stopped):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            process = emqctl_process.start("browse", "q", "--request-timeout", "1s", url=url)
        finally:
            signal.signal(signal.SIGHUP, before)
        with process:
            assert stopped.wait(10)
            process.send_signal(signal.SIGHUP)
            process.communicate(timeout=5)
    assert process.returncode == 6


def test_a_reader_that_goes_away_ends_a_run_quietly(emqctl_process: EmqctlProcess, many: redis.Redis) -> None:
    for output in ("plain", "json", "jsonl", "csv", "ids", "table"):
        words = ("browse", "q", "-n", "0", "--payload", "-o", output)
        with emqctl_process.start(*words, bufsize=0) as process:
            assert process.stdout
            assert process.stderr
            assert process.stdout.read(10)
            process.stdout.close()
            assert process.wait(10) == 141
            assert process.stderr.read() == b""


def test_a_reader_that_was_gone_from_the_start_ends_a_run_quietly(
    emqctl_process: EmqctlProcess, many: redis.Redis
) -> None:
    for words in (
        ("depth", "q"),
        ("depth", "-o", "json"),
        ("key", "orders", "pending"),
        (),
        ("--help",),
        ("id", "--help"),
    ):
        reading, writing = os.pipe()
        os.close(reading)
        with emqctl_process.start(*words, stdout=writing) as process:
            os.close(writing)
            _, err = process.communicate(timeout=10)
        assert (process.returncode, err) == (141, b""), words


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize(
    "words",
    [
        ("depth", "q"),
        ("depth", "q", "-o", "json"),
        ("browse", "q", "-n", "0"),
        ("browse", "q", "-n", "0", "-o", "csv"),
        ("browse", "q", "-o", "table"),
        ("key", "orders", "pending"),
        (),
        ("--help",),
    ],
    ids=" ".join,
)
def test_a_full_disk_is_this_machines_fault_in_one_line(
    emqctl_process: EmqctlProcess, many: redis.Redis, words: tuple[str, ...]
) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        result = emqctl_process(*words, stdout=full)
    assert result.code == 1
    message = "cannot write to standard output: No space left on device"
    last = result.err.splitlines()[-1]
    assert last == f"emqctl: {message}" or json.loads(last)["error"]["message"] == message
    assert "Traceback" not in result.err
    assert "Exception ignored" not in result.err


@pytest.mark.parametrize("words", [("depth", "q"), ("browse", "q", "-n", "0"), ("key", "orders", "pending")])
def test_a_stdout_that_cannot_be_written_is_this_machines_fault(
    emqctl_process: EmqctlProcess, many: redis.Redis, words: tuple[str, ...]
) -> None:
    with open("/dev/null", "rb") as unwritable:  # noqa: PTH123 - a device
        result = emqctl_process(*words, stdout=unwritable)
    assert result.code == 1
    assert result.err.splitlines()[-1].startswith("emqctl: cannot write to standard output")
    assert "Traceback" not in result.err


@pytest.mark.parametrize("words", ["depth q", "key orders pending", "browse nope"])
def test_a_stdout_that_is_closed_is_said_in_one_line(
    emqctl_process: EmqctlProcess, many: redis.Redis, words: str
) -> None:
    result = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -m emqctl {words} >&-', sys.executable],
        env=emqctl_process.variables(),
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert result.returncode == (4 if "nope" in words else 1)
    assert b"Traceback" not in result.stderr
    assert result.stderr.startswith(b"emqctl: ")


@pytest.mark.parametrize("redirected", ["2>&-", "2>/dev/full"])
def test_notes_and_errors_that_nobody_can_read_change_no_result(
    emqctl_process: EmqctlProcess, many: redis.Redis, redirected: str
) -> None:
    for words, code, out in (
        ("depth q", 0, b"2000\n"),
        ("depth nope", 0, b"0\n"),
        ("browse nope", 4, b""),
        ("depth a{b", 2, b""),
    ):
        result = subprocess.run(
            ["/bin/sh", "-c", f'"$0" -m emqctl {words} {redirected}', sys.executable],
            env=emqctl_process.variables(),
            capture_output=True,
            check=False,
            timeout=20,
        )
        assert (result.returncode, result.stdout) == (code, out), words


def test_a_stdin_that_is_closed_holds_nothing(emqctl_process: EmqctlProcess) -> None:
    result = subprocess.run(
        ["/bin/sh", "-c", '"$0" -m emqctl key --parse - <&-', sys.executable],
        env=emqctl_process.variables(),
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
    ids=str,
)
def test_no_locale_breaks_anything(
    emqctl: Emqctl, emqctl_process: EmqctlProcess, redis_client: redis.Redis, world: worlds.World, env: dict[str, str]
) -> None:
    """Off a terminal the data is UTF-8 in every locale; a note may be spelt in escapes."""
    odd = "eu-west.orders:v2 ü"
    usual = emqctl("browse", "orders", "-n", "45", "-q")
    assert emqctl_process("browse", "orders", "-n", "45", "-q", env=env).stdout == usual.stdout
    for words in (["browse", odd, "-o", "table"], ["depth"]):
        result = emqctl_process(*words, env=env)
        assert result.code == (3 if words == ["depth"] else 0)
        assert b"Traceback" not in result.stderr
    for words in ([], ["browse", "--help"], ["key", "ü{", "dead"]):
        result = emqctl_process(*words, env=env)
        assert result.code in {0, 2}
        assert b"Traceback" not in result.stderr


def test_a_queue_name_of_any_bytes_can_be_typed(emqctl_process: EmqctlProcess, world: worlds.World) -> None:
    for env in ({}, {"LC_ALL": "C"}):
        result = emqctl_process("depth", b"\xff\xfe", "-q", env=env)
        assert (result.code, result.stdout, result.stderr) == (0, b"1\n", b"")


# Start-up


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        ([], {"redis", "rich", "hiredis", "asyncio"}),
        (["--help"], {"redis", "rich", "hiredis", "asyncio"}),
        (["browse", "--help"], {"redis", "rich", "hiredis", "asyncio"}),
        (["key", "orders", "pending"], {"redis", "rich", "hiredis", "asyncio"}),
        (["slot", "orders"], {"redis", "rich", "hiredis", "asyncio"}),
        (["id", "JOB0Nb1VTbfnu4", "-o", "json"], {"redis", "rich", "hiredis", "asyncio"}),
        (["depth", "a{b"], {"redis", "rich", "hiredis"}),
        (["nope"], {"redis", "rich", "hiredis", "emqctl.cli.browse"}),
        (["depth", "q", "-o", "json"], {"rich"}),
        (["browse", "q"], {"rich"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_heavy_modules_are_loaded_only_where_they_are_used(
    emqctl_process: EmqctlProcess, many: redis.Redis, words: list[str], unwanted: set[str]
) -> None:
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from emqctl.cli import main\n"
        "main()\n"
    )
    result = emqctl_process(*words, python=["-c", program])
    assert set(result.err.splitlines()[-1].split()) & unwanted == set()


def test_a_start_without_a_server_is_quick(emqctl_process: EmqctlProcess) -> None:
    """The best of five in CPU seconds, against an interpreter that loads Click: only a heavy import breaks it."""

    def best(python: list[str], *words: str) -> float:
        spent = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            emqctl_process(*words, python=python)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(spent)

    assert best(["-m", "emqctl"], "key", "orders", "pending") < 2 * best(["-c", "import click, hiredis"]) + 0.05


def test_the_program_is_the_module(emqctl_process: EmqctlProcess) -> None:
    assert emqctl_process("key", "orders", "pending").summary == (0, "emq:{orders}:pending\n", "")
    assert emqctl_process("key", "orders").code == 2
