"""Every error has an exit code and a name, and they are those of the contract."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from emqctl import errors
from emqctl.cli import exit_codes
from emqctl.cli.exit_codes import EXIT_CODES, code_and_kind
from emqctl.cli.session import error_body
from emqctl.errors import EmqError, Interrupted, Malformed, Unreachable, WrongType
from emqctl.replies import WrongTypeReply

CONTRACT = {
    "LocalFault": 1,
    "Malformed": 2,
    "BadUsage": 2,
    "NotFound": 4,
    "Refused": 5,
    "WrongType": 5,
    "Unreachable": 6,
    "NoAnswer": 6,
    "WrongVersion": 7,
    "Denied": 8,
}


def all_below(kind: type[EmqError]) -> Iterator[type[EmqError]]:
    for each in kind.__subclasses__():
        yield each
        yield from all_below(each)


def test_every_kind_of_error_has_a_code() -> None:
    for kind in all_below(EmqError):
        code, name = code_and_kind(kind.__new__(kind))
        assert 1 <= code <= 8
        assert name


@pytest.mark.parametrize(("name", "code"), CONTRACT.items())
def test_codes_are_those_of_the_contract(name: str, code: int) -> None:
    kind = getattr(errors, name)
    assert code_and_kind(kind.__new__(kind))[0] == code


def test_names_are_unique_and_fit_for_json() -> None:
    names = [name for _, name in EXIT_CODES.values()]
    assert len(set(names)) == len(names)
    assert all(name == name.lower() and " " not in name for name in names)


def test_the_nearest_class_counts() -> None:
    assert code_and_kind(WrongTypeReply(b"key")) == (5, "refused")
    assert code_and_kind(Malformed("a thing", "x", "why")) == (2, "malformed")


@pytest.mark.parametrize(("number", "code"), [(2, 130), (15, 143), (1, 129)])
def test_a_signal_is_128_and_its_number(number: int, code: int) -> None:
    assert code_and_kind(Interrupted(number)) == (code, "interrupted")
    assert error_body(Interrupted(number))["code"] == code


def test_the_other_codes_are_those_of_the_contract() -> None:
    codes = (exit_codes.DONE, exit_codes.PARTLY, exit_codes.NO, exit_codes.READER_GONE)
    assert codes == (0, 3, 9, 141)


def test_an_error_in_json_is_its_code_kind_message_and_hint() -> None:
    body = error_body(Unreachable("cannot reach x", hint="try y"))
    assert json.loads(json.dumps(body)) == {
        "code": 6,
        "kind": "unreachable",
        "message": "cannot reach x",
        "hint": "try y",
    }


def test_a_bug_is_no_error_of_ours() -> None:
    with pytest.raises(TypeError):
        error_body(ValueError("x"))


def test_errors_make_their_sentence_and_a_short_form() -> None:
    wrong = WrongType("emq:{q}:dead", "list", "zset")
    assert (str(wrong), wrong.brief) == ("emq:{q}:dead is a list, not a zset", "list, not zset")
    malformed = Malformed("a count", "x\n", "no digits")
    assert (str(malformed), malformed.brief) == (r"'x\n' is not a count: no digits", r"'x\n'")
    assert Unreachable("gone").brief == "gone"
    assert isinstance(malformed, ValueError)
