"""The client: against a real server, and against servers that fail in every way a network can."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from tidemark.controller.tools.client import (
    ChangedError,
    Client,
    ControllerUnusableError,
    RequestRejectedError,
    TokenRejectedError,
    UnreachableError,
)
from tidemark.controller.tools.client.operations import Endpoint
from tidemark.models.protocol.messages import Acknowledgement

from support.controller_app import Controller
from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.reports import START_US, exponential_batches, query_reports
from support.served import served
from support.tcp_server import running_tcp_server
from support.tree import ROOT

REPORTS = query_reports(exponential_batches(60, 40, slow=3))


@pytest.fixture
def client(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of the controller, behind a real socket."""
    monkeypatch.delenv("TIDEMARK_TOKEN", raising=False)
    with served(controller.app) as url, Client(url) as made:
        yield made


# -- answers -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_stream_from_its_first_report_to_an_adopted_bound(controller: Controller, client: Client) -> None:
    for report in REPORTS:
        assert not client.send_report(report).duplicate
    assert client.send_report(REPORTS[0]).duplicate
    assert client.slo("job", "stream") is None
    tried = client.change_slo("job", "stream", {"target_ppm": 900_000}, dry_run=True)
    assert tried.dry_run
    assert client.slo("job", "stream") is None
    done = client.change_slo("job", "stream", {"target_ppm": 900_000}, reason="agreed")
    assert done.recommended is not None
    assert done.recommended.bound_ms == tried.recommended.bound_ms if tried.recommended else None
    client.change_policy("job", "stream", at_once())
    controller.tick()
    body = client.bound("job", "stream")
    assert body.bound_ms == client.status("job", "stream").published.bound_ms is not None
    acknowledgement = Acknowledgement(
        query_id="query",
        run_id="second",
        bound_ms=body.bound_ms or 0,
        generation=body.generation,
        source="controller",
        mode="OnRestart",
        applied_us=START_US,
    )
    assert not client.acknowledge("job", "stream", acknowledgement).duplicate
    applied = client.status("job", "stream").applied
    assert applied is not None
    assert applied.generation == body.generation
    assert [row.generation for row in client.acknowledgements("job", "stream")] == [body.generation]
    assert next(client.bounds("job", "stream")).generation == body.generation
    assert [job.job for job in client.jobs()] == ["job"]
    assert client.job("job").streams == 1
    assert {row.partition for row in client.partitions("job", "stream")} == {"0", "1", "2", "3"}
    assert [point.bound_ms for point in client.curve("job", "stream", [5_000, 0]).points] == [0, 5_000]
    assert list(client.predictions("job", "stream"))
    assert client.policy("job", "nobody") is None
    client.ready()


def test_every_operation_has_a_path_of_the_interface() -> None:
    paths = json.loads((ROOT / "controller/openapi.json").read_text(encoding="utf-8"))["paths"]
    operations = [one for one in vars(Client).values() if isinstance(one, Endpoint)]
    assert len(operations) > 30
    assert [one.path for one in operations if one.path not in paths] == []


@pytest.mark.slow
def test_lists_are_asked_for_page_by_page(controller: Controller, client: Client) -> None:
    for number in range(205):
        controller.http.put(f"/v1/pin?job={number:03}", json={"to": "Off", "reason": "why"})
    pins = client.pins()
    assert next(pins).job == "000"
    assert len(list(pins)) == 204
    for report in REPORTS[:3]:
        client.send_report(report)
    assert [body.batch_id for body in client.reports("job", "stream")] == [2, 1, 0]


def test_a_pin_is_set_and_taken_away(client: Client) -> None:
    assert client.pin("Off", "why", fleet=True, dry_run=True).dry_run
    assert list(client.pins()) == []
    assert client.pin("Off", "why", "a b", "c?").scope == "stream"
    assert client.unpin("a b", "c?", reason="over").reason == "why"
    with pytest.raises(RequestRejectedError, match="there is no pin") as refused:
        client.unpin(fleet=True)
    assert (refused.value.status, refused.value.kind) == (404, "urn:tidemark:problem:pin-not-set")
    with pytest.raises(ValueError, match="with its job"):
        client.pin("Off", "why", None, "stream")


def test_a_pin_on_everything_has_to_be_asked_for(client: Client) -> None:
    with pytest.raises(ValueError, match="a job, a job and a stream, or the whole fleet"):
        client.pin("Off", "why")
    with pytest.raises(ValueError, match="a job, a job and a stream, or the whole fleet"):
        client.unpin()
    with pytest.raises(ValueError, match="leave one out"):
        client.pin("Off", "why", "job", fleet=True)
    assert list(client.pins()) == []


