"""What a change of the bound will do: by hand, against replayed restarts, and scored against what came of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import bdtr, bdtrc

from tidemark.models.base.confidence import interval_ppm
from tidemark.models.base.defaults import PREDICTION_MIN_ROWS
from tidemark.models.base.operators import Operator, TimeWindow, row_level, session, tumbling
from tidemark.models.evidence.curve import Curve, Emissions, ExactNeeds, replay_spark
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.recommend.transition import Situation, cut_bucket, transition_to
from tidemark.models.rollout.evidence import Judged, PredictionScore, score

SECOND = 1_000_000
TEN = tumbling("10 seconds")


def curve(needs_s: Any = range(100), *, windows: bool = True) -> Curve:
    """Needs in seconds; a window's wall latency is the bound and a second."""
    need = np.array([round(value * SECOND) for value in needs_s], np.int64)
    steps = np.arange(0, 1_000, dtype=np.int64) * SECOND
    emissions = Emissions(np.array([0], np.int64), steps, steps + SECOND) if windows else None
    return Curve(ExactNeeds(need, np.ones_like(need)), emissions)


def situation(**changes: Any) -> Situation:
    """A steady stream with a bound of 30 s: the base is at 1,000 s, the watermark at 970 s, one batch a second."""
    given: dict[str, Any] = {
        "at_us": 2_000 * SECOND,
        "bound_us": 30 * SECOND,
        "watermark_us": 970 * SECOND,
        "base_us": 1_000 * SECOND,
        "pace_ppm": 1_000_000,
        "batch_gap_us": SECOND,
        "operator": TEN,
        "drops_state": True,
        "state_rows": 4_000,
        "state_bytes": 400_000,
        "open_end_us": np.array([980, 990, 1_000, 1_010], np.int64) * SECOND,
        "open_rows": np.array([7, 5, 3, 1], np.int64),
        "curve": curve(),
        "confidence_ppm": 950_000,
        "rows_per_event": 1.0,
    }
    return Situation(**{**given, **changes})


# -- when ----------------------------------------------------------------------------------------------------


def test_widening_by_30_s_at_the_clocks_pace_stops_the_watermark_for_30_s() -> None:
    """Batch 31 is the first to show more than 1,030 s; batch 32 runs with the watermark that it moved."""
    found = transition_to(situation(), 60 * SECOND)
    assert (found.kind, found.stands_still_ms) == ("widen", 30_000)
    assert found.effective_us == (2_000 + 32) * SECOND
    assert (found.windows_closing, found.rows_closing) == (0, 0)
    assert "widening from 30 s to 60 s stops the watermark for 30 s after a restart" in found.text


def test_a_stream_at_half_the_clocks_pace_stands_still_for_twice_as_long() -> None:
    assert transition_to(situation(pace_ppm=500_000), 60 * SECOND).stands_still_ms == 60_000


def test_a_widening_on_top_of_one_that_is_not_in_effect_yet_counts_from_the_watermark() -> None:
    """The bound in use is 50 s, but the watermark still trails by 30 s: 60 s is 30 s away, not 10."""
    assert transition_to(situation(bound_us=50 * SECOND), 60 * SECOND).stands_still_ms == 30_000


def test_narrowing_moves_the_watermark_with_the_second_batch_and_closes_exactly_the_windows_between() -> None:
    """From 970 s to 1,000 s - 10 s: the windows that end at 980 and 990, both ends as Spark has them."""
    found = transition_to(situation(), 10 * SECOND)
    assert (found.kind, found.stands_still_ms, found.effective_us) == ("narrow", 0, 2_002 * SECOND)
    assert (found.windows_closing, found.rows_closing) == (2, 12)
    assert transition_to(situation(), 10 * SECOND + 1_000).windows_closing == 1
    assert transition_to(situation(watermark_us=980 * SECOND), 10 * SECOND).windows_closing == 1
    assert found.text.startswith(
        "narrowing from 30 s to 10 s takes effect with the second batch after a restart; "
        "2 windows with 12 rows so far close at once; "
    )


def test_the_same_bound_changes_nothing() -> None:
    found = transition_to(situation(), 30 * SECOND)
    assert (found.kind, found.stands_still_ms) == ("same", 0)
    assert (
        found.text == "the bound stays 30 s; 31.00 % of the rows will be admitted at a mean latency of 31 s"
    )


