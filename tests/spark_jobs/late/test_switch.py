"""Who decides whether late rows are kept, and what a controller of another release answers."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tidemark.models.protocol.late_policy import DROPPED, LatePolicy, LateTreatment
from tidemark.spark_jobs.core.client import ControllerClient, LedgerGaps
from tidemark.spark_jobs.late.follower import LateSwitch


@pytest.mark.parametrize("by_call", [True, False])
@pytest.mark.parametrize("before", [True, False, None])
def test_the_policy_goes_before_the_call_and_an_outage_changes_nothing(
    by_call: bool, before: bool | None
) -> None:
    switch = LateSwitch(by_call=by_call)

    assert switch.stores(LedgerGaps([], "side"), before) is True
    assert switch.stores(LedgerGaps([], "drop"), before) is False
    assert switch.stores(LedgerGaps([], None), before) is by_call
    assert switch.stores(None, before) is (by_call if before is None else before)


def test_what_one_run_could_not_keep_the_next_one_may() -> None:
    switch = LateSwitch(by_call=True)
    assert switch.treatment == LateTreatment(in_force=None, choices=("drop", "side"))
    switch.cannot_keep()
    assert switch.treatment == DROPPED
    switch.settle(stored=True)
    assert switch.treatment == LateTreatment(in_force="side", choices=("drop", "side"))


@pytest.mark.parametrize(
    ("more", "late"),
    [
        ({"late": None}, None),
        ({"late": "drop"}, "drop"),
        ({"late": "elsewhere", "more": 1}, None),
    ],
    ids=["no policy", "a policy", "a newer one"],
)
def test_a_controller_of_another_release_leaves_it_to_the_call(
    more: dict[str, Any], late: LatePolicy | None
) -> None:
    body = {"query_id": "q", "missing": [{"first": 3, "last": 4}], **more}
    answering = httpx.MockTransport(lambda _: httpx.Response(200, json=body))

    found = ControllerClient("http://c", transport=answering).missing_batches("j", "s", "q", 0)
    assert found == LedgerGaps([(3, 4)], late)
