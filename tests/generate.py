"""Everything in the repository that is made from the command tree.

``python tests/generate.py`` writes it; ``python tests/generate.py --check`` and a test tell what is stale.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import json_schemas
import manpages
import reference

from emqctl.cli.options import Command
from emqctl.cli.root import group
from emqctl.cli.shells import SHELLS, script

ROOT = Path(__file__).parents[1]
FIX = "run: python tests/generate.py"
SCRIPTS = {"bash": "completions/emqctl.bash", "zsh": "completions/_emqctl", "fish": "completions/emqctl.fish"}
INSTALLED = {
    SCRIPTS["bash"]: "share/bash-completion/completions/emqctl",
    SCRIPTS["zsh"]: "share/zsh/site-functions/_emqctl",
    SCRIPTS["fish"]: "share/fish/vendor_completions.d/emqctl.fish",
}
SHARED_DATA = "[tool.hatch.build.targets.wheel.shared-data] # made by tests/generate.py"
FIELDS = "tests/data/fields.json"  # only ever grows
FOLDERS = {"completions": "*", "man": "*", "emqctl/schemas": "*.json"}  # hold nothing else


def commands() -> dict[str, Command]:
    """Return every command by name."""
    return {name: command for name, command in group.commands.items() if isinstance(command, Command)}


def generated() -> Iterator[tuple[str, str]]:
    """Yield the path of each generated file, from the top of the repository, and what it must hold."""
    for shell in SHELLS:
        yield SCRIPTS[shell], script(shell)
    schemas = {name: json_schemas.schema_of(each) for name, each in commands().items() if each.record}
    for name, schema in schemas.items():
        yield f"emqctl/schemas/{name}.json", _json(schema)
    yield FIELDS, _json(_all_fields(schemas))
    for page, text in manpages.pages(commands()):
        yield f"man/{page}", text
    yield "README.md", reference.with_reference(_read("README.md") or "", commands())
    yield "pyproject.toml", _with_shared_data(_read("pyproject.toml") or "", commands())


def stale() -> list[str]:
    """Return what is not as it must be, a line each."""
    wanted = dict(generated())
    wrong = [f"{path} is stale; {FIX}" for path, text in wanted.items() if _read(path) != text]
    return wrong + [f"{path} is made from nothing; {FIX}" for path in _leftovers(wanted)]


def main() -> int:
    """Write what is generated, or with ``--check`` only compare; return the exit code."""
    if sys.argv[1:] == ["--check"]:
        lines = stale()
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        return 1 if lines else 0
    wanted = dict(generated())
    for path, text in wanted.items():
        if _read(path) != text:
            (ROOT / path).write_text(text, "utf-8")
            sys.stdout.write(f"wrote {path}\n")
    for path in _leftovers(wanted):
        (ROOT / path).unlink()
        sys.stdout.write(f"removed {path}\n")
    return 0


def _read(path: str) -> str | None:
    return (ROOT / path).read_text("utf-8") if (ROOT / path).exists() else None


def _leftovers(wanted: dict[str, str]) -> list[str]:
    found = [path for folder, pattern in FOLDERS.items() for path in (ROOT / folder).glob(pattern)]
    return sorted(str(path.relative_to(ROOT)) for path in found if str(path.relative_to(ROOT)) not in wanted)


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _all_fields(schemas: dict[str, dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the fields there ever were, by schema; one that is here stays, with the type it has here."""
    known: dict[str, dict[str, str]] = json.loads(_read(FIELDS) or "{}")
    for schema in schemas.values():
        fields = json_schemas.fields_of(schema)
        known[schema["title"]] = {**fields, **known.get(schema["title"], {})}
    return dict(sorted(known.items()))


def _shared_data(commands: dict[str, Command]) -> str:
    """Return where the wheel puts each page and script, as lines of TOML."""
    pages = {f"man/{page}": f"share/man/man{page[-1]}/{page}" for page, _ in manpages.pages(commands)}
    return "".join(f'"{source}" = "{target}"\n' for source, target in {**INSTALLED, **pages}.items())


def _with_shared_data(text: str, commands: dict[str, Command]) -> str:
    """Return pyproject.toml with its table of shared data made anew."""
    head, _, rest = text.partition(f"{SHARED_DATA}\n")
    following = rest[rest.index("\n[") :] if "\n[" in rest else ""
    return f"{head}{SHARED_DATA}\n{_shared_data(commands)}{following}"


if __name__ == "__main__":
    sys.exit(main())
