"""What the deletion of a stream deletes."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer


class StreamDeleted(Answer):
    """A deleted stream, and how many rows were stored of it."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    dry_run: bool
    """Whether it was a dry run: then nothing was changed, and this is what would be deleted."""
    reports: int
    """Reports that were counted, as far as they are kept."""
    quarantined_reports: int
    """Reports in quarantine."""
    queries: int
    """Queries."""
    partitions: int
    """Partitions."""
    ledger_keys: int
    """Windows, or minutes of event time, in the ledger."""
    published_bounds: int
    """Generations of the published bound."""
    rollouts: int
    """Rollouts."""
    acknowledgements: int
    """Acknowledgements."""
    events: int
    """Events; the one of the deletion comes after them and stays."""
    slos: int
    """1 with an SLO, else 0."""
    policies: int
    """1 with a policy that somebody set, else 0."""
    pins: int
    """1 with a pin on this stream alone, else 0."""
