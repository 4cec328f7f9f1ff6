"""Serves the runbooks, one for each alert, so that the link in an alert leads to those of this release.

They are the same for everybody and hold no data. They are Markdown, served as plain text. The schema of what the
controller sends is served here, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidemark.controller.view import lineage

RUNBOOKS_PATH = "/runbooks/{name}"
"""Path of a runbook, by the name of its file."""

SCHEMAS_PATH = "/schemas/{name}"
"""Path of a schema of what the controller sends, by the name of its file."""


def install(app: FastAPI) -> None:
    """Let ``app`` serve the runbooks, and the schemas of what it sends, to everybody."""
    _serve(app, RUNBOOKS_PATH, Path(__file__).parent.glob("*.md"), "text/plain")
    _serve(app, SCHEMAS_PATH, Path(lineage.__file__).parent.glob("*.json"), "application/schema+json")


def _serve(app: FastAPI, place: str, files: Iterable[Path], media_type: str) -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in files}

    async def file(request: Request) -> Response:
        found = texts.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
        return Response(found, headers=headers, media_type=media_type)

    app.router.routes.append(Route(place, file))
