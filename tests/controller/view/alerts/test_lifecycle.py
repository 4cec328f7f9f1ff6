"""The life of an alert, as a state machine: which notifications are due when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.base.alert_table import PARTITION_SKEWED, ROLLED_BACK
from tidemark.controller.view.alerts.rules import ActiveAlert, Alarm, Key, advance, delivered

SECOND = 1_000_000
REPEAT_US = 3_600 * SECOND
SKEWED = ActiveAlert(PARTITION_SKEWED, (("alertname", "TidemarkPartitionSkewed"), ("partition", "7")), "18 s")
UNDONE = ActiveAlert(ROLLED_BACK, (("alertname", "TidemarkRolledBack"),), "3")


def tick(
    alarms: dict[Key, Alarm], found: list[ActiveAlert], now_us: int, *, arrives: bool = True
) -> tuple[dict[Key, Alarm], list[str]]:
    after, due = advance(alarms, found, now_us, REPEAT_US)
    statuses: list[str] = [each.status for each in due]
    return (delivered(after, due, now_us) if arrives else after), statuses


def test_an_alert_is_notified_when_it_has_held_for_long_enough_again_after_a_while_and_at_its_end() -> None:
    alarms: dict[Key, Alarm] = {}
    hold = PARTITION_SKEWED.hold_us
    story = [
        (0, [SKEWED], []),
        (hold - 1, [SKEWED], []),
        (hold, [SKEWED], ["firing"]),
        (hold + SECOND, [SKEWED], []),
        (hold + REPEAT_US, [SKEWED], ["firing"]),
        (hold + REPEAT_US + SECOND, [], ["resolved"]),
        (hold + REPEAT_US + 2 * SECOND, [], []),
    ]
    for now_us, found, expected in story:
        alarms, statuses = tick(alarms, found, now_us)
        assert statuses == expected, now_us
    assert alarms == {}


def test_an_alert_that_holds_for_a_moment_is_never_notified() -> None:
    alarms, statuses = tick({}, [SKEWED], 0)
    assert statuses == []
    alarms, statuses = tick(alarms, [], SECOND)
    assert (alarms, statuses) == ({}, [])
    # And its time begins anew.
    alarms, _ = tick(alarms, [SKEWED], 2 * SECOND)
    assert tick(alarms, [SKEWED], PARTITION_SKEWED.hold_us)[1] == []


def test_a_notification_is_repeated_until_it_is_delivered() -> None:
    alarms, statuses = tick({}, [UNDONE], 0, arrives=False)
    assert statuses == ["firing"]
    alarms, statuses = tick(alarms, [UNDONE], SECOND)
    assert statuses == ["firing"]
    alarms, statuses = tick(alarms, [], 2 * SECOND, arrives=False)
    assert statuses == ["resolved"]
    alarms, statuses = tick(alarms, [], 3 * SECOND)
    assert (alarms, statuses) == ({}, ["resolved"])


def test_the_end_of_an_alert_that_was_never_notified_is_not_notified() -> None:
    alarms, _ = tick({}, [UNDONE], 0, arrives=False)
    assert tick(alarms, [], SECOND) == ({}, [])


def test_an_alert_that_begins_again_before_its_end_was_delivered_goes_on() -> None:
    alarms, _ = tick({}, [UNDONE], 0)
    alarms, statuses = tick(alarms, [], SECOND, arrives=False)
    assert statuses == ["resolved"]
    alarms, statuses = tick(alarms, [UNDONE], 2 * SECOND)
    assert statuses == []
    assert next(iter(alarms.values())).starts_us == 0


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 400)), max_size=60))
def test_a_receiver_that_gets_what_is_delivered_always_knows_what_fires(
    steps: list[tuple[bool, bool, int]],
) -> None:
    """Firing and resolved alternate for each alert, and after each delivered tick the receiver's view is right."""
    alarms: dict[Key, Alarm] = {}
    fires, now_us, since_us = False, 0, None
    for holds, arrives, seconds in steps:
        now_us += seconds * SECOND
        since_us = None if not holds else (now_us if since_us is None else since_us)
        after, due = advance(alarms, [SKEWED] if holds else [], now_us, REPEAT_US)
        assert len(due) <= 1
        if arrives:
            alarms = delivered(after, due, now_us)
            for each in due:
                assert each.status == "firing" or fires
                fires = each.status == "firing"
            long_enough = since_us is not None and now_us - since_us >= PARTITION_SKEWED.hold_us
            assert fires == long_enough or (fires and holds)
        else:
            alarms = after
