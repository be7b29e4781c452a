"""Where to connect and how: one decision made from flags and variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from emqctl.endpoint import DEFAULT_URL, Endpoint, parse_url
from emqctl.errors import BadUsage, LocalFault, Malformed
from emqctl.times import parse_duration_ms

DEFAULT_TIMEOUT = "5s"
LONGEST_TIMEOUT_MS = 86_400_000


@dataclass(frozen=True)
class Choices:
    """What the command line said about the connection; None where it said nothing."""

    url: str | None = None
    password_file: str | None = None
    askpass: bool = False
    request_timeout: str | None = None
    read_only: bool = False


@dataclass(frozen=True)
class Settings:
    """The decision: which server, how long to wait for it, and whether this run may write."""

    endpoint: Endpoint
    timeout_s: float
    read_only: bool


def decide(
    choices: Choices, environ: Mapping[str, str], ask: Callable[[str], str], notify: Callable[[str], None]
) -> Settings:
    """Choose the server: the URL of a flag, else of ``EMQCTL_URL``, else the default.

    A secret of one source is never sent to the server of another: ``EMQCTL_PASSWORD`` goes with
    ``EMQCTL_URL`` or a flag's URL, a flag's secret with whatever was chosen. ``ask`` prompts for a
    password. Raises BadUsage for two secrets of one level, Malformed for a bad URL.
    """
    url = choices.url if choices.url is not None else environ.get("EMQCTL_URL") or None
    endpoint = parse_url(DEFAULT_URL if url is None else url)
    return Settings(
        _with_secret(endpoint, choices, environ, ask, notify, named=url is not None),
        _timeout_s(choices, environ),
        choices.read_only or is_on(environ, "EMQCTL_READ_ONLY"),
    )


def _timeout_s(choices: Choices, environ: Mapping[str, str]) -> float:
    source, text = "--request-timeout", choices.request_timeout
    if text is None:
        source, text = "EMQCTL_REQUEST_TIMEOUT", environ.get("EMQCTL_REQUEST_TIMEOUT") or DEFAULT_TIMEOUT
    try:
        timeout_ms = parse_duration_ms(text)
    except Malformed as error:
        raise Malformed(f"a duration for {source}", text, error.why) from error
    if not 1 <= timeout_ms <= LONGEST_TIMEOUT_MS:
        raise Malformed(f"a duration for {source}", text, "it is 1ms to 1d")
    return timeout_ms / 1000


def is_on(environ: Mapping[str, str], name: str) -> bool:
    """Read a yes-or-no variable: unset, empty, 0, no, false and off are no. Raises BadUsage for the rest."""
    value = environ.get(name, "").lower()
    if value in {"", "0", "no", "false", "off"}:
        return False
    if value in {"1", "yes", "true", "on"}:
        return True
    raise BadUsage(f"{name} is {environ[name]!r}", hint=f"set {name} to 1 or 0")


def _with_secret(
    endpoint: Endpoint,
    choices: Choices,
    environ: Mapping[str, str],
    ask: Callable[[str], str],
    notify: Callable[[str], None],
    *,
    named: bool,
) -> Endpoint:
    in_flag_url = choices.url is not None and endpoint.password is not None
    in_variable_url = choices.url is None and endpoint.password is not None
    variable = environ.get("EMQCTL_PASSWORD")
    flags = [
        name
        for name, given in (
            ("the password in --url", in_flag_url),
            ("--password-file", choices.password_file is not None),
            ("--askpass", choices.askpass),
        )
        if given
    ]
    if len(flags) > 1:
        raise BadUsage(f"{flags[0]} and {flags[1]} are two secrets", hint="give one of them")
    if choices.password_file is not None:
        return replace(endpoint, password=_read_secret(choices.password_file))
    if choices.askpass:
        return replace(endpoint, password=ask(f"Password for {endpoint}: "))
    if in_variable_url and variable:
        raise BadUsage("EMQCTL_PASSWORD and the password in EMQCTL_URL are two secrets", hint="set one of them")
    if variable and not in_flag_url:
        if named:
            return replace(endpoint, password=variable)
        notify("EMQCTL_PASSWORD is not used: it goes with EMQCTL_URL or --url, and neither is given")
    return endpoint


def _read_secret(path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise LocalFault(f"cannot read the password file {path}: {reason}") from error
    return text.removesuffix("\n").removesuffix("\r")
