"""Reads reports that a controller answers with, without a validation library: a Spark driver has none."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tidemark.models.granule_counts import GranuleCounts
from tidemark.models.operators import Operator, RowLevel, SessionWindow, TimeWindow
from tidemark.models.wire import REPORT_SCHEMA, AppendDelay, LiveState, Report

_OPERATORS: dict[str, type[TimeWindow | SessionWindow | RowLevel]] = {
    "window": TimeWindow,
    "session": SessionWindow,
    "row": RowLevel,
}


def read_report(value: object) -> Report:
    """Return the report in a decoded JSON ``value``, as ``to_json_object`` made it.

    Raises:
        ValueError: when this release cannot read it.
    """
    if not isinstance(value, dict) or value.get("schema_version") != REPORT_SCHEMA:
        raise ValueError("a report of another version")
    try:
        return Report(
            **{
                **value,
                "operator": _operator(value["operator"]),
                "counts": _of(GranuleCounts, value["counts"]),
                "append_delay": _of(AppendDelay, value.get("append_delay")),
                "live": _of(LiveState, value.get("live")),
            }
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"a report of another version: {error}") from None


def _operator(value: dict[str, Any]) -> Operator:
    return _OPERATORS[value["kind"]](**value)


def _of(kind: type[Any], value: dict[str, Any] | None) -> Any:
    """Return a part of a report; JSON has lists where it has tuples."""
    if value is None:
        return None
    given = {name: tuple(each) if isinstance(each, list) else each for name, each in value.items()}
    unknown = given.keys() - {field.name for field in fields(kind)}
    if unknown:
        raise TypeError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    return kind(**given)
