"""The check of a query's joins and chains at its start, and what of them the controller gets to know."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from pyspark.sql import SparkSession

from tidemark.models.chains import StreamStart, judge_own_times
from tidemark.models.coupling import Chain
from tidemark.models.findings import Finding
from tidemark.models.joins import JoinedQuery, judge_joins
from tidemark.models.operators import Operator
from tidemark.spark_jobs.core.binding import (
    Binding,
    Judging,
    PlanRejectedError,
    check_side,
    check_versions,
    judging_of,
    not_judged,
    why_not_real_time,
)
from tidemark.spark_jobs.plans.downstream import PlanCoupling, read_coupling
from tidemark.spark_jobs.plans.joins import read_joins
from tidemark.spark_jobs.spark.checkpoint import HadoopFiles
from tidemark.spark_jobs.spark.event_time import is_event_time
from tidemark.spark_jobs.spark.jvm import Py4JError, items
from tidemark.spark_jobs.spark.query_plan import Found, QueryPlan
from tidemark.spark_jobs.spark.running_query import RunningQuery

_log = logging.getLogger("tidemark.spark")


def errors_at_start(
    query: RunningQuery,
    joins: JoinedQuery | None,
    plan: QueryPlan,
    bindings: Sequence[Binding],
    last_bounds: LastBounds | None,
) -> list[str]:
    """Return why a query must not run, and what to do instead; log what else is found in it.

    Args:
        query: the query.
        joins: what Spark makes of its joins; None without any.
        plan: its plan.
        bindings: its streams.
        last_bounds: the bounds that its checkpoint last ran with; None where they do not matter.
    """
    findings = [*_stalls(query), *([] if joins is None else judge_joins(joins))]
    findings += check_chain(plan.own_times, bindings, {} if last_bounds is None else last_bounds.read())
    errors = []
    for finding in findings:
        text = f"{finding.where}: {finding.text}; instead: {finding.instead}"
        if finding.severity == "error":
            errors.append(text)
        else:
            level = logging.WARNING if finding.severity == "warning" else logging.INFO
            _log.log(level, "query %s: %s", query.query_id, text)
    return errors


def joins_of(query: RunningQuery) -> JoinedQuery | None:
    """Return what Spark makes of the query's stream-stream joins; None without any, or when it cannot be read.

    The policy is the session's; that of a checkpoint is in force only from the first batch's planning on.
    """
    mode = query.output_mode() or "append"
    return query.read("the query's joins", lambda session, plan: read_joins(session, plan, mode), None)


def coupling_of(query: RunningQuery, joins: JoinedQuery | None) -> PlanCoupling:
    """Return what the bounds decide at the query's operators; nothing when it cannot be read."""
    return query.read(
        "what the bounds decide", lambda session, plan: read_coupling(session, plan, joins), PlanCoupling()
    )


def _stalls(query: RunningQuery) -> list[Finding]:
    """Return what keeps the query from ever putting out a window; nothing when its plan cannot be read."""
    if query.output_mode() != "append":
        return []
    return query.read(
        "whether the query puts anything out",
        lambda session, plan: never_emits(plan, session.sessionState().conf()),
        [],
    )


def warn_of_other_queries(bindings: Sequence[Binding], others: Iterable[Binding]) -> None:
    """Log which streams of a query that starts are reported by another query of this driver already."""
    reported = {(binding.job, binding.stream) for binding in others}
    for binding in bindings:
        if (binding.job, binding.stream) in reported:
            _log.warning(
                "stream %s: another query of this driver reports it, too, so that each row counts once for each of "
                "them; call adaptive_watermark once for each query, with a stream= of its own",
                binding.stream,
            )


def chains_at_start(
    coupling: PlanCoupling,
    plan: QueryPlan,
    bindings: Mapping[str, Binding],
    operators: Mapping[str, Operator],
) -> dict[str, Chain | None]:
    """Return by metric what the bound of each stream decides behind its own operator.

    Args:
        coupling: what the bounds decide at all operators of the query.
        plan: its plan.
        bindings: by metric the streams, of this query and others.
        operators: by metric the operators of the query's streams.
    """
    confirmed = any(bindings[metric].chain_confirmed for metric in operators)
    return {
        metric: coupling.chain_of(
            metric,
            operator,
            bound_ms=bindings[metric].bound_ms,
            live=[each for each in operators if bindings[each].orders is not None],
            unsafe=bool(plan.own_times) and not confirmed,
        )
        for metric, operator in operators.items()
    }


