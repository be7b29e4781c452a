"""Options every command takes, before or after the subcommand, and the types of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar, cast

import click

from emqctl import branded, keyspace, times
from emqctl.cli import complete
from emqctl.cli.session import Session
from emqctl.config import DEFAULT_TIMEOUT
from emqctl.endpoint import DEFAULT_URL
from emqctl.errors import BadUsage, Malformed, quoted
from emqctl.records import columns_of
from emqctl.render import FORMATS
from emqctl.render.cells import TIME_STYLES
from emqctl.window import MintBounds

Function = TypeVar("Function", bound=Callable[..., Any])

pass_session = click.make_pass_decorator(Session)


class CommonOption(click.Option):
    """An option of the connection or the output: shown on the root's help page alone, but for ``-o``."""

    @property
    def is_everywhere(self) -> bool:
        """Whether each command's own help page lists it."""
        return self.name == "output"


def _session(context: click.Context) -> Session:
    session = context.find_object(Session)
    assert session is not None, "the root made one"  # noqa: S101
    return session


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None:
        _session(context).choose(str(parameter.name), value)


def _common(*names: str, **attributes: Any) -> CommonOption:
    return CommonOption(names, expose_value=False, callback=_remember, **attributes)


def common_options() -> list[click.Parameter]:
    """Return the options of connection and output, for one command."""
    return [
        _common("-u", "--url", metavar="URL", help=f"Server and database.  [EMQCTL_URL; default: {DEFAULT_URL}]"),
        _common(
            "--password-file",
            metavar="FILE",
            shell_complete=complete.files,
            help="Read the password from a file.  [else EMQCTL_PASSWORD]",
        ),
        _common("--askpass", is_flag=True, default=None, help="Ask for the password at the terminal."),
        _common(
            "--request-timeout",
            metavar="DURATION",
            help=f"For connecting and for each reply.  [EMQCTL_REQUEST_TIMEOUT; default: {DEFAULT_TIMEOUT}]",
        ),
        _common("--read-only", is_flag=True, default=None, help="Refuse whatever would write.  [EMQCTL_READ_ONLY=1]"),
        _common(
            "-o",
            "--output",
            type=click.Choice(list(FORMATS)),
            help="Output format: table at a terminal, else plain.  [EMQCTL_OUTPUT]",
        ),
        _common(
            "--columns",
            metavar="A,B,C|all",
            shell_complete=complete.columns,
            help="Fields and their order in table, plain and csv.",
        ),
        _common("--time", type=click.Choice(list(TIME_STYLES)), help="Times in table and plain.  [EMQCTL_TIME]"),
        _common("--color", type=click.Choice(["auto", "always", "never"]), help="Beats NO_COLOR and FORCE_COLOR."),
        _common("-q", "--quiet", is_flag=True, default=None, help="No notes on stderr."),
        _common(
            "-v", "--verbose", is_flag=True, default=None, help="Notes on commands and round trips.  [EMQCTL_VERBOSE=1]"
        ),
    ]


class Command(click.Command):
    """A subcommand: takes the common options, and lists its own on its help page.

    ``record`` is the type of what it prints, ``columns`` are those of its fields there are, all unless given,
    ``always`` those that every output has, all columns unless given.
    """

    def __init__(
        self,
        name: str | None,
        *,
        examples: tuple[str, ...] = (),
        record: Any = None,
        columns: Sequence[str] = (),
        always: Sequence[str] = (),
        **attributes: Any,
    ) -> None:
        settings = {"help_option_names": ["-h", "--help"], **attributes.pop("context_settings", {})}
        super().__init__(name, context_settings=settings, **attributes)
        self.params.extend(common_options())
        self.examples = examples
        self.record = record
        self.columns = tuple(columns) or (columns_of(record) if record else ())
        self.always = tuple(always) or self.columns

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command in the session, which names the schema of its output and checks what it is to show."""
        session = _session(ctx)
        session.command = str(self.name)
        session.check_output(self.columns)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the command's own options and ``-o``, then say where the others are."""
        hidden = [each for each in self.params if isinstance(each, CommonOption) and not each.is_everywhere]
        for each in hidden:
            each.hidden = True
        super().format_options(ctx, formatter)
        for each in hidden:
            each.hidden = False
        formatter.write_paragraph()
        formatter.write_text("Connection and output options: emqctl --help")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the examples."""
        del ctx
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {example}\n" for example in self.examples))


class Parsed(click.ParamType[Any]):
    """A value read by a function of the core, whose errors say what is wrong; ``completer`` knows such values."""

    def __init__(self, name: str, parse: Callable[[str], Any], completer: complete.Completer | None = None) -> None:
        self.name = name
        self._parse = parse
        self.completer = completer

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> complete.Items:
        """Return what a value that is being typed may become."""
        return self.completer(ctx, param, incomplete) if self.completer else []

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read text; pass what was read already. Raises Malformed."""
        del param, ctx
        return self._parse(value) if isinstance(value, str) else value


