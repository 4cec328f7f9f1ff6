"""Upkeep: rolls up and deletes old data, a few steps at each tick, beside the decisions."""

from __future__ import annotations

import logging
from math import inf
from time import perf_counter

from sqlalchemy import select

from tidemark.controller.base.background import Pause, no_pause
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.leases import LeaseKeeper
from tidemark.controller.base.db.tables import OffsetRow, StreamRow
from tidemark.controller.control.retention.ageing import AGEING_STEPS
from tidemark.controller.control.retention.delete_stream import empty_deleted
from tidemark.controller.control.retention.history import HISTORY_STEPS
from tidemark.controller.evidence.roll_up import TailNeeds, locked_offset, roll_up
from tidemark.controller.evidence.set_back import set_back
from tidemark.models.evidence.slots import DAY_US, HOUR_US, Retention

_log = logging.getLogger(__name__)

_EVERY_US = 60_000_000
"""How often a stream's upkeep runs, in microseconds: once for each minute that can be rolled up."""

_DAY_EVERY_US = HOUR_US
"""How often a stream may age by more than an hour, in microseconds."""

_FORGET_EVERY_US = HOUR_US
"""How often old rows of what was decided, and those of a deleted stream, are looked for, in microseconds."""


class Upkeep:
    """Runs the upkeep of the streams whose leases this process holds.

    Two processes may do so at the same time: each step is a transaction under the stream's lock.

    Args:
        leases: the leases that this process holds.
        retention: how long data are stored.
        give_way: called before each step.
        tail: needs of the newest reports.
    """

    def __init__(
        self,
        database: Database,
        leases: LeaseKeeper,
        retention: Retention,
        give_way: Pause = no_pause,
        tail: TailNeeds | None = None,
    ) -> None:
        self._database = database
        self._tail = TailNeeds() if tail is None else tail
        self._leases = leases
        self._retention = retention
        self._give_way = give_way
        self._done_us: dict[int, int] = {}
        self._aged_us: dict[int, int] = {}
        self._forgot_us: dict[int, int] = {}
        self._emptied: set[int] = set()

    def tick(self, now_us: int, max_seconds: float = inf) -> int:
        """Run the upkeep of every stream that is due; return how many steps were taken.

        Args:
            max_seconds: after how long no other step is begun; what is left over comes first the next time.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the store cannot list the streams.
        """
        ends_s = perf_counter() + max_seconds
        with self._database.read() as session:
            streams = session.execute(select(StreamRow.id, StreamRow.deleted_us).order_by(StreamRow.id)).all()
        deleted = {stream_id for stream_id, deleted_us in streams if deleted_us is not None}
        waiting = [
            stream_id
            for stream_id, _ in streams
            if self._leases.lease_of(stream_id) is not None
            and _passed(
                self._done_us.get(stream_id),
                now_us,
                _FORGET_EVERY_US if stream_id in self._emptied else _EVERY_US,
            )
        ]
        steps = 0
        # The stream that waited longest comes first, and those that were deleted last, however much they hold.
        for stream_id in sorted(
            waiting, key=lambda number: (number in deleted, self._done_us.get(number, 0))
        ):
            try:
                run = self._empty if stream_id in deleted else self._run
                taken, finished = run(stream_id, now_us, ends_s)
            except Exception:  # noqa: BLE001 - the other streams go on
                _log.exception("stream %d could not be rolled up; the next tick tries again", stream_id)
                continue
            steps += taken
            if finished:
                self._done_us[stream_id] = now_us
            if perf_counter() > ends_s:
                break
        return steps

    def run_upkeep(self, stream_id: int, max_steps: int = 200) -> tuple[int, bool]:
        """Take all steps that are due for one stream, however old; return how many, and whether none is left."""
        for taken in range(max_steps):
            if not self.step(stream_id) and not self.forget(stream_id) and not self.age(stream_id):
                return taken, True
        return max_steps, False

    def step(self, stream_id: int) -> bool:
        """Take the next step that is due for one stream, in one transaction; return False when there is none."""
        self._give_way()
        with self._database.write() as session:
            locked = locked_offset(session, stream_id)
            if locked is None:
                return False
            offset, _ = locked
            before = offset.last_report_id
            roll_up(session, offset, self._tail)
            if offset.last_report_id > before:
                return True
            return any(step(session, offset, offset.aged_us, self._retention) for step in AGEING_STEPS)

    def forget(self, stream_id: int) -> bool:
        """Delete the next old rows of what was decided for one stream; return False when there are none."""
        self._give_way()
        with self._database.write() as session:
            locked = locked_offset(session, stream_id)
            if locked is None:
                return False
            return any(step(session, locked[0], locked[0].aged_us, self._retention) for step in HISTORY_STEPS)

    def empty(self, stream_id: int, now_us: int) -> bool:
        """Delete the next rows of one deleted stream; return False when there are none."""
        self._give_way()
        with self._database.write() as session:
            return empty_deleted(session, stream_id, now_us - self._retention.events_us)

    def age(self, stream_id: int) -> bool:
        """Let one stream age up to its newest batch, but by a day at most; return False when it has already."""
        with self._database.write() as session:
            locked = locked_offset(session, stream_id)
            return locked is not None and _age(*locked, by_day=True) > 0

    def _run(self, stream_id: int, now_us: int, ends_s: float) -> tuple[int, bool]:
        """Take the steps that are due for one stream; it ages by more than an hour only once an hour, and by a day.

        So a clock that is ahead deletes no more than a day's worth before somebody can see it.
        """
        by_day = _passed(self._aged_us.get(stream_id), now_us, _DAY_EVERY_US)
        taken = 0
        while (aged_us := self._recover(stream_id, now_us, by_day=by_day)) is None:
            taken += 1
            if perf_counter() > ends_s:
                return taken, False
        if aged_us > HOUR_US:
            self._aged_us[stream_id] = now_us
        forgets = _passed(self._forgot_us.get(stream_id), now_us, _FORGET_EVERY_US)
        while self.step(stream_id) or (forgets and self.forget(stream_id)):
            taken += 1
            if perf_counter() > ends_s:
                return taken, False
        if forgets:
            self._forgot_us[stream_id] = now_us
        return taken, True

    def _empty(self, stream_id: int, now_us: int, ends_s: float) -> tuple[int, bool]:
        """Delete the rows of a deleted stream."""
        taken = 0
        while self.empty(stream_id, now_us):
            taken += 1
            if perf_counter() > ends_s:
                return taken, False
        self._emptied.add(stream_id)
        return taken, True

    def _recover(self, stream_id: int, now_us: int, *, by_day: bool) -> int | None:
        """Take the next step after a wrong clock and return None; without any, return by how much the stream aged."""
        with self._database.write() as session:
            locked = locked_offset(session, stream_id)
            if locked is None:
                return 0
            return None if set_back(session, locked[0], now_us) else _age(*locked, by_day=by_day)


def _age(offset: OffsetRow, newest_us: int, *, by_day: bool) -> int:
    """Move the time that ages are measured from, and return by how much, in microseconds.

    Args:
        offset: how far the stream is aged out.
        newest_us: when its newest batch was seen.
        by_day: whether it may move by more than an hour, and by a day then.
    """
    behind_us = newest_us - offset.aged_us
    aged_us = 0 if behind_us > HOUR_US and not by_day else min(max(behind_us, 0), DAY_US)
    offset.aged_us += aged_us
    return aged_us


def _passed(since_us: int | None, now_us: int, wait_us: int) -> bool:
    """Return whether a wait is over; so it is when the clock was put back."""
    return since_us is None or not 0 <= now_us - since_us < wait_us
