"""Which batches are believed: those up to the clock, or not far beyond the stream's own pace."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.evidence.misdated import MAX_AHEAD_US, Reached, limit_us, reached_us
from tidemark.models.evidence.slots import DAY_US

TIMES = st.integers(0, 2**60)


@given(last=st.none() | st.builds(Reached, TIMES, TIMES), now_us=TIMES)
def test_an_event_time_up_to_an_hour_beyond_the_clock_is_always_believed(
    last: Reached | None, now_us: int
) -> None:
    assert limit_us(last, now_us) >= now_us + MAX_AHEAD_US


@given(now_us=TIMES, ahead_us=st.integers(-(10**15), 10**15), passed_us=st.integers(0, 10**15))
def test_a_stream_may_go_on_as_far_ahead_as_it_is_for_as_long_as_it_was_away(
    now_us: int, ahead_us: int, passed_us: int
) -> None:
    last = Reached(now_us + ahead_us, now_us)
    later = Reached(last.event_time_us + passed_us, now_us + passed_us)
    assert last.agrees(later)
    assert later.event_time_us <= limit_us(last, later.received_us)
    beyond = Reached(later.event_time_us + MAX_AHEAD_US + 1, later.received_us)
    assert not last.agrees(beyond)


def test_a_clock_put_back_gives_a_stream_no_more_room() -> None:
    last = Reached(2 * DAY_US, DAY_US)
    assert last.limit_us(0) == last.limit_us(DAY_US)


def test_a_batch_reaches_as_far_as_its_rows_its_base_or_its_watermark() -> None:
    assert reached_us(5_000, 2, 3) == 5_000
    assert reached_us(5_000, 7, 3) == 7_000
    assert reached_us(None, None, 9) == 9_000
    # Spark's watermark is 0 before it has read a row.
    assert reached_us(None, None, 0) is None
