"""The JSON Schemas of every command's output, one file each; ``python tests/generate.py`` writes them."""

from __future__ import annotations

from importlib.resources import files


def names() -> list[str]:
    """Return the commands that print records."""
    return sorted(path.name.removesuffix(".json") for path in files(__name__).iterdir() if path.name.endswith(".json"))


def text(command: str) -> str:
    """Return the schema of a command's output, as it is shipped."""
    return files(__name__).joinpath(f"{command}.json").read_text(encoding="utf-8")
