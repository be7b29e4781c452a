"""Which node of a cluster serves which slot."""

from __future__ import annotations

from collections.abc import Callable

from emqctl.connection import Server
from emqctl.errors import EmqError


def slot_owners(server: Server) -> Callable[[int], str | None]:
    """Return a function from a slot to ``host:port`` of its primary; None for a slot nobody serves.

    A server that is no cluster serves every slot itself.
    """
    ranges = server.ask_this_node(("CLUSTER", "SLOTS"))
    if isinstance(ranges, EmqError):
        if "cluster support disabled" not in str(ranges):
            raise ranges
        server.notify(f"{server.shown} is no cluster: it serves every slot")
        return lambda _slot: server.shown
    owners = [
        (first, last, f"{primary[0].decode() or server.host}:{primary[1]}") for first, last, primary, *_ in ranges
    ]

    def owner(slot: int) -> str | None:
        return next((node for first, last, node in owners if first <= slot <= last), None)

    return owner
