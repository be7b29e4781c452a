"""The redis-py client of one connection, RESP2 and bytes, and what it means when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from emqctl.config import Settings
from emqctl.endpoint import Endpoint
from emqctl.errors import EmqError, NoAnswer, Unreachable
from emqctl.keyspace import encode
from emqctl.replies import from_reply, no_redis
from emqctl.times import brief_ms

SAID_AT_ONCE_S = 0.002


@contextmanager
def plain_client(settings: Settings) -> Iterator[Any]:
    """Yield a redis-py client of one connection that tries nothing twice."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    endpoint = settings.endpoint
    kind: type[redis.Connection | redis.UnixDomainSocketConnection] = redis.Connection
    where: dict[str, Any] = {"host": endpoint.host, "port": endpoint.port, "socket_connect_timeout": settings.timeout_s}
    if endpoint.path:
        kind, where = redis.UnixDomainSocketConnection, {"path": endpoint.path}
    elif endpoint.tls:
        kind = redis.SSLConnection
    pool = _one_connection(
        connection_class=kind,
        db=endpoint.db,
        username=None if endpoint.username is None else encode(endpoint.username),
        password=None if endpoint.password is None else encode(endpoint.password),
        socket_timeout=settings.timeout_s,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        driver_info=None,
        **where,
    )
    try:
        yield redis.Redis(connection_pool=pool)
    finally:
        pool.disconnect()


def _one_connection(**about: Any) -> Any:
    """Return a pool of redis-py's that makes one connection and never another: what is lost stays lost.

    Its own would make a new one for whatever a TLS server says after the handshake, and for a lost one.
    """
    import redis

    class OneConnection(redis.ConnectionPool):
        _one: Any = None

        def get_connection(self, *_words: Any, **_options: Any) -> Any:
            if self._one is None:
                one: Any = self.make_connection()
                one.connect()
                self._one = one
                if about["connection_class"] is redis.Connection and one.can_read(SAID_AT_ONCE_S):
                    one.read_response()  # protected mode, too many clients: said before anything was asked
            if self._one._sock is None:  # noqa: SLF001 # its is_connected came late to redis-py
                raise redis.ConnectionError("the connection is lost")
            return self._one

        def release(self, connection: Any) -> None:
            pass

        def disconnect(self, inuse_connections: bool = True) -> None:  # noqa: FBT001, FBT002 # redis-py's
            del inuse_connections
            if self._one is not None:
                self._one.disconnect()

    return OneConnection(**about)


def failure(error: Exception, endpoint: Endpoint, timeout_s: float) -> EmqError:
    """Say what it means that commands were not answered: Unreachable when none can have run, else NoAnswer."""
    import redis

    never_sent = isinstance(error, UnicodeError) or "connecting to" in str(error)
    kind, shown = Unreachable if never_sent else NoAnswer, str(endpoint)
    other = "a port without TLS wants redis://" if endpoint.tls else "a TLS port wants rediss://"
    if isinstance(error, redis.TimeoutError):
        hint = f"raise --request-timeout, or check host and port; {other}"
        return kind(f"no answer from {shown} within {brief_ms(int(timeout_s * 1000))}", hint=hint)
    if isinstance(error, redis.ResponseError) or getattr(error, "status_code", None):
        return from_reply(reply_text(error), (), shown)
    if isinstance(error, redis.InvalidResponse):
        return no_redis(shown)
    return _unreachable(kind, error, shown, other)


def _unreachable(kind: type[Unreachable], error: BaseException, shown: str, other: str) -> EmqError:
    import ssl

    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return kind(f"{shown} shows a certificate that is not trusted: {cause.verify_message}")
    if isinstance(cause, ssl.SSLError):
        hint = f"check host and port; {other}"
        return kind(f"{shown} does not speak TLS as expected ({cause.reason})", hint=hint)
    is_cut = isinstance(cause, ConnectionResetError | BrokenPipeError)
    if isinstance(error, UnicodeError):
        return kind(f"cannot reach {shown}: its host is no name", hint="name the server with --url or EMQCTL_URL")
    if isinstance(cause, OSError) and not is_cut:
        reason = (cause.strerror or str(cause)).lower()
        return kind(f"cannot reach {shown}: {reason}", hint="name the server with --url or EMQCTL_URL")
    return kind(f"{shown} closed the connection", hint=f"check host and port; {other}")


def reply_text(error: Exception) -> str:
    """Put the first word back that redis-py splits from the errors it has classes for."""
    word = getattr(error, "status_code", None)
    return f"{word} {error}" if word and word != "ERR" else str(error)
