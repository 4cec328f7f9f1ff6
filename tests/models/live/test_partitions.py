"""Who holds the watermark back: silence alone makes nobody idle, and what is not read yet is not overtaken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemark.models.live.defaults import (
    IDLE_AFTER_GAPS,
    IDLE_MIN_GAPS,
    IDLE_REMEMBERED_GAPS,
    IDLE_UNLEARNED_TRIGGERS,
)
from tidemark.models.live.partitions import Activity, Partitions
from tidemark.models.live.policy import NO_BASE_US

from support.examples import examples
from support.streams import SECOND

START_US = 1_767_225_600 * SECOND
READ_TO_THE_END: Mapping[str, int] = {}
YEAR_US = 365 * 86_400 * SECOND

gaps_s = st.lists(st.integers(20, 50), min_size=IDLE_MIN_GAPS, max_size=2 * IDLE_REMEMBERED_GAPS)
"""Gaps that are all learned: below the 60 triggers of a second that count at first, and three times themselves."""


def _spoken(
    gaps: list[int], backlog: Mapping[str, int] | None = READ_TO_THE_END, idle_timeout_us: int | None = None
) -> tuple[Partitions, int]:
    """Return partitions of which "a" spoke at these gaps of seconds, and when it did so last."""
    partitions, now_us = Partitions(idle_timeout_us), START_US
    partitions.observe(now_us, SECOND, {"a": now_us}, backlog)
    for gap in gaps:
        now_us += gap * SECOND
        partitions.observe(now_us, SECOND, {"a": now_us}, backlog)
    return partitions, now_us


# -- idle is silent beyond the timeout, and read to the end ----------------------------------------------------


@given(gaps_s)
def test_a_partition_is_idle_after_three_times_the_longest_of_its_last_gaps_and_not_before(
    gaps: list[int],
) -> None:
    partitions, last_us = _spoken(gaps)
    timeout_us = IDLE_AFTER_GAPS * max(gaps[-IDLE_REMEMBERED_GAPS:]) * SECOND

    assert partitions.timeout_us("a") == timeout_us
    assert partitions.activity(last_us + timeout_us).idle == ()
    assert partitions.activity(last_us + timeout_us + 1).idle == ("a",)


@given(gaps_s, st.integers(10, 10_000))
def test_a_partition_with_a_backlog_holds_the_watermark_however_long_it_is_silent(
    gaps: list[int], times: int
) -> None:
    """Ten times its longest gap, and ten thousand times: what is not read yet would be lost."""
    partitions, last_us = _spoken(gaps)
    now_us = last_us
    for _ in range(3):
        now_us += times * max(gaps) * SECOND
        partitions.observe(now_us, SECOND, {"b": now_us}, {"a": 1})
    activity = partitions.activity(now_us)

    assert (activity.base_us, activity.holder, activity.idle) == (last_us, "a", ())
    assert (activity.behind, activity.behind_us) == (("a",), last_us)


def test_a_partition_is_idle_as_soon_as_its_backlog_is_read_if_it_has_been_silent_for_long() -> None:
    partitions, last_us = _spoken([20] * 5)
    now_us = last_us + 3_600 * SECOND
    partitions.observe(now_us, SECOND, {"b": now_us}, {"a": 7})
    held = partitions.activity(now_us)
    partitions.observe(now_us, SECOND, {}, {"a": 0})
    freed = partitions.activity(now_us)

    assert (held.holder, freed.holder) == ("a", "b")


@given(gaps_s, st.integers(0, YEAR_US))
def test_no_partition_is_idle_when_the_source_does_not_tell_its_backlog(
    gaps: list[int], silence_us: int
) -> None:
    partitions, last_us = _spoken(gaps, backlog=None)

    assert partitions.activity(last_us + silence_us).holder == "a"


@given(gaps_s, st.integers(1, 1_000), st.sampled_from([None, READ_TO_THE_END]))
def test_a_timeout_that_is_given_counts_instead_of_what_was_learned(
    gaps: list[int], timeout_s: int, backlog: Mapping[str, int] | None
) -> None:
    timeout_us = timeout_s * SECOND
    partitions, last_us = _spoken(gaps, backlog, timeout_us)

    assert partitions.activity(last_us + timeout_us).idle == ()
    assert partitions.activity(last_us + timeout_us + 1).idle == ("a",)


def test_a_timeout_that_is_given_does_not_let_a_partition_with_a_backlog_go() -> None:
    partitions, last_us = _spoken([20] * 5, idle_timeout_us=SECOND)
    partitions.observe(last_us, SECOND, {}, {"a": 1})

    assert partitions.activity(last_us + YEAR_US).holder == "a"


def test_a_partition_that_spoke_too_seldom_to_be_known_is_judged_by_the_slowest_of_the_others() -> None:
    partitions, now_us = Partitions(), START_US
    for tick in range(3 * IDLE_MIN_GAPS + 1):
        spoke = {"slow": now_us} if tick % 3 == 0 else {}
        partitions.observe(now_us, SECOND, {"fast": now_us, **spoke}, READ_TO_THE_END)
        now_us += 10 * SECOND
    partitions.observe(now_us, SECOND, {"new": now_us}, READ_TO_THE_END)

    assert partitions.timeout_us("fast") == IDLE_AFTER_GAPS * 10 * SECOND
    assert partitions.timeout_us("slow") == IDLE_AFTER_GAPS * 30 * SECOND > IDLE_UNLEARNED_TRIGGERS * SECOND
    assert partitions.timeout_us("new") == partitions.timeout_us("slow")


def test_while_no_gaps_are_known_a_partition_is_given_sixty_triggers() -> None:
    partitions, _ = _spoken([1] * (IDLE_MIN_GAPS - 1))

    assert partitions.timeout_us("a") == IDLE_UNLEARNED_TRIGGERS * SECOND


def test_a_gap_shorter_than_the_trigger_counts_as_the_trigger() -> None:
    """Two batches that follow at once, because the one before took long, tell nothing of how often rows come."""
    partitions, now_us = Partitions(), START_US
    for _ in range(IDLE_MIN_GAPS + 1):
        partitions.observe(now_us, SECOND, {"a": now_us}, READ_TO_THE_END)
        now_us += SECOND // 100

    assert partitions.timeout_us("a") == IDLE_AFTER_GAPS * SECOND


# -- coming back -------------------------------------------------------------------------------------------------


@given(gaps_s, st.integers(1, YEAR_US))
def test_a_partition_that_returns_is_back_in_at_once_and_its_idle_gap_is_not_learned(
    gaps: list[int], beyond_us: int
) -> None:
    """Else one night's silence would make it hold the watermark for three nights."""
    partitions, last_us = _spoken(gaps)
    timeout_us = partitions.timeout_us("a")
    now_us = last_us + timeout_us + beyond_us
    partitions.observe(now_us, SECOND, {"b": now_us}, READ_TO_THE_END)
    assert partitions.activity(now_us).idle == ("a",)

    partitions.observe(now_us, SECOND, {"a": last_us + SECOND}, READ_TO_THE_END)

    assert partitions.activity(now_us).holder == "a"
    assert partitions.activity(now_us).base_us == last_us + SECOND
    assert partitions.timeout_us("a") == timeout_us


