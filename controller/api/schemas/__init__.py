"""Answers of the API: closed objects, whole numbers with their unit in the name, null for unknown."""

from __future__ import annotations

from tidemark.controller.api.schemas.alerts import Notified
from tidemark.controller.api.schemas.answer import Answer
from tidemark.controller.api.schemas.bounds import BoundPage, Published, PublishedBound
from tidemark.controller.api.schemas.charts import (
    BudgetHistory,
    BudgetSlot,
    BurnRate,
    Heatmap,
    HeatmapCell,
    HeatmapPartition,
    History,
    HistoryRollout,
    HistorySlot,
)
from tidemark.controller.api.schemas.conditions import Condition, ConditionSummary, ConditionType, Severity
from tidemark.controller.api.schemas.curve import (
    CurveAnswer,
    CurveBasis,
    CurvePointAnswer,
    Operating,
    PartitionCurve,
    PartitionPoint,
)
from tidemark.controller.api.schemas.deleted import StreamDeleted
from tidemark.controller.api.schemas.events import Event, EventEvidence, EventPage
from tidemark.controller.api.schemas.evidence import (
    Budget,
    Completeness,
    Evidence,
    MissingRange,
    QueryCoverage,
)
from tidemark.controller.api.schemas.fleet import (
    FleetPage,
    FleetPartitions,
    FleetRollout,
    FleetStream,
    FleetTotals,
    SkewedPartition,
    WorstCount,
)
from tidemark.controller.api.schemas.gates import GateList, GateOffered
from tidemark.controller.api.schemas.health import Health, HealthCheck
from tidemark.controller.api.schemas.intake import AcknowledgementFacts, AcknowledgementPage, Applied, Receipt
from tidemark.controller.api.schemas.jobs import (
    JobCondition,
    JobPage,
    JobStatus,
    JobSummary,
    JobWorst,
    ModeCount,
)
from tidemark.controller.api.schemas.joins import (
    JoinAnswer,
    JoinPage,
    JoinSideAnswer,
    JoinStateAnswer,
    NamedJoin,
)
from tidemark.controller.api.schemas.late import LateStatus
from tidemark.controller.api.schemas.live import AppendDelaySeen, Live
from tidemark.controller.api.schemas.lost import LossCounted, LossTotals, LostAnswer, LostValue
from tidemark.controller.api.schemas.partitions import Partition, PartitionPage
from tidemark.controller.api.schemas.pins import PinAnswer, PinInForce, PinnedStream, PinPage, PinSummary
from tidemark.controller.api.schemas.predictions import (
    Expected,
    Prediction,
    PredictionPage,
    Realised,
    TransitionAnswer,
)
from tidemark.controller.api.schemas.preview import Preview
from tidemark.controller.api.schemas.problem import Problem, ProblemItem
from tidemark.controller.api.schemas.recommended import RecommendationAnswer, StepAnswer
from tidemark.controller.api.schemas.reports import (
    MissingBatches,
    ReportDetail,
    ReportedPartition,
    ReportPage,
    ReportSummary,
)
from tidemark.controller.api.schemas.rollouts import (
    Approved,
    GateSaid,
    Promise,
    Proof,
    RolloutAnswer,
    RolloutDetail,
    RolloutPage,
)
from tidemark.controller.api.schemas.specs import (
    Consequences,
    PolicyAnswer,
    PolicySet,
    SloAnswer,
    SloSet,
)
from tidemark.controller.api.schemas.streams import StreamStatus
from tidemark.controller.api.schemas.tokens import Caller, TokenAnswer, TokenMade, TokenPage

__all__ = [
    "AcknowledgementFacts",
    "AcknowledgementPage",
    "Answer",
    "AppendDelaySeen",
    "Applied",
    "Approved",
    "BoundPage",
    "Budget",
    "BudgetHistory",
    "BudgetSlot",
    "BurnRate",
    "Caller",
    "Completeness",
    "Condition",
    "ConditionSummary",
    "ConditionType",
    "Consequences",
    "CurveAnswer",
    "CurveBasis",
    "CurvePointAnswer",
    "Event",
    "EventEvidence",
    "EventPage",
    "Evidence",
    "Expected",
    "FleetPage",
    "FleetPartitions",
    "FleetRollout",
    "FleetStream",
    "FleetTotals",
    "GateList",
    "GateOffered",
    "GateSaid",
    "Health",
    "HealthCheck",
    "Heatmap",
    "HeatmapCell",
    "HeatmapPartition",
    "History",
    "HistoryRollout",
    "HistorySlot",
    "JobCondition",
    "JobPage",
    "JobStatus",
    "JobSummary",
    "JobWorst",
    "JoinAnswer",
    "JoinPage",
    "JoinSideAnswer",
    "JoinStateAnswer",
    "LateStatus",
    "Live",
    "LossCounted",
    "LossTotals",
    "LostAnswer",
    "LostValue",
    "MissingBatches",
    "MissingRange",
    "ModeCount",
    "NamedJoin",
    "Notified",
    "Operating",
    "Partition",
    "PartitionCurve",
    "PartitionPage",
    "PartitionPoint",
    "PinAnswer",
    "PinInForce",
    "PinPage",
    "PinSummary",
    "PinnedStream",
    "PolicyAnswer",
    "PolicySet",
    "Prediction",
    "PredictionPage",
    "Preview",
    "Problem",
    "ProblemItem",
    "Promise",
    "Proof",
    "Published",
    "PublishedBound",
    "QueryCoverage",
    "Realised",
    "Receipt",
    "RecommendationAnswer",
    "ReportDetail",
    "ReportPage",
    "ReportSummary",
    "ReportedPartition",
    "RolloutAnswer",
    "RolloutDetail",
    "RolloutPage",
    "Severity",
    "SkewedPartition",
    "SloAnswer",
    "SloSet",
    "StepAnswer",
    "StreamDeleted",
    "StreamStatus",
    "TokenAnswer",
    "TokenMade",
    "TokenPage",
    "TransitionAnswer",
    "WorstCount",
]
