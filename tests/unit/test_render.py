"""Writing records: every value whole, every format sound, nothing that steers a terminal."""

from __future__ import annotations

import base64
import csv
import errno
import io
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import Any

import pytest
from cli.running import unescape
from hypothesis import assume, example, given
from hypothesis import strategies as st

from emqctl import times
from emqctl.cli.session import error_body
from emqctl.errors import EmqError, Interrupted, Malformed, OutputFault, Unreachable, WrongType
from emqctl.keyspace import decode, encode
from emqctl.render import FORMATS, text, write
from emqctl.render.cells import TIME_STYLES, machine_items, printable, to_cell, to_json, to_plain, to_text
from emqctl.render.detail import detail_lines, indented
from emqctl.render.layout import Layout, Output

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
MOMENT = datetime(2026, 11, 29, 23, 40, 12, 118_000, tzinfo=timezone.utc)
NOW_MS = times.to_ms(MOMENT) + 3 * 3_600_000
WRONG = WrongType("emq:{q}:dead", "list", "zset")


@dataclass(frozen=True)
class Record:
    """A record with a field of every kind."""

    id: bytes
    name: str | None
    count: int | EmqError | None
    flag: bool | None
    moment: datetime | None
    blob: bytes | None


NAMES = ("id", "name", "count", "flag", "moment", "blob")
BYTES = st.binary(max_size=30) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace"))
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(timezone.utc)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)
RECORDS = st.builds(
    Record,
    id=BYTES,
    name=st.none() | BYTES.map(decode),
    count=st.none() | st.integers() | st.just(WRONG),
    flag=st.none() | st.booleans(),
    moment=st.none() | MOMENTS,
    blob=st.none() | BYTES,
)
SHOWN = RECORDS.filter(lambda record: record.id and record.blob)  # so that blob is the last column
ENCODINGS = ["utf-8", "ascii", "latin-1", "koi8-r", "utf-16"]


def rendered(records: Any, output: str, *, terminal: bool = False, encoding: str = "utf-8", **more: Any) -> bytes:
    """Return what is written for records."""
    stream = io.BytesIO()
    layout = {
        "schema": "emqctl/x/1",
        "fields": NAMES,
        "chosen": False,
        "time_style": "iso",
        "color": False,
        "now_ms": lambda: NOW_MS,
        "describe": error_body,
        **{name: value for name, value in more.items() if name != "columns"},
    }
    write(records, output, Output(stream, encoding, terminal, more.get("columns", 80)), Layout(**layout))
    return stream.getvalue()


def whole(record: Any, name: str) -> bytes:
    """Return the bytes of a text field of JSON or csv."""
    if record.get(f"{name}_base64"):
        return base64.b64decode(record[f"{name}_base64"])
    return (record.get(name) or "").encode()


# One value


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | BYTES | BYTES.map(decode) | MOMENTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_every_value_is_json(value: Any) -> None:
    for ascii_only in (True, False):
        line = to_json(to_plain(value), ascii_only=ascii_only)
        assert json.loads(line) == json.loads(json.dumps(to_plain(value)))
        assert "\n" not in line
        assert not STEERING.search(line)
        assert not ascii_only or line.isascii()


@given(BYTES)
def test_a_text_field_is_itself_or_base64(value: bytes) -> None:
    for form in (value, decode(value)):
        [(name, plain)] = machine_items("error", form)
        assert name in {"error", "error_base64"}
        assert (base64.b64decode(plain) if name == "error_base64" else plain.encode()) == value
        assert to_plain(form) in (plain, {"base64": plain})


def test_a_value_that_could_not_be_read_is_null_with_its_reason() -> None:
    assert list(machine_items("count", WRONG)) == [("count", None), ("count_error", str(WRONG))]


