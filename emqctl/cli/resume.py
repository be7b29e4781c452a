"""``emqctl resume``."""

from __future__ import annotations

import click

from emqctl import control
from emqctl.branded import BrandedId
from emqctl.cli.controlling import control_options, controlled, report
from emqctl.cli.options import ID, Command, pass_session, queue_argument
from emqctl.cli.session import Session


@click.command(
    "resume",
    cls=Command,
    short_help="Let jobs start again, of a queue or of one lane.",
    examples=("emqctl resume orders", "emqctl resume emails --lane TEN0IlTd9mDCbY"),
)
@queue_argument()
@click.option("--lane", type=ID, metavar="GROUP", help="Only this lane.")
@control_options
@pass_session
def command(
    session: Session, /, queue: str, lane: BrandedId | None, accept_version: str | None, *, dry_run: bool
) -> None:
    """Let jobs start again. A lane that can be served is put on the ring, even if it was not paused."""
    with controlled(session, queue, dry_run=dry_run, accept_version=accept_version) as target:
        changed = control.resume(target, lane, dry_run=dry_run)
        text = f"lane {lane} of {queue} is open" if lane else f"{queue} is open; its paused lanes stay paused"
        report(session, "resumed", changed=changed, dry_run=dry_run, lane=lane, text=text)
