"""What a change was, in words: each field that differs, before and after."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tidemark.controller.tools.cli.show import duration, percent

_UNSET = object()
_OWN = re.compile(r"((from|to)_)?bound_ms")
"""Fields in which null is the job's own bound."""

_MAX_CHANGES = 6


def change_text(before: str | None, after: str | None) -> str:
    """Return what differs between two values of an event, which are JSON or null."""
    found = list(_changes(_fields(before), _fields(after)))
    more = f", and {len(found) - _MAX_CHANGES} more" if len(found) > _MAX_CHANGES else ""
    return ", ".join(found[:_MAX_CHANGES]) + more or "-"


def _fields(text: str | None) -> dict[str, Any]:
    value = None if text is None else json.loads(text)
    if isinstance(value, dict):
        return value
    # A value without a name is a bound.
    return {} if text is None else {"bound_ms": value}


def _changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for field in dict.fromkeys([*before, *after]):
        was, now = before.get(field, _UNSET), after.get(field, _UNSET)
        if was == now or (was is _UNSET and now is None):
            continue
        name = re.sub(r"_(ms|ppm)$", "", field).replace("_", " ")
        if was is _UNSET:
            yield f"{name} {_value(field, now)}"
        elif now is _UNSET:
            yield f"no {name}"
        else:
            yield f"{name} {_value(field, was)} -> {_value(field, now)}"


def _value(field: str, value: Any) -> str:
    if value is None:
        return "own" if _OWN.fullmatch(field) else "none"
    if isinstance(value, int) and not isinstance(value, bool):
        if field.endswith("_ms"):
            return duration(value)
        return percent(value) if field.endswith("_ppm") else f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
