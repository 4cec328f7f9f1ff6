"""The status of one stream."""

from __future__ import annotations

from tidemark.controller.api.schemas.alerts import Notified
from tidemark.controller.api.schemas.answer import Answer
from tidemark.controller.api.schemas.bounds import Published
from tidemark.controller.api.schemas.conditions import Condition
from tidemark.controller.api.schemas.evidence import Budget, Completeness, Evidence, QueryCoverage
from tidemark.controller.api.schemas.intake import Applied
from tidemark.controller.api.schemas.late import LateStatus
from tidemark.controller.api.schemas.live import AppendDelaySeen, Live
from tidemark.controller.api.schemas.pins import PinInForce
from tidemark.controller.api.schemas.predictions import TransitionAnswer
from tidemark.controller.api.schemas.recommended import RecommendationAnswer
from tidemark.controller.api.schemas.rollouts import RolloutAnswer
from tidemark.controller.api.schemas.specs import SloAnswer
from tidemark.models.protocol.messages import Mode


class StreamStatus(Answer):
    """All that is known of one stream."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    summary: str
    """What holds now and what it waits for, in one sentence, made anew for each answer."""
    mode: Mode
    """Its mode."""
    registered_us: int | None
    """When its first report came, in microseconds since the epoch; null while it is only expected."""
    slo: SloAnswer | None
    """Its SLO; null when none is set."""
    recommended: RecommendationAnswer | None
    """The newest recommendation; null before the first."""
    transition: TransitionAnswer | None
    """What a change from the bound in use to the recommended one will do; null without a recommended bound."""
    published: Published
    """What is published to the job."""
    applied: Applied | None
    """What the job last acknowledged; null before the first acknowledgement."""
    in_use_bound_ms: int | None
    """The bound in the plan of the newest batch, in milliseconds; null before the first report."""
    effective_bound_ms: int | None
    """How far the watermark really trails the maximum event time, in milliseconds; null when unknown."""
    windows_per_row: int | None
    """Maximum number of windows that a row is in; above 1 for sliding windows, where completeness, evidence and budget
    count (row, window) pairs; null before the first report."""
    pin: PinInForce | None
    """The kill switch that holds the stream; null for none."""
    frozen_until_us: int | None
    """When the freeze window of the policy ends that holds now, in microseconds since the epoch: until then nothing is
    narrowed; null when none holds, and in mode Off."""
    live: Live | None
    """What the fast policy did; null unless the newest batch ran in Live."""
    append_delay: AppendDelaySeen | None
    """How late rows were appended to the source; null when the job names no column for it."""
    late: LateStatus
    """What becomes of late rows."""
    evidence: Evidence
    """What the recommendation rests on."""
    coverage: list[QueryCoverage]
    """By query, which batches were reported."""
    completeness: Completeness
    """What the ledger says."""
    budget: Budget | None
    """How many rows may still be lost over the SLO's window; null without an SLO or without reports."""
    rollout: RolloutAnswer | None
    """The newest rollout; null before the first."""
    notified: Notified | None
    """Whom the controller notifies of the stream's alerts; null where it notifies nobody, such as beside Prometheus."""
    shadow_since_us: int | None
    """Since when a shadow is tried beside the SLO, in microseconds since the epoch; null without one."""
    conditions: list[Condition]
    """What somebody should know, the worst first."""
