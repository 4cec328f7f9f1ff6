"""Conditions: what somebody should know of a stream, each only while it holds."""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.controller.api.schemas import Condition
from tidemark.controller.decision import steps_of
from tidemark.controller.store.specs import Spec
from tidemark.controller.store.tables import AcknowledgementRow, PublishedRow, RecommendationRow, StreamRow
from tidemark.models.defaults import NO_DATA_GAPS
from tidemark.models.duration import format_about, format_duration
from tidemark.models.horizon import Facts
from tidemark.models.progress import Progress
from tidemark.models.slo import Slo

__all__ = ["conditions_of"]


def conditions_of(
    stream: StreamRow,
    *,
    slo: Spec[Slo] | None,
    known: Facts | None,
    progress: Progress | None,
    recommendation: RecommendationRow | None,
    published: PublishedRow | None,
    applied: AcknowledgementRow | None,
) -> list[Condition]:
    """Return the conditions that hold."""
    return [
        *_expected(stream),
        *_specified(slo),
        *_observed(known),
        *_silent(progress),
        *_decided(recommendation),
        *_rolled(published, applied),
    ]


def _expected(stream: StreamRow) -> Iterator[Condition]:
    if stream.registered_us is None:
        yield Condition(type="NoReportYet", detail="no report has come; the stream is expected")


def _specified(slo: Spec[Slo] | None) -> Iterator[Condition]:
    if slo is None:
        yield Condition(type="NoSlo", detail="no SLO is set, so nothing is recommended")


def _observed(known: Facts | None) -> Iterator[Condition]:
    if known is None:
        return
    if known.missing_batches:
        detail = f"{known.missing_batches:,} batches were never reported: completeness is unknown there"
        yield Condition(type="CoverageGap", detail=detail)
    if known.uncounted_rows:
        detail = f"{known.uncounted_rows:,} rows were not counted by granule: their fate is unknown"
        yield Condition(type="RowsNotCounted", detail=detail)
    if known.unknown_rows > known.uncounted_rows:
        detail = f"the need of {known.unknown_rows:,} rows is not known: no base was known for their batches"
        yield Condition(type="NeedsUnknown", detail=detail)


def _silent(progress: Progress | None) -> Iterator[Condition]:
    if progress is None:
        return
    silent_us, gap_us = progress.silent_us, progress.batch_gap_us
    if silent_us is not None and gap_us is not None and silent_us > NO_DATA_GAPS * gap_us:
        detail = (
            f"no report for {format_about(silent_us)}, where {format_about(gap_us)} between batches is typical: "
            "the recommendation is held and nothing is narrowed; is the job running?"
        )
        yield Condition(type="NoRecentReport", detail=detail)
    if progress.silent_partitions:
        detail = (
            f"{progress.silent_partitions:,} partitions that used to report are silent: nothing is narrowed, "
            "because what they hold back may come late; see /partitions"
        )
        yield Condition(type="PartitionsSilent", detail=detail)


def _decided(recommendation: RecommendationRow | None) -> Iterator[Condition]:
    if recommendation is None:
        return
    name, bound_ms, reason = steps_of(recommendation)[0]
    if name == "quantile" and bound_ms is None:
        yield Condition(type="NotEnoughEvidence", detail=reason)
    if recommendation.conflict:
        detail = next(reason for name, _, reason in steps_of(recommendation) if name == "latency cap")
        yield Condition(type="ConstraintsConflict", detail=detail)


def _rolled(published: PublishedRow | None, applied: AcknowledgementRow | None) -> Iterator[Condition]:
    if published is None or published.bound_ms is None:
        return
    if applied is not None and applied.generation == published.generation:
        return
    bound = format_duration(published.bound_ms * 1_000)
    if applied is None:
        has = "the job has acknowledged none"
    elif applied.generation is None:
        has = f"the job last acknowledged its own bound, {format_duration(applied.bound_ms * 1_000)}"
    else:
        has = f"the job last acknowledged generation {applied.generation}, {format_duration(applied.bound_ms * 1_000)}"
    yield Condition(
        type="BoundNotAcknowledged", detail=f"generation {published.generation}, {bound}, is published; {has}"
    )
