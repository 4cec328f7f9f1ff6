"""When a job counts as applying what is published."""

from __future__ import annotations

import pytest

from tidemark.models.protocol.messages import AppliedState, Mode, has_applied

PUBLISHED_US = 1_000


@pytest.mark.parametrize(
    ("applied", "mode", "bound_ms", "taken"),
    [
        pytest.param(AppliedState(), "OnRestart", 5_000, False, id="it reported nothing"),
        pytest.param(
            AppliedState(7, 5_000, "OnRestart"), "OnRestart", 5_000, True, id="it acknowledged the generation"
        ),
        pytest.param(
            AppliedState(7, 9_000, "OnRestart"),
            "OnRestart",
            5_000,
            False,
            id="a bound of a store that is lost",
        ),
        pytest.param(
            AppliedState(6, 5_000, "OnRestart"), "Restart", 5_000, True, id="an older one of the same bound"
        ),
        pytest.param(
            AppliedState(6, 4_000, "OnRestart"), "Restart", 5_000, False, id="an older one of another bound"
        ),
        pytest.param(
            AppliedState(None, 5_000, "Off"), "Restart", 5_000, False, id="its own bound, equal by chance"
        ),
        pytest.param(AppliedState(), "Off", None, True, id="its own bound is published"),
        pytest.param(AppliedState(7, 9_000, "Live"), "Live", None, True, id="live, and acknowledged"),
        pytest.param(
            AppliedState(7, 9_000, "Restart"),
            "Live",
            None,
            False,
            id="live is published, it runs in another mode",
        ),
        pytest.param(
            AppliedState(last_contact_us=PUBLISHED_US),
            "Live",
            None,
            True,
            id="live, in contact since it was published",
        ),
        pytest.param(
            AppliedState(last_contact_us=PUBLISHED_US - 1),
            "Live",
            None,
            False,
            id="live, in contact only before that",
        ),
    ],
)
def test_a_job_has_taken_up_what_it_acknowledged_has_already_or_heard_live(
    applied: AppliedState, mode: Mode, bound_ms: int | None, taken: bool
) -> None:
    assert (
        has_applied(applied, generation=7, mode=mode, bound_ms=bound_ms, published_us=PUBLISHED_US) is taken
    )