_QUEUE = Parsed("queue", keyspace.check_queue, complete.queue_names)
JOB_ID = Parsed("job id", branded.parse_job, complete.job_ids)
ID = Parsed("id", branded.parse, complete.lanes)
TIME = Parsed("time", times.parse_instant)


def _limit(text: str) -> int:
    if not re.fullmatch(r"[0-9]+", text):
        raise Malformed("a limit", text, "it is a number, 0 for all")
    return int(text[:18])  # more than any set holds


LIMIT = Parsed("number", _limit)


def options(*decorators: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Apply several option decorators as one, in the order they read."""

    def decorate(function: Function) -> Function:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def queue_argument(name: str = "queue", **attributes: Any) -> Callable[[Function], Function]:
    """Return the argument for a queue name, or for several; a name outside the documented grammar gets a note."""
    several = {"metavar": "[QUEUE]..."} if attributes.get("nargs") == -1 else {}
    return click.argument(name, type=_QUEUE, callback=_note_odd_names, **{**several, **attributes})


def _note_odd_names(context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
    for name in (value,) if isinstance(value, str) else value or ():
        if not keyspace.in_grammar(name):
            _session(context).note(
                f"queue name {quoted(name)} is outside the documented grammar [A-Za-z0-9._-]{{1,128}}"
            )
    return value


def _pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(keyspace.encode(text))
    except re.error as error:
        raise Malformed("a regular expression", text, str(error)) from error


def _group_name(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{8}", text):
        raise Malformed("an error group", text, "it is 8 hex digits, as 'emqctl errors' prints them")
    return text


_BYTES = Parsed("text", keyspace.encode)


def mint_bounds(function: Function) -> Function:
    """Add the bounds on mint time; the command receives them as ``bounds``."""

    @wraps(function)
    def gathered(*arguments: Any, **given: Any) -> Any:
        bounds = MintBounds(*(given.pop(name) for name in ("since", "until", "after", "before")))
        return function(*arguments, bounds=bounds, **given)

    return _BOUNDS(cast("Function", gathered))


def job_filters(function: Function) -> Function:
    """Add the filters that choose jobs; the command receives them as ``filters``."""

    @wraps(function)
    def gathered(*arguments: Any, bounds: MintBounds, **given: Any) -> Any:
        from emqctl.selection import Filters

        chosen = {each.name: given.pop(each.name) for each in fields(Filters) if each.name != "bounds"}
        if chosen["flat"] and chosen["lane"]:
            raise BadUsage("--flat and --lane exclude each other")
        return function(*arguments, filters=Filters(bounds, **chosen), **given)

    return options(mint_bounds, _FILTERS)(cast("Function", gathered))


_BOUNDS = options(
    click.option("--since", type=TIME, metavar="TIME", help="Minted at or after: 2h, 2026-11-30, RFC 3339."),
    click.option("--until", type=TIME, metavar="TIME", help="Minted before."),
    click.option("--after", type=JOB_ID, metavar="ID", help="Minted after that job."),
    click.option("--before", type=JOB_ID, metavar="ID", help="Minted before that job."),
)
_FILTERS = options(
    click.option("--lane", type=ID, metavar="GROUP", help="Only jobs of this lane."),
    click.option("--flat", is_flag=True, help="Only jobs without a lane."),
    click.option("--error", type=_BYTES, metavar="TEXT", help="The error contains TEXT."),
    click.option("--error-re", type=Parsed("regex", _pattern), metavar="REGEX", help="The error matches REGEX."),
    click.option(
        "--error-group", type=Parsed("group", _group_name), metavar="HEX", help="As 'emqctl errors' names it."
    ),
    click.option("--grep", type=_BYTES, metavar="TEXT", help="The payload contains TEXT."),
    click.option("--attempts-min", type=click.IntRange(min=0), metavar="N", help="With N or more attempts."),
)


def stdin_lines(session: Session, words: Sequence[str]) -> list[bytes]:
    """Return words as bytes; the one word ``-`` stands for the lines of stdin, blank ones left out."""
    if tuple(words) != ("-",):
        return [keyspace.encode(word) for word in words]
    stdin = session.environment.stdin
    return [] if stdin is None else [line for line in stdin.buffer.read().splitlines() if line]
