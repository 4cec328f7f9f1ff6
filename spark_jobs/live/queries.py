"""The live queries of a driver: what their taps counted, and where their watermarks have to be.

Two threads call in: Spark's listener, when a batch has ended, and a control source, when the next one is planned.
"""

from __future__ import annotations

import itertools
import logging
import statistics
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidemark.models.base.duration import format_duration
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Operator, TimeWindow
from tidemark.models.base.target import PPM
from tidemark.models.live.control import Control, StreamTarget, WatermarkPolicy
from tidemark.models.live.defaults import CEILING_ALARM_PPM, PILED_UP_TRIGGERS
from tidemark.models.live.fast import FastPolicy, Order, WatermarkTarget
from tidemark.models.live.learned import Learned
from tidemark.models.live.policy import NO_BASE_US, Setup
from tidemark.models.protocol.messages import LiveState, Report
from tidemark.spark_jobs.core.watch import Orders
from tidemark.spark_jobs.live.backlog import Offset
from tidemark.spark_jobs.live.orders import order_now

_log = logging.getLogger("tidemark.spark")

_PACE_BATCHES = 10
_MIN_TRIGGER_US = 100_000
_MAX_PARTITIONS = 1_000
"""Of more partitions the offset keeps none: it is written to the checkpoint with every move."""


class EarlierReports(Protocol):
    """What a stream's earlier reports show."""

    def learned(
        self, setup: Setup, ceiling_us: int, due_us: Callable[[int], int], ended: Callable[[], bool]
    ) -> Learned | None:
        """Return what the policy for ``setup`` learns from them; None when that is nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStream:
    """One stream as a live plan has it."""

    name: str
    ceiling_us: int
    idle_timeout_us: int | None
    orders: Orders
    """What the stream has to do."""
    history: EarlierReports | None = None
    """Its earlier reports; None for a job without a controller."""


@dataclass(frozen=True, slots=True)
class BegunAnew:
    """A stream whose policy has begun without anything learned before."""

    stream: LiveStream
    setup: Setup
    """The problem that its policy solves."""
    due_us: Callable[[int], int]
    """Returns when a batch was due that started at a wall time, in microseconds."""


@dataclass(slots=True)
class _Stream:
    stream: LiveStream
    policy: FastPolicy
    wanted: WatermarkTarget | None = None
    near_ceiling: bool = False


@dataclass(slots=True)
class _Query:
    """One run of a query."""

    trigger_us: int | None
    started_us: int
    control: Control
    streams: dict[str, _Stream]
    governed: bool
    """Whether every watermark of the query belongs to these streams, so that it must follow their control."""
    sources: set[object] = field(default_factory=set)
    """Ids of its control sources, each known from the first batch on."""
    seen: set[str] = field(default_factory=set)
    required_ms: int | None = None
    """Watermark that the newest batch's control streams require, in milliseconds; None for none."""
    ignored: bool = False
    """Whether Spark did not follow the control streams of a batch."""
    checked_us: dict[str, int] = field(default_factory=dict)
    """When each source was asked before the batch that is being planned."""
    triggered_us: deque[int] = field(default_factory=lambda: deque(maxlen=_PACE_BATCHES))

    def due_us(self, now_us: int) -> int:
        """Return when the batch was due that is planned or started now; triggers lie on multiples of the interval."""
        return now_us // self.trigger_us * self.trigger_us if self.trigger_us else now_us

    def pace_us(self) -> int:
        """Return the time between two triggers in microseconds, 0 while it is not known."""
        if self.trigger_us:
            return self.trigger_us
        if len(self.triggered_us) < _PACE_BATCHES:
            return 0
        times = sorted(self.triggered_us)
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        return max(round(statistics.median(gaps)), _MIN_TRIGGER_US)


