"""Every metric of the controller: its name, its help text, and how it is read.

What belongs to a stream is read from the store at each scrape, so that it is right after a restart and vanishes with
the stream; what belongs to this process is counted in it. Base units: seconds, rows, bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from tidemark.controller.store.acknowledgements import last_acknowledgement
from tidemark.controller.store.database import Database
from tidemark.controller.store.horizon import effective_ms, horizon_of
from tidemark.controller.store.predictions import newest_prediction
from tidemark.controller.store.publication import last_published
from tidemark.controller.store.specs import get_slo
from tidemark.controller.store.tables import PredictionRow, QueryRow, RecommendationRow, StreamRow
from tidemark.models.target import PPM

__all__ = ["HELP", "IntakeCounters", "LoopCounters", "StoreCollector", "count_leases", "count_waiting"]

HELP: dict[str, str] = {
    "tidemark_reports_refused_total": "Reports refused since this process started, by problem type.",
    "tidemark_decisions_total": "Decisions made since this process started.",
    "tidemark_decision_failures_total": "Decisions, or whole turns of the loop, that failed in this process.",
    "tidemark_decisions_refused_total": "Decisions not written in this process, whose lease had been taken over.",
    "tidemark_leases_held": "Shards of streams that this process decides, of 64.",
    "tidemark_decision_duration_seconds": "Time that one decision of one stream took.",
    "tidemark_bounds_watched": "Requests in this process that wait for another bound.",
    "tidemark_store_up": "Whether the store answered this scrape: 1 or 0. The metrics of streams are missing at 0.",
    "tidemark_streams": "Streams known, expected ones included.",
    "tidemark_reports_received_total": "Reports stored.",
    "tidemark_reports_duplicate_total": "Reports received again with the same content; they changed nothing.",
    "tidemark_rows_judged_total": "(Row, key) pairs whose fate is known: the denominator of completeness.",
    "tidemark_rows_admitted_total": "(Row, key) pairs that were admitted for sure: the numerator of completeness.",
    "tidemark_rows_unjudged_total": "Rows that arrived but whose fate is unknown.",
    "tidemark_missing_batches": "Batches that were never reported, between the first and the last of each query.",
    "tidemark_given_up_reports": "Reports that the stream's driver has dropped in its present run.",
    "tidemark_last_batch_timestamp_seconds": "Trigger time of the newest batch reported.",
    "tidemark_slo_target_ratio": "Completeness target of the stream.",
    "tidemark_bound_in_use_seconds": "Bound in the plan of the newest batch.",
    "tidemark_bound_recommended_seconds": "Bound recommended; missing when the one in use is to be kept.",
    "tidemark_bound_published_seconds": "Bound that the job is told to use; missing when there is none.",
    "tidemark_bound_applied_seconds": "Bound last acknowledged by the job.",
    "tidemark_bound_effective_seconds": "How far the watermark really trails the greatest event time.",
    "tidemark_generation": "Generation of what the job is told.",
    "tidemark_completeness_predicted_ratio": "Completeness predicted of the bound published last.",
    "tidemark_completeness_realised_ratio": "Completeness counted under it; missing until enough rows are judged.",
    "tidemark_prediction_error_ratio": "How far the two are apart, without a sign; 0.001 is a tenth of a point.",
}
"""Help text of every metric by name; the README's table is checked against it."""

STREAM = ("job", "stream")
"""Labels of what belongs to a stream."""

# From a small stream's millisecond to a day of minutes merged on a busy machine.
DURATION_BUCKETS_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class IntakeCounters:
    """Counts what requests do.

    Args:
        registry: where the metrics are exposed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        name = "tidemark_reports_refused_total"
        self.refused = Counter(name, HELP[name], ["type"], registry=registry)
        """By ``type``, the problem type."""


class LoopCounters:
    """Counts what the decision loop does.

    Args:
        registry: where the metrics are exposed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        name = "tidemark_decisions_total"
        self.decisions = Counter(name, HELP[name], registry=registry)
        """Decisions made."""
        name = "tidemark_decision_failures_total"
        self.failures = Counter(name, HELP[name], registry=registry)
        """Decisions or turns that failed."""
        name = "tidemark_decisions_refused_total"
        self.refused = Counter(name, HELP[name], registry=registry)
        """Decisions that were not written because another process had taken the stream over."""
        name = "tidemark_decision_duration_seconds"
        self.seconds = Histogram(name, HELP[name], buckets=DURATION_BUCKETS_SECONDS, registry=registry)
        """Durations of decisions."""


