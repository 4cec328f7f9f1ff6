"""Canonical JSON of what jobs send: equal contents have equal texts.

It is stored and compared for as long as reports are stored: sorted keys, no spaces, UTF-8. Pydantic writes the fields
of a dataclass in their order, so these serializers are built from schemas with sorted fields: sorting each report
would cost three times as much as writing it.
"""

from __future__ import annotations

import hashlib
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import SchemaSerializer

from tidemark.models.wire import Acknowledgement, Report


def _sorted_fields(schema: Any) -> Any:
    if isinstance(schema, dict):
        found = {name: _sorted_fields(value) for name, value in schema.items()}
        return {**found, "fields": sorted(found["fields"])} if found.get("type") == "dataclass" else found
    return [_sorted_fields(part) for part in schema] if isinstance(schema, list) else schema


def _serializer(kind: type[Report | Acknowledgement]) -> SchemaSerializer:
    return SchemaSerializer(_sorted_fields(TypeAdapter(kind).core_schema))


_REPORT, _ACKNOWLEDGEMENT = _serializer(Report), _serializer(Acknowledgement)


def canonical_json(value: Report | Acknowledgement) -> bytes:
    """Return the canonical JSON of ``value``."""
    return (_REPORT if isinstance(value, Report) else _ACKNOWLEDGEMENT).to_json(value)


def fingerprint(content: bytes) -> str:
    """Return a digest that is equal for equal contents, 64 characters."""
    return hashlib.sha256(content).hexdigest()
