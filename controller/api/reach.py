"""Pages of lists that show a caller only what is in its reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidemark.controller.access.principal import Principal

__all__ = ["in_reach"]

Row = TypeVar("Row")
Position = TypeVar("Position")

BATCH = 500
"""Rows read at a time by somebody who does not see all of them."""


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
        principal: who asks.
        fetch: returns up to so many rows after a position.
        job: the job that a row is about; None for what is about all of them, which everybody sees.
        position: where a row stands in the list.
        after: where the page begins.
        limit: greatest number of rows.
    """
    if principal.sees_all:
        return list(fetch(after, limit))
    found: list[Row] = []
    while len(found) < limit:
        rows = fetch(after, BATCH)
        for row in rows:
            of = job(row)
            if of is None or principal.sees(of):
                found.append(row)
        if len(rows) < BATCH:
            break
        after = position(rows[-1])
    return found[:limit]
