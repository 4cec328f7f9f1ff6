"""How right an estimate of a window is, on every kind of stream, and how soon it calls a window settled.

Each kind of ``support.synthetic`` and ``support.system_kinds`` with a seed, triggers of a tenth of a window, and real
traces where ``TIDEMARK_TRACES`` names them as for ``make bench-policy``.

Printed: usual rows of a window; the mean error of the rows so far, and that of the estimate as a part of it, at seven
ages from the end to four windows later; the share of the final counts within the interval; of how many estimates
nothing was known; the windows called settled at 99.5 % and how many of them were not; how long after the clairvoyant
they were called, as the ratio of the times since the window's start, and since its end, in the median; and how many
were never called.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest

from tidemark.models.base.operators import Int64s
from tidemark.models.base.target import PPM
from tidemark.models.completeness.estimate import DEFAULT_SHARE_PPM, estimate
from tidemark.models.completeness.outcome import WindowEstimate

from support.policy_bench import ALL_KINDS, Cell, recorded
from support.system_kinds import window_us_of
from support.window_arrivals import Windows

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7200)]

SEED = 101
AGES = (0, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4)
"""In windows since the end."""
WINDOWS = 50
"""Windows of each trace, drawn from all but the first sixth."""
FOLLOWED = 20
"""Of these, how many are followed from batch to batch until they are called settled."""
LATEST = 40
"""For how many windows after its end that is looked for."""
MANY_ROWS = 200


@dataclass
class Found:
    """What was said of one trace."""

    rows: float
    asked: int = 0
    said: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """Final rows, rows so far, expected, least and most, of each estimate."""
    settled: list[tuple[bool, float, float]] = field(default_factory=list)
    """Of each window called settled: whether it was, and the time since its start, and end, over the clairvoyant's."""
    never: int = 0

    def line(self, name: str) -> str:
        start = f"{name:20} {self.rows:8,.0f}"
        if not self.said:
            return f"{start}  not known"
        final, so_far, expected, least, most = np.array(self.said, np.float64).T
        raw, off = np.abs(final - so_far), np.abs(final - expected)
        ratio = f"{off.sum() / raw.sum():5.2f}" if raw.sum() else "    -"
        within = np.mean((least <= final) & (final <= most))
        line = (
            f"{start}  {100 * raw.sum() / final.sum():7.3f} %  {ratio}  {100 * within:6.1f} %"
            f"  {100 * (1 - len(self.said) / self.asked):5.1f} %"
        )
        if self.settled:
            right, start_ratio, end_ratio = np.array(self.settled, np.float64).T
            line += f"  {len(right):3} {100 * np.mean(right == 0):5.1f} %  {np.median(start_ratio):5.2f}"
            line += f"  {np.nanmedian(end_ratio):5.2f}" if np.isfinite(end_ratio).any() else "      -"
        return line + f"  {self.never:3}"


CELLS = [
    *(Cell(kind, SEED, window_us_of(kind), window_us_of(kind) // 10, 7_200) for kind in ALL_KINDS),
    *recorded(os.environ.get("TIDEMARK_TRACES", "")),
]
HEAD = "kind                     rows    so far  error  interval  unknown  settled wrong  start    end  never"


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_how_right_estimates_are(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{HEAD}\n{found_in(cell).line(cell.name)}\n")


def found_in(cell: Cell) -> Found:
    windows = Windows(cell.trace(), cell.window_us, cell.trigger_us)
    places = drawn(windows.final)
    found = Found(float(np.median(windows.final)))
    asked = {place: list(AGES) for place in places}
    followed = set(places[:: max(len(places) // FOLLOWED, 1)])
    reached: dict[int, int] = {}
    for _ in windows.batches():
        for place in [one for one in asked if windows.base_us >= windows.ends_us[one]]:
            end_us, final = int(windows.ends_us[place]), int(windows.final[place])
            rows = windows.rows_of(place)
            if rows * PPM >= DEFAULT_SHARE_PPM * final:
                reached.setdefault(place, windows.seen_us)
            due = bool(asked[place]) and windows.base_us >= end_us + asked[place][0] * cell.window_us
            if not due and place not in followed:
                continue
            said = estimate(windows.arrivals(place), end_us, windows.partitions(), seen_us=windows.seen_us)
            if due:
                asked[place] = [
                    age for age in asked[place] if end_us + age * cell.window_us > windows.base_us
                ]
                found.asked += 1
                if isinstance(said, WindowEstimate):
                    found.said.append((final, rows, said.expected, said.expected_min, said.expected_max))
            if place in followed and isinstance(said, WindowEstimate) and said.settled:
                followed.discard(place)
                start_us = end_us - cell.window_us
                oracle_us = reached.get(place, windows.seen_us)
                found.settled.append(
                    (
                        place in reached,
                        (windows.seen_us - start_us) / max(oracle_us - start_us, 1),
                        (windows.seen_us - end_us) / (oracle_us - end_us) if oracle_us > end_us else np.nan,
                    )
                )
            if windows.base_us > end_us + LATEST * cell.window_us:
                followed.discard(place)
                found.never += 1
            if not asked[place] and place not in followed:
                del asked[place]
    return found


def drawn(final: Int64s) -> list[int]:
    """Return the places of the windows that are asked about."""
    places = np.arange(len(final) // 6, max(len(final) - 3, 0))
    places = places[final[places] > 0]
    return sorted(np.random.default_rng(0).choice(places, min(WINDOWS, len(places)), replace=False).tolist())
