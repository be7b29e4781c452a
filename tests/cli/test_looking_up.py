"""``key``, ``slot`` and ``id``: exact answers, and refusals that name what is wrong."""

from __future__ import annotations

import json
import os
from base64 import b64decode
from typing import Any

import pytest
import redis
import worlds
from cli.running import Emqctl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.crc import key_slot

from emqctl.demo.server import PrivateServer, find_binary
from emqctl.keyspace import FIXED, JOB_SUBS

JOB, TEN = "JOB0Nb1VTbfnu4", "TEN0IlTd9mDCbY"

KEYS = [
    *((("orders", kind), f"emq:{{orders}}:{kind}") for kind in FIXED),
    (("orders", "job", JOB), f"emq:{{orders}}:job:{JOB}"),
    *((("orders", "job", JOB, sub), f"emq:{{orders}}:job:{JOB}:{sub}") for sub in JOB_SUBS),
    (("orders", "job", TEN), f"emq:{{orders}}:job:{TEN}"),  # well-formed ids of any kind
    (("orders", "lane", TEN), f"emq:{{orders}}:g:{TEN}:pending"),
    (("orders", "dedup", "order-3104"), "emq:{orders}:de:order-3104"),
    (("orders", "repeat", "naïve name/with:colon"), "emq:{orders}:repeat:naïve name/with:colon"),
    (("orders", "stream", "logins"), "emq:{orders}:stream:logins"),
    (("orders", "stream", "logins", "archived"), "emq:{orders}:stream:logins:archived"),
    (("eu-west.orders:v2 ü", "pending"), "emq:{eu-west.orders:v2 ü}:pending"),
    (("--reserve", "version"), "{emq}:version"),
    (("--reserve", "locks"), "{emq}:locks"),
    (("--reserve", "bundle"), "{emq}:bundle"),
    (("--reserve", "migration:orders"), "{emq}:migration:orders"),
]

