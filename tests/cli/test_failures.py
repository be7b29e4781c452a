"""Connections that fail: the right exit code, one line and a hint, in time, without a traceback."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import pytest
import redis
import wire
import worlds
from cli import stubs
from cli.running import Emqctl, Result

from emqctl.demo.server import PrivateServer

TIMEOUT_S = 0.3
LINES = (("depth",), ("depth", "orders", "--states"), ("browse", "orders"), ("slot", "orders", "--node"))


def fails(emqctl: Emqctl, words: tuple[str, ...], url: str, **env: str) -> Result:
    """Run a line that has to fail in time, with an error and at most one hint, and nothing on stdout."""
    before = time.monotonic()
    result = emqctl(*words, "--request-timeout", f"{TIMEOUT_S:g}s", url=url, env=env)
    assert time.monotonic() - before < TIMEOUT_S + 1
    assert result.out == ""
    first, *rest = result.err.splitlines()
    assert first.startswith("emqctl: ")
    assert [line[:6] for line in rest] in ([], ["hint: "])
    return result


@pytest.fixture(params=LINES, ids=" ".join)
def words(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """A command line that needs the server."""
    line: tuple[str, ...] = request.param
    return line


def test_a_refused_port(emqctl: Emqctl, words: tuple[str, ...]) -> None:
    url = f"redis://127.0.0.1:{stubs.refused_port()}/0"
    result = fails(emqctl, words, url)
    assert result.code == 6
    assert result.err.splitlines() == [
        f"emqctl: cannot reach {url}: connection refused",
        "hint: name the server with --url or EMQCTL_URL",
    ]


def test_a_socket_that_does_not_exist(emqctl: Emqctl, words: tuple[str, ...], tmp_path: Path) -> None:
    result = fails(emqctl, words, f"unix://{tmp_path}/none")
    assert result.code == 6
    assert "no such file or directory" in result.err


def test_a_socket_path_no_system_can_hold(emqctl: Emqctl, words: tuple[str, ...]) -> None:
    result = fails(emqctl, words, "unix:///" + "a" * 200)
    assert result.code == 6
    assert "too long" in result.err


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "a" * 64 + ".example", "xn--.example"])
def test_a_host_nobody_knows(emqctl: Emqctl, host: str) -> None:
    """Names that no resolver takes are as unreachable as names it does not find."""
    result = emqctl("depth", url=f"redis://{host}:6379/0")
    assert (result.code, result.out) == (6, "")
    assert result.err.startswith(f"emqctl: cannot reach redis://{host}:6379/0: ")


def test_a_port_that_accepts_and_never_answers(emqctl: Emqctl, words: tuple[str, ...]) -> None:
    with stubs.silent() as port:
        result = fails(emqctl, words, f"redis://127.0.0.1:{port}/0")
    assert result.code == 6
    assert result.err.startswith(f"emqctl: no answer from redis://127.0.0.1:{port}/0 within 300ms\nhint: ")


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:{}/0", "redis://u:p@127.0.0.1:{}/0", "redis://127.0.0.1:{}/7", "rediss://localhost:{}/0"]
)
def test_a_silent_port_is_given_up_in_time_whatever_is_said_first(emqctl: Emqctl, url: str) -> None:
    """With AUTH, SELECT or a TLS handshake before the first command too."""
    with stubs.silent() as port:
        assert fails(emqctl, ("depth",), url.format(port)).code == 6


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"ERROR\r\nERROR\r\n",
        b"\x00\x00\x00\x1a\x0a5.7.44\0",
        b"",
        b"$3\r\nab",
        b"*-9\r\n",
        b":1e5\r\n",
        b"\r\n\r\n\r\n",
    ],
    ids=["HTTP", "SSH", "memcached", "MySQL", "nothing", "a cut reply", "a bad array", "a bad number", "blank lines"],
)
def test_a_server_that_is_no_redis(emqctl: Emqctl, words: tuple[str, ...], said: bytes) -> None:
    with stubs.listening(stubs.saying(said)) as port:
        result = fails(emqctl, words, f"redis://127.0.0.1:{port}/0")
    assert result.code == 6
    assert f"redis://127.0.0.1:{port}/0" in result.err
    assert "hint: " in result.err


@pytest.mark.parametrize(
    "answers",
    [
        [b"+OK\r\n", b"+OK\r\n"],
        [b"$-1\r\n", b"$-1\r\n"],
        [b"$-1\r\n", b"*1\r\n:1\r\n"],
        [b"$-1\r\n", b"*2\r\n$1\r\nx\r\n$1\r\ny\r\n"],
        [b":1\r\n", b":1\r\n"],
        [b"*0\r\n", b"*0\r\n"],
    ],
)
def test_a_server_that_answers_something_else_is_no_redis(emqctl: Emqctl, answers: list[bytes]) -> None:
    """RESP, but not what the commands answer: a proxy gone wrong, say."""
    replies = {b"GET": answers[0], b"TIME": answers[1]}
    with stubs.listening(stubs.answering(lambda words: replies.get(words[0], b"+OK\r\n"))) as port:
        result = fails(emqctl, ("depth", "orders"), f"redis://127.0.0.1:{port}/0")
    assert result.code == 6


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (b"LOADING Redis is loading the dataset in memory", 6, "loading"),
        (b"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", 6, "busy"),
        (b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", 6, "primary"),
        (b"CLUSTERDOWN The cluster is down", 6, "cluster"),
        (b"CLUSTERDOWN Hash slot not served", 6, "cluster"),
        (b"MOVED 105 10.0.0.7:6379", 6, "10.0.0.7:6379"),
        (b"ASK 105 10.0.0.7:6379", 6, "10.0.0.7:6379"),
        (b"TRYAGAIN Multiple keys request during rehashing of slot", 6, "slot"),
        (b"NOAUTH Authentication required.", 8, "password"),
        (b"WRONGPASS invalid username-password pair or user is disabled.", 8, "refused"),
        (b"ERR max number of clients reached", 6, "max number of clients"),
        (b"DENIED Redis is running in protected mode because protected mode is enabled", 8, "protected mode"),
        (b"UNKNOWNWORD something new", 5, "UNKNOWNWORD something new"),
    ],
    ids=lambda value: value.split()[0].decode() if isinstance(value, bytes) else None,
)
def test_an_error_reply_is_told_by_its_word(emqctl: Emqctl, error: bytes, code: int, says: str) -> None:
    with stubs.listening(stubs.answering(lambda _words: b"-" + error + b"\r\n")) as port:
        result = fails(emqctl, ("depth", "orders"), f"redis://127.0.0.1:{port}/0")
    assert result.code == code
    assert says in result.err.splitlines()[0]


def test_a_server_in_protected_mode_is_quoted(emqctl: Emqctl) -> None:
    """It says so before anything is asked, and hangs up."""

    def turn_away(client: socket.socket) -> None:
        client.sendall(b"-DENIED Redis is running in protected mode because\r\n")
        client.shutdown(socket.SHUT_WR)
        client.recv(65_536)

    with stubs.listening(turn_away) as port:  # on a busy machine it may be heard too late
        results = [fails(emqctl, ("depth", "orders"), f"redis://127.0.0.1:{port}/0") for _ in range(20)]
    assert {result.code for result in results} <= {6, 8}
    assert any(result.code == 8 and "protected mode" in result.err for result in results)


def test_a_server_that_takes_no_more_clients_is_quoted(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    redis_client.config_set("maxclients", 1)
    result = fails(emqctl, ("depth", "orders"), emqctl.url)
    assert result.code == 6
    assert "max number of clients" in result.err


def test_a_server_that_is_loading_is_not_waited_for(emqctl: Emqctl, words: tuple[str, ...]) -> None:
    with stubs.listening(stubs.answering(lambda _words: b"-LOADING Redis is loading\r\n")) as port:
        result = fails(emqctl, words, f"redis://127.0.0.1:{port}/0")
    assert result.code == 6
    assert result.err == (f"emqctl: redis://127.0.0.1:{port}/0 is loading its data\nhint: run it again in a moment\n")


# Passwords


@pytest.fixture
def locked(redis_client: redis.Redis) -> redis.Redis:
    """The server with a password; the client has it."""
    redis_client.config_set("requirepass", "right")
    redis_client.execute_command("AUTH", "default", "right")
    return redis_client


def test_no_password_where_one_is_wanted(emqctl: Emqctl, words: tuple[str, ...], locked: redis.Redis) -> None:
    result = fails(emqctl, words, emqctl.url)
    assert result.code == 8
    assert result.err == (
        f"emqctl: {emqctl.url} wants a password\n"
        "hint: give one with --password-file FILE, --askpass or EMQCTL_PASSWORD\n"
    )


@pytest.mark.parametrize("user", ["", "default", "nobody"])
def test_a_wrong_password(emqctl: Emqctl, words: tuple[str, ...], locked: redis.Redis, user: str) -> None:
    result = fails(emqctl, words, emqctl.url.replace("//", f"//{user}:wr0ng@"))
    assert result.code == 8
    assert result.err.startswith(f"emqctl: {emqctl.url.replace('//', '//***@')} refused the user name or password\n")
    assert "wr0ng" not in result.err


def test_a_password_where_none_is_set(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    result = fails(emqctl, ("depth",), emqctl.url.replace("//", "//:needless@"))
    assert result.code == 8
    assert "needless" not in result.err


def test_a_database_that_does_not_exist(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    result = fails(emqctl, ("depth",), emqctl.url.removesuffix("0") + "4711")
    assert result.code == 2
    assert "4711" in result.err


# TLS


def test_a_tls_port_spoken_to_in_plain_text(emqctl: Emqctl, words: tuple[str, ...], server: PrivateServer) -> None:
    with stubs.listening(stubs.encrypted(server.socket)) as port:
        result = fails(emqctl, words, f"redis://127.0.0.1:{port}/0")
    assert result.code == 6
    assert "rediss://" in result.err.splitlines()[1]


@pytest.mark.parametrize("alert", [b"\x15\x03\x01\x00\x02\x02\x46", b"\x15\x03\x03\x00\x02\x02\x28"])
def test_a_tls_alert_is_known_for_one(emqctl: Emqctl, alert: bytes) -> None:
    with stubs.listening(stubs.saying(alert)) as port:
        result = fails(emqctl, ("depth",), f"redis://127.0.0.1:{port}/0")
    assert result.code == 6
    assert "rediss://" in result.err.splitlines()[1]


def test_a_plain_port_spoken_to_in_tls(emqctl: Emqctl, words: tuple[str, ...], server: PrivateServer) -> None:
    result = fails(emqctl, words, f"rediss://localhost:{server.port}/0")
    assert result.code == 6
    assert "redis://" in result.err.splitlines()[1].replace("rediss://", "")


def test_a_certificate_nobody_vouches_for(emqctl: Emqctl, words: tuple[str, ...], server: PrivateServer) -> None:
    with stubs.listening(stubs.encrypted(server.socket)) as port:
        result = fails(emqctl, words, f"rediss://localhost:{port}/0")
    assert result.code == 6
    assert "certificate" in result.err


def test_a_certificate_for_another_host(emqctl: Emqctl, server: PrivateServer) -> None:
    with stubs.listening(stubs.encrypted(server.socket)) as port:
        result = fails(emqctl, ("depth",), f"rediss://127.0.0.1:{port}/0", SSL_CERT_FILE=str(stubs.CERTIFICATE))
    assert result.code == 6
    assert "certificate" in result.err


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
def test_a_certificate_the_system_trusts(
    emqctl: Emqctl, world: worlds.World, server: PrivateServer, scheme: str
) -> None:
    with stubs.listening(stubs.encrypted(server.socket)) as port:
        url = f"{scheme}://localhost:{port}/0"
        result = emqctl("depth", "orders", url=url, env={"SSL_CERT_FILE": str(stubs.CERTIFICATE)})
    assert result.summary == (0, "443\n", "")


# Too old


def old(words: list[bytes]) -> bytes:
    """Answer as Redis 6.0 does, which has no BYLEX."""
    replies = {
        b"GET": b"$-1\r\n",
        b"TIME": stubs.bulk([b"1767225600", b"0"]),
        b"EXISTS": b":1\r\n",
        b"INFO": b"$31\r\n# Server\r\nredis_version:6.0.16\r\n\r\n",
        b"ZCARD": b":0\r\n",
        b"LRANGE": b"*0\r\n",
    }
    if words[0] in {b"SSCAN", b"HSCAN", b"ZSCAN"}:
        return b"*2\r\n$1\r\n0\r\n*0\r\n"
    return replies.get(words[0], b"-ERR syntax error\r\n")


def test_a_server_older_than_6_2_is_named_with_its_version(emqctl: Emqctl) -> None:
    with stubs.listening(stubs.answering(old)) as port:
        url = f"redis://127.0.0.1:{port}/0"
        for words in (("browse", "orders"), ("browse", "orders", "--state", "dead")):
            result = fails(emqctl, words, url)
            assert result.code == 5
            assert result.err == (
                f"emqctl: {url} runs version 6.0.16\nhint: emqctl needs Redis 6.2 or later, or any Valkey\n"
            )


def test_a_server_that_hides_its_version_is_too_old_all_the_same(emqctl: Emqctl) -> None:
    def hiding(words: list[bytes]) -> bytes:
        return b"-NOPERM no INFO for you\r\n" if words[0] == b"INFO" else old(words)

    with stubs.listening(stubs.answering(hiding)) as port:
        result = fails(emqctl, ("browse", "orders"), f"redis://127.0.0.1:{port}/0")
    assert result.code == 5
    assert "BYLEX" in result.err


# Failing midway


def test_a_connection_lost_midway_is_never_made_again(emqctl: Emqctl, world: worlds.World, proxy: wire.Proxy) -> None:
    """Whatever was sent is not sent twice."""
    for cut in (0, 1, 100, 2000):
        proxy.connections, proxy.cut_down = 0, cut
        result = fails(emqctl, ("browse", "emails"), proxy.url)
        assert (result.code, proxy.connections) == (6, 1)


@pytest.mark.parametrize("cut", [0, 1, 50, 5000])
def test_a_command_that_was_cut_off_before_the_server_read_it(
    emqctl: Emqctl, world: worlds.World, proxy: wire.Proxy, cut: int
) -> None:
    proxy.cut_up = cut
    result = fails(emqctl, ("browse", "orders", "-n", "0"), proxy.url)
    assert result.code == 6


def test_a_paused_server_is_waited_for_as_long_as_asked(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis
) -> None:
    redis_client.execute_command("CLIENT", "PAUSE", 200, "ALL")
    assert emqctl("depth", "orders", "--request-timeout", "5s").out == "443\n"


def test_messages_of_one_server_all_name_it_alike(emqctl: Emqctl) -> None:
    """Scheme, host, port and database; no user, no password."""
    port = stubs.refused_port()
    result = emqctl("depth", url=f"valkey://u:p%40ss@127.0.0.1:{port}/3")
    assert re.search(rf"valkey://\*\*\*@127\.0\.0\.1:{port}/3: ", result.err)
    assert "p@ss" not in result.err
    assert "p%40ss" not in result.err
