"""A page of reports as they were sent; apart from the other answers, which a client reads without the intake."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.controller.intake.sent_bodies import ReportBody


class ReportBodyPage(Answer):
    """A page of reports as they were sent, those of the newest batches first."""

    reports: list[ReportBody]
    """The reports."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""
