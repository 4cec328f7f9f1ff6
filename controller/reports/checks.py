"""Checks of a report beyond the ranges of its fields: what they make together is in range too, and fits its address.

A report that passes can be judged, summed and stored without overflow and in bounded time. Any other is rejected
whole: a half-read report is worse than none.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.controller.base.errors import MAX_ERRORS, ErrorItem, InvalidBodyError
from tidemark.models.base.operators import TimeWindow
from tidemark.models.base.ranges import MAX_COUNT, MAX_KEYS_PER_ROW, MAX_TIME_US
from tidemark.models.evidence.key_counts import cells_of, table_size
from tidemark.models.protocol.messages import Acknowledgement, Report

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
            *_append_delay(report),
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
    _reject([*_names({"query_id": acknowledgement.query_id, "run_id": acknowledgement.run_id})])


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


def _sizes(report: Report) -> Iterator[ErrorItem]:
    keys = report.operator.max_keys
    if keys > MAX_KEYS_PER_ROW:
        yield ErrorItem(
            "/operator",
            f"a row is in up to {keys:,} windows, more than the {MAX_KEYS_PER_ROW:,} that it may be in; a longer slide "
            "makes fewer",
        )
    elif report.rows * keys > MAX_COUNT:
        yield ErrorItem(
            "/rows",
            f"{report.rows:,} rows in {keys:,} windows each are more than the {MAX_COUNT:,} (row, window) pairs that "
            "can be counted exactly",
        )
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


def _append_delay(report: Report) -> Iterator[ErrorItem]:
    delay = report.append_delay
    if delay is not None and not delay.min_us <= delay.mean_us <= delay.max_us:
        yield ErrorItem("/append_delay/mean_us", "the mean is not between the minimum and the maximum")


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
    if windows > MAX_KEYS_PER_ROW:
        yield ErrorItem(
            "/operator",
            f"the report's rows are in {windows:,} windows, more than the {MAX_KEYS_PER_ROW:,} that it may have; a "
            "longer slide makes fewer",
        )
    elif sums > _MAX_SUMS:
        yield ErrorItem(
            "/operator",
            f"{len(report.counts.partitions):,} partitions in {windows:,} windows are more than the {_MAX_SUMS:,} sums "
            "that a report may have; a longer slide makes fewer windows",
        )
