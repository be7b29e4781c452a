"""How fast, how gentle and how small ``emqctl requeue`` is: ``PYTHONPATH=.:tests python -m bench.requeue``.

Against a bare loop that sends the same program in batches of the same size, beside it on the same server.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import median

import conservation
import redis
from servers import connect

from emqctl.changes import BATCH, Pace
from emqctl.demo.server import PrivateServer, find_binary
from emqctl.keyspace import VERSION_KEY, QueueKeys
from emqctl.requeue import Options, requeue
from emqctl.scripts import program
from emqctl.selection import ROWS, Filters, walk

KEYS = QueueKeys("jobs")
LANES = 50
LOWEST_RATIO = 0.8

_LOAD = """
for nth = 3, #ARGV do
  local row = KEYS[1] .. 'job:' .. ARGV[nth]
  redis.call('HSET', row, 'state', 'dead', 'attempts', 3, 'payload', ARGV[1], 'last_error', 'boom')
  if ARGV[2] ~= '' then redis.call('HSET', row, 'group', ARGV[2]) end
  redis.call('ZADD', KEYS[1] .. 'dead', 0, ARGV[nth])
end"""


def say(line: str) -> None:
    """Print a figure as soon as it is there."""
    print(line, flush=True)  # noqa: T201


def load(client: redis.Redis, jobs: int) -> None:
    """Write so many dead jobs: every second hundred in one of fifty lanes."""
    client.flushall()
    client.set(VERSION_KEY, "echomq:3.0.0")
    script = client.register_script(_LOAD)
    ids = (conservation.job_id(nth) for nth in range(jobs))
    nth = 0
    while some := list(islice(ids, BATCH)):
        lane = conservation.lane_name(nth % LANES) if nth % 2 else b""
        script(keys=[KEYS.prefix], args=[b'{"order":48213,"total":"19.90"}', lane, *some])
        nth += 1


def product(server: PrivateServer, _client: redis.Redis) -> int:
    """Requeue through emqctl's core; return how many moved."""
    with conservation.opened(server.url) as queue:
        pages = walk(queue, KEYS.dead, Filters())
        return sum(each.is_done for batch in requeue(queue, pages, Options(), Pace(walked=True)) for each in batch)


def bare(_server: PrivateServer, client: redis.Redis) -> int:
    """Send the same program in batches of the same size, ids read page by page; return how many moved."""
    text = program("requeue")
    client.script_load(text.text)
    moved, low = 0, b"-"
    while page := client.execute_command("ZRANGE", KEYS.dead, low, "+", "BYLEX", "LIMIT", 0, ROWS):
        for at in range(0, len(page), BATCH):
            words = [word for each in page[at : at + BATCH] for word in (each, "", "")]
            answers = client.evalsha(text.sha, 2, KEYS.prefix, KEYS.dead, "", *words)
            moved += sum(answer[0] == b"moved" for answer in answers)
        low = b"(" + page[-1]
    return moved


def speed(server: PrivateServer, client: redis.Redis, jobs: int, rounds: int) -> float:
    """Print jobs a second of both, in turn; return the median of the rounds' ratios."""
    rates: dict[str, list[float]] = {"emqctl's core": [], "bare loop": []}
    for _ in range(rounds):
        for name, run in (("emqctl's core", product), ("bare loop", bare)):
            load(client, jobs)
            began = time.perf_counter()
            moved = run(server, client)
            rates[name].append(moved / (time.perf_counter() - began))
            assert moved == jobs, (name, moved)
    for name, measured in rates.items():
        say(f"{name}: {median(measured):,.0f} jobs/s (of {', '.join(f'{rate:,.0f}' for rate in measured)})")
    ratio = median(one / other for one, other in zip(*rates.values(), strict=True))
    say(f"ratio: {ratio:.2f}, at least {LOWEST_RATIO}")
    return ratio


