"""What the state of a stream is told in: the types of conditions, the conditions that hold, and the budget.

Every other place takes from here how grave a condition is, what people call it, and which alert belongs to it: the
order of lists, the fleet's worst condition, the doctor, and, through the API, the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tidemark.controller.base.answer import Answer
from tidemark.models.specs.slo import Objective

ConditionType = Literal[
    "NoReportYet",
    "NoRecentReport",
    "VerdictOld",
    "PartitionsSilent",
    "NoSlo",
    "NotEnoughEvidence",
    "CoverageGap",
    "BatchesRanAgain",
    "SeveralQueries",
    "WatermarkStandsStill",
    "ClockWrong",
    "OperatorContradicted",
    "NoRowIsLate",
    "RowsNotCounted",
    "NeedsUnknown",
    "CountsExcessive",
    "ReadOutOfOrder",
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
    "LiveFailed",
    "LiveWithoutCeiling",
    "SkewBeyondCeiling",
    "CeilingNear",
    "FutureRows",
    "MisdatedRows",
    "PartitionSkewed",
    "LossIsBiased",
    "LatePolicyNotFollowed",
    "ConfLeftOut",
    "AdoptionAsked",
    "JoinMissesTarget",
    "LastWindowsOpen",
    "StateGrows",
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


class Budget(Answer):
    """How much may be lost over the SLO's window, and how much is."""

    objective: Objective
    """What counts: rows, or windows that did not reach the target."""
    window_ms: int
    """The SLO's window, in milliseconds, back from the newest batch."""
    from_us: int
    """Trigger time of the first batch that counts, in microseconds since the epoch."""
    counted: int
    """(Row, key) pairs that arrived, or windows that the watermark has passed."""
    bad_min: int
    """How many of them were late, or did not reach the target, for sure."""
    bad_max: int
    """How many may have been, unjudged ones among them."""
    min_ppm: int | None
    """Minimum share that was good, in parts per million, rounded down; null when nothing counts."""
    max_ppm: int | None
    """Maximum share that was good; null when nothing counts."""
    allowed: int
    """How many may be bad of what is counted."""
    remaining_ppm: int | None
    """Minimum share of that which is left, in parts per million; negative when overdrawn, null when that is 0."""
    missing_batches: int
    """Batches never reported: how many rows they held is unknown."""
    provisional: bool
    """Whether rows can still come for windows (or minutes) that the watermark has not passed."""


@dataclass(frozen=True, slots=True)
class ConditionKind:
    """What all conditions of one type have in common."""

    severity: Severity
    """How grave they are."""
    title: str
    """What people call them."""
    alert: str | None = None
    """Name of the alert that reports the same fact after a while; None for none."""

    @property
    def problem(self) -> bool:
        """Whether somebody should do something about them."""
        return self.severity in {"critical", "warning"}


# A rollback is a warning: the bound from before is back in force, so nothing more is lost.
# Missing reports are a warning: whether rows are lost is unknown, and the bound is held meanwhile.
CONDITION_TYPES: Mapping[ConditionType, ConditionKind] = {
    "OperatorContradicted": ConditionKind("critical", "Rows not judged"),
    "WatermarkStandsStill": ConditionKind(
        "critical", "Watermark stands still", "TidemarkWatermarkStandsStill"
    ),
    "LiveFailed": ConditionKind("critical", "Live failed"),
    "LiveWithoutCeiling": ConditionKind("critical", "Live without a ceiling"),
    "SkewBeyondCeiling": ConditionKind("critical", "Skew beyond the ceiling"),
    "CeilingNear": ConditionKind("critical", "Ceiling near", "TidemarkBoundSaturated"),
    "ConstraintsConflict": ConditionKind("critical", "SLO and caps conflict", "TidemarkConstraintsConflict"),
    "TargetMissed": ConditionKind("critical", "Target missed"),
    "JoinMissesTarget": ConditionKind("warning", "Join misses its target"),
    "RolledBack": ConditionKind("warning", "Rolled back"),
    "NoRecentReport": ConditionKind("warning", "No recent report", "TidemarkReportsAbsent"),
    "ClockWrong": ConditionKind("warning", "A clock is wrong"),
    "VerdictOld": ConditionKind("warning", "Verdict is old"),
    "CoverageGap": ConditionKind("warning", "Batches missing"),
    "SeveralQueries": ConditionKind("warning", "Several queries"),
    "BatchesRanAgain": ConditionKind("warning", "Batches ran again"),
    "RowsNotCounted": ConditionKind("warning", "Rows not counted", "TidemarkTelemetryOverflow"),
    "CountsExcessive": ConditionKind("warning", "Too many rows to be true"),
    "ReadOutOfOrder": ConditionKind("warning", "Read out of order"),
    "NeedsUnknown": ConditionKind("warning", "Needs unknown"),
    "FutureRows": ConditionKind("warning", "Future-dated rows", "TidemarkFutureDatedRows"),
    "MisdatedRows": ConditionKind("warning", "Misdated rows", "TidemarkMisdatedRows"),
    "PartitionSkewed": ConditionKind("warning", "Skewed partition", "TidemarkPartitionSkewed"),
    "LossIsBiased": ConditionKind("warning", "Loss is biased", "TidemarkLossIsBiased"),
    "LatePolicyNotFollowed": ConditionKind("warning", "Late rows not as set"),
    "StateGrows": ConditionKind("warning", "State grows without end"),
    "AdoptionAsked": ConditionKind("warning", "Began anew"),
    "ConfLeftOut": ConditionKind("warning", "Conf left out"),
    "PartitionsSilent": ConditionKind("warning", "Partitions silent", "TidemarkPartitionIdle"),
    "BoundNotAcknowledged": ConditionKind("warning", "Bound not taken up", "TidemarkBoundNotAdopted"),
    # In OnRestart nobody has to do anything: the job takes it when it next starts.
    "WaitsForStart": ConditionKind("info", "Waits for the next start"),
    "RolloutHeld": ConditionKind("info", "Rollout held"),
    "Paused": ConditionKind("info", "Paused"),
    "LastWindowsOpen": ConditionKind("info", "Last windows stay open"),
    "NarrowingFrozen": ConditionKind("info", "Narrowing frozen"),
    "Pinned": ConditionKind("info", "Pinned"),
    "NotEnoughEvidence": ConditionKind("info", "Not enough evidence"),
    "NoReportYet": ConditionKind("info", "No report yet"),
    "NoSlo": ConditionKind("info", "No SLO"),
    "Rolling": ConditionKind("ok", "Rolling"),
    "NoRowIsLate": ConditionKind("ok", "No row can be late"),
}
"""By type, the worst first."""

_PLACES = {kind: place for place, kind in enumerate(CONDITION_TYPES)}


def condition(kind: ConditionType, detail: str) -> Condition:
    """Return a condition that holds, with its figures as a sentence."""
    its_type = CONDITION_TYPES[kind]
    return Condition(type=kind, severity=its_type.severity, title=its_type.title, detail=detail)


def summary_of(kind: ConditionType) -> ConditionSummary:
    """Return a condition without its figures."""
    its_type = CONDITION_TYPES[kind]
    return ConditionSummary(type=kind, severity=its_type.severity, title=its_type.title)


def place_of(summary: ConditionSummary) -> int:
    """Return the place of a condition among all types, 0 for the worst."""
    return _PLACES[summary.type]
