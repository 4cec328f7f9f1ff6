"""From messages to a trace: order, times from every place, and every message that gives no row counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemark.controller.lab.traces.format import TraceError
from tidemark.controller.lab.traces.messages import Message, TimeSources, TopicTrace, TopicTraceBuilder

NOON_US = 1_714_564_800_000_000
NOON = "2024-05-01T12:00:00Z"
BY_FIELD = TimeSources(event_time="ts", unit="us")


def message(
    value: Any, partition: int = 0, offset: int = 0, timestamp_ms: int | None = 5, **changes: Any
) -> Message:
    """Return a message whose value is ``value`` as JSON; bytes and None are taken as they are."""
    raw = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    fields = {"timestamp_type": None if timestamp_ms is None else "CreateTime", **changes}
    return Message(partition, offset, timestamp_ms, value=raw, **fields)


def made(messages: list[Message], sources: TimeSources = BY_FIELD, part: int = 10**9) -> TopicTrace:
    builder = TopicTraceBuilder(sources)
    for first in range(0, len(messages), part):
        builder.add(messages[first : first + part])
    return builder.build()


def rows_of(found: TopicTrace) -> list[tuple[int, int, str]]:
    trace = found.trace
    names = (trace.partitions[index] for index in trace.partition)
    return list(zip(trace.event_time_us.tolist(), trace.arrival_time_us.tolist(), names, strict=True))


# -- order ---------------------------------------------------------------------------------------------------

TIMES_MS = st.lists(st.integers(0, 40), max_size=12)


@pytest.mark.slow
@given(st.lists(TIMES_MS, max_size=4), st.integers(1, 7), st.randoms(use_true_random=False))
def test_rows_are_by_time_partition_and_offset_and_no_row_overtakes_another_of_its_partition(
    times_ms: list[list[int]], part: int, random: Any
) -> None:
    """Whatever the timestamps say, and in whatever way the partitions come interleaved."""
    queues = [
        [message({"ts": offset}, partition, offset, time_ms) for offset, time_ms in enumerate(times)]
        for partition, times in enumerate(times_ms)
    ]
    messages = []
    while any(queues):
        messages.append(random.choice([queue for queue in queues if queue]).pop(0))
    expected = sorted(
        (max(times[: offset + 1]), partition, offset)
        for partition, times in enumerate(times_ms)
        for offset in range(len(times))
    )
    held = [max(times[: at + 1]) - time for times in times_ms for at, time in enumerate(times)]

    found = made(messages, part=part)

    assert rows_of(found) == [
        (offset, time_ms * 1_000, str(partition)) for time_ms, partition, offset in expected
    ]
    assert found.held_back == sum(late > 0 for late in held)
    assert found.held_back_max_us == max(held, default=0) * 1_000


# -- times ---------------------------------------------------------------------------------------------------


def test_text_and_numbers_may_stand_side_by_side() -> None:
    """Two versions of a producer write into one topic."""
    found = made([message({"ts": NOON}), message({"ts": NOON_US}, offset=1)])

    assert [event for event, _, _ in rows_of(found)] == [NOON_US, NOON_US]


def test_a_time_without_a_zone_is_taken_as_utc_and_that_is_reported() -> None:
    found = made([message({"ts": NOON}), message({"ts": "2024-05-01T12:00:00"}, offset=1)])

    assert [event for event, _, _ in rows_of(found)] == [NOON_US, NOON_US]
    assert found.without_zone == ("ts",)


def test_numbers_without_a_unit_are_rejected() -> None:
    """A guessed unit makes delays of fifty years."""
    with pytest.raises(TraceError, match="'ts' holds numbers: give their unit with --unit"):
        made([message({"ts": 5})], TimeSources(event_time="ts"))


def test_the_event_time_may_be_in_a_header_of_which_the_last_counts() -> None:
    headers = (("ts", b"1"), ("other", None), ("ts", NOON.encode()))
    found = made(
        [message(b"not JSON", headers=headers)], TimeSources(event_time="ts", event_time_from="header")
    )

    assert rows_of(found) == [(NOON_US, 5_000, "0")]


def test_the_event_time_may_be_the_timestamp_when_the_arrival_is_a_field() -> None:
    sources = TimeSources(event_time="", event_time_from="timestamp", arrival="seen")
    found = made([message({"seen": NOON})], sources)

    assert rows_of(found) == [(5_000, NOON_US, "0")]
    with pytest.raises(TraceError, match="would both be the message's timestamp"):
        TimeSources(event_time="", event_time_from="timestamp")


def test_the_types_of_timestamps_are_counted() -> None:
    """A topic's setting may have been changed."""
    messages = [
        message({"ts": 1}),
        message({"ts": 2}, offset=1, timestamp_type="LogAppendTime"),
        message({}, offset=2, timestamp_type="LogAppendTime"),
    ]

    assert made(messages).timestamp_types == {"CreateTime": 1, "LogAppendTime": 2}


