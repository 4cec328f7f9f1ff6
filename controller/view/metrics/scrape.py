"""One scrape: the store is read once and let go; then all is written out, with what this process counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.base.counters import HELP, LABELS, OF_STREAMS, scrape_seconds
from tidemark.controller.base.db.database import STORE_ERRORS, Database
from tidemark.controller.base.db.tables import (
    OffsetRow,
    PredictionRow,
    ReportBodyRow,
    ReportRow,
    RollupRow,
    StreamRow,
)
from tidemark.controller.base.shares import used
from tidemark.controller.control.rollout.store import rollouts_by_state
from tidemark.controller.evidence.lost import LostSummary
from tidemark.controller.view.metrics.partition_metrics import (
    Exposed,
    family_of,
    most_notable,
    partition_families,
    partition_lines,
)
from tidemark.controller.view.state.load import load_states
from tidemark.controller.view.state.partition_rows import PartitionSummary, load_partitions
from tidemark.controller.view.state.state import NewestBatch, StreamState
from tidemark.models.base.target import PPM
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import SLOT_US, merge_all, slot_of_us


@dataclass(frozen=True, slots=True)
class _Read:
    streams: Sequence[StreamState]
    partitions: Mapping[int, Sequence[PartitionSummary]]
    needs: Mapping[int, Sketch]
    rollouts: Mapping[str, int]


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class Scrape:
    """Answers scrapes. Safe to call from several threads.

    Args:
        database: the store.
        registry: what this process counts.
        max_partitions: how many partitions of a stream have series of their own, at most.
        label_names: names of the labels of streams that are exposed.
    """

    def __init__(
        self, database: Database, registry: CollectorRegistry, max_partitions: int, label_names: Sequence[str]
    ) -> None:
        self._database = database
        self._registry = registry
        self._max_partitions = max_partitions
        self._label_names = label_names
        self._seconds = scrape_seconds(registry)
        self.limits: dict[str, Callable[[], float]] = {}
        """How much is used of each limit of this process."""

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format; without a store, those of streams are missing."""
        begun = perf_counter()
        families, exposed = self._of_the_store()
        text = generate_latest(self._registry) + generate_latest(_Families(families))
        text += "".join(partition_lines(exposed)).encode()
        self._seconds.observe(perf_counter() - begun)
        return text

    def families(self) -> Iterator[Metric]:
        """Yield the same metrics for what is not Prometheus."""
        families, exposed = self._of_the_store()
        yield from self._registry.collect()
        yield from families
        yield from partition_families(exposed)

    def _of_the_store(self) -> tuple[list[Metric], list[Exposed]]:
        try:
            read = self._read()
        except STORE_ERRORS:
            return [_one("tidemark_store_up", 0)], []
        exposed, left_out = most_notable(read.streams, read.partitions, self._max_partitions)
        families: list[Metric] = [
            self._limits(read),
            _one("tidemark_store_up", 1),
            _one("tidemark_streams", len(read.streams)),
            _one("tidemark_partitions_not_exposed", left_out),
            *stream_families(
                read.streams, read.partitions, read.needs, read.rollouts, label_names=self._label_names
            ),
        ]
        return families, exposed

    def _limits(self, read: _Read) -> GaugeMetricFamily:
        name, limits = "tidemark_limit_used_ratio", self._database.limits
        family = GaugeMetricFamily(name, HELP[name], labels=LABELS[name])
        for limit, of_process in self.limits.items():
            family.add_metric([limit], of_process())
        if limits.streams is not None:
            of_jobs = Counter(state.row.job for state in read.streams)
            family.add_metric(["streams"], used(limits.streams, of_jobs))
        if limits.partitions is not None:
            most = max(map(len, read.partitions.values()), default=0)
            family.add_metric(["partitions"], most / limits.partitions)
        return family

    def _read(self) -> _Read:
        with self._database.read() as session:
            return _Read(
                load_states(session),
                load_partitions(session),
                load_needs(session),
                rollouts_by_state(session),
            )


def _one(name: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, HELP[name], value=value)


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
    found: defaultdict[int, dict[int, list[Sketch]]] = defaultdict(lambda: defaultdict(list))
    for query in (
        select(StreamRow.id, RollupRow.slot_us, RollupRow.needs).outerjoin(RollupRow, rolled_up),
        tail,
    ):
        for stream_id, seen_us, blob in session.execute(query):
            if blob is not None:
                found[stream_id][slot_of_us(seen_us)].append(Sketch.from_bytes(blob))
    return {
        stream_id: merge_all(sketch for slot_us in sorted(slots)[-_NEED_SLOTS:] for sketch in slots[slot_us])
        for stream_id, slots in found.items()
    }


QUANTILES = (0.5, 0.9, 0.99, 0.999, 1.0)
"""Shares of the rows whose needs are exposed."""


