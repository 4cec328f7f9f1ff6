"""Batches of a stream's newest query, kept in memory: when windows are emitted, and the pace of the query.

What emission depends on is one fact a batch, and does not add up over slots of time, so it is no rollup. Reading it for
a day of batches every three seconds takes a tenth of a second; moving it on with what is new a hundredth of that. It is
8 bytes a batch here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import ReportRow
from tidemark.controller.evidence.horizon import Horizon, keys_in, step_rows
from tidemark.controller.reports.store import max_before_us
from tidemark.models.base.defaults import PACE_BATCHES
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
from tidemark.models.evidence.progress import PACE_COLUMNS

STEP_ROW = tuple(getattr(ReportRow, name) for name in STEP_COLUMNS)
"""The columns of a report that emission depends on."""


class CachedSteps:
    """The steps of the batches of one query within a horizon.

    Args:
        seen_us: when each batch was seen, in the order of their ids, shape (batches,), at least one.
        batches: their ``STEP_COLUMNS``, ``UNKNOWN`` where something is not known, shape (batches, 5).
        before_us: maximum event time of the query's batches before the first; None when none is known.
    """

    def __init__(self, seen_us: Int64s, batches: Int64s, before_us: int | None) -> None:
        self._in_order = bool((np.diff(seen_us) >= 0).all())
        self._last_us = int(seen_us[-1])
        self._before_us = before_us
        self._start = QueryStart.of(batches)
        self._base_us = PackedTimes(step_bases_us(batches, NO_BASE))
        self._wall_us = PackedTimes(wall_us_of(batches))
        self._newest_us = int(seen_us_of(batches)[-1])

    @classmethod
    def read(cls, session: Session, horizon: Horizon) -> CachedSteps:
        """Return those of the newest query within a horizon."""
        query_id = horizon.newest.query_id
        ids, seen_us, batches = step_rows(session, horizon.span, query_id)
        return cls(seen_us, batches, max_before_us(session, horizon.stream_id, query_id, int(ids[0]) - 1))

    @property
    def nbytes(self) -> int:
        """Memory that the steps take, in bytes."""
        return self._base_us.nbytes + self._wall_us.nbytes

    def move_to(self, new: Sequence[Row[Any]], gone: Sequence[Row[Any]]) -> bool:
        """Add new batches, in the order of their ids, and remove those that left the horizon.

        Returns:
            False when that cannot be done exactly.
        """
        if gone:
            times_us = [self._before_us, *(row.max_event_time_us for row in gone)]
            self._before_us = max((time_us for time_us in times_us if time_us is not None), default=None)
            # Only while batches were triggered in the order of their ids are those that leave the first ones.
            if not self._in_order or self._before_us is None:
                return False
            self._base_us.drop(len(gone))
            self._wall_us.drop(len(gone))
        if new:
            self._add(new)
        return len(self._wall_us) > 0

    def _add(self, new: Sequence[Row[Any]]) -> None:
        batches = np.array([_values(row, STEP_COLUMNS) for row in new], np.int64)
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
        bases_us = [] if first_us == NO_BASE else [first_us]
        if self._before_us is not None:
            bases_us.append(self._before_us // SPARK_TICK_US * SPARK_TICK_US)
        before_us = max(bases_us, default=None)
        return steps_of(base_us, self._wall_us.times_us(), before_us, self._start)


class CachedKeys:
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
        keys_us = self._keys_us[first:last]
        if self._until_us < until_us:
            keys_us = np.concatenate([keys_us, keys_in(session, self._stream_id, self._until_us, until_us)])
        self._keys_us, self._after_us, self._until_us = keys_us, after_us, until_us
        return keys_us


class BatchCache:
    """Those within a horizon, at most ``PACE_BATCHES``.

    Args:
        horizon: the horizon now.
    """

    def __init__(self, session: Session, horizon: Horizon) -> None:
        columns = (func.coalesce(getattr(ReportRow, name), UNKNOWN) for name in PACE_COLUMNS)
        # A thousand rows: the session would wrap each.
        rows = session.connection().execute(
            select(ReportRow.seen_us, *columns)
            .where(*horizon.batches, ReportRow.query_id == horizon.newest.query_id)
            .order_by(ReportRow.batch_id.desc())
            .limit(PACE_BATCHES)
        )
        table = np.array([tuple(row) for row in rows], np.int64).reshape(-1, 1 + len(PACE_COLUMNS))
        self._batches: Int64s = table[::-1]

    @property
    def nbytes(self) -> int:
        """Memory that they take, in bytes."""
        return self._batches.nbytes

    @property
    def table(self) -> Int64s:
        """``PACE_COLUMNS`` of the batches in the order of their ids, shape (batches, 4)."""
        return self._batches[:, 1:]

    def move_to(self, horizon: Horizon, new: Sequence[Row[Any]]) -> bool:
        """Add new batches, in the order of their ids, and remove those that left the horizon.

        Returns:
            False when that cannot be done exactly.
        """
        stay = self._batches[:, 0] >= horizon.from_us
        if not stay.all() and len(self._batches) == PACE_BATCHES:
            # Earlier ones, which are not held, would take their place.
            return False
        added = [[row.seen_us, *_values(row, PACE_COLUMNS)] for row in new]
        more = np.array(added, np.int64).reshape(-1, self._batches.shape[1])
        self._batches = np.concatenate([self._batches[stay], more])[-PACE_BATCHES:]
        return True


def _values(row: Row[Any], names: Sequence[str]) -> list[int]:
    values = (getattr(row, name) for name in names)
    return [UNKNOWN if value is None else value for value in values]
