"""A controller whose notifier is driven by hand, and a stream with something to notify of."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from tidemark.controller.view.alerts.notifier import Notifier

from support.controller_app import Controller
from support.patience import PATIENCE_S
from support.rolled_job import RolledJob
from support.streams import SECOND
from support.webhook import Webhook
from support.whole_stream import run_partitions

__all__ = ["FIRING", "MINUTE_US", "RESOLVED", "begin", "names", "notified", "skew", "tick"]

MINUTE_US = 60 * SECOND
FIRING = ("firing", "TidemarkPartitionSkewed")
RESOLVED = ("resolved", "TidemarkPartitionSkewed")


def notified(url: str, **settings: Any) -> Controller:
    """Return a controller whose notifier takes its turns by hand."""
    return Controller(url, notify_seconds=3_600, **settings)


def begin(controller: Controller, minutes: float = 0) -> dict[str, Future[int]]:
    """Let the notifier check, ``minutes`` later, and return by destination what it has begun."""
    controller.clock.now_us += round(minutes * MINUTE_US)
    notifier = controller.service.notifier
    assert isinstance(notifier, Notifier)
    return notifier.tick(controller.clock.now_us)


def tick(controller: Controller, minutes: float = 0) -> int:
    """Do the same, wait for all of it, and return how many messages were delivered."""
    return sum(begun.result(PATIENCE_S) for begun in begin(controller, minutes).values())


def skew(controller: Controller) -> RolledJob:
    """Report a stream in which partition 2 is skewed."""
    job = RolledJob(controller, bound_ms=120_000)
    controller.put("/slo", {"target_ppm": 990_000})
    run_partitions(job, 30, slow=2)
    controller.snapshot()
    return job


def names(webhook: Webhook) -> list[tuple[str, str]]:
    """Return the status and the name of each alert that was received."""
    return [(status, name) for status, name, _ in webhook.alerts()]
