"""The living demo: everything happens in it, and nothing gets lost."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest
import redis
from listener import Listener
from redis.backoff import NoBackoff
from redis.retry import Retry

from emqctl import branded
from emqctl.demo import life
from emqctl.demo.server import PrivateServer, find_binary
from emqctl.demo.worker import Rejected, Transitions
from emqctl.keyspace import QueueKeys, parse

PACE = 120  # four minutes pass in two seconds
PATIENCE_S = 60
KINDS = {
    *("enqueue", "schedule", "claim", "lane_enqueue", "lane_claim", "lane_wclaim"),
    *("complete", "retry scheduled", "retry dead", "promote", "reap", "sweep_stalled"),
    *("extend_lock", "update_progress", "add_log"),
}
STATES = {"pending": b"pending", "lane": b"pending", "active": b"active", "schedule": b"scheduled", "dead": b"dead"}


@pytest.fixture
def client(server: PrivateServer, redis_client: redis.Redis) -> Iterator[Listener]:
    """The client that life uses, on an empty server."""
    with Listener(unix_socket_path=str(server.socket), protocol=2, driver_info=None) as client:
        yield client


def test_every_kind_of_thing_happens_and_every_job_is_in_one_place(
    redis_client: redis.Redis, demo_world: int, client: Listener
) -> None:
    with living(lambda: client):
        wait_until(lambda: kinds(client) >= KINDS and completed(client) >= 200)
    assert_sound(redis_client, "orders", "emails")


def test_life_needs_nothing_to_begin_with(redis_client: redis.Redis, client: Listener) -> None:
    with living(lambda: client):
        wait_until(lambda: kinds(client) >= {"claim", "lane_claim", "complete"})
    assert_sound(redis_client, "orders", "emails")


def test_life_survives_an_operator_and_broken_data(redis_client: redis.Redis, client: Listener) -> None:
    orders, broken = QueueKeys("orders"), b"JOB00000000001"
    redis_client.hset(orders.row(broken), mapping={"attempts": "many", "payload": "{}"})
    redis_client.zadd(orders.pending, {broken: 0, b"garbage": 0})
    redis_client.sadd(QueueKeys("emails").fixed("paused"), "garbage")
    with living(lambda: client):
        wait_until(lambda: kinds(client) >= {"reap", "complete"})
        redis_client.flushall()
        client.heard.clear()
        wait_until(lambda: kinds(client) >= {"enqueue", "lane_enqueue", "claim", "complete"})


def test_a_worker_does_not_renew_the_lease_of_a_job_that_was_taken_from_it(client: Listener) -> None:
    queue, rng = Transitions(client, "orders"), Random(1)
    crew = life._Crew(life._Orders(queue, rng), rng, 1)
    queue.enqueue(b"JOB00000000001", "{}")
    taken = queue.claim(0)
    assert taken
    crew._runs = [life._Run(taken, time.time() + 60, 0)]
    queue.reap()
    with pytest.raises(Rejected, match="lapsed"):
        crew._renew(crew._runs[0])
    crew.beat()
    assert "extend_lock" not in kinds(client)


def test_life_ends_when_it_is_told_to(client: Listener) -> None:
    with living(lambda: client, pace=1):
        wait_until(lambda: bool(client.heard))


def test_life_ends_quietly_with_its_server() -> None:
    with PrivateServer(find_binary(os.environ)) as server:
        running = ExitStack()
        running.enter_context(living(lambda: one_try(server.socket), stops=False))
        with one_try(server.socket) as observer:
            wait_until(lambda: observer.dbsize() > 0)
    running.close()


def test_life_does_not_begin_without_a_server(tmp_path: Path) -> None:
    life.live(lambda: one_try(tmp_path / "none"), Event(), 1)


def test_ids_rise_within_a_millisecond_and_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "host_ms", lambda: 1_767_225_600_000)
    ids = [branded.parse(raw) for raw in islice(life.minted("JOB", 1023), 5000)]
    assert ids == sorted(set(ids))
    assert {minted.node for minted in ids} == {1023}
    assert ids[-1].minted_ms == 1_767_225_600_001


def one_try(socket: Path) -> redis.Redis:
    """Return a client that gives up at once."""
    return redis.Redis(unix_socket_path=str(socket), retry=Retry(NoBackoff(), 0))


@contextmanager
def living(connect: Callable[[], redis.Redis], pace: float = PACE, *, stops: bool = True) -> Iterator[None]:
    """Live meanwhile, and see it end at once after that, by itself if it is not told to."""
    stop = Event()
    thread = Thread(target=life.live, args=(connect, stop, 1, pace))
    thread.start()
    try:
        yield
    finally:
        if stops:
            stop.set()
        thread.join(2)
        ended = not thread.is_alive()
        stop.set()
        thread.join()
    assert ended


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def completed(client: Listener) -> int:
    return sum(verb == "complete" and reply == 1 for verb, _, reply in client.heard)


def kinds(client: Listener) -> set[str]:
    """Return what had an effect so far."""
    happened = set()
    for verb, _, reply in client.heard:
        if verb == "retry":
            happened.add(f"retry {reply.decode() if isinstance(reply, bytes) else 'refused'}")
        elif any(reply) if verb == "sweep_stalled" else reply:
            happened.add(verb)
    return happened


def assert_sound(client: redis.Redis, *queues: str) -> None:
    """Check that rows and members of these queues are the same jobs, each in one place and saying which."""
    places: Counter[tuple[str | None, bytes]] = Counter()
    rows: dict[tuple[str | None, bytes], bytes | None] = {}
    for name in map(parse, client.scan_iter(count=1000)):
        if name.queue in queues and name.type in STATES:
            for member in client.zrange(name.key, 0, -1):
                places[name.queue, member] += 1
                assert client.hget(QueueKeys(name.queue).row(member), "state") == STATES[name.type]
        elif name.queue in queues and name.type == "job" and name.id:
            row = QueueKeys(name.queue).row(name.id.encode())
            rows[name.queue, name.id.encode()] = client.hget(row, "payload")
    assert set(places.values()) == {1}
    assert places.keys() == rows.keys()
    assert None not in rows.values()
