"""The bounds that rows required at recent decisions, as the store keeps them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import NO_LIMITS
from tidemark.controller.base.db.tables import RecentBoundRow
from tidemark.controller.control.bounds.recommendations import keep_bound, recent_bounds_ms
from tidemark.controller.specs.streams import lock_or_make
from tidemark.models.base.defaults import NARROW_STABILISATION_MS

from support.empty_store import open_empty

SPAN_US = NARROW_STABILISATION_MS * 1_000


@pytest.fixture
def session(database_url: str) -> Iterator[Session]:
    database = open_empty(database_url)
    with database.write() as found:
        for stream in ("one", "other"):
            lock_or_make(found, "job", stream, NO_LIMITS)
        yield found
    database.close()


def test_bounds_required_within_the_span_before_a_batch_count_under_one_slo_of_one_stream(
    session: Session,
) -> None:
    for stream_id, slo, at_us, bound_ms in ((1, 1, 0, 900), (1, 1, 5, 800), (1, 2, 6, 700), (2, 1, 6, 600)):
        keep_bound(session, stream_id, slo, at_us, bound_ms)
    assert recent_bounds_ms(session, 1, 1, SPAN_US) == (900, 800)
    assert recent_bounds_ms(session, 1, 1, SPAN_US + 1) == (800,)
    assert recent_bounds_ms(session, 1, 1, 5) == (900,)
    assert recent_bounds_ms(session, 1, 2, 7) == (700,)
    assert recent_bounds_ms(session, 2, 1, 7) == (600,)


def test_a_decision_made_again_on_the_same_batch_takes_the_place_of_the_first(session: Session) -> None:
    for slo, bound_ms in ((1, 900), (1, 800), (2, 700)):
        keep_bound(session, 1, slo, 0, bound_ms)
    assert recent_bounds_ms(session, 1, 1, 1) == ()
    assert recent_bounds_ms(session, 1, 2, 1) == (700,)


def test_what_is_too_old_to_count_is_deleted(session: Session) -> None:
    for at_us in (0, 1, SPAN_US, SPAN_US + 1):
        keep_bound(session, 1, 1, at_us, 5)
    keep_bound(session, 2, 1, 9 * SPAN_US, 5)
    assert session.scalars(select(func.min(RecentBoundRow.at_us))).one() == 1
