"""The command line."""

from __future__ import annotations

import sys
from typing import NoReturn

from emqctl.cli.environment import Environment
from emqctl.cli.root import run
from emqctl.cli.session import Session


def main() -> NoReturn:
    """Run the command line of this process and exit with its code."""
    sys.exit(run(sys.argv[1:], Session(Environment.of_process())))
