"""What the OpenAPI document says of access: how to show who one is, which roles each operation is for, and refusals."""

from __future__ import annotations

from typing import Any

from tidemark.controller.access.roles import need_of
from tidemark.controller.api.documented import problem

__all__ = ["document_access"]

SCHEME = "bearer"
"""Name of the security scheme."""

_CHALLENGE = {
    "WWW-Authenticate": {
        "description": "How to ask so that it is answered.",
        "schema": {"type": "string"},
        "example": 'Bearer realm="tidemark"',
    },
}
_RETRY = {
    "Retry-After": {
        "description": "Seconds to wait.",
        "schema": {"type": "string", "pattern": r"^\d+$"},
        "example": "1",
    },
}
_REFUSALS = {401: _CHALLENGE, 403: _CHALLENGE, 429: _RETRY}


def document_access(document: dict[str, Any]) -> None:
    """Write into ``document`` what each operation asks for."""
    document["components"]["securitySchemes"] = {
        SCHEME: {
            "type": "http",
            "scheme": "bearer",
            "description": "A token of `tidemark token create`. While there is none, and no proxy that authenticates, "
            "requests from the controller's own machine need none.",
        }
    }
    for operations in document["paths"].values():
        for operation in operations.values():
            _document(operation)


def _document(operation: dict[str, Any]) -> None:
    need = need_of(operation["operationId"])
    if need is None:
        operation["security"] = []
        return
    operation["security"] = [{SCHEME: []}]
    operation["description"] += f"\n\nRoles: {', '.join(need.roles)}."
    refusals = {
        str(status): {**problem(status)[status], "headers": found} for status, found in _REFUSALS.items()
    }
    operation["responses"] = dict(sorted({**refusals, **operation["responses"]}.items()))
