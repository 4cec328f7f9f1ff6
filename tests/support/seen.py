"""What a policy sees, made by hand or drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tidemark.models.live.policy import NO_BASE_US, Observation

__all__ = ["UNKNOWN_US", "drawn_batches", "seen_rows"]

UNKNOWN_US = NO_BASE_US + 123_000
"""A need against no base."""
_WINDOW_US = 10_000_000
_GRANULE_US = 1_000_000


def seen_rows(
    now_us: int,
    need_us: Iterable[int],
    *,
    partition: Iterable[int] | None = None,
    count: Iterable[int] | None = None,
    partitions: int = 1,
) -> Observation:
    """Return a batch in which each need is a count; by default all rows single, in partition 0.

    Keys are those of rows, each a cohort of its own.
    """
    need = np.array(list(need_us), np.int64)
    return Observation(
        now_us=now_us,
        partition=np.zeros(len(need), np.int64) if partition is None else np.array(list(partition), np.int64),
        key_us=now_us - need,
        event_us=now_us - need,
        count=np.ones(len(need), np.int64) if count is None else np.array(list(count), np.int64),
        need_us=need,
        base_us=np.full(partitions, now_us, np.int64),
    )


def drawn_batches(
    seed: int, batches: int, *, partitions: Sequence[int] = (3,), scale: int = 1, step_us: int = 10_000_000
) -> list[Observation]:
    """Return the batches of a stream as a tap of Spark's would show it; needs are above any policy's floor.

    Keys are the ends of windows of 10 s, cohorts last 1 s, both before scaling. The first two batches know no base.
    Now and then a batch is empty, and needs swell for a while in the middle.

    Args:
        seed: seed of every draw.
        batches: how many.
        partitions: how many partitions are known; with two numbers they change at half time.
        scale: every time is multiplied by it.
        step_us: distance between two batches, before scaling.
    """
    rng = np.random.default_rng(seed)
    result = []
    for number in range(batches):
        known = partitions[0] if number < batches // 2 else partitions[-1]
        size = 0 if rng.random() < 0.1 else int(rng.integers(1, 60))
        swell = 20 if batches // 3 < number < batches // 2 else 1
        need_ms = 100 + np.floor(1_000 * swell * rng.exponential(size=size)).astype(np.int64)
        now_us = (1_000 + number) * step_us * scale
        event_us = (now_us - need_ms * 1_000 * scale) // (_GRANULE_US * scale) * _GRANULE_US * scale
        key_us = (event_us // (_WINDOW_US * scale) + 1) * _WINDOW_US * scale
        partition, count = rng.integers(0, known, size), rng.integers(1, 30, size)
        order = np.lexsort((key_us, event_us, partition))
        blind = number < 2
        result.append(
            Observation(
                now_us=now_us,
                partition=partition[order],
                key_us=key_us[order],
                event_us=event_us[order],
                count=count[order],
                need_us=np.full(size, UNKNOWN_US) if blind else need_ms[order] * 1_000 * scale,
                base_us=np.full(known, now_us, np.int64),
            )
        )
    return result
