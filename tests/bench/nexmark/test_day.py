"""The day has the events that its description names, and its figure can be read."""

from __future__ import annotations

import json
from itertools import pairwise
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.nexmark.bids import PARTITIONS
from bench.nexmark.day import DEPLOYMENT, HOUR_S, OUTAGE, SLOW_REGION, SPEED, SPIKE, make_day
from bench.nexmark.figure import FIGURES, THEMES, Theme, day_figure, label_boxes
from bench.nexmark.stages import DAY

pytestmark = pytest.mark.slow

bids = make_day()
event_s, arrival_s = bids.event_s * SPEED, bids.arrival_s * SPEED
delay_s = arrival_s - event_s


def between(begin_s: float, end_s: float) -> NDArray[np.bool_]:
    """Return which bids were made between two times of the day."""
    return (event_s >= begin_s) & (event_s < end_s) & bids.counted


def test_the_night_is_quiet_the_morning_rises_and_the_spike_is_three_times_as_much() -> None:
    by_hour = np.bincount((event_s[bids.counted] // HOUR_S).astype(int))
    assert by_hour[:6].max() < by_hour[12] / 4
    assert (np.diff(by_hour[5:10]) > 0).all()
    usual, spike = between(14.5 * HOUR_S, 15 * HOUR_S).sum(), between(*SPIKE[1:]).sum()
    assert 2.8 < spike / usual < 3.4


def test_nothing_arrives_during_the_deployment_and_all_of_it_soon_after() -> None:
    assert not ((arrival_s > DEPLOYMENT.begin_s + 1) & (arrival_s < DEPLOYMENT.end_s)).any()
    assert np.median(arrival_s[between(*DEPLOYMENT[1:])]) < DEPLOYMENT.end_s + 3 * 60


def test_one_region_is_up_to_five_minutes_slow_at_noon() -> None:
    noon = between(*SLOW_REGION[1:])
    median_s = [np.median(delay_s[noon & (bids.partition == region)]) for region in range(PARTITIONS)]
    assert max(median_s[:-1]) < 20
    assert median_s[-1] > 120
    middle_s = (SLOW_REGION.begin_s + SLOW_REGION.end_s) / 2
    assert 290 < np.median(delay_s[between(middle_s - 300, middle_s + 300) & (bids.partition == 3)]) < 420


def test_the_bids_of_the_outage_come_after_it_and_in_order() -> None:
    cut = bids.partition == 1
    arrivals_s = arrival_s[cut & (arrival_s < OUTAGE.end_s + HOUR_S)]
    assert 14 * 60 < np.diff(arrivals_s).max() < 16 * 60
    late = arrival_s[cut & between(*OUTAGE[1:])]
    assert (late >= OUTAGE.end_s).mean() > 0.98
    assert late.max() < OUTAGE.end_s + 30 * 60


def test_phones_are_late_by_minutes_and_they_are_few() -> None:
    quiet = between(14 * HOUR_S, 15 * HOUR_S)
    assert 0.001 < (delay_s[quiet] > 120).mean() < 0.01
    assert {*bids.bidder[quiet & (delay_s > 120)]} <= {*range(100)}


@pytest.mark.parametrize("theme", THEMES, ids=[theme.name for theme in THEMES])
def test_the_figure_is_what_the_record_says(theme: Theme) -> None:
    drawn = day_figure(json.loads(DAY.record.read_text(encoding="utf-8")), theme)
    assert FIGURES[theme.name].read_text(encoding="utf-8") == drawn, (
        "the record has changed: run `make figure`"
    )
    assert ET.fromstring(drawn).find("{http://www.w3.org/2000/svg}title") is not None


@pytest.mark.parametrize("theme", THEMES, ids=[theme.name for theme in THEMES])
def test_text_and_lines_stand_out_from_the_ground(theme: Theme) -> None:
    for ground in (theme.ground, theme.band):
        texts = [theme.ink, theme.faint_ink, theme.target]
        assert min(_contrast(colour, ground) for colour in texts) >= 4.5
        assert min(_contrast(colour, ground) for colour in theme.lines) >= 3


def _contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21, as WCAG 2 defines it."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_no_label_of_an_event_overlaps_another() -> None:
    assert all(before[1] < after[0] for before, after in pairwise(label_boxes()))
