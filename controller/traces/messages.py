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
from numpy.typing import NDArray

from tidemark.controller.traces.format import Trace, TraceError, index_of_names
from tidemark.controller.traces.times import Unit, UnitMissingError, times_us
from tidemark.models.base.operators import Int64s

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
        known = event_known & arrival_known
        partition, offset = np.array(taken, np.int64).T
        self._parts.append(
            tuple(column[known] for column in (event_us, arrival_us, partition, offset)),
        )

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
        times, known = np.zeros(len(raw), np.int64), np.zeros(len(raw), np.bool_)

        def read(first: int, last: int) -> None:
            """Read a run of times at once; on failure halve it until each value that is not a time stands alone."""
            try:
                column = pa.array(raw[first:last])
                times[first:last], known[first:last], zoned = times_us(
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
        return times, known

    def _count_no_times(self, known: NDArray[np.bool_], name: str | None) -> None:
        if wrong := int((~known).sum()):
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
