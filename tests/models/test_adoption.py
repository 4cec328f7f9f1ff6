"""When a job is said to have taken up what it is told."""

from __future__ import annotations

import pytest

from tidemark.models.adoption import Said, has_taken_up
from tidemark.models.wire import Mode

PUBLISHED_US = 1_000


@pytest.mark.parametrize(
    ("said", "mode", "bound_ms", "taken"),
    [
        pytest.param(Said(), "OnRestart", 5_000, False, id="it said nothing"),
        pytest.param(
            Said(7, 9_000, "OnRestart"), "OnRestart", 5_000, True, id="it acknowledged the generation"
        ),
        pytest.param(
            Said(6, 5_000, "OnRestart"), "Restart", 5_000, True, id="an older one of the same bound"
        ),
        pytest.param(
            Said(6, 4_000, "OnRestart"), "Restart", 5_000, False, id="an older one of another bound"
        ),
        pytest.param(Said(None, 5_000, "Off"), "Restart", 5_000, False, id="its own bound, equal by chance"),
        pytest.param(Said(), "Off", None, True, id="it is told to use its own"),
        pytest.param(Said(7, 9_000, "Live"), "Live", None, True, id="live, and acknowledged"),
        pytest.param(Said(7, 9_000, "Restart"), "Live", None, False, id="told live, runs in another mode"),
        pytest.param(
            Said(last_contact_us=PUBLISHED_US), "Live", None, True, id="live, heard since it was published"
        ),
        pytest.param(
            Said(last_contact_us=PUBLISHED_US - 1), "Live", None, False, id="live, heard before that only"
        ),
    ],
)
def test_a_job_has_taken_up_what_it_acknowledged_has_already_or_heard_live(
    said: Said, mode: Mode, bound_ms: int | None, taken: bool
) -> None:
    assert has_taken_up(said, generation=7, mode=mode, bound_ms=bound_ms, published_us=PUBLISHED_US) is taken
