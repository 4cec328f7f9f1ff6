"""What the store says of each stream, as families of metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from tidemark.controller.metrics.names import HELP, LABELS, OF_STREAMS
from tidemark.controller.stream_state.partition_standing import PartitionStanding
from tidemark.controller.stream_state.standing import Newest, Standing, Told
from tidemark.models.target import PPM

__all__ = ["QUANTILES", "stream_families"]

QUANTILES = (0.5, 0.9, 0.99, 0.999, 1.0)
"""Shares of the rows whose needs are exposed."""


def stream_families(
    streams: Iterable[Standing],
    partitions: Mapping[int, Sequence[PartitionStanding]],
    rollouts: Mapping[str, int],
) -> Iterator[Metric]:
    """Return what is exposed of ``streams``, of their ``partitions`` in numbers, and of ``rollouts`` by state."""
    families = {name: _family(name) for name in OF_STREAMS}
    info, state = _family("tidemark_stream_info"), _family("tidemark_rollout_state")
    # The text format keeps the label `quantile` for summaries.
    needs = Metric("tidemark_need_seconds", HELP["tidemark_need_seconds"], "summary")
    for stream in streams:
        labels = (stream.job, stream.stream)
        values = {**_values(stream), **_counts(partitions.get(stream.stream_id, ()))}
        for name, value in values.items():
            if value is not None:
                families[name].add_metric(labels, value)
        info.add_metric((*labels, stream.mode, stream.objective or ""), 1)
        if stream.rollout is not None:
            state.add_metric((*labels, stream.rollout), 1)
        for quantile, need_s in _needs(stream):
            named = dict(zip(LABELS["tidemark_need_seconds"], (*labels, format(quantile, "g")), strict=True))
            needs.add_sample(needs.name, named, need_s)
    count = _family("tidemark_rollouts")
    for name, number in sorted(rollouts.items()):
        count.add_metric((name,), number)
    yield from (*families.values(), info, needs, state, count)


def _family(name: str) -> CounterMetricFamily | GaugeMetricFamily:
    if name.endswith("_total"):
        return CounterMetricFamily(name, HELP[name], labels=LABELS[name])
    return GaugeMetricFamily(name, HELP[name], labels=LABELS[name])


def _values(stream: Standing) -> dict[str, float | None]:
    wish = stream.wish
    return {
        "tidemark_paused": stream.paused,
        "tidemark_reports_received_total": stream.reports,
        "tidemark_reports_duplicate_total": stream.duplicates,
        "tidemark_rows_judged_total": stream.pairs,
        "tidemark_rows_admitted_total": stream.pairs - stream.late_max,
        "tidemark_rows_unjudged_total": stream.unjudged_rows,
        "tidemark_rows_future_total": stream.future_rows,
        "tidemark_missing_batches": stream.missing_batches,
        "tidemark_slo_target_ratio": _ratio(stream.target_ppm),
        "tidemark_slo_window_seconds": _seconds(stream.window_ms),
        "tidemark_budget_remaining_ratio": _ratio(stream.remaining_ppm),
        "tidemark_constraints_conflict": None if wish is None else wish.conflict,
        "tidemark_bound_required_seconds": None if wish is None else _seconds(wish.wanted_ms),
        "tidemark_bound_recommended_seconds": None if wish is None else _seconds(wish.bound_ms),
        "tidemark_bound_applied_seconds": _seconds(stream.applied_bound_ms),
        "tidemark_bound_max_seconds": _seconds(stream.max_bound_ms),
        "tidemark_bound_ceiling_seconds": _seconds(stream.ceiling_ms),
        "tidemark_bound_ceiling_used_ratio": None
        if stream.live is None
        else _ratio(stream.live.ceiling_used_ppm),
        "tidemark_bound_saturated": stream.saturated,
        "tidemark_bound_adopted": stream.adopted,
        "tidemark_generation_acknowledged": stream.applied_generation,
        **_of_newest(stream.newest),
        **_of_told(stream.told),
        **_predicted(stream),
    }


def _of_newest(batch: Newest | None) -> dict[str, float | None]:
    if batch is None:
        return {}
    watermark_s = None if batch.watermark_ms is None else batch.watermark_ms / 1_000
    return {
        "tidemark_dropped_reports": batch.dropped_reports,
        "tidemark_last_batch_timestamp_seconds": batch.started_us / 1e6,
        "tidemark_last_report_timestamp_seconds": batch.received_us / 1e6,
        "tidemark_batch_gap_seconds": None if batch.gap_us is None else batch.gap_us / 1e6,
        "tidemark_watermark_timestamp_seconds": watermark_s,
        "tidemark_event_time_timestamp_seconds": _seconds(batch.base_ms),
        "tidemark_watermark_lag_seconds": None if watermark_s is None else batch.ended_us / 1e6 - watermark_s,
        "tidemark_state_rows": batch.state_rows,
        "tidemark_state_bytes": batch.state_bytes,
        "tidemark_bound_in_use_seconds": batch.bound_ms / 1_000,
        "tidemark_bound_effective_seconds": _seconds(batch.effective_bound_ms),
    }


def _of_told(answer: Told | None) -> dict[str, float | None]:
    if answer is None:
        return {"tidemark_generation": 0}
    changed = None
    if answer.bound_ms is not None and answer.before_ms:
        changed = answer.bound_ms / answer.before_ms - 1
    return {
        "tidemark_generation": answer.generation,
        "tidemark_bound_published_seconds": _seconds(answer.bound_ms),
        "tidemark_bound_published_timestamp_seconds": answer.published_us / 1e6,
        "tidemark_bound_change_ratio": changed,
    }


def _predicted(stream: Standing) -> dict[str, float | None]:
    found = stream.predicted
    if found is None:
        return {}
    return {
        "tidemark_completeness_predicted_ratio": (found.rows - found.late) / found.rows
        if found.rows
        else None,
        "tidemark_completeness_realised_ratio": _ratio(found.realised_ppm),
        "tidemark_prediction_error_ratio": None if found.error_ppm is None else abs(found.error_ppm) / PPM,
    }


def _counts(partitions: Sequence[PartitionStanding]) -> dict[str, float]:
    return {
        "tidemark_partitions": len(partitions),
        "tidemark_partitions_skewed": sum(each.skewed for each in partitions),
        "tidemark_partitions_idle": sum(each.state == "Idle" for each in partitions),
        "tidemark_partitions_behind": sum(each.state == "Behind" for each in partitions),
    }


def _needs(stream: Standing) -> Iterator[tuple[float, float]]:
    if stream.needs is None:
        return
    pairs = round(stream.needs.weight)
    for quantile in QUANTILES:
        need_us = stream.needs.value_at_rank(-(-round(quantile * PPM) * pairs // PPM))
        if need_us is not None:
            yield quantile, need_us / 1e6


def _seconds(duration_ms: int | None) -> float | None:
    return None if duration_ms is None else duration_ms / 1_000


def _ratio(share_ppm: int | None) -> float | None:
    return None if share_ppm is None else share_ppm / PPM
