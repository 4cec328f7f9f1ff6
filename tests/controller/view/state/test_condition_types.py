"""The table of conditions: it names every type once, the worst first, and agrees with the alerts."""

from __future__ import annotations

from typing import get_args

import pytest

from tidemark.controller.base.alert_table import ALERTS
from tidemark.controller.view.state.answers import condition, place_of, summary_of
from tidemark.controller.view.state.condition_types import CONDITION_TYPES, ConditionType, Severity

BY_NAME = {alert.name: alert for alert in ALERTS}


def test_every_type_has_its_place_and_graver_ones_come_first() -> None:
    assert sorted(CONDITION_TYPES) == sorted(get_args(ConditionType))
    order = get_args(Severity)
    severities = [order.index(kind.severity) for kind in CONDITION_TYPES.values()]
    assert severities == sorted(severities)
    assert [place_of(summary_of(kind)) for kind in CONDITION_TYPES] == [*range(len(CONDITION_TYPES))]


def test_titles_are_different_and_short() -> None:
    titles = [kind.title for kind in CONDITION_TYPES.values()]
    assert len(set(titles)) == len(titles)
    assert max(map(len, titles)) <= 30


@pytest.mark.parametrize("kind", CONDITION_TYPES)
def test_a_condition_with_an_alert_is_a_problem_and_only_a_critical_one_may_page(kind: ConditionType) -> None:
    found = CONDITION_TYPES[kind]
    if found.alert is not None:
        assert found.problem
        assert BY_NAME[found.alert].severity == "ticket" or found.severity == "critical"


def test_alerts_without_a_condition_are_about_rows_over_time_or_about_rollouts() -> None:
    alone = {alert.name for alert in ALERTS if alert.notified} - {
        kind.alert for kind in CONDITION_TYPES.values()
    }
    assert alone == {
        "TidemarkApprovalPending",
        "TidemarkCompletenessBudgetBurn",
        "TidemarkCompletenessBudgetSpent",
        "TidemarkPredictionWrong",
        "TidemarkRolledBack",
        "TidemarkWindowBelowTarget",
    }


def test_a_rollback_and_missing_reports_are_warnings() -> None:
    """After a rollback the bound from before is back; while reports are missing, the bound is held."""
    for kind, alert in (("RolledBack", None), ("NoRecentReport", "TidemarkReportsAbsent")):
        found = CONDITION_TYPES[kind]  # type: ignore[index]  # both are types
        assert (found.severity, found.alert, found.problem) == ("warning", alert, True)


def test_settings_and_people_are_no_problem_and_a_rollout_under_way_is_fine() -> None:
    severities = {kind: found.severity for kind, found in CONDITION_TYPES.items() if not found.problem}
    assert severities.pop("Rolling") == severities.pop("NoRowIsLate") == "ok"
    assert set(severities) == {
        "WaitsForStart",
        "RolloutHeld",
        "Paused",
        "NarrowingFrozen",
        "Pinned",
        "NotEnoughEvidence",
        "NoReportYet",
        "NoSlo",
        "LastWindowsOpen",
    }
    assert set(severities.values()) == {"info"}


def test_a_condition_carries_its_severity_and_title() -> None:
    assert condition("CoverageGap", "2 batches").model_dump() == {
        "type": "CoverageGap",
        "severity": "warning",
        "title": "Batches missing",
        "detail": "2 batches",
    }
