"""Snapshots of a stream's partitions: the state of each, and its effect on the bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from sqlalchemy.orm import Session

from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.evidence.needs import partition_needs
from tidemark.controller.specs.store import DEFAULT_CONFIDENCE_PPM, DEFAULT_SHARE_PPM
from tidemark.controller.stream_state.live import KeptLive
from tidemark.controller.stream_state.partition_rows import PartitionFacts
from tidemark.models.evidence.skew import Effect, SkewRule, effects_of, is_skewed
from tidemark.models.protocol.messages import PartitionState
from tidemark.models.specs.slo import Slo


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """One partition. None is unknown."""

    state: PartitionState
    """Its state."""
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
    """Whether it is skewed."""


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
    """By name."""

    def count(self, state: PartitionState) -> int:
        """Return how many partitions are in a state."""
        return sum(snapshot.state == state for snapshot in self.partitions.values())

    @property
    def worst(self) -> tuple[str, Effect] | None:
        """The name of the skewed partition that costs most, with its effect; None without any."""
        skewed = [
            (-(snapshot.effect.costs_ms or 0), name, snapshot.effect)
            for name, snapshot in self.partitions.items()
            if snapshot.skewed and snapshot.effect is not None
        ]
        return None if not skewed else min(skewed, key=lambda each: each[:2])[1:]


def take_snapshot(
    session: Session,
    horizon: Horizon,
    slo: Slo | None,
    *,
    partitions: Iterable[PartitionFacts],
    live: KeptLive | None,
    batch_gap_us: int | None,
    rule: SkewRule,
) -> StreamSnapshot:
    """Return a snapshot of the partitions.

    Args:
        session: the session.
        horizon: the stream's horizon.
        slo: its SLO; None for the defaults.
        partitions: all its partitions.
        live: what the fast policy did in the newest batch; None unless it ran in Live.
        batch_gap_us: typical time between batches; None when it is not known.
        rule: when a partition is skewed.
    """
    share_ppm = DEFAULT_SHARE_PPM if slo is None else slo.target_ppm
    confidence_ppm = DEFAULT_CONFIDENCE_PPM if slo is None else slo.confidence_ppm
    needs = partition_needs(session, horizon.stream_id, horizon.from_us)
    effects = {
        effect.partition: (effect, need_us)
        for effect, need_us in zip(
            effects_of(needs, share_ppm, confidence_ppm), needs.needs_at(share_ppm).tolist(), strict=True
        )
    }
    found = {}
    for row in partitions:
        effect, need_us = effects.get(row.partition, (None, None))
        found[row.partition] = PartitionSnapshot(
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
    return StreamSnapshot(horizon.from_us, share_ppm, bound_ms, found)


def state_of(
    row: PartitionFacts, horizon: Horizon, live: KeptLive | None, batch_gap_us: int | None
) -> PartitionState:
    """Return the state of a partition."""
    if row.times.last_seen_us < horizon.from_us:
        return "Gone"
    if live is not None and row.partition in live.behind:
        return "Behind"
    if live is not None and row.partition in live.idle:
        return "Idle"
    if batch_gap_us is not None and row.times.silent_at(horizon.newest.seen_us, batch_gap_us):
        return "Idle"
    # In Live the plan holds the ceiling, and the driver itself says what is behind.
    trails = row.behind_us is not None and row.behind_us > horizon.newest.bound_ms * 1_000
    return "Behind" if live is None and trails else "Active"
