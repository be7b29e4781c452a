"""``emqctl slot``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import click

from emqctl import keyspace, slots
from emqctl.cli import complete
from emqctl.cli.options import Command, pass_session
from emqctl.cli.session import Session
from emqctl.errors import Malformed
from emqctl.records import SlotRow
from emqctl.topology import slot_owners


@click.command(
    "slot",
    cls=Command,
    record=SlotRow,
    short_help="Print the cluster slot of queues or keys.",
    examples=("emqctl slot orders", "emqctl slot orders emails", "emqctl slot orders --node"),
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete.queue_names)
@click.option("--node", is_flag=True, help="Ask the server which node serves the slot.")
@pass_session
def command(session: Session, /, names: tuple[str, ...], *, node: bool) -> None:
    """Print the cluster slot of queues or whole keys: CRC16 of the hash tag, mod 16384.

    All keys of a queue share its slot. One NAME: the bare number; several: NAME and slot.
    """
    if "" in names:
        raise Malformed("a queue or key", "", "it is empty")
    if node:
        with session.server() as server:
            session.emit(_rows(names, slot_owners(server)), SlotRow, shown=("name", "slot", "node"))
    else:
        bare = "slot" if len(names) == 1 else None
        session.emit(_rows(names, lambda _slot: None), SlotRow, shown=("name", "slot"), bare=bare)


def _rows(names: Iterable[str], owner: Callable[[int], str | None]) -> Iterator[SlotRow]:
    for name in names:
        raw = keyspace.encode(name)
        slot = slots.slot_of(raw)
        yield SlotRow(name, slots.hash_tag(raw), slot, owner(slot))
