"""When windows are emitted, kept in memory: the steps of a stream's newest query, 8 bytes a batch, and the windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Row
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import ReportRow
from tidemark.controller.evidence.horizon import keys_in
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.horizon import (
    NO_BASE,
    STEP_COLUMNS,
    UNKNOWN,
    EmissionSteps,
    QueryStart,
    seen_us_of,
    step_bases_us,
    steps_of,
    wall_us_of,
)
from tidemark.models.evidence.packed_times import PackedTimes

STEP_ROW = tuple(getattr(ReportRow, name) for name in STEP_COLUMNS)
"""The columns of a report that emission depends on."""


class KeptSteps:
    """The steps of the batches of one query within a horizon.

    Args:
        query_id: the query.
        seen_us: when each batch was seen, in the order of their ids, shape (batches,), at least one.
        batches: their ``STEP_COLUMNS``, ``UNKNOWN`` where something is not known, shape (batches, 5).
        before_us: maximum event time of the query's batches before the first; None when none is known.
    """

    def __init__(self, query_id: str, seen_us: Int64s, batches: Int64s, before_us: int | None) -> None:
        self._query_id = query_id
        self._in_order = bool((np.diff(seen_us) >= 0).all())
        self._last_us = int(seen_us[-1])
        self._before_us = before_us
        self._start = QueryStart.of(batches)
        self._base_us = PackedTimes(step_bases_us(batches, NO_BASE))
        self._wall_us = PackedTimes(wall_us_of(batches))
        self._newest_us = int(seen_us_of(batches)[-1])

    @property
    def nbytes(self) -> int:
        """Memory that the steps take, in bytes."""
        return self._base_us.nbytes + self._wall_us.nbytes

    def move_to(self, query_id: str, new: Sequence[Row[Any]], gone: Sequence[Row[Any]]) -> bool:
        """Add new batches and remove those that left the horizon; return False when that cannot be done exactly.

        Args:
            query_id: the query of the newest batch.
            new: batches of all queries in the order of their ids, query by query.
            gone: the batches of all queries that left.
        """
        if query_id != self._query_id:
            return False
        gone = [row for row in gone if row.query_id == query_id]
        new = [row for row in new if row.query_id == query_id]
        if gone:
            known = [self._before_us, *(row.max_event_time_us for row in gone)]
            self._before_us = max((time_us for time_us in known if time_us is not None), default=None)
            # Only while batches were triggered in the order of their ids are those that leave the first ones.
            if not self._in_order or self._before_us is None:
                return False
            self._base_us.drop(len(gone))
            self._wall_us.drop(len(gone))
        if new:
            self._add(new)
        return len(self._wall_us) > 0

    def _add(self, new: Sequence[Row[Any]]) -> None:
        batches = np.array([_columns(row) for row in new], np.int64)
        seen_us = np.array([self._last_us, *(row.seen_us for row in new)], np.int64)
        self._in_order = self._in_order and bool((np.diff(seen_us) >= 0).all())
        self._last_us = int(seen_us[-1])
        self._start = self._start.with_more(batches)
        self._base_us.extend(step_bases_us(batches, self._newest_us))
        self._wall_us.extend(wall_us_of(batches))
        self._newest_us = int(seen_us_of(batches)[-1])

    def steps(self) -> EmissionSteps:
        """Return the steps."""
        base_us = self._base_us.times_us()
        first_us = int(base_us[0])
        # What the first batch itself reported counts as known before it.
        known = [] if first_us == NO_BASE else [first_us]
        if self._before_us is not None:
            known.append(self._before_us // SPARK_TICK_US * SPARK_TICK_US)
        before_us = max(known, default=None)
        return steps_of(base_us, self._wall_us.times_us(), before_us, self._start)


class KeptKeys:
    """The keys of a stream's ledger in one span, of which only those that reports may have added are read again."""

    def __init__(self, stream_id: int) -> None:
        self._stream_id = stream_id
        self._keys_us: Int64s = np.empty(0, np.int64)
        self._after_us = self._until_us = 0

    @property
    def nbytes(self) -> int:
        """Memory that they take, in bytes."""
        return self._keys_us.nbytes

    def forget_from(self, first_keys_us: Iterable[int | None]) -> None:
        """Forget the keys from the lowest of ``first_keys_us`` on: new reports may have added some there."""
        lowest_us = min((key_us for key_us in first_keys_us if key_us is not None), default=None)
        if lowest_us is not None:
            self._until_us = min(self._until_us, lowest_us - 1)

    def between(self, session: Session, after_us: int, until_us: int) -> Int64s:
        """Return the keys in (``after_us``, ``until_us``], ascending, shape (keys,)."""
        if not self._after_us <= after_us <= self._until_us:
            self._keys_us = np.empty(0, np.int64)
            self._until_us = after_us
        first, last = np.searchsorted(self._keys_us, [after_us, min(self._until_us, until_us)], side="right")
        held = self._keys_us[first:last]
        if self._until_us < until_us:
            held = np.concatenate([held, keys_in(session, self._stream_id, self._until_us, until_us)])
        self._keys_us, self._after_us, self._until_us = held, after_us, until_us
        return held


def _columns(row: Row[Any]) -> list[int]:
    values = (getattr(row, name) for name in STEP_COLUMNS)
    return [UNKNOWN if value is None else value for value in values]
