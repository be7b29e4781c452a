"""What a word that is being typed may become: names and ids as they stand on the server now.

Silent and empty where the server is away, denied or slow.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, ShellComplete

from emqctl import branded, config, keyspace, times
from emqctl.cli.session import Session
from emqctl.errors import Refused
from emqctl.keyspace import QueueKeys

if TYPE_CHECKING:
    from emqctl.connection import Server
    from emqctl.records import BrowsedJob

Items = list[CompletionItem[str]]
Completer = Callable[[click.Context, click.Parameter, str], Items]

SERVER_S = 0.1
NEWEST, NEXT = 50, 200  # ids shown of a set that sorts by mint time; looked at of one that sorts by time

#: The states of the jobs a command takes; any other command takes them in every state.
STATES = {
    "requeue": ("dead",),
    "bury": ("pending", "scheduled"),
    "reap": ("active",),
    "promote": ("scheduled",),
    "move": ("pending", "scheduled", "dead"),
}

# a word that no shell reads as anything but itself, and emqctl not as an option
_TYPABLE = re.compile(r"[A-Za-z0-9._:/@+][A-Za-z0-9._:/@+-]*")


@dataclass
class Typing(Session):
    """The session of a line that is being typed; its answer must be there at ``ends_at`` of the monotonic clock."""

    ends_at: float = math.inf

    @property
    def left_s(self) -> float:
        """How long may be taken yet, in seconds."""
        return self.ends_at - time.monotonic()


def queue_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete the name of a queue."""
    typed = _typed(context, parameter)
    return _queue_names(context, incomplete, typed)


