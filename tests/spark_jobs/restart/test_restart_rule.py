"""When to restart: at once to lose fewer rows, late to save latency, and never in a frenzy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tidemark.models.protocol.messages import BoundAnswer
from tidemark.spark_jobs.core.bound import BoundCache, Choice, ChosenBound, OwnBounds
from tidemark.spark_jobs.restart.restart_rule import Change, DueChange, ProvenBounds, RestartRule, change_of

from support.job_settings import read_settings

COOLDOWN_S = 300.0
WIDER = Change(job="j", stream="s", before_ms=5_000, bound_ms=9_000, generation=4, pin=None)
NARROWER = replace(WIDER, bound_ms=2_000)
KEY = "j", "s"


def _answer(generation: int, bound_ms: int | None) -> BoundAnswer:
    return BoundAnswer(
        job="j", stream="s", mode="Restart", generation=generation, bound_ms=bound_ms, reason="r"
    )


def _rule(*, restarted_s: float | None = None, draw: Callable[[], float] = lambda: 0.0) -> RestartRule:
    return RestartRule(COOLDOWN_S, restarted_s, draw)


def _chosen(generation: int, bound_ms: int) -> ChosenBound:
    return ChosenBound(bound_ms, "controller", generation, "Restart", "r", _answer(generation, bound_ms))


def _choice(chosen: ChosenBound) -> Choice:
    settings = read_settings(dict[str, str]().get, job="j", stream="s")
    return Choice(settings, OwnBounds(60_000), None, BoundCache(Path("unused")), chosen)


# -- what is a change -------------------------------------------------------------------------------------------


def test_only_in_mode_restart_a_published_bound_is_worth_a_restart() -> None:
    choice = _choice(_chosen(3, 5_000))
    wider = _answer(4, 9_000)

    assert change_of(choice, wider) == WIDER
    for mode in ("Off", "OnRestart", "Live"):
        assert change_of(choice, replace(wider, mode=mode)) is None


def test_the_same_bound_under_a_new_generation_is_no_change() -> None:
    assert change_of(_choice(_chosen(3, 5_000)), _answer(4, 5_000)) is None


def test_an_answer_without_a_bound_leaves_the_job_what_it_has() -> None:
    """There is nothing to restart for: the next start would fall back to a guess."""
    assert change_of(_choice(_chosen(3, 5_000)), _answer(4, None)) is None


def test_a_kill_switch_is_a_change_back_to_the_jobs_own_bound() -> None:
    change = change_of(_choice(_chosen(3, 5_000)), replace(_answer(3, None), pin="Off"))

    assert change is not None
    assert (change.bound_ms, change.pin) == (60_000, "Off")


def test_a_change_says_itself_in_words() -> None:
    assert str(WIDER) == "j/s: generation 4 asks for 9 s in place of 5 s"
    assert str(replace(WIDER, pin="Off")).endswith("(pin Off)")


# -- when it is due ---------------------------------------------------------------------------------------------


def test_nothing_wanted_is_nothing_due() -> None:
    assert _rule().first([], 0.0) is None


def test_a_wider_bound_is_due_after_a_random_part_of_a_tenth_of_the_cooldown() -> None:
    """Every batch that waits loses rows, and jobs that share a slow source must not restart in the same second."""
    assert _rule().first([WIDER], 10.0) == DueChange(WIDER, 0.0)
    draws = iter((0.5, 1.0))
    rule = _rule(draw=lambda: next(draws))
    assert rule.first([WIDER], 10.0) == DueChange(WIDER, COOLDOWN_S / 20)
    newer = replace(WIDER, bound_ms=10_000)
    assert rule.first([newer], 20.0) == DueChange(newer, COOLDOWN_S / 20 - 10.0)
    assert rule.first([NARROWER], 20.0) == DueChange(NARROWER, COOLDOWN_S * 1.1)


def test_a_narrower_bound_has_to_be_wanted_for_a_whole_cooldown() -> None:
    rule = _rule()

    assert rule.first([NARROWER], 10.0) == DueChange(NARROWER, COOLDOWN_S)
    assert rule.first([NARROWER], 10.0 + COOLDOWN_S - 1) == DueChange(NARROWER, 1.0)
    assert rule.first([NARROWER], 10.0 + COOLDOWN_S) == DueChange(NARROWER, 0.0)


def test_a_narrower_bound_that_was_taken_back_waits_anew() -> None:
    rule = _rule()
    rule.first([NARROWER], 0.0)
    rule.first([], 100.0)

    assert rule.first([NARROWER], 200.0) == DueChange(NARROWER, COOLDOWN_S)


def test_of_several_narrower_bounds_the_newest_is_taken_when_the_first_has_waited() -> None:
    """A bound that creeps would else never be followed."""
    rule = _rule()
    for minute in range(5):
        rule.first([replace(NARROWER, bound_ms=2_000 - minute)], minute * 60.0)

    newest = replace(NARROWER, bound_ms=1_000)
    assert rule.first([newest], COOLDOWN_S) == DueChange(newest, 0.0)


def test_there_is_at_most_one_restart_in_a_cooldown_whichever_way() -> None:
    rule = _rule()
    rule.restarted(1_000.0)

    assert rule.first([WIDER], 1_100.0) == DueChange(WIDER, 200.0)
    assert rule.first([WIDER], 1_300.0) == DueChange(WIDER, 0.0)


def test_a_start_that_may_have_been_a_restart_counts_as_one() -> None:
    assert _rule(restarted_s=0.0).first([WIDER], 60.0) == DueChange(WIDER, 240.0)


def test_a_kill_switch_waits_for_nothing() -> None:
    rule = _rule()
    rule.restarted(0.0)
    pinned = replace(NARROWER, pin="Off")

    assert rule.first([pinned], 1.0) == DueChange(pinned, 0.0)


def test_of_several_streams_the_one_that_is_due_first_decides() -> None:
    other = replace(WIDER, stream="t")
    rule = _rule()

    assert rule.first([NARROWER, other], 0.0) == DueChange(other, 0.0)


def test_a_query_that_could_not_be_ended_is_left_alone_for_a_cooldown() -> None:
    rule = _rule()
    rule.postponed(0.0)

    assert rule.first([WIDER], 0.0) == DueChange(WIDER, COOLDOWN_S)


def test_after_a_failure_the_wait_doubles_each_time_with_jitter_and_has_a_limit() -> None:
    """A controller that publishes one bad bound after the other must not keep a job restarting."""
    full, half = _rule(), _rule(draw=lambda: 1.0)
    waits = [full.failed(0.0) for _ in range(6)]

    assert waits == [600.0, 1_200.0, 2_400.0, 3_600.0, 3_600.0, 3_600.0]
    assert [half.failed(0.0) for _ in range(6)] == [wait / 2 for wait in waits]
    assert full.first([WIDER], 0.0) == DueChange(WIDER, 3_600.0)


def test_a_new_bound_that_works_ends_the_row_of_failures() -> None:
    rule = _rule()
    rule.failed(0.0)
    rule.failed(0.0)
    rule.worked()

    assert rule.failed(0.0) == 600.0


def test_a_thousand_failures_are_no_overflow() -> None:
    rule = _rule()
    assert all(rule.failed(0.0) <= 3_600.0 for _ in range(1_100))


def test_a_negative_cooldown_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least 0 s, not -1 s"):
        RestartRule(-1.0)


# -- what worked and what failed --------------------------------------------------------------------------------


def test_a_generation_that_failed_is_known_until_there_is_another() -> None:
    proven = ProvenBounds()
    proven.work({KEY: _chosen(3, 5_000)})
    body = proven.fail({KEY: _chosen(4, 9_000)})

    assert body == ["j/s: generation 4, 9 s, failed and is not tried again; 5 s is put back"]
    assert proven.has_failed(KEY, _answer(4, 9_000))
    assert not proven.has_failed(KEY, _answer(5, 9_000))
    assert not proven.has_failed(KEY, replace(_answer(4, None), pin="Off")), "a pin is another answer"


def test_the_bound_that_worked_is_not_to_blame() -> None:
    """What fails with it is not the bound."""
    proven = ProvenBounds()
    proven.work({KEY: _chosen(3, 5_000)})

    assert proven.fail({KEY: _chosen(4, 5_000)}) == []
    assert proven.fail({("j", "unheard of"): _chosen(4, 9_000)}) == []


def test_what_worked_is_put_back_with_its_generation_and_a_reason() -> None:
    """It is acknowledged under the generation that it was published with."""
    proven = ProvenBounds()
    proven.work({KEY: _chosen(3, 5_000)})
    proven.fail({KEY: _chosen(4, 9_000)})
    (back,) = proven.put_back("no memory").values()

    assert (back.bound_ms, back.generation, back.reason) == (5_000, 3, "put back: no memory")


def test_a_bound_is_held_at_a_start_as_long_as_the_newest_answer_is_the_one_that_failed() -> None:
    """A restart for another stream must not try it again."""
    proven = ProvenBounds()
    proven.work({KEY: _chosen(3, 5_000), ("j", "t"): _chosen(1, 1_000)})
    proven.fail({KEY: _chosen(4, 9_000), ("j", "t"): _chosen(1, 1_000)})

    instead = proven.instead_of(KEY, _answer(4, 9_000))
    assert instead is not None
    assert instead.bound_ms == 5_000
    assert "generation 4 failed" in instead.reason
    assert proven.instead_of(KEY, _answer(5, 9_000)) is None
    assert proven.instead_of(("j", "t"), _answer(1, 1_000)) is None


def test_other_bounds_that_work_are_news() -> None:
    proven = ProvenBounds()

    assert proven.work({KEY: _chosen(3, 5_000)})
    assert not proven.work({KEY: _chosen(4, 5_000)})
    assert proven.work({KEY: _chosen(5, 6_000)})
