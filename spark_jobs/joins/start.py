"""The check of a query's joins at its start."""

from __future__ import annotations

import logging

from tidemark.models.joins import JoinedQuery, judge_joins

_log = logging.getLogger("tidemark.spark")
_LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "note": logging.INFO}


def must_not_run(query_id: str, joins: JoinedQuery | None) -> bool:
    """Log what is found in a query's joins, and return whether the query must be stopped for it."""
    findings = [] if joins is None else judge_joins(joins)
    for finding in findings:
        stopped = " is stopped" if finding.severity == "error" else ""
        _log.log(
            _LEVELS[finding.severity],
            "query %s%s: %s: %s; instead: %s",
            query_id,
            stopped,
            finding.where,
            finding.text,
            finding.instead,
        )
    return any(finding.severity == "error" for finding in findings)
