"""Error replies of a server, told by their first word and turned into errors of our own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from emqctl.errors import BadUsage, Denied, EmqError, Refused, Unreachable, WrongType
from emqctl.keyspace import decode

Command = Sequence[bytes | str | int]
QUEUED = b"QUEUED"  # what a command inside MULTI is answered with

#: What Redis before 7.0 puts before an error that a program met.
_WRAPPED = re.compile(r"^(?:ERR )?Error running script \(call to f_[0-9a-f]{40}\): (?:@\w+: ?\d+: )*-?")


class WrongTypeReply(Refused):
    """A command met a key of another type; whoever sent it can ask which (see ``Server``)."""

    def __init__(self, key: bytes) -> None:
        super().__init__(f"{decode(key)} holds another type than the protocol says")
        self.key = key


class NotPermitted(Denied):
    """This user may not run this command on this key; of others nothing is said."""


class Elsewhere(Unreachable):
    """The key is served by another node of the cluster."""


class NoScript(Refused):
    """The server does not hold the program that was called; nothing was run."""


class NeedsProbe(Refused):
    """A program cannot tell what this user may do; whoever called it has to ask first (see ``Server.may_run``)."""


def shaped(reply: Any, command: Command) -> Any:
    """Give a raw reply the shape its command is read in; of any other command it stays as it is.

    TIME: (seconds, microseconds). SCAN, SSCAN: (cursor, members). HSCAN: (cursor, {field: value}). ZSCAN:
    (cursor, [(member, score)]). ZSCORE: a float or None. INFO: {name: value} as text. Raises ValueError for
    what no Redis answers.
    """
    shape = _SHAPES.get(str(command[0]))
    if shape is None or reply is None or reply == QUEUED:
        return reply
    try:
        return shape(reply)
    except (TypeError, IndexError, AttributeError) as error:
        raise ValueError("no server answers a command like this") from error


def permitted(replies: list[Any]) -> list[Any]:
    """Return replies some of which may be errors of the data; raise the first that is the user's: NotPermitted."""
    for reply in replies:
        if isinstance(reply, NotPermitted):
            raise reply
    return replies


def from_reply(text: str, command: Command, shown: str) -> EmqError:
    """Turn an error reply to ``command`` from the server ``shown`` into an error."""
    text = _WRAPPED.sub("", text)
    first, _, rest = text.partition(" ")
    if first == "WRONGTYPE" and _name_of(command) != "EVALSHA":  # which names no key
        return WrongTypeReply(_key_of(command))
    if first in _OURS:
        return _OURS[first](rest)
    if first == "NOPERM":
        return _denied(command, shown)
    for beginning, error in _BY_BEGINNING.items():
        if text.removeprefix("ERR ").startswith(beginning):
            return error(text, rest, shown)
    if first in _BY_FIRST_WORD:
        return _BY_FIRST_WORD[first](text, rest, shown)
    return Refused(f"{shown} answered {_name_of(command)} with: {text}")


def no_redis(shown: str) -> Unreachable:
    """Return the error for a server that answers what no Redis would."""
    hint = "check host and port; a TLS port wants rediss://"
    return Unreachable(f"{shown} does not answer as Redis or Valkey does", hint=hint)


def too_old(shown: str, version: str | None) -> EmqError:
    """Return the error for a server without ``ZRANGE … BYLEX REV``."""
    found = f"runs version {version}" if version else "does not know ZRANGE with BYLEX"
    return Refused(f"{shown} {found}", hint="emqctl needs Redis 6.2 or later, or any Valkey")


def _name_of(command: Command) -> str:
    return _text(command[0]) if command else "the connection"


def _key_of(command: Command) -> bytes:
    key = command[1] if len(command) > 1 else b""
    return key if isinstance(key, bytes) else _text(key).encode()


def _text(word: bytes | str | int) -> str:
    return decode(word) if isinstance(word, bytes) else str(word)


def _denied(command: Command, shown: str) -> NotPermitted:
    words = " ".join(_text(word) for word in command[:2])
    hint = f"the ACL of this user must allow +{_name_of(command).lower()} on ~emq:* and ~{{emq}}:*"
    return NotPermitted(f"{shown} denied {words} to this user", hint=hint)


def _auth_needed(_text: str, _rest: str, shown: str) -> EmqError:
    hint = "give one with --password-file FILE, --askpass or EMQCTL_PASSWORD"
    return Denied(f"{shown} wants a password", hint=hint)


def _auth_refused(_text: str, _rest: str, shown: str) -> EmqError:
    return Denied(f"{shown} refused the user name or password", hint="check EMQCTL_PASSWORD or --password-file")


def _protected(_text: str, _rest: str, shown: str) -> EmqError:
    return Denied(f"{shown} runs in protected mode: it talks to its own machine only", hint="connect from there")


