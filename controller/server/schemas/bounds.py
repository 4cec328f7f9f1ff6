"""Bounds: recommended, predicted, published, acknowledged."""

from __future__ import annotations

from tidemark.controller.base.answer import Answer, OfStream
from tidemark.models.protocol.messages import (
    BoundSource,
    ChangeKind,
    Envelope,
    LatencyUnknown,
    Mode,
    Pin,
    RunEnd,
)
from tidemark.models.recommend.steps import StepKind


class Published(Answer):
    """What is published to a job."""

    bound_ms: int | None
    """The bound in milliseconds; null: the job keeps its own."""
    generation: int
    """Grows with each change of mode, bound, envelope or pin; 0 before the first."""
    published_us: int | None
    """When it was published, in microseconds since the epoch; null before the first generation."""
    reason: str
    """Why it was published then, in one sentence; what holds now is the status's ``summary``."""
    envelope: Envelope | None
    """In Live: what the job's fast policy has to do; null in every other mode."""
    pin: Pin | None
    """What a pin holds the job to; null without one."""


class PublishedBound(Published):
    """One published generation."""

    mode: Mode
    """The stream's mode then."""


class BoundPage(Answer):
    """A page of generations, the newest first."""

    bounds: list[PublishedBound]
    """The generations."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class Expected(Answer):
    """What is expected of a change of the bound; null is unknown."""

    from_bound_ms: int
    """The bound in use before it, in milliseconds."""
    bound_ms: int
    """The bound after it, in milliseconds."""
    stands_still_ms: int | None
    """How long the watermark stands still, in milliseconds; 0 when it moves at once."""
    effective_us: int | None
    """When the watermark first moves under the bound if the job restarts at once, in epoch microseconds."""
    windows_closing: int | None
    """Windows that its first move closes at once; null for operators without windows."""
    rows_closing: int | None
    """Rows admitted to them so far."""
    state_rows: int | None
    """Rows of state once it is in effect: an estimate, in proportion to the event time that is open."""
    state_bytes: int | None
    """Memory of the state then, in bytes: the same estimate."""
    rows: int
    """(Row, key) pairs that the completeness rests on."""
    late: int
    """How many of them would have been late."""
    completeness_ppm: int | None
    """Share that will be admitted, in parts per million, rounded down; null without rows."""
    min_ppm: int | None
    """Lower end of its interval at the SLO's confidence at every look, in parts per million."""
    max_ppm: int | None
    """Upper end of it."""
    latency_base_ms: int | None
    """Mean over windows of the base at emission minus the window's end, in milliseconds."""
    latency_wall_ms: int | None
    """Mean over windows of the wall time of emission minus the window's end, in milliseconds; null when too few
    windows had closed to measure it."""
    text: str
    """The same as a sentence."""


class TransitionAnswer(Expected):
    """What a change of the bound will do, as if the job restarted at the newest batch's end."""

    kind: ChangeKind
    """Whether it widens, narrows or leaves the bound in use."""
    at_us: int
    """The start of the count: the end of the newest batch, in microseconds since the epoch."""
    latency_at_least_ms: int | None
    """A lower limit of this mean while too many windows are open to measure it; null when it is measured."""
    latency_unknown: LatencyUnknown | None
    """Why the mean is not known: there is no window to measure it on (``NoWindows``: the operator has none, none that
    ended since the query began has come to its close, or the reports are not kept any more), or too many are still open
    (``WindowsOpen``); null when it is measured."""


class Realised(Answer):
    """How a prediction came out, by the ledger."""

    became_effective_us: int | None
    """Trigger time of the first batch whose watermark moved under the bound; null before."""
    rows: int
    """(Row, key) pairs judged while the bound was in effect."""
    late_min: int
    """Pairs that were late for sure."""
    late_max: int
    """Pairs that may have been late."""
    completeness_ppm: int | None
    """Share that was admitted, in parts per million; null while too few rows have been judged."""
    error_ppm: int | None
    """That minus the share predicted, in parts per million: 10,000 are one point; null while it is not scored."""
    scored_us: int | None
    """When it was last scored, in microseconds since the epoch; null before."""


