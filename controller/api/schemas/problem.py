"""Problem documents (RFC 9457)."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer


class ProblemItem(Answer):
    """One error in a request."""

    pointer: str
    """JSON pointer into the body (empty: the whole body), or the name of a parameter."""
    detail: str
    """What is wrong there."""


class Problem(Answer):
    """A problem document (RFC 9457)."""

    type: str
    """Stable name of the kind of problem, a URI; about:blank when the status says everything."""
    title: str
    """The kind of problem in a few words."""
    status: int
    """HTTP status."""
    detail: str
    """What went wrong this time."""
    instance: str | None = None
    """Path of the request."""
    errors: list[ProblemItem] | None = None
    """Errors by place; missing when none is about a part of the request."""
    known_versions: list[int] | None = None
    """Schema versions that this release reads; only for an unknown version."""
