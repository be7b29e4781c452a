"""Help, the tour, the version, and what every command owes its reader."""

from __future__ import annotations

import re
import shlex

import click
import pytest
import worlds
from cli.commands import CHANGES, OF_ITS_OWN
from cli.running import Emqctl

from emqctl.cli.options import CommonOption
from emqctl.cli.root import COMMANDS, group

LINE = "Connection and output options: emqctl --help"


def command(name: str) -> click.Command:
    return group.commands[name]


def test_emqctl_alone_prints_the_tour(emqctl: Emqctl) -> None:
    result = emqctl(url=None)
    assert (result.code, result.err) == (0, "")
    assert "emqctl browse orders -n 20" in result.out
    for name in ("depth", "browse", "demo"):
        assert f"emqctl {name}" in result.out


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_root_help_lists_every_command_and_every_common_option(emqctl: Emqctl, flag: str) -> None:
    result = emqctl(flag, url=None)
    assert (result.code, result.err) == (0, "")
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\S", result.out, re.MULTILINE), name
    for option in group.params:
        assert option.opts[-1] in result.out


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_a_commands_help_lists_its_own_options_and_output_then_one_line(emqctl: Emqctl, name: str, flag: str) -> None:
    result = emqctl(name, flag, url=None)
    assert (result.code, result.err) == (0, "")
    assert result.out.count(LINE) == 1
    listing = result.out.split("Examples:")[0]
    for option in command(name).params:
        hidden = isinstance(option, CommonOption) and option.name != "output"
        for each in option.opts if isinstance(option, click.Option) else ():
            listed = re.search(rf"(^|[ ,]){re.escape(each)}([ ,]|$)", listing, re.MULTILINE)
            assert bool(listed) != hidden, each


@pytest.mark.parametrize("name", COMMANDS)
def test_help_does_not_hide_common_options_for_good(emqctl: Emqctl, name: str) -> None:
    emqctl(name, "--help", url=None)
    assert not any(option.hidden for option in command(name).params if isinstance(option, click.Option))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_short_help_a_docstring_and_examples(name: str) -> None:
    each = command(name)
    assert each.name == name
    assert each.short_help
    assert each.short_help.endswith(".")
    assert each.callback
    assert each.callback.__doc__
    assert each.examples  # type: ignore[attr-defined]
    for option in each.params:
        assert not isinstance(option, click.Option) or option.help, option.name


@pytest.mark.parametrize(
    "example",
    [example for name in ("browse", "depth", "key", "slot", "id") for example in command(name).examples],  # type: ignore[attr-defined]
)
def test_every_example_of_looking_works_on_the_recorded_world(
    emqctl: Emqctl, world: worlds.World, example: str
) -> None:
    program, *words = shlex.split(example)
    assert program == "emqctl"
    result = emqctl(*words)
    assert result.code in ({0, 3} if words[0] == "depth" else {0})
    assert result.out


def test_every_line_of_the_tour_that_only_looks_works(emqctl: Emqctl, world: worlds.World) -> None:
    lines = [line.split("   ")[0] for line in emqctl(url=None).out.splitlines() if line.startswith("  emqctl ")]
    assert len(lines) >= 8
    for line in lines:
        words = shlex.split(line)[1:]
        if words[0] not in CHANGES | OF_ITS_OWN and "ID" not in words:
            assert emqctl(*words).code in {0, 3}


def test_help_needs_no_server_and_no_valid_variables(emqctl: Emqctl) -> None:
    env = {"EMQCTL_URL": "nonsense", "EMQCTL_OUTPUT": "yaml", "EMQCTL_VERBOSE": "maybe"}
    assert emqctl("browse", "--help", env=env).code == 0
    assert emqctl(env=env).code == 0


def test_a_group_of_commands_stays_an_ordinary_group() -> None:
    """Completion, man pages and suggestions read it so."""
    assert list(group.commands) == list(COMMANDS)
    assert len(group.commands) == len(COMMANDS)
    assert "browse" in group.commands
    assert "nope" not in group.commands
    assert {each.name for each in group.commands.values()} == set(COMMANDS)
    with pytest.raises(KeyError):
        group.commands["nope"]
