"""The shape of the package: a core that loads fast, and one module that spells keys."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import emqctl

PACKAGE = Path(emqctl.__file__).parent
EDGES = {"__main__", "cli", "demo"}  # what may load Click at once
HEAVY = {"click", "rich", "redis", "hiredis"}
CORE = sorted(
    {path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
)
CORE = [name for name in CORE if name not in EDGES | {"__init__"}]

#: A key, or a pattern of keys, as text. `~emq:*` is an ACL rule shown to a reader: no key begins with `~`.
KEY = re.compile(r"\Aemq:|(?<!~)emq:\{|(?<!~)\{emq\}")
READ_BY_PEOPLE = {"help", "short_help", "epilog", "examples"}  # arguments of commands and options
LUA_COMMENT_OR_STRING = re.compile(
    r"""--\[(=*)\[.*?\]\1\] | --[^\n]* | ("(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*')""", re.DOTALL | re.VERBOSE
)


def python_key_literals(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string that spells a key, docstrings and help texts aside."""
    tree = ast.parse(source)
    for_readers: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            for_readers.add(id(node.value))
        if isinstance(node, ast.keyword) and node.arg in READ_BY_PEOPLE:
            for_readers.update(id(part) for part in ast.walk(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in for_readers:
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if KEY.search(text):
                yield node.lineno, text


def lua_key_literals(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each line of code, comments aside, that spells a key."""
    code = LUA_COMMENT_OR_STRING.sub(lambda found: found[2] or "\n" * found[0].count("\n"), source)
    for number, line in enumerate(code.splitlines(), 1):
        if "emq:" in line or "{emq}" in line:
            yield number, line


def test_the_core_is_found() -> None:
    assert {"branded", "errors", "keyspace", "slots"} <= set(CORE)
    assert not EDGES & set(CORE)


@pytest.mark.parametrize("name", CORE)
def test_a_core_module_loads_neither_click_nor_rich_nor_redis(name: str) -> None:
    program = f"import sys, emqctl.{name}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    assert (run.returncode, run.stdout.split()) == (0, [])


def test_no_module_but_keyspace_spells_a_key() -> None:
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "keyspace.py"]
    assert paths
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text!r}: take the key from emqctl.keyspace"
        for path in paths
        for line, text in python_key_literals(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_no_script_spells_a_key() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text.strip()}: pass the key in KEYS"
        for path in sorted(PACKAGE.rglob("*.lua"))
        for line, text in lua_key_literals(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_keyspace_spells_keys() -> None:
    assert list(python_key_literals((PACKAGE / "keyspace.py").read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "source",
    [
        'key = f"emq:{{{queue}}}:dead"',
        'key = f"emq:{queue}:dead"',
        'key = "emq:{%s}:dead" % queue',
        'key = b"emq:{" + queue + b"}:dead"',
        'key = "emq:" + tag',
        'key = "emq:" "{orders}" ":dead"',
        'match = "emq:*"',
        'fence = "{emq}:version"',
        'fence = f"{{emq}}:{unit}"',
        'note = f"no key emq:{{{queue}}}:dead"',
        'call(key="emq:{orders}:dead")',
        'def f(key=b"{emq}:version"): "a docstring"',
    ],
)
def test_a_key_in_python_code_is_seen(source: str) -> None:
    assert list(python_key_literals(source))


@pytest.mark.parametrize(
    "source",
    [
        '"""Read emq:{q}:dead."""',
        'def f():\n    """emq:{q}:dead"""',
        'class C:\n    """emq:{q}:dead"""\n    x = 1\n    """{emq}:version"""',
        "x = 1  # emq:{q}:dead",
        'option("--parse", help="such as emq:{orders}:dead")',
        "command(examples=(\"emqctl key --parse 'emq:{orders}:dead'\",))",
        'hint = f"allow +{name} on ~emq:* and ~{{emq}}:*"',
        'message = "emqctl: cannot reach it"',
        'schema = "emqctl/browse/1"',
    ],
)
def test_a_key_shown_to_a_reader_is_let_pass(source: str) -> None:
    assert list(python_key_literals(source)) == []


@pytest.mark.parametrize("source", ["local k = 'emq:{' .. q .. '}:dead'", 'x = "--" .. "{emq}:version"'])
def test_a_key_in_lua_code_is_seen(source: str) -> None:
    assert list(lua_key_literals(source)) == [(1, source)]


@pytest.mark.parametrize(
    "source",
    ["-- KEYS[1] emq:{q}:dead", "--[[\nemq:{q}:dead\n]] return 1", "--[==[ {emq} ]] ]==]", "return 'EMQSTALE'"],
)
def test_a_key_in_a_lua_comment_is_let_pass(source: str) -> None:
    assert list(lua_key_literals(source)) == []
