"""What one report, or the order of reading, may not do: decide a bound. It is named, and the stream goes on."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tidemark.models.base.operators import tumbling

from support.controller_app import Controller
from support.policies import at_once
from support.rolled_job import RolledJob
from support.streams import SECOND

pytestmark = pytest.mark.slow

HOUR_US = 3_600 * SECOND


def conditions(job: RolledJob) -> dict[str, str]:
    return {each["type"]: each["detail"] for each in job.status()["conditions"]}


def started(controller: Controller, bound_ms: int = 60_000) -> RolledJob:
    job = RolledJob(controller, bound_ms=bound_ms)
    job.put("slo", {"target_ppm": 990_000})
    job.put("policy", at_once())
    return job


@pytest.mark.parametrize(("copies", "late_s"), [(3_000, 1), (10**10, 1), (10**10, 50)])
def test_one_batch_of_any_size_moves_no_bound(controller: Controller, copies: int, late_s: int) -> None:
    """A mad count is set aside whichever way it points; a load of 3,000 times as many rows narrows nothing."""
    job = started(controller)
    job.run(120, 30.0, tick=False)
    controller.tick()
    before = job.published()["bound_ms"]
    assert before < 60_000
    job.report([("0", job.at_us), *[("0", job.at_us - late_s * SECOND)] * 59], copies=copies)
    for _ in range(2):
        controller.tick()
        published = job.published()["bound_ms"]
        # Bounds by which batches count alike are a third apart.
        assert before <= published <= (before if copies > 10**6 else 1.4 * before)
        job.run(20, 30.0, tick=False)
    if copies > 10**6:
        assert conditions(job)["CountsExcessive"].startswith("600,000,000,000 rows came in batches of more")
        assert job.status()["completeness"]["min_ppm"] == 0


ORDERS: dict[str, Callable[[list[int]], list[int]]] = {
    "shuffled": lambda hours: random.Random(4).sample(hours, len(hours)),
    "newest first": lambda hours: hours[::-1],
    "by region": lambda hours: [*hours[0::3], *hours[1::3], *hours[2::3]],
    "sorted": lambda hours: hours,
}


@pytest.mark.parametrize("files", [1, 5])
@pytest.mark.parametrize("order", ORDERS)
def test_a_snapshot_read_out_of_order_is_named_and_widens_nothing(
    controller: Controller, order: str, files: int
) -> None:
    """Ten minutes became 23 h 55 min, published at once."""
    job = started(controller, bound_ms=600_000)
    job.operator, job.interval_us = tumbling("10 minutes"), 2 * SECOND
    first_us = job.at_us // HOUR_US * HOUR_US - 30 * HOUR_US
    hours = ORDERS[order](list(range(24)))
    for at in range(0, 24, files):
        job.report(
            [
                ("0", first_us + hour * HOUR_US + row * 18 * SECOND)
                for hour in hours[at : at + files]
                for row in range(200)
            ]
        )
        controller.tick()
    for _ in range(2):
        job.run(15, 30.0, tick=False)
        controller.tick()
        assert (job.published()["bound_ms"] or 0) <= 600_000
    found = conditions(job)
    assert "NeedsUnknown" not in found
    # With a newer file in each batch only the pace of event time tells.
    behind = order != "sorted" and (files == 1 or order == "newest first")
    assert ("ReadOutOfOrder" in found) == behind
    if behind:
        assert "withEventTimeOrder" in found["ReadOutOfOrder"]


def test_a_backlog_after_an_outage_and_delays_longer_than_the_stream_is_known_still_widen(
    controller: Controller,
) -> None:
    """Rows up to an hour late among those of today, in the first ten minutes; then an hour's backlog in one batch."""
    job = started(controller, bound_ms=10_000)
    for _ in range(60):
        late = [("1", job.at_us - number * 300 * SECOND) for number in range(1, 13)]
        job.report([("0", job.at_us - number * SECOND // 10) for number in range(60)] + late)
    controller.tick()
    assert job.published()["bound_ms"] > 3_000_000
    job.wait(3_600)
    job.report([("0", job.at_us - number * SECOND) for number in range(3_600)])
    job.run(3, 5.0)
    assert not {"ReadOutOfOrder", "CountsExcessive", "NeedsUnknown"} & conditions(job).keys()
