"""Every metric by name, with help text and labels, for code, rules, dashboards and the reference; and own counters.

The label of a Spark job is ``spark_job``: Prometheus keeps ``job`` for what it scrapes, and would rename ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from tidemark.models.rollout.states import Verdict

# They would double each counter; Prometheus does not read them.
disable_created_metrics()  # type: ignore[no-untyped-call]

STREAM = ("spark_job", "stream")
"""Labels of what belongs to a stream."""

PARTITION = (*STREAM, "partition")
"""Labels of what belongs to a partition."""

_PROCESS: dict[str, str] = {
    "tidemark_reports_waiting": "Reports in this process that wait to be committed.",
    "tidemark_report_duration_seconds": "Time from taking a report to its commit.",
    "tidemark_commit_duration_seconds": "Time that one commit of reports took, up to 32 of them.",
    "tidemark_decisions_total": "Decisions made since this process started.",
    "tidemark_decision_failures_total": "Decisions, or whole ticks, that failed in this process.",
    "tidemark_decisions_given_up_total": "Decisions, and snapshots of streams, given up after 45 s.",
    "tidemark_decisions_refused_total": "Decisions not written: another process had taken the lease.",
    "tidemark_decision_duration_seconds": "Time that one decision of one stream took.",
    "tidemark_tick_duration_seconds": "Time that one tick of the loop took, upkeep included.",
    "tidemark_upkeep_duration_seconds": "Time that rolling up and ageing out took in one tick.",
    "tidemark_loop_idle_seconds": "Time since the loop of this process last ended a step.",
    "tidemark_tick_interval_seconds": "Time between two ticks of the loop, as set.",
    "tidemark_leases_held": "Shards of streams that this process decides, of 64.",
    "tidemark_bounds_watched": "Requests in this process that wait for a new bound.",
    "tidemark_scrape_duration_seconds": "Time that one scrape took, counted in the next one.",
    "tidemark_store_up": "Whether the store answered this scrape: 1 or 0. The metrics of streams are missing at 0.",
    "tidemark_store_writable": "Whether the store took the last write of this process: 1 or 0.",
    "tidemark_streams": "Streams known, expected ones included.",
    "tidemark_partitions_not_exposed": "Partitions without series of their own.",
    "tidemark_snapshot_age_seconds": "Age of the oldest snapshot of a stream: what lists and budgets are as of.",
    "tidemark_notifications_firing": "Alerts notified by this process that still fire.",
    "tidemark_lineage_events_total": "OpenLineage events that this process has sent.",
    "tidemark_lineage_failures_total": "Times that it could not send what is new of a stream.",
}

_STREAMS: dict[str, str] = {
    "tidemark_paused": "Whether the policy is paused: 1 or 0.",
    "tidemark_reports_received_total": "Reports stored.",
    "tidemark_reports_duplicate_total": "Reports received again with the same content.",
    "tidemark_rows_judged_total": "(Row, key) pairs judged: the denominator of completeness.",
    "tidemark_rows_admitted_total": "(Row, key) pairs admitted for sure: the numerator of completeness.",
    "tidemark_rows_corrected_total": "Late (row, key) pairs corrected for sure.",
    "tidemark_rows_unjudged_total": "Rows of which it is unknown whether they were late.",
    "tidemark_rows_future_total": "Future-dated rows.",
    "tidemark_rows_misdated_total": "Misdated rows.",
    "tidemark_missing_batches": "Batches that were never reported, between the first and the last of each query.",
    "tidemark_dropped_reports": "Reports that the driver has dropped in its present run.",
    "tidemark_last_batch_timestamp_seconds": "Trigger time of the newest batch reported.",
    "tidemark_last_report_timestamp_seconds": "When the newest report was received, by the controller's clock.",
    "tidemark_batch_gap_seconds": "Mean time between the triggers of the newest 20 batches.",
    "tidemark_watermark_timestamp_seconds": "Watermark after the newest batch; missing while there is none.",
    "tidemark_event_time_timestamp_seconds": "Maximum event time that this watermark could know.",
    "tidemark_state_rows": "Rows of state in the newest batch.",
    "tidemark_state_bytes": "Bytes of state in the newest batch.",
    "tidemark_window_settled_timestamp_seconds": "End of the newest settled window; missing while none is.",
    "tidemark_window_counted_ratio": "Of the rows of the newest window that is closed and settled, the share that the "
    "result has for sure; of the newest closed one while none is settled.",
    "tidemark_window_missed_timestamp_seconds": "End of that window while it is below the target by at least 10 rows.",
    "tidemark_slo_target_ratio": "Completeness target of the stream.",
    "tidemark_slo_window_seconds": "Time over which the budget of the SLO counts.",
    "tidemark_budget_remaining_ratio": "Share of that budget that is left; below 0 when more was lost.",
    "tidemark_constraints_conflict": "Whether completeness and a cap cannot both be met: 1 or 0.",
    "tidemark_bound_required_seconds": "Bound that the rows require, before any guard rail, cap or limit.",
    "tidemark_bound_recommended_seconds": "Bound recommended; missing when the one in use is to be kept.",
    "tidemark_bound_published_seconds": "Bound published to the job; missing when there is none.",
    "tidemark_bound_applied_seconds": "Bound last acknowledged by the job.",
    "tidemark_bound_in_use_seconds": "Bound in the plan of the newest batch; in Live, the ceiling.",
    "tidemark_bound_effective_seconds": "How far the watermark really trails the maximum event time.",
    "tidemark_bound_max_seconds": "The policy's maximum bound; missing without one.",
    "tidemark_bound_ceiling_seconds": "Ceiling of a job that can be steered live.",
    "tidemark_bound_saturated": "Whether the maximum bound, or the ceiling, is too small for the rows: 1 or 0.",
    "tidemark_bound_adopted": "Whether the job applies what is published: 1 or 0; missing when nothing is published.",
    "tidemark_bound_published_timestamp_seconds": "When the newest generation was published.",
    "tidemark_generation": "Newest generation published to the job.",
    "tidemark_generation_acknowledged": "Generation last acknowledged; missing when the job uses its own bound.",
    "tidemark_completeness_predicted_ratio": "Completeness predicted for the last published bound.",
    "tidemark_completeness_predicted_min_ratio": "Lower end of the interval of that prediction.",
    "tidemark_completeness_realised_ratio": "Completeness counted under it; missing until enough rows are judged.",
    "tidemark_completeness_realised_max_ratio": "Upper end of the interval of that completeness, right at every look.",
    "tidemark_partitions": "Partitions with a row within the horizon of the SLO.",
    "tidemark_partitions_skewed": "Skewed partitions.",
    "tidemark_partitions_idle": "Partitions that used to report and are silent.",
    "tidemark_partitions_behind": "Partitions that trail the others and still deliver.",
    "tidemark_rollout_changed_timestamp_seconds": "When the state of the stream's newest rollout last changed.",
    "tidemark_rollout_vetoed": "Whether a person discarded or rolled back that rollout: 1 or 0.",
    "tidemark_loss_biased": "Whether a value of the stream's dimension loses rows far more often: 1 or 0.",
}

_PARTITIONS: dict[str, str] = {
    "tidemark_partition_skewed": "Whether without this partition the bound would be far narrower: 1 or 0.",
    "tidemark_partition_skew_cost_seconds": "How much narrower the bound would be without this partition.",
    "tidemark_partition_idle": "Whether this partition used to report and is silent: 1 or 0.",
    "tidemark_partition_behind": "Whether this partition trails the others and still delivers: 1 or 0.",
    "tidemark_partition_rows_future_total": "Future-dated rows of this partition.",
    "tidemark_partition_rows_misdated_total": "Misdated rows of this partition.",
}

_VALUES: dict[str, str] = {
    "tidemark_value_rows": "Rows over the SLO's window, of the 10 values of the stream's dimension and the 10 "
    "partitions with most losses.",
    "tidemark_value_rows_lost": "Rows of these values and partitions that Spark dropped.",
}

_OTHER: dict[str, tuple[str, tuple[str, ...]]] = {
    "tidemark_limit_used_ratio": (
        "How much of a limit, or of one's share of it, is used: 1 is full.",
        ("limit",),
    ),
    "tidemark_issuer_keys_age_seconds": (
        "Time since the keys of an issuer of tokens were last read; infinite until they were.",
        ("issuer",),
    ),
    "tidemark_reports_rejected_total": (
        "Reports rejected since this process started, by problem type.",
        ("type",),
    ),
    "tidemark_rows_uncounted_total": (
        "Rows in reports to this process that the job had no room to count.",
        STREAM,
    ),
    "tidemark_gate_answers_total": (
        "Answers of outside gates to this process: yes, no, or unknown.",
        ("gate", "verdict"),
    ),
    "tidemark_gate_duration_seconds": ("Time that one question to an outside gate took.", ("gate",)),
    "tidemark_notifications_total": (
        "Messages that the notifier of this process has delivered.",
        ("destination",),
    ),
    "tidemark_notification_failures_total": (
        "Messages that it could not deliver, after all attempts.",
        ("destination",),
    ),
    "tidemark_stream_info": (
        "1, with the mode, the objective where there is an SLO, and the stream's labels in TIDEMARK_METRICS_LABELS.",
        (*STREAM, "mode", "objective"),
    ),
    "tidemark_need_seconds": (
        "Bound that would have admitted this share of the rows of the newest minutes.",
        (*STREAM, "quantile"),
    ),
    "tidemark_rollout_state": ("1 for the state of the stream's newest rollout.", (*STREAM, "state")),
    "tidemark_rollouts": ("Rollouts in each state, of all streams.", ("state",)),
}

HELP: dict[str, str] = {
    **_PROCESS,
    **_STREAMS,
    **_PARTITIONS,
    **_VALUES,
    **{name: text for name, (text, _) in _OTHER.items()},
}
"""Help text of every metric by name; docs/reference/metrics.md is made from it."""

OF_STREAMS = (
    *_STREAMS,
    *_PARTITIONS,
    *_VALUES,
    "tidemark_stream_info",
    "tidemark_need_seconds",
    "tidemark_rollout_state",
)
"""Metrics of streams, and of their partitions, that are read from the store."""

IN_DETAIL = frozenset(
    {
        "tidemark_event_time_timestamp_seconds",
        "tidemark_generation_acknowledged",
        "tidemark_last_batch_timestamp_seconds",
        "tidemark_need_seconds",
        "tidemark_reports_duplicate_total",
    }
)
"""Metrics that a scrape has only where it asks for all: no rule and no panel needs them of every stream."""

ZERO_IN_DETAIL = frozenset(
    {
        "tidemark_paused",
        "tidemark_rows_corrected_total",
        "tidemark_missing_batches",
        "tidemark_dropped_reports",
        "tidemark_constraints_conflict",
        "tidemark_bound_saturated",
        "tidemark_loss_biased",
        "tidemark_rollout_vetoed",
        "tidemark_partitions_skewed",
        "tidemark_partitions_idle",
        "tidemark_partitions_behind",
        *_PARTITIONS,
    }
)
"""Metrics of what few streams have: at 0 only a scrape that asks for all has them."""

LABELS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_PROCESS, ()),
    **dict.fromkeys(_STREAMS, STREAM),
    **dict.fromkeys(_PARTITIONS, PARTITION),
    **dict.fromkeys(_VALUES, (*STREAM, "dimension", "value")),
    **{name: labels for name, (_, labels) in _OTHER.items()},
}
"""Names of the labels of every metric; a histogram's ``le`` is not among them."""


