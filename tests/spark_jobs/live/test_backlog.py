"""How far a query is behind Kafka, from all that Spark's progress may say of a source."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.spark_jobs.live.backlog import rows_behind

OFFSETS = st.dictionaries(
    st.text(min_size=1, max_size=3),
    st.dictionaries(st.integers(0, 12), st.integers(0, 10**12), min_size=1),
    min_size=1,
    max_size=3,
)
"""Offsets by topic and partition."""

NOT_KAFKA: list[Any] = [
    None,
    "",
    "{}",
    "null",
    "12",
    "[1, 2]",
    "not JSON",
    '{"rows": 12}',
    '{"logOffset": 3}',
    '{"topic": null}',
    '{"topic": {"0": null}}',
    '{"topic": {"0": "12"}}',
    '{"topic": {"0": 1.5}}',
    '{"topic": {"0": true}}',
    '{"topic": {"0": -1}}',
    '{"topic": {"a": 12}}',
    '{"topic": {"-1": 12}}',
    '{"topic": {"0": 12}, "other": 5}',
    '{"topic": {"0": 12',
    "[" * 100_000,
    json.dumps({"topic": {"1" * 5_000: 12}}),
    {"rows": 12},
    {},
]
"""What other sources say, and what nobody should."""


def text(offsets: dict[str, dict[int, int]]) -> str:
    return json.dumps(offsets)


@given(end=OFFSETS, read=st.data())
def test_the_rows_behind_are_the_latest_offset_less_the_one_reached_summed_over_topics(
    end: dict[str, dict[int, int]], read: st.DataObject
) -> None:
    behind = {
        topic: {partition: read.draw(st.integers(0, 10**6)) for partition in partitions}
        for topic, partitions in end.items()
    }
    latest = {
        topic: {partition: offset + behind[topic][partition] for partition, offset in partitions.items()}
        for topic, partitions in end.items()
    }
    expected: dict[str, int] = {}
    for partitions in behind.values():
        for partition, rows in partitions.items():
            expected[str(partition)] = expected.get(str(partition), 0) + rows

    found = rows_behind(None, text(end), text(latest))

    assert found == expected
    assert list(found) == sorted(found, key=int)


@given(offsets=st.integers(0, 100), latest=OFFSETS)
def test_a_topic_that_was_made_anew_has_none_behind_and_hides_none_of_another(
    offsets: int, latest: dict[str, dict[int, int]]
) -> None:
    """Its offsets begin anew, below those that were read."""
    anew = {partition: offsets for partitions in latest.values() for partition in partitions}
    read = {"made anew": dict.fromkeys(anew, 10**6)}

    found = rows_behind(None, text(read), text({**latest, "made anew": anew}))

    assert found == rows_behind(None, text({"another": {0: 0}}), text(latest))


@given(end=OFFSETS, latest=OFFSETS)
def test_offsets_may_come_as_text_or_parsed(
    end: dict[str, dict[int, int]], latest: dict[str, dict[int, int]]
) -> None:
    """``SourceProgress`` has text, ``progress.json`` has objects."""
    parsed = json.loads(text(end)), json.loads(text(latest))

    assert rows_behind(None, *parsed) == rows_behind(None, text(end), text(latest))


@pytest.mark.parametrize("other", NOT_KAFKA)
def test_what_is_not_kafka_s_is_not_known(other: Any) -> None:
    good = '{"topic": {"0": 12}}'

    assert rows_behind(good, good, other) is None
    assert rows_behind(other, other, good) is None


@given(st.text() | st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.floats()))
def test_no_input_makes_it_fail(other: Any) -> None:
    assert rows_behind(other, other, other) is None


def test_before_the_first_batch_the_start_counts() -> None:
    assert rows_behind('{"t": {"0": 5}}', None, '{"t": {"0": 12}}') == {"0": 7}


def test_a_partition_that_is_new_counts_from_its_beginning_and_one_that_is_gone_does_not_count() -> None:
    assert rows_behind(None, '{"t": {"0": 5, "1": 9}}', '{"t": {"0": 5, "2": 3}}') == {"0": 0, "2": 3}


def test_partitions_of_one_number_in_two_topics_are_added_up() -> None:
    latest = '{"a": {"0": 10, "10": 1}, "b": {"0": 4, "2": 1}}'

    assert rows_behind(None, '{"a": {"0": 3, "10": 0}, "b": {"0": 4, "2": 0}}', latest) == {
        "0": 7,
        "2": 1,
        "10": 1,
    }
