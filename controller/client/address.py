"""Where a controller is, and where its token comes from, unless a caller says otherwise."""

from __future__ import annotations

DEFAULT_URL = "http://127.0.0.1:8642"
"""Where ``tidemark serve`` listens by default."""

URL_VARIABLE = "TIDEMARK_URL"
"""Environment variable that holds the address."""

TOKEN_VARIABLE = "TIDEMARK_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable that holds the bearer token."""
