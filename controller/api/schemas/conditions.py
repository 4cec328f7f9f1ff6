"""What is the matter with a stream."""

from __future__ import annotations

from typing import Literal

from pydantic import computed_field

from tidemark.controller.api.schemas.answer import Answer

__all__ = ["Condition", "ConditionSummary", "ConditionType", "Severity"]


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


Severity = Literal["critical", "warning", "info", "ok"]

_KINDS: dict[ConditionType, tuple[Severity, str]] = {
    "OperatorContradicted": ("critical", "Other operator than declared"),
    "LiveWithoutCeiling": ("critical", "Live without a ceiling"),
    "SkewBeyondCeiling": ("critical", "Skew beyond the ceiling"),
    "CeilingNear": ("critical", "Ceiling near"),
    "ConstraintsConflict": ("critical", "SLO and caps conflict"),
    "TargetMissed": ("critical", "Target missed"),
    "RolledBack": ("warning", "Rolled back"),
    "NoRecentReport": ("warning", "No recent report"),
    "CoverageGap": ("warning", "Batches missing"),
    "RowsNotCounted": ("warning", "Rows not counted"),
    "NeedsUnknown": ("warning", "Needs unknown"),
    "FutureRows": ("warning", "Future-dated rows"),
    "PartitionSkewed": ("warning", "Skewed partition"),
    "PartitionsSilent": ("warning", "Partitions silent"),
    "BoundNotAcknowledged": ("warning", "Bound not acknowledged"),
    "RolloutHeld": ("info", "Rollout held"),
    "Paused": ("info", "Paused"),
    "Pinned": ("info", "Pinned"),
    "NotEnoughEvidence": ("info", "Not enough evidence"),
    "NoReportYet": ("info", "No report yet"),
    "NoSlo": ("info", "No SLO"),
    "Rolling": ("info", "Rolling"),
}


class ConditionSummary(Answer):
    """A condition without its figures."""

    type: ConditionType
    """Which."""

    @computed_field
    def severity(self) -> Severity:
        """How grave it is."""
        return _KINDS[self.type][0]

    @computed_field
    def title(self) -> str:
        """Its name."""
        return _KINDS[self.type][1]


class Condition(ConditionSummary):
    """Something about the stream that somebody should know; it is there only while it holds."""

    detail: str
    """The figures, as a sentence."""
