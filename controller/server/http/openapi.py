"""The OpenAPI document as it is served, and what routes say for it of themselves.

It is made where the tests are, by ``make docs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse

COMMITTED = Path(__file__).parents[2] / "openapi.json"
"""Where ``make docs`` has written the document."""

SAID = "said"
"""Under what name a route has what ``says`` was given; in the document there is what follows from it."""


def install(app: FastAPI) -> None:
    """Have ``app`` serve the document as it is committed, since to make it takes a second; at FastAPI's own path."""

    def served(_: Request) -> Response:
        return FileResponse(COMMITTED, media_type="application/json")

    app.add_route("/openapi.json", served, include_in_schema=False)


def says(
    operation_id: str,
    summary: str,
    answer: str,
    *statuses: int,
    body: str = "",
    kinds: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """Return what a route says of itself in the document, as FastAPI's routes take it.

    Args:
        operation_id, summary: the operation's name, and what it does in a few words.
        answer: schema of the answer on success.
        statuses: those beside 422 and 503, which every route has, and those that a body brings.
        body: schema of the body that it takes; empty for none.
        kinds: by status, the kind of problem whose example to show instead of the usual one.
    """
    statuses_shown = sorted({*statuses, 422, 503, *((400, 408, 413, 415) if body else ())})
    said = {"answer": answer, "statuses": statuses_shown, "body": body, "kinds": kinds or {}}
    return {
        "operation_id": operation_id,
        "summary": summary,
        "status_code": 201 if 201 in statuses else 200,
        "openapi_extra": {SAID: said},
    }
