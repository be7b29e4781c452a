"""``emqctl pause``."""

from __future__ import annotations

import click

from emqctl.branded import BrandedId
from emqctl.changes import COLUMNS, Outcome
from emqctl.cli.controlling import ControlManner, control, control_options, controlled
from emqctl.cli.options import ID, Command, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.control import is_known, pause

GOES_ON = (
    "jobs in flight go on, retries, reaping, promotion and new jobs too; "
    "a claim that had looked before may still start one job"
)


@click.command(
    "pause",
    cls=Command,
    record=Outcome,
    columns=COLUMNS,
    short_help="Stop the start of jobs, of a queue or of one lane.",
    examples=("emqctl pause orders", "emqctl pause emails --lane TEN0IlTd9mDCbY"),
)
@queue_argument()
@click.option("--lane", type=ID, metavar="GROUP", help="Only this lane.")
@control_options
@pass_session
def command(session: Session, /, queue: str, lane: BrandedId | None, manner: ControlManner) -> None:
    """Stop the start of jobs, of a whole queue or of one lane. What is in flight goes on."""
    with controlled(session, queue, manner) as target:
        if lane and not is_known(target, lane):
            session.note(f"no key of {queue} names lane {lane}; it is paused before its first job")
        changed = control(session, target, lane, manner, "paused", lambda: pause(target, lane, dry_run=manner.dry_run))
        what = f"lane {lane} of {queue}" if lane else queue
        session.note(f"{what} is paused{'' if changed else ' already'}: {GOES_ON}")
