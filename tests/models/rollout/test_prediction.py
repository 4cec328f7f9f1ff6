"""What is counted for a prediction: batch by batch, or all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.rollout.evidence import Judged, UnderBound

SPAN_US = 20


@dataclass(frozen=True)
class Batch:
    """A batch that ran with the bound."""

    query_id: str
    seen_us: int
    watermark_ms: int
    late_watermark_ms: int | None
    pairs: int = 10
    late_min: int = 1
    late_max: int = 2


def counted_at_once(batches: Sequence[Batch]) -> UnderBound:
    """Return what the definition says of all batches."""
    restored_ms = {
        query: min(each.watermark_ms for each in batches if each.query_id == query)
        for query in {each.query_id for each in batches}
    }
    since_us = min(
        (each.seen_us for each in batches if each.watermark_ms > restored_ms[each.query_id]), default=None
    )
    counted = [
        each
        for each in batches
        if since_us is not None
        and each.late_watermark_ms is not None
        and each.late_watermark_ms > restored_ms[each.query_id]
        and each.seen_us <= since_us + SPAN_US
    ]
    judged = Judged(10 * len(counted), len(counted), 2 * len(counted))
    return UnderBound(restored_ms, since_us, judged)


@st.composite
def queries(draw: st.DrawFn) -> list[Batch]:
    """Batches of one query or two, whose watermarks never go back; in the order of their arrival."""
    batches = []
    for query_id in draw(st.sampled_from(["a", "ab"])):
        seen_us, watermark_ms = draw(st.integers(0, 10)), draw(st.integers(0, 3))
        late_ms = draw(st.one_of(st.none(), st.integers(0, watermark_ms)))
        for _ in range(draw(st.integers(1, 12))):
            batches.append(Batch(query_id, seen_us, watermark_ms, late_ms))
            late_ms, watermark_ms = watermark_ms, watermark_ms + draw(st.integers(0, 2))
            seen_us += draw(st.integers(1, 5))
    return draw(st.one_of(st.just(batches), st.permutations(batches)))


@given(queries(), st.lists(st.integers(0, 24), max_size=4))
def test_batches_that_are_counted_as_they_come_add_up_to_all_of_them(
    batches: list[Batch], cuts: list[int]
) -> None:
    found = UnderBound()
    edges = sorted({0, *(cut for cut in cuts if cut < len(batches)), len(batches)})
    for first, end in pairwise(edges):
        further = found.with_batches(batches[first:end], SPAN_US)
        found = counted_at_once(batches[:end]) if further is None else further
        assert found == counted_at_once(batches[:end])


@given(queries(), st.integers(0, 24))
def test_batches_in_order_are_never_counted_again(batches: list[Batch], cut: int) -> None:
    in_order = sorted(batches, key=lambda each: (each.query_id, each.watermark_ms, each.seen_us))
    one = [each for each in in_order if each.query_id == "a"]
    before = UnderBound().with_batches(one[:cut], SPAN_US)
    assert before is not None
    assert before.with_batches(one[cut:], SPAN_US) is not None
