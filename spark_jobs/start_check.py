"""The check of a query's joins and chains at its start."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tidemark.models.joins import JoinedQuery, judge_joins
from tidemark.spark_jobs.binding import Binding
from tidemark.spark_jobs.chains import LastBounds, check_chain
from tidemark.spark_jobs.query_plan import QueryPlan

_log = logging.getLogger("tidemark.spark")


def errors_at_start(
    query_id: str,
    joins: JoinedQuery | None,
    plan: QueryPlan,
    bindings: Sequence[Binding],
    last_bounds: LastBounds | None,
) -> list[str]:
    """Return why a query must not run, and what to do instead; log what else is found in it.

    Args:
        query_id: the query's persistent id.
        joins: what Spark makes of its joins; None without any.
        plan: its plan.
        bindings: its streams.
        last_bounds: the bounds that its checkpoint last ran with; None where they do not matter.
    """
    findings = [] if joins is None else judge_joins(joins)
    findings += check_chain(plan.own_times, bindings, {} if last_bounds is None else last_bounds.read())
    errors = []
    for finding in findings:
        text = f"{finding.where}: {finding.text}; instead: {finding.instead}"
        if finding.severity == "error":
            errors.append(text)
        else:
            level = logging.WARNING if finding.severity == "warning" else logging.INFO
            _log.log(level, "query %s: %s", query_id, text)
    return errors
