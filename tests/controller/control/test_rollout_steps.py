"""Single steps of a rollout in the store: what counts for it, what it publishes, and how long a failure holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import NO_LIMITS
from tidemark.controller.base.db.tables import (
    EventRow,
    FailedBoundRow,
    PolicyRow,
    PublishedRow,
    ReportRow,
    RolloutRow,
    StreamRow,
)
from tidemark.controller.control.bounds.publication import SteeredStream
from tidemark.controller.control.rollout.advance import apply_move
from tidemark.controller.control.rollout.effect import count_at_risk, read_latency_us
from tidemark.controller.control.rollout.failed_bounds import (
    carry_failures,
    envelope_failed,
    keep_failure,
    read_failures,
)
from tidemark.controller.control.rollout.publish import publish_rollout
from tidemark.controller.control.rollout.store import (
    RolloutRules,
    missed_rollout_query,
    narrowed_us,
    published_before,
    read_fleet_share,
    unanswered_us,
    verified_narrowing,
)
from tidemark.controller.specs.store import Spec
from tidemark.controller.specs.streams import lock_or_make
from tidemark.models.base.defaults import FAILED_LONGEST_MS, FAILED_MS
from tidemark.models.protocol.messages import Envelope
from tidemark.models.rollout.states import Failure, Move
from tidemark.models.specs.slo import Policy, Slo

from support.empty_store import open_empty
from support.reports import START_US, exponential_batches, query_reports
from support.streams import SECOND
from support.taking import take_reports

HOUR_US = 3_600 * SECOND
GENERATION = 7
RULES = RolloutRules(
    Spec(Slo(target_ppm=990_000), 1, START_US),
    Spec(Policy(mode="OnRestart", approval="none"), 1, START_US),
    pin=None,
    fleet=None,
)


@pytest.fixture
def session(database_url: str) -> Iterator[Session]:
    """A transaction on a store that has twelve batches, all run with the same published bound."""
    database = open_empty(database_url)
    with database.write() as found:
        take_reports(
            found, query_reports(exponential_batches(12, 20), generation=GENERATION), START_US + HOUR_US
        )
        yield found
    database.close()


def rollout_row(session: Session, **changes: Any) -> RolloutRow:
    """Return a stored narrowing of the only stream to 5 s, which is in effect and has counted no batch."""
    fields: dict[str, Any] = {
        "stream_id": session.scalars(select(ReportRow.stream_id)).first(),
        "state": "Effective",
        "reason": "in effect",
        "cause": "Decision",
        "direction": "Narrow",
        "first": False,
        "mode": "OnRestart",
        "to_bound_ms": 5_000,
        "generation": GENERATION,
        "effective_us": START_US,
        "effective_watermark_ms": 0,
        "at_risk_from_ms": 0,
        **dict.fromkeys(("needed_rows", "needed_event_ms", "report_id"), 0),
        **dict.fromkeys(("slo_generation", "policy_generation"), 1),
        **dict.fromkeys(("created_us", "changed_us"), START_US),
    }
    row = RolloutRow(**{**fields, **changes})
    session.add(row)
    session.flush()
    return row


def steered(session: Session, now_us: int = START_US) -> SteeredStream:
    """Return the stream that has reports, locked."""
    row = session.get_one(StreamRow, session.scalars(select(ReportRow.stream_id)).first())
    return SteeredStream(session, row, now_us, locked=True)


def carry(session: Session, row: RolloutRow, generation: int = GENERATION, **changes: Any) -> None:
    """Store a publication that carries a rollout."""
    fields: dict[str, Any] = {
        "mode": row.mode,
        "bound_ms": row.to_bound_ms,
        "reason": "why",
        "published_us": 0,
    }
    fields |= {"stream_id": row.stream_id, "generation": generation, "rollout_id": row.id}
    session.add(PublishedRow(**{**fields, **changes}))
    session.flush()


def test_rows_that_come_under_a_pin_are_not_at_risk_under_the_rollout_that_it_holds(session: Session) -> None:
    """The job may still run with the rollout's bound, or may not: they prove nothing about it."""
    reports = session.scalars(select(ReportRow).order_by(ReportRow.id)).all()
    row = rollout_row(session)
    carry(session, row)
    carry(session, row, GENERATION + 1, pin="Ceiling", published_us=reports[6].seen_us)
    count_at_risk(steered(session), row)
    before = [each for each in reports[:6] if each.late_watermark_ms]
    assert row.at_risk.rows == sum(each.pairs for each in before) > 0
    assert row.event_ms == max(each.watermark_ms for each in reports[:6])
    # The others have passed all the same, and are not made up for.
    assert row.counted_report_id == reports[-1].id


