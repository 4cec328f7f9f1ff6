"""Scores by base, and the decision made of one bound a base."""

from __future__ import annotations

from tidemark.models.backtest.bounds import decision_of, scores_of
from tidemark.models.live.policy import Decision, Observation

from support.seen import UNKNOWN_US, seen_rows

SEEN = seen_rows(
    0,
    [30, -5, 10, UNKNOWN_US, 7],
    own_us=[3, -50, UNKNOWN_US, 4, 6],
    partition=[2, 0, 2, 0, 2],
    count=[1, 2, 3, 4, 0],
    partitions=3,
)


def test_the_streams_scores_are_the_known_needs_at_least_0_in_order() -> None:
    (scores,) = scores_of(SEEN, "global")
    assert (scores.group, scores.value_us.tolist(), scores.count.tolist()) == (0, [0, 10, 30], [2, 3, 1])
    assert scores.max_us == 30
    assert [scores.share_above(bound) for bound in (-1, 0, 10, 29, 30)] == [1.0, 4 / 6, 1 / 6, 1 / 6, 0.0]


def test_a_partitions_scores_are_its_own_needs() -> None:
    found = [(one.group, one.value_us.tolist(), one.count.tolist()) for one in scores_of(SEEN, "partition")]
    assert found == [(0, [0, 4], [2, 4]), (2, [3], [1])]


def test_without_a_row_of_known_need_there_is_no_score() -> None:
    assert scores_of(Observation(now_us=0), "global") == []
    assert scores_of(seen_rows(0, [UNKNOWN_US, 5], count=[1, 0]), "partition") == []


def test_a_base_of_which_nothing_is_known_takes_the_widest_bound_of_the_others() -> None:
    decided = decision_of([None, 3, 8], "partition").bounds_us
    assert decided is not None
    assert decided.tolist() == [8, 3, 8]
    assert decision_of([None, None], "partition") == decision_of([], "partition") == Decision()
    assert decision_of([5], "global") == Decision(bound_us=5)
    assert decision_of([None], "global") == Decision()
