"""How routes describe their bodies and answers in the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

EXAMPLES_FILE = Path(__file__).with_name("examples.json")
"""What a controller was asked and answered: by operation, and by kind of problem. ``make docs`` writes it."""

_USUAL = {
    400: "malformed-body",
    401: "unauthenticated",
    403: "forbidden",
    404: "stream-not-found",
    406: "not-acceptable",
    408: "request-too-slow",
    409: "report-conflict",
    412: "precondition-failed",
    413: "body-too-large",
    415: "unsupported-media-type",
    422: "invalid-body",
    428: "precondition-required",
    429: "too-many-requests",
    503: "store-unavailable",
}
"""By status, the kind of problem that is shown where a route names no other."""

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
    "ShadowAnswer": _ETAG,
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
        if status >= HTTPStatus.BAD_REQUEST:
            described |= problem(status, (kinds or {}).get(status))
            continue
        described[status] = {"description": _DESCRIPTIONS[status]}
        if status < HTTPStatus.MULTIPLE_CHOICES:
            described[status]["content"] = {"application/json": {"schema": reference(name)}}
        if name in _HEADERS:
            described[status]["headers"] = _HEADERS[name]
    if 200 in described and 201 in described:
        described[200]["description"] = "Received before; nothing was changed."
    return described


def problem(status: int, kind: str | None = None) -> _Described:
    """Return the documented answer of a problem; ``kind`` is None for the usual one of its status."""
    content = {"schema": reference("Problem"), "example": kind or _USUAL[status]}
    return {
        status: {
            "description": _DESCRIPTIONS[status],
            "content": {"application/problem+json": content},
        }
    }


def takes(name: str) -> dict[str, Any]:
    """Return the documented body of a route."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": reference(name)}}}}


def add_examples(document: dict[str, Any]) -> None:
    """Put what was asked and answered into ``document``; FastAPI would leave the nulls out."""
    examples = json.loads(EXAMPLES_FILE.read_text(encoding="utf-8"))
    for operations in document["paths"].values():
        for operation in operations.values():
            shown = examples["operations"].get(operation["operationId"], {"answers": {}})
            if "requestBody" in operation and "body" in shown:
                operation["requestBody"]["content"]["application/json"]["example"] = shown["body"]
            for status, answer in operation["responses"].items():
                content = answer.get("content", {})
                if "application/problem+json" in content:
                    described = content["application/problem+json"]
                    described["example"] = examples["problems"][described["example"]]
                elif status in shown["answers"]:
                    content["application/json"]["example"] = shown["answers"][status]


def text_answer(description: str) -> _Described:
    """Return the documented answers of a route that answers text."""
    return {200: {"description": description, "content": {"text/plain": {"schema": {"type": "string"}}}}}


def reference(name: str) -> dict[str, str]:
    """Return the reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}
