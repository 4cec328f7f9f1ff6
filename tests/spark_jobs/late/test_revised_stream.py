"""What a call with ``late=revise(...)`` takes, and which bound its stream follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemark.models.base.operators import Operator, row_level, session
from tidemark.models.protocol.messages import BoundAnswer, Mode, Pin
from tidemark.spark_jobs import adaptive_watermark, revise
from tidemark.spark_jobs.core.bound import ChosenBound
from tidemark.spark_jobs.core.watch import Orders
from tidemark.spark_jobs.late.revise import RevisedStream

OWN_MS, GRACE_MS = 10_000, 50_000
ANSWER = BoundAnswer(job="j", stream="s", mode="OnRestart", generation=3, bound_ms=4_000, reason="")


def stream(
    answer: BoundAnswer | None, source: ChosenBound | None = None, pin: Pin | None = None
) -> RevisedStream:
    """Return a stream that started with its own bound and whose newest answer is ``answer``."""
    own = ChosenBound(OWN_MS, "job", None, "Off", "")
    return RevisedStream(revise(grace="50 seconds"), source or own, Orders(answer, OWN_MS, "Off", pin))


@pytest.mark.parametrize("mode", ["OnRestart", "Restart", "Live"])
def test_the_newest_bound_is_in_force_at_once_in_every_mode_but_off(mode: Mode) -> None:
    assert stream(replace(ANSWER, mode=mode)).bound() == ChosenBound(
        bound_ms=4_000, generation=3, source="controller", mode=mode
    )
    assert stream(replace(ANSWER, mode="Off")).bound() == ChosenBound(bound_ms=OWN_MS)
    assert stream(None).bound() == ChosenBound(bound_ms=OWN_MS)


def test_a_pin_holds_the_jobs_own_bound() -> None:
    assert stream(replace(ANSWER, pin="Off")).bound().bound_ms == OWN_MS
    assert stream(replace(ANSWER, pin="Ceiling")).bound().bound_ms == OWN_MS
    assert stream(ANSWER, pin="Off").bound().bound_ms == OWN_MS


def test_a_bound_from_disk_stays_one_until_the_controller_answers() -> None:
    disk = ChosenBound(4_000, "disk", 3, "OnRestart", "", ANSWER)

    assert stream(ANSWER, disk).bound().source == "disk"
    assert stream(replace(ANSWER, generation=4), disk).bound().source == "controller"


def test_the_plan_holds_windows_for_bound_and_grace_whatever_the_controller_says() -> None:
    """A delay that followed the controller would move with each start."""
    wide = stream(replace(ANSWER, bound_ms=3_600_000))

    assert wide.delay_ms == stream(ANSWER).delay_ms == OWN_MS + GRACE_MS
    assert wide.bound().bound_ms == wide.delay_ms


@pytest.mark.parametrize(
    ("operator", "ceiling", "mode", "match"),
    [
        (session("5 seconds"), None, "Off", r"use late=side\(\.\.\.\) and correct sessions"),
        (row_level(), None, "Off", r"use late=side\(\.\.\.\) to keep the rows"),
        (None, "1 hour", "Off", "leave out ceiling="),
        (None, None, "Live", "and mode Live"),
    ],
)
def test_a_call_that_cannot_have_versions_says_what_to_write(
    operator: Operator | None, ceiling: str | None, mode: Mode, match: str
) -> None:
    late = revise(grace="1 minute")
    with pytest.raises(ValueError, match=match):
        adaptive_watermark("ts", "1 second", operator, ceiling=ceiling, mode=mode, late=late)


@pytest.mark.parametrize("grace", ["0 seconds", "1500 microseconds", "-1 second"])
def test_a_grace_is_above_0_and_in_whole_milliseconds(grace: str) -> None:
    with pytest.raises(ValueError, match="grace"):
        revise(grace=grace)
