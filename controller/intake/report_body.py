"""Parses the body of a report, of every schema version that this release reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, FailFast, Field, TypeAdapter

from tidemark.controller.intake.report_v1 import REPORT_V1
from tidemark.controller.intake.sent_bodies import parse_sent
from tidemark.models.base.operators import Operator
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import REPORT_SCHEMA, Report


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


VERSIONS: Mapping[int, TypeAdapter[Report]] = {REPORT_SCHEMA: TypeAdapter(ReportBody), 1: REPORT_V1}
"""What validates a report, by the schema versions that this release reads."""


def parse_report(body: bytes) -> Report:
    """Parse and validate a report of every version that this release reads. Raises as ``parse_sent`` does."""
    return parse_sent(VERSIONS, body)
