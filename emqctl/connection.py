"""A server as the core speaks with it: commands of one moment, programs, permissions, the clock.

The first thing on the wire is the command itself, after one AUTH where there is a password. Nothing is
ever sent twice: a script that outlived a timeout would run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from emqctl.client import failure, plain_client, reply_text
from emqctl.config import Settings
from emqctl.endpoint import Endpoint
from emqctl.errors import Denied, EmqError, Unreachable, WrongType, WrongVersion
from emqctl.keyspace import VERSION_KEY, decode, parse
from emqctl.replies import Command, NoScript, NotPermitted, WrongTypeReply, from_reply, no_redis, shaped, too_old
from emqctl.scripts import Program

KNOWN_VERSIONS = ("echomq:2.4.1", "echomq:2.4.2", "echomq:3.0.0")

Notify = Callable[[str], None]


class Server:
    """One connection to one server.

    ``ask`` sends any number of commands in one round trip. The first one also carries the wire
    version and the server's clock, so that neither costs a round trip of its own.
    """

    def __init__(self, client: Any, endpoint: Endpoint, notify: Notify) -> None:
        self.endpoint = endpoint
        self.shown = str(endpoint)
        self.host = endpoint.host
        self._timeout_s: float = client.connection_pool.connection_kwargs["socket_timeout"]
        self.notify = notify
        self.round_trips = 0
        self.commands = 0
        self._client = client
        self._greeted = False
        self._version: bytes | EmqError | None = None
        self._clock_offset_ms: int | None = None
        self._lacks_multi = False

    def ask(self, *commands: Command, atomic: bool = False) -> list[Any]:
        """Return the replies; raise the first error among them. See ``try_ask``."""
        replies = self.try_ask(*commands, atomic=atomic)
        for reply in replies:
            if isinstance(reply, EmqError):
                raise reply
        return replies

    def try_ask(self, *commands: Command, atomic: bool = False) -> list[Any]:
        """Return one reply a command, an EmqError in the place of each that failed.

        ``atomic`` wraps them in MULTI … EXEC, see ``try_ask_each``; raises the first error that forbids it.
        """
        if not atomic:
            return self._with_found_types(self._greeting_exchange(commands))
        [replies] = self._transactions([commands])
        if isinstance(replies, EmqError):
            raise replies
        return self._with_found_types(replies)

    def try_ask_each(self, groups: Sequence[Sequence[Command]]) -> list[list[Any]]:
        """Return the replies to several groups of commands, each of one moment, in one round trip.

        Each is wrapped in MULTI … EXEC; where this user may not, they are sent bare, with a note. In a group
        of which this user may not run all, none is run and the error stands in every place.
        """
        answers = self._transactions(groups) if groups else []
        whole = [
            [answer] * len(commands) if isinstance(answer, EmqError) else answer
            for answer, commands in zip(answers, groups, strict=True)
        ]
        flat = iter(self._with_found_types([reply for replies in whole for reply in replies]))
        return [list(islice(flat, len(commands))) for commands in groups]

    def _transactions(self, groups: Sequence[Sequence[Command]]) -> list[list[Any] | Denied]:
        wraps = [len(commands) > 1 and not self._lacks_multi for commands in groups]
        sent = [
            [("MULTI",), *commands, ("EXEC",)] if wrap else commands
            for commands, wrap in zip(groups, wraps, strict=True)
        ]
        flat = iter(self._greeting_exchange([command for commands in sent for command in commands]))
        replies = [list(islice(flat, len(commands))) for commands in sent]
        return [
            self._unwrap(answers, commands) if wrap else answers
            for answers, commands, wrap in zip(replies, groups, wraps, strict=True)
        ]

    def _greeting_exchange(self, commands: Sequence[Command]) -> list[Any]:
        if self._greeted:
            return self._exchange(commands)
        version, clock, *replies = self._exchange([("GET", VERSION_KEY), ("TIME",), *commands])
        self._greet(*self._with_found_types([version, clock]))
        return replies

    def ask_this_node(self, command: Command) -> Any:
        """Return the reply to a command about the node itself, or its error; on a cluster no slot is touched."""
        return self._exchange([command])[0]

    @property
    def version(self) -> str | None:
        """The wire version this deployment states; None when it states none or hides it."""
        self._ensure_greeted()
        return None if self._version is None or isinstance(self._version, EmqError) else decode(self._version)

    @property
    def hides_version(self) -> bool:
        """Whether this user may not read the wire version."""
        self._ensure_greeted()
        return isinstance(self._version, EmqError)

    def check_writes(self, accepted: str | None) -> None:
        """Pass where this tool may change things: a wire version it knows, or the unknown one that was accepted.

        Raises WrongVersion, or Denied where the version is hidden; where none is stated, a note.
        """
        if self.hides_version:
            hint = "the ACL of this user must allow +get on ~{emq}:*"
            raise Denied(f"{self.shown} hides the wire version from this user: nothing is changed", hint=hint)
        if self.version is None:
            self.notify(f"{self.shown} states no wire version: taken for EchoMQ 2.4 to 3.0")
        elif self.version not in {*KNOWN_VERSIONS, accepted}:
            hint = f"known are {' '.join(KNOWN_VERSIONS)}; if you are sure: --accept-version {self.version}"
            raise WrongVersion(f"{self.shown} speaks {self.version!r}: nothing is changed", hint=hint)

    def run(self, program: Program, keys: Sequence[bytes], arguments: Sequence[bytes | str | int]) -> Any:
        """Run a program on the server, once; it is sent whole where the server does not hold it yet.

        Raises NoAnswer when it may or may not have run.
        """
        self._ensure_greeted()
        call: Command = ("EVALSHA", program.sha, len(keys), *keys, *arguments)
        [reply] = self._exchange([call])
        if isinstance(reply, NoScript):
            [loaded] = self._exchange([("SCRIPT", "LOAD", program.text)])
            if isinstance(loaded, EmqError):
                raise loaded
            [reply] = self._exchange([call])
        if isinstance(reply, EmqError):
            raise reply
        return reply

    def may_run(self, commands: Sequence[Command]) -> None:
        """Raise Denied for the first command this user may not run; none of them is executed."""
        for refusal in self.refusals(commands):
            if isinstance(refusal, Denied):
                raise refusal

    def refusals(self, commands: Sequence[Command]) -> list[EmqError | None]:
        """Return why each command would not be run here, None where it would be; none of them is executed.

        They are queued in a MULTI that was answered on this connection, of which there never is another, and
        discarded. Raises Denied where this user may not use MULTI. Each refusal leaves a line in the ACL LOG.
        """
        [begun] = self._exchange([("MULTI",)])
        if isinstance(begun, EmqError):
            raise begun
        is_over = False
        try:
            *replies, discarded = self._send([*commands, ("DISCARD",)])
            is_over = not isinstance(discarded, EmqError)
        finally:
            if not is_over:
                self._client.connection_pool.disconnect()  # ends what was begun
        return [reply if isinstance(reply, EmqError) else None for reply in replies]

    def now_ms(self) -> int:
        """Return the server's clock in ms since 1970; this machine's, with a note, where TIME is denied."""
        self._ensure_greeted()
        if self._clock_offset_ms is None:
            self._clock_offset_ms = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000
            self.notify("this user may not ask for the server's time: ages and leases are by this machine's clock")
        return time.monotonic_ns() // 1_000_000 + self._clock_offset_ms

    def _ensure_greeted(self) -> None:
        if not self._greeted:
            self.try_ask()

    def _greet(self, version: bytes | EmqError | None, clock: tuple[int, int] | EmqError) -> None:
        for reply in (version, clock):
            if isinstance(reply, EmqError) and not isinstance(reply, NotPermitted):
                raise reply
        self._greeted = True
        self._version = version
        if not isinstance(clock, EmqError):
            self._clock_offset_ms = clock[0] * 1000 + clock[1] // 1000 - time.monotonic_ns() // 1_000_000
        if isinstance(version, EmqError):
            self.notify("this user may not read the wire version: reading on as if it were known")
        elif version is not None and decode(version) not in KNOWN_VERSIONS:
            self.notify(f"unknown wire version {decode(version)!r}: what is shown may be wrong")

    def _unwrap(self, replies: list[Any], commands: Sequence[Command]) -> list[Any] | Denied:
        begun, *bare, results = replies
        if isinstance(begun, Denied):
            if not self._lacks_multi:
                self.notify("this user may not use MULTI: the figures are not of one moment")
            self._lacks_multi = True
            return bare
        for refused in (begun, *bare, results):
            if isinstance(refused, Denied):
                return refused
            if isinstance(refused, EmqError):
                raise refused
        return [self._translated(result, command) for result, command in zip(results, commands, strict=True)]

    def _with_found_types(self, replies: list[Any]) -> list[Any]:
        keys = [reply.key for reply in replies if isinstance(reply, WrongTypeReply)]
        if not keys:
            return replies
        found = dict(zip(keys, self._exchange([("TYPE", key) for key in keys]), strict=True))
        return [
            WrongType(decode(reply.key), _type_word(found[reply.key]), parse(reply.key).redis_type)
            if isinstance(reply, WrongTypeReply)
            else reply
            for reply in replies
        ]

    def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Return the replies; raise the first error that has to do with the server or the user as a whole."""
        replies = self._send(commands)
        for reply in replies:
            if isinstance(reply, Unreachable | Denied) and not isinstance(reply, NotPermitted):
                raise reply
        return replies

    def _send(self, commands: Sequence[Command]) -> list[Any]:
        import redis

        self.round_trips += 1
        self.commands += len(commands)
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        try:
            replies = pipeline.execute(raise_on_error=False)
        except (redis.RedisError, UnicodeError) as error:  # UnicodeError: a host name no resolver takes
            raise failure(error, self.endpoint, self._timeout_s) from error
        return [self._translated(reply, command) for reply, command in zip(replies, commands, strict=True)]

    def _translated(self, reply: Any, command: Command) -> Any:
        import redis

        if not isinstance(reply, redis.RedisError):
            try:
                return shaped(reply, command)
            except ValueError:
                return no_redis(self.shown)
        text = reply_text(reply)
        if "syntax error" in text and "BYLEX" in command:
            return too_old(self.shown, self._server_version())
        return from_reply(text, command, self.shown)

    def _server_version(self) -> str | None:
        information = self._exchange([("INFO", "server")])[0]
        return None if isinstance(information, EmqError) else information.get("redis_version")


@contextmanager
def connect(settings: Settings, notify: Notify) -> Iterator[Server]:
    """Yield a Server; the connection is made by the first command and closed at the end."""
    with plain_client(settings) as client:
        client.response_callbacks.clear()  # they know nothing of QUEUED, nor of a command inside EXEC
        yield Server(client, settings.endpoint, notify)


def _type_word(reply: Any) -> str:
    return "key of a hidden type" if isinstance(reply, EmqError) else decode(reply)