def test_counting_begins_a_window_after_the_first_batch_under_the_bound_and_says_how_much_it_needs(
    session: Session,
) -> None:
    """A window that was open before may have lost rows under the bound before."""
    reports = session.scalars(select(ReportRow).order_by(ReportRow.id)).all()
    row = rollout_row(session, at_risk_from_ms=None, effective_us=reports[7].seen_us, from_bound_ms=60_000)
    carry(session, row)
    count_at_risk(steered(session), row)
    first = reports[7]
    assert row.effective_watermark_ms == first.watermark_ms
    assert row.at_risk_from_ms == first.watermark_ms + 10_000
    assert row.needed_event_ms == 10 * 10_000 + 60_000
    assert row.counted_report_id == reports[-1].id
    assert row.event_ms == reports[-1].watermark_ms - first.watermark_ms
    own = rollout_row(session, at_risk_from_ms=None, effective_us=first.seen_us, in_use_bound_ms=7_000)
    count_at_risk(steered(session), own)
    assert own.needed_event_ms == 10 * 10_000 + 7_000


def test_only_rows_judged_above_the_first_watermark_at_risk_under_the_rollouts_own_generation_count(
    session: Session,
) -> None:
    reports = session.scalars(select(ReportRow).order_by(ReportRow.id)).all()
    from_ms = reports[8].late_watermark_ms
    assert from_ms is not None
    row = rollout_row(session, at_risk_from_ms=from_ms)
    carry(session, row)
    count_at_risk(steered(session), row)
    above = [each for each in reports if (each.late_watermark_ms or 0) > from_ms]
    assert 0 < len(above) < 4
    assert row.at_risk.rows == sum(each.pairs for each in above)
    assert row.at_risk.late_max == sum(each.late_max for each in above)
    other = rollout_row(session, generation=GENERATION + 1)
    carry(session, other, GENERATION + 1)
    count_at_risk(steered(session), other)
    assert (other.at_risk.rows, other.event_ms) == (0, 0)
    live = rollout_row(session, generation=GENERATION + 2, mode="Live")
    carry(session, live, GENERATION + 2)
    count_at_risk(steered(session), live)
    assert live.at_risk.rows == sum(each.pairs for each in reports if each.late_watermark_ms)


@pytest.mark.parametrize(("before", "missed"), [("Verified", True), ("Effective", False)])
def test_a_bound_that_loses_rows_goes_back_is_kept_as_failed_and_missed_if_it_was_verified(
    session: Session, before: str, missed: bool
) -> None:
    row = rollout_row(session, state=before, from_bound_ms=60_000)
    apply_move(steered(session), row, Move("RolledBack", "it lost rows", failure="Completeness"), RULES)
    assert (row.state, row.ended_us, row.changed_us) == ("RolledBack", START_US, START_US)
    assert row.missed_us == (START_US if missed else None)
    assert [found.bound_ms for found in session.scalars(select(FailedBoundRow))] == [5_000]
    published = session.scalars(select(PublishedRow)).one()
    assert (published.bound_ms, published.rolled_back_id) == (60_000, row.id)
    event = session.scalars(select(EventRow).where(EventRow.kind == "RolloutRolledBack")).one()
    assert (event.reason, event.rollout_id) == ("it lost rows", row.id)


def test_a_verified_rollout_that_misses_its_target_and_recovers_says_each_once(session: Session) -> None:
    row = rollout_row(session, state="Verified", direction="Widen")
    apply_move(steered(session), row, Move("Verified", "it misses", failure="Completeness"), RULES)
    assert (row.missed_us, row.ended_us) == (START_US, None)
    apply_move(steered(session, START_US + 1), row, Move("Verified", "it meets it"), RULES)
    assert (row.missed_us, row.reason) == (None, "it meets it")
    kinds = session.scalars(select(EventRow.kind).order_by(EventRow.id)).all()
    assert [kind for kind in kinds if kind.startswith("Rollout")] == ["RolloutMissed", "RolloutRecovered"]


def test_a_bound_is_limited_again_when_it_is_published(session: Session) -> None:
    """The limits may have changed while it waited for a person."""
    row = rollout_row(session, state="Published", generation=None)
    limited = replace(RULES, policy=replace(RULES.policy, value=Policy(mode="Restart", min_bound_ms=8_000)))
    publish_rollout(steered(session), row, limited)
    assert (row.to_bound_ms, row.mode, row.published_us) == (8_000, "Restart", START_US)


