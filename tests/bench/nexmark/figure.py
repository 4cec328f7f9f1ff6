"""The one figure: the day's completeness and how long its results waited, from the record; ``make figure``.

Above, the share of the bids that were counted, by ten minutes of the day, with what Spark's own metric of dropped rows
says beside it; below, how long results waited. The upper scale is logarithmic in what was lost, so that 99.9 % and
99.5 % can be read beside 90 %.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any, NamedTuple

from bench.nexmark.day import EVENTS, HOUR_S
from bench.nexmark.stages import DAY
from bench.nexmark.tables import clock_text, share_text, time_text
from support.browser import find_chromium, running_browser
from support.svg import THEMES, Theme, opening, text
from support.tree import ROOT

__all__ = ["FIGURES", "THEMES", "Theme", "day_figure", "label_boxes"]

WIDTH, HEIGHT = 960, 648
_LEFT, _RIGHT = 92, 936
_UPPER, _LOWER = (100, 372), (406, 588)
_HEADING_Y, _LEGEND_Y, _LABELS_Y = 28, 54, 86
_PNG_SCALE = 1.25

_SHARES = (1.0, 0.999, 0.995, 0.99, 0.95, 0.9, 0.5)
_LEAST_LOST, _MOST_LOST = 0.0005, 0.5
"""The upper scale's ends, as shares: what lost less is drawn at the top."""
_LONGEST_MIN = (4, 8, 12, 16, 20, 40, 60, 120)
"""Ends that the lower scale may have."""


FIGURES = {theme.name: ROOT / "docs" / f"day-{theme.name}.svg" for theme in THEMES}
_LINES = (("spark-guess", 1.6), ("spark-safe", 1.6), ("live", 2.4))
_SAID = 'stroke-width="1.3" stroke-dasharray="4 3"'


class _Shown(NamedTuple):
    """A system that has a line."""

    system: dict[str, Any]
    label: str
    width: float


@dataclass(frozen=True, slots=True)
class _Panel:
    """Where values of the day are drawn."""

    top: float
    bottom: float
    height: Callable[[float], float]
    """Returns how far up a value is, from 0 to 1."""

    def y(self, value: float) -> float:
        """Return where a value is, in pixels from above; at the panel's edge where it is beyond."""
        return self.bottom - (self.bottom - self.top) * min(max(self.height(value), 0), 1)

    def line(self, values: Sequence[float | None], style: str) -> str:
        """Return a line through the middles of the steps, with gaps where there is no value."""
        width = (_RIGHT - _LEFT) / len(values)
        points, pen = [], "M"
        for step, value in enumerate(values):
            if value is not None:
                points.append(f"{pen}{_LEFT + (step + 0.5) * width:.1f} {self.y(value):.1f}")
            pen = "M" if value is None else "L"
        return f'<path d="{"".join(points)}" fill="none" stroke-linejoin="round" {style}/>'


