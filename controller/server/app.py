"""The application: routes, errors, documentation, and the life of the decision loop."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from starlette.middleware.gzip import GZipMiddleware

from tidemark.controller.base.clock import Clock, SteadyClock, system_clock
from tidemark.controller.base.settings import Settings
from tidemark.controller.server import runbooks
from tidemark.controller.server.http import openapi, problems
from tidemark.controller.server.http.authorize import authorize
from tidemark.controller.server.http.parameters import KnownParameters
from tidemark.controller.server.http.request_log import RequestLog
from tidemark.controller.server.page import server as page_server
from tidemark.controller.server.process.service import make_service
from tidemark.controller.server.routes import (
    charts,
    curves,
    fleet,
    jobs,
    partitions,
    reports,
    rollouts,
    savings,
    streams,
    tokens,
    windows,
)
from tidemark.controller.server.spec_routes import join_routes, pin_routes, stream_routes

_RESOURCES = (
    # First, because routes are tried in order: what every job sends for every batch.
    stream_routes,
    jobs,
    fleet,
    savings,
    streams,
    join_routes,
    pin_routes,
    curves,
    charts,
    partitions,
    windows,
    reports,
    rollouts,
    tokens,
)
"""The modules of the resources; all answer JSON."""

_GZIP_FROM_BYTES = 1_000
"""Smaller answers are not compressed: that would save less than a packet."""

_GZIP_LEVEL = 5
"""Higher levels hardly make answers smaller, and others wait meanwhile."""


def create_app(
    settings: Settings | None = None, clock: Clock = system_clock, steady: SteadyClock = time.monotonic
) -> FastAPI:
    """Return the application; its store is opened and its loop started when it is served.

    Args:
        settings: the settings; read from the environment when None.
        clock: the wall time in microseconds.
        steady: a clock that never jumps, in seconds.

    Raises:
        StoreUnusableError: when the database URL cannot be understood or its driver is not installed.
    """
    service = make_service(settings if settings is not None else Settings(), clock, steady)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.database.migrate()
        service.database.start()
        service.authenticator.refresh()
        service.authenticator.issuers.read_ahead()
        service.decider.leases.start()
        service.ticker.start()
        service.reports.start()
        service.watch.start()
        service.gates.start()
        senders = [each for each in (service.notifier, service.lineage) if each is not None]
        for sender in senders:
            sender.start()
        try:
            yield
        finally:
            await service.watch.stop()
            service.gates.stop()
            for sender in senders:
                sender.stop()
            service.reports.stop()
            service.ticker.stop()
            service.decider.leases.stop()
            service.database.close()

    # The interactive documentation would load scripts from other sites; the document that `openapi` serves is enough.
    app = FastAPI(
        title="Tidemark controller",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        # Before any other dependency: nothing is read, looked up or counted for an unauthorized caller.
        dependencies=[Depends(authorize)],
    )
    app.add_middleware(GZipMiddleware, minimum_size=_GZIP_FROM_BYTES, compresslevel=_GZIP_LEVEL)
    app.add_middleware(RequestLog)
    app.state.service = service
    _add_routes(app)
    problems.install(app)
    openapi.install(app)
    _build_routes(app)
    return app


def _build_routes(app: FastAPI) -> None:
    """Build what FastAPI otherwise builds when it first looks for a route: nothing is built once requests come."""
    for route in app.routes:
        route.matches({"type": "http", "method": "GET", "path": "/", "root_path": "", "headers": []})


def _add_routes(app: FastAPI) -> None:
    for module in _RESOURCES:
        app.include_router(module.router, dependencies=[KnownParameters])
    app.include_router(tokens.health_router, dependencies=[KnownParameters])
    page_server.install(app)
    runbooks.install(app)
