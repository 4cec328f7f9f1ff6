"""What the live policy costs: a row, a partition's state, and a thousand streams decided on one core."""

from __future__ import annotations

import pickle
import sys
import time

import numpy as np
import pytest

from tidemark.models.backtest.catalogue import make_policy
from tidemark.models.base.operators import row_level, tumbling
from tidemark.models.live.policy import BoundPolicy, Observation, Setup

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

SECOND = 1_000_000
ROWS = 100_000
PARTITIONS = 64
COHORTS = 10
WARM_UP = 120
"""Batches before anything is measured: six windows' worth of forecasts, profiles and open keys."""
TIMED = 60
STREAMS = 1_000


def setup(name: str) -> Setup:
    operator = tumbling("10 s") if name == "windows" else row_level()
    return Setup(operator=operator, trigger_us=SECOND, target_ppm=990_000)


def batches(count: int, partitions: int, rows: int) -> list[Observation]:
    """Return batches of a second that hold the last ten cohorts of a second in each partition."""
    dice = np.random.default_rng(1)
    shares = 0.4 ** np.arange(COHORTS)
    partition, back = (index.ravel() for index in np.indices((partitions, COHORTS)))
    result = []
    for number in range(count):
        now = (1_000_000 + number) * SECOND + SECOND // 3
        event = (now // SECOND - back) * SECOND
        wanted = rows / partitions * (shares / shares.sum())[back]
        need = back * SECOND + dice.integers(0, SECOND, len(back))
        held = dice.poisson(wanted)
        result.append(
            Observation(
                now_us=now,
                partition=partition[held > 0],
                key_us=((event // (10 * SECOND) + 1) * 10 * SECOND)[held > 0],
                event_us=event[held > 0],
                count=held[held > 0],
                need_us=need[held > 0],
                base_us=np.full(partitions, now, np.int64),
            )
        )
    return result


def lived(policy: BoundPolicy, shown: list[Observation]) -> tuple[list[float], list[float]]:
    """Return the seconds that each batch took to observe and to decide."""
    observing, deciding = [], []
    for seen in shown:
        began = time.perf_counter()
        policy.observe(seen)
        between = time.perf_counter()
        policy.decide(seen.now_us, seen.now_us + 2 * SECOND)
        observing.append(between - began)
        deciding.append(time.perf_counter() - between)
    return observing, deciding


def say(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"{line}\n")


@pytest.mark.parametrize("name", ["windows", "rows"])
def test_a_row(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed; the aim is 10 ns a row. A row that arrives is counted by the tap, so a batch costs by its counts."""
    policy = make_policy("tidemark", setup(name))
    shown = batches(WARM_UP + TIMED, PARTITIONS, ROWS)
    lived(policy, shown[:WARM_UP])
    observing, deciding = lived(policy, shown[WARM_UP:])
    rows = np.mean([seen.count.sum() for seen in shown[WARM_UP:]])
    counts = np.mean([len(seen.count) for seen in shown[WARM_UP:]])
    say(
        capsys,
        f"\n{name}: {rows:,.0f} rows in {counts:.0f} counts a batch: observe {np.median(observing) * 1e3:.2f} ms "
        f"({np.median(observing) / rows * 1e9:.1f} ns a row; aim 10), decide {np.median(deciding) * 1e3:.2f} ms",
    )


@pytest.mark.parametrize("name", ["windows", "rows"])
def test_a_partition(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed; the aim is 4 kB a partition. What a stream has of its own, whatever its partitions, stands apart."""
    sizes = {}
    for partitions in (1, PARTITIONS, 2 * PARTITIONS):
        policy = make_policy("tidemark", setup(name))
        lived(policy, batches(WARM_UP, partitions, 1_000 * partitions))
        sizes[partitions] = len(pickle.dumps(policy))
    each = (sizes[2 * PARTITIONS] - sizes[PARTITIONS]) / PARTITIONS
    say(
        capsys,
        f"\n{name}: {each:,.0f} bytes a partition, {sizes[1] - each:,.0f} a stream; aim 4,000 a partition",
    )


def test_a_thousand_streams(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed; the aim is 5 s on one core. Streams are lived and decided one by one, each kept from its warm-up."""
    shown = batches(WARM_UP // 4 + 2, PARTITIONS, ROWS)
    warm = make_policy("tidemark", setup("windows"))
    lived(warm, shown[:-2])
    kept = pickle.dumps(warm)
    observing = deciding = 0.0
    for _ in range(STREAMS):
        policy: BoundPolicy = pickle.loads(kept)
        policy.observe(shown[-2])
        policy.decide(shown[-2].now_us, shown[-2].now_us + 2 * SECOND)
        one, other = lived(policy, shown[-1:])
        observing, deciding = observing + one[0], deciding + other[0]
    say(
        capsys,
        f"\n{STREAMS:,} streams x {PARTITIONS} partitions: observe {observing:.2f} s, decide {deciding:.2f} s, "
        f"both {observing + deciding:.2f} s; aim 5 s to decide",
    )