# -- what cannot be read -------------------------------------------------------------------------------------

FAULTY: list[tuple[Message, str]] = [
    (message(None), "no value (a tombstone)"),
    (message(b"{"), "the value is not JSON"),
    (message(b"\xff\xfe"), "the value is not JSON"),
    (message(b""), "the value is not JSON"),
    (message(b"[" * 100_000), "the value is not JSON"),
    (message([1]), "the value is not a JSON object"),
    (message("text"), "the value is not a JSON object"),
    (message({}), "no 'ts' in the value"),
    (message({"ts": None}), "no 'ts' in the value"),
    (message({"ts": ""}), "no 'ts' in the value"),
    (message({"ts": "yesterday"}), "'ts' is not a time"),
    (message({"ts": "2024-13-01T00:00:00Z"}), "'ts' is not a time"),
    (message({"ts": True}), "'ts' is not a time"),
    (message({"ts": [1]}), "'ts' is not a time"),
    (message({"ts": {"a": 1}}), "'ts' is not a time"),
    (message({"ts": 10**30}), "'ts' is not a time"),
    (message({"ts": 2**62}), "'ts' is not a time"),
    (message({"ts": float("nan")}), "'ts' is not a time"),
    (message({"ts": float("inf")}), "'ts' is not a time"),
    (message({"ts": 1}, timestamp_ms=None), "no timestamp"),
]


@pytest.mark.parametrize(("faulty", "fault"), FAULTY)
def test_a_message_that_cannot_be_read_is_counted_by_its_fault(faulty: Message, fault: str) -> None:
    found = made([faulty])

    assert (len(found.trace), found.unreadable) == (0, {fault: 1})


@given(st.lists(st.integers(0, len(FAULTY)), max_size=60), st.integers(1, 20))
@example([17, 12], 2)  # a truth beside a fraction
def test_every_message_is_a_row_or_counted(drawn: list[int], part: int) -> None:
    """The readable ones come through whatever stands beside them."""
    messages, expected = [], []
    for offset, number in enumerate(drawn):
        if number == len(FAULTY):
            messages.append(message({"ts": offset}, offset=offset))
            expected.append(offset)
        else:
            messages.append(FAULTY[number][0]._replace(offset=offset))
    found = made(messages, part=part)

    assert [event for event, _, _ in rows_of(found)] == expected
    assert sum(found.unreadable.values()) == len(drawn) - len(expected)


def test_a_message_with_two_faulty_times_is_counted_once() -> None:
    sources = TimeSources(event_time="ts", arrival="seen", unit="us")
    messages = [
        message({"ts": "soon", "seen": "later"}),
        message({"ts": 1, "seen": "later"}, offset=1),
        message({"ts": 1}, offset=2),
        message({"ts": 1, "seen": 2}, offset=3),
    ]

    found = made(messages, sources)

    assert found.unreadable == {
        "'ts' is not a time": 1,
        "'seen' is not a time": 1,
        "no 'seen' in the value": 1,
    }
    assert rows_of(found) == [(1, 2, "0")]


def test_a_header_that_is_missing_is_counted() -> None:
    sources = TimeSources(event_time="ts", event_time_from="header")

    assert made([message({}, headers=(("ts", None),))], sources).unreadable == {"no header 'ts'": 1}
