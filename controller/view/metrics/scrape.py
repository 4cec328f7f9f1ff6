"""One scrape: the store is read once and let go; then all is written out, with what this process counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.base.answer import share_ppm
from tidemark.controller.base.clock import Clock
from tidemark.controller.base.counters import (
    IN_DETAIL,
    LABELS,
    OF_STREAMS,
    STREAM,
    ZERO_IN_DETAIL,
    scrape_seconds,
)
from tidemark.controller.base.db.database import STORE_ERRORS, Database
from tidemark.controller.base.db.tables import (
    OffsetRow,
    OverviewRow,
    PredictionRow,
    ReportBodyRow,
    ReportRow,
    RollupRow,
    StreamRow,
)
from tidemark.controller.base.shares import used
from tidemark.controller.control.rollout.store import rollouts_by_state
from tidemark.controller.view.metrics.partition_metrics import Exposed, most_notable, partition_values
from tidemark.controller.view.metrics.series import LabelSet, Samples, lines_of
from tidemark.controller.view.state.load import load_states
from tidemark.controller.view.state.partition_rows import load_partitions
from tidemark.controller.view.state.state import NewestBatch, StreamState
from tidemark.models.base.target import PPM
from tidemark.models.evidence.late_counts import BY_PARTITION
from tidemark.models.evidence.losses import LostSummary
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import SLOT_US, merge_all, slot_of_us


class Scrape:
    """Answers scrapes. Safe to call from several threads.

    Args:
        registry: what this process counts.
        max_partitions: how many partitions of a stream have series of their own, at most.
        label_names: names of the labels of streams that are exposed.
        clock: the wall time in microseconds.
    """

    def __init__(
        self,
        database: Database,
        registry: CollectorRegistry,
        max_partitions: int,
        label_names: Sequence[str],
        clock: Clock,
    ) -> None:
        self._database = database
        self._registry = registry
        self._max_partitions = max_partitions
        self._label_names = label_names
        self._clock = clock
        self._seconds = scrape_seconds(registry)
        self.limits: dict[str, Callable[[], float]] = {}
        """How much is used of each limit of this process."""

    def text(self, *, detail: bool = False) -> bytes:
        """Return the metrics in Prometheus' text format; without a store, those of streams are missing.

        Args:
            detail: whether to add what no rule needs: all partitions, needs, and what is 0.
        """
        begun = perf_counter()
        samples = self._of_the_store(detail=detail)
        text = generate_latest(self._registry) + "".join(lines_of(samples)).encode()
        self._seconds.observe(perf_counter() - begun)
        return text

    def _of_the_store(self, *, detail: bool) -> Samples:
        try:
            with self._database.read() as session:
                streams = load_states(session)
                partitions = load_partitions(session, notable=not detail)
                needs = load_needs(session) if detail else {}
                rollouts = rollouts_by_state(session)
        except STORE_ERRORS:
            return {"tidemark_store_up": [(_NO_LABELS, 0)]}
        exposed = most_notable(streams, partitions, self._max_partitions, detail=detail)
        overviews = [stream.overview for stream in streams if stream.overview is not None]
        alone: dict[str, float] = {
            "tidemark_store_up": 1,
            "tidemark_streams": len(streams),
            "tidemark_partitions_not_exposed": max(
                sum(overview.partitions.total for overview in overviews) - len(exposed), 0
            ),
        }
        ages_us = [self._clock() - overview.seen_us for overview in overviews]
        return {
            **{name: [(_NO_LABELS, value)] for name, value in alone.items()},
            "tidemark_limit_used_ratio": [
                (LabelSet(LABELS["tidemark_limit_used_ratio"], (limit,)), ratio)
                for limit, ratio in self._limits_used(streams).items()
            ],
            "tidemark_snapshot_age_seconds": [(_NO_LABELS, max(ages_us) / 1e6)] if ages_us else [],
            **_of_streams(streams, needs, self._label_names, exposed, detail=detail),
            "tidemark_rollouts": [
                (LabelSet(LABELS["tidemark_rollouts"], (state,)), count)
                for state, count in sorted(rollouts.items())
            ],
        }

    def _limits_used(self, streams: Sequence[StreamState]) -> dict[str, float]:
        """Return by limit how much of it is used, or of the share of the job that has most of its own."""
        ratios, limits = (
            {name: of_process() for name, of_process in self.limits.items()},
            self._database.limits,
        )
        if limits.streams is not None:
            ratios["streams"] = used(limits.streams, Counter(state.row.job for state in streams))
        if limits.partitions is not None:
            overviews = [state.overview for state in streams if state.overview is not None]
            ratios["partitions"] = (
                max((overview.partitions.total for overview in overviews), default=0) / limits.partitions
            )
        return ratios


_NO_LABELS = LabelSet((), ())

_NEED_SLOTS = 2
"""How many of the newest slots are merged: the newest one alone may have begun with the newest batch."""


def load_needs(session: Session) -> dict[int, Sketch]:
    """Return by stream the needs of its newest slots; streams without any are left out."""
    slot = aliased(RollupRow)
    minute = (slot.stream_id == StreamRow.id, slot.width_us == SLOT_US, slot.need_pairs > 0)
    of_stream = select(slot.slot_us).where(*minute).order_by(slot.slot_us.desc())
    wanted = [of_stream.limit(1).offset(n).scalar_subquery() for n in range(_NEED_SLOTS)]
    rolled_up = and_(
        RollupRow.stream_id == StreamRow.id, RollupRow.width_us == SLOT_US, RollupRow.slot_us.in_(wanted)
    )
    in_tail = and_(
        ReportRow.stream_id == StreamRow.id, ReportRow.id > func.coalesce(OffsetRow.last_report_id, 0)
    )
    # Outer joins make SQLite begin with the streams; else it reads the slots, or the reports, of all time.
    tail = (
        select(StreamRow.id, ReportRow.seen_us, ReportBodyRow.needs)
        .outerjoin(OffsetRow, OffsetRow.stream_id == StreamRow.id)
        .outerjoin(ReportRow, in_tail)
        .outerjoin(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
    )
    by_stream: defaultdict[int, dict[int, list[Sketch]]] = defaultdict(lambda: defaultdict(list))
    for query in (
        select(StreamRow.id, RollupRow.slot_us, RollupRow.needs).outerjoin(RollupRow, rolled_up),
        tail,
    ):
        for stream_id, seen_us, blob in session.execute(query):
            if blob is not None:
                by_stream[stream_id][slot_of_us(seen_us)].append(Sketch.from_bytes(blob))
    return {
        stream_id: merge_all(sketch for slot_us in sorted(slots)[-_NEED_SLOTS:] for sketch in slots[slot_us])
        for stream_id, slots in by_stream.items()
    }


QUANTILES = (0.5, 0.9, 0.99, 0.999, 1.0)
"""Shares of the rows whose needs are exposed."""


def _of_streams(
    streams: Iterable[StreamState],
    needs: Mapping[int, Sketch],
    label_names: Sequence[str],
    exposed: Iterable[Exposed],
    *,
    detail: bool,
) -> Samples:
    """Return the metrics of streams, and of the partitions that are exposed."""
    samples: dict[str, list[tuple[LabelSet, float]]] = {
        name: [] for name in OF_STREAMS if detail or name not in IN_DETAIL
    }

    def add(labels: LabelSet, values: Mapping[str, float | None]) -> None:
        for name, value in values.items():
            if value or (value is not None and (detail or name not in ZERO_IN_DETAIL)):
                samples[name].append((labels, value))

    for state in streams:
        of_stream = (state.row.job, state.row.stream)
        add(LabelSet(STREAM, of_stream), _values(state) | (_only_in_detail(state) if detail else {}))
        objective = "" if state.slo is None else state.slo.value.objective
        set_labels = state.policy.value.labels
        more = [name for name in label_names if name in set_labels]
        labelled = (
            (*LABELS["tidemark_stream_info"], *more),
            (
                *(*of_stream, state.mode, objective),
                *map(set_labels.__getitem__, more),
            ),
        )
        add(LabelSet(*labelled), {"tidemark_stream_info": 1})
        for of_value, (came, lost) in _of_values(state.lost).items():
            labels = LabelSet(LABELS["tidemark_value_rows"], (*of_stream, *of_value))
            add(labels, {"tidemark_value_rows": came, "tidemark_value_rows_lost": lost})
        if state.rollout is not None:
            labels = LabelSet(LABELS["tidemark_rollout_state"], (*of_stream, state.rollout.state))
            add(labels, {"tidemark_rollout_state": 1})
        for quantile, need_s in _needs(needs.get(state.id)):
            labels = LabelSet(LABELS["tidemark_need_seconds"], (*of_stream, format(quantile, "g")))
            add(labels, {"tidemark_need_seconds": need_s})
    for labels, values in partition_values(exposed):
        add(labels, values)
    return samples


def _values(state: StreamState) -> dict[str, float | None]:
    row, applied, policy = state.row, state.applied, state.policy.value
    slo = None if state.slo is None else state.slo.value
    recommended = state.recommendation
    return {
        "tidemark_paused": state.paused,
        "tidemark_reports_received_total": row.reports,
        "tidemark_rows_judged_total": row.pairs,
        "tidemark_rows_admitted_total": row.pairs - row.late_max,
        "tidemark_rows_corrected_total": row.corrected_min,
        "tidemark_rows_unjudged_total": row.unjudged_rows,
        "tidemark_rows_future_total": state.future_rows,
        "tidemark_rows_misdated_total": state.misdated_rows,
        "tidemark_missing_batches": state.missing_batches,
        "tidemark_slo_target_ratio": None if slo is None else _ratio(slo.target_ppm),
        "tidemark_slo_window_seconds": None if slo is None else _seconds(slo.window_ms),
        "tidemark_budget_remaining_ratio": None
        if state.overview is None
        else _ratio(state.overview.remaining_ppm),
        "tidemark_constraints_conflict": None if recommended is None else recommended.conflict,
        "tidemark_bound_required_seconds": _seconds(state.required_ms),
        "tidemark_bound_recommended_seconds": None if recommended is None else _seconds(recommended.bound_ms),
        "tidemark_bound_applied_seconds": None if applied is None else _seconds(applied.bound_ms),
        "tidemark_bound_max_seconds": _seconds(policy.max_bound_ms),
        "tidemark_bound_ceiling_seconds": None if applied is None else _seconds(applied.ceiling_ms),
        "tidemark_bound_saturated": state.saturated,
        "tidemark_bound_adopted": state.adopted,
        "tidemark_loss_biased": None if state.lost is None else state.lost.bias is not None,
        "tidemark_rollout_changed_timestamp_seconds": None
        if state.rollout is None
        else state.rollout.changed_us / 1e6,
        "tidemark_rollout_vetoed": None if state.rollout is None else state.rollout.vetoed,
        **_of_windows(state),
        **_of_partitions(state.overview),
        **_of_newest(state.newest),
        **_published(state),
        **_predicted(state.prediction),
    }


def _only_in_detail(state: StreamState) -> dict[str, float | None]:
    """Return the values of ``IN_DETAIL``, but for needs."""
    newest = state.newest
    return {
        "tidemark_reports_duplicate_total": state.row.duplicates,
        "tidemark_generation_acknowledged": None if state.applied is None else state.applied.generation,
        "tidemark_last_batch_timestamp_seconds": None if newest is None else newest.report.started_us / 1e6,
        "tidemark_event_time_timestamp_seconds": None if newest is None else _seconds(newest.base_ms),
    }


def _of_windows(state: StreamState) -> dict[str, float | None]:
    windows = None if state.overview is None else state.overview.windows
    if windows is None:
        return {}
    settled_us, missed_us = windows.settled_us, state.missed_window_us
    return {
        "tidemark_window_settled_timestamp_seconds": None if settled_us is None else settled_us / 1e6,
        "tidemark_window_counted_ratio": _ratio(share_ppm(windows.rows - windows.late_max, windows.rows)),
        "tidemark_window_missed_timestamp_seconds": None if missed_us is None else missed_us / 1e6,
    }


def _of_partitions(seen: OverviewRow | None) -> dict[str, float | None]:
    if seen is None:
        return {}
    partitions = seen.partitions
    return {
        "tidemark_partitions": partitions.total,
        "tidemark_partitions_skewed": partitions.skewed,
        "tidemark_partitions_idle": partitions.idle,
        "tidemark_partitions_behind": partitions.behind,
    }


def _of_newest(newest: NewestBatch | None) -> dict[str, float | None]:
    if newest is None:
        return {}
    report = newest.report
    return {
        "tidemark_dropped_reports": report.dropped_reports,
        "tidemark_last_report_timestamp_seconds": report.received_us / 1e6,
        "tidemark_batch_gap_seconds": None if newest.gap_us is None else newest.gap_us / 1e6,
        "tidemark_watermark_timestamp_seconds": _seconds(newest.watermark_ms),
        "tidemark_state_rows": report.state_rows,
        "tidemark_state_bytes": report.state_bytes,
        "tidemark_bound_in_use_seconds": report.bound_ms / 1_000,
        "tidemark_bound_effective_seconds": _seconds(newest.effective_bound_ms),
    }


def _published(state: StreamState) -> dict[str, float | None]:
    published = state.published
    if published is None:
        return {"tidemark_generation": 0}
    return {
        "tidemark_generation": published.generation,
        "tidemark_bound_published_seconds": _seconds(published.bound_ms),
        "tidemark_bound_published_timestamp_seconds": published.published_us / 1e6,
    }


def _predicted(prediction: PredictionRow | None) -> dict[str, float | None]:
    if prediction is None:
        return {}
    expected = prediction.expected
    return {
        "tidemark_completeness_predicted_ratio": (
            (expected.rows - expected.late) / expected.rows if expected.rows else None
        ),
        "tidemark_completeness_predicted_min_ratio": _ratio(expected.min_ppm),
        "tidemark_completeness_realised_ratio": _ratio(prediction.realised_ppm),
        "tidemark_completeness_realised_max_ratio": _ratio(prediction.realised_max_ppm),
    }


def _of_values(lost: LostSummary | None) -> dict[tuple[str, str], tuple[int, int]]:
    """Return rows and lost rows by dimension and label of a value."""
    by_value: dict[tuple[str, str], tuple[int, int]] = {}
    if lost is None:
        return by_value
    for dimension, values in {BY_PARTITION: lost.partitions, lost.dimension: lost.values}.items():
        for loss in values:
            # A text may be the label of null: one series is not exposed twice.
            value = "(null)" if loss.value is None else loss.value
            by_value.setdefault((dimension, value), (loss.rows, loss.lost))
    return by_value


def _needs(needs: Sketch | None) -> Iterator[tuple[float, float]]:
    if needs is None:
        return
    pairs = round(needs.weight)
    for quantile in QUANTILES:
        need_us = needs.value_at_rank(-(-round(quantile * PPM) * pairs // PPM))
        if need_us is not None:
            yield quantile, need_us / 1e6


def _seconds(duration_ms: int | None) -> float | None:
    return None if duration_ms is None else duration_ms / 1_000


def _ratio(share_ppm: int | None) -> float | None:
    return None if share_ppm is None else share_ppm / PPM
