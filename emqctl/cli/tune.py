"""``emqctl tune``."""

from __future__ import annotations

import click

from emqctl.branded import BrandedId
from emqctl.changes import COLUMNS, Outcome
from emqctl.cli.controlling import ControlManner, control, control_options, controlled
from emqctl.cli.options import ID, Command, Parsed, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.control import is_known, limit, weigh
from emqctl.errors import BadUsage, Malformed

NONE = 0  # how `none` is passed on: it lifts the limit


def _ceiling(text: str) -> int:
    if text == "none":
        return NONE
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) < 10**9:
        why = "it is 1 or more, or none; to let nothing start, pause the lane"
        raise Malformed("a number of jobs", text, why)
    return int(text)


_CEILING = Parsed("N|none", _ceiling)


@click.command(
    "tune",
    cls=Command,
    record=Outcome,
    columns=COLUMNS,
    short_help="Set how many jobs of a lane run at once, or are served a turn.",
    examples=(
        "emqctl tune emails TEN0IlTd9mDCbY --max-active 5",
        "emqctl tune emails TEN0IlTd9mDCbY --max-active none --weight 3",
    ),
)
@queue_argument()
@click.argument("lane", type=ID, metavar="GROUP")
@click.option("--max-active", type=_CEILING, metavar="N|none", help="Most jobs in flight at once.")
@click.option("--weight", type=_CEILING, metavar="N|none", help="Jobs served each time the lane's turn comes.")
@control_options
@pass_session
def command(
    session: Session,
    /,
    queue: str,
    lane: BrandedId,
    max_active: int | None,
    weight: int | None,
    manner: ControlManner,
) -> None:
    """Set or lift a lane's ceiling of jobs in flight, and its weight. The ring is kept right."""
    if max_active is None and weight is None:
        raise BadUsage("nothing to tune", hint="give --max-active N|none or --weight N|none")

    def act() -> bool:
        changed = False
        if max_active is not None:
            changed |= limit(target, lane, max_active or None, dry_run=manner.dry_run)
        if weight is not None:
            changed |= weigh(target, lane, weight or None, dry_run=manner.dry_run)
        return changed

    with controlled(session, queue, manner) as target:
        if not is_known(target, lane):
            session.note(f"no key of {queue} names lane {lane} yet")
        changed = control(session, target, lane, manner, "tuned", act)
        session.note(f"lane {lane} of {queue}: {_words(max_active, weight)}{'' if changed else ' already'}")


def _words(max_active: int | None, weight: int | None) -> str:
    parts = []
    if max_active is not None:
        parts.append(f"at most {max_active} in flight" if max_active else "any number in flight")
    if weight is not None:
        parts.append(f"{weight} served a turn" if weight else "one served a turn")
    return ", ".join(parts)
