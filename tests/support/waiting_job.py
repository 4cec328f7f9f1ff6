"""A job whose first rollout waits for approval."""

from __future__ import annotations

from support.controller_app import Controller
from support.policies import at_once
from support.rolled_job import RolledJob

__all__ = ["waiting_job"]


def waiting_job(controller: Controller, name: str = "job") -> RolledJob:
    """Return a job with an SLO, whose first rollout, a narrowing, waits for a person."""
    job = RolledJob(controller, bound_ms=60_000, job=name)
    job.run(2, 1.0, tick=False)
    job.put("slo", {"target_ppm": 990_000})
    job.put("policy", at_once(approval="all"))
    job.restart()
    job.run(40, 3.0, tick=False)
    job.controller.tick()
    assert job.rollout()["state"] == "AwaitingApproval"
    controller.snapshot()
    return job