def lanes(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete a lane of the queue typed before."""
    del parameter
    queue = _queue(context)
    return _lanes(context, queue, incomplete) if queue else []


def job_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete a job id of the queue typed before, in the states the command takes."""
    queue = _queue(context)
    return _job_ids(context, queue, incomplete, _typed(context, parameter)) if queue else []


def queue_and_job_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete ``[QUEUE] ID...``."""
    match _typed(context, parameter):
        case [queue, *typed]:
            return _job_ids(context, queue, incomplete, typed)
    return _queue_names(context, incomplete)


def key_words(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete ``QUEUE TYPE [ID [SUB]]``."""
    if context.params.get("parse"):
        return []
    match _typed(context, parameter):
        case []:
            return _queue_names(context, incomplete)
        case [_]:
            return words(dict.fromkeys((*keyspace.FIXED, *keyspace.NAMED)), incomplete)
        case [queue, "job"]:
            return _job_ids(context, queue, incomplete)
        case [queue, "lane"]:
            return _lanes(context, queue, incomplete)
        case [_, "job", _]:
            return words(keyspace.JOB_SUBS, incomplete)
        case [_, "stream", _]:
            return words(["archived"], incomplete)
    return []


def reserve_units(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete a unit of the reserve: ``migration:`` with a queue after it."""
    del parameter
    head, colon, queue = incomplete.partition(":")
    if colon:
        return [CompletionItem(f"{head}:{item.value}") for item in _queue_names(context, queue)]
    return words([unit.removesuffix("QUEUE") for unit in keyspace.RESERVE_UNITS], incomplete)


def columns(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete the last of some comma-separated columns of the command."""
    del parameter
    before, comma, last = incomplete.rpartition(",")
    possible = getattr(context.command, "columns", ())
    left = [name for name in possible if name not in before.split(",")]
    return [CompletionItem(f"{before}{comma}{item.value}") for item in words(left if comma else ["all", *left], last)]


def changes(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete the name of a command that changes something."""
    del context, parameter
    from emqctl.cli.root import GROUPS

    return words([*GROUPS["Change"], *GROUPS["Control"]], incomplete)


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Let the shell complete the name of a file."""
    del context, parameter
    return [CompletionItem(incomplete, type="file")]


def command_line(context: click.Context, parameter: click.Parameter, incomplete: str) -> Items:
    """Complete a command line of emqctl inside another; its server is not there yet."""
    from emqctl.cli.root import group

    typing = context.find_object(Typing)
    inside = {"obj": typing and replace(typing, ends_at=-math.inf)}
    return ShellComplete(group, inside, "emqctl", "").get_completions(_typed(context, parameter), incomplete)


def words(known: Iterable[str], incomplete: str) -> Items:
    """Complete one of some words."""
    return [CompletionItem(word) for word in known if word.startswith(incomplete)]


def _queue(context: click.Context) -> str | None:
    """Return the queue that was typed, the first of several."""
    # before an option that lacks its value yet, Click leaves the words unassigned
    typed = [context.params.get("queue"), *(context.params.get("queues") or ()), *context.args]
    return next(filter(None, typed), None)


def _typed(context: click.Context, parameter: click.Parameter) -> list[str]:
    """Return the words that a parameter for several has already."""
    value = context.params.get(str(parameter.name)) if parameter.nargs == -1 else None
    return list(value or ())


def _queue_names(context: click.Context, incomplete: str, typed: Collection[str] = ()) -> Items:
    def look(server: Server) -> Iterator[CompletionItem[str]]:
        from emqctl.presence import SCAN_LIMIT, key_pages

        seen: set[str | None] = {None, *typed}
        for page in key_pages(server, keyspace.EVERY_QUEUE_KEY, SCAN_LIMIT):
            names = {keyspace.queue_of(key) for key in page} - seen
            seen |= names
            yield from (CompletionItem(str(name)) for name in names)

    return sorted(_live(context, incomplete, look), key=lambda item: item.value)


def _lanes(context: click.Context, queue: str, incomplete: str) -> Items:
    def look(server: Server) -> Iterator[CompletionItem[str]]:
        from emqctl.lanes import first_pages, known_lanes

        keys = QueueKeys(queue)
        found = known_lanes(server, keys, server.ask(*first_pages(keys)))
        yield from (CompletionItem(str(lane)) for lane in found)

    return _live(context, incomplete, look)


def _job_ids(context: click.Context, queue: str, incomplete: str, typed: Collection[str] = ()) -> Items:
    from emqctl import listing

    command = str(context.command.name)
    state = context.params.get("state")
    states = (state,) if state else STATES.get(command, listing.STATES)

    def look(server: Server) -> Iterator[CompletionItem[str]]:
        for state in states:
            for job in _jobs(server, queue, state, incomplete):
                word = keyspace.decode(job.id)
                if job.minted and word not in typed and (job.lapsed or command != "reap"):
                    yield CompletionItem(word, help=f"{state}, made {times.relative(job.minted, server.now_ms())}")

    return _live(context, incomplete, look)


def _jobs(server: Server, queue: str, state: str, incomplete: str) -> Iterator[BrowsedJob]:
    """Yield jobs whose ids begin so: the newest, or of sets that sort by time some of the next."""
    from emqctl.listing import Request, browse
    from emqctl.queues import Queue
    from emqctl.selection import Filters
    from emqctl.window import MintBounds

    last = keyspace.encode(incomplete.ljust(branded.LENGTH, "z"))
    bounds, limit = MintBounds(), NEXT
    if state in {"pending", "dead"}:
        bounds, limit = MintBounds(before=branded.parse(last) if branded.is_branded(last) else None), NEWEST
    yield from browse(Queue(server, queue), Request(state, limit, Filters(bounds)))


def _live(context: click.Context, incomplete: str, look: Callable[[Server], Iterable[CompletionItem[str]]]) -> Items:
    """Return what a look at the server finds in the time there is."""
    typing = context.find_object(Typing)
    found: Items = []
    connected = Event()

    def ask(session: Session) -> None:
        try:
            with suppress(Exception), _connect(session) as server:
                connected.set()
                found.extend(item for item in look(server) if _fits(item.value, incomplete))
        finally:
            connected.set()

    if typing is not None and typing.left_s > 0:
        asking = Thread(target=ask, args=(typing,), daemon=True)  # a look-up of a host name cannot be interrupted
        asking.start()
        connected.wait(typing.left_s)
        asking.join(max(0.0, min(SERVER_S, typing.left_s)))
    return found.copy()


def _connect(session: Session) -> AbstractContextManager[Server]:
    from emqctl.connection import connect

    settings = config.decide(session.choices, session.environment.variables, _never, session.note)
    return connect(replace(settings, timeout_s=min(settings.timeout_s, SERVER_S)), session.note)


def _never(question: str) -> str:
    raise Refused(question)


def _fits(word: str, incomplete: str) -> bool:
    return word.startswith(incomplete) and _TYPABLE.fullmatch(word) is not None