# -- restarts and partitions that nobody has seen ------------------------------------------------------------------


@given(st.dictionaries(st.text(max_size=3), st.integers(-(10**15), 10**15), min_size=1), st.data())
def test_after_a_restart_every_known_partition_holds_the_watermark_until_it_was_silent_in_this_run(
    bases_us: dict[str, int], data: st.DataObject
) -> None:
    partitions = Partitions()
    partitions.restore(bases_us, START_US)
    spoke = data.draw(st.sets(st.sampled_from(sorted(bases_us)), max_size=len(bases_us) - 1))
    now_us = START_US + SECOND
    partitions.observe(now_us, SECOND, {name: bases_us[name] + YEAR_US for name in spoke}, READ_TO_THE_END)
    activity = partitions.activity(now_us + SECOND)

    assert activity.idle == ()
    assert activity.base_us == min(base + YEAR_US * (name in spoke) for name, base in bases_us.items())


def test_what_this_run_has_seen_of_a_partition_goes_before_what_an_earlier_one_knew() -> None:
    partitions = Partitions()
    partitions.observe(START_US, SECOND, {"a": START_US}, READ_TO_THE_END)
    partitions.restore({"a": START_US - YEAR_US, "b": START_US - SECOND}, START_US)

    assert partitions.bases_us == {"a": START_US, "b": START_US - SECOND}


