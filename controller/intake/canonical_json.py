"""Canonical JSON of what jobs send: equal contents have equal texts.

It is stored and compared for as long as reports are stored: sorted keys, no spaces, UTF-8. Pydantic writes the fields
of a dataclass in their order, so these serializers are built from schemas with sorted fields: sorting each report
would cost three times as much as writing it.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import SchemaSerializer

from tidemark.models.protocol.messages import LEFT_OUT, Acknowledgement, Report, left_out


def _sorted_fields(schema: Any, without: tuple[str, ...]) -> Any:
    if isinstance(schema, dict):
        found = {name: _sorted_fields(value, without) for name, value in schema.items()}
        if found.get("type") != "dataclass":
            return found
        return {**found, "fields": sorted(name for name in found["fields"] if name not in without)}
    return [_sorted_fields(part, without) for part in schema] if isinstance(schema, list) else schema


# Built before the first request.
_SERIALIZERS = {
    (kind, without): SchemaSerializer(_sorted_fields(TypeAdapter(kind).core_schema, without))
    for kind in (Report, Acknowledgement)
    for without in ((), tuple(field.name for field in fields(kind) if field.name in LEFT_OUT))
}


def canonical_json(value: Report | Acknowledgement) -> bytes:
    """Return the canonical JSON of ``value``."""
    kind = Report if isinstance(value, Report) else Acknowledgement
    return _SERIALIZERS[kind, left_out(value)].to_json(value)


def fingerprint(content: bytes) -> str:
    """Return a digest that is equal for equal contents, 64 characters."""
    return hashlib.sha256(content).hexdigest()
