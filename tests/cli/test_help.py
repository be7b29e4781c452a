"""Help, the tour, the version, and what every command owes its reader."""

from __future__ import annotations

import re
import shlex

import click
import generate
import manpages
import pytest
import worlds
from cli.commands import CHANGES, OF_ITS_OWN
from cli.running import Emqctl

from emqctl.cli import exit_codes
from emqctl.cli.options import Command, CommonOption
from emqctl.cli.root import COMMANDS, GROUPS, group

README = (generate.ROOT / "README.md").read_text("utf-8")
LINE = "Connection and output options: emqctl --help"


def command(name: str) -> Command:
    return generate.commands()[name]


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
    assert each.examples
    for option in each.params:
        assert not isinstance(option, click.Option) or option.help, option.name


def test_every_line_of_the_tour_that_only_looks_works(emqctl: Emqctl, world: worlds.World) -> None:
    lines = [line.split("   ")[0] for line in emqctl(url=None).out.splitlines() if line.startswith("  emqctl ")]
    assert len(lines) >= 8
    for line in lines:
        words = shlex.split(line)[1:]
        if words[0] not in CHANGES | OF_ITS_OWN and "ID" not in words:
            assert emqctl(*words).code in {0, 3, 9}  # that world is broken in places


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


@pytest.mark.parametrize("name", ["", *COMMANDS])
@pytest.mark.parametrize("columns", [80, 200])
def test_help_fits_80_columns(emqctl: Emqctl, name: str, columns: int) -> None:
    result = emqctl(*name.split(), "--help", url=None, columns=columns)
    assert [line for line in result.out.splitlines() if len(line) > 80] == []


def test_the_tour_fits_80_columns_and_names_every_command(emqctl: Emqctl) -> None:
    tour = emqctl(url=None).out
    assert [line for line in tour.splitlines() if len(line) > 80] == []
    assert [name for name in COMMANDS if not re.search(rf"\b{name}\b", tour)] == []
    assert len(re.findall(r"^[A-Z][a-z -]+.*$", tour, re.MULTILINE)) >= len(GROUPS)


def test_the_root_help_lists_commands_by_what_they_are_for(emqctl: Emqctl) -> None:
    text = emqctl("--help", url=None).out
    for title, names in GROUPS.items():
        section = text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert tuple(line.split()[0] for line in section.splitlines()) == names


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_a_command_does_then_shows_examples(emqctl: Emqctl, name: str) -> None:
    text = emqctl(name, "--help", url=None).out
    assert text.index("Usage: ") < text.index("Options:") < text.index(LINE) < text.index("Examples:")
    assert "e.g." not in text
    for example in command(name).examples:
        assert f"  {example}\n" in text


def helps(emqctl: Emqctl) -> str:
    return "\n".join(emqctl(*name.split(), "--help", url=None).out for name in ("", *COMMANDS))


def test_help_and_readme_know_every_variable_and_no_other(emqctl: Emqctl) -> None:
    for text in (helps(emqctl), README):
        assert set(re.findall(r"\bEMQCTL_[A-Z_]+\b", text)) - {"EMQCTL_TEST_DEPTH"} == set(manpages.variables())


def test_help_and_readme_know_every_exit_code_and_no_other(emqctl: Emqctl) -> None:
    section = emqctl("--help", url=None).out.partition("Exit codes:\n")[2]
    assert re.findall(r"^  (\S+)", section, re.MULTILINE) == list(exit_codes.MEANINGS)
    assert re.findall(r"^\| ([\dn+]+) \| (.+) \|$", README, re.MULTILINE) == list(exit_codes.MEANINGS.items())


def test_readme_knows_every_command_and_option_and_no_other() -> None:
    known = {"--help"}
    for name in COMMANDS:
        assert f"emqctl {name}" in README, name
        known |= {each for option in command(name).params for each in option.opts if each.startswith("--")}
    known |= {each for option in group.params for each in option.opts if each.startswith("--")}
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README))
    assert known - told - {"--help"} == set(), "README does not speak of them"
    foreign = {"--check", "--update-golden"}  # of other programs
    assert told - known - foreign == set(), "README speaks of them, emqctl has none"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("brwose orders", "browse"),
        ("dept", "depth"),
        ("requeu orders", "requeue"),
        ("browse orders --revers", "--reverse"),
        ("browse orders --lmit 3", "--limit"),
        ("requeue orders --dryrun", "--dry-run"),
        ("depth -o jsn", "json"),
    ],
)
def test_a_word_that_is_nearly_right_is_answered_with_what_is_meant(emqctl: Emqctl, typed: str, meant: str) -> None:
    result = emqctl(*typed.split(), url=None)
    assert (result.code, result.out) == (2, "")
    assert meant in result.err


@pytest.mark.parametrize("line", ["browse ordrs", "inspect ordrs JOB0Nb1VTbfnu4", "depth ordrs"])
def test_a_queue_that_is_nearly_right_is_answered_with_what_is_meant(
    emqctl: Emqctl, world: worlds.World, line: str
) -> None:
    result = emqctl(*line.split())
    assert "did you mean orders" in result.err