class Prediction(Expected):
    """The prediction for a published bound, and how it came out."""

    generation: int
    """Generation under which the bound was published."""
    made_us: int
    """When it was made, in microseconds since the epoch."""
    realised: Realised
    """How it came out."""


class PredictionPage(Answer):
    """A page of predictions, the newest first."""

    predictions: list[Prediction]
    """The predictions."""
    min_rows: int
    """Pairs that must have been judged under a bound before its prediction is scored."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class StepAnswer(Answer):
    """One step of a decision."""

    kind: StepKind
    """What the step does."""
    name: str
    """The same for people."""
    bound_ms: int | None
    """The bound after the step, in milliseconds; null while there is none."""
    reason: str
    """Why, with the figures."""


class RecommendationAnswer(Answer):
    """The newest recommendation."""

    bound_ms: int | None
    """The bound in milliseconds; null: keep the one in use."""
    generation: int | None
    """Generation under which this bound is published; null while it is not."""
    decided_us: int
    """When it was made, in microseconds since the epoch."""
    current: bool
    """Whether it rests on the newest report, SLO and policy; if not, the next tick decides again."""
    because: str
    """What the rows need and what decides the bound, as one sentence."""
    decided_by: StepKind
    """The step that does: the last one that made the bound another."""
    steps: list[StepAnswer]
    """The steps, first to last, each with its reason."""


class ProvisionalBoundAnswer(Answer):
    """An estimate of the bound that the SLO asks for, while too little is known to act on it: no rollout reads it."""

    bound_ms: int
    """The bound that the rows seen so far need, in milliseconds."""
    min_bound_ms: int | None
    """It is at least this, in milliseconds; null while there are too few rows for a lower end, and of a join's side."""
    max_bound_ms: int | None
    """It is at most this, in milliseconds; null while there are too few rows for an upper end."""
    confidence_ppm: int
    """Confidence of each end by itself, at all looks together, in parts per million."""
    max_known_in_ms: int | None
    """In how long the upper end will be known, if events go on to come as they did, in milliseconds; null when it is
    known, and when nobody can say."""
    seen_ms: int
    """How long the stream was observed, in milliseconds."""
    narrows_from_ms: int | None
    """How long it has to be observed before a first narrowing, in milliseconds; null where no such limit holds."""
    text: str
    """The same in one clause."""


class Receipt(OfStream):
    """Confirms that a report or an acknowledgement is stored."""

    received_us: int
    """When it was first received, in microseconds since the epoch."""
    duplicate: bool
    """Whether it was received before; then nothing was changed."""
    body_sha256: str
    """SHA-256 of the request's body, decompressed, in hex: what was sent is delivered once a receipt names it."""


class Applied(Answer):
    """The job's last acknowledgement."""

    bound_ms: int
    """The bound in the plan, in milliseconds."""
    generation: int | None
    """Generation of the bound; null when it is the job's own."""
    source: BoundSource
    """Where the bound came from."""
    query_id: str
    """Spark's persistent id of the query."""
    run_id: str
    """Spark's id of the run that applied it."""
    applied_us: int
    """When the run first used it, in microseconds since the epoch."""
    ceiling_ms: int | None
    """The ceiling in the plan, in milliseconds; null when the job cannot run in Live."""
    run_end: RunEnd | None
    """How the run ends by itself; null when it does not, or when that is not known."""
    spark_ui: str | None
    """Address of the run's page in Spark's UI, by http or https; null without one."""
    called: bool
    """Whether the job calls ``adaptive_watermark``; false for one that nobody edited."""
    conf_left_out: str | None
    """What of the job's conf is left out because it does not fit the stream, and why; null for nothing."""


class AcknowledgementFacts(Applied):
    """An acknowledgement as it was received."""

    mode: Mode
    """The stream's mode as the job knew it."""
    received_us: int
    """When it came, in microseconds since the epoch."""


class AcknowledgementPage(Answer):
    """A page of acknowledgements, those applied last first."""

    acknowledgements: list[AcknowledgementFacts]
    """The acknowledgements."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""
