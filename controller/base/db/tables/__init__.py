"""The tables. Times are integer microseconds (``_us``) or milliseconds (``_ms``); a null is unknown, never 0."""

from __future__ import annotations

from tidemark.controller.base.db.tables.access import TokenRow
from tidemark.controller.base.db.tables.bounds import (
    AcknowledgementRow,
    PredictionRow,
    PublishedRow,
    RecentBoundRow,
    RecommendationRow,
)
from tidemark.controller.base.db.tables.columns import Base
from tidemark.controller.base.db.tables.events import EventRow
from tidemark.controller.base.db.tables.evidence import (
    LedgerKeyRow,
    OffsetRow,
    PartitionRollupRow,
    RollupRow,
    WindowAgeRow,
)
from tidemark.controller.base.db.tables.lost import LateSlotRow, LateStepRow
from tidemark.controller.base.db.tables.replicas import EpochRow, LeaseRow, ReplicaRow
from tidemark.controller.base.db.tables.rollouts import FailedBoundRow, RolloutRow
from tidemark.controller.base.db.tables.specs import (
    JoinRow,
    PinRow,
    PolicyRow,
    SloRow,
)
from tidemark.controller.base.db.tables.streams import (
    BY_BOUND,
    KNOWN,
    LiveRow,
    OperatorRow,
    OverviewRow,
    PartitionRow,
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
    "OffsetRow",
    "OperatorRow",
    "OverviewRow",
    "PartitionRollupRow",
    "PartitionRow",
    "PinRow",
    "PolicyRow",
    "PredictionRow",
    "PublishedRow",
    "QueryRow",
    "RecentBoundRow",
    "RecommendationRow",
    "ReplicaRow",
    "ReportBodyRow",
    "ReportRow",
    "RolloutRow",
    "RollupRow",
    "SloRow",
    "StreamRow",
    "TokenRow",
    "WindowAgeRow",
]
