"""``emqctl completion``."""

from __future__ import annotations

import click

from emqctl.cli.options import Command, pass_session
from emqctl.cli.session import Session
from emqctl.cli.shells import SHELLS, script


@click.command(
    "completion",
    cls=Command,
    short_help="Print the script that completes at TAB in a shell.",
    examples=(
        'eval "$(emqctl completion bash)"',
        "emqctl completion zsh > ~/.zfunc/_emqctl",
        "emqctl completion fish > ~/.config/fish/completions/emqctl.fish",
    ),
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@pass_session
def command(session: Session, /, shell: str) -> None:
    """Print the script that lets a shell complete emqctl at TAB: commands, options, queues, lanes, ids.

    Where the server is away, denied or slow, names and ids are not offered; nothing else changes.
    An installed emqctl brings these scripts along, in share/ beside its bin/.
    """
    session.environment.output().write(script(shell))
