"""A burst in Kafka, of which a batch takes no more than so many rows: the source says what is unread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tidemark.models.base.operators import Int64s
from tidemark.models.live.fast import Order

from support.fast_streams import NOW_US, TEN_SECONDS, FastStream
from support.streams import SECOND
from support.synthetic import Float64s, even_times, fifo, usual_delay

pytestmark = pytest.mark.slow

RATE = 50
SERVED = 4 * RATE
CALM_S = 300
PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class _Burst:
    """Rows in the order in which they are read."""

    event_us: Int64s
    entered_s: Float64s
    read_s: Float64s
    partition: Int64s

    @classmethod
    def of(cls, times: int, seconds: int) -> _Burst:
        """Return rows of which there are so many times as many as usual for so many seconds."""
        rng = np.random.default_rng(37)
        length_s = CALM_S + seconds * (times + 3) // 3
        more = CALM_S + even_times(rng, (times - 1) * RATE, seconds)
        event_s = np.concatenate([even_times(rng, RATE, length_s), more])
        entered_s = event_s + usual_delay(rng, len(event_s))
        order = np.argsort(entered_s)
        event_us = NOW_US + np.rint(event_s[order] * SECOND).astype(np.int64)
        read_s = fifo(entered_s[order], np.empty((0, 2)), SERVED)
        return cls(event_us, entered_s[order], read_s, rng.integers(PARTITIONS, size=len(order)))

    def at(self, second: int) -> tuple[slice, dict[str, int]]:
        """Return which rows the batch of a second reads, and what it leaves by partition."""
        first, last = np.searchsorted(self.read_s, [second - 1, second])
        unread = self.partition[last : np.searchsorted(self.entered_s, second)]
        counts = np.bincount(unread, minlength=PARTITIONS)
        return slice(first, last), {str(name): int(count) for name, count in enumerate(counts)}


@dataclass(frozen=True, slots=True)
class _Outcome:
    kept: float
    wait_s: float


def _run(rows: _Burst, order: Order | None) -> _Outcome:
    """Run it under the fast policy, or under plain Spark with a bound of 0 s.

    Spark puts out what a watermark closes in the batch after the one that moved it, and drops what is late under it
    from the next batch on. That of Live is decided a batch earlier, as where batches run back to back.
    """
    stream = FastStream(TEN_SECONDS, SECOND)
    keys_us = TEN_SECONDS.keys(rows.event_us)[1]
    late, watermarks_us = 0, [0, 0] if order is None else [0, 0, 0]
    closed_us: dict[int, int] = {}
    for second in range(int(rows.read_s[-1]) + 1):
        now_us = stream.now_us
        read, unread = rows.at(second)
        judging_us, in_force_us = watermarks_us[second : second + 2]
        late += int((keys_us[read] <= judging_us).sum())
        for key_us in np.unique(keys_us[keys_us <= in_force_us]).tolist():
            closed_us.setdefault(key_us, now_us)
        if order is None:
            stream.now_us += SECOND
            required_us = int(rows.event_us[read].max(initial=0))
        else:
            named = [
                (str(name), time)
                for name, time in zip(rows.partition[read], rows.event_us[read], strict=True)
            ]
            stream.batch(named, order, unread, watermark_ms=in_force_us // 1_000)
            required_us = stream.decide(order).watermark_us or 0
        watermarks_us.append(max(watermarks_us[-1], required_us))
    waits_us = [closed - key for key, closed in closed_us.items() if key > NOW_US + CALM_S * SECOND]
    return _Outcome(1 - late / len(keys_us), float(np.mean(waits_us)) / SECOND)


@pytest.mark.parametrize(("times", "seconds"), [(20, 20), (5, 120)])
def test_behind_unread_rows_live_keeps_the_target_and_waits_about_as_long_as_plain_spark(
    times: int, seconds: int
) -> None:
    """Whatever the bound is: it is not for streams with a target."""
    rows = _Burst.of(times, seconds)
    live = _run(rows, Order(bound_us=600 * SECOND, target_ppm=990_000))
    plain = _run(rows, None)
    assert live.kept >= 0.99
    assert live.wait_s < 1.25 * plain.wait_s