@pytest.mark.parametrize(
    ("changes", "stands_still_ms", "effective"),
    [
        ({"watermark_us": None}, None, None),
        ({"base_us": None}, None, None),
        ({"pace_ppm": None}, None, None),
        ({"pace_ppm": 0}, None, None),
        ({"pace_ppm": -5}, None, None),
        ({"batch_gap_us": None}, 30_000, None),
    ],
    ids=str,
)
def test_unknown_values_are_none_and_named(
    changes: dict[str, Any], stands_still_ms: int | None, effective: int | None
) -> None:
    found = transition_to(situation(**changes), 60 * SECOND)
    assert (found.stands_still_ms, found.effective_us) == (stands_still_ms, effective)
    if stands_still_ms is None:
        assert "takes effect after a restart; when is unknown" in found.text


@pytest.mark.parametrize("operator", [row_level(), session("10 seconds")], ids=str)
def test_operators_without_windows_close_none_that_is_known(operator: Operator) -> None:
    found = transition_to(situation(operator=operator), 10 * SECOND)
    assert (found.windows_closing, found.rows_closing) == (None, None)


def test_narrowing_a_row_level_operator_warns_of_deduplication_and_joins() -> None:
    narrower = transition_to(situation(operator=row_level()), 10 * SECOND)
    assert "shortens how long duplicates are recognised and joins keep their rows" in narrower.text
    assert "duplicates" not in transition_to(situation(operator=row_level()), 60 * SECOND).text
    assert "duplicates" not in transition_to(situation(), 10 * SECOND).text


# -- state, completeness, latency ----------------------------------------------------------------------------


def test_state_grows_with_the_event_time_that_is_open() -> None:
    """Now 10 s of window and 30 s of watermark; then 10 s, 69 s and the second that a batch moves: twice as much."""
    found = transition_to(situation(), 69 * SECOND)
    assert (found.state_rows, found.state_bytes) == (8_000, 800_000)


@pytest.mark.parametrize(
    "changes", [{"state_rows": 0}, {"watermark_us": None}, {"pace_ppm": None}, {"base_us": None}], ids=str
)
def test_state_is_not_guessed_from_nothing(changes: dict[str, Any]) -> None:
    assert transition_to(situation(**changes), 60 * SECOND).state_rows is None


def test_in_complete_mode_no_bound_says_how_much_state_there_is_and_no_window_closes() -> None:
    found = transition_to(situation(drops_state=False), 10 * SECOND)
    assert (found.state_rows, found.windows_closing) == (None, None)


