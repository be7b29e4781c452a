"""``emqctl key``."""

from __future__ import annotations

import click

from emqctl import keyspace
from emqctl.cli import complete
from emqctl.cli.options import Command, pass_session, stdin_lines
from emqctl.cli.session import Session
from emqctl.errors import BadUsage
from emqctl.keyspace import KeyName


@click.command(
    "key",
    cls=Command,
    record=KeyName,
    short_help="Print a key, or take keys apart.",
    examples=(
        "emqctl key orders pending",
        "emqctl key orders job JOB0Nb1VTbfnu4 logs",
        "emqctl key --parse 'emq:{orders}:g:TEN0IlTd9mDCbY:pending'",
    ),
)
@click.argument("words", nargs=-1, metavar="QUEUE TYPE [ID [SUB]]", shell_complete=complete.key_words)
@click.option(
    "--reserve",
    metavar="UNIT",
    shell_complete=complete.reserve_units,
    help=f"A key of no queue: {' '.join(keyspace.RESERVE_UNITS)}.",
)
@click.option("--parse", is_flag=True, help="Take the keys given, or those on stdin (-), apart.")
@pass_session
def command(session: Session, /, words: tuple[str, ...], reserve: str | None, *, parse: bool) -> None:
    """Print the Redis key of a part of a queue, or take keys apart. Asks no server.

    TYPE is one of pending active schedule dead ring paused gactive glimit gweight wake meta limiter
    repeat metrics:completed metrics:failed metrics:completed:data metrics:failed:data flow:outbox
    events; or with a name after it: job ID [lock|logs|dependencies|processed|failed|unsuccessful],
    lane GROUP, dedup DID, repeat NAME, stream NAME [archived].
    """
    if parse:
        if reserve is not None or not words:
            raise BadUsage("--parse takes keys, or - for stdin, and no --reserve", hint="see emqctl key --help")
        keys = stdin_lines(session, words)
        session.emit(map(keyspace.parse, keys), KeyName, single=len(words) == 1 and words != ("-",))
        return
    session.emit([keyspace.parse(_built(words, reserve))], KeyName, bare="key")


def _built(words: tuple[str, ...], reserve: str | None) -> bytes:
    if reserve is not None:
        if words:
            raise BadUsage("--reserve takes no QUEUE: those keys belong to none")
        return keyspace.build_reserve(reserve)
    if not 2 <= len(words) <= 4:  # noqa: PLR2004 # QUEUE TYPE [ID [SUB]]
        raise BadUsage("a key is named by QUEUE TYPE [ID [SUB]]", hint="see emqctl key --help")
    return keyspace.build(*words)
