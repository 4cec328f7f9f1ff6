"""Taking snapshots of streams: what lists, charts and alerts show of each, computed now and then and kept in the store.

A snapshot rolls up what waits, finds each partition's effect on the bound and the conditions that hold, and
is written under the stream's lease. Streams with something new get one soon, the others once a minute, because some
conditions come with time alone.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from sqlalchemy.orm import Session

from tidemark.controller.base.background import GivenUpError, GoOn, LimitedRuns, Pause
from tidemark.controller.base.clock import SteadyClock
from tidemark.controller.base.counters import LoopCounters
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.leases import Lease, LeaseKeeper, confirm
from tidemark.controller.base.db.tables import OverviewRow, ReportRow
from tidemark.controller.base.errors import LeaseLostError
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.evidence.horizon import Horizon, open_keys
from tidemark.controller.evidence.lost import lost_summary
from tidemark.controller.evidence.roll_up import locked_offset, roll_up
from tidemark.controller.evidence.window_ages import step_us, windows_of
from tidemark.controller.specs.store import DEFAULT_WINDOW_MS
from tidemark.controller.specs.streams import lock_by_id
from tidemark.controller.view.state.answers import Condition
from tidemark.controller.view.state.budget import BudgetCourse, next_course, read_spent
from tidemark.controller.view.state.conditions import conditions_of
from tidemark.controller.view.state.load import load_horizon, load_states
from tidemark.controller.view.state.provisional_bound import read_provisional_bound
from tidemark.controller.view.state.savings import read_savings
from tidemark.controller.view.state.snapshots import (
    StreamSnapshot,
    read_completeness_now,
    read_versions,
    take_snapshot,
    write_overview,
    write_snapshots,
)
from tidemark.controller.view.state.state import StreamState
from tidemark.controller.view.state.windows import newest_windows
from tidemark.models.completeness.estimate import DEFAULT_SHARE_PPM as SETTLED_PPM
from tidemark.models.completeness.outcome import NewestWindows
from tidemark.models.evidence.partition_counts import PartitionsInState
from tidemark.models.evidence.skew import SkewRule

_log = logging.getLogger(__name__)

SOON_US = 15_000_000
"""Minimum time between two snapshots of a stream with something new, in microseconds."""

QUIET_US = 60_000_000
"""Time between two snapshots of a stream with nothing new, in microseconds."""

WINDOWS_US = 300_000_000
"""Minimum time between two looks for the newest settled window, each of which costs as much as some snapshots."""


class Overviews:
    """Takes snapshots of the streams whose leases this process holds."""

    def __init__(
        self,
        database: Database,
        leases: LeaseKeeper,
        cache: EvidenceCache,
        rule: SkewRule,
        *,
        runs: LimitedRuns,
        counters: LoopCounters,
        steady: SteadyClock,
        give_way: Pause,
    ) -> None:
        self._database = database
        self._leases = leases
        self._kept = cache
        self.rule = rule
        """When a partition is skewed."""
        self._steady = steady
        self._give_way = give_way
        self._runs = runs
        self._counters = counters
        self._done: dict[int, tuple[int, tuple[object, ...]]] = {}

    def tick(self, now_us: int, max_seconds: float = inf) -> int:
        """Take a snapshot of every stream that is due, first of those that waited longest; return how many were taken.

        Args:
            max_seconds: after how long no other snapshot is begun; what is left over comes first the next time.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the store cannot even list the streams.
        """
        began = self._steady()
        with self._database.read() as session:
            versions = read_versions(session)
        waiting = []
        for stream_id, version in versions.items():
            if self._leases.lease_of(stream_id) is None:
                self._done.pop(stream_id, None)
                continue
            at_us, before = self._done.get(stream_id, (None, None))
            pause_us = SOON_US if version != before else QUIET_US
            waited = at_us is None or not 0 <= now_us - at_us < pause_us
            if waited and self._runs.is_due(("snapshot", stream_id)):
                waiting.append((-1 if at_us is None else at_us, stream_id))
        taken = 0
        for _, stream_id in sorted(waiting):
            if self._steady() - began > max_seconds:
                break
            try:
                self.snapshot(stream_id, now_us)
                taken += 1
            except GivenUpError as error:
                _log.warning("the snapshot of stream %d takes too long: %s", stream_id, error)
                self._counters.given_up.inc()
            except LeaseLostError as error:
                _log.warning("%s", error.detail)
                continue  # if it comes back, its snapshot is due at once
            except Exception:  # noqa: BLE001 - the other streams go on whatever happens
                _log.exception("no snapshot of stream %d could be taken; a later tick tries again", stream_id)
            self._done[stream_id] = now_us, versions[stream_id]
        return taken

    def snapshot(self, stream_id: int, now_us: int) -> None:
        """Take a snapshot of one stream and write it, unless the stream is deleted meanwhile.

        Raises:
            GivenUpError: when it takes too long.
            LeaseLostError: when another process took the stream over meanwhile; nothing was written.
        """
        lease = self._leases.lease_of(stream_id)
        if lease is None:
            return
        self._roll_up(stream_id)
        self._give_way()
        self._runs.run(("snapshot", stream_id), partial(self._take, stream_id, lease, now_us))

    def _take(self, stream_id: int, lease: Lease, now_us: int, go_on: GoOn) -> None:
        with self._database.read() as session:
            states = load_states(session, [stream_id])
            if not states:
                return
            overview, partitions = self._snapshot(session, states[0], now_us)
        go_on()
        self._give_way()
        with self._database.write() as session:
            if lock_by_id(session, stream_id) is None:
                return
            if partitions is not None:
                write_snapshots(session, stream_id, partitions, now_us)
            write_overview(session, overview)
            session.flush()
            confirm(session, stream_id, lease)
            go_on()

    def _roll_up(self, stream_id: int) -> None:
        """Roll up what waits: needs by partition that are left cost each reader as much as storing them did."""
        waiting = True
        while waiting:
            self._give_way()
            with self._database.write() as session:
                locked = locked_offset(session, stream_id)
                if locked is None:
                    return
                waiting = roll_up(session, locked[0], self._kept.tail)

    def _snapshot(
        self, session: Session, state: StreamState, now_us: int
    ) -> tuple[dict[str, Any], StreamSnapshot | None]:
        """Return a snapshot by column, and its partitions; None before the first report."""
        stream_id = state.id
        slo = None if state.slo is None else state.slo.value
        lost = lost_summary(session, stream_id, DEFAULT_WINDOW_MS if slo is None else slo.window_ms)
        state = replace(state, lost=lost)
        if state.horizon is None or state.newest is None:
            savings = read_savings(session, state, now_us, self._kept, None)
            return _overview(state, now_us, conditions_of(state, None, now_us), savings=savings), None
        horizon, newest = state.horizon, state.newest
        over_horizon = load_horizon(session, state, now_us, self._kept, ())
        assert over_horizon is not None, "there is a newest batch"
        snapshot = take_snapshot(
            self._kept.partition_needs(session, horizon),
            horizon,
            slo,
            partitions=over_horizon.partitions,
            live=state.live,
            batch_gap_us=over_horizon.progress.batch_gap_us,
            overdispersion=over_horizon.overdispersion,
            rule=self.rule,
        )
        over_horizon = replace(over_horizon, skewed=snapshot.skewed)
        now_min_ppm, now_max_ppm = read_completeness_now(session, horizon)
        present = [partition for partition in snapshot.partitions.values() if partition.state != "Gone"]
        spent = course = None
        if state.slo is not None and slo is not None:
            spent = read_spent(session, Horizon(stream_id, slo.window_ms, newest.report), slo)
            stored = None if state.overview is None else state.overview.budget_course
            course = next_course(
                None if stored is None else BudgetCourse.from_json(stored),
                state.slo.generation,
                slo.window_ms,
                now_us,
                spent.remaining_ppm,
            ).to_json()
        overview = _overview(
            state,
            now_us,
            conditions_of(state, over_horizon, now_us),
            report_id=newest.report.id,
            batch_gap_us=over_horizon.progress.batch_gap_us,
            effective_bound_ms=newest.effective_bound_ms,
            bound_ms=snapshot.bound_ms,
            now_min_ppm=now_min_ppm,
            now_max_ppm=now_max_ppm,
            window_min_ppm=None if spent is None else spent.min_ppm,
            window_max_ppm=None if spent is None else spent.max_ppm,
            remaining_ppm=None if spent is None else spent.remaining_ppm,
            budget_course=course,
            provisional=open_keys(session, newest.report),
            partitions=PartitionsInState(
                total=len(present),
                idle=snapshot.count("Idle"),
                behind=snapshot.count("Behind"),
                skewed=sum(partition.skewed for partition in present),
                future=sum(partition.future for partition in present),
            ),
            most_skewed=next(iter(snapshot.skewed), None),
            provisional_bound=read_provisional_bound(session, state, self._kept),
            savings=read_savings(session, state, now_us, self._kept, spent),
            windows=_windows(session, state, newest.report, over_horizon.progress.batch_gap_us, now_us),
        )
        return overview, snapshot


def _windows(
    session: Session, state: StreamState, newest: ReportRow, gap_us: int | None, now_us: int
) -> NewestWindows:
    """Return the newest settled and closed windows, as of five minutes ago at most, or a part of a long window."""
    before = None if state.overview is None else state.overview.windows
    asked_ppm = SETTLED_PPM if state.slo is None else state.slo.value.target_ppm
    if state.overview is not None and before is not None:
        every_us = max(WINDOWS_US, step_us(newest.operator) // 16)
        again = now_us // every_us == state.overview.seen_us // every_us
        if again or (before.report_id, before.asked_ppm) == (newest.id, asked_ppm):
            return before
    stored = windows_of(session, newest, gap_us)
    return newest_windows(stored, asked_ppm, None if before is None else before.settled_us)


def _overview(state: StreamState, now_us: int, conditions: list[Condition], **columns: Any) -> dict[str, Any]:
    """Return a snapshot by column with what is known; it replaces an earlier one whole, so all else is nothing."""
    nothing = {column.name: None if column.nullable else 0 for column in OverviewRow.__table__.columns}
    named: dict[str, Any] = {
        "stream_id": state.id,
        "seen_us": now_us,
        "provisional": False,
        "partitions": PartitionsInState(total=0, idle=0, behind=0, skewed=0, future=0),
        "conditions": json.dumps([condition.type for condition in conditions]),
        "lost": state.lost,
    }
    return {**nothing, **named, **columns}