@pytest.mark.parametrize(
    ("downstream", "rows"),
    [
        (Downstream(state_unforeseen="Spark never forgets a key", state_grows=True), None),
        # Of deduplication within the watermark half of what is open is its horizon, which moves with the bound.
        (Downstream(horizon_ms=0, horizon_moves=True), 4_000 * (10 + 2 * 69 + 1) // (10 + 2 * 30)),
        (Downstream(horizon_ms=60_000), 4_000 * (10 + 60 + 69 + 1) // (10 + 60 + 30)),
        (Downstream(range_ms=60_000), 4_000 * (10 + 60 + 69 + 1) // (10 + 60 + 30)),
        # The watermark is that of the slowest input.
        (Downstream(others_ms=100_000), 4_000 * (10 + 100 + 1) // (10 + 30)),
    ],
    ids=["never forgets", "deduplication", "deduplication in Live", "join", "another input"],
)
def test_state_is_in_proportion_to_all_that_its_operator_keeps(
    downstream: Downstream, rows: int | None
) -> None:
    found = transition_to(situation(downstream=downstream), 69 * SECOND).state_rows
    assert found == rows if rows is None else found == pytest.approx(rows, abs=1)


def test_completeness_and_latency_are_the_curves() -> None:
    """61 of 100 needs are at most 60 s; the window waits 60 s of base and a second more of wall time."""
    found = transition_to(situation(), 60 * SECOND)
    assert (found.rows, found.late, found.completeness_ppm) == (100, 39, 610_000)
    assert (found.latency_base_ms, found.latency_wall_ms) == (60_000, 61_000)
    assert transition_to(situation(curve=curve(windows=False)), 60 * SECOND).latency_wall_ms is None


def test_the_interval_holds_at_every_look_and_is_that_of_the_events() -> None:
    """60 of 100 rows: at its ends what was seen has a chance of far less than 2.5 % at this look alone."""
    found = transition_to(situation(), 60 * SECOND)
    assert found.min_ppm is not None
    assert found.max_ppm is not None
    assert 0.0005 < bdtrc(60, 100, found.min_ppm / 1e6) < 0.01
    assert 0.0005 < bdtr(61, 100, found.max_ppm / 1e6) < 0.01
    packed = transition_to(situation(rows_per_event=4.0), 60 * SECOND)
    assert (found.events, packed.events) == (100, 25)
    assert (packed.min_ppm, packed.max_ppm) == interval_ppm(39, 39, 100, 950_000, 4.0)
    assert transition_to(situation(), 200 * SECOND).max_ppm == 1_000_000


def test_without_rows_nothing_is_predicted_of_completeness() -> None:
    found = transition_to(situation(curve=curve([])), 60 * SECOND)
    assert (found.completeness_ppm, found.min_ppm, found.max_ppm) == (None, None, None)


def test_what_the_sketch_rounds_away_is_expected_and_not_left_out() -> None:
    """The curve is never too hopeful; a prediction is to be right on average."""
    need = np.random.default_rng(5).exponential(6 * SECOND, 100_000)
    sketch = Sketch()
    sketch.add(need)
    errors = []
    for bound_us in range(6 * SECOND, 8 * SECOND, 10_000):
        truth = int((need > bound_us).sum())
        found = transition_to(situation(curve=Curve(sketch, None)), bound_us)
        errors.append(found.late - truth)
    assert abs(np.mean(errors)) < 15
    assert np.max(np.abs(errors)) < 100


def test_a_clump_of_needs_in_the_bucket_that_the_bound_cuts_is_shown_by_who_has_seen_it() -> None:
    """100 needs of 6.00 s and 900 of 1 s: a bound inside the bucket admits all of it or nothing, not a part."""
    sketch = Sketch()
    sketch.add([1.0 * SECOND] * 900 + [6.0 * SECOND] * 100)
    asked = situation(curve=Curve(sketch, None))
    cut = cut_bucket(asked.curve, 6 * SECOND + 1_000)
    assert cut is not None
    assert cut.low_us < 6 * SECOND < cut.high_us
    assert cut.pairs == 100
    assert cut.high_us / cut.low_us == pytest.approx(1.01005, abs=1e-5)
    body = transition_to(asked, 6 * SECOND + 1_000, share_below=1.0)
    assert (body.late, body.completeness_ppm) == (0, 1_000_000)
    guessed = transition_to(asked, 6 * SECOND + 1_000)
    assert 0 < guessed.late < 100
    # What the sketch cannot tell is in the interval, from all late to none.
    assert guessed.min_ppm is not None
    assert guessed.min_ppm < 900_000
    assert guessed.max_ppm == 1_000_000
    assert cut_bucket(asked.curve, 3 * SECOND) is None


# -- against replay ------------------------------------------------------------------------------------------

steps_ms = st.integers(1, 5_000)


@given(
    before=st.lists(st.lists(st.integers(0, 60_000), min_size=1, max_size=4), min_size=3, max_size=6),
    after=st.lists(st.lists(st.integers(40_000, 140_000), max_size=4), min_size=1, max_size=12),
    bounds_ms=st.tuples(st.integers(0, 40), st.integers(0, 60)),
)
def test_the_watermark_moves_when_a_batch_shows_what_is_missing_as_the_replay_of_a_restart_has_it(
    before: list[list[int]], after: list[list[int]], bounds_ms: tuple[int, int]
) -> None:
    """Random batches, a restart with the base forgotten: the prediction names the batch whose base must pass."""
    old_us, new_us = (bound * 1_000 for bound in bounds_ms)
    first = _replayed(before)
    restored_us = int(first.emit_base_us[-1]) - old_us
    base_us = max(time for batch in before for time in batch) // 1_000 * 1_000
    body = transition_to(
        situation(
            bound_us=old_us, watermark_us=restored_us, base_us=base_us, pace_ppm=1_000_000, batch_gap_us=None
        ),
        new_us,
    )
    # At the clock's pace the time it does not move is the event time that is missing.
    assert body.stands_still_ms is not None
    missing_us = body.stands_still_ms * 1_000
    again = _replayed(after)
    moved = again.emit_base_us - new_us > restored_us
    replayed = int(moved.argmax()) if moved.any() else None
    passed = [
        n + 1
        for n, batch in enumerate(after[:-1])
        # Where nothing is missing, the base is ahead already, but this run has to see such a row again.
        if batch
        and max(batch) // 1_000 * 1_000 > (base_us + missing_us if missing_us else restored_us + new_us)
    ]
    assert replayed == next(iter(passed), None)


@given(
    pace=st.integers(1, 40),
    gap=st.integers(1, 20),
    bounds=st.tuples(st.integers(0, 400), st.integers(0, 1_000)),
)
def test_on_a_steady_stream_the_predicted_batch_is_the_replayed_one(
    pace: int, gap: int, bounds: tuple[int, int]
) -> None:
    """Batches every ``gap`` ms, each ``pace`` x ``gap`` ms of event time further; the restart loses no time."""
    old_us, new_us = (bound * 1_000 for bound in bounds)
    step_us = pace * gap * 1_000
    before = [[n * step_us] for n in range(60)]
    restored_us = int(_replayed(before).emit_base_us[-1]) - old_us
    body = transition_to(
        situation(
            at_us=0,
            bound_us=old_us,
            watermark_us=restored_us,
            base_us=59 * step_us,
            pace_ppm=pace * 1_000_000,
            batch_gap_us=gap * 1_000,
        ),
        new_us,
    )
    after = [[n * step_us] for n in range(60, 60 + 1_100)]
    moved = _replayed(after).emit_base_us - new_us > restored_us
    # Batch 0 of the new run ends one gap after the last of the old one.
    assert body.effective_us == (int(moved.argmax()) + 1) * gap * 1_000


@given(
    before=st.lists(st.lists(st.integers(0, 90_000), min_size=1, max_size=6), min_size=3, max_size=8),
    old=st.integers(20, 60),
    narrower=st.integers(1, 60),
)
def test_the_windows_closing_at_once_are_those_that_the_replayed_restart_emits_with_its_first_move(
    before: list[list[int]], old: int, narrower: int
) -> None:
    """The first batch of the new run brings the base back; the windows that the next one emits are those predicted."""
    operator = TimeWindow(10_000, 10_000)
    new_us, old_us = max(old - narrower, 0) * 1_000, old * 1_000
    replay = _replayed(before, operator)
    restored_us = int(replay.emit_base_us[-1]) - old_us
    base_us = max(time for batch in before for time in batch) // 1_000 * 1_000
    late = replay.needs_us() > old_us
    open_us = replay.key_us[~late & (replay.key_us > restored_us)]
    ends, counts = np.unique(open_us, return_counts=True)
    body = transition_to(
        situation(
            bound_us=old_us,
            watermark_us=restored_us,
            base_us=base_us,
            operator=operator,
            open_end_us=ends,
            open_rows=counts,
        ),
        new_us,
    )
    again = _replayed([[base_us], []])
    mark_us = max(restored_us, int(again.emit_base_us[1]) - new_us)
    emitted = (ends > restored_us) & (ends <= mark_us)
    assert (body.windows_closing, body.rows_closing) == (int(emitted.sum()), int(counts[emitted].sum()))


def _replayed(batches: list[list[int]], operator: Operator = TEN) -> Any:
    return replay_spark(
        np.array([time for batch in batches for time in batch], np.int64),
        np.array([n for n, batch in enumerate(batches) for _ in batch], np.int64),
        np.arange(len(batches), dtype=np.int64),
        operator,
    )


# -- scored --------------------------------------------------------------------------------------------------


def test_a_prediction_is_scored_in_points_once_enough_rows_are_judged() -> None:
    """Predicted 99.0 %, counted 98.9 %: a tenth of a point less."""
    for late_min, late_max, max_ppm in ((220, 220, 991_271), (200, 240, 992_150)):
        found = score(1_000, 10, Judged(20_000, late_min, late_max), 950_000, 1.0)
        assert found == PredictionScore(989_000, -1_000, max_ppm)
    packed = score(1_000, 10, Judged(20_000, 220, 220), 950_000, 20.0)
    assert packed is not None
    assert packed.max_ppm is not None
    assert packed.max_ppm > 991_271, "packs of 20 prove less"


def test_too_few_rows_are_not_scored_yet_and_a_prediction_from_nothing_never_is() -> None:
    assert score(1_000, 10, Judged(PREDICTION_MIN_ROWS - 1, 0, 0), 950_000, 1.0) is None
    assert score(1_000, 10, Judged(PREDICTION_MIN_ROWS, 0, 0), 950_000, 1.0) is not None
    assert score(0, 0, Judged(PREDICTION_MIN_ROWS, 0, 0), 950_000, 1.0) is None


def test_the_same_situation_gives_the_same_transition() -> None:
    given = situation()
    assert transition_to(given, 10 * SECOND) == transition_to(replace(given), 10 * SECOND)
