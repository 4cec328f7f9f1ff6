"""The controller's settings as the chart's values.schema.json has them."""

from __future__ import annotations

from typing import Any

from tidemark.controller.base.settings import Settings

__all__ = ["settings_schema"]

_OF_THE_CHART = frozenset({"database_url", "first_tokens", "host", "port"})
"""Settings that the chart sets by itself."""

_KEPT = ("type", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "pattern")


def settings_schema() -> dict[str, Any]:
    """Return the schema of the value `settings`."""
    fields = Settings.model_json_schema()["properties"]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: _plain(field) for name, field in sorted(fields.items()) if name not in _OF_THE_CHART
        },
    }


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    # What may be none is left out of the values instead.
    either = [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]
    (one,) = either
    return {name: one[name] for name in _KEPT if name in one}
