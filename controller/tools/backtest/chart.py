"""Axes for durations and losses, and labels in the margin that do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray

from tidemark.models.base.duration import MICROSECONDS, format_about
from tidemark.models.base.operators import Int64s
from tidemark.models.base.text import format_number

_Float64s = NDArray[np.float64]

_STEPS_US = (
    *(digit * 10**power for power in range(6) for digit in (1, 2, 5)),
    *(seconds * MICROSECONDS["s"] for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * MICROSECONDS["m"] for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * MICROSECONDS["h"] for hours in (1, 2, 3, 6, 12)),
    *(days * MICROSECONDS["d"] for days in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)),
)
"""Distances between ticks, in units that people count in."""
_MAX_TICKS = 8
_MIN_LOG_RATIO = 20
"""A logarithmic axis whose ends have a smaller ratio gets the ticks of a linear axis."""
_LABEL_HEIGHT_POINTS = 13.5


@dataclass(frozen=True, slots=True)
class MarginLabel:
    """A label in the right margin, with a thin line to what it names."""

    text: str
    colour: str
    y: float
    """Position of what it names, in the coordinates of the data."""
    x: float | None = None
    """The same horizontally; None for the right edge."""


def duration_axis(axis: Axis, low_us: float, high_us: float) -> None:
    """Put ticks at round durations, each with its unit."""
    if axis.get_scale() == "log" and high_us > _MIN_LOG_RATIO * low_us:
        ticks = [step for step in _STEPS_US if low_us <= step <= high_us]
        ticks = ticks[:: -(-len(ticks) // _MAX_TICKS)]
    else:
        step = next((one for one in _STEPS_US if (high_us - low_us) / one <= _MAX_TICKS), _STEPS_US[-1])
        ticks = [number * step for number in range(int(-(-low_us // step)), int(high_us // step) + 1)]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(round(value))))


def duration_scale(axes: Axes, low_us: float, high_us: float, *, far_apart: bool) -> None:
    """Make the horizontal axis one of durations, logarithmic when they are far apart."""
    axes.set_xscale("log" if far_apart else "linear")
    axes.set_xlim(low_us, high_us)
    duration_axis(axes.xaxis, max(low_us, 0), high_us)


def loss_axis(axes: Axes, bottom: float, top: float) -> None:
    """Make the vertical axis one of losses in percent, logarithmic; the lowest tick stands for no loss."""
    axes.set_yscale("log")
    axes.set_ylim(bottom / 1.25, top)
    powers = range(int(np.floor(np.log10(bottom))), 1)
    digits = (1,) if top / bottom > 3_000 else (1, 2, 5)
    ticks = [digit * 10.0**power for power in powers for digit in digits]
    shown = [bottom, *(tick for tick in ticks if bottom * 1.5 < tick <= top)]
    axes.yaxis.set_major_locator(FixedLocator(shown))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(
        FuncFormatter(
            lambda value, _: "none" if value <= bottom * 1.01 else f"{format_number(100 * value)} %"
        )
    )


def label_in_margin(axes: Axes, labels: Sequence[MarginLabel]) -> None:
    """Write the labels right of the axes, each as near to what it names as the others allow."""
    points = axes.get_window_extent().height * 72 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    to_axes = (axes.transData + axes.transAxes.inverted()).transform
    heights = [float(np.clip(to_axes((axes.get_xlim()[1], label.y))[1], 0, 1)) for label in labels]
    for label, at, own in zip(labels, spread(heights, _LABEL_HEIGHT_POINTS / points), heights, strict=True):
        axes.annotate(
            label.text,
            xy=(1.0, own) if label.x is None else (label.x, label.y),
            xycoords="axes fraction" if label.x is None else "data",
            xytext=(1.025, at),
            textcoords="axes fraction",
            color=label.colour,
            fontsize=9.5,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": label.colour,
                "linewidth": 0.7,
                "alpha": 0.55,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


def spread(targets: Sequence[float], gap: float) -> list[float]:
    """Return places in [0, 1] near ``targets``, in its order, at least ``gap`` apart unless they are too many."""
    if not targets:
        return []
    gap = min(gap, 1 / max(len(targets) - 1, 1))
    order = sorted(range(len(targets)), key=lambda index: targets[index])
    places = [targets[index] for index in order]
    for index in range(1, len(places)):
        places[index] = max(places[index], places[index - 1] + gap)
    places[-1] = min(places[-1], 1.0)
    for index in range(len(places) - 2, -1, -1):
        places[index] = min(places[index], places[index + 1] - gap)
    found = [0.0] * len(places)
    for index, place in zip(order, places, strict=True):
        found[index] = max(place, 0.0)
    return found


def medians(group: Int64s, values: _Float64s) -> tuple[Int64s, _Float64s]:
    """Return the groups, ascending, and the median of the values of each; NaN is left out."""
    known = ~np.isnan(values)
    order = np.lexsort((values[known], group[known]))
    ordered, sorted_values = group[known][order], values[known][order]
    found, start, size = np.unique(ordered, return_index=True, return_counts=True)
    return found, (sorted_values[start + (size - 1) // 2] + sorted_values[start + size // 2]) / 2


def _tick(duration_us: int) -> str:
    return "1 min" if duration_us == MICROSECONDS["m"] else format_about(duration_us)
