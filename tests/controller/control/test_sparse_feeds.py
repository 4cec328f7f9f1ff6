"""A feed whose reports are hours apart: it is decided from, published and verified as any other."""

from __future__ import annotations

import pytest

from tidemark.models.base.operators import tumbling

from support.controller_app import Controller
from support.rolled_job import RolledJob
from support.streams import SECOND

pytestmark = pytest.mark.slow

HOUR_US = 3_600 * SECOND


def test_a_feed_polled_every_four_hours_is_narrowed_to_0_s(controller: Controller) -> None:
    """Its rows are all newer than those of the poll before, so no bound loses any of them."""
    job = RolledJob(controller, bound_ms=600_000)
    job.interval_us, job.operator, job.granule_us = 4 * HOUR_US, tumbling("1 hour"), 360 * SECOND
    job.put("slo", {"target_ppm": 990_000})
    job.put("policy", {"mode": "Restart", "approval": "none"})
    for _ in range(60):
        job.run(1, 4 * 3_600.0, rows=50)
        if job.published()["bound_ms"] not in {None, job.bound_ms}:
            job.restart()
    assert [(one["state"], one["to_bound_ms"]) for one in job.rollouts()] == [("Verified", 0)]
    assert job.bound_ms == 0
