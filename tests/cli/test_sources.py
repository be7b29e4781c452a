"""Where to connect and with which secret: one decision, and no secret in any message."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import redis
from cli import stubs
from cli.running import Emqctl, EmqctlProcess

from emqctl.demo.server import PrivateServer

ODD_SECRET = "p@:/#?%é[]=& \\'\""


class Listener:
    """A server that wants a password and remembers every command."""

    def __init__(self) -> None:
        self.heard: list[list[bytes]] = []
        self.url = ""

    def __call__(self, words: list[bytes]) -> bytes:
        """Take any AUTH, refuse the rest."""
        self.heard.append(words)
        return b"+OK\r\n" if words[0] == b"AUTH" else b"-LOADING for ever\r\n"

    @property
    def secrets(self) -> list[list[bytes]]:
        """What was said with AUTH."""
        return [words[1:] for words in self.heard if words[0] == b"AUTH"]

    def with_secret(self, userinfo: str) -> str:
        """Return the URL with a user and password in it."""
        return self.url.replace("//", f"//{userinfo}@")


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A port that remembers."""
    remembering = Listener()
    with stubs.listening(stubs.answering(remembering)) as port:
        remembering.url = f"redis://127.0.0.1:{port}/0"
        yield remembering


@pytest.fixture
def databases(redis_client: redis.Redis, server: PrivateServer) -> list[str]:
    """URLs of four databases; the queue `q` holds as many jobs as the number says."""
    for number in range(4):
        with redis.Redis(unix_socket_path=str(server.socket), db=number) as client:
            client.set("{emq}:version", "echomq:3.0.0")
            client.zadd("emq:{q}:pending", {f"JOB0000000000{nth}": 0 for nth in range(number + 1)})
    return [f"redis://127.0.0.1:{server.port}/{number}" for number in range(4)]


def test_a_flag_beats_the_variable_and_the_nearer_flag_the_other(emqctl: Emqctl, databases: list[str]) -> None:
    zero, one, two, three = databases
    assert emqctl("depth", "q", url=zero).out == "1\n"
    assert emqctl("-u", one, "depth", "q", url=zero).out == "2\n"
    assert emqctl("depth", "q", "--url", one, url=zero).out == "2\n"
    assert emqctl("-u", one, "depth", "-u", two, "q", url=zero).out == "3\n"
    assert emqctl("-u", one, "depth", "q", "-u", two, "-u", three, url=zero).out == "4\n"


def test_output_options_stand_before_or_after_the_subcommand(emqctl: Emqctl, databases: list[str]) -> None:
    before = emqctl("-o", "json", "depth", "q")
    after = emqctl("depth", "q", "-o", "json")
    assert before.summary == after.summary
    assert emqctl("-o", "json", "depth", "q", "-o", "csv").out == "queue,waiting\nq,1\n"
    assert emqctl("depth", "q", "-o", "csv", env={"EMQCTL_OUTPUT": "json"}).out == "queue,waiting\nq,1\n"
    assert emqctl("depth", "q", env={"EMQCTL_OUTPUT": "csv"}).out == "queue,waiting\nq,1\n"


@pytest.mark.parametrize("scheme", ["redis", "valkey"])
def test_both_names_of_the_protocol_are_taken(emqctl: Emqctl, databases: list[str], scheme: str) -> None:
    assert emqctl("depth", "q", url=databases[1].replace("redis", scheme, 1)).out == "2\n"


def test_a_unix_socket_with_a_database(emqctl: Emqctl, databases: list[str], server: PrivateServer) -> None:
    assert emqctl("depth", "q", url=f"unix://{server.socket}").out == "1\n"
    assert emqctl("depth", "q", url=f"unix://{server.socket}?db=2").out == "3\n"


@pytest.mark.parametrize("flag", ["-u", "--request-timeout", "--password-file", "-o", "--columns", "--time"])
@pytest.mark.parametrize("place", ["before", "after"])
def test_an_empty_value_is_an_error_not_a_default(emqctl: Emqctl, databases: list[str], flag: str, place: str) -> None:
    """`-u "$UNSET"` must not fall back to another server."""
    words = [flag, "", "depth", "q"] if place == "before" else ["depth", "q", flag, ""]
    result = emqctl(*words)
    assert result.code in ({1, 2} if flag == "--password-file" else {2})
    assert result.out == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EMQCTL_URL", "localhost:6379"),
        ("EMQCTL_OUTPUT", "yaml"),
        ("EMQCTL_TIME", "utc"),
        ("EMQCTL_REQUEST_TIMEOUT", "soon"),
        ("EMQCTL_READ_ONLY", "maybe"),
        ("EMQCTL_VERBOSE", "maybe"),
    ],
)
def test_a_variable_that_is_not_understood_exits_2_and_is_named(
    emqctl: Emqctl, databases: list[str], name: str, value: str
) -> None:
    result = emqctl("depth", "q", env={name: value})
    assert (result.code, result.out) == (2, "")
    assert value in result.err
    assert result.err.startswith("emqctl: ")


