"""``python -m emqctl``."""

from emqctl.cli import main

main()
