"""What jobs send: receipts and acknowledgements."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.models.protocol.messages import BoundSource, Mode


class Receipt(Answer):
    """Confirms that a report or an acknowledgement is stored."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    received_us: int
    """When it was first received, in microseconds since the epoch."""
    duplicate: bool
    """Whether it was received before; then nothing was changed."""


class Applied(Answer):
    """The job's last acknowledgement."""

    bound_ms: int
    """The bound in the plan, in milliseconds."""
    generation: int | None
    """Generation of the bound; null when it is the job's own."""
    source: BoundSource
    """Where the bound came from."""
    query_id: str
    """Spark's persistent id of the query."""
    run_id: str
    """Spark's id of the run that applied it."""
    applied_us: int
    """When the run first used it, in microseconds since the epoch."""
    ceiling_ms: int | None
    """The ceiling in the plan, in milliseconds; null when the job cannot run in Live."""


class AcknowledgementFacts(Applied):
    """An acknowledgement as it was received."""

    mode: Mode
    """The stream's mode as the job knew it."""
    received_us: int
    """When it came, in microseconds since the epoch."""


class AcknowledgementPage(Answer):
    """A page of acknowledgements, those applied last first."""

    acknowledgements: list[AcknowledgementFacts]
    """The acknowledgements."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""
