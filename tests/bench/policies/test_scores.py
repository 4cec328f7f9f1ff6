"""The scores of a batch: what a ring keeps of it."""

from __future__ import annotations

from tidemark.models.live.policy import Observation

from bench.policies.rows import scores_of
from support.seen import UNKNOWN_US, seen_rows


def test_scores_are_the_known_needs_at_least_0_in_order() -> None:
    scores = scores_of(seen_rows(0, [30, -5, 10, UNKNOWN_US, 7], count=[1, 2, 3, 4, 0]))
    assert scores is not None
    assert (scores.value_us.tolist(), scores.count.tolist()) == ([0, 10, 30], [2, 3, 1])


def test_without_a_row_of_known_need_there_is_no_score() -> None:
    assert scores_of(Observation(now_us=0)) is None
    assert scores_of(seen_rows(0, [UNKNOWN_US, 5], count=[1, 0])) is None
