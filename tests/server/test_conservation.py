"""Requeue while workers kill every job again, while it is killed itself, while its connection is cut.

Nothing is lost, nothing is in two places, counters and ring are true, the account is true, and a second
run finishes. A case is made again by its seed: ``pytest -k 'kill and 7'``; EMQCTL_TEST_SEED moves the seeds
on, and EMQCTL_TEST_DEPTH=full makes it 100 kills and 100 cuts of 20,000 jobs.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import conservation
import pytest
import redis
import wire
import worlds
from cli.running import EmqctlProcess, Result
from conservation import Look
from servers import connect

from emqctl.changes import BATCH
from emqctl.demo.server import PrivateServer
from emqctl.demo.worker import Claimed, Rejected, Transitions
from emqctl.keyspace import QueueKeys

FULL = os.environ.get("EMQCTL_TEST_DEPTH") == "full"
JOBS = 20_000 if FULL else 5_000
LANES = 50
FIRST = int(os.environ.get("EMQCTL_TEST_SEED", "0"))
SEEDS = range(FIRST, FIRST + (100 if FULL else 8))
KEYS = QueueKeys("jobs")
ALL = ("requeue", "jobs", "--all", "--yes")
LEASE = 60_000
PATIENCE_S = 60


@pytest.fixture
def emqctl(server: PrivateServer, tmp_path: Path) -> EmqctlProcess:
    """Run emqctl in a process of its own; what it keeps of its runs goes to the test's folder."""
    return EmqctlProcess(server.url, {"XDG_STATE_HOME": str(tmp_path)})


def load(client: redis.Redis, seed: int, jobs: int = JOBS) -> Look:
    worlds.send(client, conservation.dead_queue("jobs", jobs, LANES, Random(seed)))
    look = Look(client, "jobs")
    assert look.faults() == []
    assert len(look.at("dead")) == jobs
    return look


class Workers:
    """Threads that claim flat jobs and lanes' jobs, complete a few and bury the others at once."""

    def __init__(self, server: PrivateServer, completes: float, seed: int) -> None:
        self.claimed: list[Claimed] = []
        self.completed: list[bytes] = []
        self.failed: list[str] = []
        self._server, self._completes, self._seed = server, completes, seed
        self._ended = threading.Event()

    @property
    def killed(self) -> int:
        """How many jobs died so far, about."""
        return len(self.claimed) - len(self.completed)

    def work(self, nth: int) -> None:
        """Claim until told to stop: even ones lanes, odd ones the flat set."""
        rng = Random(self._seed * 10 + nth)
        with connect(self._server) as client:
            jobs = Transitions(client, "jobs")
            claim = jobs.claim if nth % 2 else jobs.lane_claim
            while not self._ended.is_set():
                job = claim(LEASE)
                if job is None:
                    time.sleep(0.002)
                    continue
                self.claimed.append(job)
                try:
                    if rng.random() < self._completes:
                        jobs.complete(job.id, job.token)
                        self.completed.append(job.id)
                    elif jobs.retry(job.id, job.token, 0, 1, "killed again") != "dead":
                        self.failed.append(f"{job.id!r} did not die")
                except Rejected as refused:
                    self.failed.append(f"{job!r}: {refused.wire}")

    @contextmanager
    def running(self, threads: int = 4) -> Iterator[None]:
        """Work while the block lasts; nothing is left in flight after it."""
        workers = [threading.Thread(target=self.work, args=(nth,)) for nth in range(threads)]
        for worker in workers:
            worker.start()
        try:
            yield
        finally:
            self._ended.set()
            for worker in workers:
                worker.join()


def say(line: str) -> None:
    """Print what pytest shows of a failed test, and of all with -rP."""
    print(line)  # noqa: T201


def wait_until(condition: Callable[[], bool], *, step_s: float = 0.0005) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(step_s)


def is_drained(client: redis.Redis, flying: int) -> bool:
    """Tell whether nothing can be claimed and nothing but ``flying`` jobs is in flight."""
    with client.pipeline() as moment:
        moment.zcard(KEYS.pending).llen(KEYS.fixed("ring")).zcard(KEYS.active)
        return bool(moment.execute() == [0, 0, flying])


def assert_kept(look: Look, before: Look, workers: Workers | None = None) -> None:
    """Check that the queue is sound and holds exactly the jobs it held, less those that were completed."""
    completed = Counter(workers.completed if workers else ())
    assert look.faults() == []
    assert set(completed.values()) <= {1}
    assert look.rows.keys() == before.rows.keys() - completed.keys()
    for member, row in look.rows.items():
        assert row[b"payload"] == before.rows[member][b"payload"]
        assert int(row[b"attempts"]) >= int(before.rows[member][b"attempts"])
    assert workers is None or workers.failed == []


def records(result: Result) -> list[dict[str, Any]]:
    """Return the records of jsonl, the last line left out where it was cut off."""
    lines = result.stdout.split(b"\n")
    with suppress(ValueError):
        json.loads(lines[-1])
        lines.append(b"")
    return [json.loads(line) for line in lines[:-1]]