def _elsewhere(_text: str, rest: str, shown: str) -> EmqError:
    slot, _, node = rest.partition(" ")
    hint = f"name that node: --url redis://{node}/0"
    return Elsewhere(f"{shown} does not serve slot {slot}: it is at {node}", hint=hint)


def _moving(_text: str, _rest: str, shown: str) -> EmqError:
    return Unreachable(f"{shown}: the slot is being moved, nothing was done", hint="run it again in a moment")


def _denied_in_program(text: str, _rest: str, shown: str) -> EmqError:
    return Denied(f"{shown} denied this user what the program needs: {text}", hint="see what is: emqctl ping")


def _busy(what: str) -> Callable[[str, str, str], EmqError]:
    def error(_text: str, _rest: str, shown: str) -> EmqError:
        return Unreachable(f"{shown} {what}", hint="run it again in a moment")

    return error


def _refused(what: str, hint: str) -> Callable[[str, str, str], EmqError]:
    def error(_text: str, _rest: str, shown: str) -> EmqError:
        return Refused(f"{shown} {what}", hint=hint)

    return error


def _page(reply: Any) -> tuple[int, Any]:
    return int(reply[0]), reply[1]


def _hash_page(reply: Any) -> tuple[int, dict[bytes, bytes]]:
    cursor, flat = _page(reply)
    return cursor, dict(zip(flat[::2], flat[1::2], strict=True))


def _zset_page(reply: Any) -> tuple[int, list[tuple[bytes, float]]]:
    cursor, flat = _page(reply)
    return cursor, [(member, float(score)) for member, score in zip(flat[::2], flat[1::2], strict=True)]


def _information(reply: Any) -> dict[str, str]:
    lines = (line.partition(":") for line in decode(reply).splitlines() if not line.startswith("#"))
    return {name: value for name, colon, value in lines if colon}


_SHAPES: dict[str, Callable[[Any], Any]] = {
    "TIME": lambda reply: (int(reply[0]), int(reply[1])),
    "SCAN": _page,
    "SSCAN": _page,
    "HSCAN": _hash_page,
    "ZSCAN": _zset_page,
    "ZSCORE": float,
    "INFO": _information,
}


def _type_found(rest: str) -> EmqError:
    words = rest.rsplit(" ", 2)
    if len(words) != 3:  # noqa: PLR2004 # key, found, expected
        return Refused(f"a key is of another type: {rest}")
    key, found, expected = words
    return WrongType(key, found, expected)


def _denied_inside(rest: str) -> EmqError:
    return Denied(f"the server denied {rest} to this user: nothing was changed")


#: First words of our own programs' errors, and of the server's about programs.
_OURS: dict[str, Callable[[str], EmqError]] = {
    "EMQTYPE": _type_found,
    "EMQDENIED": _denied_inside,
    "EMQPROBE": NeedsProbe,
    "NOSCRIPT": NoScript,
}


def _no_database(text: str, _rest: str, shown: str) -> EmqError:
    return BadUsage(f"{shown} has no such database: {text}", hint="name another database number in the URL")


def _no_password_set(_text: str, _rest: str, shown: str) -> EmqError:
    return Denied(f"{shown} has no password set, and one was given", hint="leave the password out")


#: Of the text, since the rest may quote data.
_BY_BEGINNING = {
    "DB index is out of range": _no_database,
    "SELECT is not allowed": _no_database,
    "AUTH <password> called without any password": _no_password_set,
    "Client sent AUTH, but no password is set": _no_password_set,
    "invalid password": _auth_refused,
    "max number of clients": _busy("has reached its max number of clients"),
    "The user executing the script can't": _denied_in_program,
    "ACL failure in script": _denied_in_program,
    "unknown command": _refused("does not know a command emqctl needs", "emqctl needs Redis 6.2 or any Valkey"),
}
_BY_FIRST_WORD: dict[str, Callable[[str, str, str], EmqError]] = {
    "NOAUTH": _auth_needed,
    "WRONGPASS": _auth_refused,
    "DENIED": _protected,
    "LOADING": _busy("is loading its data"),
    "BUSY": _busy("is busy with a script"),
    "MASTERDOWN": _busy("is a replica that lost its primary"),
    "CLUSTERDOWN": _busy("says the cluster is down"),
    "MOVED": _elsewhere,
    "ASK": _elsewhere,
    "TRYAGAIN": _moving,
    "READONLY": _refused("is a replica: nothing can be changed there", "name the primary in --url"),
    "OOM": _refused("is out of memory and takes no writes", "raise maxmemory or free memory first"),
    "MISCONF": _refused("takes no writes: it cannot persist", "see the server's log"),
    "NOREPLICAS": _refused("takes no writes: it has too few replicas", "see min-replicas-to-write"),
}
