"""Dependencies that handlers share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from tidemark.controller.service import Service


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(_service)]
"""The parts of the running controller."""
