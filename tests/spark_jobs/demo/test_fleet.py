"""The fleet in real time: every row once, when it has arrived."""

from __future__ import annotations

import numpy as np

from tidemark.spark_jobs.demo.generator import PARTITIONS, START_US, Fleet

SECOND = 1_000_000


def test_rows_come_once_in_order_and_not_before_they_have_arrived() -> None:
    fleet = Fleet(START_US, 50, 1)
    parts, before_us = [], START_US
    for now_us in range(START_US, START_US + 200 * SECOND, 7 * SECOND):
        part = fleet.arrived(now_us)
        assert (np.diff(part.arrival_time_us) >= 0).all()
        assert ((part.arrival_time_us > before_us) & (part.arrival_time_us <= now_us)).all()
        parts.append(part)
        before_us = now_us
    events = np.concatenate([part.event_time_us for part in parts])
    assert len(np.unique(events)) == len(events)
    # All but those still on their way: 50 a second, as long as the fleet has run.
    assert 0.9 * 50 * 190 < len(events) <= 50 * 240
    assert events.min() >= START_US
    assert {str(number) for number in range(PARTITIONS)} == set(
        np.concatenate([part.partition for part in parts])
    )


def test_after_a_pause_everything_since_comes_at_once() -> None:
    slow, steady = Fleet(START_US, 20, 3), Fleet(START_US, 20, 3)
    moments = [START_US + number * SECOND for number in (10, 70, 130)]
    several = np.concatenate([steady.arrived(now_us).event_time_us for now_us in moments])
    assert slow.arrived(moments[-1]).event_time_us.tolist() == several.tolist()
