"""What is said about a query whose ``transformWithState`` gives its rows an event time of their own."""

from __future__ import annotations

from dataclasses import replace

from tidemark.models.base.stateful import CONFIRMED_KEY
from tidemark.models.specs.findings import StreamStart, judge_own_times

KEPT = StreamStart(stream="in", bound_ms=10_000, own_bound_ms=10_000, last_bound_ms=None, live=False)
NARROWED = replace(KEPT, bound_ms=9_999)


def severities(*starts: StreamStart, confirmed: bool = False) -> list[str]:
    return [finding.severity for finding in judge_own_times(["ts"], starts, confirmed=confirmed)]


def test_nothing_is_said_about_other_chains() -> None:
    assert judge_own_times([], [NARROWED, replace(KEPT, live=True)], confirmed=False) == []


def test_a_bound_that_is_kept_or_wider_is_noted_and_a_narrower_one_is_an_error() -> None:
    assert severities(KEPT) == severities(replace(KEPT, bound_ms=10_001)) == ["note"]
    assert severities(NARROWED) == ["error"]


def test_the_last_bound_of_a_checkpoint_counts_and_not_the_jobs_own() -> None:
    assert severities(replace(KEPT, last_bound_ms=20_000)) == ["error"]
    assert severities(replace(NARROWED, last_bound_ms=9_999)) == ["note"]


def test_each_stream_of_the_query_counts_and_live_is_an_error_under_any_bound() -> None:
    assert severities(KEPT, NARROWED, replace(KEPT, live=True)) == ["error", "error"]


def test_what_is_confirmed_is_noted() -> None:
    assert severities(NARROWED, replace(KEPT, live=True), confirmed=True) == ["note"]


def test_an_error_says_which_bound_to_keep_and_how_to_confirm() -> None:
    (finding,) = judge_own_times(["ts"], [replace(KEPT, live=True)], confirmed=False)

    assert finding.instead.startswith("choose another mode than Live, and keep at least 10 s")
    assert f"{CONFIRMED_KEY}=true" in finding.instead
