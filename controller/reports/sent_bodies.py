"""Parses what jobs send. A job may be of a later release than this controller, or of an earlier one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, FailFast, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json, to_json

from tidemark.controller.base.errors import ErrorItem, UnknownSchemaVersionError
from tidemark.controller.base.parse_body import MAX_REPEATED_BYTES, problem_of
from tidemark.models.base.operators import Operator
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import READ_AS, REPORT_SCHEMA, Report

T = TypeVar("T")


def _whole_number(value: object) -> object:
    # A literal takes true and 1.0 for 1; a version is neither.
    if type(value) is not int:
        raise ValueError("must be a whole number")
    return value


# A column stops at its first error: a list of them would cost more than the report.
_Counts = Annotated[tuple[int, ...], Field(max_length=100_000), FailFast()]
_Cells = Annotated[tuple[int, ...], Field(max_length=300_000), FailFast()]


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
    """What one micro-batch of one stream observed: the unit of evidence, idempotent by (query id, batch id)."""

    schema_version: Annotated[Literal[1], BeforeValidator(_whole_number)]
    """Version of this schema."""
    counts: CountsBody
    """Counts by partition and granule. Empty when they could not be counted exactly (rows still gives their number)."""
    operator: Annotated[Operator, Field(discriminator="kind")]
    """The stateful operator whose rows the bound is for; it decides what the watermark is compared with."""


def parse_sent(adapter: TypeAdapter[T], body: bytes, version: int = 1) -> T:
    """Parse and validate what a job sent.

    Fields that this release does not know are ignored, and values that it does not know are read as ``READ_AS`` says.

    Args:
        adapter: validates it.
        body: what was sent.
        version: the ``schema_version`` that this release reads.

    Raises:
        MalformedBodyError: when it is not JSON.
        UnknownSchemaVersionError: when its ``schema_version`` is another one.
        InvalidBodyError: when it is JSON but does not fit the schema.
    """
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        errors = _errors(error, body)
    sent = _other_version(errors)
    if sent is not None:
        older = "this controller" if sent > version else "the job"
        detail = f"schema_version {sent} is unknown; this release reads {version}: update {older}"
        raise UnknownSchemaVersionError(
            detail, known=(version,), errors=(ErrorItem("/schema_version", detail),)
        )
    if any(map(_of_a_later_release, errors)):
        document = from_json(body)
        _read_as_known(document, errors)
        try:
            return adapter.validate_json(to_json(document))
        except ValidationError as error:
            errors = [fault for fault in _errors(error, body) if not _of_a_later_release(fault)]
    raise problem_of(errors, body)


_REPORT: TypeAdapter[Report] = TypeAdapter(ReportBody)


def parse_report(body: bytes) -> Report:
    """Parse and validate a report. Raises as ``parse_sent`` does."""
    return parse_sent(_REPORT, body, REPORT_SCHEMA)


def _errors(error: ValidationError, body: bytes) -> list[ErrorDetails]:
    small = len(body) <= MAX_REPEATED_BYTES
    # A version and a word of a later release are read there.
    small = small or any(fault["type"] == "literal_error" for fault in error.errors(include_input=False))
    return error.errors(include_url=False, include_input=small)


def _other_version(errors: list[ErrorDetails]) -> int | None:
    """Return the version that a body has instead; None when that is not what is wrong."""
    for error in errors:
        if (
            error["loc"] == ("schema_version",)
            and error["type"] == "literal_error"
            and type(error["input"]) is int
        ):
            return error["input"]
    return None


def _of_a_later_release(error: ErrorDetails) -> bool:
    """Return whether an error is a value that this release need not know."""
    place = error["loc"][-2:]
    may_be_new = (place[-1:] and place[-1] in READ_AS) or place[0:1] == ("choices",)
    return error["type"] == "literal_error" and type(error["input"]) is str and bool(may_be_new)


def _read_as_known(document: Any, errors: list[ErrorDetails]) -> None:
    """Put in place of values that this release does not know what it reads them as; choices are left out."""
    for error in reversed(errors):
        if _of_a_later_release(error):
            *way, last = error["loc"]
            holder = reduce(lambda part, step: part[step], way, document)
            if isinstance(last, str):
                holder[last] = READ_AS[last]
            else:
                del holder[last]
