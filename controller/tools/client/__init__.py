"""A client for the REST API, for scripts and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemark.controller.tools.client.address import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE
from tidemark.controller.tools.client.errors import (
    ChangedError,
    ClientError,
    ControllerUnusableError,
    RequestRejectedError,
    TokenRejectedError,
    UnreachableError,
)

if TYPE_CHECKING:
    from tidemark.controller.tools.client.client import Client

__all__ = [
    "DEFAULT_URL",
    "TOKEN_VARIABLE",
    "URL_VARIABLE",
    "ChangedError",
    "Client",
    "ClientError",
    "ControllerUnusableError",
    "RequestRejectedError",
    "TokenRejectedError",
    "UnreachableError",
]


def __getattr__(name: str) -> Any:
    """Import the client on first use: the command line needs the errors first, and starts fast."""
    if name != "Client":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tidemark.controller.tools.client.client import Client  # noqa: PLC0415 - as above

    return Client
