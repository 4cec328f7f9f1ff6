"""Parses the body of a report, of every schema version that this release reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, FailFast, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from tidemark.controller.api.bodies import parse_body, problem_of
from tidemark.controller.errors import ErrorItem, UnknownSchemaVersionError
from tidemark.controller.intake.report_v1 import REPORT_V1
from tidemark.models.granule_counts import GranuleCounts
from tidemark.models.operators import Operator
from tidemark.models.wire import REPORT_SCHEMA, Report

KNOWN_SCHEMA_VERSIONS = (1, REPORT_SCHEMA)
"""Versions of a report that this release reads."""


def _whole_number(value: object) -> object:
    # A literal takes true and 2.0 for 2; a version is neither.
    if type(value) is not int:
        raise ValueError("must be a whole number")
    return value


# A column stops at its first error: a list of them would cost more than the report.
_Counts = Annotated[tuple[int, ...], Field(max_length=100_000), FailFast()]
_Cells = Annotated[tuple[int, ...], Field(max_length=1_000_000), FailFast()]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsBody(GranuleCounts):
    """A batch's rows, counted by partition and event-time granule, in columns.

    A cell is a granule of a partition with rows. The cells stand partition after partition, the oldest granule first.
    """

    partitions: Annotated[
        tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=100_000), FailFast()
    ]
    """Names of the partitions: the Kafka partition's number, or the value of the column the job named."""
    sizes: _Counts
    """Cells of each partition."""
    granules: _Cells
    """Of each partition the index of its first granule, then the distance of each one from the one before, above 0."""
    rows: _Cells
    """Rows in each cell, above 0."""
    future_rows: _Counts
    """Rows of each partition that were future-dated and set back to the clock before they could move the watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBody(Report):
    """What one micro-batch of one stream observed: the unit of evidence, idempotent by (query id, batch id).

    Reports of schema version 1, which had an object for each partition, are taken too.
    """

    schema_version: Annotated[Literal[2], BeforeValidator(_whole_number)]
    """Version of this schema."""
    counts: CountsBody
    """Counts by partition and granule. Empty when they could not be counted exactly (rows still gives their number)."""
    operator: Annotated[Operator, Field(discriminator="kind")]
    """The stateful operator whose rows the bound is for; it decides what the watermark is compared with."""


_CURRENT = TypeAdapter(ReportBody)


def parse_report(body: bytes) -> Report:
    """Parse and validate a report.

    Raises:
        MalformedBodyError: when it is not JSON.
        UnknownSchemaVersionError: when its ``schema_version`` is one that this release does not read.
        InvalidBodyError: when it is JSON but does not fit the schema of its version.
    """
    try:
        return _CURRENT.validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
    version = _other_version(found)
    if version is None:
        raise problem_of(found, body)
    if version == 1:
        return parse_body(REPORT_V1, body)
    known = ", ".join(map(str, KNOWN_SCHEMA_VERSIONS))
    detail = f"schema_version {version} is unknown; this release reads {known}"
    raise UnknownSchemaVersionError(
        detail, known=KNOWN_SCHEMA_VERSIONS, errors=(ErrorItem("/schema_version", detail),)
    )


def _other_version(found: list[ErrorDetails]) -> int | None:
    """Return the version that a body has instead of the current one; None when that is not what is wrong."""
    for error in found:
        if (
            error["loc"] == ("schema_version",)
            and error["type"] == "literal_error"
            and type(error["input"]) is int
        ):
            return error["input"]
    return None
