"""Partitions that are silent, and how many rows of a window they are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.models.base.target import PPM
from tidemark.models.completeness.outcome import SilentPartition
from tidemark.models.evidence.progress import PartitionTimes

_GAPS = 2
"""Of its own mean gaps after which a partition may be silent; the rows it is worth say whether that is chance."""
_FEWEST_BATCHES = 5
_FEWEST_ROWS = 10
"""Rows that a partition must be worth: where rows come at random, none of ten come in one of 22,000 cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """How far one partition of a stream has come."""

    partition: str
    """Its name."""
    share: float
    """Its share of the stream's rows."""
    newest_us: int
    """Its newest event time, in microseconds."""
    behind_us: int
    """How far that was behind the base when it was last seen, in microseconds."""
    times: PartitionTimes
    """When it was seen, by the clock."""


def missing_of(
    partitions: Sequence[PartitionProgress],
    *,
    start_us: int,
    end_us: int,
    base_us: int,
    seen_us: int,
    gap_us: int,
    mature_us: int,
    rows: float,
) -> list[SilentPartition]:
    """Return which partitions are silent, and what share of a window they lack, the greatest first.

    One that has been silent for longer than rows take to come has ended. Where as many have ended as go on, a silence
    says nothing.

    Args:
        partitions: all that were ever seen.
        start_us: start of the window in microseconds.
        end_us: its end.
        base_us: the stream's newest event time.
        seen_us: when the newest batch was triggered, by the clock.
        gap_us: the usual time from one batch to the next.
        mature_us: the age from which on nothing more comes.
        rows: rows that the window usually has.
    """
    ended = sum(base_us - one.newest_us > mature_us + end_us - start_us for one in partitions)
    if 2 * ended > len(partitions):
        return []
    found = []
    for one in partitions:
        times = one.times
        if times.batches < _FEWEST_BATCHES or base_us - one.newest_us > mature_us + end_us - start_us:
            continue
        own_gap_us = (times.last_seen_us - times.first_seen_us) // (times.batches - 1)
        until_us = min(end_us, base_us - one.behind_us)
        share = one.share * max(until_us - max(one.newest_us, start_us), 0) / (end_us - start_us)
        if seen_us - times.last_seen_us > _GAPS * max(own_gap_us, gap_us) and share * rows >= _FEWEST_ROWS:
            found.append(
                SilentPartition(
                    partition=one.partition, share_ppm=round(share * PPM), newest_us=one.newest_us
                )
            )
    return sorted(found, key=lambda one: (-one.share_ppm, one.partition))
