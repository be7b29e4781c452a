"""The part of the README that names every command, option and variable."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path

import click

from emqctl.cli.options import Command, CommonOption
from emqctl.cli.root import GROUPS, group
from emqctl.selection import Filters
from emqctl.window import MintBounds

BEGIN, END = "<!-- made by tests/generate.py -->\n", "<!-- until here -->\n"
WIDTH = 118
CONFIG = Path(__file__).parent / "man" / "emqctl-config.5"
FILTERS = {each.name for kind in (MintBounds, Filters) for each in fields(kind)} - {"bounds"}


def with_reference(readme: str, commands: Mapping[str, Command]) -> str:
    """Return the README with what stands between the two marks made anew."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}\n{_reference(commands)}\n{end}{after}" if begin and end else readme


def _reference(commands: Mapping[str, Command]) -> str:
    lines = []
    for title, names in GROUPS.items():
        lines += ["", f"{title}:", "", *(_item(name, commands[name]) for name in names)]
    browse = [each for each in commands["browse"].params if each.name in FILTERS]
    lines += ["", _filled(f"Filters, which choose jobs by what they are: {_names(browse)}.")]
    lines += ["", _filled(f"Before or after every command: {_names(group.params)}.")]
    lines += ["", "| variable | |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in _variables())]
    return "".join(f"{line}\n" for line in lines[1:])


def _item(name: str, command: Command) -> str:
    own = [each for each in command.params if not isinstance(each, CommonOption)]
    takes_filters = {each.name for each in own} >= FILTERS
    named = _names(each for each in own if not (takes_filters and each.name in FILTERS))
    options = " ".join(filter(None, [named, "and filters" if takes_filters else ""]))
    words = " ".join(each for each in command.collect_usage_pieces(click.Context(command)) if each != "[OPTIONS]")
    return _filled(f"- `{f'emqctl {name} {words}'.strip()}` {command.short_help} {options}", "  ")


def _names(parameters: Iterable[click.Parameter]) -> str:
    options = [each for each in parameters if isinstance(each, click.Option)]
    return " ".join(f"`{'`/`'.join(each.opts)}`" for each in options)


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(text.strip(), WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _variables() -> list[tuple[str, str]]:
    """Return each variable of emqctl's own with what its man page says of it."""
    found = re.findall(r"^\.TP\n\.B (EMQCTL_\w+)\n((?:.+\n)+?)(?=\.TP\n)", CONFIG.read_text("utf-8"), re.MULTILINE)
    return [(name, " ".join(re.sub(r"^\.B |\\", "", text, flags=re.MULTILINE).split())) for name, text in found]
