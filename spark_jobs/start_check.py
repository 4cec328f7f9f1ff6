"""The check of a query's joins and stateful operators at its start, and what of them the controller gets to know."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tidemark.models.base.operators import Operator
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.specs.findings import JoinedQuery, judge_joins
from tidemark.spark_jobs.binding import (
    Binding,
    Judging,
    PlanRejectedError,
    check_side,
    check_versions,
    judging_of,
    not_judged,
)
from tidemark.spark_jobs.chains import LastBounds, check_own_times
from tidemark.spark_jobs.coupling import PlanOperators
from tidemark.spark_jobs.query_plan import Found, QueryPlan
from tidemark.spark_jobs.real_time import why_not_real_time
from tidemark.spark_jobs.running_query import RunningQuery

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
    findings = [*query.stalls(), *([] if joins is None else judge_joins(joins))]
    findings += check_own_times(plan.own_times, bindings, {} if last_bounds is None else last_bounds.read())
    errors = []
    for finding in findings:
        text = f"{finding.where}: {finding.text}; instead: {finding.instead}"
        if finding.severity == "error":
            errors.append(text)
        else:
            level = logging.WARNING if finding.severity == "warning" else logging.INFO
            _log.log(level, "query %s: %s", query.query_id, text)
    return errors


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


def downstream_at_start(
    coupling: PlanOperators,
    plan: QueryPlan,
    bindings: Mapping[str, Binding],
    operators: Mapping[str, Operator],
) -> dict[str, Downstream | None]:
    """Return by metric what the bound of each stream decides behind its own operator.

    Args:
        coupling: what the bounds decide at all operators of the query.
        plan: its plan.
        bindings: by metric the streams, of this query and others.
        operators: by metric the operators of the query's streams.
    """
    confirmed = any(bindings[metric].own_time_confirmed for metric in operators)
    return {
        metric: coupling.downstream_of(
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
