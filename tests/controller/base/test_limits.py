"""Limits: how often, how many, how large; and answers that are compressed."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from unittest.mock import patch

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.controller.base.errors import LimitReachedError
from tidemark.controller.base.settings import Settings
from tidemark.controller.base.shares import Shares
from tidemark.controller.server.access.authenticator import RateLimits
from tidemark.controller.server.process.service import Service
from tidemark.controller.server.routes import jobs
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import Report, to_json_object

from support.controller_app import STREAM, Controller, make_app
from support.patience import until_async
from support.reports import exponential_batches, query_reports
from support.tokens import bearer, make_token

REPORTS = query_reports(exponential_batches(3, 20))


class Steady:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def limited(controller: Controller) -> Callable[[float, float], Steady]:
    """Set the rates of a running controller, under a clock that the test holds."""

    def limit(reports: float, requests: float) -> Steady:
        clock = Steady()
        service: Service = controller.service
        controller.app.state.service = replace(service, rates=RateLimits(reports, requests, clock))
        return clock

    return limit


def test_too_many_requests_are_429_until_the_time_that_retry_after_says(
    controller: Controller, limited: Callable[[float, float], Steady]
) -> None:
    clock = limited(100, 0.5)
    assert controller.http.get("/v1/fleet").status_code == 200
    refused = controller.http.get("/v1/fleet")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
    assert refused.json()["type"] == "urn:tidemark:problem:too-many-requests"
    assert "0.5 requests a second" in refused.json()["detail"]
    clock.now += 2
    assert controller.http.get("/v1/fleet").status_code == 200


def test_who_reads_too_much_takes_no_room_from_reports(
    controller: Controller, limited: Callable[[float, float], Steady]
) -> None:
    limited(100, 1)
    while controller.http.get("/v1/fleet").status_code != 429:
        pass
    controller.report_all(REPORTS)
    assert controller.get("/bound").status_code == 200


def test_reports_have_a_limit_too(controller: Controller, limited: Callable[[float, float], Steady]) -> None:
    limited(0.5, 100)
    assert controller.report(REPORTS[0]).status_code == 201
    refused = controller.report(REPORTS[1])
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
    assert controller.status()["evidence"]["batches"] == 1


def test_each_token_has_room_of_its_own_and_what_is_refused_counts_by_address(
    controller: Controller, limited: Callable[[float, float], Steady]
) -> None:
    tokens = [make_token(controller, "viewer") for _ in range(2)]
    limited(100, 1)

    def three(headers: dict[str, str]) -> list[int]:
        return [controller.http.get("/v1/fleet", headers=headers).status_code for _ in range(3)]

    assert [three(bearer(token)) for token in tokens] == [[200, 200, 429]] * 2
    assert three({}) == [401, 401, 429]
    assert controller.http.get("/v1/fleet", headers=bearer("guessed")).status_code == 429


def test_probes_are_answered_however_often(
    controller: Controller, limited: Callable[[float, float], Steady]
) -> None:
    limited(0.001, 0.001)
    assert {controller.http.get("/livez").status_code for _ in range(20)} == {200}


def test_the_rates_of_the_settings_are_in_force(database_url: str) -> None:
    with Controller(database_url, requests_per_second=0.01) as controller:
        statuses = [controller.http.get("/v1/fleet").status_code for _ in range(3)]
    assert statuses == [200, 429, 429]


# -- how many --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_job_has_half_of_the_streams_that_others_leave_however_they_come(
    kind: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("database_url" if kind == "sqlite" else "new_postgres_url")
    with Controller(url, max_streams=2) as controller:
        assert controller.report(REPORTS[0]).status_code == 201
        other = "/v1/jobs/job/streams/other"
        for method, path, body in (
            ("PUT", f"{other}/slo", {"target_ppm": 900_000}),
            ("PUT", f"{other}/policy", {"mode": "Off"}),
            ("PUT", "/v1/pin?job=job&stream=other", {"to": "Off", "reason": "a test"}),
            ("POST", f"{other}/reports", to_json_object(replace(REPORTS[0], stream="other"))),
        ):
            refused = controller.http.request(method, path, json=body)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "5"), path
            assert refused.json()["type"] == "urn:tidemark:problem:limit-reached"
            assert "TIDEMARK_MAX_STREAMS" in refused.json()["detail"]
        assert len(controller.http.get("/v1/fleet").json()["streams"]) == 1
        for other in ("second", "third"):
            body = to_json_object(replace(REPORTS[0], job=other))
            answer = controller.http.post(f"/v1/jobs/{other}/streams/stream/reports", json=body)
            assert answer.status_code == (201 if other == "second" else 429)
        assert 'tidemark_limit_used_ratio{limit="streams"} 1\n' in controller.http.get("/metrics").text
        # What is known goes on.
        assert controller.report(REPORTS[1]).status_code == 201
        assert controller.put("/slo", {"target_ppm": 900_000}).status_code == 200


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_report_with_partitions_beyond_the_limit_is_refused_whole(
    kind: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("database_url" if kind == "sqlite" else "new_postgres_url")
    known = {part.partition for report in REPORTS for part in report.counts.by_partition()}

    def renamed(number: int, name: str) -> Report:
        first, *others = REPORTS[number].counts.by_partition()
        return replace(REPORTS[number], counts=GranuleCounts.of((replace(first, partition=name), *others)))

    with Controller(url, max_partitions=len(known) + 1) as controller:
        assert controller.report(REPORTS[0]).status_code == 201
        assert controller.report(renamed(1, "new")).status_code == 201
        refused = controller.report(renamed(2, "another"))
        assert refused.status_code == 429
        body = refused.json()
        assert body["type"] == "urn:tidemark:problem:limit-reached"
        assert body["errors"][0]["pointer"] == "/partitions"
        assert f"1 new partitions beside the {len(known) + 1} known" in body["detail"]
        assert controller.status()["evidence"]["batches"] == 2
        names = {row["partition"] for row in controller.get("/partitions").json()["partitions"]}
        assert names == {*known, "new"}
        assert controller.report(REPORTS[2]).status_code == 201


def test_a_caller_has_half_of_the_waits_for_a_bound_that_others_leave(
    database_url: str,
) -> None:
    app = make_app(Settings(database_url=database_url, max_open_polls=4, tick_seconds=3_600))
    watch = app.state.service.watch

    def caller(number: int) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app, client=(f"127.0.0.{number}", 1))
        return httpx.AsyncClient(transport=transport, base_url="http://t", timeout=None)

    async def ask() -> tuple[list[int], list[httpx.Response], int]:
        async with app.router.lifespan_context(app), caller(1) as one, caller(2) as two, caller(3) as three:
            etag = (await one.get(STREAM + "/bound")).headers["etag"]
            asked = {"If-None-Match": etag, "Prefer": "wait=60"}
            held, rejected = [], []
            for client, waiting in ((one, 2), (two, 3), (three, 4)):
                new = waiting - watch.waiting
                held += [
                    asyncio.create_task(client.get(STREAM + "/bound", headers=asked)) for _ in range(new)
                ]
                await until_async(lambda waiting=waiting: watch.waiting == waiting, "two more that wait")  # type: ignore[misc]
                if client is one:
                    rejected.append(await one.get(STREAM + "/bound", headers=asked))
            rejected.append(await three.get(STREAM + "/bound", headers=asked))
            at_once = await one.get(STREAM + "/bound", headers={"If-None-Match": etag})
            watch.release()
            return (
                [answer.status_code for answer in await asyncio.gather(*held)],
                rejected,
                at_once.status_code,
            )

    held, rejected, at_once = asyncio.run(ask())
    assert held == [304] * 4
    of_one, of_all = rejected
    assert of_one.json()["detail"].startswith("2 of 4, 2 of them this one's, whose share is 2")
    assert of_all.json()["detail"].startswith("4 of 4, 1 of them this one's, whose share is 1")
    for answer in rejected:
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
        assert answer.json()["type"] == "urn:tidemark:problem:limit-reached"
    assert at_once == 304, "who does not wait is answered"


# -- how large -------------------------------------------------------------------------------------------------------


def test_answers_are_compressed_where_it_pays_and_the_caller_can_read_it(controller: Controller) -> None:
    with controller.http.stream("GET", "/openapi.json", headers={"Accept-Encoding": "gzip"}) as answer:
        sent = b"".join(answer.iter_raw())
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["vary"] == "Accept-Encoding"
    plain = controller.http.get("/openapi.json", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(sent) == plain.content
    assert len(sent) < len(plain.content) / 2
    small = controller.http.get("/livez", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in small.headers


def test_metrics_are_compressed_for_prometheus(controller: Controller) -> None:
    assert controller.http.get("/metrics").headers["content-encoding"] == "gzip"


def test_a_caller_has_half_of_what_others_leave_of_the_bodies_that_are_read_and_gives_it_back(
    database_url: str,
) -> None:
    with Controller(database_url, max_body_bytes=4_096) as controller:
        bodies = controller.service.bodies
        with ExitStack() as others:
            for number in range(6):
                others.enter_context(bodies.taken(number, 16_384 >> number))
            refused = controller.put("/slo", {"target_ppm": 900_000, "labels": {"name": "x" * 300}})
            assert (refused.status_code, refused.json()["type"]) == (
                429,
                "urn:tidemark:problem:limit-reached",
            )
        assert controller.put("/slo", {"target_ppm": 900_000}).status_code == 200
        assert bodies.total == 0


@pytest.mark.parametrize("value", [b"{}", b"[]", b"1", b'"a"', b"null"])
def test_a_body_of_small_values_is_refused_before_it_is_parsed(untouched: Controller, value: bytes) -> None:
    size = untouched.service.settings.max_body_bytes
    body = b"[" + b",".join([value] * (size // (len(value) + 1) - 1)) + b"]"
    headers = {"Content-Type": "application/json"}
    with patch.object(jobs, "_checked_report", side_effect=AssertionError("it was parsed")):
        refused = untouched.http.post(STREAM + "/reports", content=body, headers=headers)
    assert (refused.status_code, refused.json()["type"]) == (413, "urn:tidemark:problem:body-too-large")


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.lists(st.integers(0, 5), max_size=120))
def test_however_many_fill_a_limit_the_next_one_has_room_until_it_is_full(
    most: int, callers: list[int]
) -> None:
    shares, taken = Shares("streams", most), Counter[int]()
    with ExitStack() as all_of_it:
        for caller in callers:
            others = shares.total - taken[caller]
            try:
                all_of_it.enter_context(shares.taken(caller))
            except LimitReachedError:
                assert 2 * taken[caller] >= most - others
            else:
                taken[caller] += 1
                assert 2 * (taken[caller] - 1) < most - others
        if shares.total < most:
            all_of_it.enter_context(shares.taken("new"))
    assert shares.total == 0
