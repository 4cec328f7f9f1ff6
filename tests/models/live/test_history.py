"""What earlier reports of a stream teach its live policy."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest

from tidemark.models.base.operators import row_level
from tidemark.models.live import resumable
from tidemark.models.live.fast import FastPolicy, Order
from tidemark.models.live.history import learned_from
from tidemark.models.live.learned import Arrays
from tidemark.models.live.policy import Setup
from tidemark.models.protocol.messages import Report

from support.fast_streams import CEILING_US, NOW_US, TEN_SECONDS, FastStream
from support.streams import SECOND, report_of

pytestmark = pytest.mark.slow

SETUP = Setup(operator=TEN_SECONDS, trigger_us=SECOND, target_ppm=990_000)
ORDER = Order(bound_us=30 * SECOND, target_ppm=SETUP.target_ppm)


@cache
def reports(batches: int = 240, run_id: str = "first", began_us: int = NOW_US) -> tuple[Report, ...]:
    """Return the reports of a steady stream of three partitions."""
    dice, found = Random(run_id), []
    for number in range(batches):
        now_us = began_us + number * SECOND
        rows = [(name, now_us - round(dice.expovariate(1) * SECOND)) for name in "abc" for _ in range(10)]
        report = report_of(
            rows, TEN_SECONDS, late_watermark_ms=0, granule_us=SECOND, started_us=now_us, batch_id=number
        )
        found.append(replace(report, run_id=run_id))
    return tuple(found)


def arrays_of(given: tuple[Report, ...], setup: Setup = SETUP) -> Arrays:
    learned = learned_from(given, setup, CEILING_US)
    assert learned is not None
    return learned.arrays


@cache
def taught() -> Arrays:
    """Return what the reports of the steady stream teach."""
    return arrays_of(reports())


def anew(stream: FastStream) -> Setup | None:
    return stream.policy.begun_anew


@pytest.mark.slow
def test_reports_teach_what_the_job_would_have_learned_in_live_but_for_the_account_which_is_even() -> None:
    policy = FastPolicy(TEN_SECONDS, CEILING_US)
    for report in reports():
        names, edges = report.counts.partitions, report.counts.edges()
        newest = {names[place]: last for place, _, last in edges}
        steady = report.batch_id > 2
        policy.observe(report, newest, {}, SECOND, ORDER, representative=steady)
        policy.decide(report.started_us, ORDER)
    live = policy.learned()
    assert live is not None

    shown = learned_from(reports(), SETUP, CEILING_US)
    assert shown is not None
    assert (shown.operator, shown.partitions, shown.trigger_us) == (live.operator, live.partitions, SECOND)
    pairs = int(live.arrays["rules.pairs"])
    assert shown.arrays["assumed"].tolist() == [round(0.01 * pairs), pairs]
    for name, array in live.arrays.items():
        if name not in {"late", "assumed"}:
            np.testing.assert_array_equal(shown.arrays[name], array, err_msg=name)
    assert int(shown.arrays["late"]) == round(0.01 * pairs)


def test_what_was_lost_under_the_bounds_of_the_time_is_not_the_policys_debt() -> None:
    """Reports say by which watermark rows were late; a tap counts before they are dropped."""
    lossy = tuple(replace(report, late_watermark_ms=report.started_us // 1_000) for report in reports())
    found = arrays_of(lossy)
    for name, array in taught().items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_after_a_restart_the_rows_that_waited_for_the_job_teach_nothing() -> None:
    """The second run reads two minutes at once, and goes on as before."""
    later_us = NOW_US + 360 * SECOND
    second = reports(60, "second", later_us)
    waited = [(name, later_us - back * SECOND) for name in "abc" for back in range(120)]
    first = report_of(waited, TEN_SECONDS, late_watermark_ms=0, granule_us=SECOND, started_us=later_us)
    backlog = replace(first, run_id="second", batch_id=240)
    learned = arrays_of((*reports(), backlog, *second[1:]))
    # The first batches of a run are left out, as in the driver.
    seen = sum(each.rows for each in (*reports()[3:], *second[3:]))
    assert int(learned["rules.pairs"]) == seen


def test_reports_of_another_operator_and_those_that_judge_no_row_teach_nothing() -> None:
    other = tuple(replace(report, operator=row_level(), closed="right") for report in reports(20))
    unjudged = tuple(replace(report, contradiction="the plan has no operator") for report in reports(20))
    assert learned_from((*other, *unjudged), SETUP, CEILING_US) is None
    assert learned_from((), SETUP, CEILING_US) is None
    mixed = arrays_of((*other, *reports(), *unjudged))
    np.testing.assert_array_equal(mixed["rules.late"], taught()["rules.late"])


def test_a_policy_that_has_begun_anew_goes_on_with_what_the_reports_show_in_place_of_its_own() -> None:
    stream, dice = FastStream(TEN_SECONDS), Random(3)
    assert anew(stream) is None, "it has no target yet"

    def batch(order: Order) -> None:
        now_us = stream.now_us
        stream.batch([(name, now_us - round(dice.expovariate(1) * SECOND)) for name in "cbax"], order)

    batch(ORDER)
    assert anew(stream) == SETUP
    assert stream.decide(ORDER).watermark_us is None
    learned = learned_from(reports(), SETUP, CEILING_US)
    assert learned is not None
    stream.policy.resume(learned)
    assert anew(stream) is None
    batch(ORDER)

    watermark_us = stream.decide(ORDER).watermark_us
    assert watermark_us is not None
    assert watermark_us > stream.now_us - 10 * SECOND, "it closes at once what the reports allow"
    pairs = int(learned.arrays["rules.pairs"])
    reason = stream.decide(ORDER).details
    assert re.search(
        rf" pairs were late since it began with {pairs:,} earlier ones and an even account", reason
    )
    now = stream.policy.learned()
    assert now is not None
    assert now.partitions == ("a", "b", "c", "x"), "the numbers are those of what was learned"

    for target_ppm in (999_000, 990_000):
        order = replace(ORDER, target_ppm=target_ppm)
        batch(order)
        batch(replace(order, latency_cap_us=20 * SECOND))
        setup = anew(stream)
        assert setup is not None, "a new target is another problem, a new cap is none"
        assert setup.target_ppm == target_ppm
    stream.policy.go_on_anew()
    assert anew(stream) is None


def test_what_was_learned_for_another_target_is_refused_and_changes_nothing() -> None:
    stream = FastStream(TEN_SECONDS)
    stream.batch([("a", stream.now_us)], replace(ORDER, target_ppm=999_000))
    learned = learned_from(reports(), SETUP, CEILING_US)
    assert learned is not None
    with pytest.raises(ValueError, match="another target"):
        stream.policy.resume(learned)
    assert anew(stream) is not None


def test_a_policy_that_has_seen_more_than_the_reports_show_keeps_what_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The controller may have been away for long."""
    monkeypatch.setattr(resumable, "HISTORY_BATCHES", 20)
    stream, found = FastStream(TEN_SECONDS), []
    for _ in range(30):
        stream.batch([("a", stream.now_us)], ORDER)
        found.append(anew(stream) is not None)
    assert found == [True] * 19 + [False] * 11
