"""``emqctl schema``."""

from __future__ import annotations

import json
from dataclasses import dataclass

import click

from emqctl import schemas
from emqctl.cli.options import Command, pass_session
from emqctl.cli.session import Session


@dataclass(frozen=True)
class SchemaRow:
    """A command that prints records, and the name of their schema."""

    command: str
    schema: str


@click.command(
    "schema",
    cls=Command,
    record=SchemaRow,
    short_help="Print the JSON Schema of a command's output.",
    examples=("emqctl schema browse", "emqctl schema", "emqctl schema depth > depth.schema.json"),
)
@click.argument("name", type=click.Choice(schemas.names()), required=False, metavar="[COMMAND]")
@pass_session
def command(session: Session, /, name: str | None) -> None:
    """Print the JSON Schema (2020-12) of what a command prints with -o json.

    What it prints with -o jsonl is a line of '#/$defs/record' each. Without COMMAND: which schemas there
    are. Within the number at the end of a schema's name, fields are only ever added.
    """
    if name is None:
        session.emit([SchemaRow(each, json.loads(schemas.text(each))["title"]) for each in schemas.names()], SchemaRow)
    else:
        session.environment.output().write(schemas.text(name))