def test_fields_that_are_not_named_stay_as_they_are(client: Client) -> None:
    client.change_slo(
        "job",
        "stream",
        {"target_ppm": 900_000, "latency_cap_ms": 60_000, "on_conflict": "exceed_latency_cap"},
    )
    client.change_slo("job", "stream", {"target_ppm": 950_000})
    slo = client.slo("job", "stream")
    assert slo is not None
    assert (slo.target_ppm, slo.latency_cap_ms, slo.on_conflict) == (950_000, 60_000, "exceed_latency_cap")
    assert client.change_slo("job", "stream", {"latency_cap_ms": None}).latency_cap_ms is None
    client.change_policy("job", "stream", {"max_bound_ms": 5_000})
    policy = client.change_policy("job", "stream", {"min_bound_ms": 1_000})
    assert (policy.min_bound_ms, policy.max_bound_ms) == (1_000, 5_000)


def test_a_change_of_what_somebody_else_just_changed_raises_and_writes_nothing(
    controller: Controller, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.change_slo("job", "stream", {"target_ppm": 900_000})
    request = client.send

    def late(method: str, path: str, **options: Any) -> httpx.Response:
        answer = request(method, path, **options)
        if method == "GET":
            controller.put("/slo", {"target_ppm": 800_000})
        return answer

    monkeypatch.setattr(client, "send", late)
    with pytest.raises(ChangedError, match=r"somebody else changed .* try again") as error:
        client.change_slo("job", "stream", {"target_ppm": 700_000})
    assert error.value.status == 412
    assert controller.get("/slo").json()["target_ppm"] == 800_000


# -- the watch -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_watch_yields_the_bound_at_once_and_each_change_when_it_comes(
    controller: Controller, client: Client
) -> None:
    heard: list[str] = []

    def listen() -> None:
        for answer in client.watch("job", "stream", wait_seconds=60):
            heard.append(answer.mode)
            if answer.mode == "Live":
                return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    for number, mode in enumerate(("OnRestart", "Live"), start=1):
        until(lambda: controller.service.watch.waiting, "a request that is held")
        assert len(heard) == number
        controller.put("/policy", {"mode": mode})
        until(lambda: heard[number:], "news", seen=lambda: heard)  # noqa: B023 - at once
    thread.join(PATIENCE_S)
    assert heard == ["Off", "OnRestart", "Live"]
    assert not thread.is_alive()


def test_a_watch_does_not_spin_where_answers_are_not_held_back() -> None:
    def answer(request: Request) -> Response:
        if "if-none-match" in request.headers:
            return Response(status_code=304)
        body = {"job": "j", "stream": "s", "mode": "Off", "generation": 0, "bound_ms": None, "reason": "why"}
        return JSONResponse(body, headers={"ETag": '"0"'})

    slept: list[float] = []

    class Enough(Exception):
        pass

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise Enough

    with stand_in(answer) as (url, seen), Client(url, sleep=sleep) as client:
        watch = client.watch("j", "s")
        assert next(watch).generation == 0
        with pytest.raises(Enough):
            next(watch)
    assert slept == [5.0, 5.0, 5.0]
    assert len(seen) == 4


# -- what goes wrong on the way ------------------------------------------------------------------------------------


@contextmanager
def stand_in(answer: Callable[[Request], Response]) -> Iterator[tuple[str, list[str]]]:
    """Something else behind the address; gives the address and the requests that came."""
    other, seen = FastAPI(), []

    @other.middleware("http")
    async def said(request: Request, _: Any) -> Response:
        seen.append(f"{request.method} {request.url.path}")
        return answer(request)

    with served(other) as url:
        yield url, seen


def no_sleep(seconds: float) -> None:
    pytest.fail(f"nothing was to be tried again, but {seconds} s were waited")


def problem(status: int, **headers: str) -> Response:
    return JSONResponse(
        {"type": "urn:tidemark:problem:store-unavailable", "detail": "not now"}, status, headers=headers
    )


@pytest.mark.parametrize("status", [429, 503])
def test_reads_puts_and_idempotent_posts_are_tried_again_and_not_before_they_are_asked_to(
    status: int,
) -> None:
    slept: list[float] = []
    answers = iter([problem(status, **{"Retry-After": "3"})] * 3)
    receipt = {"job": "j", "stream": "s", "received_us": 1, "duplicate": False, "body_sha256": ""}

    def answer(_: Request) -> Response:
        return next(answers, None) or JSONResponse(receipt, 201)

    with stand_in(answer) as (url, seen), Client(url, sleep=slept.append) as client:
        assert client.send_report(REPORTS[0]).received_us == 1
    assert len(seen) == 4
    assert len(slept) == 3
    assert all(3 <= seconds <= 10 for seconds in slept)


