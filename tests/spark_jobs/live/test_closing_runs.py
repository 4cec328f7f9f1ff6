"""How far a closing step moves the watermark, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs.live.closing import ClosingInput, ClosingRuns

from support.streams import report_of

SECOND = 1_000_000
RUN, NOW_US = "run", 1_767_225_600 * SECOND
WINDOW = tumbling("10 seconds")
BOUND_S = 5


@dataclass
class Planned:
    """A run as Spark plans its batches: the control sources are asked, then a batch runs if anything is new."""

    inputs: dict[str, ClosingInput]
    runs: ClosingRuns = field(default_factory=ClosingRuns)
    offsets: dict[str, dict[str, Any]] = field(default_factory=dict)

    def start(self) -> None:
        """Begin a run from where the one before ended."""
        self.runs.started(RUN, self.inputs, NOW_US)
        for name in self.inputs:
            self.offsets.setdefault(name, {"source": f"of {name}", "watermark_ms": None, "partitions": {}})

    def batch(self, rows_s: dict[str, list[float]]) -> bool:
        """Run a batch over what is left; return whether there was one. Times are in seconds before the run."""
        asked = {name: self.runs.answer(name, offset) for name, offset in self.offsets.items()}
        has_rows = any(rows_s.values())
        if not has_rows and not any(asked.values()):
            return False
        self.offsets |= {name: offset for name, offset in asked.items() if offset is not None}
        self.runs.batch(RUN, list(self.offsets.values()), reads=has_rows)
        for name, times in rows_s.items():
            rows = [("0", NOW_US - round(ago * SECOND)) for ago in times]
            report = report_of(rows, WINDOW, late_watermark_ms=0, started_us=NOW_US)
            self.runs.observe(RUN, name, report)
        return True

    def run(self, *batches: dict[str, list[float]]) -> float | None:
        """Run to the end; return how far the watermark is behind the start of the run, in seconds."""
        self.start()
        left = list(batches)
        for _ in range(len(batches) + 3):
            if not self.batch(left.pop(0) if left else {}):
                break
        else:
            raise AssertionError("the run does not end")
        self.runs.ended(RUN)
        (watermark_ms,) = {offset["watermark_ms"] for offset in self.offsets.values()}
        return None if watermark_ms is None else NOW_US / SECOND - watermark_ms / 1_000


def inputs(*names: str, delay_s: float | None = None) -> dict[str, ClosingInput]:
    delay_us = None if delay_s is None else round(delay_s * SECOND)
    return {
        name: ClosingInput(name=name, operator=WINDOW, bound_us=BOUND_S * SECOND, delay_us=delay_us)
        for name in names
    }


def test_an_input_without_rows_in_a_run_holds_nothing_and_one_that_is_behind_does() -> None:
    assert Planned(inputs("a", "b")).run({"a": [100, 60], "b": []}) == 65
    assert Planned(inputs("a", "b")).run({"a": [100, 60], "b": []}, {"a": [50], "b": [200]}) == 205


def test_the_watermark_moves_only_when_all_is_read() -> None:
    planned = Planned(inputs("a"))
    planned.start()
    for ago in (90.0, 80.0, 70.0):
        planned.batch({"a": [ago]})
        assert planned.offsets["a"]["watermark_ms"] is None


def test_a_run_without_rows_moves_by_the_clock_alone_and_by_what_earlier_runs_had() -> None:
    by_bound, by_clock = Planned(inputs("a")), Planned(inputs("a", delay_s=3_600))
    for planned in (by_bound, by_clock):
        assert planned.run({"a": [3_000]}) == 3_005
    for each in by_clock.inputs.values():
        object.__setattr__(each, "delay_us", 2_995 * SECOND)
    assert by_bound.run() == 3_005
    assert by_clock.run() == 2_995


def test_a_run_whose_batches_are_never_reported_ends_all_the_same() -> None:
    planned = Planned(inputs("a"))
    planned.start()
    offset = planned.offsets["a"]
    answers = 0
    while (after := planned.runs.answer("a", offset)) is not None:
        offset, answers = after, answers + 1
        assert answers < 10
    assert offset["watermark_ms"] is None


def test_where_no_input_ever_had_rows_nothing_moves() -> None:
    assert Planned(inputs("a", "b", delay_s=0)).run() is None


@given(
    st.lists(st.floats(0, 10_000), min_size=1, max_size=5),
    st.lists(st.floats(0, 10_000), max_size=5),
    st.none() | st.floats(0, 5_000),
)
def test_it_never_passes_the_newest_window_with_rows_nor_what_the_bound_and_the_clock_allow(
    ours_s: list[float], others_s: list[float], delay_s: float | None
) -> None:
    behind_s = Planned(inputs("a", "b", delay_s=delay_s)).run({"a": ours_s, "b": others_s})
    assert behind_s is not None
    newest_s = min(ours_s + others_s)
    by_bound_s = max(min(times) + BOUND_S for times in (ours_s, others_s) if times)
    assert behind_s >= newest_s - WINDOW.size_us / SECOND - 0.001
    assert behind_s >= min(by_bound_s, float("inf") if delay_s is None else delay_s) - 0.002
    assert behind_s <= by_bound_s + 0.002
