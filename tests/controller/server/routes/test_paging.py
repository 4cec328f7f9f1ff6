"""Lists come page by page, and only the controller's own cursors go on."""

from __future__ import annotations

import base64

import pytest

from support.controller_app import Controller
from support.reports import exponential_batches, query_reports

REPORTS = query_reports(exponential_batches(24, 50, slow=3))
TARGET = {"target_ppm": 900_000}


def test_lists_are_paged_by_opaque_cursors(controller: Controller) -> None:
    controller.report_all(REPORTS[:1])
    for job in ("z", "a", "m/"[:1]):
        controller.http.put(f"/v1/jobs/{job}/streams/s/slo", json=TARGET)
    controller.snapshot()
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = controller.http.get(
            "/v1/fleet", params={"limit": 3, **({"cursor": cursor} if cursor else {})}
        ).json()
        names += [item["job"] for item in page["streams"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert names == ["a", "job", "m", "z"]
    first = controller.get("/partitions", params={"limit": 2}).json()
    rest = controller.get("/partitions", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [part["partition"] for part in first["partitions"] + rest["partitions"]] == ["0", "1", "2", "3"]
    assert rest["next_cursor"] is None


def cursor_of(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


LONE_SURROGATE = cursor_of(r'["5", "job", "\ud800"]')
NESTED = cursor_of("[" * 1_400)


@pytest.mark.parametrize(
    "cursor", ["x", "!!!", "WyJhIl0", "eyJhIjoxfQ", "é", LONE_SURROGATE, NESTED], ids=lambda text: text[:12]
)
def test_a_cursor_that_is_not_ours_is_refused(untouched: Controller, cursor: str) -> None:
    answer = untouched.http.get("/v1/fleet", params={"cursor": cursor})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "cursor"
