"""What this process counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tidemark.controller.metrics.names import HELP, LABELS
from tidemark.models.rollout.states import Verdict

# From a millisecond, for a small stream, to a day of minutes merged on a busy machine.
_DURATION_BUCKETS_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def _counter(name: str, registry: CollectorRegistry) -> Counter:
    return Counter(name, HELP[name], LABELS[name], registry=registry)


def _durations(name: str, registry: CollectorRegistry) -> Histogram:
    return Histogram(name, HELP[name], LABELS[name], buckets=_DURATION_BUCKETS_SECONDS, registry=registry)


class IntakeCounters:
    """Counts what requests do.

    Args:
        registry: where the metrics are exposed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.rejected = _counter("tidemark_reports_rejected_total", registry)
        """Rejected reports, by ``type``, the problem type."""
        self.uncounted = _counter("tidemark_rows_uncounted_total", registry)
        """Rows that reports could not count, by stream. The store limits how many streams there are."""
        self.seconds = _durations("tidemark_report_duration_seconds", registry)
        """Times from taking a report to its commit."""
        self.commit_seconds = _durations("tidemark_commit_duration_seconds", registry)
        """Durations of commits."""


class LoopCounters:
    """Counts what the decision loop does.

    Args:
        registry: where the metrics are exposed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.decisions = _counter("tidemark_decisions_total", registry)
        """Decisions made."""
        self.failures = _counter("tidemark_decision_failures_total", registry)
        """Decisions or ticks that failed."""
        self.given_up = _counter("tidemark_decisions_given_up_total", registry)
        """Decisions and snapshots that took too long."""
        self.refused = _counter("tidemark_decisions_refused_total", registry)
        """Decisions that were not written because another process had taken over the stream."""
        self.seconds = _durations("tidemark_decision_duration_seconds", registry)
        """Durations of decisions."""
        self.tick_duration_seconds = _durations("tidemark_tick_duration_seconds", registry)
        """Durations of ticks."""
        self.upkeep_seconds = _durations("tidemark_upkeep_duration_seconds", registry)
        """Durations of upkeep."""


class NotifyCounters:
    """Counts what the notifier does.

    Args:
        registry: where the metrics are exposed.
        destinations: names of the destinations; each counts from 0, so that its first failure is a rise.
    """

    def __init__(self, registry: CollectorRegistry, destinations: Iterable[str]) -> None:
        self.sent = _counter("tidemark_notifications_total", registry)
        """Messages delivered, by ``destination``."""
        self.failed = _counter("tidemark_notification_failures_total", registry)
        """Messages not delivered, by ``destination``."""
        for name in destinations:
            self.sent.labels(name)
            self.failed.labels(name)


class GateCounters:
    """Counts what outside gates answer.

    Args:
        registry: where the metrics are exposed.
        gates: names of the gates; each counts from 0, so that its first failure is a rise.
    """

    def __init__(self, registry: CollectorRegistry, gates: Iterable[str]) -> None:
        self.answers = _counter("tidemark_gate_answers_total", registry)
        """Answers, by ``gate`` and ``verdict``."""
        self.seconds = _durations("tidemark_gate_duration_seconds", registry)
        """Times from asking to the answer, by ``gate``."""
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