# From a millisecond, for a small stream, to a day of minutes merged on a busy machine.
_DURATION_BUCKETS_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def _counter(name: str, registry: CollectorRegistry) -> Counter:
    return Counter(name, HELP[name], LABELS[name], registry=registry)


def _durations(name: str, registry: CollectorRegistry) -> Histogram:
    return Histogram(name, HELP[name], LABELS[name], buckets=_DURATION_BUCKETS_SECONDS, registry=registry)


class IntakeCounters:
    """Counts what requests do; ``HELP`` says what each of these classes counts.

    Args:
        registry: where the metrics are exposed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.rejected = _counter("tidemark_reports_rejected_total", registry)
        self.uncounted = _counter("tidemark_rows_uncounted_total", registry)
        self.seconds = _durations("tidemark_report_duration_seconds", registry)
        self.commit_seconds = _durations("tidemark_commit_duration_seconds", registry)


class LoopCounters:
    """Counts what the decision loop does.

    Args:
        registry: where the metrics are exposed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.decisions = _counter("tidemark_decisions_total", registry)
        self.failures = _counter("tidemark_decision_failures_total", registry)
        self.given_up = _counter("tidemark_decisions_given_up_total", registry)
        self.refused = _counter("tidemark_decisions_refused_total", registry)
        self.seconds = _durations("tidemark_decision_duration_seconds", registry)
        self.tick_duration_seconds = _durations("tidemark_tick_duration_seconds", registry)
        self.upkeep_seconds = _durations("tidemark_upkeep_duration_seconds", registry)


