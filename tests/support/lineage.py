"""What takes OpenLineage events in tests: their facet of ours by its schema, as the controller serves it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde

from tidemark.controller.view.lineage.events import FACET, SCHEMA

from support.tree import ROOT

__all__ = ["as_sent", "facet_of", "problems"]

_OFFICIAL = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
"""Its schema is in no package; of it, what a facet has to have."""
_BASE = {"type": "object", "required": ["_producer", "_schemaURL"]}


def as_sent(event: RunEvent) -> dict[str, Any]:
    """Return an event as it goes over the wire."""
    sent: dict[str, Any] = json.loads(Serde.to_json(event))
    return sent


def facet_of(event: dict[str, Any]) -> dict[str, Any] | None:
    """Return the facet of ours, of which an event has one at most."""
    found: list[dict[str, Any]] = [
        each["facets"][FACET] for each in (*event["inputs"], *event["outputs"]) if FACET in each["facets"]
    ]
    assert len(found) < 2
    return found[0] if found else None


def problems(facet: dict[str, Any]) -> list[str]:
    """Return what of a facet does not keep to its schema."""
    schema = json.loads((ROOT / "controller/view/lineage" / SCHEMA).read_text(encoding="utf-8"))
    registry = jsonschema_rs.Registry([(_OFFICIAL, {"$defs": {"DatasetFacet": _BASE}})])
    validator = jsonschema_rs.Draft202012Validator(schema, registry=registry, validate_formats=True)
    return [error.message for error in validator.iter_errors({FACET: facet})]
