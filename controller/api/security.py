"""Access in the OpenAPI document: how to authenticate, the roles of each operation, and the errors."""

from __future__ import annotations

from typing import Any

from tidemark.controller.access.roles import need_of
from tidemark.controller.api.documented import problem

_SCHEME = "bearer"
"""Name of the security scheme."""

_CHALLENGE = {
    "WWW-Authenticate": {
        "description": "How to authenticate.",
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
_ERRORS = {401: _CHALLENGE, 403: _CHALLENGE, 429: _RETRY}


def document_access(document: dict[str, Any]) -> None:
    """Add to ``document`` what each operation requires."""
    document["components"]["securitySchemes"] = {
        _SCHEME: {
            "type": "http",
            "scheme": "bearer",
            "description": "A token of `tidemark token create`. While there is none, and no authenticating proxy, "
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
    operation["security"] = [{_SCHEME: []}]
    operation["description"] += f"\n\nRoles: {', '.join(need.roles)}."
    errors = {str(status): {**problem(status)[status], "headers": found} for status, found in _ERRORS.items()}
    operation["responses"] = dict(sorted({**errors, **operation["responses"]}.items()))
