"""``browse`` page by page, all at once, and while other clients push and pop; bounds on mint time."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest
import redis
import worlds
from cli.running import Emqctl

from emqctl.branded import EPOCH_MS, BrandedId

LANES = ["TEN0IlTd9mDCbY", "TEN0IlTdEM44g4", "TEN0IlTdIvuwka"]
NEXT = re.compile(r"next: (--(?:before|after) \w+)")


def job(ms: int, sequence: int = 0) -> str:
    return str(BrandedId("JOB", ms << 22 | sequence))


def pages(emqctl: Emqctl, *words: str) -> Iterator[list[str]]:
    """Yield the ids of page after page, each asked for as the note of the one before says."""
    cursor: list[str] = []
    while True:
        result = emqctl("browse", *words, *cursor, "-o", "ids")
        assert result.code == 0
        yield result.lines
        found = NEXT.search(result.err)
        if not found:
            assert "shown" not in result.err
            return
        cursor = found[1].split()


@pytest.mark.parametrize("reverse", [[], ["--reverse"]], ids=["newest first", "oldest first"])
@pytest.mark.parametrize(
    "words",
    [
        ("orders", "-n", "50"),
        ("emails", "-n", "7"),
        ("emails", "-n", "7", "--lane", LANES[0]),
        ("orders", "--state", "dead", "-n", "40"),
        ("emails", "--state", "dead", "-n", "1", "--lane", "TEN0IlTdS5cgtc"),
        ("orders", "-n", "30", "--since", "2025-12-31T16:00:00Z", "--until", "2025-12-31T22:52:00Z"),
    ],
    ids=" ".join,
)
def test_following_the_notes_lists_everything_exactly_once(
    emqctl: Emqctl, world: worlds.World, words: tuple[str, ...], reverse: list[str]
) -> None:
    whole = emqctl("browse", *words, *reverse, "-n", "0", "-o", "ids").lines
    assert len(whole) > 1
    paged = list(pages(emqctl, *words, *reverse))
    assert len(paged) > 1
    assert [each for page in paged for each in page] == whole


def test_paging_while_others_push_and_pop_meets_each_standing_job_once(
    emqctl: Emqctl, redis_client: redis.Redis
) -> None:
    """Jobs come and go on both sides of the cursor and in every lane; those that stay are listed once, in order."""
    client = redis_client
    client.set("{emq}:version", "echomq:3.0.0")
    client.rpush("emq:{q}:ring", *LANES)
    sets = ["emq:{q}:pending", *(f"emq:{{q}}:g:{lane}:pending" for lane in LANES)]
    standing = [job(10 * nth) for nth in range(1, 200)]
    passing = [job(10 * nth + 5) for nth in range(200)]
    for nth, each in enumerate(standing):
        client.zadd(sets[nth % 4], {each: 0})
    stop = threading.Event()

    def disturb() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            with client.pipeline() as pipeline:
                for nth, each in enumerate(passing):
                    pipeline.execute_command(
                        "ZADD" if (nth + turn) % 3 else "ZREM", sets[nth % 4], *_member(each, nth + turn)
                    )
                pipeline.execute_command("LMOVE", "emq:{q}:ring", "emq:{q}:ring", "LEFT", "RIGHT")
                pipeline.execute()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for words in (["-n", "17"], ["-n", "17", "--reverse"]):
            listed = [each for page in pages(emqctl, "q", *words) for each in page]
            assert listed == sorted(listed, reverse="--reverse" not in words)
            assert len(set(listed)) == len(listed)
            assert set(standing) <= set(listed)
        whole = emqctl("browse", "q", "-n", "0", "-o", "ids").lines
        assert set(standing) <= set(whole)
        assert len(set(whole)) == len(whole)
    finally:
        stop.set()
        thread.join()


def _member(member: str, turn: int) -> tuple[str, ...]:
    return ("0", member) if turn % 3 else (member,)


@pytest.fixture
def crowd(redis_client: redis.Redis) -> redis.Redis:
    """3,500 flat jobs, 1,200 lanes of three jobs, 2,500 active, 2,500 dead."""
    client = redis_client
    client.set("{emq}:version", "echomq:3.0.0")
    with client.pipeline(transaction=False) as pipeline:
        pipeline.zadd("emq:{q}:pending", {job(nth): 0 for nth in range(3500)})
        pipeline.zadd("emq:{q}:dead", {job(nth, 2): 0 for nth in range(2500)})
        pipeline.zadd("emq:{q}:active", {job(nth, 3): 10_000 - nth for nth in range(2500)})
        lanes = [str(BrandedId("TEN", nth)) for nth in range(1200)]
        pipeline.rpush("emq:{q}:ring", *lanes)
        for nth, lane in enumerate(lanes):
            members = {job(nth + 100 * turn, 1000 + nth): 0 for turn in range(3)}
            pipeline.zadd(f"emq:{{q}}:g:{lane}:pending", members)
        pipeline.execute()
    return client


def test_all_of_several_thousand_are_listed_in_order(emqctl: Emqctl, crowd: redis.Redis) -> None:
    flat = emqctl("browse", "q", "--flat", "-n", "0", "-o", "ids")
    assert flat.lines == [job(nth) for nth in reversed(range(3500))]
    merged = emqctl("browse", "q", "-n", "0", "-o", "ids")
    assert merged.lines == sorted(merged.lines, reverse=True)
    assert len(set(merged.lines)) == 3500 + 3 * 1200
    assert merged.err == "note: 7100 of these ids have no job behind them: no row, or one without payload\n"
    dead = emqctl("browse", "q", "--state", "dead", "--reverse", "-n", "0", "-o", "ids")
    assert dead.lines == [job(nth, 2) for nth in range(2500)]
    active = emqctl("browse", "q", "--state", "active", "-n", "0", "-o", "ids")
    assert active.lines == [job(nth, 3) for nth in reversed(range(2500))]


@pytest.mark.parametrize("limit", [1, 999, 1000, 1001, 2000])
def test_a_limit_around_the_size_of_a_page_is_exact(emqctl: Emqctl, crowd: redis.Redis, limit: int) -> None:
    for words in (["--flat"], [], ["--state", "dead"], ["--state", "active"]):
        result = emqctl("browse", "q", *words, "-n", str(limit), "-o", "json", "-q")
        assert (len(result.records), result.json["more"]) == (limit, True)


# Bounds


@pytest.fixture
def minutes(redis_client: redis.Redis) -> redis.Redis:
    """Eight jobs, 5 to 120 minutes old by the server's clock, one more in the lane; a member that is no id."""
    client = redis_client
    client.set("{emq}:version", "echomq:3.0.0")
    now = worlds.server_ms(client) - EPOCH_MS
    for age in (5, 29, 31, 59, 61, 90, 119, 121):
        client.zadd("emq:{q}:pending", {job(now - age * 60_000, age): 0})
        client.hset(f"emq:{{q}}:job:{job(now - age * 60_000, age)}", mapping={"attempts": age, "payload": "{}"})
    client.zadd("emq:{q}:pending", {"not-an-id": 0})
    return client


