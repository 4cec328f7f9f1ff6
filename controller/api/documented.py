"""What the OpenAPI document says of bodies and answers, in the few words that routes use."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from tidemark.controller.api.examples import EXAMPLES, PROBLEM_EXAMPLES

__all__ = ["answers", "reference", "takes", "text_answer"]

Described = dict[int | str, dict[str, Any]]
"""Answers by status, as FastAPI's ``responses`` takes them."""

_ETAG = {
    "ETag": {"description": "Version of what is answered.", "schema": {"type": "string"}, "example": '"3"'},
}
_WITH_ETAG = {"SloAnswer", "PolicyAnswer", "BoundAnswer"}
_DESCRIPTIONS = {
    200: "As asked for.",
    201: "Received and committed.",
    304: "The version that the caller holds is still current.",
    400: "The body cannot be read: not JSON, or not the gzip it says it is.",
    404: "Nothing is known of it.",
    409: "The batch was reported before with other content; the first report stays.",
    412: "The version that If-Match names is not the current one.",
    413: "The body is larger than the controller reads.",
    415: "The body is not application/json, or its encoding is not gzip.",
    422: "The request is understood but not valid; nothing of it was stored.",
    503: "The store does not answer, or the service is not well; try again.",
}


def answers(name: str, *statuses: int) -> Described:
    """Return the documented answers of a route: ``name`` where it goes well, problems elsewhere."""
    described: Described = {}
    for status in statuses if {200, 201} & set(statuses) else (200, *statuses):
        described[status] = {"description": _DESCRIPTIONS[status]}
        if status < HTTPStatus.MULTIPLE_CHOICES:
            described[status]["content"] = {
                "application/json": {"schema": reference(name), "example": EXAMPLES[name]},
            }
        if status >= HTTPStatus.BAD_REQUEST:
            described[status]["content"] = {
                "application/problem+json": {
                    "schema": reference("Problem"),
                    "example": PROBLEM_EXAMPLES[status],
                },
            }
        elif name in _WITH_ETAG:
            described[status]["headers"] = _ETAG
    if 200 in described and 201 in described:
        described[200]["description"] = "Received before; nothing was changed."
    return described


def takes(name: str) -> dict[str, Any]:
    """Return the documented body of a route."""
    content = {"application/json": {"schema": reference(name), "example": EXAMPLES[name]}}
    return {"requestBody": {"required": True, "content": content}}


def text_answer(description: str) -> Described:
    """Return the documented answers of a route that answers text."""
    return {200: {"description": description, "content": {"text/plain": {"schema": {"type": "string"}}}}}


def reference(name: str) -> dict[str, str]:
    """Return the reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}
