"""A job's watch and a real controller: what is published reaches the job in a moment, through long-held requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.spark_jobs.core.bound import BoundCache
from tidemark.spark_jobs.core.client import ControllerClient
from tidemark.spark_jobs.core.watch import BoundWatch
from tidemark.spark_jobs.demo.controller_process import ControllerProcess

from support.metrics import metric_at
from support.patience import PATIENCE_S, until
from support.policies import at_once

pytestmark = pytest.mark.slow


def test_a_change_of_mode_reaches_the_watch_while_its_request_is_held(tmp_path: Path) -> None:
    """Both sides are written after the same page; this reads it to them together."""
    controller = ControllerProcess(tmp_path, "shop", "clicks")
    client = ControllerClient(controller.url, timeout_s=PATIENCE_S)
    cache = BoundCache(tmp_path / "bounds")
    watch = BoundWatch(client, "shop", "clicks", cache, wait_s=30.0)
    try:
        controller.wait_until_ready()
        watch.start()
        first = watch.wait_for(None, PATIENCE_S)
        assert first is not None
        until(lambda: metric_at(controller.url, "tidemark_bounds_watched") == 1, "a request that is held")
        controller.put("policy", at_once())
        second = watch.wait_for(first.generation, PATIENCE_S)

        assert second is not None
        assert (first.mode, second.mode) == ("Off", "OnRestart")
        assert cache.read("shop", "clicks") == second
    finally:
        watch.close()
        controller.stop()
        client.close()
