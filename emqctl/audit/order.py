"""Findings in the order they are read: the server first, then queue by queue, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from emqctl.errors import EmqError, Interrupted
from emqctl.records import LEVELS, Finding

AT_ONCE = 10_000  # findings that are sorted together; more are told in as many parts


def in_order(findings: Iterable[Finding], least: str) -> Iterator[list[Finding]]:
    """Yield the findings of at least a level, sorted, at most ``AT_ONCE`` at a time.

    What was found before an error or a signal is yielded before it is raised.
    """
    wanted = LEVELS[LEVELS.index(least) :]
    some: list[Finding] = []
    try:
        for finding in findings:
            if finding.level in wanted:
                some.append(finding)
            if len(some) == AT_ONCE:
                yield sorted(some, key=_key)
                some = []
    except (EmqError, Interrupted):
        yield sorted(some, key=_key)
        raise
    yield sorted(some, key=_key)


def _key(finding: Finding) -> tuple[str, int, str, bytes, bytes, str]:
    severity = -LEVELS.index(finding.level)
    return finding.queue or "", severity, finding.rule, finding.id or b"", finding.lane or b"", finding.place or ""
