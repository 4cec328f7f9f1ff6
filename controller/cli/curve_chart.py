"""A curve as a chart of characters: the share of late rows by bound, in the dots of the Braille patterns.

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

_COLUMNS, _LINES = 72, 14
_DOTS_ACROSS, _DOTS_DOWN = 2, 4
_DOT = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bit of each dot of a Braille pattern, by column and row."""
_BRAILLE = 0x2800
_FAR_APART = 20
"""Ratio of the widest bound to the chosen one from which the axis is logarithmic, as one straggler would flatten it."""
_TARGET, _CHOSEN = "┄", "┊"


@dataclass(frozen=True, slots=True)
class Marks:
    """What is marked on a chart."""

    target_ppm: int | None
    """The completeness target; None without one."""
    bound_us: int | None
    """A bound, in microseconds; None without one."""
    bound_name: str
    """What it is, such as "chosen"."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """Values to places from 0 to 1."""

    low: float
    high: float
    logarithmic: bool

    def place(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(inside / self.low) / math.log(self.high / self.low)
        return (inside - self.low) / (self.high - self.low)

    def value(self, place: float) -> float:
        if self.logarithmic:
            return self.low * math.pow(self.high / self.low, place)
        return self.low + (self.high - self.low) * place


def chart(points: Sequence[tuple[int, int]], rows: int, marks: Marks) -> list[str]:
    """Return the lines of a chart.

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
    losses = [late / rows for _, late in points]
    across, up = _bounds_scale(bounds, marks.bound_us), _loss_scale(losses, marks.target_ppm)
    allowed = None if marks.target_ppm is None else 1 - marks.target_ppm / PPM
    cells = [[" "] * _COLUMNS for _ in range(_LINES)]
    target_line = None if allowed is None else _line(up, allowed)
    if target_line is not None:
        cells[target_line] = [_TARGET] * _COLUMNS
    if marks.bound_us is not None and across.low <= marks.bound_us <= across.high:
        column = min(int(across.place(marks.bound_us) * _COLUMNS), _COLUMNS - 1)
        for line in cells:
            line[column] = _CHOSEN
    _draw(cells, [_at(bounds, losses, across.value(place)) for place in _places()], up)
    named = _names(up, losses, target_line, marks.target_ppm)
    width = max(map(len, named.values()))
    drawn = [
        f"{named.get(number, ''):>{width}} ┤{''.join(line).rstrip()}" for number, line in enumerate(cells)
    ]
    low, high = format_about(across.low), format_about(across.high)
    middle = format_about(across.value(0.5))
    gap = _COLUMNS - len(low) - len(middle) - len(high)
    axis = f"{low}{' ' * (gap // 2)}{middle}{' ' * (gap - gap // 2)}{high}"
    return [*drawn, f"{'':{width}} └{'─' * _COLUMNS}", f"{'':{width}}  {axis}", _legend(marks)]


def _bounds_scale(bounds: Sequence[int], marked_us: int | None) -> _Scale:
    positive = [bound for bound in bounds if bound > 0]
    middle = marked_us if marked_us is not None and marked_us > 0 else positive[len(positive) // 2]
    if bounds[-1] > _FAR_APART * middle:
        return _Scale(float(min(positive[0], middle)), float(bounds[-1]), logarithmic=True)
    return _Scale(float(bounds[0]), float(bounds[-1]), logarithmic=False)


def _loss_scale(losses: Sequence[float], target_ppm: int | None) -> _Scale:
    """Return a scale that ends below the lowest loss: its end stands for none."""
    shown = [loss for loss in losses if loss] or [1.0]
    if target_ppm is not None:
        shown.append(1 - target_ppm / PPM)
    low, high = min(shown), max(shown)
    return _Scale(low / 3, high * 1.2 if high > low else 3 * high, logarithmic=True)


def _places() -> list[float]:
    dots = _COLUMNS * _DOTS_ACROSS
    return [dot / (dots - 1) for dot in range(dots)]


def _at(bounds: Sequence[int], losses: Sequence[float], bound: float) -> float:
    """Return the loss of a bound: that of the greatest point at or below it, which is a maximum between two."""
    return losses[max(bisect_right(bounds, bound) - 1, 0)]


def _dot(up: _Scale, loss: float) -> int:
    """Return how many dots from the top a loss is."""
    dots = _LINES * _DOTS_DOWN
    return min(int((1 - (up.place(loss) if loss else 0.0)) * dots), dots - 1)


def _line(up: _Scale, loss: float) -> int:
    return _dot(up, loss) // _DOTS_DOWN


def _draw(cells: list[list[str]], losses: Sequence[float], up: _Scale) -> None:
    """Draw losses, one for each column of dots, joined by vertical lines where they fall."""
    bits: dict[tuple[int, int], int] = {}
    before = None
    for across, loss in enumerate(losses):
        down = _dot(up, loss)
        for dot in range(down if before is None else min(before + 1, down), down + 1):
            cell = dot // _DOTS_DOWN, across // _DOTS_ACROSS
            bits[cell] = bits.get(cell, 0) | _DOT[across % _DOTS_ACROSS][dot % _DOTS_DOWN]
        before = down
    for (line, column), pattern in bits.items():
        cells[line][column] = chr(_BRAILLE + pattern)


def _names(
    up: _Scale, losses: Sequence[float], target_line: int | None, target_ppm: int | None
) -> dict[int, str]:
    """Return what stands left of the lines: powers of ten, the loss that the target allows, and none."""
    named = {}
    for power in range(-6, 1):
        if up.low * 1.5 < 10.0**power <= up.high:
            named[_line(up, 10.0**power)] = f"{format_number(100 * 10.0**power)} %"
    if target_line is not None and target_ppm is not None:
        named[target_line] = format_share(PPM - target_ppm)
    if not losses[-1]:
        named[_LINES - 1] = "none"
    return named or {_line(up, losses[0]): f"{format_number(100 * losses[0], 3)} %"}


def _legend(marks: Marks) -> str:
    said = ["late rows by bound"]
    if marks.target_ppm is not None:
        said.append(f"{_TARGET} what the target of {format_share(marks.target_ppm)} allows")
    if marks.bound_us is not None:
        said.append(f"{_CHOSEN} the bound {marks.bound_name}, {format_duration(marks.bound_us)}")
    return "; ".join(said)
