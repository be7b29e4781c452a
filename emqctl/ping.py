"""Who answers there, how fast, and what it lets this user do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from emqctl.connection import KNOWN_VERSIONS, Server
from emqctl.errors import Denied, EmqError
from emqctl.keyspace import VERSION_KEY, decode
from emqctl.permissions import Permissions, permissions
from emqctl.records import Answer
from emqctl.replies import Elsewhere

PINGS = 3  # the shortest round trip of so many counts
SENTINEL = "sentinel"
ROLES = {"master": "primary", "slave": "replica"}


def ping(server: Server) -> Answer:
    """Return what one connection can tell of a server; what this user may not ask for is None, with a note.

    Nothing is executed that could change anything.
    """
    about = _about(server)
    round_trip_ms = min(_round_trip_ms(server) for _ in range(PINGS))
    is_sentinel = about["topology"] == SENTINEL
    if is_sentinel:
        server.notify("a sentinel holds no queues: name the primary it watches")
    version = None if is_sentinel else _wire_version(server)
    may = None if is_sentinel else _permissions(server)
    return Answer(
        server=server.shown,
        **about,
        round_trip_ms=round(round_trip_ms, 3),
        database=server.endpoint.db,
        wire_version=version,
        known=None if version is None else version in KNOWN_VERSIONS,
        user=server.endpoint.username or "default",
        may=None if may is None else may.may,
        may_not=None if may is None else may.may_not,
    )


def _about(server: Server) -> dict[str, str | None]:
    """Return kind, version, topology and role, from HELLO or, where that is denied or unknown, from INFO."""
    hello = server.ask_this_node(("HELLO",))
    if not isinstance(hello, EmqError):
        said = {decode(name): value for name, value in zip(hello[::2], hello[1::2], strict=True)}
        kind, version, mode, role = (_text(said.get(name)) for name in ("server", "version", "mode", "role"))
    else:
        kind, version, mode, role = _by_info(server)
    return {"kind": kind, "version": version, "topology": mode, "role": ROLES.get(role or "", role)}


def _by_info(server: Server) -> Sequence[str | None]:
    sections = [server.ask_this_node(("INFO", section)) for section in ("server", "replication")]
    if any(isinstance(section, EmqError) for section in sections):
        server.notify("this user may use neither HELLO nor INFO: what kind of server this is cannot be told")
        return (None, None, None, None)
    about: Mapping[str, str] = sections[0] | sections[1]
    kind = next((name for name in ("valkey", "redict") if f"{name}_version" in about), "redis")
    mode = about.get("server_mode") or about.get(f"{kind}_mode")
    return kind, about.get(f"{kind}_version"), mode, about.get("role")


def _round_trip_ms(server: Server) -> float:
    began = time.perf_counter()
    server.ask_this_node(("PING",))
    return (time.perf_counter() - began) * 1000


def _wire_version(server: Server) -> str | None:
    try:
        version, hidden = server.version, server.hides_version
    except Elsewhere as elsewhere:
        server.notify(f"the wire version stands on another node: {elsewhere}")
        return None
    if version is None and not hidden:
        server.notify(
            f"no {decode(VERSION_KEY)} in this database: no EchoMQ has used it yet, or it is another database "
            "or port (EchoMQ's own default is 6390)"
        )
    return version


def _permissions(server: Server) -> Permissions | None:
    try:
        return permissions(server)
    except Denied:
        server.notify("this user may not use MULTI: what it may do cannot be told without doing it")
        return None


def _text(raw: Any) -> str | None:
    return decode(raw) if isinstance(raw, bytes) else None