@given(gaps_s, st.integers(1, 10**9))
def test_a_partition_that_has_rows_and_has_shown_none_holds_everything(gaps: list[int], rows: int) -> None:
    """Nobody knows how far back its rows lie."""
    partitions, last_us = _spoken(gaps)
    partitions.observe(last_us, SECOND, {}, {"a": 0, "unseen": rows})
    activity = partitions.activity(last_us)

    assert (activity.base_us, activity.holder, activity.behind_us) == (NO_BASE_US, "unseen", NO_BASE_US)


# -- all idle ---------------------------------------------------------------------------------------------------


@given(gaps_s, st.lists(st.integers(1, YEAR_US), min_size=2).map(sorted))
def test_when_all_are_idle_the_base_goes_on_with_the_clock_and_never_back(
    gaps: list[int], beyond_us: list[int]
) -> None:
    """So the last windows close as if rows had kept coming."""
    partitions, last_us = _spoken(gaps)
    timeout_us = partitions.timeout_us("a")
    seen = [partitions.activity(last_us + timeout_us + silence) for silence in beyond_us]

    assert all(activity.idle and activity.holder is None for activity in seen)
    assert [activity.base_us for activity in seen] == [
        last_us + timeout_us + silence for silence in beyond_us
    ]


def test_a_stream_that_is_idle_goes_on_from_its_maximum_time_and_not_from_its_slowest_partition() -> None:
    partitions, now_us = Partitions(), START_US
    for _ in range(IDLE_MIN_GAPS + 1):
        partitions.observe(now_us, SECOND, {"a": now_us - 7 * SECOND, "b": now_us - YEAR_US}, READ_TO_THE_END)
        now_us += SECOND
    later_us = now_us + 60 * SECOND
    activity = partitions.activity(later_us)

    assert activity.idle == ("a", "b")
    assert activity.base_us == later_us - 7 * SECOND


def test_nothing_is_known_before_the_first_row() -> None:
    partitions = Partitions()
    before = partitions.activity(START_US)
    partitions.observe(START_US, SECOND, {}, READ_TO_THE_END)

    assert partitions.activity(START_US + YEAR_US) == before
    assert (before.base_us, before.holder, before.idle) == (NO_BASE_US, None, ())


# -- any history ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Batch:
    after_us: int
    bases_us: dict[str, int]
    backlog: dict[str, int] | None


names = st.sampled_from("abcd")
histories = st.lists(
    st.builds(
        _Batch,
        st.integers(0, 30) | st.integers(0, 3_000),
        st.dictionaries(names, st.integers(-1_000, 1_000)),
        st.none() | st.dictionaries(names, st.integers(0, 2)),
    ),
    min_size=1,
    max_size=40,
)


