"""What is found in a query's plan before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Side = Literal["left", "right"]
Severity = Literal["error", "warning", "note"]

FindingCode = Literal[
    "refused",
    "refused_by_first_batch",
    "outer_rows_never_come",
    "never_evicted",
    "watermark_lost",
    "unreadable_range",
    "policy_max",
    "silent_side",
    "own_event_time",
    "watermark_never_moves",
    "windows_never_close",
]

_ORDER: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a query that its author should know."""

    severity: Severity
    """``error``: the query must not start; ``warning``: it runs, and loses rows, grows or may end; ``note``: good to
    know."""
    code: FindingCode
    text: str
    instead: str
    """What to write or do instead."""
    join: int | None = None
    """Number of the join, from 1; None when it is about the whole query."""
    side: Side | None = None

    @property
    def where(self) -> str:
        """What it is about: ``join 1, left``."""
        return ", ".join(filter(None, ["query" if self.join is None else f"join {self.join}", self.side]))


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Return the findings, errors first."""
    return sorted(findings, key=lambda finding: _ORDER.index(finding.severity))
