"""What is the matter with a stream."""

from __future__ import annotations

from typing import Literal

from tidemark.controller.api.schemas.answer import Answer

__all__ = ["Condition", "ConditionType"]


ConditionType = Literal[
    "NoReportYet",
    "NoRecentReport",
    "PartitionsSilent",
    "NoSlo",
    "NotEnoughEvidence",
    "CoverageGap",
    "OperatorContradicted",
    "RowsNotCounted",
    "NeedsUnknown",
    "ConstraintsConflict",
    "BoundNotAcknowledged",
    "Rolling",
    "RolloutHeld",
    "TargetMissed",
    "RolledBack",
    "Paused",
    "Pinned",
    "LiveWithoutCeiling",
    "SkewBeyondCeiling",
    "CeilingNear",
    "FutureRows",
    "PartitionSkewed",
]


class Condition(Answer):
    """Something about the stream that somebody should know; it is there only while it holds."""

    type: ConditionType
    """Which."""
    detail: str
    """The figures, as a sentence."""
