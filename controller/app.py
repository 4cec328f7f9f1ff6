"""The application: routes, errors, documentation, and the decision loop's life beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from tidemark.controller.api import (
    bound,
    curve,
    health,
    intake,
    openapi,
    partitions,
    pins,
    predictions,
    problems,
    specs,
    status,
    streams,
)
from tidemark.controller.clock import Clock, system_clock
from tidemark.controller.service import make_service
from tidemark.controller.settings import Settings

__all__ = ["create_app"]


def create_app(settings: Settings | None = None, clock: Clock = system_clock) -> FastAPI:
    """Return the application; its store is opened and its loop started when it is served.

    Args:
        settings: what was set from outside; read from the environment when None.
        clock: the wall time in microseconds.

    Raises:
        StoreUnusableError: when the database URL cannot be understood or its driver is not installed.
    """
    service = make_service(settings if settings is not None else Settings(), clock)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.database.migrate()
        service.ticker.start()
        service.watch.start()
        try:
            yield
        finally:
            await service.watch.stop()
            service.ticker.stop()
            service.database.close()

    # The interactive documentation would load scripts from somewhere else; the document itself is enough.
    app = FastAPI(
        title="Tidemark controller", docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan
    )
    app.state.service = service
    for module in (streams, status, specs, pins, intake, bound, curve, partitions, predictions, health):
        app.include_router(module.router)
    problems.install(app)
    openapi.install(app)
    return app
