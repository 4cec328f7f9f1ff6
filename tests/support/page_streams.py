"""Streams in every state that the page shows, reported up to now: for pictures of the page, and for a look at it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from tidemark.models.base.operators import Operator, tumbling
from tidemark.models.specs.slo import Day

from support.controller_app import Controller
from support.policies import at_once
from support.reports import TEN_SECONDS
from support.rolled_job import RolledJob
from support.streams import SECOND, Row

__all__ = ["fill"]

BATCHES = 360
INTERVAL_US = 20 * SECOND
PARTITIONS = 8
ROWS = 8
"""Rows of each partition in each batch."""
TICK_EVERY = 6
SNAPSHOT_EVERY = 45
OUTAGE = range(150, 165)
"""Batches that the stream with a gap never made."""
SILENT = BATCHES - 6
"""First batch of that stream in which one partition has no rows."""
BEGUN = BATCHES - 12
"""First batch of the stream that has reported for four minutes."""

Delay = Callable[[random.Random, int, int], float | None]
"""Seconds by which a row of a partition is late in a batch; None for no row."""


@dataclass(frozen=True)
class _Plan:
    job: str
    stream: str
    delay: Delay
    slo: dict[str, object] | None
    policy: dict[str, object] | None
    own_ms: int = 240_000
    live: bool = False
    restarts: tuple[int, ...] = (46, 130, 260)
    rows: int = ROWS
    operator: Operator = TEN_SECONDS


def _exponential(mean_s: float) -> Delay:
    return lambda rng, _batch, _partition: rng.expovariate(1 / mean_s)


def _skewed(rng: random.Random, batch: int, partition: int) -> float | None:
    if partition == 3 and batch > 250:
        return None
    return rng.expovariate(1 / 6) + (55 if partition == 7 else 0)


def _burst(rng: random.Random, batch: int, partition: int) -> float:
    late = 240 if 290 <= batch < 310 and partition in {1, 4} and rng.random() < 0.5 else 0
    return rng.expovariate(1 / 8) + late


def _gap(rng: random.Random, batch: int, partition: int) -> float | None:
    silent = partition == 5 and batch >= SILENT
    return None if batch in OUTAGE or silent else rng.expovariate(1 / 10)


def _just_begun(rng: random.Random, batch: int, _partition: int) -> float | None:
    return rng.expovariate(1 / 10) if batch >= BEGUN else None


_HOURS = 3_600_000
_LIVE_REASON = (
    "it waits for rows that come within 38 s of a window's end, so that results come 38 s later; about 0.4 rows of a "
    "window come later still and are lost"
)
"""As the fast policy of a driver says it."""
_PLANS = (
    _Plan(
        "shop",
        "clicks",
        _gap,
        {"target_ppm": 990_000, "window_ms": 24 * _HOURS},
        at_once(),
        rows=50,
        operator=tumbling("1 minute"),
    ),
    _Plan(
        "shop",
        "orders",
        _skewed,
        {"target_ppm": 980_000, "latency_cap_ms": 300_000, "window_ms": 24 * _HOURS},
        at_once(),
    ),
    _Plan(
        "payments",
        "authorisations",
        _burst,
        {"target_ppm": 995_000, "window_ms": 6 * _HOURS},
        at_once(),
    ),
    _Plan(
        "payments",
        "refunds",
        _exponential(30),
        {"target_ppm": 995_000, "latency_cap_ms": 60_000, "window_ms": 24 * _HOURS},
        at_once(freeze_windows=[{"days": list(get_args(Day)), "from_minute": 0, "to_minute": 1_440}]),
        own_ms=90_000,
    ),
    _Plan(
        "logistics",
        "parcels",
        _exponential(15),
        {"target_ppm": 990_000, "window_ms": 24 * _HOURS},
        at_once(approval="all"),
        restarts=(46,),
    ),
    _Plan(
        "ads",
        "impressions",
        _exponential(10),
        {"target_ppm": 990_000, "window_ms": 24 * _HOURS},
        at_once("Live"),
        live=True,
    ),
    _Plan("ads", "conversions", _exponential(20), None, None, own_ms=120_000),
    _Plan(
        "ads",
        "clicks",
        _just_begun,
        {"target_ppm": 990_000, "window_ms": 24 * _HOURS},
        {"mode": "OnRestart"},
    ),
)


def fill(controller: Controller) -> None:
    """Report two hours of each stream, up to now, with a tick of the loop every other minute."""
    rng = random.Random(4)
    begin_us = time.time_ns() // 1_000 // SECOND * SECOND - BATCHES * INTERVAL_US
    controller.clock.now_us = begin_us
    jobs = [
        RolledJob(controller, bound_ms=plan.own_ms, job=plan.job, stream=plan.stream, live=plan.live)
        for plan in _PLANS
    ]
    for job in jobs:
        job.at_us, job.interval_us = begin_us, INTERVAL_US
    for plan, job in zip(_PLANS, jobs, strict=True):
        job.operator = plan.operator
    for batch in range(BATCHES):
        for plan, job in zip(_PLANS, jobs, strict=True):
            rows = _rows(plan, job, rng, batch)
            if rows:
                job.report(rows, state_rows=len(rows) * 20, state_bytes=len(rows) * 4_000)
            else:
                job.at_us += INTERVAL_US
            if batch == (BEGUN if plan.delay is _just_begun else 40):
                _specify(plan, job)
            if batch in plan.restarts and not plan.live:
                job.restart()
        if batch % TICK_EVERY == TICK_EVERY - 1:
            controller.tick()
        if batch % SNAPSHOT_EVERY == SNAPSHOT_EVERY - 1:
            controller.snapshot()
    controller.tick()
    controller.snapshot()


def _rows(plan: _Plan, job: RolledJob, rng: random.Random, batch: int) -> list[Row]:
    delays = [
        (partition, plan.delay(rng, batch, partition))
        for partition in range(PARTITIONS)
        for _ in range(plan.rows)
    ]
    return [
        (str(partition), job.at_us - round((delay + rng.random() * 20) * SECOND))
        for partition, delay in delays
        if delay is not None
    ]


def _specify(plan: _Plan, job: RolledJob) -> None:
    if plan.slo is not None:
        job.put("slo", plan.slo)
    if plan.policy is not None:
        job.put("policy", plan.policy)
    if plan.live:
        job.live_reason = _LIVE_REASON
        job.restart(mode="Live")
