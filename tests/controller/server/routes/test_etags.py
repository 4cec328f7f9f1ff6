"""ETags: reads answer 304 while nothing changed, and a pin is replaced only by who has read it."""

from __future__ import annotations

import pytest

from tidemark.controller.tools.client import Client

from support.controller_app import STREAM, Controller
from support.reports import exponential_batches, query_reports
from support.served import served

REPORTS = query_reports(exponential_batches(12, 20))
PIN = "/v1/pin?job=job&stream=stream"
OFF, CEILING = {"to": "Off", "reason": "INC-1"}, {"to": "Ceiling", "reason": "INC-2"}


@pytest.mark.parametrize("path", [STREAM, STREAM + "/slo", STREAM + "/policy", PIN, "/v1/fleet"])
def test_a_read_is_304_while_nothing_changed_and_whole_after_a_change(either: Controller, path: str) -> None:
    either.put("/slo", {"target_ppm": 900_000})
    either.put("/policy", {"max_bound_ms": 100_000})
    either.http.put(PIN, json=OFF)
    either.report_all(REPORTS[:-1])
    first = either.http.get(path)
    held = {"If-None-Match": first.headers["etag"]}
    again = either.http.get(path, headers=held)
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    either.put("/slo", {"target_ppm": 800_000})
    either.put("/policy", {"max_bound_ms": 200_000})
    assert either.http.put(PIN, json=CEILING, headers={"If-Match": "*"}).status_code == 200
    either.report_all(REPORTS[-1:])
    after = either.http.get(path, headers=held)
    assert after.status_code == 200
    assert after.headers["etag"] != first.headers["etag"]
    assert after.json() != first.json()


def test_another_pin_is_replaced_only_by_who_names_it(either: Controller) -> None:
    none = either.http.put(PIN, json=OFF, headers={"If-Match": "*"})
    assert none.status_code == 412
    made = either.http.put(PIN, json=OFF)
    assert made.status_code == 200
    # The same pin again changes nothing, and needs no precondition.
    assert either.http.put(PIN, json=OFF).headers["etag"] == made.headers["etag"]
    blind = either.http.put(PIN, json=CEILING)
    assert (blind.status_code, blind.headers["etag"]) == (428, made.headers["etag"])
    stale = either.http.put(PIN, json=CEILING, headers={"If-Match": '"1"'})
    assert (stale.status_code, stale.headers["etag"]) == (412, made.headers["etag"])
    assert "INC-1" in stale.json()["detail"]
    assert either.http.get(PIN).json()["to"] == "Off"
    assert either.http.put(PIN, json=CEILING, headers={"If-Match": made.headers["etag"]}).status_code == 200
    gone = either.http.delete(PIN, headers={"If-Match": made.headers["etag"]})
    assert gone.status_code == 412
    assert either.http.delete(PIN).status_code == 200


def test_a_pin_set_again_after_it_was_removed_is_another_version(either: Controller) -> None:
    first = either.http.put(PIN, json=OFF).headers["etag"]
    either.http.delete(PIN)
    either.clock.now_us += 1
    assert either.http.put(PIN, json=OFF).headers["etag"] != first


def test_the_client_pins_over_any_other_pin(controller: Controller) -> None:
    with served(controller.app) as url, Client(url) as client:
        client.pin("Off", "INC-1", "job", "stream")
        client.pin("Ceiling", "INC-2", "job", "stream")
    assert controller.http.get(PIN).json()["to"] == "Ceiling"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/readyz?verbose", "/metrics"])
def test_health_routes_answer_head_as_get_without_a_body(untouched: Controller, path: str) -> None:
    answer = untouched.http.request("HEAD", path)
    assert (answer.status_code, answer.headers["content-type"]) == (
        200,
        untouched.http.get(path).headers["content-type"],
    )
    assert untouched.http.request("HEAD", "/livez?nonsense=1").status_code == 422
