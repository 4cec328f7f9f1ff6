"""What right truncation does to a p99 of recent cohorts: the plain quantile, the reverse-time hazard, and its tail."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from tidemark.models.truncation import delay_distribution, delay_edges

from support.truncated import LAWS, Law, cohorts

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

RUNS = 200
SEED = 1
SHARE = 0.99
HORIZONS = {"lognormal(10 s, sigma 1)": (60, 120, 240, 480, 960)}
"""Oldest age in seconds, as in literature S6; for the other laws the same multiples of their p99."""
MULTIPLES = (0.6, 1.2, 2.3, 4.7, 9.4)

Estimator = Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], float | None]


@dataclass(frozen=True)
class Found:
    """The p99 of each run in seconds, NaN where the estimator said that it does not know."""

    seconds: NDArray[np.float64]

    def line(self, law: Law) -> str:
        known = self.seconds[~np.isnan(self.seconds)]
        if not len(known):
            return "unknown in every run"
        error = 100 * (known / law.quantile_s(SHARE) - 1)
        middle = f"median {np.median(error):+6.1f} %  sd {error.std():5.1f} %"
        complete = f"completeness {law.share_at(known).mean():7.2%}"
        return f"bias {error.mean():+6.1f} %  {middle}  {complete}  unknown {1 - len(known) / RUNS:4.0%}"


def _plain(
    delay_us: NDArray[np.int64], age_us: NDArray[np.int64], edges_us: NDArray[np.int64]
) -> float | None:
    return float(np.quantile(delay_us, SHARE, method="inverted_cdf"))


def _hazard(
    delay_us: NDArray[np.int64], age_us: NDArray[np.int64], edges_us: NDArray[np.int64]
) -> float | None:
    found = delay_distribution(delay_us, age_us, edges_us, continued=False)
    return None if found is None else found.quantile_us(SHARE)


def _continued(
    delay_us: NDArray[np.int64], age_us: NDArray[np.int64], edges_us: NDArray[np.int64]
) -> float | None:
    found = delay_distribution(delay_us, age_us, edges_us)
    return None if found is None else found.quantile_us(SHARE)


ESTIMATORS: dict[str, Estimator] = {
    "plain quantile": _plain,
    "reverse hazard": _hazard,
    "with its tail": _continued,
}


@pytest.mark.parametrize("name", LAWS)
def test_truncation(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed; the rates make each law as long in rows as S6's 50 a second."""
    began, law = time.monotonic(), LAWS[name]
    p99 = law.quantile_s(SHARE)
    lines = []
    for multiple, horizon_s in zip(
        MULTIPLES, HORIZONS.get(name, tuple(m * p99 for m in MULTIPLES)), strict=True
    ):
        rng = np.random.default_rng(SEED)
        edges = delay_edges(10_000, round(horizon_s * 1e6))
        found: dict[str, list[float]] = {estimator: [] for estimator in ESTIMATORS}
        for _ in range(RUNS):
            delay, age = cohorts(rng, law, horizon_s, rate=50 * 102.4 / p99)
            for estimator, estimate in ESTIMATORS.items():
                value = estimate(delay, age, edges)
                found[estimator].append(np.nan if value is None else value / 1e6)
        lines += [
            f"  H {horizon_s:7.0f} s = {multiple} p99  {estimator:15} {Found(np.array(values)).line(law)}"
            for estimator, values in found.items()
        ]
    with capsys.disabled():
        print(f"\np99 of {name}: {p99:.1f} s, {RUNS} runs ({time.monotonic() - began:.0f} s)")
        print("\n".join(lines))
