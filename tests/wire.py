"""What goes over the wire: the commands a server received, and a proxy that counts and cuts."""

from __future__ import annotations

import ast
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any
from uuid import uuid4

import pytest
import redis

Monitor = Callable[[], AbstractContextManager[list[list[bytes]]]]

_LINE = re.compile(rb'[0-9.]+ \[\d+ ([^\]]*)\] (".*")', re.DOTALL)
_WORD = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


@contextmanager
def monitor(client: redis.Redis) -> Iterator[list[list[bytes]]]:
    """Record the commands other connections send meanwhile; the list is filled when the block ends.

    ``client`` is for the recording alone. A script's inner calls are left out, and AUTH and HELLO,
    which only some servers show. None shows administrative commands: ACL, CONFIG, MONITOR.
    """
    commands: list[list[bytes]] = []
    connection = client.connection_pool.get_connection()
    end = uuid4().hex.encode()
    try:
        client.ping()  # connects, and signs in, before the recording begins
        connection.send_command("MONITOR")
        connection.read_response()
        yield commands
        client.echo(end)
        while (command := _command(connection.read_response())) != [b"ECHO", end]:
            commands += [command] if command else []
    finally:
        connection.disconnect()
        client.connection_pool.release(connection)


def _command(line: bytes) -> list[bytes]:
    """Return the words of a line of MONITOR, none for a call of a script; its escapes are those of Python."""
    shown = _LINE.fullmatch(line)
    if not shown:
        raise ValueError(line)
    quoted = _WORD.findall(shown[2])
    if b" ".join(quoted) != shown[2]:
        pytest.skip("this server's MONITOR does not escape quotes, as Valkey 8.1.1's")
    words = [ast.literal_eval("b" + word.decode("ascii")) for word in quoted]
    return [] if shown[1] == b"lua" or words[0].upper() in {b"AUTH", b"HELLO"} else words


class Proxy(socketserver.ThreadingTCPServer):
    """A TCP port in front of a server's unix socket.

    ``up`` and ``down`` count bytes to and from the server, ``round_trips`` how often a client
    spoke, first or after an answer. A connection is cut when it would pass more than ``cut_up`` or
    ``cut_down`` bytes in that direction: ``cut_down = 0`` loses the answer to what was done.
    """

    allow_reuse_address = True

    def __init__(self, path: str) -> None:
        super().__init__(("127.0.0.1", 0), _Relay)
        self.path = path
        self.up = self.down = self.connections = self.round_trips = 0
        self.cut_up: int | None = None
        self.cut_down: int | None = None
        self._lock = threading.Lock()
        self._clients: set[socket.socket] = set()

    @property
    def url(self) -> str:
        """Where to connect."""
        return f"redis://127.0.0.1:{self.server_address[1]}/0"

    def cut(self) -> None:
        """End every connection."""
        with self._lock:
            for client in self._clients:
                _shut(client)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Count and remember a connection before its thread begins."""
        with self._lock:
            self.connections += 1
            self._clients.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that has ended."""
        with self._lock:
            self._clients.discard(request)
        super().shutdown_request(request)

    def count(self, size: int, *, up: bool, turned: bool) -> None:
        """Add bytes, and a round trip when the client began to speak."""
        with self._lock:
            self.up += size if up else 0
            self.down += 0 if up else size
            self.round_trips += turned


class _Relay(socketserver.BaseRequestHandler):
    server: Proxy

    def handle(self) -> None:
        self.answered = True
        with socket.socket(socket.AF_UNIX) as upstream:
            upstream.connect(self.server.path)
            answers = threading.Thread(target=self._pump, args=(upstream, self.request), kwargs={"up": False})
            answers.start()
            self._pump(self.request, upstream, up=True)
            answers.join()

    def _pump(self, source: socket.socket, target: socket.socket, *, up: bool) -> None:
        passed = 0
        with suppress(OSError):
            while data := source.recv(65_536):
                limit = self.server.cut_up if up else self.server.cut_down
                allowed = data if limit is None else data[: max(0, limit - passed)]
                passed += len(allowed)
                self.server.count(len(allowed), up=up, turned=up and self.answered)
                self.answered = not up
                target.sendall(allowed)
                if len(allowed) < len(data):
                    break
        _shut(source)
        _shut(target)


@contextmanager
def proxy(path: str) -> Iterator[Proxy]:
    """Run a Proxy in front of the unix socket ``path``; cuts what is left when the block ends."""
    with Proxy(path) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()
            running.cut()


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
