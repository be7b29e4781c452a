"""``emqctl edit``."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import click

from emqctl.branded import BrandedId
from emqctl.changes import COLUMNS, Outcome, Tally
from emqctl.cli import complete, exit_codes
from emqctl.cli.controlling import ControlManner, control_options, controlled
from emqctl.cli.options import JOB_ID, Command, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.errors import BadUsage, LocalFault, NotFound, Refused
from emqctl.moves import How, edit
from emqctl.queues import Queue


@click.command(
    "edit",
    cls=Command,
    record=Outcome,
    columns=COLUMNS,
    short_help="Replace a job's payload.",
    examples=(
        "emqctl edit orders JOB0Nb1VTbfnu4",
        "emqctl edit orders JOB0Nb1VTbfnu4 --payload fixed.json --save old.json",
    ),
)
@queue_argument()
@click.argument("job_id", type=JOB_ID, metavar="ID")
@click.option(
    "--payload",
    metavar="FILE|-",
    shell_complete=complete.files,
    help="The new payload; without it an editor opens at a terminal.",
)
@click.option(
    "--save", metavar="FILE", shell_complete=complete.files, help="Keep the old payload there; the file must be new."
)
@click.option("--force", is_flag=True, help="Also a job in flight or locked: its worker has the old payload already.")
@control_options
@pass_session
def command(
    session: Session,
    /,
    queue: str,
    job_id: BrandedId,
    payload: str | None,
    save: str | None,
    manner: ControlManner,
    *,
    force: bool,
) -> None:
    """Replace a job's payload, byte for byte, if it still is what was read.

    The new one comes from --payload, or from $VISUAL or $EDITOR.
    """
    stdin = session.environment.stdin
    if payload is None and (stdin is None or not stdin.isatty()):
        raise BadUsage("there is no terminal for an editor", hint="give the new payload with --payload FILE or -")
    with controlled(session, queue, manner) as target:
        old = _read(target, job_id)
        if save is not None:
            _save(save, old)
        new = _edited(session, old) if payload is None else _given(session, payload)
        pen = None if manner.dry_run else session.open_journal(queue, note=manner.note)
        if pen:
            pen.begin([bytes(job_id)])
        session.shield.begin()
        outcome = edit(target, job_id, old, new, How(force, manner.dry_run))
        if pen:
            pen.end([outcome])
        session.shield.end()
        _report(session, target, job_id, outcome)


def _read(queue: Queue, job_id: BrandedId) -> bytes:
    [payload] = queue.server.ask(("HGET", queue.keys.job(job_id), "payload"))
    if payload is None:
        raise NotFound(f"queue {queue.name!r} at {queue.server.shown} has no job {job_id} with a payload")
    return bytes(payload)


def _given(session: Session, name: str) -> bytes:
    try:
        if name == "-":
            stdin = session.environment.stdin
            return b"" if stdin is None else stdin.buffer.read()
        return Path(name).read_bytes()
    except OSError as error:
        raise LocalFault(f"cannot read {name}: {error.strerror}") from error


def _save(name: str, payload: bytes) -> None:
    try:
        with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(payload)
    except OSError as error:
        raise LocalFault(f"cannot keep the old payload in {name}: {error.strerror}") from error


def _edited(session: Session, old: bytes) -> bytes:
    """Let the operator edit a private copy."""
    variables = session.environment.variables
    editor = variables.get("VISUAL") or variables.get("EDITOR") or "vi"
    handle, name = tempfile.mkstemp(prefix="emqctl-payload-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(old)
        try:
            code = subprocess.run([*shlex.split(editor), name], check=False).returncode  # noqa: S603 # the operator's own
        except (OSError, ValueError) as error:
            raise LocalFault(f"cannot run the editor {editor!r}", hint="set VISUAL or EDITOR") from error
        if code:
            raise Refused(f"the editor ended with {code}: nothing was changed")
        return Path(name).read_bytes()
    finally:
        with contextlib.suppress(OSError):
            Path(name).unlink()


def _report(session: Session, queue: Queue, job_id: BrandedId, outcome: Outcome) -> None:
    tally = Tally()
    tally.add(outcome)
    session.exit_code = exit_codes.VERDICTS[tally.verdict]
    if session.chose_output or session.is_verbose or tally.undone:
        session.emit([outcome], Outcome, columns=COLUMNS)
    what = {"edited": "has a new payload", "would-edit": "would have a new payload"}.get(outcome.result)
    job = f"job {job_id} of {queue.name}"
    session.note(f"{job} {what}" if what else f"{job} was not edited: {outcome.reason}")
