"""What a rule is: a small function that looks at facts, and what is said where it finds something."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from emqctl.keyspace import decode
from emqctl.records import LEVELS, Finding

NOTE, STUCK, BROKEN = LEVELS

PERSON = "a person decides: emqctl inspect {queue} {id} --deep shows its children"  # no command does it
FIX = "emqctl doctor {queue} --fix"

#: What a rule found: words for its sentences, and the fields of the finding that are not as usual. None: nothing.
Found = Mapping[str, Any] | None
YES: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Rule:
    """One rule. ``meaning`` and ``repair`` are filled with what it found; ``hazard`` is a number of the protocol."""

    name: str
    level: str
    hazard: str | None
    meaning: str
    repair: str | None
    look: Callable[[Any], Found]

    def finding(self, words: Mapping[str, Any]) -> Finding:
        """Return what is said of facts in which it found these words; ``repair`` among them is another command."""
        text = {name: decode(word) if isinstance(word, bytes) else str(word) for name, word in words.items()}
        command = words.get("repair", self.repair)
        return Finding(
            level=words.get("level", self.level),
            rule=self.name,
            hazard=words.get("hazard", self.hazard),
            queue=words.get("queue"),
            id=words.get("id"),
            lane=words.get("lane"),
            place=words.get("place"),
            meaning=self.meaning.format_map(text),
            repair=command and command.format_map({name: shlex.quote(word) for name, word in text.items()}),
        )


class Family:
    """The rules that look at one kind of facts, in the order they are written in."""

    def __init__(self) -> None:
        self.rules: dict[str, Rule] = {}

    def rule(
        self, level: str, hazard: str | None, meaning: str, repair: str | None = None
    ) -> Callable[[Callable[[Any], Found]], Callable[[Any], Found]]:
        """Enter a function as the rule of its name."""

        def enter(look: Callable[[Any], Found]) -> Callable[[Any], Found]:
            name = look.__name__
            self.rules[name] = Rule(name, level, hazard, meaning, repair, look)
            return look

        return enter

    def judge(self, facts: Any) -> Iterator[Finding]:
        """Yield what its rules find in some facts, which say in ``about`` of what they are."""
        for rule in self.rules.values():
            found = rule.look(facts)
            if found is not None:
                yield rule.finding({**facts.about, **found})


def quoted(raw: bytes) -> str:
    """Return a value for a sentence, cut short."""
    return repr(raw[:40])[1:] + ("…" if len(raw) > 40 else "")  # noqa: PLR2004
