"""Everything that can go wrong for a reason an operator can act on.

Errors hold fields; ``str()`` makes the sentence, ``hint`` says the way out.
What escapes as any other exception is a bug of emqctl.
"""

from __future__ import annotations

import re


class EmqError(Exception):
    """Base of all errors of emqctl; ``hint`` is one line, or None."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def brief(self) -> str:
        """What a cell of a table has room for."""
        return str(self)


def quoted(text: str) -> str:
    r"""Return text as a message names it: in quotes, odd characters escaped, bytes that are no UTF-8 as ``\xNN``."""
    return re.sub(r"\\udc([89a-f][0-9a-f])", r"\\x\1", repr(text))


class Malformed(EmqError, ValueError):
    """A name, id, time or URL that is not well-formed; nothing was sent to a server.

    ``what`` is the kind of thing, ``value`` the text as given, ``why`` the rule it breaks.
    """

    def __init__(self, what: str, value: str, why: str, *, hint: str | None = None) -> None:
        super().__init__(f"{quoted(value)} is not {what}: {why}", hint=hint)
        self.what, self.value, self.why = what, value, why

    @property
    def brief(self) -> str:
        """The text as given."""
        return quoted(self.value)


class BadUsage(EmqError):
    """Options or settings that do not go together."""


class LocalFault(EmqError):
    """This machine's fault: an output that is full, a file that cannot be read, no server program."""


class OutputFault(LocalFault):
    """Standard output takes nothing more: it is full, closed, or was never there."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"cannot write to standard output: {cause.strerror or cause}")


class NotFound(EmqError):
    """No such queue, job or lane, or no EchoMQ deployment in that database."""


class Refused(EmqError):
    """The thing is in a state in which this is not done."""


class WrongType(Refused):
    """A key holds another Redis type than the protocol says."""

    def __init__(self, key: str, found: str, expected: str) -> None:
        super().__init__(f"{key} is a {found}, not a {expected}")
        self.key, self.found, self.expected = key, found, expected

    @property
    def brief(self) -> str:
        """The two types."""
        return f"{self.found}, not {self.expected}"


class BadValue(Refused):
    """A value in the database is not what the protocol says it is."""

    SHOWN = 40  # characters

    def __init__(self, what: str, value: str, why: str) -> None:
        shown = repr(value if len(value) <= self.SHOWN else value[: self.SHOWN] + "…")
        super().__init__(f"{what} is {shown}: {why}")
        self.shown = shown

    @property
    def brief(self) -> str:
        """The value."""
        return self.shown


class Unreachable(EmqError):
    """The server cannot be reached, does not answer in time, or cannot serve now."""


class NoAnswer(Unreachable):
    """A command was sent and its answer never came: it may or may not have been carried out."""


class WrongVersion(EmqError):
    """The deployment speaks a wire version this tool does not know."""


class Denied(EmqError):
    """The server refused the user, the password, or a command of this user."""

    @property
    def brief(self) -> str:
        """One word; the sentence is in the machine formats."""
        return "denied"


class Interrupted(BaseException):
    """A signal asks the run to end; raised where nothing is left half done."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum
