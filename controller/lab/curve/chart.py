"""A curve as a chart of characters: a bar for the share of late rows under each of some bounds.

Plain Python, since the command that draws the curve of a stream starts without numpy.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.target import PPM, format_share
from tidemark.models.base.text import format_number, plural

_BARS, _COLUMNS = 16, 60
_FAR_APART = 20
"""Ratio of the widest bound to the chosen one from which bounds are drawn in equal ratios and not at equal distances,
as one straggler would leave no bar for the others."""
_BAR, _TARGET = "█", "┊"


@dataclass(frozen=True, slots=True)
class Marks:
    """What is marked on a chart."""

    target_ppm: int | None
    """The completeness target; None without one."""
    bound_us: int | None
    """A bound, in microseconds; None without one."""
    bound_name: str
    """What it is, such as "chosen"."""


def chart(points: Sequence[tuple[int, int]], rows: int, marks: Marks) -> list[str]:
    """Return the lines of a chart; the bars are as long as the logarithm of the share.

    Args:
        points: bounds in microseconds, ascending and distinct, and how many rows are late under each.
        rows: all rows.
        marks: what is marked.
    """
    bounds = [bound for bound, _ in points]
    if len(points) < 2 or not rows:
        return [
            f"a chart needs at least two bounds and a row: {plural(len(points), 'bound')}, {plural(rows, 'row')}"
        ]
    # The greatest point at or below a bound says its loss, which is a maximum between two.
    losses = {
        bound: points[max(bisect_right(bounds, bound) - 1, 0)][1] / rows
        for bound in _drawn(bounds, marks.bound_us)
    }
    allowed = 0.0 if marks.target_ppm is None else 1 - marks.target_ppm / PPM
    shown = [loss for loss in (*losses.values(), allowed) if loss] or [1.0]
    low, high = min(shown) / 3, max(shown)
    target_column = _length(allowed, low, high)
    names = {bound: format_about(bound) for bound in losses}
    width = max(map(len, names.values()))
    lines = []
    for bound, loss in losses.items():
        bar = f"{_BAR * _length(loss, low, high):<{_COLUMNS}}"
        if target_column:
            bar = f"{bar[:target_column]}{_TARGET}{bar[target_column:]}"
        share = f"{format_number(100 * loss, 3)} %" if loss else "none"
        mark = f"  <- {marks.bound_name}" if bound == marks.bound_us else ""
        lines.append(f"{names[bound]:>{width}} {bar} {share}{mark}")
    return [*lines, _legend(marks)]


def _drawn(bounds: Sequence[int], marked_us: int | None) -> list[int]:
    """Return the bounds that have a bar."""
    positive = [bound for bound in bounds if bound > 0]
    middle = marked_us or positive[len(positive) // 2]
    low, high = float(bounds[0]), bounds[-1]
    steps = [step / (_BARS - 1) for step in range(_BARS)]
    if high > _FAR_APART * middle:
        low = max(middle / _FAR_APART, 1)
        drawn = {round(low * (high / low) ** step) for step in steps}
    else:
        drawn = {round(low + (high - low) * step) for step in steps}
    inside = marked_us is not None and bounds[0] <= marked_us <= high
    return sorted(drawn | ({marked_us} if inside and marked_us is not None else set()))


def _length(loss: float, low: float, high: float) -> int:
    return round(_COLUMNS * math.log(loss / low) / math.log(high / low)) if loss else 0


def _legend(marks: Marks) -> str:
    parts = ["late rows by bound"]
    if marks.target_ppm is not None:
        parts.append(f"{_TARGET} what the target of {format_share(marks.target_ppm)} allows")
    if marks.bound_us is not None:
        parts.append(f"the bound {marks.bound_name}, {format_duration(marks.bound_us)}")
    return "; ".join(parts)
