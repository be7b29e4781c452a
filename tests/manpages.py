"""Man pages, made from the command tree and the hand-written pieces in ``tests/man``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import click

from emqctl.cli import exit_codes
from emqctl.cli.options import Command, CommonOption
from emqctl.cli.root import GROUPS, group
from emqctl.selection import Filters
from emqctl.window import MintBounds

ROOT = Path(__file__).parents[1]
HAND_WRITTEN = Path(__file__).parent / "man"
DATE = "2026-11-30"  # of the last release, or of the work on it
WIDTH = 76

_SPECIAL = {
    "\\": r"\e",
    "-": r"\-",
    "'": r"\(aq",
    '"': r"\(dq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
    "…": "...",
    "→": r"\(->",
}


def pages(commands: Mapping[str, Command]) -> Iterator[tuple[str, str]]:
    """Yield the file name and the text of every page."""
    yield "emqctl.1", _root(commands)
    for name, command in commands.items():
        yield f"emqctl-{name}.1", _command(name, command)
    for source in sorted(HAND_WRITTEN.glob("emqctl-*")):
        yield source.name, _hand_written(source, commands)


def variables() -> list[str]:
    """Return every environment variable of emqctl's own that its code names."""
    sources = (path.read_text("utf-8") for path in sorted((ROOT / "emqctl").rglob("*.py")))
    return sorted({name for source in sources for name in re.findall(r"\bEMQCTL_[A-Z_]+\b", source)})


def roff(text: str) -> str:
    """Return text as roff shows it letter for letter."""
    shown = "".join(_SPECIAL.get(character, character) for character in text)
    if not shown.isascii():
        raise ValueError(f"no roff is known for {text!r}")
    return rf"\&{shown}" if shown.startswith(".") else shown


def _root(commands: Mapping[str, Command]) -> str:
    context = click.Context(group, info_name="emqctl", **group.context_settings)
    options = "".join(_option(each, context) for each in group.get_params(context))
    return _page(
        ("emqctl", 1, str(group.help)),
        (
            ("SYNOPSIS", _synopsis("emqctl", "[OPTIONS]", "COMMAND", "[ARGUMENTS]...")),
            ("DESCRIPTION", (HAND_WRITTEN / "description").read_text("utf-8")),
            ("COMMANDS", "".join(_listed(title, names, commands) for title, names in GROUPS.items())),
            ("OPTIONS", f"Before or after the command:\n{options}"),
            ("OUTPUT", (HAND_WRITTEN / "output").read_text("utf-8")),
            ("EXAMPLES", _examples(tuple(commands[name].examples[0] for name in ("depth", "browse", "requeue")))),
            *_ending(),
            ("SEE ALSO", _see_also((*_GENERAL, "emqctl-filters(7)", *(f"emqctl-{name}(1)" for name in commands)))),
        ),
    )


def _listed(title: str, names: Sequence[str], commands: Mapping[str, Command]) -> str:
    items = (_item(rf"\fBemqctl\-{name}\fR(1)", commands[name].short_help) for name in names)
    return f".SS {roff(title)}\n{''.join(items)}"


def _command(name: str, command: Command) -> str:
    context = click.Context(command, info_name=name, **command.context_settings)
    own = [each for each in command.get_params(context) if not isinstance(each, CommonOption) or each.is_everywhere]
    near = [f"emqctl-{other}(1)" for names in GROUPS.values() if name in names for other in names if other != name]
    filters = ["emqctl-filters(7)"] if any(each.name == "since" for each in own) else []
    return _page(
        (f"emqctl-{name}", 1, str(command.short_help)),
        (
            ("SYNOPSIS", _synopsis(f"emqctl {name}", *command.collect_usage_pieces(context))),
            ("DESCRIPTION", _paragraphs(str(command.help))),
            ("OPTIONS", "".join(_option(each, context) for each in own) + _ELSEWHERE),
            ("EXAMPLES", _examples(command.examples)),
            *_ending(),
            ("SEE ALSO", _see_also(("emqctl(1)", *_GENERAL, *near, *filters))),
        ),
    )


_GENERAL = ("emqctl-config(5)", "emqctl-exit-codes(7)")
_ELSEWHERE = r""".PP
Those of the connection and the output, which every command takes, are in
.BR emqctl (1).
"""