def test_members_of_objects_are_base64_by_name_too() -> None:
    assert to_plain({"a": b"\xff", "b": [b"\xff", b"x"], "c": (MOMENT,)}) == {
        "a_base64": "/w==",
        "b": [{"base64": "/w=="}, "x"],
        "c": ["2026-11-29T23:40:12.118Z"],
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_json_is_never_written_as_if_it_were(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_json(value, ascii_only=True)


@given(BYTES)
@example(b"-")
@example(rb"\x2d")
@example(rb"\\x2d\u0000")
@example("\U0001f600\u202e".encode())
@example(b"\\\\n")
def test_plain_escapes_are_reversible(value: bytes) -> None:
    for encoding in ENCODINGS:
        cell = to_cell(decode(value), encoding)
        assert unescape(cell) == value
        assert cell
        assert not STEERING.search(cell)
        assert "\t" not in cell
        assert "\n" not in cell
        cell.encode(encoding)


@given(st.text(st.characters(), max_size=20))
def test_printable_text_can_be_written_anywhere(value: str) -> None:
    for encoding in ENCODINGS:
        shown = printable(value, encoding)
        assert not STEERING.search(shown)
        assert "\n" not in shown
        shown.encode(encoding)
    harmless = not re.search("[\x00-\x1f\x7f-\x9f]", value) and not STEERING.search(value)
    assert (printable(value) == value) == harmless


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (b"", ""),
        ("", ""),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-5, "-5"),
        (2**70, str(2**70)),
        (b"caf\xe9", "caf\udce9"),
        (MOMENT, "2026-11-29T23:40:12.118Z"),
        (WRONG, "! list, not zset"),
        (Malformed("a count", "x", "no digits"), "! 'x'"),
        (Unreachable("gone"), "! gone"),
        ({}, ""),
        ([], ""),
        (("a", "b"), "a,b"),
        ({"a": b"\xff"}, '{"a_base64": "/w=="}'),
        ([1, "é"], '[1, "é"]'),
    ],
)
def test_a_value_as_people_read_it(value: Any, shown: str) -> None:
    assert to_text(value, "iso", lambda: NOW_MS) == shown


def test_styles_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> int:
        raise AssertionError("only relative times ask for the clock")

    assert TIME_STYLES["iso"](MOMENT, never) == "2026-11-29T23:40:12.118Z"
    assert TIME_STYLES["epoch"](MOMENT, never) == "1795995612118"
    assert TIME_STYLES["relative"](MOMENT, lambda: NOW_MS) == "3h ago"
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:12\.118[+-]\d\d:\d\d", TIME_STYLES["local"](MOMENT, never))


