"""Dependencies that handlers share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request

from tidemark.controller.errors import TidemarkError
from tidemark.controller.service import Service


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(_service)]
"""The parts of the running controller."""


async def _count_rejections(service: TheService) -> AsyncIterator[None]:
    try:
        yield
    except TidemarkError as error:
        service.intake.rejected.labels(error.kind).inc()
        raise


CountRejections = Depends(_count_rejections)
"""Counts rejected reports by problem type."""
