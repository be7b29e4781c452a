"""``emqctl pause``."""

from __future__ import annotations

import click

from emqctl import control
from emqctl.branded import BrandedId
from emqctl.cli.controlling import control_options, controlled, report
from emqctl.cli.options import ID, Command, pass_session, queue_argument
from emqctl.cli.session import Session

GOES_ON = (
    "jobs in flight go on, retries, reaping, promotion and new jobs too; "
    "a claim that had looked before may still start one job"
)


@click.command(
    "pause",
    cls=Command,
    short_help="Stop the start of jobs, of a queue or of one lane.",
    examples=("emqctl pause orders", "emqctl pause emails --lane TEN0IlTd9mDCbY"),
)
@queue_argument()
@click.option("--lane", type=ID, metavar="GROUP", help="Only this lane.")
@control_options
@pass_session
def command(
    session: Session, /, queue: str, lane: BrandedId | None, accept_version: str | None, *, dry_run: bool
) -> None:
    """Stop the start of jobs, of a whole queue or of one lane. What is in flight goes on."""
    with controlled(session, queue, dry_run=dry_run, accept_version=accept_version) as target:
        if lane and not control.is_known(target, lane):
            session.note(f"no key of {queue} names lane {lane}; it is paused before its first job")
        changed = control.pause(target, lane, dry_run=dry_run)
        what = f"lane {lane} of {queue}" if lane else queue
        text = f"{what} is paused: {GOES_ON}"
        report(session, "paused", changed=changed, dry_run=dry_run, lane=lane, text=text)
