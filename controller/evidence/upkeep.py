"""Upkeep: rolls up and deletes old data, a few steps at each tick, beside the decisions."""

from __future__ import annotations

import logging

from sqlalchemy import select

from tidemark.controller.db.database import Database
from tidemark.controller.db.tables import StreamRow
from tidemark.controller.evidence.rollups import STEPS, count_partitions, locked_rollup
from tidemark.controller.replicas.lease_keeper import LeaseKeeper
from tidemark.controller.runtime.priority import Pause, no_pause
from tidemark.models.retention import Retention

_log = logging.getLogger(__name__)

_EVERY_US = 60_000_000
"""How often a stream's upkeep runs, in microseconds: once for each minute that can be rolled up."""

_MAX_STEPS = 200
"""Maximum steps in one tick; the rest comes first in the next one."""


class Upkeep:
    """Runs the upkeep of the streams whose leases this process holds.

    Two processes may do so at the same time: each step is a transaction under the stream's lock.

    Args:
        database: the store.
        leases: the leases that this process holds.
        retention: how long data are stored.
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

    def tick(self, now_us: int, max_steps: int = _MAX_STEPS) -> int:
        """Run the upkeep of every stream that is due; return how many steps were taken.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the store cannot list the streams.
        """
        with self._database.read() as session:
            stream_ids = session.scalars(select(StreamRow.id).order_by(StreamRow.id)).all()
        due = [
            stream_id
            for stream_id in stream_ids
            if self._leases.lease_of(stream_id) is not None
            and now_us - self._done_us.get(stream_id, -_EVERY_US) >= _EVERY_US
        ]
        steps = 0
        # The stream that waited longest comes first.
        for stream_id in sorted(due, key=lambda stream_id: self._done_us.get(stream_id, 0)):
            try:
                taken, finished = self.run_upkeep(stream_id, max_steps - steps)
            except Exception:  # noqa: BLE001 - the other streams go on
                _log.exception("stream %d could not be rolled up; the next tick tries again", stream_id)
                continue
            steps += taken
            if not finished:
                break
            self._done_us[stream_id] = now_us
        return steps

    def run_upkeep(self, stream_id: int, max_steps: int = _MAX_STEPS) -> tuple[int, bool]:
        """Take the steps that are due for one stream; return how many, and whether none is left."""
        for taken in range(max_steps):
            if not self.step(stream_id):
                return taken, True
        return max_steps, False

    def step(self, stream_id: int) -> bool:
        """Take the next step that is due for one stream, in one transaction; return False when there is none."""
        self._give_way()
        with self._database.write() as session:
            found = locked_rollup(session, stream_id)
            if found is None:
                return False
            if count_partitions(session, *found, self._database.counted):
                return True
            return any(step(session, *found, self._retention) for step in STEPS)
