"""Reports of schema version 1, which had an object for each partition.

Drivers of an older release send them, and older releases stored them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, FailFast, Field, TypeAdapter

from tidemark.models.base.operators import Operator
from tidemark.models.protocol.granule_counts import GranuleCounts, PartitionCounts
from tidemark.models.protocol.messages import REPORT_SCHEMA, Report, ReportedBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportV1(ReportedBatch):
    """A report of version 1."""

    schema_version: Literal[1]
    """Version of this schema."""
    partitions: Annotated[tuple[PartitionCounts, ...], Field(max_length=100_000), FailFast()]
    """Counts by partition and granule."""
    operator: Annotated[Operator, Field(discriminator="kind")]
    """The stateful operator."""


def _current(report: ReportV1) -> Report:
    """Return the same report as this release has it.

    Raises:
        ValueError: when it cannot be judged.
    """
    facts = {each.name: getattr(report, each.name) for each in fields(ReportedBatch)}
    return Report(schema_version=REPORT_SCHEMA, counts=GranuleCounts.of(report.partitions), **facts)


REPORT_V1: TypeAdapter[Report] = TypeAdapter(
    cast("type[Report]", Annotated[ReportV1, AfterValidator(_current)])
)
"""Validates a report of version 1, and returns it as this release has it."""
