"""Data that would steer a terminal, break a format or crash a reader, in every column and name."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any

import pytest
import redis
from cli.running import Emqctl, Result, unescape
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HOSTILE = {
    "SGR": b"\x1b[38;5;213mpink\x1b[0m",
    "title and clipboard": b"\x1b]0;pwned\x07\x1b]52;c;ZWNobyBwd25lZA==\x07",
    "screen": b"a\x1b[2J\x1b[H\x1b[?1049h\x1bc",
    "C1 code points": "\u009b31m\u0085\u0090x\u009c".encode(),
    "C1 bytes": b"\x9b31m\x85",
    "CR and backspace": b"drop all\x08\x08\x08keep\rspoofed",
    "line ends": b"a\nb\r\nc\n\n\x0b\x0c\x1c\x1d\x1e",
    "unicode line ends": "a\u2028b\u2029c\u0085d".encode(),
    "tab": b"a\tb",
    "NUL": b"a\0b",
    "DEL": b"a\x7fb",
    "bidi": "\u202egnp.exe\u202c\u2066x\u2069\u200e\u200f\u061c".encode(),
    "byte order marks": "\ufeffa\ufffe".encode("utf-8", "surrogatepass"),
    "markup": b"[/payments] [red]x list[str] [link=http://e]y[/link] \\[bold]",
    "emoji codes": b":bug: :smile: :warning:",
    "emoji and accents": "👩‍👩‍👧 e\u0301 🇫🇮 漢字".encode(),
    "invalid UTF-8": b"\xff\xfe caf\xe9 \xed\xa0\x80 \xf0\x9f",
    "backslashes": rb"\x1b \\ \u202e \t C:\new",
    "quotes": b'say "hi", \'x\'; "',
    "formula": b'=HYPERLINK("http://evil.example","x"),"a,b"',
    "dash": b"-",
    "blank": b"   ",
    "empty": b"",
    "null": b"null",
    "a 64 KB line": b"x" * 65_536,
    "every byte": bytes(range(256)),
}
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
FORMATS = ["table", "plain", "json", "jsonl", "csv", "ids"]
A = "TEN0IlTd9mDCbY"

hostile = pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))


@pytest.fixture
def queue(redis_client: redis.Redis) -> redis.Redis:
    """A deployment without jobs."""
    redis_client.set("{emq}:version", "echomq:3.0.0")
    redis_client.hset("emq:{q}:meta", "max", 1)
    return redis_client


def put_everywhere(client: redis.Redis, text: bytes) -> None:
    """Make a text the payload, the error, the attempts, the group and the id of jobs."""
    for nth, row in enumerate(
        (
            {"attempts": 1, "payload": text, "last_error": text},
            {"attempts": text, "payload": "{}", "last_error": "x", "group": text},
        )
    ):
        job = f"JOB0000000000{nth}"
        for kind in ("pending", "dead", "active", "schedule"):
            client.zadd(f"emq:{{q}}:{kind}", {job: 0})
        client.hset(f"emq:{{q}}:job:{job}", mapping=row)
    for kind in ("pending", "dead", "active", "schedule"):
        client.zadd(f"emq:{{q}}:{kind}", {text: 0})
    client.hset(b"emq:{q}:job:" + text, mapping={"attempts": 0, "payload": "mine", "last_error": "mine"})


def assert_harmless(result: Result, encoding: str = "utf-8") -> None:
    """Nothing but line ends, and tabs between cells, is left of what steers a terminal."""
    for stream in (result.stdout, result.stderr):
        found = STEERING.search(stream.decode(encoding))
        assert found is None, found


@hostile
@pytest.mark.parametrize("output", FORMATS)
def test_nothing_of_the_data_reaches_a_terminal_raw(
    emqctl: Emqctl, queue: redis.Redis, text: bytes, output: str
) -> None:
    put_everywhere(queue, text)
    for words, encoding in (
        (["--payload"], "utf-8"),
        (["--payload"], "ascii"),
        (["--state", "dead"], "utf-8"),
        (["--state", "active"], "ascii"),
        (["--state", "scheduled"], "utf-8"),
    ):
        result = emqctl("browse", "q", *words, "-o", output, tty=True, env={"NO_COLOR": "1"}, encoding=encoding)
        assert result.code == 0
        assert_harmless(result, encoding)


@hostile
def test_colour_adds_nothing_but_its_own_sequences(emqctl: Emqctl, queue: redis.Redis, text: bytes) -> None:
    """Bold, dim, yellow, red and their end; no sequence of the data's survives."""
    put_everywhere(queue, text)
    result = emqctl("browse", "q", "--state", "dead", tty=True)
    sequences = set(re.findall("\x1b[^m]*m", result.out))
    assert sequences <= {"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m"}
    assert STEERING.search(re.sub("\x1b\\[[0-9]+m", "", result.out)) is None
    plain = re.sub("\x1b\\[[0-9]+m", "", result.out)
    colourless = emqctl("browse", "q", "--state", "dead", tty=True, env={"NO_COLOR": "1"})
    assert colourless.lines == [line.rstrip() for line in plain.split("\n")[:-1]]