def day_figure(record: dict[str, Any], theme: Theme) -> str:
    """Return the figure of a record of the day as SVG."""
    shown, minutes = list(_shown(record)), record["speed"] / 60
    longest_min = max(wait_s or 0 for each in shown for *_, wait_s in each.system["steps"]) * minutes
    top_min = next((top for top in _LONGEST_MIN if longest_min <= top), _LONGEST_MIN[-1])
    upper, lower = _Panel(*_UPPER, _height_of_share), _Panel(*_LOWER, lambda value: value / top_min)
    ticks_min, target = range(0, top_min + 1, top_min // 4), record["target_ppm"] / 1e6
    heading = f"A working day, played {record['speed']} times as fast on real Spark and Kafka"
    parts = [
        opening(WIDTH, HEIGHT, _summary(record, shown), theme),
        text(_LEFT, _HEADING_Y, heading, theme.ink, size=17, bold=True),
        *_legend(shown, theme),
        *_events(theme),
        *_axis(upper, theme, "bids counted", [(share, f"{share * 100:g} %") for share in _SHARES]),
        *_axis(lower, theme, "results waited", [(tick, f"{tick} min") for tick in ticks_min]),
        *_hours(theme),
        f'<path d="M{_LEFT} {upper.y(target):.1f}H{_RIGHT}" stroke="{theme.target}" stroke-width="1.5"/>',
        text(
            _RIGHT - 6, upper.bottom - 8, f"the target is {target * 100:g} %", theme.target, "end", bold=True
        ),
    ]
    for each, colour in zip(shown, theme.lines, strict=False):
        style, steps = f'stroke="{colour}" stroke-width="{each.width}"', each.system["steps"]
        if each.system["name"] == _LINES[0][0]:
            said = [1 - dropped / rows if rows else None for rows, dropped in each.system["said"]]
            parts.append(upper.line(said, f'stroke="{colour}" {_SAID}'))
        parts.append(upper.line([counted / sent if sent else None for sent, counted, _ in steps], style))
        parts.append(
            lower.line([None if wait_s is None else wait_s * minutes for *_, wait_s in steps], style)
        )
    return "\n".join((*parts, "</svg>\n"))


def _shown(record: dict[str, Any]) -> Iterable[_Shown]:
    systems = {system["name"]: system for system in record["systems"]}
    for name, width in _LINES:
        system = systems[name]
        yield _Shown(system, system["watermark" if system["system"] == "Spark" else "system"], width)


def _height_of_share(counted: float) -> float:
    lost = min(max(1 - counted, _LEAST_LOST), _MOST_LOST)
    return log10(_MOST_LOST / lost) / log10(_MOST_LOST / _LEAST_LOST)


def _x(time_s: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * time_s / (24 * HOUR_S)


def label_boxes() -> Iterable[tuple[float, float]]:
    """Return the left and right end of each event's label."""
    for event in EVENTS:
        centre, width = (_x(event.begin_s) + _x(event.end_s)) / 2, _text_width(event.name, 12)
        yield centre - width / 2, centre + width / 2


def _events(theme: Theme) -> Iterable[str]:
    """Yield a band and a label for each event."""
    for event, (left, right) in zip(EVENTS, label_boxes(), strict=True):
        x, width = _x(event.begin_s), _x(event.end_s) - _x(event.begin_s)
        yield (
            f'<rect x="{x + 0.5:.1f}" y="{_UPPER[0] - 8}" width="{max(width - 1, 2):.1f}" '
            f'height="{_LOWER[1] - _UPPER[0] + 8}" fill="{theme.band}"/>'
        )
        yield text((left + right) / 2, _LABELS_Y, event.name, theme.faint_ink, "middle", size=12)


def _axis(panel: _Panel, theme: Theme, name: str, ticks: Iterable[tuple[float, str]]) -> Iterable[str]:
    middle = (panel.top + panel.bottom) / 2
    yield f'<g transform="rotate(-90 22 {middle})">{text(22, middle, name, theme.ink, "middle")}</g>'
    for value, label in ticks:
        y = panel.y(value)
        yield f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="{theme.grid}"/>'
        yield text(_LEFT - 8, y + 4, label, theme.faint_ink, "end", size=12)


def _hours(theme: Theme) -> Iterable[str]:
    for hour in range(0, 25, 2):
        time_s = hour * HOUR_S
        yield text(_x(time_s), _LOWER[1] + 20, clock_text(time_s), theme.faint_ink, "middle", size=12)
    about = "time of the day; each point is ten minutes"
    yield text((_LEFT + _RIGHT) / 2, _LOWER[1] + 44, about, theme.faint_ink, "middle", size=12)


def _legend(shown: Sequence[_Shown], theme: Theme) -> Iterable[str]:
    """Yield a sample of each line with its name."""
    names = [
        (each.label, f'stroke="{colour}" stroke-width="{each.width}"')
        for each, colour in zip(shown, theme.lines, strict=True)
    ]
    names.insert(1, ("the guess as Spark's metric has it", f'stroke="{theme.lines[0]}" {_SAID}'))
    left = float(_LEFT)
    for label, style in names:
        yield f'<path d="M{left:.1f} {_LEGEND_Y - 4}h26" fill="none" {style}/>'
        yield text(left + 32, _LEGEND_Y, label, theme.ink)
        left += 32 + _text_width(label, 13) + 22


def _text_width(words: str, size: int) -> float:
    """Return about how wide a text is, rather too much: fonts differ."""
    return 0.58 * size * len(words)


def _summary(record: dict[str, Any], shown: Sequence[_Shown]) -> str:
    """Say in words what is drawn, for those who cannot see it."""
    said = "; ".join(
        f"{each.label}: {share_text(each.system)} of the bids counted, and a wait of "
        f"{time_text(each.system['latency_mean_s'], record['speed'])} on average"
        for each in shown
    )
    return f"A working day on real Spark. {said}. The target is {record['target_ppm'] / 10_000:g} %."


def main() -> None:
    """Write the figure of the recorded day: SVG, and PNG where there is a browser."""
    record = json.loads(DAY.record.read_text(encoding="utf-8"))
    for theme in THEMES:
        FIGURES[theme.name].write_text(day_figure(record, theme), encoding="utf-8")
    if find_chromium() is None:
        print(
            "there is no Chromium here, so only SVG was written; `make services` installs it", file=sys.stderr
        )
        return
    with running_browser() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=_PNG_SCALE)
        for path in FIGURES.values():
            page.goto(path.as_uri())
            page.screenshot(path=path.with_suffix(".png"))


if __name__ == "__main__":
    main()
