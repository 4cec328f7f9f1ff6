"""Nexmark's bids with the delays of a real source, the same at each call.

Bidders, auctions and prices are drawn as Nexmark draws them: half of the bids go to the auction that is hot at the
time, and prices are spread evenly over their magnitudes. Nexmark itself has next to no delays; here a bid's delay is
what comes together of

- the network: a fifth of a second, log-normal;
- a slow region, one of four and a Kafka partition like each of them: two seconds more, and half a second on average;
- that region's link, cut once for 15 seconds: its bids wait and leave in order, 2,000 a second;
- phones, a tenth of the bidders: offline for 5 to 40 seconds after a minute online, on average. What was bid meanwhile
  arrives within a second of coming back.

After the bids that count a few arrive at once, a second apart, by which each window is closed in its time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from support.synthetic import fifo

__all__ = ["COUNTED_S", "PARTITIONS", "RATE", "WINDOW_S", "Bids", "Float64s", "make_bids"]

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]

COUNTED_S, TAIL_S = 480, 60
"""Seconds of the bids that count, and after them."""
WINDOW_S = 10
RATE = 200
"""Bids a second that count."""
PARTITIONS = 4
"""Regions, and Kafka partitions; the last one is slow."""

_BIDDERS, _AUCTIONS, _HOT_AUCTION_S = 1_000, 100, 20
_CUT_S = np.array([[110.0, 125.0]])
_PHONE_SHARE, _ONLINE_S, _OFFLINE_S = 0.1, 60.0, (5.0, 40.0)


@dataclass(frozen=True, slots=True)
class Bids:
    """Bids in order of arrival; times in seconds since the stream began, shape (bids,) each."""

    auction: Int64s
    bidder: Int64s
    price: Int64s
    """Cents."""
    event_s: Float64s
    arrival_s: Float64s
    partition: Int64s

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which bids count."""
        return self.event_s < COUNTED_S


def make_bids(seed: int = 1) -> Bids:
    """Return the bids."""
    rng = np.random.default_rng(seed)
    tail_s = COUNTED_S + np.repeat(np.arange(TAIL_S), PARTITIONS).astype(float)
    event_s = np.concatenate([np.sort(rng.uniform(0, COUNTED_S, COUNTED_S * RATE)), tail_s])
    bids, counts = len(event_s), event_s < COUNTED_S
    bidder = rng.integers(0, _BIDDERS, bids)
    region = np.where(counts, bidder, np.arange(bids)) % PARTITIONS
    hot = (event_s // _HOT_AUCTION_S).astype(np.int64) % _AUCTIONS
    auction = np.where(rng.random(bids) < 0.5, hot, rng.integers(0, _AUCTIONS, bids))
    price = np.rint(10 ** (rng.random(bids) * 6) * 100).astype(np.int64)

    sent_s = _when_online(rng, event_s, bidder)
    arrival_s = sent_s + rng.lognormal(np.log(0.2), 0.5, bids)
    slow = region == PARTITIONS - 1
    arrival_s[slow] += 2 + rng.exponential(0.5, slow.sum())
    arrival_s[slow] = fifo(arrival_s[slow], _CUT_S)
    arrival_s[~counts] = event_s[~counts]
    order = np.argsort(arrival_s, kind="stable")
    return Bids(
        auction=auction[order],
        bidder=bidder[order],
        price=price[order],
        event_s=event_s[order],
        arrival_s=arrival_s[order],
        partition=region[order],
    )


def _when_online(rng: np.random.Generator, event_s: Float64s, bidder: Int64s) -> Float64s:
    """Return when each bid is sent: phones hold theirs back while they are offline."""
    sent_s = event_s.copy()
    for phone in range(int(_BIDDERS * _PHONE_SHARE)):
        own = bidder == phone
        now_s = rng.exponential(_ONLINE_S)
        while now_s < COUNTED_S:
            back_s = now_s + rng.uniform(*_OFFLINE_S)
            held = own & (event_s >= now_s) & (event_s < back_s)
            sent_s[held] = back_s + rng.random(held.sum())
            now_s = back_s + rng.exponential(_ONLINE_S)
    return sent_s
