"""A working day of bids, played 30 times as fast: the traffic, the delays and the events that a day has.

All here is in the day's own time, such as an outage of 15 minutes; ``make_day`` divides it by ``SPEED``, so that a
window of 10 s as played is 5 minutes of the day. Bidders, auctions and prices are as in ``bench.nexmark.bids``. A bid's
delay is what comes together of

- the network: 4 s, log-normal, and more of it while there is more traffic;
- phones, a tenth of the bidders: offline for 2 to 12 minutes after two hours online, on average;
- the gateway of each region, four and a Kafka partition each: its bids leave in order, at most 100 a second as played,
  which is three times its usual traffic;
- the events of the day, ``EVENTS``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bench.nexmark.bids import PARTITIONS, Bids, Float64s, Phones, drawn_bids, when_online
from support.synthetic import fifo

__all__ = ["DAY_S", "EVENTS", "SPEED", "Event", "make_day"]

SPEED = 30
"""Seconds of the day in a second as played."""
HOUR_S, DAY_S = 3_600, 86_400

_TRAFFIC = np.array(
    [(0, 30), (6, 30), (10, 130), (12, 140), (13, 120), (17, 150), (20, 120), (22, 60), (24, 30)], float
)
"""Hours, and bids a second as played; between them it changes evenly."""
_USUAL = 100.0
"""Bids a second as played at which the network's delay is twice the one without traffic."""
_NETWORK_S, _NETWORK_SIGMA = 2.0, 0.7
_GATEWAY_PER_S = 100.0
_PHONES = Phones(share=0.1, online_s=2 * HOUR_S, offline_s=(120, 720))


class Event(NamedTuple):
    """What happens at a time of the day."""

    name: str
    begin_s: float
    end_s: float


DEPLOYMENT = Event("deployment", 10.5 * HOUR_S, 10.55 * HOUR_S)
"""All gateways stop for 3 minutes, then catch up."""
SLOW_REGION = Event("slow region", 12 * HOUR_S, 13.5 * HOUR_S)
"""The last region's delays grow to 5 minutes and shrink again."""
SPIKE = Event("spike", 15.5 * HOUR_S, 16 * HOUR_S)
"""Three times the traffic."""
OUTAGE = Event("outage", 18 * HOUR_S, 18.25 * HOUR_S)
"""The link of the second region is cut; its bids come afterwards."""
EVENTS = (
    Event("night", 0, 6 * HOUR_S),
    Event("morning rise", 6 * HOUR_S, 10 * HOUR_S),
    DEPLOYMENT,
    SLOW_REGION,
    SPIKE,
    OUTAGE,
)
_SPIKE_TIMES, _SLOW_S, _SLOW_REGION, _CUT_REGION = 3.0, 300.0, PARTITIONS - 1, 1


def make_day(seed: int = 1) -> Bids:
    """Return the day's bids in order of arrival; times in seconds as played."""
    rng = np.random.default_rng(seed)
    drawn = drawn_bids(rng, _event_times(rng) / SPEED, DAY_S // SPEED)
    event_s = drawn.event_s * SPEED
    entered_s = when_online(rng, _PHONES, event_s, drawn.bidder, DAY_S)
    load = _rate(event_s) / _USUAL
    entered_s += _NETWORK_S * (1 + load) * rng.lognormal(0, _NETWORK_SIGMA, len(event_s))
    slow = drawn.partition == _SLOW_REGION
    entered_s[slow] += _slowness_s(event_s[slow]) * (1 + rng.exponential(0.2, slow.sum()))
    arrival_s = np.empty_like(entered_s)
    for region in range(PARTITIONS):
        stops = [DEPLOYMENT[1:], OUTAGE[1:]] if region == _CUT_REGION else [DEPLOYMENT[1:]]
        own = drawn.partition == region
        arrival_s[own] = fifo(entered_s[own], np.array(stops), _GATEWAY_PER_S / SPEED)
    return drawn.arriving(arrival_s / SPEED)


def _rate(time_s: Float64s) -> Float64s:
    """Return the bids a second as played at times of the day."""
    usual = np.interp(time_s / HOUR_S, *_TRAFFIC.T)
    spike = (time_s >= SPIKE.begin_s) & (time_s < SPIKE.end_s)
    rate: Float64s = np.where(spike, _SPIKE_TIMES * usual, usual)
    return rate


def _event_times(rng: np.random.Generator) -> Float64s:
    """Return when bids are made, ascending."""
    ticks_s = np.arange(0, DAY_S + 1, 10.0)
    bids = np.append(0, np.cumsum(_rate(ticks_s[:-1]) * np.diff(ticks_s) / SPEED))
    times_s: Float64s = np.interp(np.sort(rng.uniform(0, bids[-1], round(bids[-1]))), bids, ticks_s)
    return times_s


def _slowness_s(time_s: Float64s) -> Float64s:
    """Return what the slow region adds to a delay: it grows and shrinks evenly."""
    share = (time_s - SLOW_REGION.begin_s) / (SLOW_REGION.end_s - SLOW_REGION.begin_s)
    slowness_s: Float64s = _SLOW_S * np.clip(1 - np.abs(2 * share - 1), 0, None)
    return slowness_s