REFUSED = [  # command line, what the message names
    (("key", "", "pending"), "''"),
    (("key", "a{b", "pending"), "'a{b'"),
    (("key", "a}b", "pending"), "'a}b'"),
    (("key", "emq", "pending"), "'emq'"),
    (("key", "a\x1b[31mb", "pending"), r"'a\x1b[31mb'"),
    (("key", "a\nb", "pending"), r"'a\nb'"),
    (("key", "orders", "job", JOB[:-1]), f"'{JOB[:-1]}'"),
    (("key", "orders", "job", JOB + "4"), f"'{JOB}4'"),
    (("key", "orders", "job", "job" + JOB[3:]), f"'job{JOB[3:]}'"),
    (("key", "orders", "job", "JOBAzL8n0Y58m8"), "'JOBAzL8n0Y58m8'"),
    (("key", "orders", "job", "JOB0Nb1VTbfnü"), "'JOB0Nb1VTbfnü'"),
    (("key", "orders", "job", ""), "''"),
    (("key", "orders", "job"), "'job'"),
    (("key", "orders", "job", JOB, "locks"), "'locks'"),
    (("key", "orders", "job", JOB, ""), "''"),
    (("key", "orders", "job", JOB, "lock", "more"), "QUEUE TYPE [ID [SUB]]"),
    (("key", "orders", "lane", "eu"), "'eu'"),
    (("key", "orders", "dedup", "a b"), "'a b'"),
    (("key", "orders", "dedup", ""), "''"),
    (("key", "orders", "repeat", ""), "''"),
    (("key", "orders", "stream", ""), "''"),
    (("key", "orders", "stream", "x:archived"), "'x:archived'"),
    (("key", "orders", "stream", "x", "trimmed"), "'trimmed'"),
    (("key", "orders", "scheduled"), "'scheduled'"),
    (("key", "orders", "Pending"), "'Pending'"),
    (("key", "orders", ""), "''"),
    (("key", "orders", "pending", "x"), "'pending'"),
    (("key", "orders", "lane", TEN, "logs"), "'lane'"),
    (("key", "orders"), "QUEUE TYPE [ID [SUB]]"),
    (("key",), "QUEUE TYPE [ID [SUB]]"),
    (("key", "--parse"), "--parse"),
    (("key", "--parse", "--reserve", "version"), "--reserve"),
    (("key", "--reserve", "fence"), "'fence'"),
    (("key", "--reserve", "migration:"), "''"),
    (("key", "--reserve", "migration:a{b"), "'a{b'"),
    (("key", "--reserve", "version", "orders"), "--reserve"),
    (("slot",), "NAME"),
    (("slot", ""), "''"),
    (("slot", "orders", ""), "''"),
    (("id",), "--at TIME"),
    (("id", ""), "''"),
    (("id", JOB, "nope"), "'nope'"),
    (("id", JOB, "--at", "2h"), "--at TIME"),
    (("id", "--at", "soon"), "'soon'"),
    (("id", "--at", ""), "''"),
    (("id", "--at", "2023-12-31"), "2024-01-01"),
    (("id", "--at", "2093-09-06T15:47:35.552Z"), "2093-09-06"),
    (("id", "--at", "2h", "--ns", "job"), "'job'"),
    (("depth", "a{b}"), "'a{b}'"),
    (("depth", "emq"), "'emq'"),
    (("depth", "orders", ""), "''"),
    (("browse", ""), "''"),
    (("browse", "emq"), "'emq'"),
    (("browse", "orders", "emails"), "emails"),
    (("browse", "orders", "--state", "completed"), "'completed'"),
    (("browse", "orders", "--state", "schedule"), "'schedule'"),
    (("browse", "orders", "--lane", "eu"), "'eu'"),
    (("browse", "orders", "--lane", TEN, "--flat"), "--flat and --lane"),
    (("browse", "orders", "--before", "JOB"), "'JOB'"),
    (("browse", "orders", "--before", TEN), TEN),
    (("browse", "orders", "-n", "-1"), "-1"),
    (("browse", "orders", "-n", "many"), "'many'"),
    (("browse", "orders", "--since", "yesterday"), "'yesterday'"),
    (("browse", "orders", "--since", "2026-02-30"), "'2026-02-30'"),
    (("browse", "orders", "--until", "2026-01-01T25:00"), "'2026-01-01T25:00'"),
    (("browse", "orders", "--until", "1h30m"), "'1h30m'"),
    (("depth", "orders", "-p", "6390"), "'-p'"),
    (("-p", "6390"), "'-p'"),
    (("depht", "orders"), "'depht'"),
    (("depth", "--stats"), "'--stats'"),
    (("depth", "orders", "--flat", "--states"), "--flat and --states"),
    (("depth", "orders", "-o", "yaml"), "'yaml'"),
    (("depth", "orders", "--time", "utc"), "'utc'"),
    (("depth", "orders", "--color", "maybe"), "'maybe'"),
    (("depth", "orders", "--request-timeout", "soon"), "'soon'"),
    (("depth", "orders", "--request-timeout", "-1"), "'-1'"),
    (("depth", "orders", "--request-timeout", "0"), "'0'"),
    (("depth", "orders", "--request-timeout", ""), "--request-timeout"),
]