def test_the_time_until_a_failed_bound_is_tried_again_doubles_up_to_the_longest(session: Session) -> None:
    row = rollout_row(session)
    for _ in range(12):
        keep_failure(session, row, "Completeness", "it lost rows", 0, slo_generation=1, policy_generation=1)
        session.flush()
    keep_failure(session, row, "Completeness", "it lost rows", 0, slo_generation=2, policy_generation=1)
    session.flush()
    held_ms = [
        found.until_us // 1_000
        for found in session.scalars(select(FailedBoundRow).order_by(FailedBoundRow.id))
    ]
    assert held_ms[:3] == [FAILED_MS, 2 * FAILED_MS, 4 * FAILED_MS]
    assert held_ms[-2:] == [FAILED_LONGEST_MS, FAILED_MS]


def test_a_failed_bound_counts_under_its_slo_and_policy_until_its_time_and_a_veto_for_good(
    session: Session,
) -> None:
    row, envelope = rollout_row(session), rollout_row(session, cause="Operator", to_envelope=Envelope())
    rollout_row(session, state="RolledBack", reason="rolled back: INC-7", vetoed=True, to_bound_ms=4_000)
    for failing in (row, envelope):
        keep_failure(session, failing, "Latency", "too slow", 0, slo_generation=1, policy_generation=1)
    session.flush()
    until_us, veto = FAILED_MS * 1_000, Failure("Narrow", 4_000, None, "rollout 3 was rolled back: INC-7", 3)
    failed = Failure("Narrow", 5_000, until_us, "too slow", row.id)
    stream_id = row.stream_id
    assert read_failures(session, stream_id, 1, 1, until_us - 1) == (veto, failed)
    assert read_failures(session, stream_id, 1, 1, until_us) == (veto,)
    assert read_failures(session, stream_id, 2, 1, 0) == read_failures(session, stream_id, 1, 2, 0) == (veto,)
    assert read_failures(session, stream_id + 1, 1, 1, 0) == ()


def test_failures_go_on_under_the_next_generation_of_a_policy_that_changes_nothing_about_them(
    session: Session,
) -> None:
    row = rollout_row(session)
    for policy in (1, 2):
        keep_failure(session, row, "Latency", "too slow", 0, slo_generation=1, policy_generation=policy)
    session.flush()
    carry_failures(session, row.stream_id, 2, 3)
    carry_failures(session, row.stream_id + 1, 1, 3)
    assert [len(read_failures(session, row.stream_id, 1, policy, 0)) for policy in (1, 2, 3)] == [1, 0, 1]


def test_a_rollout_that_missed_its_target_is_found_while_what_is_published_follows_from_it(
    session: Session,
) -> None:
    """While its bound is published, or what was before it is published again."""

    def missed(row: RolloutRow, **carried: int) -> bool:
        published = PublishedRow(
            stream_id=row.stream_id,
            generation=1,
            mode="OnRestart",
            reason="why",
            published_us=0,
            **carried,
        )
        session.add(published)
        session.flush()
        found = session.scalars(select(missed_rollout_query(PublishedRow)).select_from(PublishedRow)).one()
        session.delete(published)
        session.flush()
        return found == row.id

    stands = rollout_row(session, state="Verified", missed_us=5)
    undone = rollout_row(session, state="RolledBack", missed_us=5)
    met = rollout_row(session, state="Verified")
    assert missed(stands, rollout_id=stands.id)
    assert not missed(stands, rollout_id=met.id)
    assert missed(undone, rolled_back_id=undone.id)
    assert not missed(undone, rollout_id=undone.id)
    assert not missed(stands, rolled_back_id=stands.id)
    stands.missed_us = None
    assert not missed(stands, rollout_id=stands.id)


def test_an_envelope_counts_as_failed_until_its_time_and_a_vetoed_one_for_good(session: Session) -> None:
    lost, vetoed, of_a_bound, other = (Envelope(max_bound_ms=limit) for limit in range(4))
    row = rollout_row(session, cause="Operator", to_envelope=lost)
    rollout_row(session, cause="Operator", to_envelope=vetoed, vetoed=True)
    rollout_row(session, cause="Decision", to_envelope=of_a_bound, vetoed=True)
    keep_failure(session, row, "Completeness", "it lost rows", 0, slo_generation=1, policy_generation=1)
    session.flush()

    def failed(envelope: Envelope, now_us: int = 0, policy_generation: int = 1) -> bool:
        return envelope_failed(
            session,
            row.stream_id,
            envelope,
            now_us,
            slo_generation=1,
            policy_generation=policy_generation,
        )

    assert [failed(each) for each in (lost, vetoed, of_a_bound, other)] == [True, True, False, False]
    until_us = FAILED_MS * 1_000
    assert [failed(lost, at_us) for at_us in (until_us - 1, until_us)] == [True, False]
    assert [failed(each, until_us, policy_generation=2) for each in (lost, vetoed)] == [False, True]


