"""Pages of lists: opaque cursors, and only what is in the caller's reach."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Query

from tidemark.controller.base.errors import InvalidParameterError
from tidemark.controller.base.principal import Principal

Row = TypeVar("Row")

MAX_PAGE = 1_000
"""Maximum number of items on a page of any list."""

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Maximum number of items on the page.")]
"""The limit parameter of every list."""

Cursor = Annotated[
    str | None, Query(max_length=2_000, description="The next_cursor of the page before; opaque.")
]
"""The cursor parameter."""

_NUMBER = re.compile(r"-?[0-9]{1,19}")

MAX_NUMBER = 2**63 - 1
"""Greatest integer that the store can hold."""


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page of a list is requested."""

    limit: int
    """Maximum number of items on it."""
    cursor: str | None
    """Where it begins; None for the first page."""

    @property
    def rows(self) -> int:
        """How many rows to read: one more than the page holds tells whether another page follows."""
        return self.limit + 1

    def cut(
        self, rows: Sequence[Row], position: Callable[[Row], tuple[str | int, ...]]
    ) -> tuple[Sequence[Row], str | None]:
        """Return the rows on the page, and the cursor of the next page; None on the last.

        Args:
            rows: those that were read.
            position: returns where a row stands in the list.
        """
        page = rows[: self.limit]
        return page, encode_cursor(*map(str, position(page[-1]))) if len(rows) > self.limit else None


async def _paging(limit: Limit = 100, cursor: Cursor = None) -> Paging:
    return Paging(limit, cursor)


ThePaging = Annotated[Paging, Depends(_paging)]
"""The page that the query requests."""


def encode_cursor(*position: str) -> str:
    """Return the cursor of a position."""
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, length: int) -> tuple[str, ...] | None:
    """Return the position that a cursor encodes, None for no cursor.

    Raises:
        InvalidParameterError: when it is not a cursor of this list.
    """
    if cursor is None:
        return None
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        position = None
    if (
        not isinstance(position, list)
        or len(position) != length
        or not all(isinstance(part, str) and _can_be_stored(part) for part in position)
    ):
        raise _not_ours()
    return tuple(position)


def decode_number_cursor(cursor: str | None) -> int | None:
    """Return the one number that a cursor encodes, None for no cursor.

    Raises:
        InvalidParameterError: when it is not a cursor of this list.
    """
    position = decode_numbers_cursor(cursor, 1)
    if position is None:
        return None
    if position[0] < 0:  # such a number is an id or a count
        raise _not_ours()
    return position[0]


def decode_numbers_cursor(cursor: str | None, length: int) -> tuple[int, ...] | None:
    """Return the whole numbers that a cursor encodes, None for no cursor.

    Raises:
        InvalidParameterError: when it is not a cursor of this list.
    """
    position = decode_cursor(cursor, length)
    return None if position is None else _numbers(position)


def decode_stream_cursor(cursor: str | None, length: int) -> tuple[tuple[int, ...], str, str] | None:
    """Return the whole numbers, the job and the stream that a cursor encodes, None for no cursor.

    Raises:
        InvalidParameterError: when it is not a cursor of this list.
    """
    position = decode_cursor(cursor, length + 2)
    if position is None:
        return None
    *numbers, job, stream = position
    return _numbers(numbers), job, stream


def _numbers(parts: Sequence[str]) -> tuple[int, ...]:
    if not all(_NUMBER.fullmatch(part) and abs(int(part)) <= MAX_NUMBER for part in parts):
        raise _not_ours()
    return tuple(map(int, parts))


def _can_be_stored(text: str) -> bool:
    """Return whether a database can hold a text: JSON can name characters that are none."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _not_ours() -> InvalidParameterError:
    reason = "this is not a cursor of this list; leave it out to begin at the first page"
    return InvalidParameterError.at("cursor", reason)


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
