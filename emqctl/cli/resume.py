"""``emqctl resume``."""

from __future__ import annotations

import click

from emqctl.branded import BrandedId
from emqctl.changes import COLUMNS, Outcome
from emqctl.cli.controlling import ControlManner, control, control_options, controlled
from emqctl.cli.options import ID, Command, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.control import resume


@click.command(
    "resume",
    cls=Command,
    record=Outcome,
    columns=COLUMNS,
    short_help="Let jobs start again, of a queue or of one lane.",
    examples=("emqctl resume orders", "emqctl resume emails --lane TEN0IlTd9mDCbY"),
)
@queue_argument()
@click.option("--lane", type=ID, metavar="GROUP", help="Only this lane.")
@control_options
@pass_session
def command(session: Session, /, queue: str, lane: BrandedId | None, manner: ControlManner) -> None:
    """Let jobs start again. A lane that can be served is put on the ring, even if it was not paused."""
    with controlled(session, queue, manner) as target:
        changed = control(
            session, target, lane, manner, "resumed", lambda: resume(target, lane, dry_run=manner.dry_run)
        )
        already = "" if changed else " already"
        what = f"lane {lane} of {queue} is open{already}"
        session.note(what if lane else f"{queue} is open{already}; lanes that are paused stay so")
