"""The check of a query's joins at its start."""

from __future__ import annotations

import logging

from tidemark.models.joins import JoinedQuery, judge_joins

_log = logging.getLogger("tidemark.spark")


def reject_joins(query_id: str, joins: JoinedQuery | None) -> list[str]:
    """Return why a query must not run with its joins, and what to do instead; log what else is found in them."""
    rejected = []
    for finding in [] if joins is None else judge_joins(joins):
        text = f"{finding.where}: {finding.text}; instead: {finding.instead}"
        if finding.severity == "error":
            rejected.append(text)
        else:
            level = logging.WARNING if finding.severity == "warning" else logging.INFO
            _log.log(level, "query %s: %s", query_id, text)
    return rejected
