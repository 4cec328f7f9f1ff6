"""A controller for tests: the real application on a database of its own, with a clock that the test holds."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Self

import httpx
import pytest
from fastapi import FastAPI
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource
from sqlalchemy import select

from tidemark.controller.base.clock import Clock, SteadyClock, system_clock
from tidemark.controller.base.db.tables import StreamRow
from tidemark.controller.base.settings import Settings
from tidemark.controller.reports.group_commit import _MAX_TOGETHER as TOGETHER
from tidemark.controller.reports.take_reports import StoredReceipt
from tidemark.controller.server import app as controller_app
from tidemark.controller.server.app import create_app
from tidemark.controller.server.process.loop import Tick, run_once
from tidemark.controller.server.process.service import Service
from tidemark.models.protocol.messages import Acknowledgement, Report, to_json_object

from support.empty_store import put_sqlite
from support.in_process import InProcessClient
from support.patience import until
from support.reports import START_US
from support.shared_statements import share_statements

__all__ = ["STREAM", "Controller", "ManualClock", "make_app"]

STREAM = "/v1/jobs/job/streams/stream"
"""Address of the stream that the test reports are of."""


def make_app(
    settings: Settings, clock: Clock = system_clock, steady: SteadyClock = time.monotonic
) -> FastAPI:
    """Return the application as ``create_app`` does, without the time that its first start and first requests take.

    Its store is there, and its routes are those of the first application of this process: the framework works out
    what routes declare at the first request, which takes longer than most tests. They hold no state and know no
    settings.
    """
    share_statements()
    put_sqlite(settings.database_url)
    first = _first_app()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            controller_app, "_add_routes", lambda app: app.router.routes.extend(first.router.routes)
        )
        patched.setattr(controller_app, "_build_routes", lambda _: None)
        return create_app(settings, clock, steady)


@functools.cache
def _first_app() -> FastAPI:
    return create_app(GivenSettings(database_url="sqlite:///never-opened.db"))


class GivenSettings(Settings):
    """Settings that are not looked for in the environment, which takes as long as all else of a controller."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  # the names are pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


class ManualClock:
    """A clock that stands still until it is moved, in microseconds since the epoch."""

    def __init__(self, now_us: int = START_US + 3_600_000_000) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us


class Controller:
    """The application over HTTP; use it as a context, which starts and stops it."""

    def __init__(self, database_url: str, *, steady: SteadyClock = time.monotonic, **settings: Any) -> None:
        self.clock = ManualClock()
        # The loop ticks once at the start; tests take their turns by hand.
        # They also ask more often than anybody else would.
        given: dict[str, Any] = {
            "tick_seconds": 3_600,
            "requests_per_second": 0,
            "reports_per_second": 0,
            **settings,
        }
        self.app = make_app(GivenSettings(database_url=database_url, **given), self.clock, steady)
        self.http = InProcessClient(self.app)

    def __enter__(self) -> Self:
        self.http.__enter__()
        until(lambda: self.service.ticker.ticks, "the loop's first tick", pause_s=0.001)
        return self

    def __exit__(self, *exception: object) -> None:
        self.http.__exit__(*exception)

    @property
    def service(self) -> Service:
        service: Service = self.app.state.service
        return service

    def get(self, path: str = "", **options: Any) -> httpx.Response:
        answer: httpx.Response = self.http.get(STREAM + path, **options)
        return answer

    def put(self, path: str, body: Any, **options: Any) -> httpx.Response:
        """PUT as a caller does who has read what is there, if anything is."""
        if path in {"/slo", "/policy"} and "headers" not in options:
            held = self.get(path).headers.get("etag")
            options["headers"] = {} if held is None else {"If-Match": held}
        answer: httpx.Response = self.http.put(STREAM + path, json=body, **options)
        return answer

    def report(self, report: Report) -> httpx.Response:
        answer: httpx.Response = self.http.post(STREAM + "/reports", json=to_json_object(report))
        return answer

    def report_all(self, reports: Iterable[Report]) -> list[StoredReceipt]:
        """Store reports in their order, a group in a transaction, as is done with those that wait at one time."""
        waiting = [(report, Future[StoredReceipt](), time.perf_counter()) for report in reports]
        for first in range(0, len(waiting), TOGETHER):
            self.service.reports._write(waiting[first : first + TOGETHER])
        receipts = [receipt.result() for _, receipt, _ in waiting]
        if not all(receipt.duplicate for receipt in receipts):
            self.service.database.answers_changed()
        return receipts

    def acknowledge(self, body: Acknowledgement) -> httpx.Response:
        answer: httpx.Response = self.http.post(STREAM + "/acks", json=to_json_object(body))
        return answer

    def send(self, path: str, content: bytes, **headers: str) -> httpx.Response:
        """POST raw bytes; header names are given with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer: httpx.Response = self.http.post(
            STREAM + path, content=content, headers={"content-type": "application/json", **named}
        )
        return answer

    def tick(self) -> Tick:
        service = self.service
        return run_once(service.database, service.decider, service.loop, self.clock())

    def snapshot(self) -> None:
        """Look at every stream, whenever that was done last, and count all that waits."""
        service = self.service
        service.decider.leases.keep(now=True)
        with service.database.read() as session:
            streams = list(session.scalars(select(StreamRow.id)))
        for stream_id in streams:
            service.overviews.snapshot(stream_id, self.clock())

    def status(self) -> dict[str, Any]:
        answer = self.get()
        assert answer.status_code == 200, answer.text
        status: dict[str, Any] = json.loads(answer.text)
        return status
