"""Writing the journal of changes while a command runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from emqctl.changes import Outcome
from emqctl.journal import Journal, path_of
from emqctl.keyspace import decode


class Pen:
    """The journal as a run writes it: where nothing can be written, a note, and the change goes on."""

    def __init__(
        self, variables: Mapping[str, str], notify: Callable[[str], None], about: Mapping[str, str | None]
    ) -> None:
        self._notify = notify
        path = path_of(variables)
        self._journal = Journal(path, about) if path else None
        if path is None:
            notify("no journal is kept: neither XDG_STATE_HOME nor HOME is set")

    def begin(self, ids: Iterable[bytes | None]) -> None:
        """Write down what is about to be changed."""
        self._write(lambda pen: pen.begin([decode(each) for each in ids if each is not None]))

    def end(self, outcomes: Iterable[Outcome]) -> None:
        """Write down what came of it."""
        self._write(lambda pen: pen.end([_written(each) for each in outcomes]))

    def _write(self, act: Callable[[Journal], None]) -> None:
        try:
            if self._journal:
                act(self._journal)
        except OSError as error:
            self._journal = None
            self._notify(f"no journal is kept: {error.strerror}: {error.filename}")


def _written(outcome: Outcome) -> list[str | None]:
    job = None if outcome.id is None else decode(outcome.id)
    return [job, outcome.result, outcome.reason, outcome.place_before, outcome.place_after]
