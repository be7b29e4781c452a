"""``emqctl demo``."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import islice

import click

from emqctl.cli import complete
from emqctl.cli.depth import STATES
from emqctl.cli.options import Command, pass_session
from emqctl.cli.root import run
from emqctl.cli.session import Session
from emqctl.client import plain_client
from emqctl.config import Choices
from emqctl.connection import Server
from emqctl.demo.life import live
from emqctl.demo.server import PrivateServer, find_binary
from emqctl.demo.world import commands
from emqctl.errors import BadUsage, LocalFault
from emqctl.queues import open_queues
from emqctl.records import QueueState

CHUNK = 500  # commands in one round trip


@click.command(
    "demo",
    cls=Command,
    short_help="Try emqctl on a throw-away server with a sample world.",
    context_settings={"allow_interspersed_args": False},
    examples=("emqctl demo", "emqctl demo -- browse orders -n 20", "emqctl demo -- depth --states"),
)
@click.option("--quiet-world", is_flag=True, help="Without workers: nothing in the world moves.")
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]", shell_complete=complete.command_line
)
@pass_session
def command(session: Session, /, words: tuple[str, ...], *, quiet_world: bool) -> None:
    """Run COMMAND on a throw-away server of this machine's own, filled with a sample world.

    No variable is read for it but EMQCTL_SERVER_BINARY, which names the server program, and nothing is
    left behind. Without COMMAND: show the world, print the server's URL and stay up until Ctrl-C, while
    simulated producers and workers let jobs come, run, fail and die.
    """
    if session.choices != Choices():
        raise BadUsage("demo has a server of its own", hint="leave out --url and the other connection options")
    with PrivateServer(find_binary(session.environment.variables), tcp=not words) as private:
        inside = _inside(session, private.url)
        with inside.server() as server:
            _fill(server)
        if words:
            session.exit_code = run(words, inside)
        else:
            _show(inside, private.url)
            _stay(inside, moving=not quiet_world)


def _inside(session: Session, url: str) -> Session:
    """Return the session in which COMMAND runs: pinned to the private server."""
    ours = session.environment.variables
    variables = {name: value for name, value in ours.items() if not name.startswith("EMQCTL_")}
    environment = replace(session.environment, variables=variables)
    return replace(session, environment=environment, choices=Choices(url=url), pinned=True)


def _fill(server: Server) -> None:
    pending = commands(server.now_ms())
    while some := list(islice(pending, CHUNK)):
        server.ask(*some)


def _show(session: Session, url: str) -> None:
    session.command = "depth"  # what it prints is that of depth --states
    with session.server() as server:
        session.emit([queue.depths() for queue in open_queues(server, ())], QueueState, columns=STATES)
    session.say(f"the sample world is up until Ctrl-C; in another terminal: export EMQCTL_URL={url}")


def _stay(session: Session, *, moving: bool) -> None:
    forever = threading.Event()
    if moving:
        live(lambda: plain_client(session.settings), forever, seed=1)
        raise LocalFault("the server of the demo is gone")
    forever.wait()
