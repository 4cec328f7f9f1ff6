"""A window as a controller describes it, for tests of what a driver makes of it."""

from __future__ import annotations

from tidemark.models.completeness.outcome import Window, WindowEstimate, WindowScore

__all__ = ["END_US", "ESTIMATE", "WINDOW"]

END_US = 1_767_225_660_000_000
ESTIMATE = WindowEstimate(
    expected=1_192,
    expected_min=1_162,
    expected_max=1_274,
    came_ppm=915_268,
    came_min_ppm=856_357,
    came_max_ppm=938_898,
    settled=False,
    reached_us=None,
    reached_max_us=None,
    silent=[],
    score=WindowScore(windows=100, within=95, settled=1, rightly=1),
)
WINDOW = Window(
    end_us=END_US,
    state="Open",
    asked_ppm=995_000,
    outcome="NotYet",
    rows=1_091,
    late_min=0,
    late_max=0,
    counted_min_ppm=1_000_000,
    counted_max_ppm=1_000_000,
    estimate=ESTIMATE,
    unknown=None,
)
