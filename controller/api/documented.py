"""How routes describe their bodies and answers in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from tidemark.controller.api.examples import EXAMPLES, KIND_EXAMPLES, PROBLEM_EXAMPLES

_Described = dict[int | str, dict[str, Any]]
"""Answers by status, as FastAPI's ``responses`` takes them."""

_ETAG = {
    "ETag": {
        "description": "Version of the resource, opaque.",
        "schema": {"type": "string"},
        "example": '"3-5d41402abc4b2a76"',
    },
}
_APPLIED = {
    "Preference-Applied": {
        "description": "The wait of Prefer that was applied, in seconds; missing when none was requested.",
        "schema": {"type": "string"},
        "example": "wait=30",
    },
}
_HEADERS = {
    "SloAnswer": _ETAG,
    "PolicyAnswer": _ETAG,
    "SloSet": _ETAG,
    "PolicySet": _ETAG,
    "JoinAnswer": _ETAG,
    "PinAnswer": _ETAG,
    "StreamStatus": _ETAG,
    "StreamDeleted": _ETAG,
    "FleetPage": _ETAG,
    "BoundAnswer": {**_ETAG, **_APPLIED},
}
_DESCRIPTIONS = {
    200: "Done.",
    201: "Received and committed.",
    304: "The caller's version is still current.",
    400: "The body cannot be read: not JSON, or not the gzip it says it is.",
    401: "The caller is not authenticated.",
    403: "The caller is not allowed to do this.",
    404: "It is unknown here.",
    406: "The caller accepts none of the types that the answer has.",
    408: "The body did not arrive in time; try again.",
    409: "It contradicts what is stored; nothing was changed.",
    412: "The version that If-Match names is not the current one.",
    413: "The body is larger than the controller reads.",
    415: "The body is not application/json, or its encoding is not gzip.",
    422: "The request is readable but not valid; nothing of it was stored.",
    428: "It would replace an existing version: If-Match has to name that, as in ETag.",
    429: "The caller sends too many requests; nothing was done.",
    503: "The store does not answer, or the service is unhealthy; try again.",
}


def answers(name: str, *statuses: int, kinds: Mapping[int, str] | None = None) -> _Described:
    """Return the documented answers of a route: ``name`` on success, problems otherwise.

    Args:
        name: schema of the answer on success.
        statuses: the statuses; 200 is added when no success is among them.
        kinds: by status, the kind of problem whose example to show instead of the usual one.
    """
    described: _Described = {}
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
                    "example": KIND_EXAMPLES[kinds[status]]
                    if kinds and status in kinds
                    else PROBLEM_EXAMPLES[status],
                },
            }
        elif name in _HEADERS:
            described[status]["headers"] = _HEADERS[name]
    if 200 in described and 201 in described:
        described[200]["description"] = "Received before; nothing was changed."
    return described


def problem(status: int) -> _Described:
    """Return the documented answer of a problem that several routes share."""
    content = {"schema": reference("Problem"), "example": PROBLEM_EXAMPLES[status]}
    return {
        status: {
            "description": _DESCRIPTIONS[status],
            "content": {"application/problem+json": content},
        }
    }


def takes(name: str) -> dict[str, Any]:
    """Return the documented body of a route."""
    content = {"application/json": {"schema": reference(name), "example": EXAMPLES[name]}}
    return {"requestBody": {"required": True, "content": content}}


def text_answer(description: str) -> _Described:
    """Return the documented answers of a route that answers text."""
    return {200: {"description": description, "content": {"text/plain": {"schema": {"type": "string"}}}}}


def reference(name: str) -> dict[str, str]:
    """Return the reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}
