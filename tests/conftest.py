"""Servers, worlds and wires for the tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial

import hypothesis
import pytest
import redis
import wire
import worlds
from leftout import pytest_sessionfinish, pytest_terminal_summary  # noqa: F401 # pytest looks for them here
from servers import KEEPER, connect, restore

from emqctl.demo.server import PrivateServer, find_binary
from emqctl.demo.world import commands

for number in (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
):  # ignored by a run in the background, and so by its children
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

hypothesis.settings.register_profile("ci", deadline=None)
hypothesis.settings.register_profile("full", deadline=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("EMQCTL_TEST_DEPTH", "ci"))


@pytest.fixture(scope="session", autouse=True)
def _state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the journals of the tests out of the home of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def server() -> Iterator[PrivateServer]:
    """A server of this test process's own, for all its tests; see ``redis_client``."""
    with PrivateServer(find_binary(os.environ), tcp=True) as server:
        yield server


@pytest.fixture(scope="session")
def keeper(server: PrivateServer) -> Iterator[redis.Redis]:
    """A client that stays allowed everything."""
    with connect(server) as client:
        client.execute_command("ACL", "SETUSER", KEEPER, "on", f">{KEEPER}", "~*", "&*", "+@all")
    with connect(server, username=KEEPER, password=KEEPER) as client:
        yield client


@pytest.fixture(scope="session")
def pristine(keeper: redis.Redis) -> dict[str, str]:
    """The server's settings before the first test."""
    return keeper.config_get()


@pytest.fixture
def redis_client(server: PrivateServer, keeper: redis.Redis, pristine: dict[str, str]) -> Iterator[redis.Redis]:
    """A client of an empty server: no keys, scripts or users, settings as at the start."""
    restore(keeper, pristine)
    with connect(server) as client:
        yield client


@pytest.fixture
def world(redis_client: redis.Redis) -> worlds.World:
    """The recorded world, loaded."""
    return worlds.load_world(redis_client)


@pytest.fixture
def demo_world(redis_client: redis.Redis) -> int:
    """The sample world, loaded; the time in ms it was made for."""
    now_ms = worlds.server_ms(redis_client)
    worlds.send(redis_client, commands(now_ms))
    return now_ms


@pytest.fixture
def monitor(keeper: redis.Redis) -> wire.Monitor:
    """A recorder of the commands a block sends, see ``wire.monitor``: called without arguments."""
    return partial(wire.monitor, keeper)


@pytest.fixture
def proxy(server: PrivateServer) -> Iterator[wire.Proxy]:
    """A counting port in front of the server: see ``wire.Proxy``."""
    with wire.proxy(str(server.socket)) as running:
        yield running
