"""Grouping dead jobs in the core: every one counted once, in pages, within bounded memory and replies."""

from __future__ import annotations

import threading
import tracemalloc
from collections import Counter
from datetime import datetime, timezone

import pytest
import redis
import wire
import worlds

from emqctl import failures
from emqctl.branded import EPOCH_MS, BrandedId
from emqctl.config import Settings
from emqctl.connection import Server, connect
from emqctl.demo.server import PrivateServer
from emqctl.endpoint import parse_url
from emqctl.errors import Denied, WrongType
from emqctl.failures import Failures
from emqctl.folding import group_of
from emqctl.keyspace import QueueKeys
from emqctl.records import ErrorGroup
from emqctl.times import Instant
from emqctl.window import MintBounds

KEYS = QueueKeys("q")


def job(nth: int) -> bytes:
    """Return the id of a job minted ``nth`` milliseconds after the first."""
    return bytes(BrandedId("JOB", nth << 22))


def at(nth: int) -> datetime:
    return datetime.fromtimestamp((EPOCH_MS + nth) / 1000, timezone.utc)


def die(client: redis.Redis, errors: dict[bytes, bytes | None], keys: QueueKeys = KEYS) -> None:
    """Put dead jobs with these errors into a queue; None is a row without any."""
    with client.pipeline(transaction=False) as pipeline:
        for member, error in errors.items():
            fields = {"state": "dead", "attempts": 3, "payload": "{}"}
            pipeline.hset(keys.row(member), mapping=fields if error is None else {**fields, "last_error": error})
            pipeline.zadd(keys.dead, {member: 0})
        pipeline.execute()


def grouped(
    ours: Server, *queues: QueueKeys, bounds: MintBounds | None = None, alone: bool = False
) -> list[ErrorGroup]:
    found = Failures(ours, queues or (KEYS,), bounds or MintBounds(), alone=alone)
    for page in found.pages():
        found.add(page)
    assert found.looked_at == found.total
    return found.groups()


def test_every_dead_job_of_the_world_is_in_the_group_its_error_folds_to(
    world: worlds.World, ours: Server, redis_client: redis.Redis
) -> None:
    names = [name for name, known in world.queues.items() if isinstance(known["dead"], int)]
    expected: Counter[tuple[str, str | None]] = Counter()
    for name in names:
        keys = QueueKeys(name)
        for member in redis_client.zrange(keys.dead, 0, -1):
            is_hash = redis_client.type(keys.row(member)) == b"hash"
            error = redis_client.hget(keys.row(member), "last_error") if is_hash else None
            expected[name, None if error is None else group_of(error)] += 1
    groups = grouped(ours, *map(QueueKeys, names))
    found: Counter[tuple[str, str | None]] = Counter()
    for group in groups:
        assert isinstance(group.count, int)
        found[group.queue, group.group] += group.count
    assert found == expected
    assert sum(found.values()) == sum(world.queues[name]["dead"] for name in names)
    assert [group.count for group in groups] == sorted((group.count for group in groups), reverse=True)
    families = [group for group in groups if group.queue == "orders"][:4]
    assert [group.count for group in families] == [40, 30, 26, 25]


def test_a_group_tells_its_newest_job_its_text_and_both_ends(redis_client: redis.Redis, ours: Server) -> None:
    die(redis_client, {job(nth): b"no order %d" % nth for nth in (7, 5, 9)})
    assert grouped(ours) == [
        ErrorGroup("q", group_of(b"no order 1"), 3, oldest=at(5), newest=at(9), sample=job(9), error=b"no order 9")
    ]


def test_equally_frequent_groups_come_newest_first(redis_client: redis.Redis, ours: Server) -> None:
    errors = {job(1): b"a", job(2): b"b", job(3): b"c", job(4): b"b", job(5): b"d"}
    die(redis_client, errors)
    assert [group.error for group in grouped(ours)] == [b"b", b"d", b"c", b"a"]


def test_jobs_without_an_error_are_told_apart(redis_client: redis.Redis, ours: Server) -> None:
    """An empty text is an error; none at all is none, and neither is an id without a row."""
    die(redis_client, {job(1): b"", job(2): None, job(3): None})
    redis_client.hset(KEYS.row(job(4)), mapping={"state": "dead", "attempts": 0, "payload": "{}"})  # by its child
    redis_client.hset(KEYS.row(job(5)), "state", "dead")  # a ghost
    redis_client.hset(KEYS.row(job(6)), "attempts", "x")
    redis_client.set(KEYS.row(job(7)), "x")
    redis_client.zadd(KEYS.dead, dict.fromkeys(map(job, range(4, 10)), 0))
    assert {(group.group, group.error): group.count for group in grouped(ours)} == {
        (group_of(b""), b""): 1,
        (None, failures.NO_TEXT): 4,
        (None, failures.KILLED_BY_CHILD): 1,
        (None, failures.NO_HASH): 1,
        (None, failures.NO_ROW): 2,
    }


