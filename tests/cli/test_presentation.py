"""Formats, columns, times and colours: what an operator can choose."""

from __future__ import annotations

import re

import pytest
import redis
import worlds
from cli.running import Emqctl

FIRST = ["JOB0JZBtlAgspU", "2025-12-31T22:52:08.600Z", "0", "-", "15", '{"order":99999}']


def test_a_table_is_the_default_at_a_terminal_and_plain_elsewhere(emqctl: Emqctl, world: worlds.World) -> None:
    assert emqctl("browse", "orders", "-n", "1", "-q").cells == [FIRST]
    at_terminal = emqctl("browse", "orders", "-n", "1", "-q", tty=True, env={"NO_COLOR": "1"})
    assert [line.split()[0] for line in at_terminal.lines if line.strip("─")] == ["id", FIRST[0]]
    asked = emqctl("browse", "orders", "-n", "1", "-q", "-o", "table")
    assert asked.lines == at_terminal.lines


def test_columns_choose_fields_and_their_order(emqctl: Emqctl, world: worlds.World) -> None:
    words = ["browse", "orders", "-n", "1", "-q", "--columns"]
    assert emqctl(*words, "payload_bytes,id").cells == [["15", FIRST[0]]]
    assert emqctl(*words, " id , minted ").cells == [FIRST[:2]]
    assert emqctl(*words, "id,id").cells == [[FIRST[0], FIRST[0]]]
    assert emqctl(*words, "all").cells == [FIRST]
    assert emqctl(*words, "payload_bytes,id", "-o", "csv").out == f"payload_bytes,id\n15,{FIRST[0]}\n"
    table = emqctl(*words, "lane,id", "-o", "table")
    assert table.lines[0].split() == ["lane", "id"]


def test_columns_leave_json_and_ids_as_they_are(emqctl: Emqctl, world: worlds.World) -> None:
    """They hold every field; columns are for table, plain and csv."""
    for output in ("json", "jsonl", "ids"):
        words = ["browse", "orders", "-n", "1", "-q", "-o", output]
        assert emqctl(*words, "--columns", "attempts").out == emqctl(*words).out


def test_a_table_leaves_out_columns_that_are_empty_throughout_unless_chosen(
    emqctl: Emqctl, world: worlds.World
) -> None:
    words = ["browse", "orders", "-n", "1", "-q", "-o", "table"]
    assert "lane" not in emqctl(*words).lines[0]
    assert "lane" in emqctl(*words, "--columns", "all").lines[0]


@pytest.mark.parametrize(
    ("style", "shown"),
    [
        ("iso", "2025-12-31T22:52:08.600Z"),
        ("local", "2026-01-01 07:52:08.600+09:00"),
        ("epoch", "1767221528600"),
    ],
)
@pytest.mark.parametrize("output", ["plain", "table"])
def test_times_are_written_as_chosen_with_their_zone(
    emqctl: Emqctl, world: worlds.World, style: str, shown: str, output: str
) -> None:
    words = ["browse", "orders", "-n", "1", "-q", "--columns", "minted", "-o", output]
    assert emqctl(*words, "--time", style, env={"TZ": "Asia/Tokyo"}).lines[-1] == shown
    assert emqctl(*words, env={"TZ": "Asia/Tokyo", "EMQCTL_TIME": style}).lines[-1] == shown


def test_relative_times_count_from_the_servers_clock(emqctl: Emqctl, world: worlds.World) -> None:
    words = ["browse", "orders", "--state", "active", "-n", "0", "--columns", "id,deadline", "--time", "relative"]
    shown = dict(emqctl(*words, "-q").cells)
    assert shown[world.ids["active.live_0"]["id"]] in {"in 59m", "in 1h"}
    assert shown[world.ids["active.expired_3"]["id"]] == "1m ago"
    table = emqctl(*words[:-2], "-q", "-o", "table")
    assert "in 59m" in table.out


@pytest.mark.parametrize("style", ["relative", "local", "epoch"])
def test_machine_formats_keep_rfc_3339_whatever_style_is_chosen(
    emqctl: Emqctl, world: worlds.World, style: str
) -> None:
    for output in ("json", "jsonl", "csv"):
        words = ["browse", "orders", "-n", "3", "-q", "-o", output]
        assert emqctl(*words, "--time", style).out == emqctl(*words).out


COLOURED, PLAIN = True, False


