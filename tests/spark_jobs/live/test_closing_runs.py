"""How far a closing step moves the watermark, without Spark."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs.live.closing import ClosingInput, ClosingRun, ClosingTarget

from support.patience import until
from support.streams import report_of

SECOND = 1_000_000
NOW_US = 1_767_225_600 * SECOND
WINDOW = tumbling("10 seconds")
BOUND_S = 5


def behind_s(*batches: dict[str, list[float]], delay_s: float | None = None) -> float | None:
    """Return how far the watermark of a run may be behind the run's start, in seconds; None where it may not move.

    Args:
        batches: for each batch and input, how long before the run its rows happened, in seconds.
        delay_s: how late rows come at most by the clock.
    """
    delay_us = None if delay_s is None else round(delay_s * SECOND)
    target = ClosingTarget(
        {
            name: ClosingInput(operator=WINDOW, bound_us=BOUND_S * SECOND, delay_us=delay_us)
            for name in batches[0]
        },
        NOW_US,
    )
    for batch in batches:
        for name, times in batch.items():
            rows = [("0", NOW_US - round(ago * SECOND)) for ago in times]
            target.observe(name, report_of(rows, WINDOW, late_watermark_ms=0, started_us=NOW_US))
    return None if target.watermark_ms is None else NOW_US / SECOND - target.watermark_ms / 1_000


def test_an_input_without_rows_in_a_run_holds_nothing_and_one_that_is_behind_does() -> None:
    assert behind_s({"a": [100, 60], "b": []}) == 65
    assert behind_s({"a": [100, 60], "b": []}, {"a": [50], "b": [200]}) == 205


def test_one_input_whose_policy_lets_it_not_move_holds_the_others() -> None:
    bound_us = BOUND_S * SECOND
    learning = ClosingInput(operator=WINDOW, bound_us=bound_us, steered_us=lambda: None)
    target = ClosingTarget(
        {"a": ClosingInput(operator=WINDOW, bound_us=bound_us), "learning": learning}, NOW_US
    )
    report = report_of([("0", NOW_US - 60 * SECOND)], WINDOW, late_watermark_ms=0, started_us=NOW_US)
    target.observe("a", report)
    assert target.watermark_ms == (NOW_US - 65 * SECOND) // 1_000
    target.observe("learning", report)
    assert target.watermark_ms is None


def test_where_no_input_had_rows_nothing_moves() -> None:
    assert behind_s({"a": [], "b": []}, delay_s=0) is None


def test_the_clock_lets_windows_come_out_up_to_the_newest_one_with_rows() -> None:
    assert behind_s({"a": [3_000]}, delay_s=3_600) == 3_005
    assert behind_s({"a": [3_000]}, delay_s=2_995) == 2_995
    assert behind_s({"a": [3_000]}, delay_s=60) == 2_990


class Moments:
    """What finds the moment: in a batch that was replayed, and when all is read."""

    def __init__(self, moments: int) -> None:
        self.left, self.asked = moments, list[int]()

    def start(self) -> None: ...

    def end(self) -> None: ...

    def comes(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def close(self, target: int) -> int:
        self.asked.append(target)
        return target


def test_where_nothing_was_read_yet_nothing_moves_and_the_next_moment_is_waited_for() -> None:
    target = ClosingTarget({"a": ClosingInput(operator=WINDOW, bound_us=BOUND_S * SECOND)}, NOW_US)
    reports = [report_of([("0", NOW_US - 60 * SECOND)], WINDOW, late_watermark_ms=0, started_us=NOW_US)]
    moments = Moments(2)

    def catch_up(_run: str) -> None:
        if moments.asked:
            target.observe("a", reports.pop())

    ClosingRun("run", "query", moments, target, catch_up)
    closed_ms = (NOW_US - 65 * SECOND) // 1_000
    until(lambda: moments.asked == [-1, closed_ms], "the target", seen=lambda: moments.asked)


@given(
    st.lists(st.floats(0, 10_000), min_size=1, max_size=5),
    st.lists(st.floats(0, 10_000), max_size=5),
    st.none() | st.floats(0, 5_000),
)
def test_it_never_passes_the_newest_window_with_rows_nor_what_the_bound_and_the_clock_allow(
    ours_s: list[float], others_s: list[float], delay_s: float | None
) -> None:
    found_s = behind_s({"a": ours_s, "b": others_s}, delay_s=delay_s)
    assert found_s is not None
    newest_s = min(ours_s + others_s)
    by_bound_s = max(min(times) + BOUND_S for times in (ours_s, others_s) if times)
    assert found_s >= newest_s - WINDOW.size_us / SECOND - 0.001
    assert found_s >= min(by_bound_s, float("inf") if delay_s is None else delay_s) - 0.002
    assert found_s <= by_bound_s + 0.002
