"""JSON Schemas of what commands print, derived from the types of their records."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Union, get_args, get_origin, get_type_hints

from emqctl.cli.options import Command
from emqctl.errors import EmqError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEXT = (bytes, str)
BASE64 = {"type": "string", "contentEncoding": "base64"}
MOMENT = {"type": "string", "format": "date-time", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bytes: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: MOMENT,
    type(None): {"type": "null"},
    Any: {},
}
ERROR = {
    "type": "object",
    "description": "What ended the run midway; the records before it stand.",
    "properties": {
        "code": {"type": "integer", "description": "The exit code."},
        "kind": {"type": "string"},
        "message": {"type": "string"},
        "hint": {"type": ["string", "null"]},
    },
    "required": ["code", "kind", "message", "hint"],
}


def schema_of(command: Command) -> dict[str, Any]:
    """Return the schema of the document a command prints with ``-o json``; a record is ``#/$defs/record``."""
    title = f"emqctl/{command.name}/1"
    return {
        "$schema": DIALECT,
        "title": title,
        "description": f"What 'emqctl {command.name}' prints with -o json; with -o jsonl, a record a line.",
        "type": "object",
        "properties": {
            "schema": {"const": title},
            "records": {"type": "array", "items": {"$ref": "#/$defs/record"}},
            "more": {"type": "boolean", "description": "Whether there is more than is shown."},
            "error": {"$ref": "#/$defs/error"},
        },
        "required": ["schema", "records", "more"],
        "$defs": {"record": _record(command), "error": ERROR},
    }


def fields_of(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a record, companions left out, each with its types."""
    properties: dict[str, dict[str, Any]] = schema["$defs"]["record"]["properties"]
    companions = {f"{name}_{suffix}" for name in properties for suffix in ("base64", "error")}
    return {name: _types(body) for name, body in properties.items() if name not in companions}


def _record(command: Command) -> dict[str, Any]:
    hints = get_type_hints(command.record)
    kinds = {each.name: _alternatives(hints[each.name]) for each in fields(command.record)}
    properties: dict[str, Any] = {}
    for name in command.columns:
        properties.update(_field(name, kinds[name]))
    text = [name for name in command.always if not kinds[name].isdisjoint(TEXT)]
    return {
        "type": "object",
        "description": _sentence(command.record),
        "properties": properties,
        "required": [name for name in command.always if name not in text],
        "allOf": [{"anyOf": [{"required": [name]}, {"required": [f"{name}_base64"]}]} for name in text],
    }


def _field(name: str, kinds: set[Any]) -> Iterator[tuple[str, Any]]:
    """Yield a field and what may stand beside it, or in its place."""
    unreadable = EmqError in kinds
    yield name, _union(kinds - {EmqError} | ({type(None)} if unreadable else set()))
    if not kinds.isdisjoint(TEXT):
        yield f"{name}_base64", {**BASE64, "description": f"In place of {name}, where that is not UTF-8."}
    if unreadable:
        yield f"{name}_error", {"type": "string", "description": f"Why {name} is null: it could not be read."}


def _union(kinds: Iterable[Any]) -> dict[str, Any]:
    """Return the schema of a value of one of several types, as one where their schemas say no more than a type."""
    schemas: list[dict[str, Any]] = []
    for kind in sorted(kinds, key=lambda kind: (kind is type(None), str(kind))):
        schema = _schema(kind)
        if schema not in schemas:
            schemas.append(schema)
    if len(schemas) == 1:
        return schemas[0]
    null = {"type": "null"}
    if len(schemas) == 2 and null in schemas:  # the usual case, said shortly
        [schema] = [each for each in schemas if each != null]
        return {**schema, "type": [schema["type"], "null"]}
    if all(set(schema) == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _schema(kind: Any) -> dict[str, Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is dict:
        return {"type": "object", "additionalProperties": _union(_alternatives(inner[1]))}
    if origin in {list, tuple}:
        items = _union(_alternatives(inner[0]))
        if inner[0] in TEXT:
            items = {"anyOf": [items, {"type": "object", "properties": {"base64": BASE64}, "required": ["base64"]}]}
        return {"type": "array", "items": items}
    return dict(PLAIN[kind])


def _alternatives(hint: Any) -> set[Any]:
    if get_origin(hint) in {Union, types.UnionType}:
        return {kind for alternative in get_args(hint) for kind in _alternatives(alternative)}
    return {hint}


def _types(schema: Mapping[str, Any]) -> str:
    types = schema.get("type") or [_types(each) for each in schema.get("anyOf", ())] or "anything"
    return types if isinstance(types, str) else "|".join(types)


def _sentence(record: type) -> str:
    text = re.sub(r"\s+", " ", inspect.getdoc(record) or "")
    return text.replace("``", "'").replace("None", "null")
