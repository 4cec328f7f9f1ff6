"""Blocks: what each partition needed in a past span of ten minutes, an hour or a day, ready for heat maps.

A block is made from the needs of partitions once its span is over, and again when a report comes late: counting needs
in a past span sets the mark back (``undo_blocks``). Spans that are not over are read from the needs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from tidemark.controller.db.statements import upsert_many
from tidemark.controller.db.tables import NeedBlockRow, NeedSketchRow, RollupRow
from tidemark.controller.evidence.partition_sums import needs_in_slots
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.slots import DAY_US, HOUR_US, SLOT_US, edge_us

TEN_MINUTES_US = 10 * SLOT_US
"""Width of the narrowest block in microseconds."""

_MARKS = {
    TEN_MINUTES_US: "tens_until_us",
    HOUR_US: "hour_blocks_until_us",
    DAY_US: "day_blocks_until_us",
}


@dataclass(frozen=True, slots=True)
class SlotCells:
    """What partitions needed in one slot."""

    names: Sequence[str]
    """The partitions with rows in the slot."""
    need_ms: Sequence[int]
    """For each, the bound that admits the share of its pairs, in milliseconds, at least 0."""
    pairs: Sequence[int]
    """For each, the number of (row, key) pairs with a known need."""


def cells_of(needs: PartitionNeeds, share_ppm: int) -> SlotCells:
    """Return what each partition needs."""
    bounds = np.maximum(np.ceil(needs.needs_at(share_ppm) / 1_000), 0).astype(np.int64)
    return SlotCells(needs.names, bounds.tolist(), needs.pairs.tolist())


def stored_cells(
    session: Session, stream_id: int, width_us: int, *, from_us: int, until_us: int, share_ppm: int
) -> dict[int, SlotCells]:
    """Return the blocks of one width that begin in a span, by their start.

    Blocks for another share, made before the target changed, are computed again from the needs.
    """
    of = NeedBlockRow
    rows = session.execute(
        select(of.slot_us, of.share_ppm, of.cells).where(
            of.stream_id == stream_id, of.width_us == width_us, of.slot_us >= from_us, of.slot_us < until_us
        )
    ).all()
    return {
        slot_us: SlotCells(*json.loads(cells))
        if made_ppm == share_ppm
        else cells_of(_needs_of(session, stream_id, width_us, slot_us), share_ppm)
        for slot_us, made_ppm, cells in rows
    }


def renew_block(session: Session, stream_id: int, share_ppm: int) -> bool:
    """Remake the newest block that was made for another share; return False when there is none.

    The newest is remade first, so the oldest block of a width shows whether any is left.
    """
    of = NeedBlockRow
    for width_us in _MARKS:
        blocks = select(of).where(of.stream_id == stream_id, of.width_us == width_us)
        oldest = session.scalars(blocks.order_by(of.slot_us).limit(1)).one_or_none()
        if oldest is None or oldest.share_ppm == share_ppm:
            continue
        row = session.scalars(
            blocks.where(of.share_ppm != share_ppm).order_by(of.slot_us.desc()).limit(1)
        ).one()
        row.cells = _json(cells_of(_needs_of(session, stream_id, width_us, row.slot_us), share_ppm))
        row.share_ppm = share_ppm
        return True
    return False


def _needs_of(session: Session, stream_id: int, width_us: int, slot_us: int) -> PartitionNeeds:
    """Return the needs that a block was made from: stored with hourly blocks, by the minute for ten-minute ones."""
    if width_us >= HOUR_US:
        needs = _of_hours(session, stream_id, slot_us, slot_us + width_us)
        if needs.names:
            return needs
    return needs_in_slots(session, stream_id, slot_us, slot_us + width_us)


def _json(cells: SlotCells) -> str:
    return json.dumps([cells.names, cells.need_ms, cells.pairs], separators=(",", ":"), ensure_ascii=False)


def make_block(session: Session, rollup: RollupRow, width_us: int, until_us: int, share_ppm: int) -> bool:
    """Make the next block of one width that is over before ``until_us``; return False when there is none."""
    stream_id, mark = rollup.stream_id, _MARKS[width_us]
    from_us: int = getattr(rollup, mark)
    if width_us == DAY_US:
        until_us = min(until_us, rollup.hour_blocks_until_us)
    first_us = _first(session, stream_id, from_us, until_us, width_us)
    slot_us = None if first_us is None else edge_us(first_us, width_us)
    if slot_us is None or slot_us + width_us > until_us:
        return False
    end_us = slot_us + width_us
    if width_us == DAY_US:
        needs = _of_hours(session, stream_id, slot_us, end_us)
    else:
        needs = needs_in_slots(session, stream_id, slot_us, end_us, max_width_us=width_us)
    block = {
        "width_us": width_us,
        "slot_us": slot_us,
        "share_ppm": share_ppm,
        "cells": _json(cells_of(needs, share_ppm)),
        "needs": needs.to_bytes() if width_us == HOUR_US else None,
    }
    key = {"stream_id": [stream_id]}
    upsert_many(session, NeedBlockRow, key, same=block, replaced=("share_ppm", "cells", "needs"))
    setattr(rollup, mark, end_us)
    return True


def undo_blocks(rollup: RollupRow, seen_us: int) -> None:
    """Have the blocks that contain a time made again."""
    for width_us, mark in _MARKS.items():
        setattr(rollup, mark, min(getattr(rollup, mark), edge_us(seen_us, width_us)))


def forget_blocks(session: Session, stream_id: int, width_us: int, before_us: int) -> None:
    """Delete the blocks of one width that begin before a time."""
    session.execute(
        delete(NeedBlockRow).where(
            NeedBlockRow.stream_id == stream_id,
            NeedBlockRow.width_us == width_us,
            NeedBlockRow.slot_us < before_us,
        )
    )


def _first(session: Session, stream_id: int, from_us: int, until_us: int, width_us: int) -> int | None:
    of = NeedBlockRow if width_us == DAY_US else NeedSketchRow
    statement = select(func.min(of.slot_us)).where(
        of.stream_id == stream_id, of.slot_us >= from_us, of.slot_us < until_us
    )
    narrow = of.width_us == HOUR_US if width_us == DAY_US else of.width_us <= width_us
    return session.scalars(statement.where(narrow)).one()


def _of_hours(session: Session, stream_id: int, from_us: int, until_us: int) -> PartitionNeeds:
    hours = session.scalars(
        select(NeedBlockRow.needs).where(
            NeedBlockRow.stream_id == stream_id,
            NeedBlockRow.width_us == HOUR_US,
            NeedBlockRow.slot_us >= from_us,
            NeedBlockRow.slot_us < until_us,
        )
    )
    return PartitionNeeds.merged([PartitionNeeds.from_bytes(data) for data in hours if data is not None])
