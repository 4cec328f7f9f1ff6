"""The check of a query's plan at its start, and what its bounds decide at other operators, which it acknowledges.

A ``transformWithState`` may give its rows an event time of their own, which another watermark may end. A checkpoint
does not say which bounds it ran with. So a file in its folder does, for such queries alone: whoever runs from the
checkpoint, wherever, finds it there.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.messages import Acknowledgement
from tidemark.models.specs.findings import (
    Finding,
    JoinedQuery,
    StreamStart,
    judge_joins,
    judge_own_times,
)
from tidemark.models.specs.run_end import last_windows
from tidemark.models.specs.state_findings import judge_state
from tidemark.spark_jobs.core.binding import Binding, Extension, QueryRun
from tidemark.spark_jobs.plans.downstream import PlanOperators, read_operators
from tidemark.spark_jobs.plans.joins import read_joins
from tidemark.spark_jobs.spark.checkpoint import HadoopFiles
from tidemark.spark_jobs.spark.event_time import is_event_time
from tidemark.spark_jobs.spark.jvm import Py4JError, items
from tidemark.spark_jobs.spark.query_plan import QueryPlan
from tidemark.spark_jobs.spark.running_query import RunningQuery

FILE = "tidemark/bounds.json"
"""Within the checkpoint: by stream the widest bound of the last run, in milliseconds."""

_log = logging.getLogger("tidemark.spark")


@dataclass(frozen=True, slots=True)
class _Checked:
    """What is known of a run from its plan."""

    downstream: Mapping[str, Downstream | None]
    """By tap what its bound decides at operators behind its own."""
    last_bounds: LastBounds | None
    """Where its bounds are written down; None for a query that any bound is right for."""


class PlanCheck(Extension):
    """Checks the plans of a driver's queries as they start."""

    def __init__(self) -> None:
        self._runs: dict[str, _Checked] = {}

    def rejects(self, run: QueryRun) -> list[str]:
        """Return why a query must not run, and what to do instead; log what else is found in its plan."""
        if run.plan is None:
            return []
        query, plan, bindings = run.query, run.plan, list(run.bindings.values())
        last_bounds = LastBounds(query.spark, query.checkpoint(), bindings) if plan.own_times else None
        joins = _joins_of(query)
        findings = [*_stalls(query), *([] if joins is None else judge_joins(joins))]
        findings += check_own_times(
            plan.own_times, bindings, {} if last_bounds is None else last_bounds.read()
        )
        ended = last_windows(run.run_end, query.output_mode() or "append", len(plan.watermarks))
        findings += [] if ended is None else [ended]
        operators = query.read(
            "what the bounds decide",
            lambda session, analysed: read_operators(
                session, analysed, joins, output_mode=query.output_mode()
            ),
            PlanOperators(),
        )
        # That a watermark has no effect is said of each stream already.
        findings += judge_state(operators.stateful)
        self._runs[run.run_id] = _Checked(_downstream(run, plan, operators), last_bounds)
        errors = []
        for finding in findings:
            text = f"{finding.where}: {finding.text}; instead: {finding.instead}"
            if finding.severity == "error":
                errors.append(text)
            else:
                level = logging.WARNING if finding.severity == "warning" else logging.INFO
                _log.log(level, "query %s: %s", query.query_id, text)
        return errors

    def batch(self, run: QueryRun, progress: StreamingQueryProgress) -> None:  # noqa: ARG002 - that there was one is enough
        """Write down the bounds with which a batch has ended."""
        checked = self._runs.get(run.run_id)
        if checked is not None and checked.last_bounds is not None:
            checked.last_bounds.record()

    def acknowledged(
        self,
        run: QueryRun,
        metric: str,
        acknowledgement: Acknowledgement,
        batch_id: int,  # noqa: ARG002 - the same in all
    ) -> Acknowledgement:
        """Return ``acknowledgement`` with what the bound decides at operators behind the stream's own."""
        checked = self._runs.get(run.run_id)
        if checked is None:
            return acknowledgement
        return replace(acknowledgement, downstream=checked.downstream.get(metric))

    def ended(self, run: QueryRun, error: str) -> None:  # noqa: ARG002 - whatever it is
        """Forget a run."""
        self._runs.pop(run.run_id, None)


def _downstream(run: QueryRun, plan: QueryPlan, operators: PlanOperators) -> dict[str, Downstream | None]:
    """Return by tap what the bound of each stream decides at operators behind its own."""
    bindings = run.bindings
    confirmed = any(binding.settings.own_event_time_confirmed for binding in bindings.values())
    return {
        metric: operators.downstream_of(
            metric,
            judging.operator,
            bound_ms=bindings[metric].chosen.bound_ms,
            live=[one for one in run.streams if bindings[one].moves],
            unsafe=bool(plan.own_times) and not confirmed,
        )
        for metric, judging in run.streams.items()
    }


def _joins_of(query: RunningQuery) -> JoinedQuery | None:
    """Return what Spark makes of the query's stream-stream joins; None without any, or when it cannot be read.

    The policy is the session's; that of a checkpoint is in force only from the first batch's planning on.
    """
    mode = query.output_mode() or "append"
    return query.read("the query's joins", lambda session, plan: read_joins(session, plan, mode), None)


