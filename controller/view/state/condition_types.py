"""The types of conditions: how grave each is, what people call it, what to do about it, and which alert belongs to it.

Every other place takes it from here: the order of lists, the fleet's worst condition, the doctor, and, through the
API, the page. It imports nothing that a client alone does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tidemark.models.specs.run_end import last_windows

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

Status = Mapping[str, Any]
"""The status of a stream, as the API answers it."""

Step = str | Callable[[Status], str] | None


@dataclass(frozen=True, slots=True)
class ConditionKind:
    """What all conditions of one type have in common."""

    severity: Severity
    """How grave they are."""
    title: str
    """What people call them."""
    step: Step = None
    """What to do next; in braces what ``Place.filled`` makes commands of. None: nothing."""
    alert: str | None = None
    """Name of the alert that reports the same fact after a while; None for none."""

    @property
    def problem(self) -> bool:
        """Whether somebody should do something about them."""
        return self.severity in {"critical", "warning"}


def _unpin(status: Status) -> str:
    scope = (status.get("pin") or {}).get("scope", "stream")
    return {"fleet": "{unpin --fleet}", "job": "{unpin JOB}"}.get(scope, "{unpin JOB STREAM}")


def _gaps(status: Status) -> str:
    gaps = [gap for query in status["coverage"] for gap in query["missing"][-1:]]
    newest = ""
    if gaps:
        first, last = gaps[-1]["first"], gaps[-1]["last"]
        newest = (
            f"the newest is batch {first}; "
            if first == last
            else f"the newest are batches {first} to {last}; "
        )
    until = "nothing is narrowed before they leave the horizon"
    return f"{newest}{until}; see what the driver's log says of reports; {{curl}}"


def _approve(status: Status) -> str:
    rollout = status.get("rollout") or {}
    if rollout.get("state") != "AwaitingApproval":
        return f"let it wait, or change what holds it: {_ROLLOUTS}"
    return f"{{approve {rollout['id']} --reason ...}}"


def _last_windows(status: Status) -> str:
    """Return what closes the last windows of a job whose runs end by themselves; empty for other jobs."""
    finding = last_windows((status.get("applied") or {}).get("run_end"))
    return "" if finding is None else finding.instead


def _is_called(status: Status) -> bool:
    """Return whether the job calls ``adaptive_watermark``."""
    return bool((status.get("applied") or {}).get("called", True))


def _say(status: Status, what: str, which: str) -> str:
    """Return where a job says something else of a stream: in its call, or by conf where nobody edited it."""
    where = f"spark.tidemark.stream.{{stream}}.{what}"
    step = f"give the job's call {which} {what}=" if _is_called(status) else f"set {which} {where}"
    return f"{step}, {_STARTED_AGAIN}"


def _raise_ceiling(status: Status) -> str:
    return f"see what is behind: {_PARTITIONS}; else {_say(status, 'ceiling', 'a larger')}"


_ROLLOUTS = "{rollouts JOB STREAM --all}"
_PARTITIONS = "{partitions JOB STREAM}"
_STARTED_AGAIN = "and start it again: {start}"
_SEE_LOG = f"read the job's log for what is in the way, {_STARTED_AGAIN}"
_LEAVES = "this ends when those rows leave the horizon; the stream's batches: {curl}"

# A rollback is a warning: the bound from before is back in force, so nothing more is lost.
# Missing reports are a warning: whether rows are lost is unknown, and the bound is held meanwhile.
CONDITION_TYPES: Mapping[ConditionType, ConditionKind] = {
    "OperatorContradicted": ConditionKind(
        "critical",
        "Rows not judged",
        lambda status: (
            f"declare the operator that the query has, {_STARTED_AGAIN}"
            if _is_called(status)
            else f"nothing, or {_say(status, 'enabled', 'no')}, which leaves it alone"
        ),
    ),
    "WatermarkStandsStill": ConditionKind(
        "critical",
        "Watermark stands still",
        lambda status: (
            _last_windows(status)
            or "tidemark lint JOB.py names a withWatermark behind an aggregate; else see which input has no rows: "
            "{status JOB STREAM}"
        ),
        "TidemarkWatermarkStandsStill",
    ),
    "LiveFailed": ConditionKind("critical", "Live failed", _SEE_LOG),
    "LiveWithoutCeiling": ConditionKind("critical", "Live without a ceiling", _SEE_LOG),
    "SkewBeyondCeiling": ConditionKind("critical", "Skew beyond the ceiling", _raise_ceiling),
    "CeilingNear": ConditionKind("critical", "Ceiling near", _raise_ceiling, "TidemarkBoundSaturated"),
    "ConstraintsConflict": ConditionKind(
        "critical",
        "SLO and caps conflict",
        "say which of the two may be missed, or raise the cap: {slo set JOB STREAM --on-conflict ...}",
        "TidemarkConstraintsConflict",
    ),
    "TargetMissed": ConditionKind(
        "critical", "Target missed", f"see its outcome, and what is recommended now: {_ROLLOUTS}"
    ),
    "JoinMissesTarget": ConditionKind(
        "warning",
        "Join misses its target",
        "see which stream loses most, and what holds its bound: {join get JOB ...}",
    ),
    "RolledBack": ConditionKind(
        "warning", "Rolled back", f"see why, and whether the SLO or the policy should change: {_ROLLOUTS}"
    ),
    "NoRecentReport": ConditionKind(
        "warning",
        "No recent report",
        "if the job has ended, {start}, or when it should stay so, {pause JOB STREAM --reason ...}; else see the "
        "driver's log",
        "TidemarkReportsAbsent",
    ),
    "ClockWrong": ConditionKind(
        "warning",
        "A clock is wrong",
        "set the clocks of the driver, of the senders of its rows and of the controller right; then see "
        "{status JOB STREAM}",
    ),
    # It is of lists alone: what is asked for one stream is worked out then.
    "VerdictOld": ConditionKind("warning", "Verdict is old", "{status JOB STREAM}"),
    "CoverageGap": ConditionKind("warning", "Batches missing", _gaps),
    "SeveralQueries": ConditionKind(
        "warning",
        "Several queries",
        lambda status: (
            f"give each query a stream of its own ("
            f"{'stream=...' if _is_called(status) else 'by its name or checkpoint'}), {_STARTED_AGAIN}"
        ),
    ),
    "BatchesRanAgain": ConditionKind(
        "warning", "Batches ran again", "this ends when those batches leave the horizon; see them: {curl}"
    ),
    "RowsNotCounted": ConditionKind(
        "warning",
        "Rows not counted",
        lambda status: _say(status, "granule", "a coarser"),
        "TidemarkTelemetryOverflow",
    ),
    "CountsExcessive": ConditionKind("warning", "Too many rows to be true", _LEAVES),
    "ReadOutOfOrder": ConditionKind("warning", "Read out of order", _LEAVES),
    "NeedsUnknown": ConditionKind("warning", "Needs unknown", _LEAVES),
    "FutureRows": ConditionKind("warning", "Future-dated rows", _PARTITIONS, "TidemarkFutureDatedRows"),
    "MisdatedRows": ConditionKind("warning", "Misdated rows", _PARTITIONS, "TidemarkMisdatedRows"),
    "PartitionSkewed": ConditionKind("warning", "Skewed partition", _PARTITIONS, "TidemarkPartitionSkewed"),
    "LossIsBiased": ConditionKind("warning", "Loss is biased", "{lost JOB STREAM}", "TidemarkLossIsBiased"),
    "LatePolicyNotFollowed": ConditionKind(
        "warning", "Late rows not as set", "make the job able to, or {policy set JOB STREAM --late call}"
    ),
    "StateGrows": ConditionKind(
        "warning", "State grows without end", "tidemark lint JOB.py says what to write instead"
    ),
    "AdoptionAsked": ConditionKind(
        "warning", "Began anew", "see above, or {slo set JOB STREAM --target 0.99}"
    ),
    "ConfLeftOut": ConditionKind(
        "warning", "Conf left out", "set what it names, or take it out, and start the job again: {start}"
    ),
    "PartitionsSilent": ConditionKind("warning", "Partitions silent", _PARTITIONS, "TidemarkPartitionIdle"),
    "BoundNotAcknowledged": ConditionKind(
        "warning",
        "Bound not taken up",
        lambda status: (
            "a job takes it by itself once it was started in Live: {start}"
            if status["mode"] == "Live"
            else "the job takes it by itself where its query is started by run_adaptive(build); else start it again: "
            "{start}"
        ),
        "TidemarkBoundNotAdopted",
    ),
    # In OnRestart nobody has to do anything: the job takes it when it next starts.
    "WaitsForStart": ConditionKind(
        "info", "Waits for the next start", "the job takes it when it next starts: {start}"
    ),
    "RolloutHeld": ConditionKind("info", "Rollout held", _approve),
    "Paused": ConditionKind("info", "Paused", "{resume JOB STREAM --reason ...}"),
    "LastWindowsOpen": ConditionKind("info", "Last windows stay open", _last_windows),
    "NarrowingFrozen": ConditionKind("info", "Narrowing frozen"),
    "Pinned": ConditionKind("info", "Pinned", _unpin),
    "NotEnoughEvidence": ConditionKind(
        "info", "Not enough evidence", "let the job run, then {doctor JOB STREAM}"
    ),
    "NoReportYet": ConditionKind("info", "No report yet", "{first_start}"),
    "NoSlo": ConditionKind("info", "No SLO", "{slo set JOB STREAM --target 0.99}"),
    "Rolling": ConditionKind("ok", "Rolling"),
    "NoRowIsLate": ConditionKind("ok", "No row can be late"),
}
"""By type, the worst first."""
