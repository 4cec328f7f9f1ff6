"""Conditions of a stream: what somebody should know about it."""

from __future__ import annotations

from typing import Literal

from tidemark.controller.api.schemas.answer import Answer

ConditionType = Literal[
    "NoReportYet",
    "NoRecentReport",
    "PartitionsSilent",
    "NoSlo",
    "NotEnoughEvidence",
    "CoverageGap",
    "BatchesRanAgain",
    "SeveralQueries",
    "WatermarkStandsStill",
    "BatchesQuarantined",
    "OperatorContradicted",
    "RowsNotCounted",
    "NeedsUnknown",
    "ConstraintsConflict",
    "BoundNotAcknowledged",
    "WaitsForStart",
    "Rolling",
    "RolloutHeld",
    "TargetMissed",
    "RolledBack",
    "Paused",
    "NarrowingFrozen",
    "Pinned",
    "LiveWithoutCeiling",
    "SkewBeyondCeiling",
    "CeilingNear",
    "FutureRows",
    "MisdatedRows",
    "PartitionSkewed",
    "LossIsBiased",
    "LatePolicyNotFollowed",
    "JoinMissesTarget",
]

Severity = Literal["critical", "warning", "info", "ok"]
"""critical: rows are lost or the job is not steered; warning: something is unknown or not as it should be; info: a
setting or a person is the reason; ok: nothing to do."""


class ConditionSummary(Answer):
    """A condition without its figures."""

    type: ConditionType
    """Which one."""
    severity: Severity
    """How grave it is."""
    title: str
    """A short name for people."""


class Condition(ConditionSummary):
    """Something about the stream that somebody should know; it is listed only while it holds."""

    detail: str
    """The figures, as a sentence."""