def test_an_error_that_reads_like_our_own_words_is_another_group(redis_client: redis.Redis, ours: Server) -> None:
    die(redis_client, {job(1): failures.NO_TEXT, job(2): None})
    assert [(group.group, group.error) for group in grouped(ours)] == [
        (None, failures.NO_TEXT),
        (group_of(failures.NO_TEXT), failures.NO_TEXT),
    ]


def test_members_that_are_no_ids_are_counted_and_have_no_time(redis_client: redis.Redis, ours: Server) -> None:
    die(redis_client, {b"not-an-id": b"x", b"\xff\x00": b"x", job(3): b"x", b"": b"y"})
    assert grouped(ours) == [
        ErrorGroup("q", group_of(b"x"), 3, oldest=at(3), newest=at(3), sample=b"\xff\x00", error=b"x"),
        ErrorGroup("q", group_of(b"y"), 1, oldest=None, newest=None, sample=b"", error=b"y"),
    ]


def test_bounds_choose_by_mint_time(redis_client: redis.Redis, ours: Server) -> None:
    die(redis_client, {job(nth): b"x" for nth in range(10)})
    for bounds, first, last in (
        (MintBounds(since=Instant(EPOCH_MS + 3)), 3, 9),
        (MintBounds(until=Instant(EPOCH_MS + 3)), 0, 2),
        (MintBounds(after=BrandedId("JOB", 3 << 22), before=BrandedId("JOB", 6 << 22)), 4, 5),
    ):
        [group] = grouped(ours, bounds=bounds)
        assert (group.count, group.oldest, group.newest) == (last - first + 1, at(first), at(last))
    assert grouped(ours, bounds=MintBounds(since=Instant(EPOCH_MS + 30))) == []


def test_a_large_set_is_read_in_pages_by_a_cursor(
    redis_client: redis.Redis, ours: Server, monitor: wire.Monitor
) -> None:
    die(redis_client, {job(nth): b"no order %d" % nth for nth in range(2100)})
    with monitor() as commands:
        [group] = grouped(ours)
    assert group.count == 2100
    ranges = [command for command in commands if command[0] == b"ZRANGE"]
    assert [command[2] for command in ranges] == [b"+", *(b"(" + job(nth) for nth in (1600, 1100, 600, 100))]
    assert all(command[-1] == b"500" for command in ranges)


def test_queues_without_dead_jobs_cost_a_hundredth_of_a_round_trip(redis_client: redis.Redis, ours: Server) -> None:
    queues = [QueueKeys(f"q{nth}") for nth in range(1000)]
    die(redis_client, {job(1): b"x"}, queues[500])
    before = ours.round_trips
    assert [group.queue for group in grouped(ours, *queues)] == ["q500"]
    assert ours.round_trips - before <= 10 + 5


def test_jobs_that_stay_are_counted_once_while_others_come_and_go(
    redis_client: redis.Redis, server: PrivateServer, ours: Server
) -> None:
    staying = [job(10 * nth) for nth in range(3000)]
    passing = [job(10 * nth + 5) for nth in range(3000)]
    die(redis_client, {**dict.fromkeys(staying, b"stays"), **dict.fromkeys(passing, b"passes")})
    stop = threading.Event()

    def disturb() -> None:
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            for turn in iter(lambda: not stop.is_set(), False):
                for some in range(0, len(passing), 500):
                    client.zrem(KEYS.dead, *passing[some : some + 500])
                    client.zadd(KEYS.dead, dict.fromkeys(passing[some : some + 500], 0))
                del turn

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(5):
            found = Failures(ours, [KEYS], MintBounds(), alone=True)
            for page in found.pages():
                found.add(page)
            counts = {group.error: group.count for group in found.groups()}
            assert counts[b"stays"] == len(staying)
            assert counts.get(b"passes", 0) <= len(passing)
    finally:
        stop.set()
        thread.join()


def test_nothing_is_counted_before_a_page_is_added(redis_client: redis.Redis, ours: Server) -> None:
    die(redis_client, {job(nth): b"x" for nth in range(1200)})
    found = Failures(ours, [KEYS], MintBounds(), alone=True)
    pages = found.pages()
    next(pages)
    assert (found.looked_at, found.total, found.groups()) == (0, 1200, [])
    found.add(next(pages))
    assert found.looked_at == found.groups()[0].count == 500


# Memory and replies