def _stalls(query: RunningQuery) -> list[Finding]:
    """Return what keeps the query from ever putting out a window; nothing when its plan cannot be read."""
    if query.output_mode() != "append":
        return []
    return query.read(
        "whether the query puts anything out",
        lambda session, plan: never_emits(plan, session.sessionState().conf()),
        [],
    )


def check_own_times(
    columns: Sequence[str], bindings: Sequence[Binding], last_bounds_ms: Mapping[str, int]
) -> list[Finding]:
    """Return what is to be said, before it runs, of a query whose operators give rows their own event times.

    Args:
        columns: the event times that a ``transformWithState`` of the query gives its rows.
        bindings: the query's streams.
        last_bounds_ms: what ``LastBounds`` has of the checkpoint; nothing for a new one.
    """
    starts = (
        StreamStart(
            stream=binding.settings.stream,
            bound_ms=binding.chosen.bound_ms,
            own_bound_ms=binding.own_bound_ms,
            last_bound_ms=last_bounds_ms.get(binding.settings.stream),
            live=binding.moves,
        )
        for binding in bindings
    )
    return judge_own_times(
        columns, starts, confirmed=any(binding.settings.own_event_time_confirmed for binding in bindings)
    )


class LastBounds:
    """The bounds that a checkpoint last ran with."""

    def __init__(self, spark: SparkSession, checkpoint: str | None, bindings: Sequence[Binding]) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        # In Live nobody knows afterwards how far behind the watermark was, at most the ceiling.
        self._now = {
            binding.settings.stream: max(
                binding.chosen.bound_ms, (binding.ceiling_ms or 0) if binding.moves else 0
            )
            for binding in bindings
        }
        self._recorded = False

    def read(self) -> dict[str, int]:
        """Return them by stream, in milliseconds; nothing for a new checkpoint, or when they cannot be read."""
        if self._checkpoint is None:
            return {}
        try:
            text = HadoopFiles(self._spark, self._checkpoint).read(FILE)
            bounds = {} if text is None else json.loads(text)
            return {str(stream): int(bound_ms) for stream, bound_ms in bounds.items()}
        except (Py4JError, ValueError, TypeError, AttributeError) as error:
            _log.warning("the last bounds of %s cannot be read: %s", self._checkpoint, error)
            return {}

    def record(self) -> None:
        """Write down those of this run, once: it has run a batch with them."""
        if self._recorded or self._checkpoint is None:
            return
        self._recorded = True
        try:
            HadoopFiles(self._spark, self._checkpoint).write_whole(FILE, json.dumps(self._now))
        except (Py4JError, OSError) as error:
            _log.warning("the bounds of this run cannot be written into %s: %s", self._checkpoint, error)


def never_emits(plan: Any, conf: Any) -> list[Finding]:
    """Return what keeps a query from ever putting out a window, as its analysed plan shows.

    Two forms are known (measured on Spark 4.2, in append mode):

    * a second ``withWatermark`` behind an aggregate. The query's watermark is the least of all, and the second one has
      none before the aggregate has put a row out, which it does not before the watermark moves;
    * one aggregate twice in a query, as in a join or a union of one frame with itself. Spark runs what is below both
      once (``ReuseExchange``), and the watermark does not reach the aggregate whose input is reused: its windows stay
      open.

    Raises:
        Py4JError: when the plan cannot be walked.
    """
    findings: list[Finding] = []
    if str(conf.getConfString("spark.sql.streaming.multipleWatermarkPolicy", "min")).lower() != "max":
        findings += _second_watermarks(plan)
    if str(conf.getConfString("spark.sql.exchange.reuse", "true")).lower() == "true":
        findings += _aggregates_twice(plan)
    return findings


def _second_watermarks(plan: Any) -> Iterator[Finding]:
    for node in _nodes(plan):
        if node.nodeName() == "EventTimeWatermark" and any(map(_waits, _nodes(node.child()))):
            column = node.eventTime().name()
            yield Finding(
                "warning",
                "watermark_never_moves",
                f"withWatermark({column!r}) stands behind an aggregate, and each waits for the other: the aggregate "
                "puts nothing out before the watermark moves, and that does not move before a row comes here",
                "leave it out: the windows of the aggregate carry the watermark on; window_time(window) is their time",
            )


def _aggregates_twice(plan: Any) -> Iterator[Finding]:
    aggregates = [node for node in _nodes(plan) if _waits(node)]
    if any(one.sameResult(other) for one, other in combinations(aggregates, 2)):
        yield Finding(
            "warning",
            "windows_never_close",
            "one aggregate stands in the query twice; Spark runs what is below it once, and the watermark does not "
            "reach the second: its windows never close",
            "read the source once for each, or set spark.sql.exchange.reuse=false",
        )


def _nodes(plan: Any) -> Iterator[Any]:
    nodes = [plan]
    while nodes:
        node = nodes.pop()
        yield node
        nodes += items(node.children())


def _waits(node: Any) -> bool:
    """Return whether a node puts rows out only as the watermark passes them."""
    return (
        node.nodeName() == "Aggregate"
        and bool(node.isStreaming())
        and any(map(is_event_time, items(node.groupingExpressions())))
    )
