"""Windows of a stream, and how complete they are."""

from __future__ import annotations

from tidemark.controller.base.answer import Page
from tidemark.models.completeness.outcome import Window

__all__ = ["Window", "WindowPage"]


class WindowPage(Page):
    """A page of windows, the newest first."""

    windows: list[Window]
    """The windows."""
