"""``emqctl move``."""

from __future__ import annotations

import click

from emqctl.branded import BrandedId
from emqctl.changes import COLUMNS, Outcome
from emqctl.cli.changing import Manner, Verb, change_jobs, manner_options
from emqctl.cli.choosing import Choice, named_jobs
from emqctl.cli.options import ID, Command, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.moves import How, move


@click.command(
    "move",
    cls=Command,
    record=Outcome,
    columns=COLUMNS,
    short_help="Give jobs to another lane.",
    examples=(
        "emqctl move emails JOB0Nb1VTbfnu4 --to TEN0IlTd9mDCbY",
        "emqctl move emails JOB0Nb1VTbfnu4 --to TEN0IlTd9mDCbY --dry-run",
    ),
)
@queue_argument()
@named_jobs(required=True)
@click.option("--to", "group", type=ID, required=True, metavar="GROUP", help="The lane they are given to.")
@click.option(
    "--force", is_flag=True, help="Also jobs without a lane, and jobs that a worker's lock marker still holds."
)
@manner_options
@pass_session
def command(
    session: Session, /, queue: str, ids: tuple[str, ...], group: BrandedId, manner: Manner, *, force: bool
) -> None:
    """Give jobs to another lane. One that waits goes there now; a scheduled or dead one when it comes back."""
    how = How(force, manner.dry_run)
    verb = Verb(
        past="moved",
        jobs="job",
        make=lambda target, pages, pace: move(target, pages, how, pace, group=group),
        select=lambda _target: iter(()),
    )
    change_jobs(session, queue, Choice(ids), manner, verb)
