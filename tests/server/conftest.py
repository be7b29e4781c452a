"""Connections of the core to the private server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
import redis
from servers import Connect

from emqctl.config import Settings
from emqctl.connection import Server, connect
from emqctl.demo.server import PrivateServer
from emqctl.endpoint import parse_url
from emqctl.keyspace import VERSION_KEY


@pytest.fixture
def notes() -> list[str]:
    """What the operator was told."""
    return []


@pytest.fixture
def connected(server: PrivateServer, notes: list[str]) -> Connect:
    """Connect to the private server, or to another URL."""

    def to(url: str = server.url, timeout_s: float = 5) -> AbstractContextManager[Server]:
        return connect(Settings(parse_url(url), timeout_s, read_only=False), notes.append)

    return to


@pytest.fixture
def ours(redis_client: redis.Redis, connected: Connect) -> Iterator[Server]:
    """A connection to an empty deployment."""
    redis_client.set(VERSION_KEY, "echomq:3.0.0")
    with connected() as server:
        yield server
