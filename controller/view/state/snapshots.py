"""Snapshots: the state of each partition of a stream and its effect on the bound, and how they are stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Row, bindparam, func, select, update
from sqlalchemy.orm import Session, aliased

from tidemark.controller.base.db.statements import upsert_many
from tidemark.controller.base.db.tables import (
    KNOWN,
    OverviewRow,
    PartitionRow,
    PolicyRow,
    ReportRow,
    RolloutRow,
    SloRow,
    StreamRow,
)
from tidemark.controller.control.bounds.acknowledgements import newest_acknowledgement_query
from tidemark.controller.control.rollout.store import newest_rollout_query
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.specs.store import DEFAULT_CONFIDENCE_PPM, DEFAULT_SHARE_PPM
from tidemark.controller.specs.streams import add_event
from tidemark.controller.view.state.partition_rows import PartitionFacts
from tidemark.models.base.target import PPM
from tidemark.models.evidence.events import Overdispersion
from tidemark.models.evidence.partition_counts import SkewCost
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.skew import Effect, SkewRule, effects_of, is_skewed
from tidemark.models.live.kept import KeptLive
from tidemark.models.protocol.messages import PartitionState
from tidemark.models.specs.slo import Slo

NOW_US = 600_000_000
"""How far back from the newest batch "now" reaches, in microseconds: ten minutes, or one batch."""


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """One partition. None is unknown."""

    state: PartitionState
    future: bool
    """Whether future-dated rows of it came within the horizon."""
    misdated: bool
    """Whether rows of it came within the horizon whose event time no delay explains."""
    pairs: int
    """(Row, key) pairs of it with a known need over the horizon."""
    need_ms: int | None
    """The bound that admits the share of them, in milliseconds; may be negative."""
    effect: Effect | None
    """Its effect on the bound; None without any pair."""
    skewed: bool


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """The partitions of a stream."""

    from_us: int
    """Where the horizon begins, in microseconds."""
    share_ppm: int
    """The share of pairs that must be admitted."""
    bound_ms: int | None
    """The bound that all partitions need together, in milliseconds; None without enough evidence."""
    partitions: Mapping[str, PartitionSnapshot]

    def count(self, state: PartitionState) -> int:
        """Return how many partitions are in a state."""
        return sum(snapshot.state == state for snapshot in self.partitions.values())

    @property
    def skewed(self) -> list[SkewCost]:
        """The skewed partitions, the most costly first."""
        costs = [
            SkewCost.of(name, one.effect.costs_ms, one.effect.without_ms)
            for name, one in self.partitions.items()
            if one.skewed and one.effect is not None
        ]
        return sorted(costs, key=lambda one: (-one.costs_ms, one.partition))


def take_snapshot(
    needs: PartitionNeeds,
    horizon: Horizon,
    slo: Slo | None,
    *,
    partitions: Iterable[PartitionFacts],
    live: KeptLive | None,
    batch_gap_us: int | None,
    overdispersion: Overdispersion,
    rule: SkewRule,
) -> StreamSnapshot:
    """Return a snapshot of the partitions.

    Args:
        needs: the needs of each partition over the horizon.
        slo: its SLO; None for the defaults.
        live: what the fast policy did in the newest batch; None unless it ran in Live.
        batch_gap_us: typical time between batches; None when it is not known.
        overdispersion: how unevenly late rows came.
    """
    share_ppm = DEFAULT_SHARE_PPM if slo is None else slo.target_ppm
    confidence_ppm = DEFAULT_CONFIDENCE_PPM if slo is None else slo.confidence_ppm
    effects = {
        effect.partition: (effect, need_us)
        for effect, need_us in zip(
            effects_of(needs, share_ppm, confidence_ppm, overdispersion.rows_per_event(share_ppm)),
            needs.needs_at(share_ppm).tolist(),
            strict=True,
        )
    }
    by_partition = {}
    for row in partitions:
        effect, need_us = effects.get(row.partition, (None, None))
        by_partition[row.partition] = PartitionSnapshot(
            state_of(row, horizon, live, batch_gap_us),
            row.last_future_us is not None and row.last_future_us >= horizon.from_us,
            row.last_misdated_us is not None and row.last_misdated_us >= horizon.from_us,
            0 if effect is None else effect.pairs,
            None if need_us is None else int(np.ceil(need_us / 1_000)),
            effect,
            effect is not None
            and is_skewed(effect, len(effects), share_ppm, confidence_ppm, before=row.skewed, rule=rule),
        )
    bound_ms = next((effect.bound_ms for effect, _ in effects.values()), None)
    return StreamSnapshot(horizon.from_us, share_ppm, bound_ms, by_partition)


def state_of(
    row: PartitionFacts, horizon: Horizon, live: KeptLive | None, batch_gap_us: int | None
) -> PartitionState:
    """Return the state of a partition."""
    if row.last_seen_us < horizon.from_us:
        return "Gone"
    if live is not None and row.partition in live.behind:
        return "Behind"
    if live is not None and row.partition in live.idle:
        return "Idle"
    if batch_gap_us is not None and row.silent_at(horizon.newest.seen_us, batch_gap_us):
        return "Idle"
    # In Live the plan holds the ceiling, and the driver itself says what is behind.
    trails = row.behind_us is not None and row.behind_us > horizon.newest.bound_ms * 1_000
    return "Behind" if live is None and trails else "Active"


def read_completeness_now(session: Session, horizon: Horizon) -> tuple[int | None, int | None]:
    """Return the minimum and maximum share admitted in the newest batches, in parts per million; None without rows."""
    read = {"stream": horizon.stream_id, "from": horizon.newest.seen_us - NOW_US}
    # PostgreSQL sums to an exact decimal.
    pairs, late_min, late_max, unjudged = (
        int(number or 0) for number in session.connection().execute(_NEWEST, read).one()
    )
    every = pairs + unjudged
    return ((pairs - late_max) * PPM // every, (every - late_min) * PPM // every) if every else (None, None)


# Built once: building it takes longer than running it.
_NEWEST = select(
    func.sum(ReportRow.pairs),
    func.sum(ReportRow.late_min),
    func.sum(ReportRow.late_max),
    func.sum(ReportRow.unjudged_rows * ReportRow.keys_per_row),
).where(ReportRow.stream_id == bindparam("stream"), ReportRow.seen_us > bindparam("from"))


def read_versions(session: Session) -> Mapping[int, tuple[object, ...]]:
    """Return by stream what a snapshot depends on beside the time: while it stays the same, so does the snapshot."""
    return {row[0]: tuple(row[1:]) for row in session.connection().execute(_VERSIONS)}


# Built once: building it takes longer than running it for a few streams.
_ROLLOUT = aliased(RolloutRow)
_VERSIONS = (
    select(
        StreamRow.id,
        StreamRow.reports,
        SloRow.generation,
        PolicyRow.generation,
        newest_acknowledgement_query(),
        _ROLLOUT.id,
        _ROLLOUT.state,
        _ROLLOUT.reason,
    )
    .outerjoin(SloRow, SloRow.stream_id == StreamRow.id)
    .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
    .outerjoin(_ROLLOUT, _ROLLOUT.id == newest_rollout_query())
    .where(KNOWN)
)


def write_snapshots(session: Session, stream_id: int, snapshot: StreamSnapshot, now_us: int) -> None:
    """Write down the partitions of a locked stream as of a snapshot, with an event for each change of skew."""
    connection = session.connection()
    changed = []
    for row in connection.execute(_STORED, {"stream": stream_id}).all():
        partition = snapshot.partitions.get(row.partition)
        if partition is None:
            continue
        _add_skew_event(session, stream_id, row, partition, now_us)
        effect = partition.effect
        result = {
            "state": partition.state,
            "skewed": partition.skewed,
            "skewed_us": (row.skewed_us or now_us) if partition.skewed else None,
            "pairs": partition.pairs,
            "need_ms": partition.need_ms,
            "without_bound_ms": None if effect is None else effect.without_ms,
            "costs_ms": None if effect is None else effect.costs_ms,
        }
        # A row that stays the same is not written.
        if any(getattr(row, name) != value for name, value in result.items()):
            changed.append({"of_stream": stream_id, "of_partition": row.partition, **result})
    if changed:
        connection.execute(_WRITE, changed)


def write_overview(session: Session, values: Mapping[str, Any]) -> None:
    """Write a snapshot of a locked stream, by column; it replaces an earlier one whole. It bypasses the session."""
    replaced = tuple(name for name in values if name != "stream_id")
    columns = {name: [values[name]] for name in replaced}
    upsert_many(session, OverviewRow, columns, same={"stream_id": values["stream_id"]}, replaced=replaced)


# Built once: building them takes longer than running them.
_RESULT = ("state", "skewed", "skewed_us", "pairs", "need_ms", "without_bound_ms", "costs_ms")
_STORED = (
    select(PartitionRow.partition, *(getattr(PartitionRow, name) for name in _RESULT))
    .where(PartitionRow.stream_id == bindparam("stream"))
    .order_by(PartitionRow.partition)
)
_TABLE = PartitionRow.__table__
_WRITE = (
    update(PartitionRow)
    .where(
        _TABLE.c.stream_id == bindparam("of_stream"),
        _TABLE.c.partition == bindparam("of_partition"),
    )
    .values({name: bindparam(name) for name in _RESULT})
)


def _add_skew_event(
    session: Session, stream_id: int, row: Row[Any], partition: PartitionSnapshot, now_us: int
) -> None:
    if partition.skewed == row.skewed:
        return
    effect = partition.effect
    if partition.skewed and effect is not None:
        reason = SkewCost.of(row.partition, effect.costs_ms, effect.without_ms).text
    else:
        reason = f"partition {row.partition!r} is not skewed any more: it costs too little"
    add_event(
        session,
        stream_id,
        now_us,
        kind="PartitionSkewed" if partition.skewed else "PartitionHealed",
        reason=reason,
        before=json.dumps(row.costs_ms),
        after=json.dumps(None if effect is None else effect.costs_ms),
    )
