"""Serves the runbooks, one for each alert, so that the link in an alert leads to those of this release.

They are the same for everybody and hold no data. They are Markdown, served as plain text.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

RUNBOOKS_PATH = "/runbooks/{name}"
"""Path of a runbook, by the name of its file."""


def install(app: FastAPI) -> None:
    """Let ``app`` serve the runbooks to everybody."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.md")}

    async def runbook(request: Request) -> Response:
        found = texts.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return PlainTextResponse(
            found, headers={"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
        )

    app.router.routes.append(Route(RUNBOOKS_PATH, runbook))
