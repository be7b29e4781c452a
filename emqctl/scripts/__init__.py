"""The programs that change a queue: one Lua file a change, each atomic on the server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files

SHARED = ("keys", "refusal", "look", "change")


@dataclass(frozen=True)
class Program:
    """A Lua program as the server gets it, and the hash it is called by."""

    name: str
    text: str

    @property
    def sha(self) -> str:
        """The SHA1 of the text, as EVALSHA takes it."""
        return sha1(self.text.encode(), usedforsecurity=False).hexdigest()


@cache
def program(name: str) -> Program:
    """Return a change: the shared pieces, then its own file."""
    return Program(name, "".join(lua(piece) for piece in (*SHARED, name)))


def names() -> list[str]:
    """Return the names of the programs, sorted."""
    files_of = (path.name.removesuffix(".lua") for path in files(__name__).iterdir() if path.name.endswith(".lua"))
    return sorted(name for name in files_of if name not in SHARED)


@cache
def lua(name: str) -> str:
    """Return one Lua file of this package."""
    return files(__name__).joinpath(f"{name}.lua").read_text("utf-8")
