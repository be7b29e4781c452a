"""``emqctl journal``."""

from __future__ import annotations

from collections.abc import Iterator

import click

from emqctl import journal, times
from emqctl.cli import complete
from emqctl.cli.options import TIME, Command, pass_session
from emqctl.cli.session import Session
from emqctl.journal import Change
from emqctl.times import Instant

COLUMNS = ("time", "command", "queue", "lane", "state", "results", "note")


@click.command(
    "journal",
    cls=Command,
    record=Change,
    short_help="List the changes made with emqctl by this user.",
    examples=("emqctl journal", "emqctl journal --unanswered", "emqctl journal --queue orders --since 12h -o json"),
)
@click.option("--queue", metavar="QUEUE", shell_complete=complete.queue_names, help="Only of this queue.")
@click.option(
    "--command",
    "verb",
    metavar="NAME",
    shell_complete=complete.changes,
    help="Only of this command: requeue, remove, …",
)
@click.option("--id", "job", metavar="ID", help="Only those that were for this job.")
@click.option("--since", type=TIME, metavar="TIME", help="Begun at or after: 2h, 2026-11-30, RFC 3339.")
@click.option("--until", type=TIME, metavar="TIME", help="Begun before.")
@click.option("--unanswered", is_flag=True, help="Only those that may or may not have been applied.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="The last N; 0 is all.",
)
@pass_session
def command(
    session: Session,
    /,
    queue: str | None,
    verb: str | None,
    job: str | None,
    since: Instant | None,
    until: Instant | None,
    limit: int,
    *,
    unanswered: bool,
) -> None:
    """List the changes made with emqctl by this user, oldest first: what was asked and what came of it.

    A change is written down before it is sent. One without an answer may or may not have been applied:
    run the same command again, what was done is skipped.
    """
    path = journal.path_of(session.environment.variables)
    first, last = _rfc3339(since), _rfc3339(until)

    def is_meant(change: Change) -> bool:
        return (
            queue in {None, change.queue}
            and verb in {None, change.command}
            and (job is None or job in change.jobs)
            and (first is None or change.time >= first)
            and (last is None or change.time < last)
            and (not unanswered or change.state == "unanswered")
        )

    changes: Iterator[Change] = filter(is_meant, journal.read(path)) if path else iter(())
    by_time = sorted(changes, key=lambda change: change.time)  # those without an answer are read last
    session.emit(by_time[-limit:] if limit else by_time, Change, shown=COLUMNS)


def _rfc3339(instant: Instant | None) -> str | None:
    moment = None if instant is None else times.from_ms(instant.resolve(times.now_ms))
    return None if moment is None else times.rfc3339(moment)
