"""Single steps of a rollout in the store: what counts for it, what it publishes, and how long a failure holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import FailedBoundRow, ReportRow, RolloutRow
from tidemark.controller.intake.take_reports import take_reports
from tidemark.controller.pins.store import FLEET, StoredPin
from tidemark.controller.rollout.facts import count_at_risk
from tidemark.controller.rollout.failed_bounds import keep_failure
from tidemark.controller.rollout.publish import publish_rollout
from tidemark.controller.rollout.rules import RolloutRules
from tidemark.controller.specs.store import Spec
from tidemark.models.defaults import FAILED_LONGEST_MS, FAILED_MS
from tidemark.models.slo import Policy, Slo

from support.empty_store import open_empty
from support.reports import START_US, exponential_batches, query_reports

GENERATION = 7
RULES = RolloutRules(
    Spec(Slo(target_ppm=990_000), 1, START_US),
    Spec(Policy(mode="OnRestart", approval="none"), 1, START_US),
    pin=None,
    share_ppm=100_000,
)
PIN = StoredPin(FLEET, "Ceiling", "INC-1", START_US)


@pytest.fixture
def session(database_url: str) -> Iterator[Session]:
    """A transaction on a store that has twelve batches, all run with the same published bound."""
    database = open_empty(database_url)
    with database.write() as found:
        take_reports(found, query_reports(exponential_batches(12, 20), generation=GENERATION), START_US)
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
        **dict.fromkeys(("needed_rows", "needed_event_ms", "rows", "late", "report_id"), 0),
        **dict.fromkeys(("slo_generation", "policy_generation"), 1),
        **dict.fromkeys(("created_us", "changed_us"), START_US),
    }
    row = RolloutRow(**{**fields, **changes})
    session.add(row)
    session.flush()
    return row


def test_rows_that_come_under_a_pin_are_not_at_risk_under_the_rollout_that_it_holds(session: Session) -> None:
    """The job may still run with the rollout's bound, or may not: they prove nothing about it."""
    free, pinned = rollout_row(session), rollout_row(session)
    count_at_risk(session, free, RULES)
    count_at_risk(session, pinned, replace(RULES, pin=PIN))
    assert free.at_risk_rows > 0
    assert free.event_ms > 0
    assert (pinned.at_risk_rows, pinned.at_risk_late_max, pinned.event_ms) == (0, 0, 0)
    # They have passed all the same: without the pin they are not made up for.
    count_at_risk(session, pinned, RULES)
    assert pinned.at_risk_rows == 0


def test_a_bound_is_limited_again_when_it_is_published(session: Session) -> None:
    """The limits may have changed while it waited for a person."""
    row = rollout_row(session, state="Published", generation=None)
    limited = replace(RULES, policy=replace(RULES.policy, value=Policy(mode="Restart", min_bound_ms=8_000)))
    publish_rollout(session, row, limited, START_US)
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
