"""Where a controller is, where its token comes from, and the paths of its interface."""

from __future__ import annotations

from urllib.parse import quote

DEFAULT_URL = "http://127.0.0.1:8642"
"""Where ``tidemark serve`` listens by default."""

URL_VARIABLE = "TIDEMARK_URL"
"""Environment variable that holds the address."""

TOKEN_VARIABLE = "TIDEMARK_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable that holds the bearer token."""


def stream_path(job: str, stream: str | None = None, what: str = "") -> str:
    """Return the path of a job or of one of its streams, or of a part of it: ``what`` begins with a slash."""
    path = f"/v1/jobs/{quote(job, safe='')}"
    return (path if stream is None else f"{path}/streams/{quote(stream, safe='')}") + what


def join_path(job: str, join: str | None = None) -> str:
    """Return the path of the joins of a job, or of one of them."""
    path = stream_path(job, what="/joins")
    return path if join is None else f"{path}/{quote(join, safe='')}"


def pin_query(job: str | None, stream: str | None, *, fleet: bool = False) -> dict[str, str]:
    """Return the query of ``/v1/pin`` for a stream, a job, or the whole fleet, which has to be named.

    Raises:
        ValueError: for a stream without its job, for the fleet beside a job, and when nothing is named.
    """
    if fleet and (job is not None or stream is not None):
        raise ValueError("a pin is on the fleet, or on a job or a stream: leave one out")
    if fleet:
        return {}
    if job is None:
        raise ValueError(
            "name what it is on: a job, a job and a stream, or the whole fleet"
            if stream is None
            else "a stream goes with its job"
        )
    return {"job": job} if stream is None else {"job": job, "stream": stream}
