"""One decision: which server, which secret, how long to wait, whether to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqctl.config import Choices, Settings, decide, is_on
from emqctl.endpoint import parse_url
from emqctl.errors import BadUsage, LocalFault, Malformed


def settle(choices: Choices | None = None, environ: dict[str, str] | None = None, **more: Any) -> Settings:
    """Decide with nobody to ask and nothing to note, unless ``more`` says so."""

    def nobody(text: str) -> Any:
        raise AssertionError(text)

    return decide(choices or Choices(), environ or {}, more.get("ask", nobody), more.get("notify", nobody))


def test_nothing_said_is_the_default_server_and_five_seconds() -> None:
    assert settle() == Settings(parse_url("redis://127.0.0.1:6379/0"), 5.0, read_only=False)


def test_the_flag_beats_the_variable() -> None:
    environ = {"EMQCTL_URL": "redis://variable"}
    assert settle(Choices(url="redis://flag"), environ).endpoint.host == "flag"
    assert settle(environ=environ).endpoint.host == "variable"
    assert settle(environ={"EMQCTL_URL": ""}).endpoint.host == "127.0.0.1"


@pytest.mark.parametrize("text", ["", "nonsense", "redis://h/x"])
def test_a_flag_that_is_no_url_is_refused_though_the_variable_is_one(text: str) -> None:
    with pytest.raises((Malformed, BadUsage)):
        settle(Choices(url=text), {"EMQCTL_URL": "redis://variable"})


@pytest.mark.parametrize(
    ("flag", "variable", "seconds"),
    [(None, None, 5.0), ("500ms", "9s", 0.5), (None, "1m", 60.0), ("2", None, 2.0), (None, "", 5.0)],
)
def test_the_timeout_is_the_flags_then_the_variables(flag: str | None, variable: str | None, seconds: float) -> None:
    environ = {} if variable is None else {"EMQCTL_REQUEST_TIMEOUT": variable}
    assert settle(Choices(request_timeout=flag), environ).timeout_s == seconds


@pytest.mark.parametrize("text", ["0", "0s", "0ms", "0.0001ms", "soon", "-1", "99999999999d"])
def test_a_timeout_no_socket_can_keep_is_refused(text: str) -> None:
    """None at all would wait for nothing, or for ever; the largest overflows the clock of the system."""
    with pytest.raises((Malformed, BadUsage)):
        settle(Choices(request_timeout=text))


@pytest.mark.parametrize(
    ("flag", "variable", "read_only"),
    [
        (False, None, False),
        (True, None, True),
        (False, "1", True),
        (False, "0", False),
        (True, "0", True),
        (False, "", False),
    ],
)
def test_read_only_only_tightens(*, flag: bool, variable: str | None, read_only: bool) -> None:
    environ = {} if variable is None else {"EMQCTL_READ_ONLY": variable}
    assert settle(Choices(read_only=flag), environ).read_only == read_only


@pytest.mark.parametrize("value", ["1", "yes", "TRUE", "On"])
def test_words_for_yes(value: str) -> None:
    assert is_on({"X": value}, "X")


@pytest.mark.parametrize("value", ["", "0", "no", "False", "OFF"])
def test_words_for_no(value: str) -> None:
    assert not is_on({"X": value}, "X")
    assert not is_on({}, "X")


@given(st.text().filter(lambda text: text.lower() not in {"", "0", "1", "no", "yes", "true", "false", "on", "off"}))
def test_any_other_word_is_refused_with_the_variable_named(value: str) -> None:
    with pytest.raises(BadUsage, match="EMQCTL_READ_ONLY is "):
        is_on({"EMQCTL_READ_ONLY": value}, "EMQCTL_READ_ONLY")


# Secrets


def password(choices: Choices, environ: dict[str, str], **more: Any) -> str | None:
    return settle(choices, environ, **more).endpoint.password


def test_the_variable_goes_with_a_url_that_was_named() -> None:
    environ = {"EMQCTL_PASSWORD": "pw"}
    assert password(Choices(url="redis://flag"), environ) == "pw"
    assert password(Choices(), {**environ, "EMQCTL_URL": "redis://variable"}) == "pw"
    assert password(Choices(url="redis://user@flag"), environ) == "pw"


def test_the_variable_is_not_sent_to_the_default_server_and_that_is_noted() -> None:
    notes: list[str] = []
    assert password(Choices(), {"EMQCTL_PASSWORD": "pw"}, notify=notes.append) is None
    assert len(notes) == 1
    assert "EMQCTL_PASSWORD" in notes[0]
    assert "pw" not in notes[0]


def test_the_password_of_a_flags_url_beats_the_variable() -> None:
    assert password(Choices(url="redis://:mine@flag"), {"EMQCTL_PASSWORD": "pw"}) == "mine"


def test_a_secret_of_the_variable_url_never_goes_to_the_flags_server() -> None:
    assert password(Choices(url="redis://flag"), {"EMQCTL_URL": "redis://:theirs@variable"}) is None


def test_an_empty_variable_is_none() -> None:
    assert password(Choices(url="redis://:mine@flag"), {"EMQCTL_PASSWORD": ""}) == "mine"
    assert password(Choices(url="redis://flag"), {"EMQCTL_PASSWORD": ""}) is None


def test_a_password_file_goes_with_every_server(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("pw\n")
    for choices in (Choices(password_file=str(file)), Choices(url="redis://flag", password_file=str(file))):
        assert password(choices, {"EMQCTL_URL": "redis://:theirs@variable", "EMQCTL_PASSWORD": "pw2"}) == "pw"
    assert settle(Choices(password_file=str(file))).endpoint.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("written", "read"),
    [("pw", "pw"), ("pw\n", "pw"), ("pw\r\n", "pw"), ("pw\n\n", "pw\n"), (" p w ", " p w "), ("nä✓", "nä✓"), ("", "")],
)
def test_one_line_end_is_cut_off_and_nothing_else(tmp_path: Path, written: str, read: str) -> None:
    file = tmp_path / "secret"
    file.write_bytes(written.encode())
    assert password(Choices(password_file=str(file)), {}) == read


def test_a_file_that_cannot_be_read_is_this_machines_fault(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    for name, why in (("missing", "No such file"), (".", "directory"), ("binary", "UTF-8")):
        with pytest.raises(LocalFault, match=why):
            settle(Choices(password_file=str(tmp_path / name)))


def test_asking_names_the_server_and_goes_with_it() -> None:
    prompts: list[str] = []

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        return "pw"

    assert password(Choices(url="redis://user@flag", askpass=True), {}, ask=ask) == "pw"
    assert prompts == ["Password for redis://***@flag:6379/0: "]


@pytest.mark.parametrize(
    ("choices", "environ", "names"),
    [
        (Choices(password_file="f", askpass=True), {}, ["--password-file", "--askpass"]),
        (Choices(url="redis://:x@h", askpass=True), {}, ["--url", "--askpass"]),
        (Choices(url="redis://:x@h", password_file="f"), {}, ["--url", "--password-file"]),
        (Choices(), {"EMQCTL_URL": "redis://:x@h", "EMQCTL_PASSWORD": "y"}, ["EMQCTL_URL", "EMQCTL_PASSWORD"]),
    ],
)
def test_two_secrets_of_one_level_are_refused_naming_both(
    choices: Choices, environ: dict[str, str], names: list[str]
) -> None:
    with pytest.raises(BadUsage) as caught:
        settle(choices, environ)
    assert all(name in str(caught.value) for name in names)
