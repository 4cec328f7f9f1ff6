"""Names of streams that nobody named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.spark_jobs.attach.names import place_of, stream_name
from tidemark.spark_jobs.core.settings import JobSettings


@pytest.mark.parametrize(
    ("query", "checkpoint", "place"),
    [
        ("counts", "/jobs/other", "counts"),
        (None, "s3a://bucket/jobs/counts", "counts"),
        (None, "file:///jobs/counts/checkpoint", "counts"),
        (None, "/jobs/counts/_checkpoints/0", "counts"),
        (None, "hdfs://name/checkpoint/", "name"),
        (None, "/checkpoint", "checkpoint"),
        (None, None, ""),
    ],
)
def test_a_query_is_called_by_its_name_or_by_the_end_of_its_checkpoint_that_says_something(
    query: str | None, checkpoint: str | None, place: str
) -> None:
    assert place_of(query, checkpoint) == place


def test_a_stream_is_called_by_its_query_its_source_and_its_column() -> None:
    assert stream_name("counts", ["clicks"], "ts", []) == "counts.clicks.ts"
    assert stream_name("", ["clicks", "views", "clicks"], "ts", []) == "clicks+views.ts"
    assert stream_name("counts", [], "event time", []) == "counts.source.event time"


def test_equal_names_are_numbered_in_the_order_of_the_plan() -> None:
    taken: list[str] = []
    for _ in range(3):
        taken.append(stream_name("counts", ["clicks"], "ts", taken))
    assert taken == ["counts.clicks.ts", "counts.clicks.ts-2", "counts.clicks.ts-3"]


@given(st.text(), st.lists(st.text(), max_size=3), st.text(min_size=1))
def test_a_name_is_one_that_the_controller_takes(place: str, sources: list[str], column: str) -> None:
    taken = [stream_name(place_of(place, None), sources, column, [])]
    taken.append(stream_name(place_of(place, None), sources, column, taken))
    read = [JobSettings.read(lambda _, default: default, stream=each).stream for each in taken]
    assert read == taken