def stream_families(
    streams: Iterable[StreamState],
    partitions: Mapping[int, Sequence[PartitionSummary]],
    needs: Mapping[int, Sketch],
    rollouts: Mapping[str, int],
    *,
    label_names: Sequence[str],
) -> Iterator[Metric]:
    """Return the metrics of ``streams``, with their partitions and needs, and of ``rollouts`` by state.

    Args:
        streams: the streams.
        partitions: their partitions, by number of the stream.
        needs: their needs, by number of the stream.
        rollouts: how many rollouts there are in each state.
        label_names: names of the labels of streams that are exposed.
    """
    families = {name: family_of(name) for name in OF_STREAMS}
    info, rollout_state = family_of("tidemark_stream_info"), family_of("tidemark_rollout_state")
    rows, rows_lost = family_of("tidemark_value_rows"), family_of("tidemark_value_rows_lost")
    # The text format keeps the label `quantile` for summaries.
    quantiles = Metric("tidemark_need_seconds", HELP["tidemark_need_seconds"], "summary")
    for state in streams:
        labels = (state.row.job, state.row.stream)
        values = {**_values(state), **_counts(partitions.get(state.id, ()))}
        for name, value in values.items():
            if value is not None:
                families[name].add_metric(labels, value)
        objective = "" if state.slo is None else state.slo.value.objective
        named = dict(zip(LABELS[info.name], (*labels, state.mode, objective), strict=True))
        given = state.policy.value.labels
        info.add_sample(info.name, named | {name: given[name] for name in label_names if name in given}, 1)
        for of_value, (came, lost) in _of_values(state.lost).items():
            rows.add_metric((*labels, *of_value), came)
            rows_lost.add_metric((*labels, *of_value), lost)
        if state.rollout is not None:
            rollout_state.add_metric((*labels, state.rollout.state), 1)
        for quantile, need_s in _needs(needs.get(state.id)):
            named = dict(zip(LABELS["tidemark_need_seconds"], (*labels, format(quantile, "g")), strict=True))
            quantiles.add_sample(quantiles.name, named, need_s)
    count = family_of("tidemark_rollouts")
    for name, number in sorted(rollouts.items()):
        count.add_metric((name,), number)
    yield from (*families.values(), info, quantiles, rollout_state, count, rows, rows_lost)


def _values(state: StreamState) -> dict[str, float | None]:
    row, applied, policy = state.row, state.applied, state.policy.value
    slo = None if state.slo is None else state.slo.value
    recommended = state.recommendation
    return {
        "tidemark_paused": state.paused,
        "tidemark_reports_received_total": row.reports,
        "tidemark_reports_duplicate_total": row.duplicates,
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
        "tidemark_bound_ceiling_used_ratio": None
        if state.live is None
        else _ratio(state.live.ceiling_used_ppm),
        "tidemark_bound_saturated": state.saturated,
        "tidemark_bound_adopted": state.adopted,
        "tidemark_loss_biased": None if state.lost is None else state.lost.bias is not None,
        "tidemark_rollout_changed_timestamp_seconds": None
        if state.rollout is None
        else state.rollout.changed_us / 1e6,
        "tidemark_rollout_vetoed": None if state.rollout is None else state.rollout.vetoed,
        "tidemark_generation_acknowledged": None if applied is None else applied.generation,
        **_of_newest(state.newest),
        **_published(state),
        **_predicted(state.prediction),
    }


def _of_newest(newest: NewestBatch | None) -> dict[str, float | None]:
    if newest is None:
        return {}
    report = newest.report
    watermark_s = _seconds(newest.watermark_ms)
    return {
        "tidemark_dropped_reports": report.dropped_reports,
        "tidemark_last_batch_timestamp_seconds": report.started_us / 1e6,
        "tidemark_last_report_timestamp_seconds": report.received_us / 1e6,
        "tidemark_batch_gap_seconds": None if newest.gap_us is None else newest.gap_us / 1e6,
        "tidemark_watermark_timestamp_seconds": watermark_s,
        "tidemark_event_time_timestamp_seconds": _seconds(newest.base_ms),
        "tidemark_watermark_lag_seconds": None
        if watermark_s is None
        else newest.ended_us / 1e6 - watermark_s,
        "tidemark_state_rows": report.state_rows,
        "tidemark_state_bytes": report.state_bytes,
        "tidemark_bound_in_use_seconds": report.bound_ms / 1_000,
        "tidemark_bound_effective_seconds": _seconds(newest.effective_bound_ms),
    }


def _published(state: StreamState) -> dict[str, float | None]:
    published = state.published
    if published is None:
        return {"tidemark_generation": 0}
    changed = None
    if published.bound_ms is not None and state.previous_bound_ms:
        changed = published.bound_ms / state.previous_bound_ms - 1
    return {
        "tidemark_generation": published.generation,
        "tidemark_bound_published_seconds": _seconds(published.bound_ms),
        "tidemark_bound_published_timestamp_seconds": published.published_us / 1e6,
        "tidemark_bound_change_ratio": changed,
    }


def _predicted(prediction: PredictionRow | None) -> dict[str, float | None]:
    if prediction is None:
        return {}
    rows, error_ppm = prediction.rows, prediction.error_ppm
    return {
        "tidemark_completeness_predicted_ratio": (rows - prediction.late) / rows if rows else None,
        "tidemark_completeness_predicted_min_ratio": _ratio(prediction.min_ppm),
        "tidemark_completeness_realised_ratio": _ratio(prediction.realised_ppm),
        "tidemark_completeness_realised_max_ratio": _ratio(prediction.realised_max_ppm),
        "tidemark_prediction_error_ratio": None if error_ppm is None else abs(error_ppm) / PPM,
    }


def _counts(partitions: Sequence[PartitionSummary]) -> dict[str, float]:
    return {
        "tidemark_partitions": len(partitions),
        "tidemark_partitions_skewed": sum(each.skewed for each in partitions),
        "tidemark_partitions_idle": sum(each.state == "Idle" for each in partitions),
        "tidemark_partitions_behind": sum(each.state == "Behind" for each in partitions),
    }


def _of_values(lost: LostSummary | None) -> dict[tuple[str, str], tuple[int, int]]:
    """Return rows and lost rows by dimension and label of a value."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    if lost is None:
        return found
    for dimension, values in lost.by_dimension.items():
        for each in values:
            # A text may be the label of null: one series is not exposed twice.
            value = "(null)" if each.value is None else each.value
            found.setdefault((dimension, value), (each.rows, each.lost))
    return found


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
