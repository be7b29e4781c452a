"""Instants and durations: what is read, what is refused, what is printed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqctl import times
from emqctl.errors import Malformed
from emqctl.times import Instant

MS = st.integers(0, 4_102_444_800_000)


def never() -> int:
    raise AssertionError("the clock is not needed")


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [
        ("0s", 0),
        ("500ms", 500),
        ("90s", 90_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("3d", 259_200_000),
        ("2w", 1_209_600_000),
        ("1.5s", 1500),
        ("0.25h", 900_000),
        ("0.0009s", 0),
        ("007s", 7000),
    ],
)
def test_a_length_is_a_time_before_now_and_a_duration(text: str, length_ms: int) -> None:
    assert times.parse_instant(text) == Instant(None, length_ms)
    assert times.parse_instant(text).resolve(lambda: 10**13) == 10**13 - length_ms
    assert times.parse_duration_ms(text) == length_ms


@pytest.mark.parametrize(("text", "length_ms"), [("5", 5000), ("0.5", 500), ("1.5ms", 1)])
def test_a_bare_number_is_seconds_of_a_duration(text: str, length_ms: int) -> None:
    assert times.parse_duration_ms(text) == length_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "5x",
        "5 s",
        "-5s",
        "+5s",
        "1e3s",
        ".5s",
        "5.s",
        "1h30m",
        "5S",
        "٣s",
        "5s\n",
        " 5s",
        "1_000s",
        "inf",
        "nan",
    ],
)
def test_what_is_no_length_is_refused_by_name(text: str) -> None:
    with pytest.raises(Malformed, match="duration") as caught:
        times.parse_duration_ms(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["9" * 5000 + "s", "9" * 5000, "0." + "9" * 5000 + "s", "1" * 400 + "w"])
@pytest.mark.parametrize("parse", [times.parse_duration_ms, times.parse_instant])
def test_a_length_of_any_size_is_read_or_refused(parse: Callable[[str], object], text: str) -> None:
    with suppress(Malformed):
        assert parse(text)


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026-11-30", "2026-11-30T00:00:00+00:00"),
        ("2026-11-30T18:00", "2026-11-30T18:00:00+00:00"),
        ("2026-11-30 18:00:05", "2026-11-30T18:00:05+00:00"),
        ("2026-11-30T18:00:05Z", "2026-11-30T18:00:05+00:00"),
        ("2026-11-30t18:00:05z", "2026-11-30T18:00:05+00:00"),
        ("2026-11-30T18:00:05.123Z", "2026-11-30T18:00:05.123+00:00"),
        ("2026-11-30T18:00:05.123456789Z", "2026-11-30T18:00:05.123456+00:00"),
        ("2026-11-30T18:00:05.1", "2026-11-30T18:00:05.100+00:00"),
        ("2026-11-30T18:00:05+02:00", "2026-11-30T16:00:05+00:00"),
        ("2026-11-30T18:00:05-0530", "2026-11-30T23:30:05+00:00"),
        ("2026-11-30 18:00:05 +02:00", "2026-11-30T16:00:05+00:00"),
        ("2028-02-29", "2028-02-29T00:00:00+00:00"),
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999+00:00"),
    ],
)
def test_dates_and_rfc_3339_are_read_and_zoneless_is_utc(text: str, iso: str) -> None:
    expected = times.to_ms(datetime.fromisoformat(iso))
    assert times.parse_instant(text).resolve(never) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "yesterday",
        "2026",
        "2026-11",
        "2026-1-1",
        "2026-13-01",
        "2026-02-29",
        "2026-11-30T",
        "2026-11-30T18",
        "2026-11-30T24:00",
        "2026-11-30T18:60",
        "2026-11-30T18:00:60",
        "2026-11-30T18:00:05.",
        "2026-11-30T18:00:05+25:00",
        "2026-11-30T18:00:05 UTC",
        "2026-11-30Z",
        "0000-01-01",
        "1764525600",
        "\u0662\u0660\u0662\u0666-11-30",
        "2026-11-30\n",
    ],
)
def test_what_is_no_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(Malformed) as caught:
        times.parse_instant(text)
    assert repr(text) in str(caught.value)


@given(MS)
def test_a_printed_time_reads_back_to_the_millisecond(unix_ms: int) -> None:
    moment = times.from_ms(unix_ms)
    assert moment
    assert times.to_ms(moment) == unix_ms
    assert times.parse_instant(times.rfc3339(moment)).resolve(never) == unix_ms


@given(MS, st.integers(-14 * 60, 14 * 60))
def test_a_zone_changes_the_writing_not_the_instant(unix_ms: int, minutes: int) -> None:
    moment = datetime.fromtimestamp(unix_ms / 1000, timezone(timedelta(minutes=minutes)))
    written = moment.isoformat(timespec="milliseconds")
    assert abs(times.parse_instant(written).resolve(never) - unix_ms) <= 1
    assert times.rfc3339(moment).endswith("Z")


@pytest.mark.parametrize("parse", [times.parse_instant, times.parse_duration_ms, times.parse_rate])
@given(text=st.text())
def test_no_text_is_anything_but_a_time_or_malformed(parse: Callable[[str], object], text: str) -> None:
    try:
        parse(text)
    except Malformed as error:
        assert repr(text) in str(error)  # noqa: PT017 - one of two good ends


@given(st.integers() | st.sampled_from([10**300, -(10**300), 2**63]))
def test_no_count_of_milliseconds_breaks_the_calendar(unix_ms: int) -> None:
    moment = times.from_ms(unix_ms)
    assert moment is None or times.to_ms(moment) == unix_ms


@pytest.mark.parametrize(
    ("length_ms", "brief"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1000, "1s"),
        (59_999, "59s"),
        (60_000, "1m"),
        (3_599_999, "59m"),
        (3_600_000, "1h"),
        (86_399_999, "23h"),
        (86_400_000, "1d"),
        (400 * 86_400_000, "400d"),
    ],
)
def test_lengths_are_one_unit_rounded_down(length_ms: int, brief: str) -> None:
    assert times.brief_ms(length_ms) == brief
    moment = times.from_ms(10**12)
    assert moment
    assert times.relative(moment, 10**12 + length_ms) == f"{brief} ago"
    if length_ms:
        assert times.relative(moment, 10**12 - length_ms) == f"in {brief}"


def test_the_clock_of_this_machine_is_in_milliseconds() -> None:
    assert abs(times.now_ms() - time.time() * 1000) < 1000


@pytest.mark.parametrize(("text", "per_second"), [("50/s", 50), ("90/m", 1.5), ("36/h", 0.01), ("0.5/s", 0.5)])
def test_a_rate_is_so_many_a_second(text: str, per_second: float) -> None:
    assert times.parse_rate(text) == pytest.approx(per_second)


@pytest.mark.parametrize("text", ["", "50", "50/d", "0/s", "-1/s", "50 /s", "/s", "inf/s"])
def test_what_is_no_rate_is_refused_by_name(text: str) -> None:
    with pytest.raises(Malformed, match="rate"):
        times.parse_rate(text)