@pytest.mark.parametrize(
    "name",
    [
        "EMQCTL_URL",
        "EMQCTL_OUTPUT",
        "EMQCTL_TIME",
        "EMQCTL_REQUEST_TIMEOUT",
        "EMQCTL_READ_ONLY",
        "EMQCTL_VERBOSE",
        "EMQCTL_PASSWORD",
    ],
)
def test_an_empty_variable_is_as_none(emqctl: Emqctl, databases: list[str], name: str) -> None:
    url = databases[0] if name == "EMQCTL_URL" else databases[3]
    words = ["-u", url] if name == "EMQCTL_URL" else []
    assert emqctl(*words, "depth", "q", url=url, env={name: ""}).code == 0


@pytest.mark.parametrize(
    "name", ["REDIS_URL", "REDISCLI_AUTH", "VALKEY_URL", "OUTPUT", "URL", "PASSWORD", "EMQCTL_DEPTH_URL"]
)
def test_no_other_variable_chooses_anything(emqctl: Emqctl, databases: list[str], name: str) -> None:
    assert emqctl("depth", "q", env={name: "redis://127.0.0.1:1/0"}).summary == (0, "1\n", "")


@pytest.mark.parametrize(
    ("userinfo", "said"),
    [
        (":s3cret", [b"s3cret"]),
        ("user:s3cret", [b"user", b"s3cret"]),
        (f"us%40er:{quote(ODD_SECRET, safe='')}", [b"us@er", ODD_SECRET.encode()]),
    ],
)
def test_user_and_password_of_a_url_are_said_before_anything_else(
    emqctl: Emqctl, listener: Listener, userinfo: str, said: list[bytes]
) -> None:
    for words in (["-u", listener.with_secret(userinfo), "depth"], ["depth"]):
        emqctl(*words, url=listener.with_secret(userinfo))
    assert listener.secrets == [said] * 2
    assert listener.heard[0][0] == b"AUTH"


def test_the_password_variable_goes_with_either_url(emqctl: Emqctl, listener: Listener) -> None:
    env = {"EMQCTL_PASSWORD": ODD_SECRET}
    emqctl("depth", url=listener.url, env=env)
    emqctl("-u", listener.url, "depth", url=None, env=env)
    emqctl("depth", url=listener.with_secret("user"), env=env)
    assert listener.secrets == [*[[ODD_SECRET.encode()]] * 2, [b"user", ODD_SECRET.encode()]]


def test_the_secret_of_a_variable_url_is_never_sent_to_the_server_of_a_flag(emqctl: Emqctl, listener: Listener) -> None:
    emqctl("-u", listener.url, "depth", url="redis://user:s3cret@elsewhere/0")
    assert listener.secrets == []


def test_the_password_in_a_flag_url_beats_the_variable(emqctl: Emqctl, listener: Listener) -> None:
    emqctl("-u", listener.with_secret(":mine"), "depth", url=None, env={"EMQCTL_PASSWORD": "other"})
    assert listener.secrets == [[b"mine"]]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_password_file_goes_with_whatever_was_chosen(
    emqctl: Emqctl, listener: Listener, tmp_path: Path, end: str
) -> None:
    """Its last line end is none of the password, a blank is."""
    file = tmp_path / "secret"
    file.write_bytes(f" {ODD_SECRET}{end}".encode())
    for words in (["depth"], ["-u", listener.url, "depth"], ["depth", "-u", listener.url]):
        emqctl("--password-file", str(file), *words, url=listener.url, env={"EMQCTL_PASSWORD": "other"})
    assert listener.secrets == [[f" {ODD_SECRET}".encode()]] * 3


