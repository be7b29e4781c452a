"""``emqctl inspect``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from emqctl import branded, keyspace
from emqctl.branded import BrandedId
from emqctl.cli import complete, exit_codes
from emqctl.cli.options import Command, pass_session
from emqctl.cli.session import Session
from emqctl.connection import Server
from emqctl.errors import BadUsage, NotFound, Refused
from emqctl.inspection import Depth, find, inspect
from emqctl.queues import Queue
from emqctl.records import Inspection
from emqctl.render.cells import printable


@click.command(
    "inspect",
    cls=Command,
    record=Inspection,
    short_help="Show everything about a job.",
    examples=(
        "emqctl inspect orders JOB0Nb1VTbfnu4",
        "emqctl inspect JOB0Nb1VTbfnu4 -o json",
        "emqctl inspect orders JOB0Nb1VTbfnu4 --raw > payload",
    ),
)
@click.argument("words", nargs=-1, required=True, metavar="[QUEUE] ID...", shell_complete=complete.queue_and_job_ids)
@click.option(
    "--logs", type=click.IntRange(min=0), default=20, show_default=True, metavar="N", help="Last N log lines."
)
@click.option("--deep", is_flag=True, help="Scan the queue for dedup keys and children that point at the job.")
@click.option("--raw", is_flag=True, help="Write one payload's bytes, and nothing else.")
@pass_session
def command(session: Session, /, words: tuple[str, ...], logs: int, *, deep: bool, raw: bool) -> None:
    """Show everything about a job: where it is and what that means, its row, lane, logs, lock and flow.

    What does not fit together is said in words. Without QUEUE the job is looked for in every queue.
    """
    queue, ids = _split(words)
    if raw and len(ids) != 1:
        raise BadUsage("--raw writes the payload of one job")
    with session.server() as server:
        search = _Search(session, server, queue, Depth(logs, deep=deep))
        if raw:
            _write_raw(session, next(search.inspections(ids), None))
        else:
            session.emit(search.inspections(ids), Inspection, single=True, clock=server.now_ms)
        search.conclude()


def _split(words: Sequence[str]) -> tuple[str | None, list[BrandedId]]:
    """Take the first word for a queue unless it is a job id and the only ones."""
    if branded.is_branded(keyspace.encode(words[0])):
        return None, [branded.parse_job(word) for word in words]
    queue = keyspace.check_queue(words[0])
    if len(words) == 1:
        raise BadUsage(f"no job id is given; {queue!r} is none", hint="emqctl inspect [QUEUE] ID...")
    return queue, [branded.parse_job(word) for word in words[1:]]


class _Search:
    """Looking jobs up, and keeping account of those that are nowhere."""

    def __init__(self, session: Session, server: Server, queue: str | None, depth: Depth) -> None:
        self._session, self._server, self._queue, self._depth = session, server, queue, depth
        self._found = 0
        self._missing: list[NotFound] = []

    def inspections(self, ids: Sequence[BrandedId]) -> Iterator[Inspection]:
        """Yield what there is of each job, in order; once a queue where it is in several."""
        for job_id in ids:
            queues = [Queue(self._server, self._queue)] if self._queue else find(self._server, job_id)
            looks = [inspect(queue, job_id, self._depth) for queue in queues]
            here = [each for each in looks if each is not None]
            self._found += len(here)
            if not here:
                self._missing.append(self._not_found(job_id))
            yield from here

    def conclude(self) -> None:
        """Say which jobs are nowhere. Raises NotFound when none was found."""
        if self._missing and not self._found and len(self._missing) == 1:
            raise self._missing[0]
        for each in self._missing:
            self._session.fail(each)
            self._session.exit_code = exit_codes.PARTLY if self._found else exit_codes.MISSING

    def _not_found(self, job_id: BrandedId) -> NotFound:
        where = f"queue {self._queue!r}" if self._queue else "no queue"
        text = f"{where} at {self._server.shown} has {'no job' if self._queue else 'job'} {job_id}"
        return NotFound(text, hint="it may be done: EchoMQ deletes a job when it completes")


def _write_raw(session: Session, inspection: Inspection | None) -> None:
    if inspection is None:
        return
    out = session.environment.output()
    payload = inspection.payload
    if payload is None:
        raise Refused(f"job {inspection.id} has no payload")
    if out.is_terminal and not _is_printable(payload):
        hint = f"write it to a file: emqctl inspect {inspection.queue} {inspection.id} --raw > FILE"
        raise Refused(f"the payload of {inspection.id} could steer this terminal", hint=hint)
    out.write_bytes(payload)


def _is_printable(payload: bytes) -> bool:
    text = keyspace.decode(payload).replace("\n", "").replace("\t", "")
    return printable(text) == text
