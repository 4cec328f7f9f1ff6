"""The tables. Times are integer microseconds (``_us``) or milliseconds (``_ms``); a null is unknown, never 0."""

from __future__ import annotations

from tidemark.controller.db.tables.access import TokenRow
from tidemark.controller.db.tables.bounds import (
    AcknowledgementRow,
    PredictionRow,
    PublishedRow,
    RecentBoundRow,
    RecommendationRow,
)
from tidemark.controller.db.tables.columns import Base
from tidemark.controller.db.tables.events import EventRow
from tidemark.controller.db.tables.evidence import (
    LedgerKeyRow,
    NeedBlockRow,
    NeedSketchRow,
    NeedSlotRow,
    PartitionSumsRow,
    ReportHourRow,
    RollupRow,
    SeriesRow,
)
from tidemark.controller.db.tables.lost import LateSlotRow, LateStepRow
from tidemark.controller.db.tables.replicas import EpochRow, LeaseRow, ReplicaRow
from tidemark.controller.db.tables.rollouts import FailedBoundRow, RolloutRow
from tidemark.controller.db.tables.specs import (
    JoinRow,
    PinRow,
    PolicyRow,
    SloRow,
)
from tidemark.controller.db.tables.streams import (
    BY_BOUND,
    KNOWN,
    LiveRow,
    OverviewRow,
    PartitionRow,
    QuarantinedRow,
    QueryRow,
    ReportBodyRow,
    ReportRow,
    StreamRow,
)

__all__ = [
    "BY_BOUND",
    "KNOWN",
    "AcknowledgementRow",
    "Base",
    "EpochRow",
    "EventRow",
    "FailedBoundRow",
    "JoinRow",
    "LateSlotRow",
    "LateStepRow",
    "LeaseRow",
    "LedgerKeyRow",
    "LiveRow",
    "NeedBlockRow",
    "NeedSketchRow",
    "NeedSlotRow",
    "OverviewRow",
    "PartitionRow",
    "PartitionSumsRow",
    "PinRow",
    "PolicyRow",
    "PredictionRow",
    "PublishedRow",
    "QuarantinedRow",
    "QueryRow",
    "RecentBoundRow",
    "RecommendationRow",
    "ReplicaRow",
    "ReportBodyRow",
    "ReportHourRow",
    "ReportRow",
    "RolloutRow",
    "RollupRow",
    "SeriesRow",
    "SloRow",
    "StreamRow",
    "TokenRow",
]