@hostile
@pytest.mark.parametrize("columns", [40, 200])
@pytest.mark.parametrize("output", ["json", "jsonl", "csv"])
def test_machine_formats_give_every_value_back_byte_for_byte(
    emqctl: Emqctl, queue: redis.Redis, text: bytes, output: str, columns: int
) -> None:
    put_everywhere(queue, text)
    for state in ("pending", "dead"):
        words = ["--state", state, "--payload", "-o", output]
        result = emqctl("browse", "q", *words, columns=columns, env={"FORCE_COLOR": "1"})
        first = next(record for record in result.records if record.get("id") == "JOB00000000000")
        assert value(first, "payload") == text
        assert int(first["payload_bytes"]) == len(text)
        if state == "dead" and len(text) <= 4096:
            assert value(first, "error") == text
        assert text in [value(record, "id") for record in result.records]
        named = next(record for record in result.records if value(record, "id") == text)
        assert value(named, "payload") == b"mine"
        if state == "dead":
            lanes = [value(record, "lane") for record in result.records]
            assert text in lanes


def value(record: dict[str, Any], name: str) -> bytes:
    """Return the bytes of a field: csv leaves a text that is not UTF-8 empty and adds the base64."""
    return b64decode(record[f"{name}_base64"]) if record.get(f"{name}_base64") else (record[name] or "").encode()


@hostile
def test_plain_has_one_line_a_job_and_its_escapes_are_reversible(
    emqctl: Emqctl, queue: redis.Redis, text: bytes
) -> None:
    put_everywhere(queue, text)
    for encoding in ("utf-8", "ascii", "latin-1"):
        for tty in (False, True):
            result = emqctl(
                "browse", "q", "--state", "dead", "--payload", "-o", "plain", tty=tty, encoding=encoding, columns=40
            )
            lines = result.stdout.decode(encoding if tty else "utf-8").split("\n")[:-1]
            rows = [line.split("\t") for line in lines]
            assert [len(row) for row in rows] == [8, 8, 8]
            [row] = [row for row in rows if row[0] == "JOB00000000000"]
            assert unescape(row[7]) == text
            if len(text) <= 4096:
                assert unescape(row[4]) == text
            assert text in [unescape(row[0]) for row in rows]


@hostile
def test_ids_has_one_line_a_job(emqctl: Emqctl, queue: redis.Redis, text: bytes) -> None:
    put_everywhere(queue, text)
    result = emqctl("browse", "q", "-o", "ids")
    assert sorted(map(unescape, result.lines)) == sorted({b"JOB00000000000", b"JOB00000000001", text})


@pytest.mark.parametrize("text", [HOSTILE["markup"], HOSTILE["emoji codes"], HOSTILE["emoji and accents"]])
@pytest.mark.parametrize("tty", [False, True])
def test_a_table_shows_markup_and_emoji_codes_as_they_stand(
    emqctl: Emqctl, queue: redis.Redis, text: bytes, *, tty: bool
) -> None:
    put_everywhere(queue, text)
    result = emqctl("browse", "q", "--state", "dead", "-o", "table", tty=tty, columns=300)
    assert text.decode() in result.out


def test_a_table_shortens_its_last_column_alone(emqctl: Emqctl, queue: redis.Redis) -> None:
    """At a terminal of 40 columns the table is wider than that, and ids and errors are whole."""
    error = "e" * 70
    for nth in range(3):
        job = f"JOB0000000000{nth}"
        queue.zadd("emq:{q}:dead", {job: 0})
        queue.hset(f"emq:{{q}}:job:{job}", mapping={"attempts": 3, "payload": "p" * 60, "last_error": error})
    dead = ("browse", "q", "--state", "dead", "--columns", "id,attempts,error,preview")
    narrow = emqctl(*dead, tty=True, columns=40, env={"NO_COLOR": "1"})
    assert narrow.out.count(error) == 3
    assert all(f"JOB0000000000{nth}" in narrow.out for nth in range(3))
    assert "p" * 60 not in narrow.out
    assert "…" in narrow.out
    wide = emqctl(*dead, tty=True, columns=250, env={"NO_COLOR": "1"})
    assert wide.out.count("p" * 60) == 3
    fitting = max(map(len, wide.lines))
    exact = emqctl(*dead, tty=True, columns=fitting, env={"NO_COLOR": "1"})
    assert exact.out == wide.out
    piped = emqctl(*dead, "-o", "table", columns=40)
    assert piped.out == wide.out