def count_waiting(registry: CollectorRegistry, waiting: Callable[[], float]) -> None:
    """Expose how many requests wait for another bound, as ``waiting`` says at each scrape."""
    name = "tidemark_bounds_watched"
    Gauge(name, HELP[name], registry=registry).set_function(waiting)


def count_leases(registry: CollectorRegistry, held: Callable[[], float]) -> None:
    """Expose how many shards this process holds, as ``held`` says at each scrape."""
    name = "tidemark_leases_held"
    Gauge(name, HELP[name], registry=registry).set_function(held)


@dataclass(frozen=True, slots=True)
class _Reading:
    labels: tuple[str, str]
    values: dict[str, float | None]


class StoreCollector(Collector):
    """Reads the store at each scrape.

    Args:
        database: the store.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering must not read the store, which may not be there yet."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of the store and of every stream."""
        up = GaugeMetricFamily("tidemark_store_up", HELP["tidemark_store_up"])
        try:
            with self._database.read() as session:
                readings = [_read(session, stream) for stream in session.scalars(select(StreamRow)).all()]
        except SQLAlchemyError:
            up.add_metric([], 0)
            return [up]
        up.add_metric([], 1)
        streams = GaugeMetricFamily("tidemark_streams", HELP["tidemark_streams"], value=len(readings))
        return [up, streams, *_families(readings)]


def _families(readings: list[_Reading]) -> list[Metric]:
    families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for reading in readings:
        for name, value in reading.values.items():
            family = families.get(name)
            if family is None:
                family = families[name] = _family(name)
            if value is not None:
                family.add_metric(reading.labels, value)
    return list(families.values())


def _family(name: str) -> CounterMetricFamily | GaugeMetricFamily:
    if name.endswith("_total"):
        return CounterMetricFamily(name, HELP[name], labels=STREAM)
    return GaugeMetricFamily(name, HELP[name], labels=STREAM)


def _read(session: Session, stream: StreamRow) -> _Reading:
    slo = get_slo(session, stream.id)
    recommendation = session.get(RecommendationRow, stream.id)
    published = last_published(session, stream.id)
    acknowledged = last_acknowledgement(session, stream.id)
    horizon = horizon_of(session, stream.id, 0)
    newest = None if horizon is None else horizon.newest
    missing = session.scalars(
        select(func.sum(QueryRow.last_batch - QueryRow.first_batch + 1 - QueryRow.reports)).where(
            QueryRow.stream_id == stream.id
        )
    ).one()
    values: dict[str, float | None] = {
        "tidemark_reports_received_total": stream.reports,
        "tidemark_reports_duplicate_total": stream.duplicates,
        "tidemark_rows_judged_total": stream.pairs,
        "tidemark_rows_admitted_total": stream.pairs - stream.late_most,
        "tidemark_rows_unjudged_total": stream.unjudged_rows,
        "tidemark_missing_batches": None if newest is None else float(missing),
        "tidemark_given_up_reports": None if newest is None else newest.given_up_reports,
        "tidemark_last_batch_timestamp_seconds": None if newest is None else newest.started_us / 1e6,
        "tidemark_slo_target_ratio": None if slo is None else slo.value.target_ppm / PPM,
        "tidemark_bound_in_use_seconds": _seconds(None if newest is None else newest.bound_ms),
        "tidemark_bound_recommended_seconds": _seconds(
            None if recommendation is None else recommendation.bound_ms
        ),
        "tidemark_bound_published_seconds": _seconds(None if published is None else published.bound_ms),
        "tidemark_bound_applied_seconds": _seconds(None if acknowledged is None else acknowledged.bound_ms),
        "tidemark_bound_effective_seconds": _seconds(
            None if newest is None else effective_ms(session, newest)
        ),
        "tidemark_generation": 0 if published is None else published.generation,
        **_predicted(newest_prediction(session, stream.id)),
    }
    return _Reading((stream.job, stream.stream), values)


def _predicted(row: PredictionRow | None) -> dict[str, float | None]:
    predicted = realised = error = None
    if row is not None and row.rows:
        predicted = (row.rows - row.late) / row.rows
    if row is not None and row.realised_ppm is not None and row.error_ppm is not None:
        realised, error = row.realised_ppm / PPM, abs(row.error_ppm) / PPM
    return {
        "tidemark_completeness_predicted_ratio": predicted,
        "tidemark_completeness_realised_ratio": realised,
        "tidemark_prediction_error_ratio": error,
    }


def _seconds(duration_ms: int | None) -> float | None:
    return None if duration_ms is None else duration_ms / 1_000
