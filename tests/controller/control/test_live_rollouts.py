"""Rollouts of an envelope: in Live what a job may do is rolled, verified and rolled back as a bound is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.controller_app import Controller
from support.databases import on_sqlite_alone
from support.policies import at_once
from support.rolled_job import RolledJob
from support.seeded import continued
from support.settled import STRICT
from support.soak import with_soak

pytestmark = pytest.mark.slow


def live_job(controller: Controller) -> RolledJob:
    job = RolledJob(controller, bound_ms=120_000, live=True)
    job.put("slo", STRICT)
    job.run(3, 30.0, tick=False)
    job.put("policy", at_once("Live"))
    for _ in range(36):
        job.run(3, 30.0, tick=False)
        job.run(1, 30.0)
    assert job.rollouts()[0]["state"] == "Verified"
    return job


@pytest.fixture(params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def live(request: pytest.FixtureRequest) -> Iterator[RolledJob]:
    """A job in Live on each database that is there."""
    url = request.getfixturevalue("database_url" if request.param == "sqlite" else "postgres_url")
    with continued(url, live_job) as found:
        yield found


@on_sqlite_alone("live")
def test_in_live_a_change_of_the_envelope_is_rolled_and_verified(live: RolledJob) -> None:
    live.put("slo", {"target_ppm": 900_000})
    (one,) = [rollout for rollout in live.rollouts() if rollout["cause"] == "Operator"]
    assert (one["state"], one["direction"]) == ("Published", "Narrow")
    assert (one["from_envelope"]["target_ppm"], one["to_envelope"]["target_ppm"]) == (950_000, 900_000)
    assert live.published()["envelope"] == one["to_envelope"]
    live.run(40, 30.0)
    (one,) = [rollout for rollout in live.rollouts() if rollout["cause"] == "Operator"]
    assert one["state"] == "Verified"


@on_sqlite_alone("live")
def test_in_live_an_envelope_that_loses_too_much_is_rolled_back_and_not_published_again(
    live: RolledJob,
) -> None:
    before = live.published()["envelope"]
    live.put("slo", {"target_ppm": 900_000})
    failing = live.rollout()["id"]
    live.run(2, 30.0)
    # As when the fast policy closes windows far too early: most rows are late.
    ahead_ms = live.controller.clock() // 1_000 + 1_800_000
    live.run(6, 30.0, watermark_ms=ahead_ms, late_watermark_ms=ahead_ms)
    (one,) = [rollout for rollout in live.rollouts() if rollout["id"] == failing]
    assert one["state"] == "RolledBack"
    assert live.published()["envelope"] == before
    live.run(2, 30.0)
    assert live.published()["envelope"] == before
    live.put("slo", {"target_ppm": 910_000})
    assert live.published()["envelope"]["target_ppm"] == 910_000
