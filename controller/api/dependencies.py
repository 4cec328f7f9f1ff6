"""What handlers ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request

from tidemark.controller.errors import TidemarkError
from tidemark.controller.service import Service

__all__ = ["CountedRefusals", "TheService"]


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(_service)]
"""The running controller's parts."""


async def _counted_refusals(service: TheService) -> AsyncIterator[None]:
    try:
        yield
    except TidemarkError as error:
        service.intake.rejected.labels(error.kind).inc()
        raise


CountedRefusals = Depends(_counted_refusals)
"""Counts every report that is refused, by problem type."""
