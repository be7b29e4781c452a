"""What this user may do here: every command emqctl sends, asked for without executing any.

What changes things is told by the programs themselves: the commands each can come to, in its own file and in
the shared functions it uses. What only looks is listed here, and a test sees to it that it is no less and no more.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from emqctl import scripts
from emqctl.connection import Server
from emqctl.errors import Denied, EmqError, Refused
from emqctl.keyspace import VERSION_KEY, QueueKeys
from emqctl.replies import Command

LOOK = (
    *("EXISTS", "GET", "GETRANGE", "HEXISTS", "HGET", "HLEN", "HMGET", "HSCAN", "HSTRLEN", "LLEN", "LPOS", "LRANGE"),
    *("PTTL", "SCAN", "SISMEMBER", "SMISMEMBER", "SSCAN"),
    *("ZCARD", "ZCOUNT", "ZLEXCOUNT", "ZRANGE", "ZSCAN", "ZSCORE"),
)

FINDING = ("fix", "obliterate")  # changes that look for themselves what there is to change

_QUEUE = QueueKeys("emqctl-ping")
_KEY = _QUEUE.pending  # what is asked for it holds for any key of a queue: nothing is executed
_ON_QUEUES = "~emq:*"

#: Arguments with which a command is well-formed -> the commands.
_ARGUMENTS: dict[tuple[bytes | str | int, ...], str] = {
    (): "TIME",
    (0,): "SCAN",
    (_KEY,): "DEL EXISTS GET HLEN LLEN PTTL SCARD STRLEN TYPE UNLINK XLEN ZCARD",
    (_KEY, "x"): "HDEL HEXISTS HGET HMGET HSTRLEN LPOS LPUSH RPUSH SADD SISMEMBER SMISMEMBER SREM ZMSCORE ZREM ZSCORE",
    (_KEY, 0): "HSCAN SSCAN ZSCAN",
    (_KEY, 0, 0): "GETRANGE LRANGE LTRIM ZCOUNT ZRANGE",
    (_KEY, 0, "x"): "LREM ZADD",
    (_KEY, "x", 1): "HINCRBY HSET HSETNX",
    (_KEY, "-", "+"): "XRANGE ZLEXCOUNT",
}
_WELL_FORMED = {name: (name, *arguments) for arguments, names in _ARGUMENTS.items() for name in names.split()}

_CALLED = re.compile(r"\bcall\('([A-Z]+)'|\{ '([A-Z]+)'")  # `pcall` copes with a refusal
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Permissions:
    """What this user may do: look, and each change. ``may_not`` says what is in the way first, as an ACL rule."""

    may: tuple[str, ...]
    may_not: dict[str, str]


def permissions(server: Server) -> Permissions:
    """Ask what this user may do here. Raises Denied where that cannot be told: where MULTI is denied."""
    needs = {"look": _looking()} | {kind: list(_change(kind)) for kind in changes()}
    asked = list({command: None for commands in needs.values() for command in commands})
    refusals = dict(zip(asked, server.refusals(asked), strict=True))
    obstacles = {
        name: next(filter(None, (_obstacle(server, each, refusals[each]) for each in commands)), None)
        for name, commands in needs.items()
    }
    return Permissions(
        tuple(name for name, obstacle in obstacles.items() if obstacle is None),
        {name: obstacle for name, obstacle in obstacles.items() if obstacle is not None},
    )


@cache
def changes() -> dict[str, tuple[str, ...]]:
    """Return the kinds of change, each with its programs."""
    kinds: dict[str, tuple[str, ...]] = {}
    for name in scripts.names():
        kind = name.partition("_")[0]
        kinds[kind] = (*kinds.get(kind, ()), name)
    return kinds


def commands_of(name: str) -> set[str]:
    """Return the names of the commands a program can come to."""
    functions: dict[str, str] = {}
    always = ""
    for piece in scripts.SHARED:
        always += _apart(scripts.lua(piece), functions)
    texts, reached = deque([always + scripts.lua(name)]), set[str]()
    found: set[str] = set()
    while texts:
        text = texts.popleft()
        found.update(called or listed for called, listed in _CALLED.findall(text))
        used = (set(_WORD.findall(text)) & functions.keys()) - reached
        reached |= used
        texts.extend(functions[each] for each in used)
    return found


def _apart(text: str, functions: dict[str, str]) -> str:
    """Add the functions of a piece, by name, and return what stands outside of them."""
    outside, name = [], ""
    for line in text.splitlines():
        code = line.partition("--")[0].rstrip()
        if code.startswith("local function "):
            name = code.split()[2].partition("(")[0]
            functions[name] = ""
        if name:
            functions[name] += code + "\n"
            name = "" if code == "end" or (code.startswith("local") and code.endswith(" end")) else name
        else:
            outside.append(code)
    return "\n".join(outside)


def _looking() -> list[Command]:
    return [_WELL_FORMED[name] for name in LOOK]


def _change(kind: str) -> Iterator[Command]:
    yield ("GET", VERSION_KEY)
    yield _WELL_FORMED["EXISTS"]
    yield ("SCRIPT", "LOAD", "return 1")
    yield ("EVALSHA", "0" * 40, 2, _QUEUE.prefix, _KEY)
    for name in sorted(set().union(*map(commands_of, changes()[kind]))):
        yield _WELL_FORMED[name]
    if kind in FINDING:
        yield from _looking()


def _obstacle(server: Server, command: Command, refusal: EmqError | None) -> str | None:
    if isinstance(refusal, Denied):
        return _rule(command)
    if isinstance(refusal, Refused):
        return str(refusal).removeprefix(f"{server.shown} ")
    return None  # it would be run, here or by the node that serves the key


def _rule(command: Sequence[bytes | str | int]) -> str:
    name = str(command[0]).lower()
    if name == "script":
        return "+script|load"
    if VERSION_KEY in command:
        return f"+{name} ~{{emq}}:*"
    return f"+{name} {_ON_QUEUES}" if len(command) > 1 and name != "scan" else f"+{name}"
