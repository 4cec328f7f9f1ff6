"""The OpenAPI document: its examples, its marks, and one size of page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from tidemark.controller.server.http.cursors import MAX_PAGE

from support.api_examples import examples_text
from support.openapi import EXAMPLES_FILE
from support.tree import ROOT

DOCUMENT: dict[str, Any] = json.loads((ROOT / "controller/openapi.json").read_text())


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def examples(part: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Return every example of the document with its schema, wherever OpenAPI or JSON Schema allows one."""
    if isinstance(part, list):
        for index, inner in enumerate(part):
            yield from examples(inner, f"{where}/{index}")
    if not isinstance(part, dict):
        return
    schema = part["schema"] if isinstance(part.get("schema"), dict) else part
    if "example" in part:
        yield where, schema, part["example"]
    given = part.get("examples", ())
    for example in given if isinstance(given, list) else [each["value"] for each in dict(given).values()]:
        yield where, schema, example
    for name, inner in part.items():
        if name not in {"example", "examples"}:
            yield from examples(inner, f"{where}/{name}")


EXAMPLES = list(examples(DOCUMENT))


def test_every_example_of_the_document_is_valid_by_its_schema() -> None:
    assert len(EXAMPLES) > 500
    # Each schema refers to the components, which are read once.
    known = jsonschema_rs.Registry([("urn:document", {"components": DOCUMENT["components"]})])
    wrong = [
        f"{where}: {error.message}"
        for where, schema, example in EXAMPLES
        for error in jsonschema_rs.Draft202012Validator(
            json.loads(json.dumps(schema).replace('"#/components/', '"urn:document#/components/')),
            registry=known,
        ).iter_errors(example)
    ]
    assert wrong == []


@pytest.mark.slow
def test_the_examples_are_what_a_controller_of_this_release_answers() -> None:
    assert EXAMPLES_FILE.read_text(encoding="utf-8") == examples_text(), "run: make docs"


def test_every_body_and_every_answer_in_json_has_an_example() -> None:
    lacking = [
        f"{where} {place}"
        for where, operation in operations()
        for place, part in (("body", operation.get("requestBody", {})), *operation["responses"].items())
        for content in part.get("content", {}).values()
        if "$ref" in content["schema"] and "example" not in content
    ]
    assert lacking == []


def test_what_is_made_for_the_page_alone_is_marked_unstable() -> None:
    marked = {operation["operationId"] for _, operation in operations() if operation.get("x-unstable")}
    assert marked == {"getPreview", "getHistory", "getHeatmap", "getBudget"}
    for _, operation in operations():
        assert ("Unstable" in operation["description"]) == bool(operation.get("x-unstable"))


def test_every_list_has_pages_of_the_same_size() -> None:
    limits = {
        where: next(each for each in operation["parameters"] if each["name"] == "limit")["schema"]
        for where, operation in operations()
        if any(each["name"] == "cursor" for each in operation.get("parameters", ()))
    }
    assert len(limits) > 10
    for where, schema in limits.items():
        assert (schema["minimum"], schema["maximum"], schema["default"]) == (1, MAX_PAGE, 100), where


@pytest.mark.parametrize(
    "operation", [operation for _, operation in operations() if "ETag" in json.dumps(operation)]
)
def test_every_read_with_an_etag_takes_if_none_match_and_may_be_304(operation: dict[str, Any]) -> None:
    if not operation["operationId"].startswith(("get", "list")):
        return
    taken = {each["name"].lower() for each in operation["parameters"] if each["in"] == "header"}
    assert "if-none-match" in taken
    assert "304" in operation["responses"]