@pytest.mark.parametrize(
    ("tty", "words", "env", "coloured"),
    [
        (True, [], {}, COLOURED),
        (True, [], {"NO_COLOR": "1"}, PLAIN),
        (True, [], {"NO_COLOR": ""}, COLOURED),
        (True, [], {"TERM": "dumb"}, PLAIN),
        (True, [], {"NO_COLOR": "1", "FORCE_COLOR": "1"}, PLAIN),
        (True, [], {"TERM": "dumb", "FORCE_COLOR": "1"}, COLOURED),
        (True, ["--color", "never"], {}, PLAIN),
        (True, ["--color", "never"], {"FORCE_COLOR": "1"}, PLAIN),
        (True, ["--color", "always"], {"NO_COLOR": "1"}, COLOURED),
        (True, ["--color", "auto"], {"NO_COLOR": "1"}, PLAIN),
        (False, [], {}, PLAIN),
        (False, [], {"FORCE_COLOR": "1"}, COLOURED),
        (False, [], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, PLAIN),
        (False, ["--color", "always"], {}, COLOURED),
        (False, ["--color", "auto"], {}, PLAIN),
        (True, [], {"COLORTERM": "truecolor", "NO_COLOR": "1"}, PLAIN),
        (False, [], {"COLORTERM": "truecolor", "CLICOLOR_FORCE": "1", "PY_COLORS": "1"}, PLAIN),
        (True, [], {"TTY_COMPATIBLE": "0"}, COLOURED),
    ],
    ids=str,
)
def test_colour_is_the_flags_then_no_color_then_force_color_then_the_terminals(
    emqctl: Emqctl, world: worlds.World, *, tty: bool, words: list[str], env: dict[str, str], coloured: bool
) -> None:
    """Without colour there is not one escape byte."""
    result = emqctl("browse", "broken", "-o", "table", *words, tty=tty, env=env)
    assert (b"\x1b" in result.stdout) == coloured
    assert b"\x1b" not in result.stderr


@pytest.mark.parametrize("output", ["plain", "json", "jsonl", "csv", "ids"])
def test_only_tables_have_colour(emqctl: Emqctl, world: worlds.World, output: str) -> None:
    for tty in (True, False):
        words = ["browse", "orders", "-o", output, "--color"]
        assert emqctl(*words, "always", tty=tty).out == emqctl(*words, "never", tty=tty).out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "iso-8859-15", "koi8-r", "cp1252"])
def test_a_terminal_of_few_characters_shows_the_others_escaped(
    emqctl: Emqctl, world: worlds.World, encoding: str
) -> None:
    for words in (
        ["browse", "orders", "-n", "45"],
        ["depth"],
        ["browse", "eu-west.orders:v2 ü"],
        ["key", "q", "repeat", "ñ✓"],
    ):
        for output in ("table", "plain", "json", "jsonl", "csv", "ids"):
            result = emqctl(*words, "-o", output, tty=True, encoding=encoding, env={"NO_COLOR": "1"})
            assert result.code in {0, 3}
            shown = result.stdout.decode(encoding)
            whole = emqctl(*words, "-o", output, tty=True, env={"NO_COLOR": "1"}).out
            assert shown.count("?") == whole.count("?")
            assert "\x1b" not in shown
    if encoding == "ascii":
        assert r"\u00fc" in emqctl("depth", tty=True, encoding=encoding, env={"NO_COLOR": "1"}).out


def test_json_off_a_terminal_is_utf8_in_every_locale(emqctl: Emqctl, world: worlds.World) -> None:
    usual = emqctl("browse", "orders", "-n", "45", "-o", "json").json
    for encoding in ("ascii", "latin-1"):
        assert emqctl("browse", "orders", "-n", "45", "-o", "json", encoding=encoding).json == usual


def test_a_table_without_unicode_has_no_lines_of_unicode(emqctl: Emqctl, world: worlds.World) -> None:
    result = emqctl("depth", "-o", "table", tty=True, encoding="ascii", env={"NO_COLOR": "1"})
    assert re.search("[^\x20-\x7e\n]", result.stdout.decode("ascii")) is None


def test_errors_that_stand_in_cells_are_red_and_true_is_yellow(emqctl: Emqctl, world: worlds.World) -> None:
    lapsed = emqctl("browse", "orders", "--state", "active", tty=True)
    assert "\x1b[33mtrue" in lapsed.out
    wrong = emqctl("depth", "wrongtype", "orders", tty=True)
    assert "\x1b[31m! string, not zset" in wrong.out


def test_numbers_stand_to_the_right(emqctl: Emqctl, world: worlds.World) -> None:
    lines = emqctl("depth", "orders", "idle", "-o", "table").lines
    assert len(set(map(len, lines))) == 1
    assert lines[-1].endswith("  0")


def test_wide_characters_keep_columns_in_line(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    redis_client.set("{emq}:version", "echomq:3.0.0")
    for queue in ("注文", "orders"):
        redis_client.zadd(f"emq:{{{queue}}}:pending", {"JOB00000000000": 0})
    lines = emqctl("depth", "-o", "table").lines
    ends = [len(line) + 2 * line.startswith("注文") for line in lines[2:]]
    assert len(set(ends)) == 1
