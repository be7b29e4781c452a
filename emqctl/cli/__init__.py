"""The command line."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from emqctl.cli import shells
from emqctl.cli.environment import Environment
from emqctl.cli.root import run
from emqctl.cli.session import Session


def main() -> NoReturn:
    """Run the command line of this process and exit with its code; or answer the shell that asks what may come next."""
    if shells.VARIABLE in os.environ:
        sys.exit(shells.answer(os.environ))
    sys.exit(run(sys.argv[1:], Session(Environment.of_process())))