class NotifyCounters:
    """Counts what the notifier does.

    Args:
        registry: where the metrics are exposed.
        destinations: names of the destinations; each counts from 0, so that its first failure is a rise.
    """

    def __init__(self, registry: CollectorRegistry, destinations: Iterable[str]) -> None:
        self.sent = _counter("tidemark_notifications_total", registry)
        self.failed = _counter("tidemark_notification_failures_total", registry)
        for name in destinations:
            self.sent.labels(name)
            self.failed.labels(name)


class LineageCounters:
    """Counts what the emitter of OpenLineage events does.

    Args:
        registry: where the metrics are exposed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.sent = _counter("tidemark_lineage_events_total", registry)
        self.failed = _counter("tidemark_lineage_failures_total", registry)


class GateCounters:
    """Counts what outside gates answer.

    Args:
        registry: where the metrics are exposed.
        gates: names of the gates; each counts from 0, so that its first failure is a rise.
    """

    def __init__(self, registry: CollectorRegistry, gates: Iterable[str]) -> None:
        self.answers = _counter("tidemark_gate_answers_total", registry)
        self.seconds = _durations("tidemark_gate_duration_seconds", registry)
        for gate in gates:
            self.seconds.labels(gate)
            for verdict in get_args(Verdict):
                self.answers.labels(gate, verdict)


def scrape_seconds(registry: CollectorRegistry) -> Histogram:
    """Return the histogram of how long scrapes take."""
    return _durations("tidemark_scrape_duration_seconds", registry)


def measure(registry: CollectorRegistry, name: str, read: Callable[[], float]) -> None:
    """Expose the gauge ``name`` with the value that ``read`` returns at each scrape."""
    Gauge(name, HELP[name], registry=registry).set_function(read)


def measure_each(registry: CollectorRegistry, name: str, reads: Mapping[str, Callable[[], float]]) -> None:
    """Expose the gauge ``name``, which has one label, with what is read at each scrape for each value of it."""
    gauge = Gauge(name, HELP[name], LABELS[name], registry=registry)
    for value, read in reads.items():
        gauge.labels(value).set_function(read)
