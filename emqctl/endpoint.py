"""Server URLs: read strictly, shown without their secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from emqctl.errors import Malformed

DEFAULT_URL = "redis://127.0.0.1:6379/0"
SCHEMES = {"redis": False, "valkey": False, "rediss": True, "valkeys": True, "unix": False}  # -> speaks TLS

_WHAT = "a server URL"
_FORMS = "write redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss://…, valkey://…, valkeys://… or unix:///PATH[?db=N]"
_ENCODE = "percent-encode @ : / # ? % in user and password, or use --password-file"


@dataclass(frozen=True)
class Endpoint:
    """One server and logical database, and who to be there.

    ``path`` is set for a unix socket, ``host`` and ``port`` otherwise. Only ``username`` and
    ``password`` are secret; they never show in ``str()`` or ``repr()``.
    """

    scheme: str
    host: str = ""
    port: int = 6379
    path: str = ""
    db: int = 0
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return SCHEMES[self.scheme]

    def __str__(self) -> str:
        secret = "***@" if self.username or self.password else ""
        if self.path:
            return f"unix://{secret}{self.path}" + (f"?db={self.db}" if self.db else "")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{secret}{host}:{self.port}/{self.db}"


def parse_url(url: str) -> Endpoint:
    """Read a server URL. Raises Malformed, with the secret left out of the message."""
    shown = redact(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Malformed(_WHAT, shown, "its host or port is not one", hint=_ENCODE) from error
    if parts.scheme not in SCHEMES:
        raise Malformed(_WHAT, shown, f"schemes are {' '.join(SCHEMES)}", hint=_FORMS)
    if parts.fragment or (parts.query and parts.scheme != "unix"):
        raise Malformed(_WHAT, shown, "nothing may follow the database number", hint=_ENCODE)
    username, password = _userinfo(parts, shown)
    if parts.scheme == "unix":
        if parts.hostname or not parts.path:
            raise Malformed(_WHAT, shown, "a socket is named by its whole path", hint=_FORMS)
        path = _decoded(parts.path, shown)
        return Endpoint("unix", path=path, db=_query_db(parts, shown), username=username, password=password)
    if not parts.hostname:
        raise Malformed(_WHAT, shown, "it names no host", hint=_FORMS)
    db = _database(parts.path.removeprefix("/") or "0", shown)
    return Endpoint(parts.scheme, parts.hostname, 6379 if port is None else port, "", db, username, password)


def redact(url: str) -> str:
    """Return the URL with everything that may be a secret replaced by ``***``, however the URL is wrong."""
    scheme = re.match(r"[a-z+]+://", url)
    head = scheme[0] if scheme else ""
    body = url[len(head) :]
    if "@" in body:
        body = "***@" + body.rpartition("@")[2]
    else:
        body = re.sub(r"^(?!\[)([^/@:]*):(?![0-9]+([/?#]|$))[^/]*", r"\1:***", body)
    return head + re.sub(r"=(?![0-9]+$)[^&]*", "=***", body, flags=re.DOTALL)


def _userinfo(parts: SplitResult, shown: str) -> tuple[str | None, str | None]:
    username = None if not parts.username else _decoded(parts.username, shown)
    password = None if not parts.password else _decoded(parts.password, shown)
    return username, password


def _decoded(text: str, shown: str) -> str:
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(_WHAT, shown, "a percent-encoded part is not UTF-8") from error


def _query_db(parts: SplitResult, shown: str) -> int:
    name, _, value = parts.query.partition("=")
    if parts.query and name != "db":
        raise Malformed(_WHAT, shown, "the only option of a unix URL is ?db=N")
    return _database(value or "0", shown)


def _database(text: str, shown: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise Malformed(_WHAT, shown, "the database is a number, as in redis://HOST:6379/0")
    return int(text)