def judged_at_start(
    found: Mapping[str, Found], bindings: Mapping[str, Binding], query: RunningQuery, plan: QueryPlan | None
) -> tuple[dict[str, Judging], list[str]]:
    """Return how the rows of each tap are judged, and why the query must not run.

    Args:
        found: by tap the operator that its rows are judged by.
        bindings: by tap the streams, of this query and others.
        query: the query.
        plan: its plan; None when it cannot be read.
    """
    streams, rejected = {}, []
    real_time = query.is_real_time()
    names = Counter((bindings[metric].job, bindings[metric].stream) for metric in found)
    for metric, operator in found.items():
        binding = bindings[metric]
        why = why_not_real_time(binding) if real_time else None
        if why is not None:
            rejected.append(f"stream {binding.stream}: it cannot run in real-time mode: {why}")
        try:
            judging = judging_of(binding, operator)
            check_versions(binding, judging, query, None if plan is None else plan.watermarks)
            if plan is not None:
                check_side(binding, plan.changes.get(metric))
                # A control stream is in Spark's event times, and of several watermarks Spark reports one.
                compared = plan.watermarks == 1 and binding.ceiling_ms is None
                judging = replace(judging, compared=compared)
        except PlanRejectedError as error:
            rejected.append(f"stream {binding.stream}: {error}")
            judging = not_judged(binding, str(error))
        if (number := names[binding.job, binding.stream]) > 1:
            why = f"{number} inputs of the query are called {binding.stream!r}, and a batch is reported once for a name"
            judging = not_judged(binding, f"{why}; give each call a name of its own: stream=...")
        streams[metric] = judging
    return streams, rejected


FILE = "tidemark/bounds.json"
"""Within the checkpoint: by stream the widest bound of the last run, in milliseconds."""


def check_chain(
    columns: Sequence[str], bindings: Sequence[Binding], last_bounds_ms: Mapping[str, int]
) -> list[Finding]:
    """Return what is to be said about a chain before it runs.

    Args:
        columns: the event times that a ``transformWithState`` of the query gives its rows.
        bindings: the query's streams.
        last_bounds_ms: what ``LastBounds`` has of the checkpoint; nothing for a new one.
    """
    starts = (
        StreamStart(
            stream=binding.stream,
            bound_ms=binding.bound_ms,
            own_bound_ms=binding.own_bound_ms,
            last_bound_ms=last_bounds_ms.get(binding.stream),
            live=binding.orders is not None,
        )
        for binding in bindings
    )
    return judge_own_times(columns, starts, confirmed=any(binding.chain_confirmed for binding in bindings))


class LastBounds:
    """The bounds that a checkpoint last ran with.

    Args:
        spark: the session of the query.
        checkpoint: the checkpoint's folder; None when it is not known.
        bindings: the query's streams.
    """

    def __init__(self, spark: SparkSession, checkpoint: str | None, bindings: Sequence[Binding]) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        # In Live nobody knows afterwards how far behind the watermark was, at most the ceiling.
        self._now = {
            binding.stream: max(binding.bound_ms, (binding.orders and binding.ceiling_ms) or 0)
            for binding in bindings
        }
        self._recorded = False

    def read(self) -> dict[str, int]:
        """Return them by stream, in milliseconds; nothing for a new checkpoint, or when they cannot be read."""
        if self._checkpoint is None:
            return {}
        try:
            text = HadoopFiles(self._spark, self._checkpoint).read(FILE)
            found = {} if text is None else json.loads(text)
            return {str(stream): int(bound_ms) for stream, bound_ms in found.items()}
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
    """Return what keeps a query from ever putting out a window.

    Args:
        plan: its analysed plan, in the JVM.
        conf: the SQL configuration of its session, in the JVM.

    Raises:
        Py4JError: when the plan cannot be walked.
    """
    found: list[Finding] = []
    if str(conf.getConfString("spark.sql.streaming.multipleWatermarkPolicy", "min")).lower() != "max":
        found += _second_watermarks(plan)
    if str(conf.getConfString("spark.sql.exchange.reuse", "true")).lower() == "true":
        found += _aggregates_twice(plan)
    return found


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
