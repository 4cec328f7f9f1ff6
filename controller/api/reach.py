"""Pages of lists that hold only what is in the caller's reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidemark.controller.access.principal import Principal

Row = TypeVar("Row")
Position = TypeVar("Position")

_BATCH = 500
"""Rows read at a time for a caller that does not see all of them."""


def in_reach(
    principal: Principal,
    fetch: Callable[[Position | None, int], Sequence[Row]],
    *,
    job: Callable[[Row], str | None],
    position: Callable[[Row], Position],
    after: Position | None,
    limit: int,
) -> list[Row]:
    """Return up to ``limit`` rows that ``principal`` may see, in the order of the list.

    Args:
        principal: the caller.
        fetch: takes a position and a limit; returns the rows after it.
        job: the job that a row is about; None for rows about all jobs, which everybody sees.
        position: the position of a row in the list.
        after: where the page begins.
        limit: maximum number of rows.
    """
    if principal.sees_all:
        return list(fetch(after, limit))
    found: list[Row] = []
    while len(found) < limit:
        rows = fetch(after, _BATCH)
        for row in rows:
            of = job(row)
            if of is None or principal.sees(of):
                found.append(row)
        if len(rows) < _BATCH:
            break
        after = position(rows[-1])
    return found[:limit]
