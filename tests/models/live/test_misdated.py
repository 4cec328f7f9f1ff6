"""Misdated rows in Live: they move no watermark, hold none, and cost no budget."""

from __future__ import annotations

import random

import pytest

from tidemark.models.live.fast import Order

from support.fast_streams import OPERATORS, TEN_SECONDS, FastStream
from support.streams import SECOND

BY_BOUND = Order(bound_us=10 * SECOND)
BY_TARGET = Order(bound_us=10 * SECOND, target_ppm=990_000)


@pytest.mark.parametrize("order", [BY_BOUND, BY_TARGET], ids=["bound", "target"])
@pytest.mark.parametrize("operator", OPERATORS, ids=str)
def test_a_producer_that_writes_seconds_changes_no_watermark(operator: object, order: Order) -> None:
    """Neither in a partition with others nor in one of its own, which would hold the watermark in 1970."""
    dice = random.Random(5)
    plain, mixed = FastStream(operator), FastStream(operator)  # type: ignore[arg-type]  # an operator
    for _ in range(60):
        now_us = plain.now_us
        rows = [(str(n % 2), now_us - round(dice.expovariate(0.5) * SECOND)) for n in range(20)]
        plain.batch(rows, order)
        mixed.batch([*rows, ("0", now_us // 1_000), ("own", now_us // 1_000)], order)
        assert mixed.decide(order).watermark_us == plain.decide(order).watermark_us


def test_a_partition_that_begins_to_write_seconds_does_not_hold_the_others() -> None:
    stream = FastStream(TEN_SECONDS)
    for batch in range(30):
        divisor = 1 if batch < 10 else 1_000
        stream.batch([("0", stream.now_us), ("3", stream.now_us // divisor)], BY_BOUND, backlog={"3": 1})
    assert stream.decide(BY_BOUND).watermark_us == stream.now_us - SECOND - 10 * SECOND


def test_where_every_row_is_in_seconds_nothing_is_decided_by_them() -> None:
    stream = FastStream(TEN_SECONDS)
    for _ in range(30):
        stream.batch([("0", stream.now_us // 1_000)], BY_TARGET)
    assert (stream.decide(BY_TARGET).watermark_us or 0) <= stream.now_us // 1_000
