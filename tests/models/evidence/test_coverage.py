"""Coverage: a gap in batch ids is a gap, whatever the order of the reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.evidence.coverage import Coverage, coverage_of


@pytest.mark.parametrize(
    ("batch_ids", "expected"),
    [
        ([7], Coverage(7, 7, ())),
        ([3, 1, 2, 2], Coverage(1, 3, ())),
        ([0, 4, 6], Coverage(0, 6, ((1, 3), (5, 5)))),
    ],
)
def test_gaps_are_ranges_of_ids_between_the_first_and_the_last(
    batch_ids: list[int], expected: Coverage
) -> None:
    """What came before the first report was not watched and is no gap."""
    assert coverage_of((batch, batch) for batch in batch_ids) == expected


@given(st.lists(st.integers(0, 40), min_size=1))
def test_every_id_between_is_either_reported_or_missing(batch_ids: list[int]) -> None:
    """None is forgotten, none is counted twice."""
    coverage = coverage_of((batch, batch) for batch in batch_ids)
    assert coverage is not None
    missing = [batch for first, last in coverage.missing for batch in range(first, last + 1)]
    assert sorted([*missing, *set(batch_ids)]) == list(range(min(batch_ids), max(batch_ids) + 1))
    assert coverage.missing_batches == len(missing)


def test_without_reports_there_is_no_coverage() -> None:
    """None, not complete."""
    assert coverage_of([]) is None
