"""Dependencies of routes run between two awaits and not in threads."""

from __future__ import annotations

from typing import Any

import fastapi.dependencies.utils
import pytest

from support.controller_app import Controller
from support.reports import exponential_batches, query_reports


def test_no_dependency_of_a_route_is_run_in_a_thread(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FastAPI runs one that is no coroutine in a thread: tenths of a millisecond for what takes microseconds."""
    in_threads: list[Any] = []

    async def noted(call: Any, **values: Any) -> Any:
        in_threads.append(call)
        return call(**values)

    monkeypatch.setattr(fastapi.dependencies.utils, "run_in_threadpool", noted)
    controller.report_all(query_reports(exponential_batches(2, 40)))
    assert controller.put("/slo", {"target_ppm": 900_000}).status_code == 200
    assert controller.put("/policy", {"mode": "Off"}).status_code == 200
    for path in ("/bound", "/slo", "/policy", "/events", "/curve", "/partitions"):
        assert controller.get(path).status_code == 200, path
    for path in ("/v1/fleet", "/v1/jobs", "/v1/rollouts", "/v1/tokens", "/metrics", "/readyz"):
        assert controller.http.get(path).status_code == 200, path
    assert in_threads == []
