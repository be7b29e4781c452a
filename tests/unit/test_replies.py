"""Error replies told by their first word, and raw replies given a shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqctl.errors import BadUsage, Denied, EmqError, Refused, Unreachable
from emqctl.replies import QUEUED, Command, WrongTypeReply, from_reply, shaped, too_old

AT = "redis://h:6379/0"
GET: Command = ("GET", b"key")
WRAPPED = f"Error running script (call to f_{'7f' * 20}): @user_script:433: @user_script: 433: "

REPLIES = [
    ("NOAUTH Authentication required.", Denied, "wants a password"),
    ("WRONGPASS invalid username-password pair or user is disabled.", Denied, "refused the user name or password"),
    ("ERR invalid password", Denied, "refused the user name or password"),
    ("ERR Client sent AUTH, but no password is set", Denied, "no password set"),
    (
        "ERR AUTH <password> called without any password configured for the default user. Are you sure?",
        Denied,
        "no password set",
    ),
    ("NOPERM this user has no permissions to run the 'get' command", Denied, "denied GET key"),
    ("NOPERM User watcher has no permissions to access the 'key' key", Denied, "denied GET key"),
    ("LOADING Redis is loading the dataset in memory", Unreachable, "loading"),
    ("BUSY Redis is busy running a script.", Unreachable, "busy"),
    ("MASTERDOWN Link with MASTER is down", Unreachable, "primary"),
    ("CLUSTERDOWN The cluster is down", Unreachable, "cluster is down"),
    ("MOVED 105 10.0.0.7:6379", Unreachable, "slot 105"),
    ("ASK 105 10.0.0.7:6379", Unreachable, "10.0.0.7:6379"),
    ("TRYAGAIN Multiple keys request during rehashing of slot", Unreachable, "being moved"),
    ("READONLY You can't write against a read only replica.", Refused, "replica"),
    ("OOM command not allowed when used memory > 'maxmemory'.", Refused, "memory"),
    ("MISCONF Redis is configured to save RDB snapshots", Refused, "persist"),
    ("NOREPLICAS Not enough good replicas to write.", Refused, "replicas"),
    ("ERR DB index is out of range", BadUsage, "no such database"),
    ("ERR SELECT is not allowed in cluster mode", BadUsage, "no such database"),
    ("ERR unknown command 'HSTRLEN', with args beginning with:", Refused, "does not know a command"),
    ("ERR max number of clients reached", Unreachable, "max number of clients"),
    ("DENIED Redis is running in protected mode", Denied, "protected mode"),
    (  # before 7.0
        WRAPPED + "-READONLY You can't write against a read only replica.",
        Refused,
        "replica",
    ),
    (
        "ERR " + WRAPPED + "The user executing the script can't run this command or subcommand",
        Denied,
        "denied this user what the program needs",
    ),
    ("ERR ACL failure in script: User u has no permissions to run the 'get' command", Denied, "what the program needs"),
    (
        "ERR unknown command 'HPTTL', with args beginning with: 'ACL failure in script' ",
        Refused,
        "does not know a command",
    ),
    ("ERR something new", Refused, "answered GET with: ERR something new"),
    ("EMQNEW something of a later version", Refused, "EMQNEW something of a later version"),
]


@pytest.mark.parametrize(("text", "kind", "says"), REPLIES, ids=[text.split()[0] for text, _, _ in REPLIES])
def test_a_reply_becomes_the_error_it_stands_for(text: str, kind: type[EmqError], says: str) -> None:
    error = from_reply(text, GET, AT)
    assert isinstance(error, kind)
    assert says in str(error)
    assert AT in str(error)


@pytest.mark.parametrize(("text", "kind", "says"), REPLIES, ids=[text.split()[0] for text, _, _ in REPLIES])
def test_a_message_is_one_line_without_a_full_stop(text: str, kind: type[EmqError], says: str) -> None:
    error = from_reply(text, GET, AT)
    assert "\n" not in str(error)
    if text.partition(" ")[0] not in str(error):  # a reply that is quoted ends as it ends
        assert not str(error).endswith(".")
    assert error.hint is None or "\n" not in error.hint


@pytest.mark.parametrize(
    ("command", "key"), [(GET, b"key"), (("ZCARD", "text"), b"text"), (("HGET", b"\xff", "f"), b"\xff"), ((), b"")]
)
def test_a_key_of_the_wrong_type_is_remembered(command: Command, key: bytes) -> None:
    error = from_reply("WRONGTYPE Operation against a key holding the wrong kind of value", command, AT)
    assert isinstance(error, WrongTypeReply)
    assert error.key == key


def test_what_was_denied_and_which_right_would_help_are_named() -> None:
    error = from_reply("NOPERM no", ("ZCARD", b"emq:{q}:pending"), AT)
    assert str(error) == f"{AT} denied ZCARD emq:{{q}}:pending to this user"
    assert error.hint == "the ACL of this user must allow +zcard on ~emq:* and ~{emq}:*"


def test_errors_of_our_own_programs_are_told_by_their_word() -> None:
    wrong = from_reply("EMQTYPE emq:{q}:dead list zset", ("EVALSHA", "sha"), AT)
    assert str(wrong) == "emq:{q}:dead is a list, not a zset"
    assert isinstance(from_reply("EMQDENIED ZADD emq:{q}:pending", ("EVALSHA", "sha"), AT), Denied)


def test_a_failed_connection_has_no_command() -> None:
    assert "the connection" in str(from_reply("ERR something new", (), AT))


@pytest.mark.parametrize("raw", [[b"1"], [b"x", b"y"], 7, []])
def test_a_reply_of_another_shape_is_no_redis(raw: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whoever asked says which server
        shaped(raw, ("TIME",))


@pytest.mark.parametrize("text", ["EMQTYPE", "EMQTYPE x", "EMQDENIED", "EMQPROBE", "NOSCRIPT", "MOVED", "", " "])
def test_a_reply_that_is_only_its_first_word_is_an_error_of_ours(text: str) -> None:
    assert isinstance(from_reply(text, GET, AT), EmqError)


@given(st.text(), st.lists(st.binary() | st.text() | st.integers(), max_size=3))
def test_any_text_is_an_error_of_ours(text: str, command: list[bytes | str | int]) -> None:
    assert isinstance(from_reply(text, command, AT), EmqError)


def test_a_server_that_is_too_old_is_named_with_its_version() -> None:
    assert str(too_old(AT, "6.0.16")) == f"{AT} runs version 6.0.16"
    assert "BYLEX" in str(too_old(AT, None))
    assert "6.2" in str(too_old(AT, None).hint)


@pytest.mark.parametrize(
    ("command", "raw", "shape"),
    [
        (("TIME",), [b"1767225600", b"12"], (1767225600, 12)),
        (("SCAN", 0), [b"17", [b"a", b"b"]], (17, [b"a", b"b"])),
        (("SSCAN", b"k", 0), [b"0", [b"a"]], (0, [b"a"])),
        (("HSCAN", b"k", 0), [b"0", [b"f", b"v"]], (0, {b"f": b"v"})),
        (("ZSCAN", b"k", 0), [b"0", [b"m", b"1.5", b"n", b"inf"]], (0, [(b"m", 1.5), (b"n", float("inf"))])),
        (("INFO", "server"), b"# Server\r\nredis_version:7.0.15\r\n\r\nx\r\n", {"redis_version": "7.0.15"}),
        (("GET", b"k"), b"v", b"v"),
        (("ZRANGE", b"k", 0, 1, "WITHSCORES"), [b"m", b"1"], [b"m", b"1"]),
        (("TIME",), QUEUED, QUEUED),
        (("SCAN", 0), QUEUED, QUEUED),
        (("ZSCORE", b"k", b"m"), None, None),
        (("ZSCORE", b"k", b"m"), b"1767225600000", 1767225600000.0),
    ],
)
def test_replies_are_shaped_by_their_command(command: Command, raw: object, shape: object) -> None:
    assert shaped(raw, command) == shape