def test_long_errors_cross_the_wire_in_replies_of_a_few_megabytes(redis_client: redis.Redis, proxy: wire.Proxy) -> None:
    die(redis_client, {job(nth): b"%d " % nth + b"x" * 5_000_000 for nth in range(6)})
    with connect(Settings(parse_url(proxy.url), 30, read_only=False), print) as ours:
        [group] = grouped(ours)
    assert group.count == 6
    assert proxy.round_trips >= 3 + 6
    assert proxy.down < 31_000_000


def test_texts_are_kept_within_a_budget_and_what_is_left_out_is_counted(
    redis_client: redis.Redis, ours: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "TEXTS", 100_000)
    die(redis_client, {job(nth): b"%c" % (103 + nth) * 30_000 for nth in range(5)} | {job(9): b"Z" * 4096})
    found = Failures(ours, [KEYS], MintBounds(), alone=True)
    for page in found.pages():
        found.add(page)
    assert found.untold == 2
    assert {group.sample: group.error and len(group.error) for group in found.groups()} == {
        job(9): 4096,
        job(4): 30_000,
        job(3): 30_000,
        job(2): 30_000,
        job(1): None,
        job(0): None,
    }


def test_groups_beyond_the_most_that_are_kept_are_counted_together(
    redis_client: redis.Redis, ours: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "GROUPS", 3)
    names = "abcdef"
    die(redis_client, {job(nth): names[nth % 6].encode() for nth in range(18)})
    redis_client.zadd(KEYS.dead, {job(100): 0})
    found = Failures(ours, [KEYS], MintBounds(), alone=True)
    for page in found.pages():
        found.add(page)
    assert {group.error: group.count for group in found.groups()} == {
        failures.NO_ROW: 1,
        b"f": 3,
        b"e": 3,
        b"d": 3,
        failures.FURTHER: 9,
    }
    assert found.further == 9
    assert all(group.group is None for group in found.groups() if group.error in {failures.FURTHER, failures.NO_ROW})


def test_memory_does_not_grow_with_the_set(redis_client: redis.Redis, ours: Server) -> None:
    """6,000 jobs of one error of two kilobytes: twelve megabytes of texts, of which one is kept."""
    trace = b"\n".join([b"at shop." + b"x" * 490] * 4)
    die(redis_client, {job(nth): b"no order %d\n" % nth + trace for nth in range(6000)})
    grouped(ours)  # whatever is loaded or remembered once
    tracemalloc.start()
    try:
        [group] = grouped(ours)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert group.count == 6000
    assert peak < 5_000_000


# What cannot be read


def test_a_set_of_another_type_is_raised_alone_and_a_row_among_others(redis_client: redis.Redis, ours: Server) -> None:
    broken, sound = QueueKeys("broken"), KEYS
    redis_client.set(broken.dead, "x")
    die(redis_client, {job(1): b"x"})
    with pytest.raises(WrongType, match="is a string, not a zset"):
        grouped(ours, broken, alone=True)
    rows = grouped(ours, broken, sound)
    assert [(row.queue, row.group) for row in rows] == [("q", group_of(b"x")), ("broken", None)]
    assert isinstance(rows[1].count, WrongType)


def test_a_user_who_may_read_some_queues_gets_those(redis_client: redis.Redis, server: PrivateServer) -> None:
    secret = QueueKeys("secret")
    die(redis_client, {job(1): b"x"})
    die(redis_client, {job(1): b"x"}, secret)
    redis_client.execute_command("ACL", "SETUSER", "tenant", "on", ">p", "+@all", "~emq:{q}:*", "~{emq}:*")
    url = server.url.replace("//", "//tenant:p@")
    with connect(Settings(parse_url(url), 5, read_only=False), print) as theirs:
        rows = grouped(theirs, KEYS, secret)
        assert [row.queue for row in rows] == ["q", "secret"]
        assert isinstance(rows[1].count, Denied)
        with pytest.raises(Denied, match="secret"):
            grouped(theirs, secret)


@pytest.mark.parametrize("lacks", ["hstrlen", "hget", "hmget"])
def test_rows_that_may_not_be_read_are_never_taken_for_jobs_without_an_error(
    redis_client: redis.Redis, server: PrivateServer, lacks: str
) -> None:
    die(redis_client, {job(1): b"x"})
    redis_client.execute_command("ACL", "SETUSER", "tenant", "on", ">p", "+@all", f"-{lacks}", "~*")
    url = server.url.replace("//", "//tenant:p@")
    with (
        connect(Settings(parse_url(url), 5, read_only=False), print) as theirs,
        pytest.raises(Denied, match=lacks.upper()),
    ):
        grouped(theirs)
