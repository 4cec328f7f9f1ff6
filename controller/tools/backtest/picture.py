"""A backtest as a picture: the bounds and the needs over time, and loss against latency.

The colours are those of Okabe and Ito, which colour-blind people can tell apart; a policy that misses the target has a
hollow mark and the word "missed". matplotlib is used without its global state, so that nothing but the file changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tidemark.controller.base.whole_file import whole_file
from tidemark.controller.tools.backtest.chart import (
    MarginLabel,
    duration_axis,
    duration_scale,
    label_in_margin,
    loss_axis,
    medians,
)
from tidemark.controller.tools.backtest.record import (
    NeedsOverTime,
    PairNeeds,
    lag_us,
    needs_over_time,
    pair_needs,
)
from tidemark.controller.tools.backtest.table import format_latency, heading
from tidemark.controller.tools.backtest.trial import PolicyResult, Trial
from tidemark.models.backtest.catalogue import FIXED_HINDSIGHT
from tidemark.models.backtest.run import BacktestScore, run_native, score
from tidemark.models.base.duration import format_about
from tidemark.models.base.target import PPM
from tidemark.models.base.text import format_number
from tidemark.models.evidence.curve import ExactNeeds

_SIZE_INCHES, _DPI = (12.0, 10.0), 120
FIXED_BOUNDS = 40
"""Maximum number of constant bounds on the frontier."""

_SPANS = 300
"""Number of spans of time for which needs are shown."""
_LEFT, _RIGHT = 0.07, 0.765
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": "#444444",
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "legend.fontsize": 9,
    "text.parse_math": False,
}
_LEGEND: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.01, 0.99), "ncols": 3, "frameon": False}
"""Between a chart and its title, where it covers nothing."""
_Dashes = str | tuple[int, tuple[float, ...]]
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_DASHES: tuple[_Dashes, ...] = ("solid", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))
_MARKERS = "os^v"
_DARK, _GREY, _NEEDS, _LATEST, _TARGET = "#222222", "#777777", "#c3ccd2", "#7d8b94", "#8a5a00"


@dataclass(frozen=True, slots=True)
class _Style:
    """How a policy is drawn."""

    colour: str
    dashes: _Dashes
    marker: str


@dataclass(frozen=True, slots=True)
class _Frame:
    """Limits of the frontier: latencies in microseconds, losses as shares."""

    left: float
    right: float
    bottom: float
    top: float
    far_apart: bool
    """Whether latencies differ so much that a logarithmic axis shows them better."""


def draw(path: Path, trial: Trial, on_progress: Callable[[int], object] = lambda _: None) -> None:
    """Draw ``trial`` into a PNG at ``path``, whole or not at all.

    Args:
        path: the file.
        trial: one trace under some policies.
        on_progress: called with the number of constant bounds done, of ``FIXED_BOUNDS``.

    Raises:
        ValueError: when the file cannot be written.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, facecolor="white")
        FigureCanvasAgg(figure)
        title, *details = heading(trial, trial.path.name)
        figure.text(_LEFT, 0.972, title, fontsize=13, fontweight="bold", color=_DARK)
        figure.text(_LEFT, 0.93, "\n".join(details), fontsize=9.5, color="#555555", linespacing=1.5)
        styles = _styles(trial.outcomes)
        pairs = pair_needs(trial.arrivals, trial.setup)
        width = _RIGHT - _LEFT
        _draw_lags(figure.add_axes((_LEFT, 0.52, width, 0.325)), trial, styles, pairs)
        _draw_frontier(figure.add_axes((_LEFT, 0.06, width, 0.345)), trial, styles, pairs, on_progress)
        try:
            with whole_file(path) as unfinished:
                figure.savefig(unfinished, format="png")
        except OSError as error:
            raise ValueError(f"{path}: cannot be written: {error.strerror}") from None


def _styles(outcomes: Sequence[PolicyResult]) -> dict[str, _Style]:
    others = [outcome.policy for outcome in outcomes if outcome.policy != FIXED_HINDSIGHT]
    styles = {FIXED_HINDSIGHT: _Style(_DARK, (0, (4, 2)), "D")}
    for number, name in enumerate(others):
        cycle, colour = divmod(number, len(_COLOURS))
        styles[name] = _Style(
            _COLOURS[colour], _DASHES[cycle % len(_DASHES)], _MARKERS[cycle % len(_MARKERS)]
        )
    return styles


# -- the bounds over time ------------------------------------------------------------------------------------