@pytest.mark.parametrize(("words", "key"), KEYS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_key_prints_the_key_and_nothing_else(emqctl: Emqctl, words: tuple[str, ...], key: str) -> None:
    assert emqctl("key", *words, url=None).summary == (0, f"{key}\n", "")


@pytest.mark.parametrize(("words", "key"), KEYS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_key_parse_answers_with_the_words_that_build_it(emqctl: Emqctl, words: tuple[str, ...], key: str) -> None:
    [name] = emqctl("key", "--parse", key, "-o", "json", url=None).records
    assert list(name) == ["key", "kind", "queue", "type", "id", "sub", "tag", "slot"]
    assert (name["key"], name["slot"]) == (key, key_slot(key.encode()))
    if words[0] == "--reserve":
        assert (name["kind"], name["queue"], name["type"], name["tag"]) == ("reserve", None, words[1], "emq")
    else:
        assert name["kind"] == "queue"
        found = [name["queue"], name["type"], name["id"], name["sub"]]
        assert [word for word in found if word is not None] == list(words)
        assert name["tag"] == words[0]


@pytest.mark.parametrize(("words", "named"), REFUSED, ids=[" ".join(words) or "-" for words, _ in REFUSED])
@pytest.mark.parametrize("output", ["plain", "json"])
def test_a_bad_command_line_exits_2_and_names_it_before_anything_is_sent(
    emqctl: Emqctl, words: tuple[str, ...], named: str, output: str
) -> None:
    """Usage errors are text in every format, and found before a server is asked for anything."""
    result = emqctl("-o", output, *words, url="redis://127.0.0.1:1/0")
    assert (result.code, result.out) == (2, "")
    first, *rest = result.err.splitlines()
    assert first.startswith("emqctl: ")
    assert named in first
    assert len(rest) <= 1
    assert all(line.startswith("hint: ") for line in rest)


@pytest.mark.parametrize(
    ("columns", "named"), [("queue,nope", "'nope'"), ("queue,", "''"), ("", "''"), ("dead", "'dead'")]
)
def test_a_column_that_does_not_exist_is_named_and_so_are_those_that_do(
    emqctl: Emqctl, world: worlds.World, columns: str, named: str
) -> None:
    result = emqctl("depth", "orders", "--columns", columns)
    assert (result.code, result.out) == (2, "")
    assert named in result.err
    assert "known are queue " in result.err


def test_a_column_that_does_not_exist_is_found_before_the_server_is_asked(emqctl: Emqctl) -> None:
    for words in (["depth", "orders"], ["browse", "orders"], ["slot", "orders", "--node"]):
        assert emqctl(*words, "--columns", "nope", url="redis://127.0.0.1:1/0").code == 2


def test_there_is_no_short_form_of_a_port(emqctl: Emqctl) -> None:
    result = emqctl("depth", "-p", "6390")
    assert result.summary == (
        2,
        "",
        "emqctl: depth: no such option '-p'\nhint: the port belongs in --url redis://HOST:PORT/DB\n",
    )


def test_a_misspelt_command_gets_a_suggestion(emqctl: Emqctl) -> None:
    assert "browse" in emqctl("brwose", "orders").err


def test_key_parse_says_unclassified_and_that_is_an_answer(emqctl: Emqctl) -> None:
    result = emqctl("key", "--parse", "emq:{orders}:futuretype", "session:1", "", "-o", "jsonl", url=None)
    assert (result.code, result.err) == (0, "")
    assert [(name["kind"], name["queue"], name["tag"]) for name in result.records] == [
        ("unclassified", "orders", "orders"),
        ("unclassified", None, "session:1"),
        ("unclassified", None, ""),
    ]


def test_key_parse_reads_keys_from_stdin_byte_for_byte(emqctl: Emqctl) -> None:
    odd = b"emq:{\xff\xfe}:pending"
    result = emqctl("key", "--parse", "-", "-o", "jsonl", url=None, stdin=b"{emq}:version\n\n" + odd + b"\n x ")
    version, other, blank = result.records
    assert version["type"] == "version"
    assert b64decode(other["key_base64"]) == odd
    assert b64decode(other["queue_base64"]) == b"\xff\xfe"
    assert blank["key"] == " x "


def test_key_parse_of_an_empty_stdin_finds_nothing(emqctl: Emqctl) -> None:
    assert emqctl("key", "--parse", "-", "-o", "json", url=None).json == {
        "schema": "emqctl/key/1",
        "records": [],
        "more": False,
    }


def test_key_parse_tells_the_recorded_world_apart(emqctl: Emqctl) -> None:
    """Whatever the world calls foreign or unclassified is unclassified; the rest is built back from its words."""
    recorded = json.loads((worlds.DATA / "world.json").read_text("utf-8"))
    known = json.loads((worlds.DATA / "world_ids.json").read_text("utf-8"))["discovery"]
    keys = [key.encode() if isinstance(key, str) else b64decode(key["b64"]) for key in map(_key, recorded["keys"])]
    result = emqctl("key", "--parse", "-", "-o", "jsonl", url=None, stdin=b"\n".join(keys))
    records = {_bytes(name, "key"): name for name in result.records}
    assert set(records) == set(keys)
    unclassified = {key for key, name in records.items() if name["kind"] == "unclassified"}
    assert {key.encode() for key in known["unclassified_keys"] + known["foreign_keys"]} <= unclassified
    assert {name["queue"] for name in records.values() if name["kind"] == "queue" and "queue" in name} == {
        *known["queues"],
        *(name for name in known["outside_grammar"] if isinstance(name, str) and name != "emq"),
    }
    for key, name in records.items():
        if name["kind"] == "queue" and "key" in name:
            words = [name[word] for word in ("queue", "type", "id", "sub") if name[word] is not None]
            [built] = emqctl("key", *words, "-o", "json", url=None).records
            assert built["key"] == key.decode()


def test_a_single_key_is_drawn_as_lines_at_a_terminal(emqctl: Emqctl) -> None:
    result = emqctl("key", "--parse", "emq:{orders}:dead", tty=True, env={"NO_COLOR": "1"}, url=None)
    assert result.lines == [
        "key    emq:{orders}:dead",
        "kind   queue",
        "queue  orders",
        "type   dead",
        "tag    orders",
        "slot   105",
    ]


@pytest.mark.parametrize(
    ("name", "slot"),
    [("orders", 105), ("123456789", 12739), ("emq:{orders}:pending", 105), ("{}orders", key_slot(b"{}orders"))],
)
def test_slot_of_one_name_is_the_bare_number(emqctl: Emqctl, name: str, slot: int) -> None:
    assert emqctl("slot", name, url=None).summary == (0, f"{slot}\n", "")
    assert emqctl("slot", name, url=None, tty=True).summary == (0, f"{slot}\n", "")


def test_slot_of_several_names_is_a_line_each(emqctl: Emqctl) -> None:
    assert emqctl("slot", "orders", "123456789", url=None).summary == (0, "orders\t105\n123456789\t12739\n", "")


def test_slot_shows_name_tag_slot_and_no_node_to_machines(emqctl: Emqctl) -> None:
    [record] = emqctl("slot", "emq:{orders}:dead", "-o", "json", url=None).records
    assert list(record.items()) == [("name", "emq:{orders}:dead"), ("tag", "orders"), ("slot", 105), ("node", None)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=2))
def test_slot_agrees_with_the_client_library(emqctl: Emqctl, names: list[str]) -> None:
    names = [name for name in names if not name.startswith("-")] + ["a", "b"]
    found = emqctl("slot", "-o", "jsonl", "--", *names, url=None).records
    assert [(each["name"], each["slot"]) for each in found] == [(name, key_slot(name.encode())) for name in names]


def test_slot_agrees_with_the_server_for_every_queue_of_the_recorded_world(emqctl: Emqctl, world: worlds.World) -> None:
    names = sorted(world.queues)
    found = emqctl("slot", *names, "-o", "jsonl", url=None).records
    assert {each["name"]: each["slot"] for each in found} == {
        name: key_slot(f"emq:{{{name}}}:pending".encode()) for name in names
    }


def test_slot_node_of_a_server_that_is_no_cluster_is_that_server(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    result = emqctl("slot", "orders", "--node")
    assert (result.code, result.out) == (0, f"orders\t105\t{emqctl.url}\n")
    assert result.err == f"note: {emqctl.url} is no cluster: it serves every slot\n"


def test_slot_node_asks_a_cluster_which_node_serves_it(emqctl: Emqctl) -> None:
    """Whatever state the cluster is in, and on whichever of its nodes the deployment's version key is."""
    with PrivateServer(find_binary(os.environ), "--cluster-enabled", "yes", tcp=True) as node:
        with redis.Redis(port=node.port) as client:
            client.execute_command("CLUSTER ADDSLOTS", *range(12_000))
        result = emqctl("slot", "orders", "123456789", "--node", url=node.url)
        assert result.summary == (0, f"orders\t105\t127.0.0.1:{node.port}\n123456789\t12739\t-\n", "")


def test_id_takes_an_id_apart(emqctl: Emqctl) -> None:
    result = emqctl("id", "USR0KHTOWnGLuC", "JOBAzL8n0Y58m7", "-o", "jsonl", url=None)
    assert (result.code, result.err) == (0, "")
    assert [list(record.items()) for record in result.records] == [
        [
            ("id", "USR0KHTOWnGLuC"),
            ("namespace", "USR"),
            ("snowflake", "274557032793636864"),
            ("minted", "2026-01-27T15:11:37.641Z"),
            ("node", 0),
            ("sequence", 0),
        ],
        [
            ("id", "JOBAzL8n0Y58m7"),
            ("namespace", "JOB"),
            ("snowflake", "9223372036854775807"),
            ("minted", "2093-09-06T15:47:35.551Z"),
            ("node", 1023),
            ("sequence", 4095),
        ],
    ]


@pytest.mark.parametrize(
    ("words", "smallest"),
    [
        (("2024-01-01",), "JOB00000000000"),
        (("2026-01-27T15:11:37.641Z",), "JOB0KHTOWnGLuC"),
        (("2026-01-27T16:11:37.641+01:00",), "JOB0KHTOWnGLuC"),
        (("2026-01-27 15:11:37.641", "--ns", "TEN"), "TEN0KHTOWnGLuC"),
    ],
)
def test_id_at_prints_the_smallest_id_of_that_instant(emqctl: Emqctl, words: tuple[str, ...], smallest: str) -> None:
    assert emqctl("id", "--at", *words, url=None).summary == (0, f"{smallest}\n", "")


def _key(entry: dict[str, Any]) -> Any:
    return entry["key"]


def _bytes(record: dict[str, Any], name: str) -> bytes:
    return record[name].encode() if name in record else b64decode(record[f"{name}_base64"])
