"""The command tree, and the one place where errors become exit codes."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

import click

from emqctl.cli import exit_codes, signals
from emqctl.cli.lazy import LazyCommands
from emqctl.cli.options import common_options
from emqctl.cli.session import Session
from emqctl.errors import BadUsage, EmqError, Interrupted, LocalFault

COMMANDS = (
    *("browse", "depth", "inspect"),
    *("requeue", "bury", "reap", "promote", "move", "remove", "edit"),
    *("pause", "resume", "tune"),
    *("key", "slot", "id"),
    *("journal", "demo"),
)

TOUR = """\
emqctl: look at EchoMQ job queues, bring jobs back, control what runs.

Look
  emqctl depth                     how many jobs wait in each queue
  emqctl browse orders -n 20       the twenty newest waiting jobs
  emqctl browse orders --state dead --since 2h
  emqctl inspect orders ID         everything about one job
Change
  emqctl requeue orders --all      bring dead jobs back (asks first; --dry-run only shows)
  emqctl bury | reap | promote | move | remove | edit
Control
  emqctl pause orders              and resume, tune
Keys and ids, without a server
  emqctl key orders pending        also slot, id
Set-up
  emqctl demo                      a throw-away server with a sample world
  emqctl journal                   what was changed from here

Name the server with --url redis://HOST:PORT/DB or EMQCTL_URL.
One command: emqctl COMMAND --help. All commands and options: emqctl --help.
"""


#: What people type by habit of other tools, and what to type instead.
HABITS = {
    "-p": "the port belongs in --url redis://HOST:PORT/DB",
    "drain": "'pause' lets what runs finish; 'remove --state pending --all' deletes the backlog",
}


def run(words: Sequence[str], session: Session) -> int:
    """Run one command line in a session; return its exit code, everything printed and flushed.

    The one place where errors become messages and exit codes. Any other exception is a bug and passes.
    """
    try:
        with signals.raised(session.shield):
            return _guarded(words, session)
    except Interrupted as error:
        return session.fail(error)
    except BrokenPipeError:
        _forget_stdout()
        return exit_codes.READER_GONE


def _guarded(words: Sequence[str], session: Session) -> int:
    try:
        code = _invoke(words, session)
        session.flush()
    except Interrupted:
        session.flush()
        raise
    except click.UsageError as error:
        return session.fail(_usage(error))
    except EmqError as error:
        return session.fail(error)
    except (click.Abort, EOFError, KeyboardInterrupt):
        return exit_codes.SIGNALLED + 2
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG}:
            raise
        _forget_stdout()
        return session.fail(LocalFault(f"cannot write to standard output: {os.strerror(error.errno)}"))
    return code


def _invoke(words: Sequence[str], session: Session) -> int:
    try:
        with group.make_context("emqctl", list(words), obj=session) as context:
            group.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return session.exit_code


def _usage(error: click.UsageError) -> BadUsage:
    path = error.ctx.command_path if error.ctx else "emqctl"
    message = " ".join(error.format_message().split()).rstrip(".")
    typed = getattr(error, "option_name", None) or getattr(error, "command_name", None)
    hint = HABITS.get(str(typed), f"see {path} --help")
    command = path.removeprefix("emqctl").strip()
    return BadUsage(f"{command}: {_uncapitalised(message)}" if command else _uncapitalised(message), hint=hint)


def _uncapitalised(message: str) -> str:
    return message[:1].lower() + message[1:]


def _forget_stdout() -> None:
    """Point stdout elsewhere, so that the interpreter's last flush finds nothing to complain about."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 # Click's
    if wanted:
        from importlib.metadata import version

        click.echo(f"emqctl {version('emqctl')}")
        context.exit()


@click.pass_context
def _tour(context: click.Context) -> None:
    """Operate EchoMQ job queues on Redis and Valkey."""
    if context.invoked_subcommand is None:
        click.echo(TOUR, nl=False)


group = click.Group(
    name="emqctl",
    commands=LazyCommands({name: f"emqctl.cli.{name}" for name in COMMANDS}),
    callback=_tour,
    help="Operate EchoMQ job queues on Redis and Valkey.",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        *common_options(),
        click.Option(
            ["-V", "--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_print_version,
            help="Print the version.",
        ),
    ],
)
