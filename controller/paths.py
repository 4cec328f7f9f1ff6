"""Paths of the interface, as clients write them."""

from __future__ import annotations

from urllib.parse import quote

__all__ = ["pin_path", "stream_path"]


def stream_path(job: str, stream: str | None = None, what: str = "") -> str:
    """Return the path of a job or of one of its streams, or of a part of it: ``what`` begins with a slash."""
    path = f"/v1/jobs/{quote(job, safe='')}"
    return (path if stream is None else f"{path}/streams/{quote(stream, safe='')}") + what


def pin_path(job: str | None, stream: str | None) -> str:
    """Return the path of the pin on a stream, a job, or without names the whole fleet.

    Raises:
        ValueError: for a stream without its job.
    """
    if job is None:
        if stream is not None:
            raise ValueError("a stream goes with its job")
        return "/v1/pin"
    return stream_path(job, stream, "/pin")
