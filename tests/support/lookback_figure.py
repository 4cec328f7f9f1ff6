"""The figure of ``tidemark lookback``: the share that each look-back keeps of a made table; ``make figure``.

The scale is logarithmic in what is lost.
"""

from __future__ import annotations

import json
import tempfile
from math import log10
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

from tidemark.controller.tools.cli import app

from support.svg import THEMES, opening, text
from support.tree import ROOT

__all__ = ["DAY", "EXTRA_DAYS", "FIGURE", "FIRST_US", "SECOND", "lookback_figure", "orders", "times"]

FIGURE = ROOT / "docs" / "lookback.svg"
SECOND, DAY = 1_000_000, 86_400_000_000
FIRST_US = 20_000 * DAY
EXTRA_DAYS = np.repeat([0, 1, 2, 3, 5, 8], [900, 60, 20, 10, 6, 4])
"""Of a thousand rows, how many days after the end of their own each is loaded."""

_THEME = THEMES[0]
_WIDTH, _HEIGHT = 720, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 700, 56, 272
_SHARES_PPM = (800_000, 900_000, 950_000, 980_000, 990_000, 995_000, 998_000, 999_000)
_HALF = 4
"""Half the width of the ends of an interval, in pixels."""


def times(days: int = 60, rows_a_day: int = 400) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return times of rows that are loaded a second before the end of a day, in microseconds."""
    number = np.arange(days * rows_a_day)
    event = FIRST_US + number * (DAY // rows_a_day)
    return event, (event // DAY + 1 + EXTRA_DAYS[number * 619 % 1_000]) * DAY - SECOND


def orders(zone: str | None = "UTC") -> pa.Table:
    """Return the made table."""
    kind = pa.timestamp("us", zone)
    event, loaded = (pa.array(column, kind) for column in times())
    return pa.table({"event_time": event, "loaded_at": loaded})


def lookback_figure() -> str:
    """Return the figure as SVG, of what the command says of the table at a target of 99 %."""
    found = _answer()
    target_ppm, chosen = found["target_ppm"], f"0 to {found['look_back']}"
    shown = {
        name: one
        for name, one in found["readings"].items()
        if name.startswith("0 to ") and one["min_ppm"] >= _SHARES_PPM[0]
    }
    step = (_RIGHT - _LEFT) / len(shown)
    heading = f"Look-back {found['look_back']} is the smallest whose interval lies above the target"
    parts = [
        opening(_WIDTH, _HEIGHT, _summary(shown, found), _THEME),
        text(_LEFT, 28, heading, _THEME.ink, size=16, bold=True),
    ]
    for share_ppm in _SHARES_PPM:
        parts += [
            f'<path d="M{_LEFT} {_y(share_ppm):.1f}H{_RIGHT}" stroke="{_THEME.grid}"/>',
            text(_LEFT - 8, _y(share_ppm) + 4, _percent(share_ppm), _THEME.faint_ink, "end", size=12),
        ]
    target_y = _y(target_ppm)
    parts += [
        f'<path d="M{_LEFT} {target_y:.1f}H{_RIGHT}" stroke="{_THEME.target}" stroke-width="1.5"/>',
        text(_LEFT + 6, target_y - 6, f"the target is {_percent(target_ppm)}", _THEME.target, bold=True),
    ]
    for place, (name, one) in enumerate(shown.items()):
        x, is_chosen = _LEFT + (place + 0.5) * step, name == chosen
        colour = _THEME.lines[2] if is_chosen else _THEME.lines[1]
        low, high, y = _y(one["min_ppm"]), _y(one["max_ppm"]), _y(one["kept_ppm"])
        ends = "".join(f"M{x - _HALF:.1f} {end:.1f}h{2 * _HALF}" for end in (low, high))
        parts += [
            f'<path d="M{x:.1f} {low:.1f}V{high:.1f}{ends}" stroke="{colour}" stroke-width="{1 + 2 * is_chosen}"/>',
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{4 + 2 * is_chosen}" fill="{colour}"/>',
            text(x, _BOTTOM + 20, name.removeprefix("0 to "), _THEME.ink, "middle", bold=is_chosen),
        ]
    about = "look-back, in days; the share of rows kept, and that of days to come with its interval of 95 %"
    parts.append(text((_LEFT + _RIGHT) / 2, _BOTTOM + 44, about, _THEME.faint_ink, "middle", size=12))
    return "\n".join((*parts, "</svg>\n"))


def _answer() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "orders.parquet"
        pq.write_table(orders(), path)
        options = ["--event-time", "event_time", "--loaded-at", "loaded_at", "--target", "99%", "-o", "json"]
        said = CliRunner().invoke(app, ["lookback", str(path), *options], catch_exceptions=False)
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def _y(share_ppm: float) -> float:
    most, least = (1_000_000 - share for share in (_SHARES_PPM[0], _SHARES_PPM[-1]))
    height = log10(most / max(1_000_000 - share_ppm, least)) / log10(most / least)
    return _BOTTOM - (_BOTTOM - _TOP) * height


def _percent(share_ppm: int) -> str:
    return f"{share_ppm / 10_000:g} %"


def _summary(shown: dict[str, dict[str, Any]], found: dict[str, Any]) -> str:
    """Say in words what is drawn, for those who cannot see it."""
    each = "; ".join(
        f"{name.removeprefix('0 to ')}: {_percent(one['kept_ppm'])} ({_percent(one['min_ppm'])} to "
        f"{_percent(one['max_ppm'])})"
        for name, one in shown.items()
    )
    return (
        f"Share of rows kept by look-back, with its interval: {each}. Look-back {found['look_back']} is chosen for "
        f"the target of {_percent(found['target_ppm'])}."
    )


if __name__ == "__main__":
    FIGURE.write_text(lookback_figure(), encoding="utf-8")
