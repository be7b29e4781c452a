"""Listings of several queues, of which one that cannot be read is no reason to hide the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from emqctl.cli import exit_codes
from emqctl.cli.session import Session
from emqctl.errors import Denied
from emqctl.records import unreadable


def settle(session: Session, rows: Iterable[Any], *, alone: bool) -> list[Any]:
    """Return the rows, and exit with 3 if the value of one could not be read: the row says so.

    Raises the reason where the queue was ``alone`` asked for, or this user was denied every one of them.
    """
    settled, reasons = [], []
    for row in rows:
        reason = unreadable(row)
        if alone and reason:
            raise reason
        settled.append(row)
        reasons += [reason] if reason else []
    if reasons and len(reasons) == len(settled) and all(isinstance(reason, Denied) for reason in reasons):
        raise reasons[0]
    if reasons:
        session.exit_code = exit_codes.PARTLY
    return settled
