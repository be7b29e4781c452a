"""The JSON Schemas that are shipped: well-formed, made from the records, kept to by every known output."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import generate
import json_schemas
import pytest
from jsonschema import Draft202012Validator, ValidationError

from emqctl import schemas
from emqctl.cli.options import Command
from emqctl.errors import EmqError
from emqctl.records import columns_of

GOLDEN = generate.ROOT / "tests" / "cli" / "golden"
FIELDS: dict[str, dict[str, str]] = json.loads((generate.ROOT / generate.FIELDS).read_text("utf-8"))
NO_DATA = re.compile(r'\$ |\[exit |note: |emqctl: |hint: |\{"(note|error)"')
WITHOUT = {"completion", "demo"}  # print no records of their own


def shipped(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(schemas.text(name))
    return schema


def strict(name: str) -> Draft202012Validator:
    """Return a validator that lets no field pass that the schema does not name."""
    schema = deepcopy(shipped(name))
    schema["additionalProperties"] = schema["$defs"]["record"]["additionalProperties"] = False
    return Draft202012Validator(schema)


def of_record(name: str) -> Draft202012Validator:
    """Return the same for a line of jsonl."""
    schema = strict(name).schema
    return Draft202012Validator({"$ref": "#/$defs/record", "$defs": schema["$defs"]})


def outputs(output: str) -> list[str]:
    return sorted(path.name for path in GOLDEN.glob(f"*.{output}.txt"))


def stdout(name: str) -> list[str]:
    """Return the lines of a golden file that went to stdout, with a moment for each that it only names."""
    text = re.sub(r"<now [^>]*>\.*", "2026-11-30T18:00:00.000Z", (GOLDEN / name).read_text("utf-8"))
    return [line for line in text.split("\n") if line and not NO_DATA.match(line)]


def test_every_command_that_prints_records_has_a_schema() -> None:
    assert set(schemas.names()) == set(generate.commands()) - WITHOUT
    assert all(generate.commands()[name].record for name in schemas.names())


@pytest.mark.parametrize("name", schemas.names())
def test_a_schema_is_one(name: str) -> None:
    schema = shipped(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("name", outputs("json"))
def test_every_known_document_is_valid(name: str) -> None:
    text = "\n".join(stdout(name))
    if text:  # a run that fails before the first record prints nothing
        strict(name.partition(".")[0]).validate(json.loads(text))


@pytest.mark.parametrize("name", outputs("jsonl"))
def test_every_known_record_is_valid(name: str) -> None:
    for line in stdout(name):
        of_record(name.partition(".")[0]).validate(json.loads(line))


@pytest.mark.parametrize("title", FIELDS)
def test_fields_are_only_ever_added(title: str) -> None:
    now = json_schemas.fields_of(shipped(title.split("/")[1]))
    gone = {name: kind for name, kind in FIELDS[title].items() if now.get(name) != kind}
    assert gone == {}, f"{title} promises them: change them under a new number, or take back what was never released"


@pytest.mark.parametrize("name", schemas.names())
def test_every_column_of_a_command_is_in_its_schema(name: str) -> None:
    command = generate.commands()[name]
    assert list(json_schemas.fields_of(shipped(name))) == list(command.columns)
    assert set(command.always) <= set(command.columns) <= set(columns_of(command.record))


@dataclass(frozen=True)
class Everything:
    """A record with a field of every kind. What is ``None`` is null."""

    name: bytes
    count: int | EmqError | None
    when: datetime | None
    good: bool
    words: tuple[str, ...]
    more: dict[str, Any] | None
    raw: dict[str, bytes]
    mixed: int | str | None
    text: str | None = None


def everything() -> dict[str, Any]:
    return json_schemas.schema_of(Command("everything", record=Everything, always=("name", "count", "text")))


def record(**changed: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"name": "x", "count": 1, "text": None}
    return {name: value for name, value in {**usual, **changed}.items() if value != "absent"}


def validate(value: dict[str, Any]) -> None:
    schema = everything()
    Draft202012Validator({"$ref": "#/$defs/record", "$defs": schema["$defs"]}).validate(value)


@pytest.mark.parametrize(
    "value",
    [
        record(),
        record(when="2026-11-30T18:00:00.000Z", good=False, words=["a", {"base64": "/w=="}], more={"any": [1]}),
        record(count=None, count_error="'x' is not a count"),
        record(name="absent", name_base64="/w=="),
        record(mixed=3, raw={"a": "b", "c_base64": "/w=="}),
        record(mixed="three"),
        record(a_later_field=[1]),
    ],
)
def test_what_is_printed_of_a_record_is_valid(value: dict[str, Any]) -> None:
    validate(value)


@pytest.mark.parametrize(
    "value",
    [
        record(name=None),
        record(name="absent"),
        record(count="1"),
        record(count="absent"),
        record(when="2026-11-30 18:00"),
        record(good=None),
        record(words=[1]),
        record(raw={"a": 1}),
        record(mixed=1.5),
        record(text="absent"),
    ],
)
def test_what_is_not_printed_of_a_record_is_not_valid(value: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        validate(value)


def test_a_schema_says_what_its_record_says() -> None:
    said = everything()["$defs"]["record"]["description"]
    assert said == "A record with a field of every kind. What is 'null' is null."
    kinds = json_schemas.fields_of(everything())
    assert (kinds["name"], kinds["count"], kinds["mixed"]) == ("string", "integer|null", "integer|string|null")


def test_a_run_cut_short_is_valid_with_its_error() -> None:
    validator = strict("depth")
    document = {"schema": "emqctl/depth/1", "records": [{"queue": "x", "waiting": 1}], "more": True}
    error = {"code": 6, "kind": "unreachable", "message": "gone", "hint": None}
    validator.validate({**document, "error": error})
    with pytest.raises(ValidationError):
        validator.validate({**document, "error": {"code": 6}})
    with pytest.raises(ValidationError):
        validator.validate({**document, "schema": "emqctl/depth/2"})


def test_fields_that_were_promised_stay_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {"emqctl/everything/1": {"name": "integer", "gone": "string"}, "emqctl/gone/1": {"a": "string"}}
    monkeypatch.setattr(generate, "_read", lambda _path: json.dumps(before))
    after = generate._all_fields({"everything": everything()})
    assert after["emqctl/gone/1"] == {"a": "string"}
    assert after["emqctl/everything/1"]["name"] == "integer"
    assert {"gone", "text"} <= set(after["emqctl/everything/1"])
