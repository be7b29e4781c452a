"""Windows on mint time, and walks through them by a cursor."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqctl.branded import EPOCH_MS, BrandedId
from emqctl.times import Instant
from emqctl.walks import SetWalk
from emqctl.window import MintBounds, Window

MEMBERS = st.binary(max_size=3) | st.builds(
    lambda ms, sequence: bytes(BrandedId("JOB", ms << 22 | sequence)), st.integers(0, 50), st.integers(0, 3)
)
EDGES = st.none() | MEMBERS


def now() -> int:
    return EPOCH_MS + 1000


def job(ms: int, sequence: int = 0) -> bytes:
    return bytes(BrandedId("JOB", ms << 22 | sequence))


def by_lex(low: bytes, high: bytes, member: bytes) -> bool:
    """Tell whether a server counts a member as within two bounds of ``ZRANGE … BYLEX``."""
    above = low == b"-" or (member >= low[1:] if low[:1] == b"[" else member > low[1:])
    below = high == b"+" or (member <= high[1:] if high[:1] == b"[" else member < high[1:])
    return above and below


@given(EDGES, EDGES, MEMBERS)
def test_the_bounds_on_the_wire_mean_the_window(low: bytes | None, high: bytes | None, member: bytes) -> None:
    window = Window(low, high)
    assert by_lex(*window.lexical, member) == (member in window)
    assert window.is_open == (low is None and high is None)


@given(EDGES, EDGES, MEMBERS, MEMBERS)
def test_a_member_parts_a_window_in_two(low: bytes | None, high: bytes | None, at: bytes, member: bytes) -> None:
    window = Window(low, high)
    if at in window and member in window:
        assert (member in window.above(at)) == (member > at)
        assert (member in window.below(at)) == (member < at)
        assert by_lex(*window.above(at).lexical, member) == (member > at)


def test_bounds_read_as_an_operator_would_type_them() -> None:
    assert Window().lexical == (b"-", b"+")
    assert Window(b"a", b"c").lexical == (b"[a", b"(c")
    assert Window(b"a").above(b"b").lexical == (b"(b", b"+")


INSTANTS = st.builds(Instant, st.integers(EPOCH_MS - 2, EPOCH_MS + 60)) | st.builds(
    Instant, st.none(), st.integers(940, 1002)
)
IDS = st.builds(lambda ms: BrandedId("JOB", ms << 22), st.integers(0, 60))


@given(st.none() | INSTANTS, st.none() | INSTANTS, st.none() | IDS, st.none() | IDS, st.integers(0, 60))
def test_bounds_narrow_each_other(
    since: Instant | None, until: Instant | None, after: BrandedId | None, before: BrandedId | None, ms: int
) -> None:
    window = MintBounds(since, until, after, before).window(now)
    member = job(ms)
    expected = (
        (since is None or since.resolve(now) <= EPOCH_MS + ms)
        and (until is None or EPOCH_MS + ms < until.resolve(now))
        and (after is None or bytes(after) < member)
        and (before is None or member < bytes(before))
    )
    assert (member in window) == expected


def test_a_bound_on_time_leaves_out_what_is_no_job_id() -> None:
    odd = [b"", b"JOA~", b"JOC", b"TEN00000000000", b"~", b"\xff"]
    for bounds in (
        MintBounds(since=Instant(0)),
        MintBounds(until=Instant(EPOCH_MS + 2**42)),
        MintBounds(since=Instant(None, 10**13)),
    ):
        assert not any(member in bounds.window(now) for member in odd)
        assert job(5) in bounds.window(now)
    assert all(member in MintBounds().window(now) for member in odd)


@pytest.mark.parametrize("ms", [-(10**15), -1, 2**41, 10**15])
def test_a_time_no_id_can_hold_bounds_all_or_nothing(ms: int) -> None:
    instant = Instant(EPOCH_MS + ms)
    late = ms > 0
    for member in (job(0), job(2**41 - 1)):
        assert (member in MintBounds(since=instant).window(now)) == (not late)
        assert (member in MintBounds(until=instant).window(now)) == late


class Shelf:
    """A server with one sorted set of equal scores that answers ZRANGE … BYLEX."""

    def __init__(self, members: set[bytes]) -> None:
        self.members = members
        self.asked: list[Any] = []

    def ask(self, command: Any) -> list[list[bytes]]:
        """Answer one range."""
        self.asked.append(command)
        _, _, first, second, *words = command
        reverse = "REV" in words
        low, high = (second, first) if reverse else (first, second)
        found = sorted((member for member in self.members if by_lex(low, high, member)), reverse=reverse)
        assert words[-3:-1] == ["LIMIT", 0]
        return [found[: words[-1]]]


@given(
    members=st.sets(MEMBERS, max_size=12),
    low=EDGES,
    high=EDGES,
    newest_first=st.booleans(),
    page=st.integers(1, 5),
    read=st.booleans(),
)
def test_a_walk_meets_every_member_of_its_window_once_in_order(
    members: set[bytes], low: bytes | None, high: bytes | None, *, newest_first: bool, page: int, read: bool
) -> None:
    shelf = Shelf(members)
    walk = SetWalk(b"key", Window(low, high), newest_first, page)
    first = shelf.ask(walk.page_command)[0] if read else None
    shelf.asked.clear()
    pages = list(walk.pages(shelf, first))
    met = [member for each in pages for member in each]
    assert met == sorted((member for member in members if member in walk.window), reverse=newest_first)
    assert all(len(each) == page for each in pages[:-1])
    assert len(shelf.asked) == len(pages) - read


@pytest.mark.parametrize("newest_first", [True, False])
def test_what_stands_all_the_time_is_met_though_others_come_and_go(*, newest_first: bool) -> None:
    standing = {job(ms) for ms in range(0, 60, 2)}
    shelf = Shelf(set(standing))
    met = []
    for nth, page in enumerate(SetWalk(b"key", Window(), newest_first, 3).pages(shelf)):
        met += page
        shelf.members -= {job(ms) for ms in range(1, 60, 2)}
        shelf.members |= {job((7 * nth + ms) % 60 | 1) for ms in range(0, 20, 2)}
    assert len(met) == len(set(met))
    assert standing <= set(met)
    assert met == sorted(met, reverse=newest_first)


def test_an_open_window_is_counted_by_zcard_any_other_by_zlexcount() -> None:
    assert SetWalk(b"key", Window(), newest_first=True).count_command == ("ZCARD", b"key")
    assert SetWalk(b"key", Window(b"a"), newest_first=True).count_command == ("ZLEXCOUNT", b"key", b"[a", b"+")
