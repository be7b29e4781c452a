"""One run of emqctl: its options as they were given, its server, and everything it prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from emqctl import config
from emqctl.cli.environment import Environment, forget
from emqctl.cli.exit_codes import DONE, code_and_kind
from emqctl.cli.progress import Progress
from emqctl.cli.signals import Shield
from emqctl.errors import BadUsage, EmqError, Interrupted, Malformed, OutputFault, Refused
from emqctl.records import columns_of
from emqctl.render import FORMATS, write
from emqctl.render.cells import TIME_STYLES, printable
from emqctl.render.layout import Layout

if TYPE_CHECKING:  # what only a run with a server pays for
    from emqctl.cli.pen import Pen
    from emqctl.connection import Server

JSON_FORMATS = ("json", "jsonl")


@dataclass
class Session:
    """Options given before and after the subcommand, the nearer one winning, and what follows from them."""

    environment: Environment
    choices: config.Choices = field(default_factory=config.Choices)
    output: str | None = None
    columns: str | None = None
    time: str | None = None
    color: str = "auto"
    quiet: bool = False
    verbose: bool = False
    pinned: bool = False  # to the server of a demo
    command: str = ""
    exit_code: int = DONE
    shield: Shield = field(init=False)
    progress: Progress = field(init=False)

    def __post_init__(self) -> None:
        self.progress = Progress(self.environment.stderr)
        self.shield = Shield(lambda: forget(self.environment.stdout))

    def choose(self, name: str, value: Any) -> None:
        """Remember an option of the connection or of the output."""
        of_connection = {each.name for each in fields(config.Choices)}
        if self.pinned and name in of_connection - {"request_timeout", "read_only"}:
            raise BadUsage(f"--{name.replace('_', '-')} in a demo: it has a server of its own")
        if name in of_connection:
            self.choices = replace(self.choices, **{name: value})
        else:
            setattr(self, name, value)

    @property
    def output_format(self) -> str:
        """The format of this run: a flag, a variable, else by what stdout is."""
        chosen = self.output or self._variable("EMQCTL_OUTPUT", FORMATS)
        if chosen:
            return chosen
        stdout = self.environment.stdout
        return "table" if stdout is not None and stdout.isatty() else "plain"

    @property
    def chose_output(self) -> bool:
        """Whether a format was named, by option or variable."""
        return bool(self.output or self._variable("EMQCTL_OUTPUT", FORMATS))

    @cached_property
    def settings(self) -> config.Settings:
        """Where to connect and how; decided once, when it is first asked for."""
        return config.decide(self.choices, self.environment.variables, self._ask_password, self.note)

    @contextmanager
    def server(self) -> Iterator[Server]:
        """Yield the server of this run; the connection is made by the first command sent."""
        from emqctl.connection import connect

        settings, is_verbose = self.settings, self.is_verbose
        with connect(settings, self.note) as server:
            yield server
            if is_verbose:
                self.note(f"{settings.endpoint}: {server.commands} commands in {server.round_trips} round trips")

    def emit(
        self,
        records: Iterable[Any],
        record_type: type,
        *,
        columns: Sequence[str] | None = None,
        shown: Sequence[str] | None = None,
        bare: str | None = None,
        single: bool = False,
        more: Callable[[], bool] = lambda: False,
        empty: str | None = "nothing found",
        clock: Callable[[], int] = lambda: 0,
    ) -> None:
        """Print records in the format of this run.

        ``columns`` are the fields there are (default: all of the type), ``shown`` those of table and
        plain where nothing was chosen, ``bare`` the one field that is printed alone there; ``empty`` is
        said at a terminal in place of a table without rows.
        """
        output_format = self.output_format
        possible = tuple(columns or columns_of(record_type))
        for_people = output_format in {"table", "plain"}
        chosen = self._chosen_columns(possible) if for_people or output_format == "csv" else None
        by_default = ((bare,) if bare else tuple(shown or possible)) if for_people else possible
        layout = Layout(
            schema=f"emqctl/{self.command}/1",
            fields=chosen or by_default,
            chosen=chosen is not None,
            time_style=self._time_style(output_format),
            color=self.environment.wants_color(self.color),
            now_ms=clock,
            describe=error_body,
            bare=bare is not None and chosen is None,
            single=single,
            more=more,
        )
        out, counted = self.environment.output(), _Counted(records)
        write(counted, output_format, out, layout)
        if empty and not counted.number and output_format == "table" and out.is_terminal:
            self.note(empty)

    def open_journal(self, queue: str, *, lane: str | None = None, note: str | None = None) -> Pen:
        """Return the pen for the changes this command makes to a queue."""
        from emqctl.cli.pen import Pen

        about = {"command": self.command, "queue": queue, "lane": lane, "note": note}
        about["server"] = str(self.settings.endpoint)
        return Pen(self.environment.variables, self.note, about)

    def check_output(self, columns: Sequence[str]) -> None:
        """Raise, before anything is sent, for a format, a time style or a column there is not."""
        if columns:
            self._time_style(self.output_format)
            self._chosen_columns(columns)

    def note(self, text: str) -> None:
        """Print a note for the operator on stderr, unless quiet."""
        if not self.quiet:
            self.say(text)

    def ask(self, question: str) -> str:
        """Print a question on stderr and return the line that is typed at it; end of input is no answer."""
        self.flush()
        stderr, stdin = self.environment.stderr, self.environment.stdin
        if stderr is None or stdin is None:
            return ""
        stderr.write("\n".join(map(printable, question.split("\n"))))
        stderr.flush()
        return stdin.readline().strip()

    def say(self, text: str) -> None:
        """Print on stderr what the operator cannot do without."""
        self._to_stderr({"note": printable(text)}, f"note: {text}")

    def fail(self, error: EmqError | Interrupted) -> int:
        """Print an error on stderr, unless it is the operator's own signal, and return its exit code."""
        body = error_body(error)
        if isinstance(error, Interrupted):
            return int(body["code"])
        hint = f"\nhint: {printable(error.hint)}" if error.hint else ""
        text = f"emqctl: {printable(str(error))}{hint}"
        as_text = isinstance(error, Malformed | BadUsage)  # usage errors are always text
        self._to_stderr(None if as_text else {"error": body}, text)
        return int(body["code"])

    def flush(self) -> None:
        """Hand everything printed so far to the operating system."""
        try:
            if self.environment.stdout is not None:
                self.environment.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputFault(error) from error

    @property
    def is_verbose(self) -> bool:
        """Whether details were asked for."""
        return self.verbose or config.is_on(self.environment.variables, "EMQCTL_VERBOSE")

    def _to_stderr(self, body: dict[str, Any] | None, text: str) -> None:
        stderr = self.environment.stderr
        if stderr is None:
            return
        with suppress(OSError, OutputFault):  # whoever writes to stdout next learns of it
            self.flush()
        self.progress.clear()
        encoding = stderr.encoding or "utf-8"
        as_json = body is not None and self._writes_json
        lines = [json.dumps(body)] if as_json else [printable(line, encoding) for line in text.split("\n")]
        try:
            stderr.write("\n".join(lines) + "\n")
            stderr.flush()
        except OSError:  # what nobody can read changes no result
            forget(stderr)

    @property
    def _writes_json(self) -> bool:
        return (self.output or self.environment.variables.get("EMQCTL_OUTPUT")) in JSON_FORMATS

    def _chosen_columns(self, possible: Sequence[str]) -> tuple[str, ...] | None:
        if self.columns is None or self.columns == "all":
            return None if self.columns is None else tuple(possible)
        names = tuple(name.strip() for name in self.columns.split(","))
        for name in names:
            if name not in possible:
                raise Malformed(f"a column of {self.command}", name, f"known are {' '.join(possible)}")
        return names

    def _time_style(self, output_format: str) -> str:
        by_default = "relative" if output_format == "table" else "iso"
        return self.time or self._variable("EMQCTL_TIME", TIME_STYLES) or by_default

    def _variable(self, name: str, accepted: Iterable[str]) -> str | None:
        value = self.environment.variables.get(name) or None
        if value is not None and value not in accepted:
            raise BadUsage(f"{name} is {value!r}", hint=f"accepted are {' '.join(accepted)}")
        return value

    def _ask_password(self, prompt: str) -> str:
        from getpass import getpass

        try:
            terminal = open("/dev/tty", encoding="utf-8")  # noqa: SIM115, PTH123 # only to see that there is one
        except OSError as error:
            raise Refused("--askpass needs a terminal", hint="use --password-file FILE") from error
        terminal.close()
        return getpass(printable(prompt))


class _Counted:
    """An iterable that knows how many it has given."""

    def __init__(self, records: Iterable[Any]) -> None:
        self._records = records
        self.number = 0

    def __iter__(self) -> Iterator[Any]:
        for record in self._records:
            self.number += 1
            yield record


def error_body(error: BaseException) -> dict[str, Any]:
    """Return an error as JSON shows it."""
    if not isinstance(error, EmqError | Interrupted):
        raise TypeError(error)
    code, kind = code_and_kind(error)
    if isinstance(error, Interrupted):
        return {"code": code, "kind": kind, "message": f"ended by signal {error.signum}", "hint": None}
    return {"code": code, "kind": kind, "message": printable(str(error)), "hint": error.hint}