class LiveQueries:
    """All live queries of one listener."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._lock = threading.RLock()
        self._streams: dict[str, LiveStream] = {}
        self._queries: dict[str, _Query] = {}
        self._metrics: dict[object, str] = {}
        """The tap of each control source that has asked, by the source's id: one for each checkpoint."""

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
        watermark_nodes: int | None = None,
    ) -> None:
        """Take a new run of a query, if any of its streams is live.

        Args:
            run_id: Spark's id of the run.
            operators: by tap in its plan the stream's operator.
            trigger_ms: interval of its trigger in milliseconds, None or 0 where there is none.
            policy: returns how Spark combines the watermarks of the query's inputs, once a batch is planned.
            watermark_nodes: watermarks in its plan; None when that is not known.
        """
        with self._lock:
            streams = {
                metric: _Stream(stream, FastPolicy(operator, stream.ceiling_us, stream.idle_timeout_us))
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
            governed = watermark_nodes == len(streams)
            self._queries[run_id] = _Query(trigger_us, self._clock_us(), control, streams, governed=governed)

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

    def resume(self, run_id: str, stream: str, learned: Learned) -> None:
        """Let the policy of a stream go on with what was learned before, in place of what it has seen itself."""
        with self._lock:
            for entry in self._streams_named(run_id, stream):
                try:
                    entry.policy.resume(learned)
                except ValueError as error:
                    _log.warning("stream %s: its policy begins anew: %s", stream, error)

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

    def learned(self, run_id: str) -> dict[str, Learned]:
        """Return what the policies of a run have learned, by stream."""
        names = self.streams_of(run_id)
        with self._lock:
            query = self._queries.get(run_id)
            entries = [] if query is None else query.streams.values()
            every = {e.stream.name: e.policy.learned() for e in entries if e.stream.name in names}
            return {name: learned for name, learned in every.items() if learned is not None}

    def recognise(self, run_id: str, offsets: Sequence[Offset], watermark_ms: int) -> None:
        """Learn from a batch which control sources are the run's, and what an earlier run left in them.

        Called before the batch is observed. It also checks that Spark followed the control streams of the batch before.
        """
        with self._lock:
            query = self._queries.get(run_id)
            if query is None:
                return
            for offset in offsets:
                source = offset.get("source")
                entry = query.streams.get(self._metrics.get(source, ""))
                if entry is None or source in query.sources:
                    continue
                query.sources.add(source)
                required_us = (
                    None if offset["watermark_ms"] is None else offset["watermark_ms"] * SPARK_TICK_US
                )
                entry.policy.restore(offset["partitions"], required_us, self._clock_us())
                if required_us is not None:
                    query.control.restore(required_us)
            if query.governed and query.required_ms is not None and watermark_ms < query.required_ms:
                self._warn_ignored(query, watermark_ms)
            required = [offset["watermark_ms"] for offset in offsets]
            query.required_ms = None if None in required else min(required, default=None)

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
                pace_us, _MIN_TRIGGER_US
            )
            due_us = query.due_us(report.started_us)
            entry.policy.observe(
                report, newest_granules, backlog, pace_us, order, due_us=due_us, representative=not piled_up
            )
            query.seen.add(metric)
            return self._state(query, entry, order, report)

    def runs_of(self, metric: str, source: object) -> list[str]:
        """Return the runs whose batches a control source has to know before it is answered.

        A source belongs to one query. Which one is known once the query's first batch has shown the source's id; until
        then it is any run of the plan.
        """
        with self._lock:
            self._metrics[source] = metric
            runs = [run_id for run_id, query in self._queries.items() if metric in query.streams]
            return [run_id for run_id in runs if source in self._queries[run_id].sources] or runs

    def answer(self, metric: str, start: Offset) -> Offset | None:
        """Return the offset after ``start`` for a source that asks while a batch is planned; None for no news.

        While the source's query is not known nothing moves: it is not known either what that query may still read.
        """
        source = start.get("source")
        with self._lock:
            mine = next(
                (q for q in self._queries.values() if metric in q.streams and source in q.sources), None
            )
            offered_us = None if mine is None else self._offer(mine, metric)
        if mine is None or offered_us is None:
            return None
        bases_us = mine.streams[metric].policy.partitions.bases_us
        partitions = {} if len(bases_us) > _MAX_PARTITIONS else bases_us
        watermark_ms = None if offered_us == NO_BASE_US else offered_us // SPARK_TICK_US
        before_ms = start["watermark_ms"]
        if before_ms is not None and (watermark_ms is None or watermark_ms < before_ms):
            return None  # an offset never goes back
        # A new partition is written down at once: a driver that starts again must not forget it.
        if watermark_ms == before_ms and partitions.keys() == start["partitions"].keys():
            return None
        return {"source": source, "watermark_ms": watermark_ms, "partitions": partitions}

    def wanted_us(self, run_id: str, metric: str) -> int | None:
        """Return where the policy of a stream lets the watermark be, in microseconds, whatever other inputs hold."""
        with self._lock:
            query = self._queries[run_id]
            entry = query.streams[metric]
            return entry.policy.decide(
                query.due_us(self._clock_us()), order_now(entry.stream.orders)
            ).watermark_us

    # -- inside -------------------------------------------------------------------------------------------------

    def _streams_named(self, run_id: str, stream: str) -> list[_Stream]:
        query = self._queries.get(run_id)
        return [] if query is None else [e for e in query.streams.values() if e.stream.name == stream]

    def _offer(self, query: _Query, metric: str) -> int | None:
        now_us = self._clock_us()
        if len(query.seen) < len(query.streams) or len(query.sources) < len(query.streams):
            return None  # an input that has shown nothing yet, or is not known again yet, may be the slow one
        due_us = query.due_us(now_us)
        checked_us = query.checked_us.get(metric, due_us)
        query.checked_us[metric] = due_us
        wants = []
        for entry in query.streams.values():
            in_force_us = due_us + (query.trigger_us or 0)
            entry.wanted = entry.policy.decide(
                due_us, order_now(entry.stream.orders), checked_us, in_force_us
            )
            wants.append(StreamTarget(entry.wanted.watermark_us, entry.policy.keys))
        return query.control.offer(wants)

    @staticmethod
    def _warn_ignored(query: _Query, watermark_ms: int) -> None:
        if not query.ignored:
            names = ", ".join(sorted(entry.stream.name for entry in query.streams.values()))
            _log.error(
                "stream %s is not steered: the watermark is %s ms, though its control stream requires %s ms; "
                "the ceiling alone holds. Please report this with the query's plan (df.explain(True))",
                names,
                watermark_ms,
                query.required_ms,
            )
        query.ignored = True

    def _state(self, query: _Query, entry: _Stream, order: Order, report: Report) -> LiveState:
        offered_us, stream = query.control.offered_us, entry.stream
        activity = entry.policy.partitions.activity(report.started_us)
        in_force_us = report.watermark_ms * SPARK_TICK_US
        reached_us = in_force_us if query.ignored else max(offered_us, in_force_us)
        reason = "nothing has been decided yet" if entry.wanted is None else entry.wanted.reason
        if entry.wanted is not None and entry.wanted.details:
            _log.debug("stream %s: %s", stream.name, entry.wanted.details)
        if query.ignored:
            reason = "not steered: Spark does not follow the control stream, so the ceiling alone holds"
        used_ppm = _used_ppm(entry.policy.partitions.stream_base_us, reached_us, stream.ceiling_us)
        if offered_us == NO_BASE_US and len(query.triggered_us) < _PACE_BATCHES:
            used_ppm = 0  # until the first offer, and before it is overdue, the ceiling is all there is
        self._alarm(entry, used_ppm)
        return LiveState(
            ceiling_ms=stream.ceiling_us // SPARK_TICK_US,
            control_ms=None if offered_us == NO_BASE_US else offered_us // SPARK_TICK_US,
            reason=reason,
            behind=activity.behind,
            idle=activity.idle,
            ceiling_used_ppm=used_ppm,
            last_contact_us=stream.orders.last_contact_us(),
            pin=order.pin,
        )

    @staticmethod
    def _alarm(entry: _Stream, used_ppm: int) -> None:
        near = used_ppm >= CEILING_ALARM_PPM
        if near and not entry.near_ceiling:
            _log.warning(
                "stream %s: the watermark is %d %% of the ceiling %s behind its newest row: beyond the ceiling rows "
                "are lost whatever the control stream requires; give the job a larger ceiling",
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
