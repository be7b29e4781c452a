"""``emqctl id``."""

from __future__ import annotations

import click

from emqctl import branded
from emqctl.branded import BrandedId
from emqctl.cli.options import ID, TIME, Command, pass_session
from emqctl.cli.session import Session
from emqctl.errors import BadUsage
from emqctl.records import IdParts
from emqctl.times import Instant, now_ms


@click.command(
    "id",
    cls=Command,
    record=IdParts,
    short_help="Take ids apart, or make the smallest id of an instant.",
    examples=("emqctl id JOB0Nb1VTbfnu4", "emqctl id --at 2026-11-30T18:00:00Z", "emqctl id --at 2h"),
)
@click.argument("ids", nargs=-1, type=ID, metavar="[ID]...")
@click.option("--at", type=TIME, metavar="TIME", help="Print the smallest id of that instant.")
@click.option("--ns", default="JOB", show_default=True, metavar="NS", help="Namespace of that id.")
@pass_session
def command(session: Session, /, ids: tuple[BrandedId, ...], at: Instant | None, ns: str) -> None:
    """Take branded ids apart: namespace, snowflake, mint time, node, sequence. Asks no server.

    With --at, print the smallest id of an instant: every job made before it has a smaller id.
    """
    if bool(ids) == (at is not None):
        raise BadUsage("give ids, or --at TIME", hint="see emqctl id --help")
    if at is not None:
        smallest = branded.smallest_at(at.resolve(now_ms), ns)
        session.emit([_parts(smallest)], IdParts, bare="id", clock=now_ms)
        return
    session.emit(map(_parts, ids), IdParts, single=len(ids) == 1, clock=now_ms)


def _parts(branded_id: BrandedId) -> IdParts:
    return IdParts(
        str(branded_id),
        branded_id.namespace,
        str(branded_id.snowflake),
        branded_id.minted,
        branded_id.node,
        branded_id.sequence,
    )
