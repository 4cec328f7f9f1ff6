"""The log: one line a request, ids on every line, and never a secret."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidemark.controller.base import logs
from tidemark.controller.base.errors import StoreUnavailableError
from tidemark.controller.base.logs import HIDDEN, configure_logs, handler_for, without_secrets
from tidemark.controller.base.principal import ROLES
from tidemark.controller.base.settings import LogFormat
from tidemark.controller.base.token_format import SECRET_BYTES
from tidemark.controller.base.token_format import make_token as any_token

from support.controller_app import STREAM, Controller
from support.in_process import TestClient
from support.reports import exponential_batches, query_reports
from support.served import served
from support.tokens import bearer, make_token

REPORTS = query_reports(exponential_batches(3, 20))


@contextmanager
def captured(form: LogFormat = "json", level: int = logging.INFO) -> Iterator[io.StringIO]:
    """Let the root logger also write to a text, in the form of the settings."""
    stream = io.StringIO()
    handler, root = handler_for(form, stream), logging.getLogger()
    # The tests' own client logs what it asks.
    handler.addFilter(lambda record: not record.name.startswith("http"))
    before = root.level
    root.addHandler(handler)
    root.setLevel(level)
    try:
        yield stream
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        handler.close()


def lines(stream: io.StringIO, event: str | None = None) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in found if event is None or line["event"] == event]


def test_a_request_is_one_line_with_what_it_was_and_who_sent_it(controller: Controller) -> None:
    token = make_token(controller, name="kim")
    with captured() as stream:
        controller.put("/slo", {"target_ppm": 900_000}, headers={**bearer(token), "X-Request-Id": "abc-1"})
    (line,) = lines(stream, "request")
    assert line.pop("timestamp").endswith("Z")
    assert line.pop("duration_ms") >= 0
    assert line == {
        "event": "request",
        "level": "info",
        "logger": "tidemark.request",
        "method": "PUT",
        "route": "/v1/jobs/{job}/streams/{stream}/slo",
        "status": 200,
        "request_id": "abc-1",
        "principal": "kim",
        "job": "job",
        "stream": "stream",
    }


@pytest.mark.parametrize("given_id", ["", "a b", "x" * 65, "a\u00e9", '"', "tdm_job_" + "0" * 51])
def test_an_id_that_is_not_sane_is_replaced(controller: Controller, given_id: str) -> None:
    answer = controller.http.get("/livez", headers={"X-Request-Id": given_id.encode("latin-1")})
    made = answer.headers["x-request-id"]
    assert len(made) == 32
    assert made.isalnum()


def test_a_sane_id_comes_back_on_every_answer(controller: Controller) -> None:
    for path in ("/livez", "/v1/fleet", "/nothing", STREAM):
        answer = controller.http.get(path, headers={"X-Request-Id": "my.id_1-A"})
        assert answer.headers["x-request-id"] == "my.id_1-A"


def test_a_failure_inside_has_an_id_too_and_its_traceback_is_found_by_it(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise RuntimeError("a secret of the inside")

    client = TestClient(controller.app, raise_server_exceptions=False)
    with captured() as stream:
        monkeypatch.setattr(controller.service.database, "read", broken)
        answer = client.get(STREAM, headers={"X-Request-Id": "find-me"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "find-me")
    (line,) = lines(stream, "request")
    assert (line["status"], line["level"], line["request_id"]) == (500, "warning", "find-me")


def test_a_client_that_leaves_in_mid_body_is_one_line_and_no_failure(controller: Controller) -> None:
    """Jobs are killed, and networks fail: a traceback as a 500 would page somebody for that."""
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": f"{STREAM}/reports",
        "raw_path": f"{STREAM}/reports".encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"1000")],
        "client": ("testclient", 50_000),
        "server": ("testserver", 80),
    }
    messages: list[dict[str, Any]] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b"{", "more_body": True},
    ]

    async def receive() -> dict[str, Any]:
        return messages.pop()

    async def send(_: Any) -> None:
        pass

    async def leave() -> None:
        await controller.app(scope, receive, send)

    assert controller.http.portal is not None
    with captured() as log:
        controller.http.portal.call(leave)
    (line,) = lines(log)
    assert (line["event"], line["status"], line["level"]) == ("request", 499, "info")


def test_every_line_of_a_request_carries_its_id_and_stream(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bool:
        raise RuntimeError("cannot decide")

    monkeypatch.setattr(controller.service.decider, "decide_within", broken)
    with captured() as stream:
        answer = controller.put("/slo", {"target_ppm": 900_000}, headers={"X-Request-Id": "of-this-request"})
    assert answer.status_code == 200, "the write stands though its decision fails"
    assert controller.get("/slo").json()["target_ppm"] == 900_000
    body = lines(stream)
    assert len(body) >= 2, "the failed decision, and the request"
    for line in body:
        assert (line["request_id"], line["job"], line["stream"]) == ("of-this-request", "job", "stream")
    assert "RuntimeError: cannot decide" in stream.getvalue()


def test_lines_of_the_decision_loop_carry_the_stream_and_no_request(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.put("/slo", {"target_ppm": 900_000})
    controller.http.put("/v1/jobs/shop/streams/clicks/slo", json={"target_ppm": 900_000})

    def broken(*_: object) -> bool:
        raise RuntimeError("cannot decide")

    monkeypatch.setattr(controller.service.decider, "decide", broken)
    with captured() as stream:
        controller.tick()
    body = [(line["job"], line["stream"], "request_id" in line) for line in lines(stream)]
    assert body == [("job", "stream", False), ("shop", "clicks", False)]


def test_reports_and_reads_are_logged_at_debug_only_unless_they_are_rejected(controller: Controller) -> None:
    with captured() as stream:
        assert controller.report(REPORTS[0]).status_code == 201
        controller.status()
        controller.http.post(f"{STREAM}/reports", json={})
        controller.get("/rollouts/7")
    assert [(line["method"], line["status"]) for line in lines(stream, "request")] == [
        ("POST", 422),
        ("GET", 404),
    ]
    with captured(level=logging.DEBUG) as stream:
        assert controller.report(REPORTS[1]).status_code == 201
    assert [(line["route"], line["level"]) for line in lines(stream, "request")] == [
        ("/v1/jobs/{job}/streams/{stream}/reports", "debug")
    ]


def test_successful_probes_are_logged_at_debug_only(controller: Controller) -> None:
    with captured() as stream:
        controller.http.get("/livez")
        controller.service.ticker.stop()
        controller.http.get("/livez")
    assert [line["status"] for line in lines(stream, "request")] == [503]
    with captured(level=logging.DEBUG) as stream:
        controller.http.get("/readyz")
    assert [line["level"] for line in lines(stream, "request")] == ["debug"]


def test_a_path_that_matches_nothing_is_not_repeated(controller: Controller) -> None:
    with captured() as stream:
        controller.http.get("/no/such/path")
    (line,) = lines(stream, "request")
    assert (line["route"], line["status"]) == (None, 404)
    assert "such" not in stream.getvalue()


# -- secrets ---------------------------------------------------------------------------------------------------------

TOKENS = st.builds(any_token, st.sampled_from(ROLES), st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES))


@pytest.mark.parametrize("form", ["json", "console"])
@given(
    token=TOKENS, header=st.sampled_from(["Authorization", "X-Request-Id", "X-User", "User-Agent", "Cookie"])
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_token_in_a_header_never_gets_into_the_log(
    controller: Controller, form: LogFormat, token: str, header: str
) -> None:
    make_first(controller)
    value = f"Bearer {token}" if header == "Authorization" else token
    with captured(form, logging.DEBUG) as stream:
        controller.http.get(STREAM, headers={header: value})
        controller.http.get(f"/nothing/{token}", headers={header: value})
        controller.http.get(f"/v1/jobs/{token}/streams/s", headers={header: value})
    assert "request" in stream.getvalue()
    assert token not in stream.getvalue()


def make_first(controller: Controller) -> None:
    controller.service.authenticator.refresh()
    if not controller.service.authenticator.has_tokens:
        make_token(controller)


def test_making_and_using_a_token_logs_its_number_and_never_itself(controller: Controller) -> None:
    with captured(level=logging.DEBUG) as stream:
        made = controller.http.post("/v1/tokens", json={"name": "root", "role": "admin"}).json()
        controller.http.get("/v1/tokens", headers=bearer(made["token"]))
        controller.http.delete("/v1/tokens/1", headers=bearer(made["token"]))
    assert any("token 1 of 'root' made" in line["event"] for line in lines(stream))
    assert any("token 1 of 'root' revoked by 'root'" in line["event"] for line in lines(stream))
    assert made["token"][-40:] not in stream.getvalue()


def test_a_body_never_gets_into_the_log_not_even_when_the_store_fails_on_it(controller: Controller) -> None:
    assert controller.put("/policy", {"mode": "Off"}).status_code == 200
    with controller.service.database.connect() as connection:
        connection.exec_driver_sql("DROP TABLE events")
        connection.commit()
    with captured(level=logging.DEBUG) as stream:
        answer = controller.http.put(
            "/v1/pin?job=job&stream=stream", json={"to": "Off", "reason": "secret-of-the-body"}
        )
    assert answer.status_code == 503
    assert "no such table: events" in stream.getvalue()
    assert "secret-of-the-body" not in stream.getvalue()


@given(TOKENS, st.text(max_size=20), st.text(max_size=20))
def test_hiding_takes_a_token_out_of_any_text(token: str, before: str, after: str) -> None:
    assert token not in without_secrets(before + token + after)


@pytest.mark.parametrize("text", ["Authorization: Bearer abc.def", "authorization: basic dTpw"])
def test_hiding_takes_credentials_of_other_kinds_out_too(text: str) -> None:
    assert without_secrets(text).endswith(f" {HIDDEN}")


def test_text_without_secrets_stays_as_it_is() -> None:
    text = 'stream "tdm_clicks" of job bearer-tokens could not be decided'
    assert without_secrets(text) == text


# -- where it goes ---------------------------------------------------------------------------------------------------


@pytest.fixture
def root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.usefixtures("root_as_it_was")
def test_the_web_servers_lines_go_the_same_way() -> None:
    stream = io.StringIO()
    configure_logs("info", "json", stream)
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 7)
    logging.getLogger("uvicorn.error").debug("not logged at info")
    (line,) = lines(stream)
    assert (line["event"], line["logger"]) == ("Started server process [7]", "uvicorn.error")


@pytest.mark.usefixtures("root_as_it_was")
def test_the_addresses_that_the_controller_calls_are_not_logged(controller: Controller) -> None:
    stream = io.StringIO()
    configure_logs("debug", "json", stream)
    with served(controller.app) as url:
        assert httpx.get(f"{url}/livez/secret").status_code == 404
    assert "secret" not in stream.getvalue()


@pytest.mark.usefixtures("root_as_it_was")
def test_a_traceback_shows_no_values_of_variables() -> None:
    for form in ("json", "console"):
        stream = io.StringIO()
        configure_logs("info", form, stream)
        held = secrets.token_hex(8)
        try:
            int("no number")
        except ValueError:
            logging.getLogger("tidemark").exception("it failed")
        assert "ValueError: invalid literal" in stream.getvalue()
        assert held not in stream.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_store_that_takes_no_writes_is_a_sentence_and_no_traceback(form: LogFormat) -> None:
    with captured(form) as stream:
        error = StoreUnavailableError("the file was removed")
        logging.getLogger("tidemark").error("a tick failed", exc_info=error)
    assert "a tick failed: the file was removed" in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_a_line_for_people_has_the_event_and_the_fields(controller: Controller) -> None:
    with captured("console") as stream:
        answer: httpx.Response = controller.http.get("/no/such/path", headers={"X-Request-Id": "abc"})
    assert answer.status_code == 404
    (line,) = stream.getvalue().splitlines()
    for part in ("[info", "request", "method=GET", "status=404", "request_id=abc"):
        assert part in line


# -- what repeats, and what a stranger sends --------------------------------------------------------------------------


def _failed(text: str) -> None:
    raise OSError(text)


def test_a_fault_that_repeats_is_one_line_and_a_count() -> None:
    with captured() as stream:
        logger = logging.getLogger("test")
        for number in range(1_000):
            try:
                _failed("no space left on device")
            except OSError:
                logger.exception("report %d was not stored", number)
            logger.warning("another")
            logger.info("tick")
    found = [(line["event"], line.get("left_out"), "exception" in line) for line in lines(stream)]
    assert [each for each in found if each[0] != "tick"] == [
        ("report 0 was not stored", None, True),
        ("another", None, False),
        ("report 0 was not stored", 999, False),
        ("another", 999, False),
    ]
    assert len(found) == 1_004, "what is no fault is written each time"


def test_a_log_that_nobody_takes_holds_nobody_and_says_how_much_it_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As behind a pipe whose reader has stopped: the kernel takes 64 kB, and then every write waits."""
    monkeypatch.setattr(logs, "_MAX_WAITING", 10)
    read, write = os.pipe()
    with os.fdopen(read) as taken, os.fdopen(write, "w") as stream:
        handler, logger = handler_for("json", logs._Aside(stream)), logging.getLogger(logs.__name__)
        logger.addHandler(handler)
        monkeypatch.setattr(logger, "level", logging.INFO)
        monkeypatch.setattr(logger, "propagate", False)
        try:
            for number in range(1_000):
                logger.info("line %d %s", number, "x" * 1_000)
            known = left_out = 0
            while known + left_out < 1_000:
                event = json.loads(taken.readline())["event"]
                said = re.match(r"nobody took the log: (\d+) lines were left out", event)
                known, left_out = known + (said is None), int(said[1]) if said else left_out
        finally:
            logger.removeHandler(handler)
    # A line that says so may be left out too, and is counted then.
    assert 0 < left_out < 1_000 <= known + left_out


