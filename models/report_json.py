"""Reads reports that a controller answers with, without a validation library: a Spark driver has none."""

from __future__ import annotations

from tidemark.models.read_json import read_object
from tidemark.models.wire import REPORT_SCHEMA, Report


def read_report(value: object) -> Report:
    """Return the report in a decoded JSON ``value``, as ``to_json_object`` made it.

    Raises:
        ValueError: when this release cannot read it.
    """
    if not isinstance(value, dict) or value.get("schema_version") != REPORT_SCHEMA:
        raise ValueError("a report of another version")
    return read_object(Report, value)
