"""A job whose first bound is verified, as most of what rollouts do begins."""

from __future__ import annotations

from support.controller_app import Controller
from support.policies import at_once
from support.rolled_job import RolledJob

STRICT = {"target_ppm": 950_000}
"""The SLO under which its bound is verified."""

LOOSE = {"target_ppm": 800_000}
"""An SLO under which a narrower bound is recommended."""

HOUR = 3_600


def settled(controller: Controller, mode: str = "OnRestart") -> RolledJob:
    """Return a job whose first bound, for a target of 0.95 and delays up to 30 s, is verified."""
    job = RolledJob(controller, bound_ms=120_000)
    job.put("slo", STRICT)
    job.put("policy", at_once(mode))
    job.run(40, 30.0, tick=False)
    controller.tick()
    job.restart(mode=mode)
    job.run(90, 30.0, tick=False)
    controller.tick()
    (first,) = job.rollouts()
    assert (first["state"], first["first"]) == ("Verified", True), first["reason"]
    # The cooldown since it was narrowed is over.
    job.wait(HOUR)
    job.run(3, 30.0, tick=False)
    controller.tick()
    return job