def test_a_password_file_that_cannot_be_read_is_named(emqctl: Emqctl, tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing", tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    for file, says in ((missing, "no such file"), (tmp_path, "directory"), (binary, "UTF-8")):
        result = emqctl("depth", "--password-file", str(file))
        assert (result.code, result.out) == (1, "")
        assert str(file) in result.err
        assert says in result.err.lower() or says in result.err


@pytest.mark.parametrize(
    ("words", "url", "env", "both"),
    [
        (["--password-file", "f", "--askpass"], "redis://h/0", {}, ("--password-file", "--askpass")),
        (["-u", "redis://:s3cret@h", "--password-file", "f"], None, {}, ("--url", "--password-file")),
        (["-u", "redis://:s3cret@h", "--askpass"], None, {}, ("--url", "--askpass")),
        ([], "redis://:s3cret@h", {"EMQCTL_PASSWORD": "0ther"}, ("EMQCTL_URL", "EMQCTL_PASSWORD")),
    ],
)
def test_two_secrets_of_one_level_are_refused_by_name(
    emqctl: Emqctl, words: list[str], url: str | None, env: dict[str, str], both: tuple[str, str]
) -> None:
    result = emqctl("depth", *words, url=url, env=env)
    assert (result.code, result.out) == (2, "")
    assert all(name in result.err for name in both)
    assert "s3cret" not in result.err
    assert "0ther" not in result.err


def test_askpass_without_a_terminal_is_refused_at_once(emqctl_process: EmqctlProcess) -> None:
    with emqctl_process.start("depth", "--askpass", stdin=subprocess.PIPE, start_new_session=True) as process:
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out) == (5, b"")
    assert b"--password-file" in err


@pytest.mark.parametrize("secret", ["\udcff\udcfe", "naïve ✓", "x" * 10_000], ids=["no UTF-8", "UTF-8", "long"])
def test_any_bytes_can_be_a_password(emqctl: Emqctl, listener: Listener, secret: str) -> None:
    result = emqctl("depth", url=listener.url, env={"EMQCTL_PASSWORD": secret})
    assert result.code == 6
    assert listener.secrets == [[secret.encode("utf-8", "surrogateescape")]]


def test_a_real_user_gets_in_by_a_password_of_odd_characters(
    emqctl: Emqctl, databases: list[str], redis_client: redis.Redis
) -> None:
    redis_client.execute_command("ACL", "SETUSER", "us@er", "on", f">{ODD_SECRET}", "~*", "+@all")
    url = databases[1].replace("//", f"//us%40er:{quote(ODD_SECRET, safe='')}@")
    assert emqctl("depth", "q", url=url).summary == (0, "2\n", "")


#: URLs as people get them wrong, each with the secret in it.
WRONG = [
    "redis://user:s3cret@h:port/0",
    "redis://user:s3cret@h/abc",
    "redis://user:s3cret@h/0?protocol=3",
    "redis://user:s3cret@h/0#x",
    "redis://user:s3cret@/0",
    "redis://user:s3cret@h:99999/0",
    "redis://user:s3cret",
    "redis://:s3cret",
    "redis://user:s3/cret@h/0",
    "redis://user:s3@cret@h/x",
    "redis://user:s3#cret@h/0",
    "redis://user:s3?cret@h/0",
    "redis://user:[s3cret@h/0",
    "redis://user:s3cret%ff@h/0",
    "redis://h/0?password=s3cret",
    "redis://h/0?db=1&password=s3cret",
    "unix:///run/x?password=s3cret",
    "unix://user:s3cret@/run/x?db=one",
    "http://user:s3cret@h/0",
    "Redis+sentinel://user:s3cret@h/0",
    "user:s3cret@h:6379/0",
    ":s3cret@h",
    "redis:user:s3cret@h",
    "redis:/user:s3cret@h",
    "redis//user:s3cret@h",
    "redis:///user:s3cret@h/0",
    "REDIS://user:s3cret@h/x",
    "redis://h:6379/user:s3cret@x",
]


@pytest.mark.parametrize("url", WRONG)
@pytest.mark.parametrize("output", ["plain", "json"])
def test_no_message_about_a_wrong_url_shows_its_secret(emqctl: Emqctl, url: str, output: str) -> None:
    for result in (
        emqctl("depth", "-o", output, url=url),
        emqctl("-o", output, "-u", url, "depth", "-v", url=None),
    ):
        assert (result.code, result.out) == (2, "")
        assert "s3cret" not in result.err
        assert "s3" not in result.err
        assert "cret" not in result.err.replace("secret", "")


@pytest.mark.parametrize("words", [("depth",), ("browse", "q", "-v"), ("slot", "q", "--node", "-o", "json")])
def test_no_message_of_a_failed_connection_shows_the_secret(
    emqctl: Emqctl, listener: Listener, words: tuple[str, ...]
) -> None:
    secret = quote(ODD_SECRET, safe="")
    port = stubs.refused_port()
    for url in (
        listener.with_secret(f"s3cretuser:{secret}"),
        f"redis://s3cretuser:{secret}@127.0.0.1:{port}/0",
        f"unix://s3cretuser:{secret}@/nonexistent",
    ):
        result = emqctl(*words, url=url)
        assert result.code == 6
        assert "***@" in result.err
        for leak in (ODD_SECRET, secret, "s3cretuser"):
            assert leak not in result.err
