"""Names of streams that nobody named."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.spark_jobs.attach.names import place_of, stream_name

from support.job_settings import read_settings


@pytest.mark.parametrize(
    ("query", "checkpoint", "place"),
    [
        ("counts", "/jobs/other", "counts"),
        (None, "s3a://bucket/jobs/counts", "counts"),
        (None, "file:///jobs/counts/checkpoint", "counts"),
        (None, "/jobs/counts/_checkpoints/0", "counts"),
        (None, "hdfs://name/checkpoint/", "name"),
        (None, "/checkpoint", ""),
        ("counts-1795885980588", None, "counts"),
        (None, "/jobs/window-watermark1795885980588", "window-watermark"),
        (None, "/jobs/counts/3f0c6c86-2a56-4e0c-8a35-5c0f4c9a0f0e/checkpoints", "counts"),
        (None, "/jobs/counts/20260308/chk", "counts"),
        (None, "/tmp/window-watermark5t24ewu6/checkpoints", ""),
        (None, "file:///tmp/window-watermark5t24ewu6", ""),
        (None, "hdfs://name/tmp/x5t24ewu6/counts", "counts"),
        (None, "/jobs/tmp/counts", "counts"),
        (None, None, ""),
    ],
)
def test_a_query_is_called_by_its_name_or_by_the_end_of_its_checkpoint_that_says_something(
    query: str | None, checkpoint: str | None, place: str
) -> None:
    assert place_of(query, checkpoint) == place


_DAYS = st.dates(date(2000, 1, 1), date(2100, 1, 1))
_VOLATILE = st.one_of(
    st.uuids().map(str),
    st.uuids().map(lambda drawn: drawn.hex),
    st.integers(10**9, 10**14).map(str),
    _DAYS.map(str),
    _DAYS.map(lambda drawn: f"{drawn}T05-30-00"),
)


@given(_VOLATILE, _VOLATILE, st.sampled_from(["counts-{}", "{}_counts", "counts.{}", "counts{}"]))
def test_what_changes_with_each_start_becomes_no_name(one: str, other: str, form: str) -> None:
    def names(drawn: str) -> list[str]:
        part = form.format(drawn)
        places = [
            place_of(part, None),
            place_of(None, f"/jobs/{part}/checkpoint"),
            place_of(None, f"/jobs/{part}"),
        ]
        return [stream_name(place, [part], "ts", []) for place in places]

    assert names(one) == names(other) == ["counts.counts.ts"] * 3


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
    read = [read_settings(lambda _, default: default, stream=each).stream for each in taken]
    assert read == taken