@pytest.mark.slow
def test_the_lines_of_a_storm_of_requests_are_few_whatever_they_ask_for_and_each_is_counted(
    controller: Controller,
) -> None:
    with captured() as stream:
        for number in range(300):
            for path in ("/", "slo", "policy"):
                controller.http.get(f"/v1/jobs/{number}/streams/{number}/{path}", headers=bearer("guessed"))
    found = lines(stream, "request")
    assert sum(line.get("left_out", 1) for line in found) == 900
    assert len(found) < 220


@pytest.mark.parametrize("form", ["json", "console"])
def test_nothing_that_a_stranger_sends_reaches_a_terminal_raw(
    controller: Controller, form: LogFormat
) -> None:
    with captured(form, logging.DEBUG) as stream:
        for odd in ("%1b]0;owned%07", "%9b31m", "%0a%0dforged", "%e2%80%ae"):
            for path in (f"/{odd}", f"/v1/jobs/{odd}/streams/{odd}/slo", f"/v1/fleet?job={odd}"):
                controller.http.get(path)
        raw = "\x1b[2J\x07\x9b\u202e"
        try:
            _failed(raw)
        except OSError:
            logging.getLogger(raw).exception("it failed: %s\nforged", raw)
    written = stream.getvalue()
    assert written.replace("\n", "").isprintable()
    assert not any(line.startswith("forged") for line in written.splitlines())
    assert r"\x1b[2J\x07" in written.replace("\\\\", "\\")
