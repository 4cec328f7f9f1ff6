"""Upkeep: what the store does over time, beside the decisions: roll up, age out. A little at each turn."""

from __future__ import annotations

import logging

from sqlalchemy import select

from tidemark.controller.db.database import Database
from tidemark.controller.db.tables import StreamRow
from tidemark.controller.evidence.rollups import STEPS, count_partitions, locked_rollup
from tidemark.controller.replicas.lease_keeper import LeaseKeeper
from tidemark.controller.runtime.priority import Pause, no_pause
from tidemark.models.retention import Retention

__all__ = ["Upkeep"]

_log = logging.getLogger(__name__)

EVERY_US = 60_000_000
"""How often a stream is looked after, in microseconds: once for each minute that it can roll up."""

MAX_STEPS = 200
"""How many steps one turn takes at the most; what is left over comes first in the next one."""


class Upkeep:
    """Looks after the streams whose leases this process holds.

    Two processes at it at the same time do no harm: each step is a transaction under the stream's lock.

    Args:
        database: the store.
        leases: which streams are this process's.
        retention: how long data are kept.
        give_way: called before each step.
    """

    def __init__(
        self, database: Database, leases: LeaseKeeper, retention: Retention, give_way: Pause = no_pause
    ) -> None:
        self._database = database
        self._leases = leases
        self._retention = retention
        self._give_way = give_way
        self._done_us: dict[int, int] = {}

    def tick(self, now_us: int, max_steps: int = MAX_STEPS) -> int:
        """Look after every stream whose time has come; return how many steps were taken.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the store cannot even list the streams.
        """
        with self._database.read() as session:
            stream_ids = session.scalars(select(StreamRow.id).order_by(StreamRow.id)).all()
        due = [
            stream_id
            for stream_id in stream_ids
            if self._leases.lease_of(stream_id) is not None
            and now_us - self._done_us.get(stream_id, -EVERY_US) >= EVERY_US
        ]
        steps = 0
        # Whoever waited longest comes first.
        for stream_id in sorted(due, key=lambda stream_id: self._done_us.get(stream_id, 0)):
            try:
                taken, finished = self.run_upkeep(stream_id, max_steps - steps)
            except Exception:  # noqa: BLE001 - whatever it is, the other streams go on
                _log.exception("stream %d could not be rolled up; the next turn tries again", stream_id)
                continue
            steps += taken
            if not finished:
                break
            self._done_us[stream_id] = now_us
        return steps

    def run_upkeep(self, stream_id: int, max_steps: int = MAX_STEPS) -> tuple[int, bool]:
        """Take the steps that one stream needs; return how many, and whether none is left."""
        for taken in range(max_steps):
            if not self.step(stream_id):
                return taken, True
        return max_steps, False

    def step(self, stream_id: int) -> bool:
        """Take the next step that one stream needs, in one transaction; return False when there is none."""
        self._give_way()
        with self._database.write() as session:
            found = locked_rollup(session, stream_id)
            if found is None:
                return False
            if count_partitions(session, *found, self._database.counted):
                return True
            return any(step(session, *found, self._retention) for step in STEPS)