def test_a_request_that_is_not_idempotent_is_sent_once() -> None:
    with (
        stand_in(lambda _: problem(503)) as (url, seen),
        Client(url, sleep=no_sleep) as client,
        pytest.raises(RequestRejectedError, match="not now"),
    ):
        client.create_token({"name": "x"})
    assert seen == ["POST /v1/tokens"]


def test_attempts_end_with_the_last_answer() -> None:
    slept: list[float] = []
    with (
        stand_in(lambda _: problem(503)) as (url, seen),
        Client(url, attempts=3, sleep=slept.append) as client,
        pytest.raises(RequestRejectedError, match="not now") as error,
    ):
        client.ready()
    assert (error.value.status, len(seen), len(slept)) == (503, 3, 2)


@pytest.mark.parametrize(
    ("head", "part", "why"),
    [
        ("Content-Encoding: gzip\r\n", gzip.compress(bytes(10_000_000)), "its answer is compressed"),
        ("", b"{" + b" " * 1_000_000, "its answer is larger than 64 MB"),
        ("Content-Length: 9000\r\n", b"{", r"no answer within 0\.2 s"),
    ],
    ids=["packed", "endless", "hanging"],
)
def test_an_answer_packed_without_end_or_that_never_ends_is_none(head: str, part: bytes, why: str) -> None:
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.wfile.write(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode())
            with suppress(OSError):
                while not ended.is_set():
                    self.wfile.write(part)
                    if "Length" in head:
                        ended.wait()

        def log_message(self, *_: object) -> None:
            pass

    limit_s = 0.2 if "within" in why else PATIENCE_S
    with running_tcp_server(Handler) as url, Client(url, timeout_seconds=limit_s, attempts=1) as client:
        with pytest.raises(UnreachableError, match=why):
            client.ready()
        ended.set()


def test_a_controller_that_is_not_there_is_waited_for_and_then_said_to_be_out_of_reach() -> None:
    slept: list[float] = []
    with (
        Client("http://127.0.0.1:1", sleep=slept.append) as client,
        pytest.raises(UnreachableError, match=r"http://127.0.0.1:1 cannot be reached: "),
    ):
        client.ready()
    assert len(slept) == 4


@pytest.mark.parametrize("status", [400, 404, 409, 422, 500])
def test_a_rejected_request_is_not_retried(status: int) -> None:
    with (
        stand_in(lambda _: problem(status)) as (url, seen),
        Client(url, sleep=no_sleep) as client,
        pytest.raises(RequestRejectedError),
    ):
        client.job("j")
    assert len(seen) == 1


@pytest.mark.parametrize(
    "body", [{"jobs": 1, "next_cursor": None}, {"jobs": [{"job": 1}], "next_cursor": None}, {"x": 1}]
)
def test_an_answer_of_another_shape_is_said_to_be_none(body: dict[str, Any]) -> None:
    with (
        stand_in(lambda _: JSONResponse(body)) as (url, _),
        Client(url) as client,
        pytest.raises(ControllerUnusableError),
    ):
        list(client.jobs())


def test_fields_of_a_newer_controller_are_passed_over(controller: Controller, client: Client) -> None:
    controller.report(REPORTS[0])
    body = {**controller.http.get("/v1/jobs/job").json(), "newer": {"field": 1}}
    with stand_in(lambda _: JSONResponse(body)) as (url, _), Client(url) as other:
        assert other.job("job") == client.job("job")


def test_the_token_is_the_one_given_or_of_the_file_or_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    path.write_text("tdm_file\n")
    monkeypatch.setenv("TIDEMARK_TOKEN", "tdm_environment")
    heard: list[str | None] = []

    def answer(request: Request) -> Response:
        heard.append(request.headers.get("authorization"))
        return JSONResponse({"detail": "no"}, 401)

    with stand_in(answer) as (url, _):
        for given in ({"token": "tdm_given", "token_file": path}, {"token_file": path}, {}):
            with Client(url, **given) as client, pytest.raises(TokenRejectedError) as error:
                client.ready()
            assert "tdm_" not in str(error.value)
        path.write_text("tdm_rotated")
        with Client(url, token_file=path) as client, pytest.raises(TokenRejectedError):
            client.ready()
    assert heard == ["Bearer tdm_given", "Bearer tdm_file", "Bearer tdm_environment", "Bearer tdm_rotated"]


def test_the_address_comes_from_the_environment(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(controller.app) as url:
        monkeypatch.setenv("TIDEMARK_URL", url + "/")
        with Client() as client:
            assert client.url == url
            assert list(client.jobs()) == []
