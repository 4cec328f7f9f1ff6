"""The merged watermark: Flink's example, and Hazelcast's invariant for any rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.watermark import MergedWatermark


def clock(text: str) -> int:
    """Return ``"hh:mm"`` in minutes."""
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def test_each_takes_its_maximum_and_the_merge_the_minimum_of_those() -> None:
    """Flink's max-then-min, two sub-streams that start at 10:30 with bounds of 0."""
    merged = MergedWatermark({"a": 0, "b": 0}, start_us=clock("10:30"))
    steps = [
        (("10:20", "10:29"), ("10:30", "10:31"), "10:30"),
        (("10:28", "10:29"), ("10:31", "10:35"), "10:30"),
        (("10:28", "10:30"), ("10:36", "10:40"), "10:30"),
        (("10:34", "10:36"), ("10:39", "10:45"), "10:36"),
    ]
    for of_a, of_b, expected in steps:
        for name, times in (("a", of_a), ("b", of_b)):
            for time in times:
                merged.advance(name, clock(time))
        assert merged.merged_us == clock(expected)
    assert (merged.own_us("a"), merged.own_us("b")) == (clock("10:36"), clock("10:45"))


streams = st.dictionaries(st.sampled_from("abcd"), st.integers(-20, 50), min_size=1)
rows = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-100, 100)), max_size=60)


@given(streams, rows, st.none() | st.integers(-100, 100))
def test_a_row_not_late_in_its_own_sub_stream_is_never_late_in_the_merge(
    bounds: dict[str, int], arrivals: list[tuple[str, int]], start: int | None
) -> None:
    """Hazelcast's invariant: merging partitions never costs a row."""
    merged = MergedWatermark(bounds, start)
    for name, time in arrivals:
        if name not in bounds:
            continue
        own, whole = merged.own_us(name), merged.merged_us
        if own is None or time > own:
            assert whole is None or time > whole
        merged.advance(name, time)


@given(streams, rows, st.none() | st.integers(-100, 100))
def test_the_merge_is_the_least_of_the_greatest_and_never_goes_back(
    bounds: dict[str, int], arrivals: list[tuple[str, int]], start: int | None
) -> None:
    """Against the definition computed anew from all rows so far; and while one has shown nothing there is none."""
    merged = MergedWatermark(bounds, start)
    shown: dict[str, list[int]] = {name: [] if start is None else [start] for name in bounds}
    before = start
    for name, time in arrivals:
        if name not in bounds:
            continue
        shown[name].append(time - bounds[name])
        now = merged.advance(name, time)
        assert now == (min(map(max, shown.values())) if all(shown.values()) else None)
        assert now == merged.merged_us
        assert before is None or (now is not None and now >= before)
        before = now


def test_a_sub_stream_nobody_named_is_refused() -> None:
    """Added unseen it would take the merge back."""
    with pytest.raises(KeyError):
        MergedWatermark({"a": 0}).advance("b", 1)


def test_a_merge_of_nothing_is_refused() -> None:
    """The minimum of nothing would be no limit at all."""
    with pytest.raises(ValueError, match="at least one sub-stream"):
        MergedWatermark({})
