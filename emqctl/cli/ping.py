"""``emqctl ping``."""

from __future__ import annotations

import click

from emqctl.cli.options import Command, pass_session
from emqctl.cli.session import Session
from emqctl.ping import ping
from emqctl.records import Answer


@click.command(
    "ping",
    cls=Command,
    short_help="Show who answers, how fast, and what this user may do.",
    examples=("emqctl ping", "emqctl ping -o json", "emqctl ping --columns round_trip_ms,wire_version,may"),
    record=Answer,
)
@pass_session
def command(session: Session, /) -> None:
    """Show which server answers and how fast, its role and wire version, and what emqctl may do there as this user.

    MAY lists what this user may do on every queue: look, and each kind of change of what is named (control is
    pause, resume and tune, fix is doctor --fix). MAY_NOT gives for the others the ACL rule that is missing first.
    It is asked for inside MULTI … DISCARD: nothing is executed, but each refusal is a line in the ACL LOG.
    """
    with session.server() as server:
        session.emit([ping(server)], Answer, single=True)
