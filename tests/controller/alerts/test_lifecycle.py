"""The life of an alert, as a state machine: what is told when, whatever comes in whatever order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.alerts.findings import Finding
from tidemark.controller.alerts.lifecycle import Alarm, Key, advance, told
from tidemark.controller.alerts.table import FUTURE_ROWS, PARTITION_SKEWED

SECOND = 1_000_000
REPEAT_US = 3_600 * SECOND
SKEWED = Finding(PARTITION_SKEWED, (("alertname", "TidemarkPartitionSkewed"), ("partition", "7")), "18 s")
FUTURE = Finding(FUTURE_ROWS, (("alertname", "TidemarkFutureDatedRows"),), "3")


def tick(
    alarms: dict[Key, Alarm], found: list[Finding], now_us: int, *, delivered: bool = True
) -> tuple[dict[Key, Alarm], list[str]]:
    after, news = advance(alarms, found, now_us, REPEAT_US)
    said: list[str] = [each.status for each in news]
    return (told(after, news, now_us) if delivered else after), said


def test_an_alert_is_told_once_it_has_held_for_long_enough_and_again_after_a_while_and_when_it_is_over() -> (
    None
):
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
        alarms, said = tick(alarms, found, now_us)
        assert said == expected, now_us
    assert alarms == {}


def test_what_holds_for_a_moment_is_never_told() -> None:
    alarms, said = tick({}, [SKEWED], 0)
    assert said == []
    alarms, said = tick(alarms, [], SECOND)
    assert (alarms, said) == ({}, [])
    # And its time begins anew.
    alarms, _ = tick(alarms, [SKEWED], 2 * SECOND)
    assert tick(alarms, [SKEWED], PARTITION_SKEWED.hold_us)[1] == []


def test_what_was_not_delivered_is_told_until_it_is() -> None:
    alarms, said = tick({}, [FUTURE], 0, delivered=False)
    assert said == ["firing"]
    alarms, said = tick(alarms, [FUTURE], SECOND)
    assert said == ["firing"]
    alarms, said = tick(alarms, [], 2 * SECOND, delivered=False)
    assert said == ["resolved"]
    alarms, said = tick(alarms, [], 3 * SECOND)
    assert (alarms, said) == ({}, ["resolved"])


def test_nobody_is_told_that_something_is_over_that_nobody_was_told_of() -> None:
    alarms, _ = tick({}, [FUTURE], 0, delivered=False)
    assert tick(alarms, [], SECOND) == ({}, [])


def test_what_begins_again_before_its_end_was_delivered_goes_on() -> None:
    alarms, _ = tick({}, [FUTURE], 0)
    alarms, said = tick(alarms, [], SECOND, delivered=False)
    assert said == ["resolved"]
    alarms, said = tick(alarms, [FUTURE], 2 * SECOND)
    assert said == []
    assert next(iter(alarms.values())).starts_us == 0


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 400)), max_size=60))
def test_a_receiver_that_gets_what_is_delivered_always_knows_what_fires(
    steps: list[tuple[bool, bool, int]],
) -> None:
    """Told and over alternate for each alert, and after a turn that is delivered the receiver's view is right."""
    alarms: dict[Key, Alarm] = {}
    fires, now_us, since_us = False, 0, None
    for holds, delivered, seconds in steps:
        now_us += seconds * SECOND
        since_us = None if not holds else (now_us if since_us is None else since_us)
        after, news = advance(alarms, [SKEWED] if holds else [], now_us, REPEAT_US)
        assert len(news) <= 1
        if delivered:
            alarms = told(after, news, now_us)
            for each in news:
                assert each.status == "firing" or fires
                fires = each.status == "firing"
            long_enough = since_us is not None and now_us - since_us >= PARTITION_SKEWED.hold_us
            assert fires == long_enough or (fires and holds)
        else:
            alarms = after