def _draw_lags(axes: Axes, trial: Trial, styles: dict[str, _Style], pairs: PairNeeds) -> None:
    arrivals = trial.arrivals
    needs = needs_over_time(arrivals, trial.setup, pairs, _SPANS)
    width = -(-arrivals.slots // _SPANS)
    lines = {
        outcome.policy: medians(outcome.run.slot // width, lag_us(arrivals, outcome.run))
        for outcome in trial.outcomes
    }
    known = np.concatenate([lag for _, lag in lines.values()])
    low, high = _limits(known, needs, trial.yardstick.fixed.bound_us)
    labels = []
    for name, (span, lag) in lines.items():
        style, x = styles[name], span * float(width * trial.setup.trigger_us)
        axes.plot(
            x,
            lag,
            color=style.colour,
            linestyle=style.dashes,
            linewidth=1.6,
            drawstyle="steps-post",
            zorder=3,
        )
        if len(lag):
            labels.append(MarginLabel(name, style.colour, float(lag[-1])))
    end_us = arrivals.slots * trial.setup.trigger_us
    axes.set_ylim(low, high)
    axes.set_xlim(0, end_us)
    duration_axis(axes.yaxis, low, high)
    duration_axis(axes.xaxis, 0, end_us)
    axes.set_xlabel("time since the first arrival", loc="right")
    axes.set_title("Effective bound: how far the watermark trails the maximum event time", pad=24)
    handles = _draw_needs(axes, trial, needs, high)
    place = (-0.01, 0.99)
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=place, ncols=3, frameon=False, handlelength=1.2
    )
    label_in_margin(axes, labels)


def _limits(lag: NDArray[np.float64], needs: NeedsOverTime, fixed_bound_us: int) -> tuple[float, float]:
    """Return the limits of the chart: the bounds and most needs, so that one outlier does not flatten the rest."""
    highest = max(float(fixed_bound_us), float(np.quantile(lag, 0.99)) if len(lag) else 0.0, 1_000.0)
    at_target = float(np.quantile(needs.at_target_us, 0.95)) if len(needs.at_target_us) else 0.0
    high = 1.15 * max(highest, min(at_target, 3 * highest))
    lowest = float(lag.min()) if len(lag) else 0.0
    return (max(lowest * 1.1, -high / 2) if lowest < 0 else 0.0), high


def _draw_needs(axes: Axes, trial: Trial, needs: NeedsOverTime, high: float) -> list[Artist | BarContainer]:
    """Draw the needs; return the handles of the legend, in order."""
    width = -(-trial.arrivals.slots // _SPANS) * trial.setup.trigger_us
    middle = needs.wall_us - trial.arrivals.first_us - width / 2
    label = f"bound that {format_number(trial.setup.target_ppm / 10_000)} % of the rows arriving then needed"
    bars = axes.bar(
        middle, np.clip(needs.at_target_us, 0, high), width, color=_NEEDS, linewidth=0, label=label
    )
    inside, beyond = (needs.max_us > 0) & (needs.max_us <= high), needs.max_us > high
    latest: dict[str, Any] = {"linestyle": "none", "color": _LATEST, "markersize": 3.5}
    label = "that the latest of them needed"
    handles: list[Artist | BarContainer] = [
        bars,
        *axes.plot(middle[inside], needs.max_us[inside], marker=".", label=label, **latest),
    ]
    if beyond.any():
        label = f"the same, above (up to {format_about(int(needs.max_us.max()))})"
        top = np.full(int(beyond.sum()), high * 0.985)
        handles += axes.plot(middle[beyond], top, marker="^", label=label, **latest)
    return handles


# -- the frontier --------------------------------------------------------------------------------------------


def _fixed_bounds(trial: Trial, pairs: PairNeeds, frame: _Frame) -> list[int]:
    """Return constant bounds whose latencies and losses are spread over the frame."""
    needs = ExactNeeds(pairs.need_us, pairs.count)
    by_loss = [
        needs.value_at_rank(float(np.ceil((1 - loss) * needs.weight)))
        for loss in [0.0, *np.geomspace(frame.bottom, frame.top, FIXED_BOUNDS // 2 - 2).tolist()]
    ]
    # The latency of a constant bound is the bound plus something that hardly depends on it.
    rest_us = _latency(trial.yardstick.fixed.score) - trial.yardstick.fixed.bound_us
    spaced = np.geomspace if frame.far_apart else np.linspace
    by_latency = spaced(
        max(frame.left, 1.0) if frame.far_apart else frame.left, frame.right, FIXED_BOUNDS // 2 - 1
    )
    values = [*(value for value in by_loss if value is not None), *(by_latency - rest_us).tolist()]
    return sorted({0, *(round(value) for value in values if value > 0)})


def _draw_frontier(
    axes: Axes,
    trial: Trial,
    styles: dict[str, _Style],
    pairs: PairNeeds,
    on_progress: Callable[[int], object],
) -> None:
    axes.set_title(f"{_loss_name(trial)} against latency: down and to the left is better", pad=24)
    if trial.yardstick.fixed.score.latency_mean_us is None:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "no window of this trace can be scored", ha="center", transform=axes.transAxes)
        return
    frame = _frame(trial)
    duration_scale(axes, frame.left, frame.right, far_apart=frame.far_apart)
    loss_axis(axes, frame.bottom, frame.top)
    curve = []
    for done, bound_us in enumerate(_fixed_bounds(trial, pairs, frame)):
        on_progress(done)
        fixed = score(trial.arrivals, trial.setup, run_native(trial.arrivals, trial.setup, bound_us))
        curve.append((_latency(fixed), max(_loss(trial, fixed), frame.bottom)))
    on_progress(FIXED_BOUNDS)
    axes.plot(
        *zip(*curve, strict=True),
        color=_GREY,
        linewidth=1.4,
        marker=".",
        markersize=4,
        label="constant bounds",
    )
    axes.axhline(
        _budget(trial), color=_TARGET, linewidth=1.3, linestyle=(0, (6, 2)), label="what the target allows"
    )
    clairvoyant = trial.yardstick.clairvoyant_us
    if clairvoyant is not None:
        label = f"clairvoyant ({format_latency(clairvoyant)}): nothing that meets the target is faster"
        axes.axvline(max(clairvoyant, frame.left), color=_DARK, linewidth=1.3, linestyle=":", label=label)
    labels = []
    for outcome in trial.outcomes:
        style = styles[outcome.policy]
        x, y = _latency(outcome.score), max(_loss(trial, outcome.score), frame.bottom)
        axes.plot(
            max(x, frame.left),
            y,
            style.marker,
            markersize=9,
            color=style.colour,
            markerfacecolor=style.colour if outcome.meets else "white",
            markeredgewidth=2,
            zorder=5,
            clip_on=False,
        )
        text = f"{outcome.policy}: {format_latency(x)}{'' if outcome.meets else ', missed'}"
        labels.append(MarginLabel(text, style.colour, y, max(x, frame.left)))
    axes.set_xlabel("mean latency, from the end of a window to its emission", loc="right")
    axes.legend(**_LEGEND)
    label_in_margin(axes, labels)


def _frame(trial: Trial) -> _Frame:
    """Return limits that hold every policy, the target and the clairvoyant."""
    scores = [outcome.score for outcome in trial.outcomes]
    latencies = [_latency(one) for one in [trial.yardstick.fixed.score, *scores]]
    losses = [_loss(trial, one) for one in scores]
    budget = _budget(trial)
    low, high = min([*latencies, trial.yardstick.clairvoyant_us or 0.0]), max(latencies)
    far_apart = low > 0 and high > 6 * low
    pad = max((high - low) * 0.12, high * 0.05, 1_000.0)
    return _Frame(
        left=low / 1.25 if far_apart else max(low - pad, -0.04 * (high + pad)),
        right=high * 1.3 if far_apart else high + pad,
        bottom=min([budget, *(loss for loss in losses if loss)]) / 6,
        top=min(1.0, max(budget * 6, *(loss * 1.8 for loss in losses))),
        far_apart=far_apart,
    )


def _budget(trial: Trial) -> float:
    """Return the loss that the target allows."""
    setup = trial.setup
    return 1 - (setup.good_windows_ppm if setup.objective == "timeslices" else setup.target_ppm) / PPM


def _loss_name(trial: Trial) -> str:
    if trial.setup.objective == "timeslices":
        return f"Windows under {format_number(trial.setup.target_ppm / 10_000)} %"
    return "Rows lost"


def _loss(trial: Trial, score: BacktestScore) -> float:
    """Return the share of what the target counts that was lost."""
    if trial.setup.objective == "timeslices":
        return 1 - score.windows_met / score.windows
    return score.late / score.pairs


def _latency(score: BacktestScore) -> float:
    return score.latency_mean_us or 0.0
