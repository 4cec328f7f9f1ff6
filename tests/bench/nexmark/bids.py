"""Nexmark's bids with the delays of a real source, the same at each call: the short stage, and what stages share.

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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.synthetic import fifo

__all__ = [
    "PARTITIONS",
    "RATE",
    "SHORT_S",
    "WINDOW_S",
    "Bids",
    "Drawn",
    "Float64s",
    "Phones",
    "drawn_bids",
    "make_bids",
    "when_online",
]

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]

SHORT_S, _TAIL_S = 480, 60
"""Seconds of the short stage's bids that count, and after those of any stage."""
WINDOW_S = 10
PARTITIONS = 4
"""Regions, and Kafka partitions."""

RATE = 200
"""Bids a second of the short stage."""
_BIDDERS, _AUCTIONS, _HOT_AUCTION_S = 1_000, 100, 20
_CUT_S = np.array([[110.0, 125.0]])


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
    counted_s: int
    """Those before it count: the others close the last windows."""

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which bids count."""
        return self.event_s < self.counted_s


class Phones(NamedTuple):
    """Bidders that are offline for a while, again and again."""

    share: float
    """Of all bidders."""
    online_s: float
    """Mean time online."""
    offline_s: tuple[float, float]
    """Shortest and longest time offline."""


class Drawn(NamedTuple):
    """Bids before anything delays them, in order of event time, as played; arrays of shape (bids,) each."""

    auction: Int64s
    bidder: Int64s
    price: Int64s
    event_s: Float64s
    partition: Int64s
    counted_s: int

    def arriving(self, arrival_s: Float64s) -> Bids:
        """Return them in order of arrival; those that close the windows arrive at once."""
        arrival_s = np.where(self.event_s < self.counted_s, arrival_s, self.event_s)
        order = np.argsort(arrival_s, kind="stable")
        return Bids(
            auction=self.auction[order],
            bidder=self.bidder[order],
            price=self.price[order],
            event_s=self.event_s[order],
            arrival_s=arrival_s[order],
            partition=self.partition[order],
            counted_s=self.counted_s,
        )


def drawn_bids(rng: np.random.Generator, event_s: Float64s, counted_s: int) -> Drawn:
    """Return bids at times, ascending, and those that close the windows."""
    tail_s = counted_s + np.repeat(np.arange(_TAIL_S), PARTITIONS).astype(float)
    event_s = np.concatenate([event_s, tail_s])
    bids, counts = len(event_s), event_s < counted_s
    bidder = rng.integers(0, _BIDDERS, bids)
    region = np.where(counts, bidder, np.arange(bids)) % PARTITIONS
    hot = (event_s // _HOT_AUCTION_S).astype(np.int64) % _AUCTIONS
    auction = np.where(rng.random(bids) < 0.5, hot, rng.integers(0, _AUCTIONS, bids))
    price = np.rint(10 ** (rng.random(bids) * 6) * 100).astype(np.int64)
    return Drawn(auction, bidder, price, event_s, region, counted_s)


def when_online(
    rng: np.random.Generator, phones: Phones, event_s: Float64s, bidder: Int64s, until_s: float
) -> Float64s:
    """Return when each bid is sent: phones keep theirs while they are offline, and go offline until a time."""
    sent_s = event_s.copy()
    for phone in range(int(_BIDDERS * phones.share)):
        own = np.flatnonzero(bidder == phone)
        own_s = event_s[own]
        now_s = rng.exponential(phones.online_s)
        while now_s < until_s:
            back_s = now_s + rng.uniform(*phones.offline_s)
            waiting = own[(own_s >= now_s) & (own_s < back_s)]
            sent_s[waiting] = back_s + rng.random(len(waiting))
            now_s = back_s + rng.exponential(phones.online_s)
    return sent_s


_PHONES = Phones(share=0.1, online_s=60.0, offline_s=(5.0, 40.0))


def make_bids(seed: int = 1) -> Bids:
    """Return the bids of the short stage."""
    rng = np.random.default_rng(seed)
    drawn = drawn_bids(rng, np.sort(rng.uniform(0, SHORT_S, SHORT_S * RATE)), SHORT_S)
    sent_s = when_online(rng, _PHONES, drawn.event_s, drawn.bidder, SHORT_S)
    arrival_s = sent_s + rng.lognormal(np.log(0.2), 0.5, len(sent_s))
    slow = drawn.partition == PARTITIONS - 1
    arrival_s[slow] += 2 + rng.exponential(0.5, slow.sum())
    arrival_s[slow] = fifo(arrival_s[slow], _CUT_S)
    return drawn.arriving(arrival_s)
