"""A driver that is killed, with a burst right after its restart: with and without what its policy had learned.

What it learns from the reports alone is also what a stream begins Live with that ran in another mode before.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tidemark.models.live.fast import Order

from support.killed_driver import Kept, Outcome, restarted
from support.streams import SECOND
from support.synthetic import synthetic

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

SEEDS = range(5, 10)
KEPT: tuple[Kept, ...] = ("nothing", "learned", "reports")
KILLED_S, DOWN_S, END_S = 1_390, 30, 2_000
"""The kinds stop partitions from 1,420 s + U(0, 60) on: right after the restart."""


def test_a_burst_right_after_a_restart(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        f"{'':28}{'anew':>40}{'with what it had learned':>40}{'with what the reports show':>40}",
        f"{'':28}" + len(KEPT) * f"{'admitted, %':>14}{'whole run, %':>14}{'wait, s':>12}",
    ]
    for kind in ("stationary", "stalls", "joint", "shifts", "diurnal", "heavy"):
        for target_ppm in (990_000, 999_000):
            order = Order(bound_us=30 * SECOND, target_ppm=target_ppm)
            traces = [synthetic(kind, seed, rate=100, seconds=END_S) for seed in SEEDS]
            line = f"{kind:<16}{target_ppm / 10_000:>8} %  "
            for keep in KEPT:
                line += _figures(
                    [restarted(t, order, killed_s=KILLED_S, down_s=DOWN_S, keep=keep) for t in traces]
                )
            lines.append(line)
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")


def _figures(outcomes: list[Outcome]) -> str:
    admitted = 100 * np.median([each.completeness for each in outcomes])
    overall = 100 * np.median([each.overall for each in outcomes])
    return f"{admitted:>14.3f}{overall:>14.3f}{np.median([each.wait_s for each in outcomes]):>12.2f}"
