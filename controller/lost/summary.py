"""What lists, metrics and alerts show of the rows that are lost by dimension, as of a stream's newest snapshot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy.orm import Session

from tidemark.controller.lost.store import lost_in_window
from tidemark.models.base.read_json import read_object
from tidemark.models.base.target import PPM, format_share
from tidemark.models.base.text import plural
from tidemark.models.evidence.late_counts import BY_PARTITION, ValueLoss, losses

MAX_SHOWN = 10
"""How many values of a stream are shown: those with most lost rows."""


@dataclass(frozen=True, slots=True)
class LostOfValue:
    """What a value lost over the SLO's window."""

    value: str | None
    rows: int
    lost: int


@dataclass(frozen=True, slots=True)
class LostSummary:
    """What the values of a stream's dimension lost over the SLO's window."""

    dimension: str
    """Name of the column."""
    values: tuple[LostOfValue, ...]
    """Those with most lost rows."""
    bias: str | None
    """Which values lose rows far more often than the rest, as a sentence; None when none does."""
    partitions: tuple[LostOfValue, ...] = ()
    """The partitions with most lost rows, where they are counted beside another dimension."""

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LostSummary:
        """Return what ``to_json`` made JSON of."""
        return read_object(cls, json.loads(text))

    @property
    def by_dimension(self) -> dict[str, tuple[LostOfValue, ...]]:
        """What was lost by the values of each dimension."""
        return {BY_PARTITION: self.partitions, self.dimension: self.values}


def lost_summary(session: Session, stream_id: int, window_ms: int) -> LostSummary | None:
    """Return the summary of a stream; None when it has no dimension."""
    found = lost_in_window(session, stream_id, window_ms)
    if found is None:
        return None
    values = [each for each in losses(found.counted) if not each.other]
    partitions = None
    if found.dimension != BY_PARTITION:
        partitions = lost_in_window(session, stream_id, window_ms, BY_PARTITION)
    return LostSummary(
        found.dimension,
        _most_lost(values),
        _bias(found.dimension, [each for each in values if each.biased]),
        () if partitions is None else _most_lost(losses(partitions.counted)),
    )


def _most_lost(values: Sequence[ValueLoss]) -> tuple[LostOfValue, ...]:
    named = [each for each in values if not each.other]
    return tuple(
        LostOfValue(each.value, each.counts.rows, each.counts.lost)
        for each in named[:MAX_SHOWN]
        if each.counts.lost
    )


def _bias(dimension: str, biased: Sequence[ValueLoss]) -> str | None:
    if not biased:
        return None
    worst = max(biased, key=lambda each: each.factor_ppm or 0)
    name = "null" if worst.value is None else repr(worst.value)
    text = (
        f"{dimension} {name} loses rows at least {(worst.factor_ppm or 0) / PPM:.1f} times as often as all other rows: "
        f"{_share(worst.lost_ppm)} of its rows, and {_share(worst.of_lost_ppm)} of all lost rows, with "
        f"{_share(worst.of_rows_ppm)} of all rows"
    )
    more = len(biased) - 1
    return f"{text}; {plural(more, 'more value')} {'is' if more == 1 else 'are'} biased" if more else text


def _share(share_ppm: int | None) -> str:
    return format_share(round(share_ppm or 0, -2))
