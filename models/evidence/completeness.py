"""How much evidence there is, and the share of pairs that were admitted, as the ledger knows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LedgerCompleteness:
    """The share of pairs that were admitted, as far as it is known."""

    rows: int
    """(Row, key) pairs that were judged."""
    late_min: int
    """Pairs that were late for sure."""
    late_max: int
    """Pairs that may have been late."""
    unjudged_rows: int
    """Rows that arrived and of which it is unknown whether they were late."""
    missing_batches: int
    """Batches never reported: how many rows they held is unknown."""
    keys_per_row: int = 1
    """Maximum number of keys of a row: an unjudged row may be as many pairs."""
    corrected_min: int = 0
    """Late pairs that counted in a later version of their window for sure (late=revise); the others were dropped."""
    corrected_max: int = 0
    """Late pairs that may have."""

    @property
    def unknown(self) -> int:
        """Upper limit of the pairs whose fate is unknown."""
        return self.unjudged_rows * self.keys_per_row

    @property
    def lower(self) -> float | None:
        """Lower bound of the share: all uncertain and unjudged rows were late. None without rows."""
        every = self.rows + self.unknown
        return (self.rows - self.late_max) / every if every else None

    @property
    def upper(self) -> float | None:
        """Upper bound of the share: all uncertain and unjudged rows were admitted. None without rows."""
        every = self.rows + self.unknown
        return (every - self.late_min) / every if every else None

    @property
    def exact(self) -> bool:
        """Whether the share is known exactly: nothing uncertain, nothing unjudged, no batch missing."""
        return self.late_min == self.late_max and not self.unjudged_rows and not self.missing_batches


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceCounts:
    """How much evidence there is over a horizon."""

    rows: int
    """(Row, key) pairs with a known need."""
    unknown_rows: int
    """Rows that arrived but whose need is unknown."""
    missing_batches: int
    """Batches that were never reported."""
    batches: int
    """Batches reported."""
    partitions: int
    """Partitions seen."""
    from_us: int | None
    """Trigger time of the first batch counted, in microseconds since the epoch; null without batches."""
    to_us: int | None
    """Trigger time of the newest batch, in microseconds since the epoch; null without batches."""
    replayed_rows: int = 0
    """Rows of unknown need that were read out of the order of event time."""

    @property
    def observed_us(self) -> int:
        """Time from the first batch counted to the newest, in microseconds; 0 without batches."""
        return 0 if self.from_us is None or self.to_us is None else self.to_us - self.from_us
