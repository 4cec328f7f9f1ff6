"""Which batches ran under a rollout.

A publication carries the rollout whose bound it is, and keeps it when the same bound is published again: after a pin,
under another mode, after the rollback of what followed. So a batch leads by its generation to what was published, and
from there to the rollout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import ColumnElement, bindparam, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import AcknowledgementRow, PublishedRow, ReportRow, RolloutRow

_MOST_AWAY = 200
"""Maximum number of times at which batches do not count that are told apart; what was before the newest of them does
not count at all. Databases limit how many conditions a statement may have."""


class _Ran(Protocol):
    """What a report says a batch ran with."""

    @property
    def generation(self) -> int | None: ...
    @property
    def bound_ms(self) -> int: ...
    @property
    def seen_us(self) -> int: ...


@dataclass(frozen=True, slots=True)
class RolloutBatches:
    """The batches and acknowledgements of a rollout that was published."""

    stream_id: int
    """The stream."""
    generations: tuple[int, ...]
    """Generations that carry it, ascending."""
    bound_ms: int | None
    """Its bound in milliseconds; None: the job's own."""
    live: bool
    """Whether it is one in Live, where the generation of a batch is that of its start and tells nothing."""
    away: tuple[tuple[int, int | None], ...]
    """Times at which its batches do not count, in microseconds, from and until; None: until now.

    Those are the pins. In Live, and for the job's own bound, which has no generation, it is all that was published
    besides.
    """

    def have(self, batch: _Ran) -> bool:
        """Return whether a batch ran under the rollout."""
        if any(
            from_us <= batch.seen_us and (until_us is None or batch.seen_us < until_us)
            for from_us, until_us in self.away
        ):
            return False
        if self.live:
            return True
        if self.bound_ms is None:
            return batch.generation is None
        return batch.generation in self.generations and batch.bound_ms == self.bound_ms

    @property
    def reports(self) -> tuple[ColumnElement[bool], ...]:
        """The same as conditions on reports."""
        seen_us = ReportRow.seen_us
        away = (
            (seen_us < from_us) if until_us is None else (seen_us < from_us) | (seen_us >= until_us)
            for from_us, until_us in self.away
        )
        return (ReportRow.stream_id == self.stream_id, *self._taken(ReportRow, live=self.live), *away)

    @property
    def acknowledgements(self) -> tuple[ColumnElement[bool], ...]:
        """Conditions on the acknowledgements of what carries it."""
        return (AcknowledgementRow.stream_id == self.stream_id, *self._taken(AcknowledgementRow, live=False))

    @property
    def given_in_reports(self) -> tuple[ColumnElement[bool], ...]:
        """Conditions on the reports of runs that were given what carries it, in Live too."""
        return (ReportRow.stream_id == self.stream_id, *self._taken(ReportRow, live=False))

    def _taken(self, table: Any, *, live: bool) -> tuple[ColumnElement[bool], ...]:
        if live:
            return ()
        if self.bound_ms is None:
            return (table.generation.is_(None),)
        found = (table.generation.in_(self.generations),)
        # In Live the bound of a plan is its ceiling.
        return found if self.live else (*found, table.bound_ms == self.bound_ms)


def batches_of(session: Session, row: RolloutRow) -> RolloutBatches:
    """Return the batches of a rollout that was published."""
    published = session.connection().execute(_SINCE, {"stream": row.stream_id, "first": row.generation}).all()
    live, timed = row.mode == "Live", row.mode == "Live" or row.to_bound_ms is None
    away: list[tuple[int, int | None]] = []
    # Before it was published nothing ran under it.
    if timed and published:
        away.append((0, published[0].published_us))
    untils = [each.published_us for each in published[1:]]
    for each, until_us in zip(published, [*untils, None], strict=True):
        carried = each.rollout_id == row.id
        if each.pin is not None or (timed and not carried):
            away.append((each.published_us, until_us))
    generations = tuple(each.generation for each in published if each.rollout_id == row.id)
    if len(away) > _MOST_AWAY:
        away = [(0, away[-_MOST_AWAY][1]), *away[1 - _MOST_AWAY :]]
    return RolloutBatches(row.stream_id, generations, row.to_bound_ms, live, tuple(away))


# Built once: building it takes longer than running it.
_SINCE = (
    select(PublishedRow.generation, PublishedRow.published_us, PublishedRow.pin, PublishedRow.rollout_id)
    .where(PublishedRow.stream_id == bindparam("stream"), PublishedRow.generation >= bindparam("first"))
    .order_by(PublishedRow.generation)
)
