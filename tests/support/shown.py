"""A job that has reported for half an hour, up to now, with everything that the page shows."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from support.controller_app import Controller
from support.policies import at_once
from support.rolled_job import RolledJob
from support.streams import SECOND

__all__ = ["SHOWN_HASH", "Shown", "report_half_an_hour"]

BATCHES = 300
GAP = range(120, 150)
"""Batches that were never made: the job stood still."""

SHOWN_HASH = "/#/streams/job/stream?span=1h"


@dataclass
class Shown:
    """A controller behind a socket, with one job that has reported for the last half hour."""

    controller: Controller
    """The controller."""
    job: RolledJob
    """Its job."""
    url: str
    """Its address."""


def report_half_an_hour(controller: Controller) -> RolledJob:
    """Let a job report up to now, with an SLO and a rollout on the way, and a stretch without any report."""
    job = RolledJob(controller, bound_ms=30_000)
    rng = random.Random(4)
    interval_us = 6 * SECOND
    # By the wall clock, as the browser's charts end with now.
    job.at_us = time.time_ns() // 1_000 // SECOND * SECOND - BATCHES * interval_us
    job.interval_us = interval_us
    controller.clock.now_us = job.at_us
    for batch in range(BATCHES):
        if batch in GAP:
            job.at_us += interval_us
            continue
        rows = [
            (str(partition), job.at_us - round((rng.expovariate(1 / 3) + rng.random() * 5 + late) * SECOND))
            for partition in range(8)
            for late in [16 if partition == 7 else 0] * 6
        ]
        job.report(rows)
        if batch % 10 == 9:
            controller.tick()
        if batch == 40:
            job.put("slo", {"target_ppm": 980_000, "latency_cap_ms": 120_000})
            job.put("policy", at_once())
            job.restart()
        if batch in {60, 160}:
            job.restart()
    controller.tick()
    controller.snapshot()
    return job
