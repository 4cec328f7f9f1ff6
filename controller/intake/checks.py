"""Checks of a report beyond its schema: arithmetic and store can hold it, and it fits its address.

A report that passes can be judged, summed and stored without overflow and in bounded time. Any other is rejected
whole: a half-read report is worse than none.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.controller.errors import MAX_ERRORS, ErrorItem, InvalidBodyError
from tidemark.models.cells import cells_of
from tidemark.models.coupling import Chain
from tidemark.models.key_counts import table_size
from tidemark.models.operators import Operator, SessionWindow, TimeWindow
from tidemark.models.wire import Acknowledgement, Report

MAX_TIME_US = 2**60
"""Maximum distance of a time from the epoch in microseconds, some 36,000 years; sums of a few still fit in 64 bits."""

MAX_DURATION_MS = MAX_TIME_US // 1_000
"""Maximum duration in milliseconds."""

_MAX_ROWS = 2**40
"""Maximum number of rows in a batch: a million such batches can be summed in 64 bits."""

_MAX_WINDOWS = 50_000
"""Maximum number of windows that the rows of a report are in: each is a row of the ledger."""

_MAX_SUMS = 4_000_000
"""Maximum number of sums by partition and sliding window in a report, which limits its cost in time and memory."""


def check_report(report: Report, job: str, stream: str) -> None:
    """Check a report that was sent to the address of ``stream`` of ``job``.

    Raises:
        InvalidBodyError: when it cannot be accepted; it names every reason.
    """
    _reject(
        [
            *_address(report, job, stream),
            *_sizes(report),
            *_future_rows(report),
            *_live(report),
            *_names({"query_id": report.query_id, "run_id": report.run_id}),
            *_names({"contradiction": report.contradiction or ""}),
            *(
                ErrorItem(
                    f"/counts/partitions/{index}", "a partition's name cannot hold the character U+0000"
                )
                for index, name in enumerate(report.counts.partitions)
                if "\0" in name
            ),
        ]
    )
    # What follows computes with the times that were checked.
    _reject(list(_granules(report)))
    _reject(list(_windows(report)))


def check_acknowledgement(acknowledgement: Acknowledgement) -> None:
    """Check an acknowledgement.

    Raises:
        InvalidBodyError: when it cannot be accepted; it names every reason.
    """
    chain = acknowledgement.chain or Chain()
    _reject(
        [
            *_times({"applied_us": acknowledgement.applied_us}, MAX_TIME_US, "microseconds"),
            *_times(
                {
                    "bound_ms": acknowledgement.bound_ms,
                    "ceiling_ms": acknowledgement.ceiling_ms,
                    "chain/retention_ms": chain.retention_ms,
                    "chain/horizon_ms": chain.horizon_ms,
                    "chain/others_ms": chain.others_ms,
                },
                MAX_DURATION_MS,
                "milliseconds",
            ),
            *_names({"query_id": acknowledgement.query_id, "run_id": acknowledgement.run_id}),
        ]
    )


def _reject(errors: list[ErrorItem]) -> None:
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidBodyError(
            f"{errors[0].pointer}: {errors[0].detail}{more}", errors=tuple(errors[:MAX_ERRORS])
        )


def _address(report: Report, job: str, stream: str) -> Iterator[ErrorItem]:
    for name, body, path in (("job", report.job, job), ("stream", report.stream, stream)):
        if body != path:
            yield ErrorItem(
                f"/{name}", f"the report is of {name} {body!r} but was sent to the address of {path!r}"
            )


def _names(names: dict[str, str]) -> Iterator[ErrorItem]:
    for field, name in names.items():
        if not name.isprintable():
            yield ErrorItem(f"/{field}", f"{field} has printable characters only")


def _times(values: dict[str, int | None], limit: int, unit: str) -> Iterator[ErrorItem]:
    for field, value in values.items():
        if value is not None and abs(value) > limit:
            yield ErrorItem(f"/{field}", f"{value} {unit} is further from 0 than the limit of {limit}")


def _sizes(report: Report) -> Iterator[ErrorItem]:
    us = {
        name: getattr(report, name)
        for name in ("started_us", "granule_us", "min_event_time_us", "max_event_time_us")
    }
    ms = {
        name: getattr(report, name)
        for name in (
            "duration_ms",
            "bound_ms",
            "late_watermark_ms",
            "watermark_ms",
            "final_watermark_ms",
            "late_base_ms",
        )
    }
    yield from _times(us, MAX_TIME_US, "microseconds")
    yield from _times(ms, MAX_DURATION_MS, "milliseconds")
    if max(_operator_times(report.operator)) > MAX_TIME_US:
        yield ErrorItem("/operator", f"its times exceed the limit of {MAX_TIME_US} microseconds")
    if report.rows > _MAX_ROWS:
        yield ErrorItem("/rows", f"{report.rows} rows in a batch are more than the limit of {_MAX_ROWS}")
    if (report.min_event_time_us is None) != (report.max_event_time_us is None):
        yield ErrorItem(
            "/min_event_time_us", "the minimum and the maximum event time are both known or both null"
        )
    elif report.min_event_time_us is not None and report.min_event_time_us > (report.max_event_time_us or 0):
        yield ErrorItem("/min_event_time_us", f"it is above max_event_time_us {report.max_event_time_us}")
    elif report.max_event_time_us is None and report.rows > report.null_rows:
        yield ErrorItem(
            "/max_event_time_us", f"it is null, but {report.rows - report.null_rows} rows have an event time"
        )


def _future_rows(report: Report) -> Iterator[ErrorItem]:
    if not any(report.counts.future_rows):
        return
    for index, part in enumerate(report.counts.by_partition()):
        if part.future_rows > part.rows:
            yield ErrorItem(
                f"/counts/future_rows/{index}",
                f"{part.future_rows} future-dated rows are more than the partition's {part.rows}",
            )


def _live(report: Report) -> Iterator[ErrorItem]:
    live, delay = report.live, report.append_delay
    if live is not None:
        ms = {"live/ceiling_ms": live.ceiling_ms, "live/control_ms": live.control_ms}
        yield from _times(ms, MAX_DURATION_MS, "milliseconds")
        yield from _times({"live/last_contact_us": live.last_contact_us}, MAX_TIME_US, "microseconds")
    if delay is not None:
        us = {f"append_delay/{name}_us": getattr(delay, f"{name}_us") for name in ("min", "mean", "max")}
        yield from _times(us, MAX_TIME_US, "microseconds")
        if not delay.min_us <= delay.mean_us <= delay.max_us:
            yield ErrorItem("/append_delay/mean_us", "the mean is not between the minimum and the maximum")


def _operator_times(operator: Operator) -> tuple[int, ...]:
    if isinstance(operator, TimeWindow):
        return operator.size_us, operator.slide_us, operator.start_us
    return (operator.gap_us if isinstance(operator, SessionWindow) else 0,)


def _granules(report: Report) -> Iterator[ErrorItem]:
    counts = report.counts
    for position, first, last in counts.edges():
        if max(abs(first), abs(last + 1)) * report.granule_us > MAX_TIME_US:
            name = counts.partitions[position]
            yield ErrorItem(
                "/counts/granules",
                f"those of partition {name!r} reach beyond {MAX_TIME_US} microseconds from the epoch",
            )


def _windows(report: Report) -> Iterator[ErrorItem]:
    operator = report.operator
    if not isinstance(operator, TimeWindow) or operator.max_keys == 1:
        return
    windows, sums = table_size(operator, cells_of(report), report.granule_us)
    if windows > _MAX_WINDOWS:
        yield ErrorItem(
            "/operator",
            f"the report's rows are in {windows:,} windows, more than the {_MAX_WINDOWS:,} that it may have; a longer "
            "slide makes fewer",
        )
    elif sums > _MAX_SUMS:
        yield ErrorItem(
            "/operator",
            f"{len(report.counts.partitions):,} partitions in {windows:,} windows are more than the {_MAX_SUMS:,} sums "
            "that a report may have; a longer slide makes fewer windows",
        )
