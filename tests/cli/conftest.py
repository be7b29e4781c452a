"""The command line as tests call it, and the output it is known to give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli.running import Emqctl, EmqctlProcess

from emqctl.demo.server import PrivateServer

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/cli/golden with what emqctl prints")


@pytest.fixture
def emqctl(server: PrivateServer) -> Emqctl:
    """Run a command line in this process, against the private server unless told otherwise."""
    return Emqctl(server.url)


@pytest.fixture
def emqctl_process(server: PrivateServer) -> EmqctlProcess:
    """Run a command line in a process of its own, against the private server unless told otherwise."""
    return EmqctlProcess(server.url)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare text with a golden file, or rewrite the file under ``--update-golden``."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("update_golden", default=False):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode())
        assert path.exists(), f"{path} is missing: run pytest tests/cli --update-golden, and read what it wrote"
        known = path.read_bytes().decode()
        assert text == known, f"{path} differs: if that is meant, run pytest tests/cli --update-golden"

    return check
