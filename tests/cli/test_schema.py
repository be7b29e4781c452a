"""``emqctl schema``: the shipped schemas, printed."""

from __future__ import annotations

import json

import pytest
from cli.running import Emqctl

from emqctl import schemas


@pytest.mark.parametrize("name", schemas.names())
def test_the_schema_of_a_command_is_printed_as_it_is_shipped(emqctl: Emqctl, name: str) -> None:
    result = emqctl("schema", name, url=None)
    assert result.summary == (0, schemas.text(name), "")
    assert json.loads(result.out)["title"] == f"emqctl/{name}/1"


def test_without_a_command_the_schemas_are_listed(emqctl: Emqctl) -> None:
    assert emqctl("schema", "-o", "ids", url=None).lines == schemas.names()
    assert ["depth", "emqctl/depth/1"] in emqctl("schema", url=None).cells


def test_the_format_does_not_change_a_schema(emqctl: Emqctl) -> None:
    assert emqctl("schema", "depth", "-o", "csv", url=None).out == schemas.text("depth")


@pytest.mark.parametrize("name", ["completion", "nonsense"])
def test_what_prints_no_records_has_no_schema(emqctl: Emqctl, name: str) -> None:
    result = emqctl("schema", name, url=None)
    assert (result.code, result.out) == (2, "")
    assert repr(name) in result.err