def test_what_a_person_vetoed_is_not_kept_as_failed_for_a_while(session: Session) -> None:
    for kind in ("ByHand", "Discarded"):
        row = rollout_row(session)
        keep_failure(session, row, kind, "INC-7", 0, slo_generation=1, policy_generation=1)
        assert row.vetoed
    assert session.scalars(select(FailedBoundRow)).all() == []


def test_narrowings_that_were_taken_up_and_those_that_a_wider_bound_does_not_replace_slow_the_next_one(
    session: Session,
) -> None:
    rollout_row(session, published_us=9, acknowledged_us=9)
    rollout_row(session, published_us=30)
    rollout_row(session, published_us=10, acknowledged_us=10)
    rollout_row(session, published_us=20, acknowledged_us=20, direction="Widen")
    stream_id = rollout_row(session).stream_id
    assert narrowed_us(session, stream_id, 10, 5_000) == (10, 30)
    assert narrowed_us(session, stream_id, 10, None) == (10, 30)
    assert narrowed_us(session, stream_id, 10, 5_001) == (10,)
    assert narrowed_us(session, stream_id + 1, 10, 5_000) == ()


def test_a_job_has_left_unanswered_what_it_should_have_taken_since_it_last_answered(session: Session) -> None:
    rollout_row(session, mode="OnRestart", published_us=5)
    rollout_row(session, mode="Live", published_us=7, acknowledged_us=8)
    rollout_row(session, mode="Live", published_us=20)
    stream_id = rollout_row(session, mode="Restart", published_us=10).stream_id
    assert [unanswered_us(session, stream_id, at_us) for at_us in (0, 9, 10, 19, 20)] == [
        10,
        10,
        20,
        20,
        None,
    ]
    assert unanswered_us(session, stream_id + 1, 0) is None


def test_the_fleets_share_counts_other_streams_whose_narrowing_is_under_way_once_each(
    session: Session,
) -> None:
    own = rollout_row(session, state="Published").stream_id
    streams = [lock_or_make(session, "job", f"s{number}", NO_LIMITS)[0].id for number in range(5)]
    for state in ("Published", "Effective"):
        rollout_row(session, stream_id=streams[0], state=state)
    rollout_row(session, stream_id=streams[1], state="Acknowledged")
    rollout_row(session, stream_id=streams[2], state="Verified")
    rollout_row(session, stream_id=streams[3], state="Published", direction="Widen")
    assert read_fleet_share(session, 400_000, steered(session)) == (2, 1), "one always may"
    for stream_id, mode in zip(
        [own, *streams], ["Live", "OnRestart", "Restart", "Live", "Live", "Off"], strict=True
    ):
        session.add(
            PolicyRow(stream_id=stream_id, mode=mode, specification=Policy(), generation=1, updated_us=0)
        )
    session.flush()
    assert read_fleet_share(session, 400_000, steered(session)) == (2, 2)
    assert read_fleet_share(session, 400_000) == (3, 2), "its own is one of those"


def test_only_a_recommended_bound_that_was_published_or_verified_opens_the_way_for_the_next(
    session: Session,
) -> None:
    stream_id = rollout_row(session, cause="Operator", state="Verified", published_us=1).stream_id
    rollout_row(session, state="Discarded", published_us=None)
    assert not published_before(session, stream_id)
    assert not verified_narrowing(session, stream_id)
    rollout_row(session, state="RolledBack", published_us=1)
    rollout_row(session, state="Verified", published_us=1, direction="Widen")
    assert published_before(session, stream_id)
    assert not verified_narrowing(session, stream_id)
    rollout_row(session, state="Verified", published_us=1)
    assert verified_narrowing(session, stream_id)
    assert not published_before(session, stream_id + 1)


def test_the_latency_under_a_bound_is_that_of_the_windows_that_closed_after_its_first_batch(
    tmp_path: Path,
) -> None:
    """A row a second, windows of 10 s and a bound of 5 s: W(n) is n - 6 s, and a batch takes 100 ms."""
    reports = query_reports([[("p", START_US + second * SECOND)] for second in range(40)])
    database = open_empty(f"sqlite:///{tmp_path / 'latency.db'}")
    with database.write() as session:
        take_reports(session, reports, START_US + HOUR_US)
        stream = steered(session)

        def latency_us(from_batch: int, until_batch: int) -> float | None:
            return read_latency_us(stream, (ReportRow.batch_id.between(from_batch, until_batch),))

        assert latency_us(0, 39) == latency_us(15, 16) == 6_100_000
        # The window that ends at 10 s closes in batch 16.
        assert latency_us(16, 25) is None
        assert latency_us(16, 26) == 6_100_000
        assert latency_us(15, 15) is latency_us(40, 50) is None
    database.close()
