"""TAB in real shells, against the sample world."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis
from leftout import needs
from terminal.shells import KINDS, shell

from emqctl.cli.root import COMMANDS
from emqctl.demo.server import PrivateServer

FOUND = [name for name in KINDS if needs(name)]

#: Lines that have but one way to go on, and that.
ONE_WAY = (
    ("emqctl dep", "th"),
    ("emqctl dep", "th"),  # zsh loads a function at the first TAB: the second is another matter
    ("emqctl browse ord", "ers"),
    ("emqctl browse orders --rev", "erse"),
    ("emqctl browse -o pl", "ain"),
    ("emqctl browse --output=cs", "v"),
    ("emqctl browse orders --columns id,min", "ted"),
    ("emqctl key orders metrics:completed:", "data"),
    ("emqctl key --reserve migration:inv", "oices"),
    ("emqctl demo -- que", "ues"),
    ("emqctl edit orders JOB0Nb1VTbfnu4 --payload fix", "ed.json"),
)


@pytest.mark.parametrize("name", FOUND)
def test_one_way_to_go_on_is_taken(name: str, server: PrivateServer, demo_world: int, tmp_path: Path) -> None:
    (tmp_path / "fixed.json").touch()
    with shell(name, tmp_path, {"EMQCTL_URL": server.url}) as at:
        assert [at.completed(line, rest) for line, rest in ONE_WAY] == [line + rest for line, rest in ONE_WAY]


@pytest.mark.parametrize("name", FOUND)
def test_every_command_is_offered(name: str, tmp_path: Path) -> None:
    with shell(name, tmp_path, {}) as at:
        at.offered("emqctl ", *COMMANDS)


@pytest.mark.parametrize("name", FOUND)
def test_queues_ids_and_lanes_are_those_on_the_server(
    name: str, server: PrivateServer, redis_client: redis.Redis, demo_world: int, tmp_path: Path
) -> None:
    newest = [redis_client.zrange(f"emq:{{orders}}:{place}", -1, -1)[0].decode() for place in ("pending", "dead")]
    lanes = [lane.decode() for lane in redis_client.lrange("emq:{emails}:ring", 0, -1)]
    for line, words in (
        ("emqctl browse ", ["emails", "frozen", "invoices", "orders"]),
        ("emqctl inspect orders ", [f"…{job[-8:]}" for job in newest]),
        ("emqctl browse emails --lane ", [f"…{lane[-8:]}" for lane in lanes]),
    ):
        with shell(name, tmp_path, {"EMQCTL_URL": server.url}) as at:
            at.offered(line, *words)


@pytest.mark.parametrize("name", FOUND)
def test_the_server_of_the_line_is_asked(name: str, server: PrivateServer, demo_world: int, tmp_path: Path) -> None:
    with shell(name, tmp_path, {"EMQCTL_URL": "redis://127.0.0.1:1/0"}) as at:
        line = f"emqctl --url {server.url} depth inv"
        assert at.completed(line, "oices") == line + "oices"


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "nonsense", ""])
def test_nothing_is_said_where_there_is_no_server(name: str, url: str, tmp_path: Path) -> None:
    with shell(name, tmp_path, {"EMQCTL_URL": url}) as at:
        said = at.unchanged("emqctl --askpass browse ")
    assert not any(word in said for word in ("reach", "note", "Password", "Traceback", "nonsense"))


@pytest.mark.parametrize("name", FOUND)
def test_a_hostile_name_is_not_put_on_the_line(
    name: str, server: PrivateServer, redis_client: redis.Redis, tmp_path: Path
) -> None:
    for queue in ("oops;touch gone", "oops$(touch gone)", "oops`touch gone`", "oops\x1b[2J", "oops two", "oops*"):
        redis_client.zadd(f"emq:{{{queue}}}:pending", {"JOB0Nb1VTbfnu4": 0})
    redis_client.zadd("emq:{oops.good}:pending", {"JOB0Nb1VTbfnu4": 0})
    with shell(name, tmp_path, {"EMQCTL_URL": server.url}) as at:
        assert at.completed("emqctl depth oops", ".good") == "emqctl depth oops.good"
    assert not (tmp_path / "gone").exists()