@contextmanager
def pinging(server: PrivateServer) -> Iterator[list[float]]:
    """Collect the milliseconds of each PING of another client meanwhile."""
    ended, taken = threading.Event(), []

    def ping() -> None:
        with connect(server) as client:
            while not ended.is_set():
                began = time.perf_counter()
                client.ping()
                taken.append((time.perf_counter() - began) * 1000)
                time.sleep(0.0005)

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        yield taken
    finally:
        ended.set()
        thread.join()


def latency(server: PrivateServer, client: redis.Redis, jobs: int, variables: dict[str, str]) -> None:
    """Print what another client's PING takes beside nothing and beside a run."""
    beside: dict[str, Callable[[], object]] = {
        "nothing": lambda: time.sleep(2),
        "emqctl requeue --all": lambda: emqctl(server, variables, "--all", "--yes"),
        "emqctl requeue --error boom": lambda: emqctl(server, variables, "--error", "boom", "--yes"),
    }
    for name, run in beside.items():
        load(client, jobs)
        client.config_resetstat()
        with pinging(server) as taken:
            run()
        taken.sort()
        middle, late = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
        say(f"PING beside {name}: median {middle:.2f}, p99 {late:.2f}, most {taken[-1]:.2f} ms of {len(taken):,}")
        calls = client.info("latencystats").get("latency_percentiles_usec_evalsha")
        if calls:
            say(f"  the server's own time for a call, µs: {calls}")


def emqctl(
    server: PrivateServer, variables: dict[str, str], *words: str, stdin: Path | None = None
) -> tuple[float, int]:
    """Run the command to its end; return its seconds and its peak memory in kB."""
    began = time.perf_counter()
    with open(stdin or os.devnull, "rb") as source, tempfile.TemporaryFile() as sink:  # noqa: PTH123 - may be a device
        process = subprocess.Popen(
            [sys.executable, "-m", "emqctl", "requeue", "jobs", *words],
            env={**os.environ, **variables, "EMQCTL_URL": server.url},
            stdin=source,
            stdout=sink,
            stderr=sink,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        sink.seek(-min(2000, sink.tell()), os.SEEK_CUR)
        assert process.returncode == 0, (words, sink.read())
    return time.perf_counter() - began, usage.ru_maxrss


def memory(
    server: PrivateServer, client: redis.Redis, sizes: list[int], folder: Path, variables: dict[str, str]
) -> None:
    """Print seconds and peak memory of whole runs over sets of growing size."""
    listing = folder / "ids"
    ways: dict[str, tuple[tuple[str, ...], Path | None]] = {
        "--all": (("--all", "--yes"), None),
        "--all --dry-run -o jsonl": (("--all", "--dry-run", "-o", "jsonl"), None),
        "--error boom": (("--error", "boom", "--yes"), None),
        "- (ids on stdin)": (("-",), listing),
    }
    for name, (words, stdin) in ways.items():
        figures = []
        for jobs in sizes:
            load(client, jobs)
            with listing.open("wb") as lines:
                lines.writelines(conservation.job_id(nth) + b"\n" for nth in range(jobs))
            seconds, peak_kb = emqctl(server, variables, *words, stdin=stdin)
            figures.append(f"{jobs:,} jobs {seconds:.1f} s {peak_kb / 1024:.0f} MB")
        say(f"requeue {name}: {'; '.join(figures)}")


def main() -> int:
    """Measure; return 1 when emqctl is too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        PrivateServer(find_binary(os.environ), tcp=True) as server,
        connect(server) as client,
    ):
        variables = {"XDG_STATE_HOME": folder}
        about = client.info("server")
        say(f"{about.get('valkey_version', about['redis_version'])}, {os.cpu_count()} cores")
        ratio = speed(server, client, asked.jobs, asked.rounds)
        latency(server, client, asked.jobs, variables)
        memory(server, client, asked.sizes, Path(folder), variables)
    return int(ratio < LOWEST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
