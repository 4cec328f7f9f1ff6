"""What the document says of each field: the docstring behind it.

Pydantic would read them from the source as it builds a class, whether or not anybody asks for the document. That takes
time at each start, and where two threads parse Python at once one of them fails (CPython 3.11).
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import DataclassSchema, ModelSchema

from tidemark.models.spec_fields import spec_fields


class DescribedFields(GenerateJsonSchema):
    """Generates JSON schemas in which fields have their docstrings as descriptions, inherited ones too.

    What people set also has titles, help and examples for forms.
    """

    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        """Return the schema of a dataclass."""
        return _described(super().dataclass_schema(schema), schema["cls"])

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        """Return the schema of a model; all of them are answers, and a later release may add to those."""
        found = _described(super().model_schema(schema), schema["cls"])
        del found["additionalProperties"]
        return found


def _described(found: JsonSchemaValue, kind: type[Any]) -> JsonSchemaValue:
    for base in kind.__mro__:
        for name, text in _docstrings(base.__module__).get(base.__qualname__, {}).items():
            if name in found["properties"]:
                found["properties"][name].setdefault("description", text)
    for field in spec_fields(kind) if is_dataclass(kind) else ():
        described = found["properties"][field.name]
        described["description"], described["title"] = field.description, field.label
        described["x-help"] = field.shown.help
        if isinstance(field.shown.example, int):
            described["examples"] = [field.shown.example]
    return found


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of fields by the classes of a module of ours."""
    if not module.startswith("tidemark."):
        return {}
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    return {part.name: dict(_fields(part.body)) for part in body if isinstance(part, ast.ClassDef)}


def _fields(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, behind in pairwise(body):
        match field, behind:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)
            case _:
                pass
