"""The ring's order statistic: ranks by hand, evidence, floor, and a naive ring beside it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tidemark.models.live.policy import Decision

from bench.policies.ring import FLOOR_US, Ring
from support.seen import UNKNOWN_US, seen_rows

MS = 1_000


def one_to(rows: int, unit_us: int = 1_000_000) -> list[int]:
    return [row * unit_us for row in range(1, rows + 1)]


@pytest.mark.parametrize(
    ("share_ppm", "rows", "rank"),
    [
        (950_000, 250, 238),  # 237.5
        (950_000, 1_000, 950),
        (990_000, 1_000, 990),
        (990_000, 4_096, 4_056),  # 4,055.04
        (999_000, 4_096, 4_092),  # 4,091.9
        (990_000, 5_000, 4_056),  # more than the ring holds
    ],
)
def test_the_rank_is_the_share_of_the_rows_rounded_up(share_ppm: int, rows: int, rank: int) -> None:
    policy = Ring(share_ppm)
    policy.observe(seen_rows(0, one_to(min(rows, 4_096))))
    if rows > 4_096:
        policy.observe(seen_rows(1, one_to(4_096)))
    assert policy.decide(1, 1).bound_us == rank * 1_000_000


@pytest.mark.parametrize(("rows", "rank"), [(250, 250), (298, 298), (299, 299), (1_000, 996), (4_096, 4_066)])
def test_the_certified_rank_is_the_one_of_95_percent_confidence(rows: int, rank: int) -> None:
    """Below 299 rows nothing certifies 99 %, and the highest is the best there is."""
    policy = Ring(990_000, certified=True)
    policy.observe(seen_rows(0, one_to(rows)))
    assert policy.decide(0, 0).bound_us == rank * 1_000_000


def test_below_250_records_there_is_no_decision() -> None:
    policy = Ring(950_000)
    policy.observe(seen_rows(0, [UNKNOWN_US] * 400))
    policy.observe(seen_rows(1, one_to(249)))
    assert policy.decide(1, 1) == Decision(), "rows that met no base do not count"
    policy.observe(seen_rows(2, [1]))
    assert policy.decide(2, 2).bound_us is not None


def test_the_floor_is_50_milliseconds() -> None:
    policy, free = Ring(950_000), Ring(950_000, floor_us=0)
    for ring in (policy, free):
        ring.observe(seen_rows(0, [-5_000_000, 10 * MS], count=[10, 490]))
    assert policy.decide(0, 0).bound_us == FLOOR_US == 50 * MS
    assert free.decide(0, 0).bound_us == 10 * MS


def test_it_is_a_naive_ring_of_rows() -> None:
    """Batches of 64 rows into 256: whole batches are forgotten, so the last 256 rows are well defined."""
    rng = np.random.default_rng(11)
    policy, everything = Ring(990_000, 256), list[int]()
    for number in range(40):
        needs = rng.integers(-(10**6), 10**7, 64)
        policy.observe(seen_rows(number, needs.tolist()))
        everything += [max(need, 0) for need in needs.tolist()]
        last = sorted(everything[-256:])
        expected = max(last[math.ceil(len(last) * 0.99) - 1], FLOOR_US) if len(everything) >= 250 else None
        assert policy.decide(number, number).bound_us == expected


@pytest.mark.parametrize("share_ppm", [0, 1_000_000])
def test_a_share_that_is_none_is_rejected(share_ppm: int) -> None:
    with pytest.raises(ValueError, match="the share must lie between 0 and 1,000,000 ppm"):
        Ring(share_ppm)
