"""What EchoMQ's producers and workers do to a queue: one Lua program each, with all its damage (hazards H1-H36)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from emqctl.scripts import lua


@cache
def source(verb: str) -> str:
    """Return a program as the server gets it: the keys, the prelude, then the verb's own file."""
    own = (files(__name__).joinpath(f"{name}.lua").read_text("utf-8") for name in ("prelude", verb))
    return lua("keys") + "".join(own)
