"""Makes a trace from the messages of a Kafka topic. Pure: no Kafka, no clock.

The partition is Kafka's; the arrival is the timestamp of the message or a field of its value; the event time is a
field, a header or the timestamp. A message that cannot be read is left out and counted by its fault, because nobody can
correct a message in a topic.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidemark.controller.lab.traces.format import MAX_TIME_US, Trace, TraceError, index_of_names, one_line
from tidemark.models.base.operators import Int64s
from tidemark.models.base.text import format_number

EventTimeFrom = Literal["value", "header", "timestamp"]
TimestampType = Literal["CreateTime", "LogAppendTime"]


class Message(NamedTuple):
    """The parts of a message that a trace needs."""

    partition: int
    """Number of the partition in Kafka."""
    offset: int
    """Its offset in the partition."""
    timestamp_ms: int | None
    """Its timestamp, milliseconds since 1970 in UTC; None when it has none."""
    timestamp_type: TimestampType | None
    """Whose clock the timestamp is from: the producer's, or the broker's when it appended the message."""
    value: bytes | None
    """Its value; None for a tombstone."""
    headers: Sequence[tuple[str, bytes | None]] = ()
    """Its headers, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSources:
    """Where the times of a trace come from."""

    event_time: str
    """Field or header of the event time; ignored when the event time is the timestamp."""
    event_time_from: EventTimeFrom = "value"
    """Where the event time is: in the JSON value, in a header, or the message's timestamp."""
    arrival: str | None = None
    """Field of the value that holds the arrival; None for the message's timestamp."""
    unit: Unit | None = None
    """Unit of times that are numbers; None rejects them."""

    def __post_init__(self) -> None:
        """Reject sources that say nothing about delays."""
        if self.event_time_from == "timestamp" and self.arrival is None:
            raise TraceError(
                "event time and arrival would both be the message's timestamp: name the field of one of them"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTrace:
    """A trace of a topic, and what the user should know of it."""

    trace: Trace
    """The rows that could be read, by arrival; rows of one partition are in the order of their offsets."""
    unreadable: dict[str, int]
    """Number of messages left out, by fault."""
    timestamp_types: dict[TimestampType, int]
    """Number of messages by the type of their timestamp."""
    held_back: int
    """Rows with an earlier arrival time than a row in front of them in their partition. They count as arriving with
    that row, because no message overtakes another in a partition."""
    held_back_max_us: int
    """The longest time by which one of them was moved, in microseconds; 0 when there are none."""
    without_zone: tuple[str, ...]
    """Fields whose times had no zone and were taken as UTC."""


class TopicTraceBuilder:
    """Takes the messages of a topic in any order and in parts, and makes a trace of them.

    Args:
        sources: where the times come from.
    """

    def __init__(self, sources: TimeSources) -> None:
        self._sources = sources
        self._unreadable: Counter[str] = Counter()
        self._types: Counter[TimestampType] = Counter()
        self._without_zone: dict[str, None] = {}
        self._parts: list[tuple[Int64s, ...]] = []

    def add(self, messages: Iterable[Message]) -> None:
        """Add messages.

        Raises:
            UnitMissingError: when times are numbers and no unit was given.
        """
        taken, events, arrivals = [], [], []
        for message in messages:
            if message.timestamp_type is not None:
                self._types[message.timestamp_type] += 1
            try:
                event, arrival = self._raw_times(message)
            except _Unreadable as fault:
                self._unreadable[str(fault)] += 1
            else:
                taken.append((message.partition, message.offset))
                events.append(event)
                arrivals.append(arrival)
        if not taken:
            return
        event_us, event_known = self._times(events, self._event_name())
        arrival_us, arrival_known = self._times(arrivals, self._sources.arrival)
        self._count_no_times(event_known, self._event_name())
        self._count_no_times(arrival_known | ~event_known, self._sources.arrival)
        has_times = event_known & arrival_known
        partition, offset = np.array(taken, np.int64).T
        self._parts.append(tuple(column[has_times] for column in (event_us, arrival_us, partition, offset)))

    def build(self) -> TopicTrace:
        """Return the trace of all messages so far."""
        nothing = np.empty(0, np.int64)
        event, arrival, partition, offset = (
            np.concatenate([nothing, *(part[column] for part in self._parts)]) for column in range(4)
        )
        by_offset = np.lexsort((offset, partition))
        event, arrival, partition = event[by_offset], arrival[by_offset], partition[by_offset]
        moved = _running_max(arrival, partition)
        held_back = moved - arrival
        # The sort is stable: messages of one time stay in the order of partition and offset.
        order = np.argsort(moved, kind="stable")
        names: dict[str, int] = {}
        index = index_of_names(pa.array(partition[order]).cast(pa.string()), names)
        return TopicTrace(
            trace=Trace(event[order], moved[order], index, tuple(names)),
            unreadable=dict(self._unreadable.most_common()),
            timestamp_types=dict(self._types),
            held_back=int((held_back > 0).sum()),
            held_back_max_us=int(held_back.max(initial=0)),
            without_zone=tuple(self._without_zone),
        )

    # -- one message --------------------------------------------------------------------------------------------

    def _event_name(self) -> str | None:
        return None if self._sources.event_time_from == "timestamp" else self._sources.event_time

    def _raw_times(self, message: Message) -> tuple[Any, Any]:
        """Return event time and arrival as the message has them; a timestamp in microseconds."""
        sources = self._sources
        fields: dict[str, Any] = {}
        if sources.event_time_from == "value" or sources.arrival is not None:
            fields = _object_in(message.value)
        if sources.event_time_from == "value":
            event = _field(fields, sources.event_time)
        elif sources.event_time_from == "header":
            event = _header(message.headers, sources.event_time)
        else:
            event = _timestamp_us(message)
        if sources.arrival is None:
            return event, _timestamp_us(message)
        return event, _field(fields, sources.arrival)

    # -- many times ---------------------------------------------------------------------------------------------

    def _times(self, raw: list[Any], name: str | None) -> tuple[Int64s, NDArray[np.bool_]]:
        """Return times in microseconds and which of them are known; ``name`` is None for timestamps."""
        if name is None:
            return np.array(raw, np.int64), np.ones(len(raw), np.bool_)
        times, valid = np.zeros(len(raw), np.int64), np.zeros(len(raw), np.bool_)

        def read(first: int, last: int) -> None:
            """Read a run of times at once; on failure halve it until each value that is not a time stands alone."""
            try:
                column = pa.array(raw[first:last])
                times[first:last], valid[first:last], zoned = times_us(
                    column, self._sources.unit, f"{name!r}", first
                )
            except UnitMissingError:
                raise
            except (TraceError, pa.ArrowException, OverflowError):
                if last - first > 1:
                    middle = (first + last) // 2
                    read(first, middle)
                    read(middle, last)
            else:
                if not zoned:
                    self._without_zone[name] = None

        read(0, len(raw))
        return times, valid

    def _count_no_times(self, valid: NDArray[np.bool_], name: str | None) -> None:
        if wrong := int((~valid).sum()):
            self._unreadable[f"{name!r} is not a time"] += wrong


class _Unreadable(Exception):
    """A message that gives no row; the text is the fault."""


def _object_in(value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise _Unreadable("no value (a tombstone)")
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        raise _Unreadable("the value is not JSON") from None
    if not isinstance(parsed, dict):
        raise _Unreadable("the value is not a JSON object")
    return parsed


def _field(fields: dict[str, Any], name: str) -> Any:
    value = fields.get(name)
    if value is None or value == "":
        raise _Unreadable(f"no {name!r} in the value")
    if isinstance(value, bool):  # beside a fraction, Arrow would read it as 0 or 1
        raise _Unreadable(f"{name!r} is not a time")
    return value


def _header(headers: Sequence[tuple[str, bytes | None]], name: str) -> str:
    # A header that occurs twice was written again on the way; the last one counts, as in Kafka's own client.
    value = next((value for key, value in reversed(headers) if key == name), None)
    if value is None:
        raise _Unreadable(f"no header {name!r}")
    return value.decode("utf-8", "replace")


def _timestamp_us(message: Message) -> int:
    if message.timestamp_ms is None:
        raise _Unreadable("no timestamp")
    return message.timestamp_ms * 1_000


def _running_max(arrival_us: Int64s, partition: Int64s) -> Int64s:
    """Return the latest arrival so far in each row's partition; rows are in order of partition and offset."""
    starts = np.flatnonzero(np.diff(partition)) + 1
    runs = [np.maximum.accumulate(run) for run in np.split(arrival_us, starts)]
    return np.concatenate(runs)


Unit = Literal["s", "ms", "us", "ns"]

_PER_SECOND: dict[str, int] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_ZONED = r"[T ]\d{2}:.*(Z|[+-]\d{2}(:?\d{2})?)$"
_ISO = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?)?$"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"

Times = tuple[Int64s, NDArray[np.bool_], bool]
"""Times in microseconds, which of them are known, and whether all had a zone."""


class UnitMissingError(TraceError):
    """Times are numbers without a stated unit; a guessed unit could make delays of fifty years."""


def times_us(column: pa.Array, unit: Unit | None, where: str, first_row: int) -> Times:
    """Return the times that ``column`` holds.

    Args:
        column: timestamps, dates, text or numbers.
        unit: of times that are numbers, also in text; None rejects them.
        where: name of the column in errors.
        first_row: number of its first row, for errors.

    Raises:
        UnitMissingError: when it holds numbers and ``unit`` is None.
        TraceError: when a value is not a time.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_), True
    if pa.types.is_timestamp(kind):
        values, valid = _numbers(column.cast(pa.int64()))
        return _scaled(values, valid, kind.unit, where), valid, kind.tz is not None
    if pa.types.is_date(kind):
        values, valid = _numbers(column.cast(pa.timestamp("us")).cast(pa.int64()))
        return values, valid, False
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _of_text(pc.utf8_trim_whitespace(column.cast(pa.string())), unit, where, first_row)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _of_numbers(column, unit, where)
    raise TraceError(f"{where} is of type {kind}, which is not a time")


def _of_numbers(column: pa.Array, unit: Unit | None, where: str) -> Times:
    if unit is None:
        raise UnitMissingError(f"{where} holds numbers: give their unit with --unit s, ms, us or ns")
    whole = pa.types.is_integer(column.type)
    try:
        values, valid = _numbers(column.cast(pa.int64() if whole else pa.float64()))
    except pa.ArrowException as error:
        raise TraceError(f"{where}: {one_line(error)}") from None
    if whole:
        return _scaled(values, valid, unit, where), valid, True
    valid &= ~np.isnan(values)
    exact = np.where(valid, values, 0.0) * (1e6 / _PER_SECOND[unit])
    _check_range(exact, where, unit)
    return np.round(exact).astype(np.int64), valid, True


def _of_text(column: pa.Array, unit: Unit | None, where: str, first_row: int) -> Times:
    column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    valid: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    if not valid.any():
        return np.zeros(len(column), np.int64), valid, True
    if pc.all(pc.match_substring_regex(column, _NUMBER)).as_py():
        try:
            return _of_numbers(column.cast(pa.int64()), unit, where)
        except pa.ArrowException:
            return _of_numbers(column.cast(pa.float64()), unit, where)
    iso = pc.match_substring_regex(column, _ISO).fill_null(True).to_numpy(zero_copy_only=False)
    if not iso.all():
        wrong = int(np.argmin(iso))
        raise TraceError(f"{where}: {column[wrong].as_py()!r} at row {first_row + wrong} is not a time")
    # Arrow accepts no more digits than the unit has; digits finer than a microsecond are cut off.
    column = pc.replace_substring_regex(column, r"(\.\d{6})\d+", r"\1")
    zoned = pc.match_substring_regex(column, _ZONED).fill_null(True)
    nothing = pa.scalar(None, pa.string())
    try:
        with_zone = pc.if_else(zoned, column, nothing).cast(pa.timestamp("us", "UTC"))
        without = pc.if_else(zoned, nothing, column).cast(pa.timestamp("us"))
    except pa.ArrowException as error:
        raise TraceError(f"{where}: {one_line(error)}") from None
    values, _ = _numbers(pc.coalesce(with_zone.cast(pa.int64()), without.cast(pa.int64())))
    return values, valid, bool(pc.all(zoned).as_py())


def _numbers(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the values, 0 where null, and which are not null."""
    valid = column.is_valid().to_numpy(zero_copy_only=False).copy()
    return column.fill_null(0).to_numpy(zero_copy_only=False), valid


def _scaled(values: Int64s, valid: NDArray[np.bool_], unit: str, where: str) -> Int64s:
    per_second = _PER_SECOND[unit]
    if per_second > 1_000_000:
        return values // (per_second // 1_000_000)
    factor = 1_000_000 // per_second
    _check_range(np.where(valid, values, 0).astype(np.float64) * factor, where, unit)
    return values * factor


def _check_range(times_us: NDArray[np.float64], where: str, unit: str) -> None:
    if len(times_us) and not np.abs(times_us).max() <= MAX_TIME_US:
        worst = times_us[np.argmax(np.abs(times_us))] / 1e6 * _PER_SECOND[unit]
        raise TraceError(
            f"{where} holds {format_number(worst)}, which is not a time in {unit}: is the unit right?"
        )
