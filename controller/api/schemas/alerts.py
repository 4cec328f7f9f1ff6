"""Whom the controller notifies of a stream's alerts."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer


class Notified(Answer):
    """Where a stream's alerts go, by its labels and the controller's destinations."""

    labels: dict[str, str]
    """Labels of the stream by name, which its policy has."""
    destinations: list[str]
    """Names of the destinations that take some of its alerts, or all."""
    unrouted: list[str]
    """Names of its alerts that no destination takes."""
