"""Partitions that are silent, and how many rows of a window they are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.models.base.target import PPM
from tidemark.models.completeness.arrivals import WindowArrivals
from tidemark.models.completeness.outcome import SilentPartition
from tidemark.models.evidence.progress import PartitionTimes

_GAPS = 2
"""Of its own mean gaps after which a partition may be silent; the rows it is worth say whether that is chance."""
_LONGEST = 60
"""Windows after which a partition has ended, however much is missing since."""
_BEFORE = 20
"""Windows before a silence that tell how many rows one has without it."""
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
    arrivals: WindowArrivals,
    end_us: int,
    *,
    seen_us: int,
    mature_us: int,
    rows: float,
) -> list[SilentPartition]:
    """Return which partitions are silent, and what share of the window that ends at a time they lack, most first.

    One that has been silent for longer than rows take to come has ended, unless windows lack its rows since. Where as
    many have ended as go on, a silence says nothing.

    Args:
        partitions: all that were ever seen.
        arrivals: the stream's windows.
        end_us: end of the window.
        seen_us: when the newest batch was triggered, by the clock.
        mature_us: the age from which on nothing more comes.
        rows: rows that a window usually has.
    """
    base_us, gap_us, start_us = arrivals.base_us, arrivals.gap_us, end_us - arrivals.span_us
    ended_us = base_us - mature_us - arrivals.span_us
    if 2 * sum(one.newest_us < ended_us for one in partitions) > len(partitions):
        return []
    found = []
    for one in partitions:
        times = one.times
        if times.batches < _FEWEST_BATCHES:
            continue
        if one.newest_us < ended_us and not _lacked_since(one, arrivals, ended_us):
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


def _lacked_since(one: PartitionProgress, arrivals: WindowArrivals, until_us: int) -> bool:
    """Return whether windows since a partition fell silent, up to one that is full, lack about as much as it had."""
    first, until = (
        (time_us - arrivals.first_end_us) // arrivals.step_us + 1 for time_us in (one.newest_us, until_us)
    )
    # The window in which it fell silent is neither.
    before = arrivals.so_far[max(first - _BEFORE, 0) : max(first, 0), -1]
    since = arrivals.so_far[max(first + 1, 0) : max(until, 0), -1]
    if not len(before) or until - first > _LONGEST:
        return False
    return not len(since) or bool(since.mean() <= (1 - one.share / 2) * before.mean())
