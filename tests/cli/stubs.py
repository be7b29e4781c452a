"""Things that listen where a server should: silent, foreign, loading, old, or cut off halfway."""

from __future__ import annotations

import select
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

CERTIFICATE = Path(__file__).parent / "localhost.pem"  # for `localhost` alone, signed by itself, its key within

Serve = Callable[[socket.socket], None]
Answer = Callable[[list[bytes]], bytes]


@contextmanager
def listening(serve: Serve) -> Iterator[int]:
    """Yield a port of 127.0.0.1 where ``serve`` gets each connection, in a thread."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                serve(self.request)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield running.server_address[1]
        finally:
            running.shutdown()
            thread.join()


@contextmanager
def silent() -> Iterator[int]:
    """Yield a port that accepts and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as accepting:
        yield accepting.getsockname()[1]


def refused_port() -> int:
    """Return a port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port: int = gone.getsockname()[1]
    return port


def saying(words: bytes) -> Serve:
    """Answer whatever comes first with these bytes, and hang up."""

    def serve(client: socket.socket) -> None:
        client.recv(65_536)
        client.sendall(words)

    return serve


def answering(answer: Answer) -> Serve:
    """Speak RESP: answer each command."""

    def serve(client: socket.socket) -> None:
        with client.makefile("rb") as lines:
            while head := lines.readline():
                words = [lines.read(int(lines.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
                client.sendall(answer(words))

    return serve


def holding_after(path: Path, limit: int, held: threading.Event) -> Serve:
    """Pass everything between a client and the unix socket; after so many bytes of answers, none any more."""

    def serve(client: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as upstream:
            upstream.connect(str(path))
            asking = threading.Thread(target=_pump, args=(client, upstream), daemon=True)
            asking.start()
            left = limit
            while left and (data := upstream.recv(min(left, 65_536))):
                client.sendall(data)
                left -= len(data)
            held.set()
            asking.join()

    return serve


class TurnCounter:
    """Passes everything between clients and the unix socket, answers once the client has paused; counts its turns.

    A client that sends much is answered while it still sends; only what it does after the answers is a new turn.
    """

    pause_s = 0.02

    def __init__(self, path: Path) -> None:
        self._path = path
        self.turns = self.connections = 0

    def __call__(self, client: socket.socket) -> None:
        """Serve one client."""
        self.connections += 1
        with socket.socket(socket.AF_UNIX) as upstream:
            upstream.connect(str(self._path))
            answers, answered = b"", True
            while True:
                ready = select.select([client, upstream], [], [], self.pause_s)[0]
                if client in ready:
                    words = client.recv(65_536)
                    if not words:
                        return
                    self.turns += answered
                    answered = False
                    upstream.sendall(words)
                elif upstream in ready:
                    answers += upstream.recv(65_536)
                elif answers:
                    client.sendall(answers)
                    answers, answered = b"", True


def encrypted(path: Path) -> Serve:
    """Speak TLS with the certificate, and pass what is inside to the unix socket."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)

    def serve(client: socket.socket) -> None:
        with context.wrap_socket(client, server_side=True) as inside, socket.socket(socket.AF_UNIX) as upstream:
            upstream.connect(str(path))
            while True:  # one thread: OpenSSL does not read and write at once
                ready = [inside] if inside.pending() else select.select([inside, upstream], [], [])[0]
                for source, target in ((inside, upstream), (upstream, inside)):
                    if source in ready:
                        data = source.recv(65_536)
                        if not data:
                            return
                        target.sendall(data)

    return serve


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)


def bulk(values: Sequence[bytes]) -> bytes:
    """Return an array reply of texts."""
    return b"*%d\r\n" % len(values) + b"".join(b"$%d\r\n%s\r\n" % (len(value), value) for value in values)