def test_a_table_of_dead_jobs_ends_with_their_errors(emqctl: Emqctl, queue: redis.Redis) -> None:
    """However long one is, the table is as wide as the terminal."""
    queue.zadd("emq:{q}:dead", {"JOB00000000001": 0})
    queue.hset("emq:{q}:job:JOB00000000001", mapping={"attempts": 3, "payload": "p", "last_error": "e" * 4000})
    result = emqctl("browse", "q", "--state", "dead", tty=True, columns=90, env={"NO_COLOR": "1"})
    assert max(map(len, result.lines)) == 90
    assert result.lines[-1].endswith("e…")


def test_a_piped_table_is_whole_however_long_a_payload_is(emqctl: Emqctl, queue: redis.Redis) -> None:
    put_everywhere(queue, b"x" * 1_500_000)
    result = emqctl("browse", "q", "--payload", "-o", "table", "--columns", "id,payload", columns=40)
    assert "x" * 1_500_000 in result.out


@hostile
def test_odd_queue_names_are_listed_and_can_be_named(emqctl: Emqctl, queue: redis.Redis, text: bytes) -> None:
    """A name with control characters is none, and is left out of a list; any other can be counted and browsed."""
    text = text[:200]
    if b"{" in text or b"}" in text:
        return
    queue.zadd(b"emq:{" + text + b"}:pending", {"JOB00000000000": 0})
    name = text.decode("utf-8", "surrogateescape")
    is_name = bool(text) and not re.search("[\x00-\x1f\x7f-\x9f]", name)
    for tty in (False, True):
        for output in FORMATS:
            listed = emqctl("depth", "-o", output, tty=tty, env={"NO_COLOR": "1"})
            assert (listed.code, listed.err) == (0, "")
            if tty or output in {"table", "plain", "json", "jsonl"}:
                assert_harmless(listed)
    counts = {value(row, "queue"): row["waiting"] for row in emqctl("depth", "-o", "jsonl").records}
    assert counts == {b"q": 0, **({text: 1} if is_name else {})}
    for words in (["depth", "--", name], ["browse", "--", name], ["slot", "--", name]):
        result = emqctl(*words, tty=True, env={"NO_COLOR": "1"})
        assert result.code == (0 if is_name or (words[0] == "slot" and name) else 2)
        assert_harmless(result)
        assert_harmless(emqctl("-o", "json", *words))


@hostile
@pytest.mark.parametrize("output", ["plain", "json"])
def test_errors_and_notes_quote_names_harmlessly(emqctl: Emqctl, queue: redis.Redis, text: bytes, output: str) -> None:
    """Whatever an operator or a server says comes back escaped, JSON on one line."""
    name = text.decode("utf-8", "surrogateescape")[:300].replace("\0", "") or "x"
    queue.set("{emq}:version", text)
    for words in (
        ["key", "orders", name],
        ["key", "orders", "job", name],
        ["id", name],
        ["depth", name],
        ["browse", name],
        ["browse", "q", "--lane", name],
        ["browse", "q", "--since", name],
        ["browse", "q", "--columns", name],
        ["browse", "q", "-n", name],
        ["depth", "-u", name],
        ["depth", "--password-file", f"/nonexistent/{name}"],
        [name],
        ["depth", f"--{name}"],
        ["depth", "--request-timeout", name],
    ):
        result = emqctl("-o", output, *words)
        assert_harmless(result)
        assert "Traceback" not in result.err
        begins = (
            ("emqctl: ", "hint: ", "note: ") if output == "plain" or result.code == 2 else ('{"error": ', '{"note": ')
        )
        assert all(line.startswith((*begins, '{"note": ')) for line in result.err.split("\n")[:-1])


def test_a_key_with_a_name_that_is_no_utf8_is_valid_json_where_it_is_named(emqctl: Emqctl, queue: redis.Redis) -> None:
    """JSON texts are Unicode: a lone surrogate is an error to most readers of it."""
    queue.set(b"emq:{\xff}:pending", "not a zset")
    for words in (["depth", "-o", "json"], ["depth", "-o", "json", "\udcff"], ["browse", "-o", "json", "\udcff"]):
        result = emqctl(*words)
        assert re.search(r"\\ud[89a-f]", result.out + result.err) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(
        st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace")), max_size=4
    )
)
def test_any_payload_comes_back_from_every_format(emqctl: Emqctl, queue: redis.Redis, payloads: list[bytes]) -> None:
    queue.delete("emq:{q}:pending")
    for nth, payload in enumerate(payloads):
        job = f"JOB0000000000{nth}"
        queue.zadd("emq:{q}:pending", {job: 0})
        queue.hset(f"emq:{{q}}:job:{job}", mapping={"attempts": 0, "payload": payload})
    for output in ("json", "jsonl", "csv"):
        records = emqctl("browse", "q", "--payload", "--reverse", "-o", output).records
        assert [value(record, "payload") for record in records] == payloads
    cells = emqctl("browse", "q", "--payload", "--reverse").cells
    assert [unescape(row[-1]) for row in cells] == payloads