def _ending() -> tuple[tuple[str, str], ...]:
    codes = "".join(_item(rf"\fB{roff(code)}\fR", meaning) for code, meaning in exit_codes.MEANINGS.items())
    names = " ".join(rf"\fB{roff(name)}\fR," for name in variables())
    return (
        ("EXIT STATUS", codes),
        ("ENVIRONMENT", _filled(f"{names} and what else is read: see") + ".BR emqctl\\-config (5).\n"),
        ("FILES", (HAND_WRITTEN / "files").read_text("utf-8")),
    )


def _hand_written(source: Path, commands: Mapping[str, Command]) -> str:
    """Return a page from its source, in which a comment ``@NAME`` stands for each generated part."""
    browse, requeue = commands["browse"], commands["requeue"]
    names = {each.name for kind in (MintBounds, Filters) for each in fields(kind)}
    context = click.Context(requeue)
    filters = [each for each in requeue.params if each.name in names]
    states = [each for each in browse.params if each.name == "state"]
    codes = "".join(_item(rf"\fB{roff(code)}\fR", meaning) for code, meaning in exit_codes.MEANINGS.items())
    parts = {
        "title": _title(source.stem, int(source.suffix[1:])),
        "codes": codes,
        "files": (HAND_WRITTEN / "files").read_text("utf-8"),
        "filters": "".join(_option(each, context) for each in filters),
        "states": "".join(_option(each, context) for each in states),
    }
    text = source.read_text("utf-8")
    return re.sub(r'^\.\\" @(\w+)\n', lambda found: parts[found[1]], text, flags=re.MULTILINE)


def _page(subject: tuple[str, int, str], sections: tuple[tuple[str, str], ...]) -> str:
    name, section, purpose = subject
    purpose = purpose[:1].lower() + purpose[1:].rstrip(".")
    head = rf"{_title(name, section)}.SH NAME{chr(10)}{roff(name)} \- {roff(purpose)}{chr(10)}"
    return head + "".join(f".SH {title}\n{body}" for title, body in sections)


def _title(name: str, section: int) -> str:
    version = re.findall(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)[0]
    made = '.\\" Made by tests/generate.py: change what it is made from.\n'
    return made + f'.TH {roff(name.upper())} {section} {DATE} "emqctl {version}" "emqctl manual"\n.ad l\n.nh\n'


def _synopsis(line: str, *pieces: str) -> str:
    return f".B {line}\n" + _filled(" ".join(rf"\fI{roff(piece)}\fR" for piece in pieces if piece))


def _option(parameter: click.Parameter, context: click.Context) -> str:
    if not isinstance(parameter, click.Option):
        return ""
    record = parameter.get_help_record(context)
    assert record is not None, parameter
    value = "" if parameter.is_flag or parameter.count else rf" \fI{roff(parameter.make_metavar(context))}\fR"
    names = ", ".join(rf"\fB{roff(name)}\fR" for name in (*parameter.opts, *parameter.secondary_opts))
    return _item(names + value, record[1])


def _item(term: str, text: str | None) -> str:
    return f".TP\n{term}\n" + _filled(roff(str(text)))


def _paragraphs(text: str) -> str:
    return ".PP\n".join(_filled(roff(" ".join(each.split()))) for each in text.split("\n\n"))


def _filled(text: str) -> str:
    """Return roff on lines of a decent length; none begins with a control character."""
    lines = textwrap.wrap(re.sub(r"  +", " ", text), WIDTH, break_long_words=False, break_on_hyphens=False)
    return "".join(rf"\&{line}{chr(10)}" if line[0] in ".'" else f"{line}\n" for line in lines)


def _examples(lines: tuple[str, ...]) -> str:
    return "".join(f".PP\n.nf\n{roff(line)}\n.fi\n" for line in lines).removeprefix(".PP\n")


def _see_also(names: Iterable[str]) -> str:
    listed = [name.partition("(") for name in sorted(names)]
    ends = [*([","] * (len(listed) - 1)), ""]
    return "".join(f".BR {roff(name)} ({rest}{end}\n" for (name, _, rest), end in zip(listed, ends, strict=True))
