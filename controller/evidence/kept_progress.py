"""The newest batches of a stream's newest query, kept in memory: its progress follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import ReportRow
from tidemark.controller.evidence.horizon import Horizon
from tidemark.models.base.defaults import PACE_BATCHES
from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.horizon import UNKNOWN
from tidemark.models.evidence.progress import PACE_COLUMNS


class KeptBatches:
    """Those within a horizon, at most ``PACE_BATCHES``.

    Args:
        horizon: the horizon now.
    """

    def __init__(self, session: Session, horizon: Horizon) -> None:
        self._query_id = horizon.newest.query_id
        columns = (func.coalesce(getattr(ReportRow, name), UNKNOWN) for name in PACE_COLUMNS)
        # A thousand rows: the session would wrap each.
        rows = session.connection().execute(
            select(ReportRow.seen_us, *columns)
            .where(*horizon.batches, ReportRow.query_id == self._query_id)
            .order_by(ReportRow.batch_id.desc())
            .limit(PACE_BATCHES)
        )
        found = np.array([tuple(row) for row in rows], np.int64).reshape(-1, 1 + len(PACE_COLUMNS))
        self._batches: Int64s = found[::-1]

    @property
    def nbytes(self) -> int:
        """Memory that they take, in bytes."""
        return self._batches.nbytes

    @property
    def table(self) -> Int64s:
        """``PACE_COLUMNS`` of the batches in the order of their ids, shape (batches, 4)."""
        return self._batches[:, 1:]

    def move_to(self, horizon: Horizon, new: Sequence[Row[Any]]) -> bool:
        """Add new batches and remove those that left the horizon; return False when that cannot be done exactly.

        Args:
            horizon: the horizon now.
            new: batches of all queries in the order of their ids, query by query.
        """
        if horizon.newest.query_id != self._query_id:
            return False
        stay = self._batches[:, 0] >= horizon.from_us
        if not stay.all() and len(self._batches) == PACE_BATCHES:
            # Earlier ones, which are not held, would take their place.
            return False
        added = [
            [row.seen_us, *(_known(getattr(row, name)) for name in PACE_COLUMNS)]
            for row in new
            if row.query_id == self._query_id
        ]
        more = np.array(added, np.int64).reshape(-1, self._batches.shape[1])
        self._batches = np.concatenate([self._batches[stay], more])[-PACE_BATCHES:]
        return True


def _known(value: int | None) -> int:
    return UNKNOWN if value is None else value
