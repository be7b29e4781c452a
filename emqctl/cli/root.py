"""The command tree, and the one place where errors become exit codes."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import chain

import click

from emqctl.cli import exit_codes, signals
from emqctl.cli.environment import forget
from emqctl.cli.lazy import LazyCommands
from emqctl.cli.options import common_options
from emqctl.cli.session import Session
from emqctl.errors import BadUsage, EmqError, Interrupted, OutputFault

#: Every command, by what it is for: a name here, and a module ``emqctl.cli.NAME``.
GROUPS = {
    "Look": ("browse", "depth", "queues", "lanes", "errors", "inspect", "doctor", "ping"),
    "Change": ("requeue", "bury", "reap", "promote", "move", "remove", "edit"),
    "Control": ("pause", "resume", "tune", "obliterate"),
    "Keys and ids, without a server": ("key", "slot", "id"),
    "Set-up": ("journal", "demo", "completion", "schema"),
}
COMMANDS = tuple(chain.from_iterable(GROUPS.values()))

#: Of each group, what to try first; the tour names the other commands after these.
TOUR = {
    "Look": (
        ("depth", "how many jobs wait in each queue"),
        ("browse orders -n 20", "the twenty newest waiting jobs"),
        ("errors orders", "what the dead ones died of"),
        ("browse orders --state dead", "the newest of them"),
        ("inspect orders ID", "everything about one job"),
        ("doctor", "what is broken or stuck, and the repair"),
    ),
    "Change": (
        ("requeue orders --all --dry-run", "which dead jobs would come back"),
        ("requeue orders --all", "bring them back; asks first"),
    ),
    "Control": (("pause orders", "start no more jobs"), ("resume orders", "go on")),
    "Keys and ids, without a server": (("key orders pending", "the Redis key of a part of a queue"),),
    "Set-up": (
        ("demo", "a throw-away server with a sample world"),
        ("journal", "what was changed from here"),
    ),
}


#: What people type by habit of other tools, and what to type instead.
HABITS = {
    "-p": "the port belongs in --url redis://HOST:PORT/DB",
    "drain": "'pause' lets what runs finish; 'remove --state pending --all' deletes the backlog",
}


_OF_OUTPUT = {errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EBADF}  # what writing help texts can meet


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
        forget(session.environment.stdout)
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
        if isinstance(error, OutputFault):
            forget(session.environment.stdout)
        return session.fail(error)
    except (click.Abort, EOFError, KeyboardInterrupt):
        return exit_codes.SIGNALLED + 2
    return code


def _invoke(words: Sequence[str], session: Session) -> int:
    try:
        with group.make_context("emqctl", list(words), obj=session) as context:
            group.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno not in _OF_OUTPUT:
            raise
        raise OutputFault(error) from error
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


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 # Click's
    if wanted and not context.resilient_parsing:  # a completion only reads
        from importlib.metadata import version

        click.echo(f"emqctl {version('emqctl')}")
        context.exit()


@click.pass_context
def _tour(context: click.Context) -> None:
    """Operate EchoMQ job queues on Redis and Valkey."""
    if context.invoked_subcommand is None:
        click.echo(tour(), nl=False)


def tour() -> str:
    """Return what a newcomer is shown: of each group a few lines to try, and the names of the other commands."""
    lines = ["emqctl: look at EchoMQ job queues, bring jobs back, control what runs.", ""]
    for title, names in GROUPS.items():
        lines += [title, *(f"  emqctl {line:<32}{what}" for line, what in TOUR[title])]
        others = set(names) - {line.split()[0] for line, _ in TOUR[title]}
        lines += [f"  also: {' '.join(name for name in names if name in others)}"] if others else []
    lines += [
        "",
        "Name the server with --url redis://HOST:PORT/DB or EMQCTL_URL.",
        "One command: emqctl COMMAND --help. All commands and options: emqctl --help.",
    ]
    return "".join(f"{line}\n" for line in lines)


class Root(click.Group):
    """The group of all commands: lists them by what they are for, and what the exit codes mean."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, those of each group together."""
        del ctx
        longest = max(map(len, self.commands))
        for title, names in GROUPS.items():
            with formatter.section(title):
                rows = [(name.ljust(longest), str(self.commands[name].short_help)) for name in names]
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Tell what the exit codes mean."""
        del ctx
        with formatter.section("Exit codes"):
            formatter.write_dl(list(exit_codes.MEANINGS.items()))


group = Root(
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
