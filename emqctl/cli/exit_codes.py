"""Exit codes: the one table."""

from __future__ import annotations

from emqctl.errors import (
    BadUsage,
    Denied,
    EmqError,
    Interrupted,
    LocalFault,
    Malformed,
    NotFound,
    Refused,
    Unreachable,
    WrongVersion,
)

DONE = 0  # also: nothing matched
FAULT = 1  # a bug, or this machine's fault
USAGE = 2
PARTLY = 3  # a batch or a listing of several was done in part
MISSING = 4  # no such queue, job or lane
REFUSED = 5  # wrong state, locked, read-only, not confirmed
NO = 9  # asked, and the answer is no
READER_GONE = 141  # 128 + SIGPIPE
SIGNALLED = 128  # plus the signal's number

#: Exit code and name in JSON of each class of errors; the nearest class of an error counts.
EXIT_CODES: dict[type[EmqError], tuple[int, str]] = {
    LocalFault: (FAULT, "local-fault"),
    Malformed: (USAGE, "malformed"),
    BadUsage: (USAGE, "usage"),
    NotFound: (MISSING, "not-found"),
    Refused: (REFUSED, "refused"),
    Unreachable: (6, "unreachable"),
    WrongVersion: (7, "wrong-version"),
    Denied: (8, "denied"),
}

#: What each code tells, as help, manual and README say it.
MEANINGS = {
    "0": "done; also: nothing matched",
    "1": "a bug (traceback), or this machine's fault in one line",
    "2": "usage: bad flag, bad name, bad configuration",
    "3": "a batch was done in part; each item's reason was printed",
    "4": "no such queue, job or lane; no EchoMQ deployment there",
    "5": "refused: wrong state, locked, read-only, not confirmed",
    "6": "server unreachable, timed out, loading, slot being moved",
    "7": "unknown wire version: writes stop",
    "8": "authentication or ACL denied",
    "9": "asked, and the answer is no",
    "128+n": "ended by a signal: 130 INT, 143 TERM, 129 HUP; 141 when the reader of stdout went away",
}

#: Exit code of each verdict on a batch (``changes.Tally``).
VERDICTS = {"done": DONE, "partly": PARTLY, "missing": MISSING, "refused": REFUSED}


def code_and_kind(error: EmqError | Interrupted) -> tuple[int, str]:
    """Return the exit code of an error and its name in JSON."""
    if isinstance(error, Interrupted):
        return SIGNALLED + error.signum, "interrupted"
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)
