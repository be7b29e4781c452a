"""Clients of a private server, and how it is set to rights between tests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import redis

from emqctl.connection import Server
from emqctl.demo.server import PrivateServer

Connect = Callable[..., AbstractContextManager[Server]]

KEEPER = "keeper"  # the user who may do everything, whatever a test did to the others


def connect(server: PrivateServer, **options: Any) -> redis.Redis:
    """Return a client that sends nothing but what it is told."""
    return redis.Redis(unix_socket_path=str(server.socket), protocol=2, driver_info=None, **options)


def restore(keeper: redis.Redis, settings: dict[str, str]) -> None:
    """Empty a server of keys, scripts and users, and give it back its settings."""
    keeper.flushall()
    keeper.script_flush()
    for name, value in keeper.config_get().items():
        if value != settings[name]:
            keeper.config_set(name, settings[name])
    for user in set(keeper.acl_users()) - {KEEPER, "default"}:
        keeper.acl_deluser(user)
    keeper.execute_command("ACL", "SETUSER", "default", "reset", "on", "nopass", "~*", "&*", "+@all")
