"""The live queries of a driver: what their taps counted, and where their watermarks have to be.

Two threads call in: Spark's listener, when a batch has ended, and that which moves the watermark of a query.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tidemark.models.base.duration import format_duration
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Operator, TimeWindow
from tidemark.models.base.stateful import WatermarkPolicy
from tidemark.models.base.target import PPM
from tidemark.models.live.control import Control, StreamTarget
from tidemark.models.live.defaults import CEILING_ALARM_PPM, PILED_UP_TRIGGERS
from tidemark.models.live.fast import FastPolicy, Order
from tidemark.models.live.learned import Learned
from tidemark.models.live.policy import NO_BASE_US
from tidemark.models.protocol.messages import LiveState, Report
from tidemark.spark_jobs.live.orders import order_now
from tidemark.spark_jobs.live.streams import (
    MIN_TRIGGER_US,
    PACE_BATCHES,
    BegunAnew,
    LiveInput,
    LiveRun,
    LiveStream,
)

_log = logging.getLogger("tidemark.spark")

_MAX_PARTITIONS = 1_000
"""Of more partitions none is kept: they are written to the checkpoint while the watermark moves."""


class LiveQueries:
    """All live queries of one listener."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._lock = threading.RLock()
        self._streams: dict[str, LiveStream] = {}
        self._queries: dict[str, LiveRun] = {}

    def add(self, metric: str, stream: LiveStream) -> None:
        """Let the tap of name ``metric`` be the one of a live stream."""
        with self._lock:
            self._streams[metric] = stream

    def stream(self, metric: str) -> LiveStream | None:
        """Return the live stream of a tap; None where it has none."""
        return self._streams.get(metric)

    def started(
        self,
        run_id: str,
        operators: Mapping[str, Operator],
        trigger_ms: int | None,
        *,
        policy: Callable[[], WatermarkPolicy] = lambda: "min",
        alone: bool = True,
        bases_us: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
    ) -> None:
        """Take a new run of a query, if any of its streams is live.

        Args:
            run_id: Spark's id of the run.
            operators: by tap in its plan the stream's operator.
            trigger_ms: interval of its trigger in milliseconds, None or 0 where there is none.
            policy: returns how Spark combines the watermarks of the query's inputs, once a batch is planned.
            alone: whether every watermark of the query belongs to these streams.
            bases_us: by stream and partition how far an earlier run of the query had come, in microseconds.
        """
        with self._lock:
            streams = {
                metric: LiveInput(stream, FastPolicy(operator, stream.ceiling_us, stream.idle_timeout_us))
                for metric, operator in operators.items()
                if (stream := self._streams.get(metric)) is not None
            }
            if not streams:
                return
            every = [entry.stream for entry in streams.values()]
            control = Control(
                min(_step_us(operators[metric]) for metric in streams),
                max(stream.ceiling_us for stream in every),
                policy,
            )
            trigger_us = None if trigger_ms is None else trigger_ms * 1_000
            self._queries[run_id] = LiveRun(
                trigger_us, self._clock_us(), control, streams, alone=alone, bases_us=bases_us
            )

    def ended(self, run_id: str) -> None:
        """Forget a run."""
        with self._lock:
            self._queries.pop(run_id, None)

    def streams_of(self, run_id: str) -> list[str]:
        """Return the names of a run's live streams, those that two of its inputs share left out."""
        with self._lock:
            query = self._queries.get(run_id)
            names = [] if query is None else [entry.stream.name for entry in query.streams.values()]
            return [name for name in names if names.count(name) == 1]

    def resume(self, run_id: str, stream: str, learned: Learned) -> bool:
        """Let the policy of a stream go on with what was learned before, unless that cannot be used."""
        with self._lock:
            for entry in self._streams_named(run_id, stream):
                try:
                    entry.policy.resume(learned)
                except Exception as error:  # noqa: BLE001 - it may hold anything
                    _log.warning("stream %s: its policy begins anew: %s", stream, error)
                    return False
            return True

    def begun_anew(self, run_id: str) -> list[BegunAnew]:
        """Return the streams of a run whose policies have begun without anything learned before."""
        names = self.streams_of(run_id)
        with self._lock:
            query = self._queries.get(run_id)
            if query is None:
                return []
            return [
                BegunAnew(entry.stream, setup, query.due_us)
                for entry in query.streams.values()
                if (setup := entry.policy.begun_anew) is not None and entry.stream.name in names
            ]

    def go_on_anew(self, run_id: str, stream: str) -> None:
        """Let the policy of a stream go on with what it has seen itself: nothing is known from before."""
        with self._lock:
            for entry in self._streams_named(run_id, stream):
                entry.policy.go_on_anew()

    def learned(
        self, run_id: str, of: Callable[[FastPolicy], Learned | None] = FastPolicy.learned
    ) -> dict[str, Learned]:
        """Return what the policies of a run have learned, by stream: all of it, or what ``of`` returns of each."""
        names = self.streams_of(run_id)
        with self._lock:
            query = self._queries.get(run_id)
            entries = [] if query is None else query.streams.values()
            every = {e.stream.name: of(e.policy) for e in entries if e.stream.name in names}
            return {name: learned for name, learned in every.items() if learned is not None}

    def batch(self, run_id: str, watermark_ms: int, started_us: int) -> None:
        """Learn where the watermark is in a batch of this trigger; from the first batch what an earlier run left."""
        with self._lock:
            query = self._queries.get(run_id)
            if query is None:
                return
            in_force_us = watermark_ms * SPARK_TICK_US
            if not query.triggered_us:
                offered_us = in_force_us or None
                for entry in query.streams.values():
                    bases_us = query.bases_us.get(entry.stream.name, {})
                    entry.policy.restore(bases_us, offered_us, self._clock_us())
                if offered_us is not None:
                    query.control.restore(offered_us)
            is_due = query.alone and started_us > query.moved_us
            if is_due and watermark_ms < query.moved_ms and query.not_steered is None:
                why = f"the watermark is {watermark_ms} ms, though {query.moved_ms} ms are required"
                self._warn_not_steered(
                    query, f"{why}. Please report this with the query's plan (df.explain(True))"
                )

    def observe(
        self,
        run_id: str,
        metric: str,
        report: Report,
        newest_granules: Mapping[str, int],
        backlog: Mapping[str, int] | None,
    ) -> LiveState | None:
        """Take a batch of one stream; return what is to be reported, None when the stream is not live."""
        with self._lock:
            query = self._queries.get(run_id)
            entry = None if query is None else query.streams.get(metric)
            if query is None or entry is None:
                return None
            if not query.triggered_us or query.triggered_us[-1] != report.started_us:
                query.triggered_us.append(report.started_us)
            order, pace_us = order_now(entry.stream.orders), query.pace_us()
            piled_up = report.started_us <= query.started_us + PILED_UP_TRIGGERS * max(
                pace_us, MIN_TRIGGER_US
            )
            due_us = query.due_us(report.started_us)
            entry.policy.observe(
                report, newest_granules, backlog, pace_us, order, due_us=due_us, representative=not piled_up
            )
            query.seen.add(metric)
            query.undecided += 1
            return self._state(query, entry, order, report)

    def tick_s(self, run_id: str) -> float:
        """Return how long to wait for a batch, until it is to be asked whether the query finds nothing; in seconds."""
        with self._lock:
            query = self._queries.get(run_id)
            trigger_us = 0 if query is None else query.trigger_us or 0
            return max(trigger_us, 2 * MIN_TRIGGER_US) / 2 / 1_000_000

    def requires(self, run_id: str, *, finds_nothing: bool) -> int | None:
        """Return the watermark that a query is to have from its next batch on, in milliseconds; None for no news.

        Args:
            finds_nothing: whether it has looked for rows and found none. What it has read is known anyway.
        """
        with self._lock:
            query = self._queries.get(run_id)
            # An input that has shown nothing yet may be the slow one.
            if (
                query is None
                or len(query.seen) < len(query.streams)
                or not (query.undecided or finds_nothing)
            ):
                return None
            before_us = query.control.offered_us
            offered_us = self._offer(query)
            if offered_us <= before_us:
                return None
            query.required_ms = offered_us // SPARK_TICK_US
            return query.required_ms

    def decided(self, run_id: str, error: Exception | None = None) -> None:
        """Note that what a query requires was decided, or what kept it from that."""
        with self._lock:
            if (query := self._queries.get(run_id)) is not None:
                if error is not None and query.error is None:
                    _log.error("run %s: its watermark cannot be decided for now", run_id, exc_info=error)
                query.error = error

    def moved(self, run_id: str, watermark_ms: int) -> None:
        """Note that Spark's watermark was moved."""
        with self._lock:
            if (query := self._queries.get(run_id)) is not None:
                query.moved_ms, query.moved_us = watermark_ms, self._clock_us()

    def cannot_steer(self, run_id: str, why: str) -> None:
        """Note that Spark's watermark cannot be moved, and log it."""
        with self._lock:
            if (query := self._queries.get(run_id)) is not None and query.not_steered is None:
                self._warn_not_steered(query, f"{why}; the query needs another start to be steered")

    def bases_us(self, run_id: str) -> dict[str, dict[str, int]]:
        """Return by stream and partition how far a run has come, in microseconds; no partitions where they are many."""
        with self._lock:
            query = self._queries.get(run_id)
            by_stream: dict[str, dict[str, int]] = {}
            for entry in [] if query is None else query.streams.values():
                bases_us = dict(entry.policy.partitions.bases_us)
                by_stream[entry.stream.name] = {} if len(bases_us) > _MAX_PARTITIONS else bases_us
            return by_stream

    def wanted_us(self, run_id: str, metric: str) -> int | None:
        """Return where the policy of a stream lets the watermark be, in microseconds, whatever other inputs hold.

        None where it lets it not move, or is not asked since the query is not steered.
        """
        with self._lock:
            query = self._queries.get(run_id)
            if query is None or (entry := query.streams.get(metric)) is None:
                return None
            return entry.policy.decide(
                query.due_us(self._clock_us()), order_now(entry.stream.orders)
            ).watermark_us

    # -- inside -------------------------------------------------------------------------------------------------

    def _streams_named(self, run_id: str, stream: str) -> list[LiveInput]:
        query = self._queries.get(run_id)
        return [] if query is None else [e for e in query.streams.values() if e.stream.name == stream]

    def _offer(self, query: LiveRun) -> int:
        due_us = query.due_us(self._clock_us())
        # The newest batch was planned then, or the source found empty later.
        checked_us = query.due_us(query.triggered_us[-1]) if query.undecided else query.looked_us
        query.undecided, query.looked_us = 0, due_us
        in_force_us = None if not query.trigger_us else due_us + query.trigger_us
        wants = []
        for entry in query.streams.values():
            entry.wanted = entry.policy.decide(
                due_us, order_now(entry.stream.orders), checked_us, in_force_us
            )
            wants.append(StreamTarget(entry.wanted.watermark_us, entry.policy.keys))
        offered_us = query.control.offer(wants)
        for entry in query.streams.values():
            entry.used_ppm = _used_ppm(
                entry.policy.partitions.stream_base_us, offered_us, entry.stream.ceiling_us
            )
        return offered_us

    @staticmethod
    def _warn_not_steered(query: LiveRun, why: str) -> None:
        query.not_steered = why
        names = ", ".join(sorted(entry.stream.name for entry in query.streams.values()))
        _log.error("stream %s is not steered, the ceiling alone holds: %s", names, why)

    def _state(self, query: LiveRun, entry: LiveInput, order: Order, report: Report) -> LiveState:
        offered_us, stream = query.control.offered_us, entry.stream
        activity = entry.policy.partitions.activity(report.started_us)
        in_force_us = report.watermark_ms * SPARK_TICK_US
        reason = "nothing has been decided yet" if entry.wanted is None else entry.wanted.reason
        if entry.wanted is not None and entry.wanted.details:
            _log.debug("stream %s: %s", stream.name, entry.wanted.details)
        failure = query.failure() or entry.policy.own.failure
        if failure is not None and failure not in reason:
            reason = failure
        logged = query.not_steered is not None or query.error is not None or entry.failing
        if failure is not None and not logged:
            _log.error("stream %s: %s", stream.name, failure, exc_info=entry.policy.own.error)
        entry.failing = failure is not None
        used_ppm = entry.used_ppm
        # Until the first offer, and before it is overdue, the ceiling is all there is.
        overdue = offered_us == NO_BASE_US and len(query.triggered_us) >= PACE_BATCHES
        if overdue or failure is not None:
            used_ppm = _used_ppm(entry.policy.partitions.stream_base_us, in_force_us, stream.ceiling_us)
        self._alarm(entry, 0 if failure else used_ppm)  # a larger ceiling would mend no failure
        return LiveState(
            ceiling_ms=stream.ceiling_us // SPARK_TICK_US,
            control_ms=query.required_ms,
            reason=reason,
            failure=failure,
            behind=activity.behind,
            idle=activity.idle,
            ceiling_used_ppm=used_ppm,
            last_contact_us=stream.orders.last_contact_us(),
            pin=order.pin,
        )

    @staticmethod
    def _alarm(entry: LiveInput, used_ppm: int) -> None:
        near = used_ppm >= CEILING_ALARM_PPM
        if near and not entry.near_ceiling:
            _log.warning(
                "stream %s: the watermark is %d %% of the ceiling %s behind its newest row: beyond the ceiling rows "
                "are lost whatever Live requires; give the job a larger ceiling",
                entry.stream.name,
                used_ppm * 100 // PPM,
                format_duration(entry.stream.ceiling_us),
            )
        entry.near_ceiling = near


def _step_us(operator: Operator) -> int:
    return operator.slide_us if isinstance(operator, TimeWindow) else 1_000_000


def _used_ppm(base_us: int, watermark_us: int, ceiling_us: int) -> int:
    if base_us == NO_BASE_US or watermark_us <= 0 or ceiling_us <= 0:
        return 0
    return max(base_us - watermark_us, 0) * PPM // ceiling_us
