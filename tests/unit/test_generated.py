"""What is made from the command tree is what the command tree says, and reads well."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import generate
import manpages
import pytest
from leftout import needs

from emqctl.cli import exit_codes
from emqctl.cli.root import COMMANDS

MAN = generate.ROOT / "man"
PAGES = sorted(path.name for path in MAN.iterdir())
SECTIONS = ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO")


def page(name: str) -> str:
    return (MAN / name).read_text("utf-8")


def shown(name: str) -> str:
    """Return a page without its markup."""
    text = re.sub(r"\\f[BIR]|\\&", "", page(name))
    for character, escape in manpages._SPECIAL.items():
        text = text.replace(escape, character)
    return " ".join(text.split())


def test_nothing_generated_is_stale() -> None:
    assert generate.stale() == []


def test_what_is_stale_is_named_with_the_command_that_mends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "generated", lambda: iter([("a", "new"), ("b", "same"), ("man/c.1", "page")]))
    (tmp_path / "man").mkdir()
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").write_text("same")
    (tmp_path / "man" / "gone.1").write_text("of a command that is no more")
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 1
    assert capsys.readouterr().err == (
        "a is stale; run: python tests/generate.py\n"
        "man/c.1 is stale; run: python tests/generate.py\n"
        "man/gone.1 is made from nothing; run: python tests/generate.py\n"
    )
    monkeypatch.setattr(sys, "argv", ["generate.py"])
    assert generate.main() == 0
    assert capsys.readouterr().out == "wrote a\nwrote man/c.1\nremoved man/gone.1\n"
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 0


def test_there_is_a_page_for_emqctl_and_each_command_and_three_more() -> None:
    more = {"emqctl-config.5", "emqctl-exit-codes.7", "emqctl-filters.7"}
    assert set(PAGES) == {"emqctl.1", *(f"emqctl-{name}.1" for name in COMMANDS), *more}


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_a_page_has_every_section_in_order(name: str) -> None:
    titles = re.findall(r"^\.SH (.+)$", page(f"emqctl{name and '-'}{name}.1"), re.MULTILINE)
    assert [title for title in titles if title in SECTIONS] == list(SECTIONS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_tells_all_that_help_tells(name: str) -> None:
    text = shown(f"emqctl-{name}.1")
    command = generate.commands()[name]
    assert " ".join(str(command.help).split("\n\n")[0].split()) in text
    for example in command.examples:
        assert example in text
    for option in command.params:
        if not getattr(option, "is_everywhere", True):
            assert " ".join(str(option.help).split()) in shown("emqctl.1")
        elif option.param_type_name == "option":
            assert all(each in text for each in option.opts)
            assert " ".join(str(option.help).split()) in text


@pytest.mark.parametrize("name", PAGES)
def test_pages_speak_of_variables_and_codes_there_are(name: str) -> None:
    text = shown(name)
    assert set(re.findall(r"\bEMQCTL_[A-Z_]+", text)) <= set(manpages.variables())
    if ".7" not in name and ".5" not in name:
        assert all(meaning in text for meaning in exit_codes.MEANINGS.values())


def test_every_variable_is_explained() -> None:
    text = page("emqctl-config.5")
    assert [name for name in manpages.variables() if f".B {name}\n" not in text] == []


def test_every_code_is_explained() -> None:
    text = page("emqctl-exit-codes.7")
    assert [code for code in exit_codes.MEANINGS if f"\\fB{code}\\fR" not in text] == []


@pytest.mark.parametrize("name", PAGES)
def test_pages_refer_to_pages_there_are(name: str) -> None:
    referred = re.findall(r"(emqctl[a-z\\-]*) ?\((\d)\)", page(name).replace("\\fR", "").replace("\\fB", ""))
    assert {f"{other}.{section}".replace("\\", "") for other, section in referred} <= set(PAGES)


@pytest.mark.parametrize("checker", [each for each in ("groff", "mandoc") if needs(each)])
@pytest.mark.parametrize("name", PAGES)
def test_pages_are_clean(name: str, checker: str) -> None:
    command = {"groff": ["groff", "-man", "-ww", "-z"], "mandoc": ["mandoc", "-Tlint"]}[checker]
    said = subprocess.run([*command, str(MAN / name)], capture_output=True, text=True, check=False)
    assert (said.stdout, said.stderr, said.returncode) == ("", "", 0)


@pytest.mark.parametrize("man", [each for each in ("man",) if needs(each)])
def test_man_shows_what_was_written(man: str) -> None:
    command = [man, "-l", str(MAN / "emqctl-requeue.1")]
    environment = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "emqctl requeue orders --error 'connection refused' --since 2h --rate 50/s" in said.stdout
    assert "-n, --limit N" in said.stdout


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        (".SH not a macro", r"\&.SH not a macro"),
        ("'quoted'", r"\(aqquoted\(aq"),
        (r"a\b --all ~/x `y` ^z", r"a\eb \-\-all \(ti/x \(gay\(ga \(haz"),
        ("counts: lanes, …", "counts: lanes, ..."),
    ],
)
def test_text_is_shown_letter_for_letter(text: str, escaped: str) -> None:
    assert manpages.roff(text) == escaped


def test_a_letter_without_roff_is_no_page() -> None:
    with pytest.raises(ValueError, match="no roff is known"):
        manpages.roff("naïve")


def test_no_line_of_filled_text_is_taken_for_a_macro() -> None:
    words = "word " * 15 + ".TH 'quoted"
    assert all(line[0] not in ".'" for line in manpages._filled(words).splitlines())


def test_every_script_and_page_has_its_place_in_the_wheel() -> None:
    text = (generate.ROOT / "pyproject.toml").read_text("utf-8")
    for path in (*generate.SCRIPTS.values(), *(f"man/{name}" for name in PAGES)):
        assert f'"{path}" = "share/' in text
    assert '"man/emqctl-config.5" = "share/man/man5/emqctl-config.5"' in text