@given(st.datetimes(timezones=st.just(timezone.utc)), st.sampled_from(list(TIME_STYLES)))
@example(datetime.max.replace(tzinfo=timezone.utc), "local")
@example(datetime.min.replace(tzinfo=timezone.utc), "local")
def test_every_moment_of_the_calendar_is_written_in_every_style(moment: datetime, style: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for zone in ("Asia/Tokyo", "America/Los_Angeles", "UTC"):
            patch.setenv("TZ", zone)
            times_module_reset()
            assert TIME_STYLES[style](moment, lambda: NOW_MS)
    times_module_reset()


def times_module_reset() -> None:
    import time

    time.tzset()


# Records


@given(records=st.lists(RECORDS, max_size=5), terminal=st.booleans(), encoding=st.sampled_from(ENCODINGS))
def test_json_and_jsonl_give_every_value_back(records: list[Record], *, terminal: bool, encoding: str) -> None:
    for output in ("json", "jsonl"):
        raw = rendered(records, output, terminal=terminal, encoding=encoding)
        shown = raw.decode(encoding if terminal else "utf-8")
        assert not STEERING.search(shown.replace("\ufeff", "") if terminal and encoding == "utf-16" else shown)
        lines = shown.replace("\ufeff", "")
        found = json.loads(lines)["records"] if output == "json" else [json.loads(line) for line in lines.splitlines()]
        assert len(found) == len(records)
        for plain, record in zip(found, records, strict=True):
            assert whole(plain, "id") == record.id
            assert whole(plain, "blob") == (record.blob or b"")
            assert whole(plain, "name") == encode(record.name or "")
            assert plain["flag"] == record.flag
            assert plain["count"] == (None if record.count is WRONG else record.count)
            assert plain["moment"] == (record.moment and times.rfc3339(record.moment))
            order = [re.sub("_(base64|error)$", "", name) for name in plain]
            assert list(dict.fromkeys(order)) == list(NAMES)


@given(st.lists(RECORDS, max_size=5))
def test_csv_reads_back_with_the_standard_reader(records: list[Record]) -> None:
    raw = rendered(records, "csv")
    assume(sys.version_info >= (3, 11) or b"\0" not in raw)  # before, Python's own reader gave up at a NUL
    rows = list(csv.reader(io.StringIO(raw.decode(), newline=""), strict=True))
    header, *body = rows
    assert header[: len(NAMES)] == list(NAMES)
    assert len(body) == len(records)
    for row, record in zip(body, records, strict=True):
        assert len(row) == len(header)
        plain = dict(zip(header, row, strict=True))
        assert whole(plain, "id") == record.id
        assert whole(plain, "name") == encode(record.name or "")
        assert whole(plain, "blob") == (record.blob or b"")
        assert plain["count"] == ("" if record.count in (None, WRONG) else str(record.count))
        assert plain.get("count_error", "") == (str(WRONG) if record.count is WRONG else "")
        assert plain["flag"] == ("" if record.flag is None else str(record.flag).lower())


def test_csv_tells_an_empty_text_from_none() -> None:
    rows = rendered([Record(b"a", "", 1, None, None, b""), Record(b"b", None, 1, None, None, None)], "csv")
    assert rows.split(b"\n")[1:3] == [b'a,"",1,,,""', b"b,,1,,,"]


def test_csv_keeps_carriage_returns_and_nul() -> None:
    rows = rendered([Record(b"a\rb\0c", None, None, None, None, b"x\r\ny")], "csv")
    assert rows.split(b"\n", 1)[1] == b'"a\rb\0c",,,,,"x\r\ny"\n'


@pytest.mark.parametrize("odd", [0, 999, 1000, 1001, 5000])
def test_csv_columns_hold_for_every_row_however_late_the_odd_one_comes(odd: int) -> None:
    """With more than 1,000 rows the columns that any of them may need are all there."""

    def rows() -> Iterator[Record]:
        for nth in range(odd + 1):
            yield Record(b"\xff" if nth == odd else b"a", "n", WRONG if nth == odd else nth, None, None, None)

    header, *body = csv.reader(io.StringIO(rendered(rows(), "csv").decode(), newline=""), strict=True)
    last = dict(zip(header, body[-1], strict=True))
    assert (last["id_base64"], last["count_error"]) == ("/w==", str(WRONG))
    assert all(len(row) == len(header) for row in body)
    assert ("blob_base64" in header) == (odd >= text.LOOK_AHEAD)


@dataclass(frozen=True)
class Named:
    """A record that has a field named like a companion."""

    error: bytes
    error_base64: str


def test_a_companion_that_is_a_field_itself_is_not_doubled() -> None:
    rows = (Named(b"x", "y") for _ in range(text.LOOK_AHEAD + 1))
    header = rendered(rows, "csv", fields=("error", "error_base64")).split(b"\n")[0]
    assert header.split(b",").count(b"error_base64") == 1


@given(
    records=st.lists(RECORDS, max_size=5),
    terminal=st.booleans(),
    encoding=st.sampled_from(["utf-8", "ascii", "latin-1"]),
)
def test_plain_is_one_reversible_line_a_record(records: list[Record], *, terminal: bool, encoding: str) -> None:
    shown = rendered(records, "plain", terminal=terminal, encoding=encoding).decode(encoding if terminal else "utf-8")
    rows = [line.split("\t") for line in shown.split("\n")[:-1]]
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        assert len(row) == len(NAMES)
        assert unescape(row[0]) == record.id
        assert unescape(row[1]) == encode(record.name or "")
        assert unescape(row[5]) == (record.blob or b"")
        assert row[2] == (
            "-" if record.count is None else "! list, not zset" if record.count is WRONG else str(record.count)
        )


@given(st.lists(RECORDS, max_size=5))
def test_ids_is_the_first_field(records: list[Record]) -> None:
    lines = rendered(records, "ids").decode().split("\n")[:-1]
    assert [unescape(line) for line in lines] == [record.id for record in records]
    second = rendered(records, "ids", fields=("name", "id")).decode().split("\n")[:-1]
    assert [unescape(line) for line in second] == [encode(record.name or "") for record in records]


@given(
    records=st.lists(SHOWN, max_size=4),
    terminal=st.booleans(),
    chosen=st.booleans(),
    encoding=st.sampled_from(["utf-8", "ascii"]),
    columns=st.integers(1, 200),
)
def test_a_table_steers_nothing_and_shortens_its_last_column_alone(
    records: list[Record], *, terminal: bool, chosen: bool, encoding: str, columns: int
) -> None:
    raw = rendered(records, "table", terminal=terminal, encoding=encoding, columns=columns, chosen=chosen)
    shown = raw.decode(encoding if terminal else "utf-8")
    assert not STEERING.search(shown)
    assert "\t" not in shown
    lines = shown.split("\n")[:-1]
    rule = encoding == "utf-8"
    assert len(lines) == (len(records) + 1 + rule if records else 0)
    for line, record in zip(lines[1 + rule :], records, strict=True):
        assert printable(decode(record.id), encoding).rstrip() in line
        if not terminal:
            assert printable(decode(record.blob or b""), encoding).rstrip() in line
        assert line == line.rstrip()


def test_a_table_of_nothing_but_empty_values_still_has_a_row_each() -> None:
    """A member of a set can be the empty text."""
    records = [Record(b"", None, None, None, None, None)] * 2
    assert rendered(records, "table").decode().count("-\n") == 2


@given(record=RECORDS, chosen=st.booleans())
def test_one_record_is_lines_of_its_fields(record: Record, *, chosen: bool) -> None:
    shown = rendered([record], "table", single=True, chosen=chosen).decode()
    assert not STEERING.search(shown)
    named = {line.split(" ", 1)[0] for line in shown.split("\n")}
    assert ("moment" in named) == (record.moment is not None)
    assert ("flag" in named) == (record.flag is not None)


def test_several_records_looked_at_closely_are_parted_by_an_empty_line() -> None:
    record = Record(b"a", None, 1, None, None, None)
    one = rendered([record], "table", single=True)
    assert rendered([record, record], "table", single=True) == one + b"\n" + one


def test_columns_that_are_empty_throughout_are_left_out_unless_chosen() -> None:
    record = Record(b"a", "", None, flag=False, moment=None, blob=b"")
    assert rendered([record], "table").decode().split("\n")[0].split() == ["id", "flag"]
    assert rendered([record], "table", chosen=True).decode().split("\n")[0].split() == list(NAMES)


def test_nothing_is_no_table_and_no_lines() -> None:
    for output in FORMATS:
        raw = rendered([], output)
        expected = {
            "json": b'{"schema": "emqctl/x/1", "records": [], "more": false}\n',
            "csv": b",".join(map(str.encode, NAMES)) + b"\n",
        }
        assert raw == expected.get(output, b"")


def test_a_bare_value_stands_alone_for_people() -> None:
    record = Record(b"a\tb", None, None, None, None, None)
    for output in ("table", "plain"):
        assert rendered([record], output, bare=True) == b"a\\tb\n"
    assert rendered([record], "jsonl", bare=True, fields=("id",)) == b'{"id": "a\\tb"}\n'


def test_numbers_are_on_the_right_also_where_one_could_not_be_read() -> None:
    """An error among numbers turns its own cell, not the column."""
    records = [Record(b"a", None, count, None, None, None) for count in (1, 12_345, None, WRONG)]
    lines = rendered(records, "table", fields=("id", "count", "id")).decode().split("\n")
    assert lines[2].index("1") > lines[3].index("12345")


@given(st.lists(SHOWN, min_size=1, max_size=3))
def test_colour_is_only_around_the_same_text(records: list[Record]) -> None:
    plain = rendered(records, "table").decode()
    coloured = rendered(records, "table", color=True).decode()
    assert "\x1b[1mid" in coloured
    bare = re.sub("\x1b\\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in bare.split("\n")] == plain.split("\n")
    assert "\x1b" not in plain


def test_tables_at_a_terminal_fit_by_the_last_column_alone() -> None:
    record = Record(b"i" * 20, "n" * 30, None, None, None, b"b" * 100)
    for columns, width in ((200, 156), (156, 156), (100, 100), (76, 76), (40, 76), (1, 76)):
        line = rendered([record], "table", terminal=True, columns=columns).decode().split("\n")[2]
        assert len(line) == width, columns
        assert line.startswith("i" * 20 + "   " + "n" * 30)
    assert rendered([record], "table", columns=1).decode().split("\n")[2].endswith("b" * 100)
    short = Record(b"i" * 20, "n" * 30, None, None, None, b"b" * 10)
    assert rendered([short], "table", terminal=True, columns=10).decode().split("\n")[2].endswith("b" * 10)


# Breaking off


def breaking(error: BaseException, after: int) -> Iterator[Record]:
    for nth in range(after):
        yield Record(b"%d" % nth, None, nth, None, None, None)
    raise error


@pytest.mark.parametrize("error", [Unreachable("gone", hint="try"), Interrupted(2)])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_document_is_closed_with_its_error_once_it_has_begun(error: BaseException, after: int) -> None:
    stream = io.BytesIO()
    layout = Layout(
        "emqctl/x/1", ("id",), chosen=False, time_style="iso", color=False, now_ms=lambda: 0, describe=error_body
    )
    with pytest.raises(type(error)):
        write(breaking(error, after), "json", Output(stream, "utf-8", is_terminal=False, columns=80), layout)
    if not after:
        assert stream.getvalue() == b""
        return
    document = json.loads(stream.getvalue())
    assert len(document["records"]) == after
    assert document["more"] is True
    assert document["error"] == error_body(error)


@pytest.mark.parametrize("output", ["plain", "jsonl", "csv", "ids", "table"])
def test_what_came_before_an_error_is_written(output: str) -> None:
    stream = io.BytesIO()
    layout = Layout(
        "emqctl/x/1", ("id",), chosen=False, time_style="iso", color=False, now_ms=lambda: 0, describe=error_body
    )
    with pytest.raises(Unreachable):
        write(breaking(Unreachable("gone"), 2), output, Output(stream, "utf-8", is_terminal=False, columns=80), layout)
    assert stream.getvalue().count(b"\n") >= 2


def test_a_csv_that_fails_before_its_first_record_has_no_header() -> None:
    with pytest.raises(Unreachable):
        rendered(breaking(Unreachable("gone"), 0), "csv")


class Full(io.BytesIO):
    """A stream that takes nothing."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, _: object) -> int:
        """Fail as told."""
        raise self.error


def test_an_output_that_takes_nothing_is_told_from_a_reader_that_is_gone() -> None:
    full = Output(Full(OSError(errno.ENOSPC, "No space left on device")), "utf-8", is_terminal=False, columns=80)
    with pytest.raises(OutputFault, match="No space left on device"):
        full.write("x")
    gone = Output(Full(BrokenPipeError(errno.EPIPE, "Broken pipe")), "utf-8", is_terminal=False, columns=80)
    with pytest.raises(BrokenPipeError):
        gone.write("x")


def test_a_bug_midway_closes_no_document() -> None:
    with pytest.raises(ZeroDivisionError):
        rendered(breaking(ZeroDivisionError(), 1), "json")


def test_more_is_asked_after_the_last_record() -> None:
    seen = []

    def records() -> Iterator[Record]:
        seen.append(1)
        yield Record(b"a", None, 1, None, None, None)

    assert json.loads(rendered(records(), "json", more=lambda: bool(seen)))["more"] is True


def test_output_writes_what_its_terminal_can_show() -> None:
    stream = io.BytesIO()
    Output(stream, "ascii", is_terminal=True, columns=80).write("é✓")
    assert stream.getvalue() == rb"\xe9\u2713"
    assert Output(stream, "UTF-8", is_terminal=True, columns=80).shows_unicode
    assert Output(stream, "utf8", is_terminal=True, columns=80).shows_unicode
    assert not Output(stream, "latin-1", is_terminal=True, columns=80).shows_unicode


def test_records_are_written_in_the_order_of_their_fields() -> None:
    assert tuple(each.name for each in fields(Record)) == NAMES


# One value over several lines


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


@given(
    value=st.lists(JSON, max_size=3) | st.dictionaries(st.text(max_size=4), JSON, max_size=3),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
def test_indented_json_reads_back_the_same(value: Any, indent: int | None, *, ascii_only: bool) -> None:
    lines = indented(json.dumps(value, indent=indent, ensure_ascii=ascii_only))
    assert lines is not None
    assert json.loads("\n".join(lines)) == value


@pytest.mark.parametrize("written", ['{"a":1e400,"a":1.10,"b":"\\u00e9"}', '{"n":123456789012345678901234567890.50}'])
def test_indenting_leaves_numbers_escapes_and_repeated_keys_as_written(written: str) -> None:
    lines = indented(written)
    assert lines is not None
    assert re.sub(r"\s", "", "".join(lines)) == written


@pytest.mark.parametrize("written", ["", "1", '"a"', "{", "[1,]", "nonsense", "[" * 100_000, "{'a': 1}"])
def test_what_is_no_json_object_or_list_is_not_indented(written: str) -> None:
    assert indented(written) is None


@given(BYTES)
def test_a_blob_is_shown_over_lines_that_hold_all_of_it(value: bytes) -> None:
    lines = detail_lines(value, "iso", lambda: NOW_MS)
    if lines and re.match(r"[0-9a-f]{8}  ", lines[0]):
        assert b"".join(bytes.fromhex(line[10:58].strip()) for line in lines) == value
    elif indented(decode(value)) is None:
        assert "\n".join(lines) == decode(value)


def test_the_forms_of_a_blob() -> None:
    def lines(value: Any, style: str = "iso") -> list[str]:
        return detail_lines(value, style, lambda: NOW_MS)

    assert lines(b'{"a":[1,{}],"b":[]}') == ["{", '  "a": [', "    1,", "    {}", "  ],", '  "b": []', "}"]
    assert lines(b"one\ntwo") == ["one", "two"]
    assert lines(b"plain") == ["plain"]
    assert lines(b"\x83\xa5order") == ["00000000  83 a5 6f 72 64 65 72                             ..order"]
    assert len(lines(bytes(range(256)))) == 16
    assert lines([b"a", b"b"]) == ["a", "b"]
    assert lines({"a": 1, "b": None, "c": {"d": 2, "e": 3}, "f": [], "g": b"x\ny"}) == [
        "a: 1",
        "c:",
        "  d: 2",
        "  e: 3",
        "g:",
        "  x",
        "  y",
    ]
    assert lines(MOMENT, "relative") == ["2026-11-29T23:40:12.118Z (3h ago)"]
    assert lines(MOMENT) == ["2026-11-29T23:40:12.118Z"]
    assert lines(7) == ["7"]