def test_workers_that_kill_every_job_again_cannot_make_a_run_last_or_lose_a_job(
    redis_client: redis.Redis, server: PrivateServer, emqctl: EmqctlProcess
) -> None:
    before = load(redis_client, FIRST)
    workers = Workers(server, 0.1, FIRST)
    with workers.running():
        process = emqctl.start(*ALL, "--rate", "2000/s", "-o", "jsonl")
        out, err = process.communicate(timeout=PATIENCE_S)
        during = workers.killed
        wait_until(lambda: is_drained(redis_client, len(before.at("active"))))
    result = Result(process.returncode, out, err)

    told = records(result)
    assert (result.code, {each["result"] for each in told}) == (0, {"moved"}), result.err
    moved = Counter(each["id"].encode() for each in told)
    assert list(moved) == sorted(moved)
    assert set(moved.values()) == {1}
    assert before.at("dead") <= moved.keys() <= before.rows.keys()
    assert during > JOBS / 8  # else they were no storm beside it
    look = Look(redis_client, "jobs")
    assert_kept(look, before, workers)
    assert not look.at("pending")
    waited, waits = before.at("pending") | before.at("lane"), look.at("lane")
    claims = Counter(job.id for job in workers.claimed)
    for member in before.rows.keys() - before.at("active"):
        assert claims[member] == (member in waited) + moved[member] - (member in waits)
    assert look.at("dead") == claims.keys() - set(workers.completed) - waits


def test_two_operators_move_each_job_once(redis_client: redis.Redis, emqctl: EmqctlProcess) -> None:
    before = load(redis_client, FIRST)
    with emqctl.start(*ALL, "-o", "jsonl") as one, emqctl.start(*ALL, "-o", "jsonl") as other:
        results = [Result(each.wait(), out, err) for each in (one, other) for out, err in [each.communicate()]]
    assert [result.code for result in results] == [0, 0]
    moved = Counter(each["id"] for result in results for each in records(result) if each["result"] == "moved")
    assert moved == Counter(member.decode() for member in before.at("dead"))
    assert_kept(Look(redis_client, "jobs"), before)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kill_at_any_moment_loses_nothing_and_a_second_run_finishes(
    redis_client: redis.Redis, server: PrivateServer, emqctl: EmqctlProcess, seed: int
) -> None:
    """Every second time workers kill the jobs again meanwhile."""
    rng = Random(seed)
    before = load(redis_client, seed)
    workers = Workers(server, 0.1, seed)
    threads = 4 * (seed % 2)
    left = rng.randrange(JOBS)
    with workers.running(threads), emqctl.start(*ALL) as process:
        killed_again = 0
        while process.poll() is None and redis_client.zcard(KEYS.dead) - killed_again > left:
            killed_again = workers.killed
        time.sleep(rng.uniform(0, 0.002))
        process.kill()
    look = Look(redis_client, "jobs")
    say(f"seed {seed}: killed by {process.returncode}, {len(look.at('dead')):,} dead, {workers.killed:,} killed again")
    assert_kept(look, before, workers)
    finishes(redis_client, emqctl, look)


def finishes(client: redis.Redis, emqctl: EmqctlProcess, before: Look) -> None:
    result = emqctl(*ALL, "-o", "jsonl")
    assert result.code == 0, result.err
    assert {each["id"].encode() for each in records(result)} == before.at("dead")
    look = Look(client, "jobs")
    assert_kept(look, before)
    assert look.at("dead") == set()


@pytest.fixture(scope="module")
def lengths() -> dict[str, int]:
    """How many bytes pass each way in a run that is not cut, measured once."""
    return {}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cut_at_any_byte_loses_nothing_and_the_account_is_true_and_a_second_run_finishes(
    redis_client: redis.Redis,
    server: PrivateServer,
    emqctl: EmqctlProcess,
    proxy: wire.Proxy,
    lengths: dict[str, int],
    seed: int,
) -> None:
    """Even seeds cut what goes to the server, odd ones what comes from it."""
    redis_client.script_flush()  # the program is sent in each run, so that all are of one length
    if not lengths:
        load(redis_client, seed)
        assert emqctl(*ALL, url=proxy.url).code == 0
        lengths.update(up=proxy.up, down=proxy.down)
        redis_client.flushall()
        redis_client.script_flush()
    direction = "down" if seed % 2 else "up"
    before = load(redis_client, seed)
    at = Random(seed).randrange(lengths[direction] - 1000)
    setattr(proxy, f"cut_{direction}", at)

    result = emqctl(*ALL, "-o", "jsonl", url=proxy.url)
    look = Look(redis_client, "jobs")
    told = records(result)
    by_result = Counter(each["reason"] or each["result"] for each in told)
    say(f"seed {seed}: {direction} cut at byte {at:,}: {dict(by_result)}, {len(look.at('dead')):,} dead")
    assert result.code == 6, result.err
    assert_kept(look, before)
    dead = {member.decode() for member in look.at("dead")}
    moved = {each["id"] for each in told if each["result"] == "moved"}
    unknown = {each["id"] for each in told if each["reason"] == "no-answer"}
    untold = {member.decode() for member in before.at("dead")} - moved - unknown
    assert set(by_result) <= {"moved", "no-answer"}
    assert len(unknown) <= BATCH
    assert moved.isdisjoint(dead)
    assert untold <= dead
    assert unknown <= dead or unknown.isdisjoint(dead)  # a batch is one step
    finishes(redis_client, emqctl, look)