@pytest.mark.parametrize(
    ("bounds", "ages"),
    [
        (["--since", "1h"], [5, 29, 31, 59]),
        (["--until", "1h"], [61, 90, 119, 121]),
        (["--since", "2h", "--until", "30m"], [31, 59, 61, 90, 119]),
        (["--since", "90.5m", "--until", "3600s"], [61, 90]),
        (["--since", "30m", "--until", "1h"], []),
        (["--since", "0s"], []),
        (["--until", "0s"], [5, 29, 31, 59, 61, 90, 119, 121]),
        (["--since", "1w"], [5, 29, 31, 59, 61, 90, 119, 121]),
        (["--since", "99999w"], [5, 29, 31, 59, 61, 90, 119, 121]),
        (["--since", "2010-01-01", "--until", "2200-01-01"], [5, 29, 31, 59, 61, 90, 119, 121]),
        (["--since", "2200-01-01"], []),
        (["--until", "2010-01-01"], []),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_relative_times_count_from_the_servers_clock(
    emqctl: Emqctl, minutes: redis.Redis, bounds: list[str], ages: list[int]
) -> None:
    """A bound on time also leaves out what is no job id; nothing in a window is no error."""
    for words in ([], ["--reverse"]):
        result = emqctl("browse", "q", *bounds, *words, "-o", "jsonl")
        assert result.code == 0
        assert [each["attempts"] for each in result.records] == (ages if not words else ages[::-1])


@pytest.mark.parametrize(
    ("time", "first"),
    [
        ("2025-12-31T22:52:05.600Z", "2025-12-31T22:52:05.600Z"),
        ("2025-12-31T22:52:05.601Z", "2025-12-31T22:52:06.600Z"),
        ("2025-12-31T22:52:05.6Z", "2025-12-31T22:52:05.600Z"),
        ("2025-12-31t22:52:05.600z", "2025-12-31T22:52:05.600Z"),
        ("2025-12-31 22:52:05.600", "2025-12-31T22:52:05.600Z"),
        ("2026-01-01T00:52:05.600+02:00", "2025-12-31T22:52:05.600Z"),
        ("2025-12-31T17:22:05.600-0530", "2025-12-31T22:52:05.600Z"),
        ("2025-12-31T22:52:08", "2025-12-31T22:52:08.600Z"),
        ("2025-12-31T22:52", "2025-12-31T22:52:00.600Z"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_since_is_inclusive_until_exclusive_and_zoneless_is_utc(
    emqctl: Emqctl, world: worlds.World, time: str, first: str, zone: str
) -> None:
    env = {"TZ": zone}
    since = emqctl("browse", "orders", "--since", time, "-n", "0", "-o", "jsonl", env=env).records
    until = emqctl("browse", "orders", "--until", time, "-n", "0", "-o", "jsonl", env=env).records
    assert since[-1]["minted"] == first
    assert until[0]["minted"] < first
    assert len(since) + len(until) == 443


def test_after_and_before_name_jobs_and_leave_them_out(emqctl: Emqctl, world: worlds.World) -> None:
    *_, low, middle, high = emqctl("browse", "orders", "-n", "3", "--reverse", "-o", "ids", "-q").lines
    between = emqctl("browse", "orders", "--after", low, "--before", high, "-o", "ids")
    assert between.summary == (0, f"{middle}\n", "")
    assert emqctl("browse", "orders", "--after", middle, "--before", high, "-o", "ids").summary == (0, "", "")
    assert emqctl("browse", "orders", "--after", high, "--before", low, "-o", "ids").summary == (0, "", "")


def test_bounds_narrow_each_other(emqctl: Emqctl, world: worlds.World) -> None:
    last = world.ids["pending.last"]["id"]
    words = ["--since", "2025-12-31T22:52:07Z", "--after", world.ids["pending.first"]["id"], "--before", last]
    assert len(emqctl("browse", "orders", *words, "-o", "ids").lines) == 1


@pytest.mark.parametrize("state", ["active", "scheduled", "dead"])
def test_bounds_hold_for_mint_time_in_every_state(emqctl: Emqctl, world: worlds.World, state: str) -> None:
    whole = emqctl("browse", "orders", "--state", state, "-n", "0", "-o", "jsonl").records
    middle = sorted(each["minted"] for each in whole)[len(whole) // 2]
    since = emqctl("browse", "orders", "--state", state, "-n", "0", "--since", middle, "-o", "jsonl").records
    assert [each["id"] for each in since] == [each["id"] for each in whole if each["minted"] >= middle]
