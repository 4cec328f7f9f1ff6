"""Where a controller is, where its token comes from, and the paths of its interface."""

from __future__ import annotations

from urllib.parse import quote

DEFAULT_URL = "http://127.0.0.1:8642"
"""Where ``tidemark serve`` listens by default."""

URL_VARIABLE = "TIDEMARK_URL"
"""Environment variable that holds the address."""

TOKEN_VARIABLE = "TIDEMARK_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable that holds the bearer token."""


def stream_path(job: str, stream: str, what: str = "") -> str:
    """Return the path of a stream, or of a part of it: ``what`` begins with a slash."""
    return f"/v1/jobs/{quote(job, safe='')}/streams/{quote(stream, safe='')}{what}"


def join_path(job: str, join: str) -> str:
    """Return the path of a join."""
    return f"/v1/jobs/{quote(job, safe='')}/joins/{quote(join, safe='')}"