def _lived(history: list[_Batch], timeout_us: int | None, *, reverse: bool = False) -> list[Activity]:
    """Return who held the watermark after each batch; ``reverse`` tells of the partitions in the other order."""
    partitions, now_us, result = Partitions(timeout_us), START_US, []
    for batch in history:
        now_us += batch.after_us
        bases_us, backlog = batch.bases_us, batch.backlog
        if reverse:
            bases_us = dict(reversed(bases_us.items()))
            backlog = None if backlog is None else dict(reversed(backlog.items()))
        partitions.observe(now_us, 10, bases_us, backlog)
        result.append(partitions.activity(now_us + 5))
    return result


@given(histories, st.none() | st.integers(1, 500))
@example(
    # A gap that both have learn from: as long as one that only the other has learned would allow.
    [
        _Batch(0, {"a": 0, "b": 0}, None),
        _Batch(1, {"a": 0, "b": 0}, None),
        _Batch(1, {"a": 0, "b": 0}, None),
        _Batch(415, {"a": 0}, None),
        _Batch(186, {"a": 0, "b": 0}, None),
        _Batch(1, {"a": 0, "b": 0}, None),
        _Batch(1, {"b": 0}, None),
        _Batch(26, {}, {}),
    ],
    None,
)
def test_the_order_in_which_partitions_are_reported_does_not_matter(
    history: list[_Batch], timeout_us: int | None
) -> None:
    assert _lived(history, timeout_us) == _lived(history, timeout_us, reverse=True)


@pytest.mark.slow
@given(histories, st.none() | st.integers(1, 500))
@examples(300)
def test_the_base_is_never_above_the_least_of_the_active_partitions(
    history: list[_Batch], timeout_us: int | None
) -> None:
    """A partition that is not idle is active, and so is one with a backlog."""
    truth: dict[str, int] = {}
    for batch, activity in zip(history, _lived(history, timeout_us), strict=True):
        for name, base_us in batch.bases_us.items():
            truth[name] = max(base_us, truth.get(name, base_us))
        behind = {name for name, rows in (batch.backlog or {}).items() if rows}
        active = {name: base_us for name, base_us in truth.items() if name not in activity.idle}

        assert behind == set(activity.behind)
        assert not behind & set(activity.idle)
        if batch.backlog is None and timeout_us is None:
            assert activity.idle == ()
        if behind - truth.keys():
            assert activity.base_us == NO_BASE_US
        elif active:
            assert (activity.base_us, activity.holder) == min((base, name) for name, base in active.items())
        elif truth:
            assert activity.holder is None
            assert activity.base_us >= max(truth.values())


# -- what the clock alone must not do ------------------------------------------------------------------------------


def test_while_the_pace_is_not_known_nobody_is_idle() -> None:
    """A query without a trigger, or one that has just begun: nobody can say what silence is."""
    partitions = Partitions()
    for tick in range(3):
        now_us = START_US + tick * SECOND
        spoke = {"slow": now_us - 60 * SECOND} if tick == 0 else {}
        partitions.observe(now_us, 0, {"fast": now_us, **spoke}, READ_TO_THE_END)

    assert partitions.activity(START_US + 2 * SECOND + 1_000).idle == ()


def test_a_partition_that_speaks_seldom_and_steadily_is_not_idle_between_its_rows() -> None:
    """One sensor tells every 20 s where the others tell every second. Slow is not idle."""
    partitions, now_us = Partitions(), START_US
    for second in range(600):
        spoke = {"seldom": now_us - 60 * SECOND} if second % 20 == 0 else {}
        partitions.observe(now_us, SECOND, {"often": now_us, **spoke}, READ_TO_THE_END)
        now_us += SECOND

    assert partitions.activity(now_us).idle == ()


def test_what_is_restored_after_a_batch_was_run_again_does_not_go_back() -> None:
    partitions = Partitions()
    partitions.observe(START_US, SECOND, {"a": START_US - 60 * SECOND}, READ_TO_THE_END)
    partitions.restore({"a": START_US - SECOND, "b": START_US - 2 * SECOND}, START_US)

    assert partitions.bases_us == {"a": START_US - SECOND, "b": START_US - 2 * SECOND}
