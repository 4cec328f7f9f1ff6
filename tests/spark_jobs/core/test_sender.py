"""The sender: nothing it does may block or fail the query, and what it drops is counted to the last report."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tidemark.models.base.operators import tumbling
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import Acknowledgement, Report
from tidemark.spark_jobs.core.client import (
    ControllerClient,
    ControllerUnavailable,
    RequestRejected,
    TokenRejected,
)
from tidemark.spark_jobs.core.sender import Sender

from support.patience import PATIENCE_S, until
from support.receipts import receipt_for

REPORT = Report(
    schema_version=1,
    job="shop / €",
    stream="clicks",
    query_id="q",
    run_id="r",
    batch_id=0,
    started_us=0,
    duration_ms=1,
    operator=tumbling("10 s"),
    output_mode="append",
    bound_ms=0,
    generation=None,
    late_watermark_ms=0,
    watermark_ms=0,
    late_base_ms=None,
    granule_us=1_000_000,
    closed="left",
    rows=0,
    null_rows=0,
    min_event_time_us=None,
    max_event_time_us=None,
    counts=GranuleCounts.of(()),
    state_rows=0,
    state_bytes=0,
    dropped_by_spark=0,
)
ACK = Acknowledgement(
    query_id="q", run_id="r", bound_ms=0, generation=None, source="job", mode="Off", applied_us=0
)


def answer(status: int, request: httpx.Request, **more: Any) -> httpx.Response:
    """Return the controller's own answer to what it was sent: a receipt, or a problem."""
    receipt = receipt_for(request.content, request.headers.get("content-encoding"))
    return httpx.Response(status, json={**receipt, "title": "t", "detail": "d", "errors": [], **more})


class Controller:
    """A controller that can be away, and remembers what reached it."""

    def __init__(self) -> None:
        self.up = threading.Event()
        self.asked = threading.Event()
        self.batches: list[int] = []
        self.paths: list[str] = []
        self.status = 201
        self.failing: set[int] = set()
        """Batches whose reports it fails on."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.asked.set()
        if not self.up.is_set():
            raise httpx.ConnectError("connection refused")
        self.paths.append(request.url.raw_path.decode())
        if request.url.path.endswith("reports"):
            self.batches.append(batch := json.loads(request.content)["batch_id"])
            if batch in self.failing:
                return answer(500, request)
        return answer(self.status, request)


@pytest.fixture
def controller() -> Controller:
    """Return a controller that is away."""
    return Controller()


@pytest.fixture
def make(controller: Controller) -> Iterator[Callable[[int], Sender]]:
    """Return a factory of senders to ``controller``."""
    made: list[Sender] = []

    def build(queue: int) -> Sender:
        client = ControllerClient("http://controller", transport=httpx.MockTransport(controller))
        made.append(Sender(client, queue, longest_wait_s=0.02))
        return made[-1]

    yield build
    for sender in made:
        sender.close(0.1)


def _batch(number: int) -> Report:
    return dataclasses.replace(REPORT, batch_id=number)


def test_reports_arrive_in_order_once_the_controller_is_back(
    controller: Controller, make: Callable[[int], Sender]
) -> None:
    """An outage costs time, not evidence."""
    sender = make(100)
    for number in range(30):
        sender.report(_batch(number))
    controller.up.set()

    assert sender.flush(PATIENCE_S)
    assert controller.batches == list(range(30))
    assert sender.dropped == 0


def test_each_try_of_a_report_says_when_it_was_sent() -> None:
    """By the driver's clock, which the controller compares with its own."""
    sent: list[int] = []

    def received(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content)["sent_us"])
        return answer(201, request)

    client = ControllerClient("http://controller", transport=httpx.MockTransport(received))
    before_us = time.time_ns() // 1_000
    client.report(REPORT)
    client.report(REPORT)
    assert before_us <= sent[0] < sent[1] <= time.time_ns() // 1_000
    client.close()


def test_a_full_queue_gives_up_the_oldest_reports_and_counts_each(
    controller: Controller, make: Callable[[int], Sender]
) -> None:
    """The counter and the gap must tell the same number."""
    sender = make(10)
    for number in range(50):
        sender.report(_batch(number))
    controller.up.set()

    assert sender.flush(PATIENCE_S)
    assert sender.drops == {"queue full": 40}
    assert len(controller.batches) == 10
    assert controller.batches[-9:] == list(range(41, 50))


def test_the_report_that_may_already_have_arrived_is_never_counted_as_given_up(
    controller: Controller, make: Callable[[int], Sender]
) -> None:
    """What is in flight is neither lost nor sent until the controller has answered."""
    sender = make(3)
    sender.report(_batch(0))
    assert controller.asked.wait(PATIENCE_S)
    for number in range(1, 6):
        sender.report(_batch(number))
    controller.up.set()

    assert sender.flush(PATIENCE_S)
    assert controller.batches[0] == 0
    assert sender.dropped + len(controller.batches) == 6


def test_a_rejected_report_is_dropped_at_once_and_the_next_one_is_sent(
    controller: Controller, make: Callable[[int], Sender], caplog: pytest.LogCaptureFixture
) -> None:
    """A report that is rejected for good would block the queue for ever."""
    controller.up.set()
    controller.status = 422
    sender = make(10)
    sender.report(_batch(1))
    sender.report(_batch(2))

    assert sender.flush(PATIENCE_S)
    assert sender.drops == {"rejected": 2}
    assert sender.dropped == 2
    assert controller.batches == [1, 2]
    assert "was rejected" in caplog.text


def test_closing_gives_up_what_cannot_be_sent_and_says_how_much(
    make: Callable[[int], Sender], caplog: pytest.LogCaptureFixture
) -> None:
    """A driver must be able to end while the controller is away."""
    sender = make(10)
    for number in range(4):
        sender.report(_batch(number))
    sender.acknowledge("job", "stream", ACK)
    sender.close(0.05)
    sender.report(_batch(9))

    assert sender.drops == {"driver ended": 5}
    assert "4 reports not sent" in caplog.text


def test_names_are_escaped_in_the_address(controller: Controller, make: Callable[[int], Sender]) -> None:
    """A job's name may hold a slash."""
    controller.up.set()
    sender = make(10)
    sender.report(REPORT)

    assert sender.flush(PATIENCE_S)
    assert controller.paths == ["/v1/jobs/shop%20%2F%20%E2%82%AC/streams/clicks/reports"]


def test_a_queue_that_holds_nothing_is_rejected() -> None:
    """It would give up every report."""
    with pytest.raises(ValueError, match="at least 1 report, not 0"):
        Sender(ControllerClient("http://controller"), 0)


def test_acknowledgements_cannot_make_the_queue_grow(make: Callable[[int], Sender]) -> None:
    """A driver may start a run every minute while the controller is away for a week."""
    sender = make(5)
    for number in range(50):
        sender.acknowledge("job", "stream", ACK)
        sender.report(_batch(number))

    assert len(sender._items) <= 6


def test_a_report_on_which_the_controller_fails_waits_and_does_not_hold_up_the_others(
    controller: Controller, make: Callable[[int], Sender]
) -> None:
    """A defect of the controller with one report must not mute the whole driver, nor cost the report."""
    controller.up.set()
    controller.failing = {1}
    sender = make(10)
    for number in range(1, 4):
        sender.report(_batch(number))
    until(lambda: {2, 3} <= set(controller.batches), "the others")
    assert not sender.flush(0)
    controller.failing = set()

    assert sender.flush(PATIENCE_S)
    assert controller.batches[-1] == 1
    assert sender.dropped == 0


def test_no_report_is_lost_while_every_request_fails(
    controller: Controller, make: Callable[[int], Sender]
) -> None:
    """A store that cannot write may answer 500 for as long as somebody takes to notice."""
    controller.up.set()
    controller.failing = set(range(5))
    sender = make(10)
    for number in range(5):
        sender.report(_batch(number))
    until(lambda: len(controller.batches) > 60, "each of them twice at least")
    controller.failing = set()
    controller.batches.clear()

    assert sender.flush(PATIENCE_S)
    assert {*controller.batches} == {*range(5)}
    assert sender.dropped == 0


@pytest.mark.parametrize("status", [401, 404, 408, 429, 500, 503])
def test_a_status_that_may_pass_is_worth_another_try(status: int) -> None:
    """Too many requests or a restart behind a proxy are outages, not refusals."""
    client = ControllerClient("http://c", transport=httpx.MockTransport(lambda _: httpx.Response(status)))
    with pytest.raises(ControllerUnavailable, match=str(status)):
        client.report(REPORT)


def test_a_refusal_carries_the_pointer_to_what_is_wrong() -> None:
    """The driver's log is where the job's owner looks."""
    errors = [{"pointer": "/rows", "detail": "must be at least 0"}]
    refusing = httpx.MockTransport(lambda request: answer(422, request, errors=errors))
    client = ControllerClient("http://c", transport=refusing)
    with pytest.raises(RequestRejected, match="/rows: must be at least 0"):
        client.report(REPORT)


def test_the_token_is_read_anew_for_each_request(tmp_path: Path) -> None:
    """A rotated token must not need a restart of the job."""
    seen: list[str | None] = []

    def seeing(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return answer(201, request)

    token = tmp_path / "token"
    client = ControllerClient("http://c", token, transport=httpx.MockTransport(seeing))
    for text in ("old\n", "new\n"):
        token.write_text(text)
        client.report(REPORT)
    token.unlink()
    with pytest.raises(ControllerUnavailable, match="token file"):
        client.report(REPORT)

    assert seen == ["Bearer old", "Bearer new"]


def _refusing(status: int) -> httpx.MockTransport:
    return httpx.MockTransport(lambda _: httpx.Response(status))


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_token_says_what_to_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """It is tried again, since it may be in the middle of being rotated; meanwhile the log has to help."""
    monkeypatch.delenv("TIDEMARK_TOKEN", raising=False)
    with pytest.raises(TokenRejected, match="no token was sent: name its file in"):
        ControllerClient("http://c", transport=_refusing(status)).report(REPORT)
    monkeypatch.setenv("TIDEMARK_TOKEN", "s3cr3t")
    with pytest.raises(
        TokenRejected, match="check that the environment variable TIDEMARK_TOKEN holds"
    ) as error:
        ControllerClient("http://c", transport=_refusing(status)).report(REPORT)
    (tmp_path / "token").write_text("s3cr3t")
    with pytest.raises(TokenRejected, match=f"check that the token file {tmp_path / 'token'} holds"):
        ControllerClient("http://c", tmp_path / "token", transport=_refusing(status)).report(REPORT)

    assert "s3cr3t" not in str(error.value)


def test_a_rejected_token_is_waited_for(controller: Controller, make: Callable[[int], Sender]) -> None:
    """No report is lost because a token was rotated a minute too late."""
    controller.up.set()
    controller.status = 401
    sender = make(10)
    sender.report(_batch(1))
    assert not sender.flush(0.2)
    controller.status = 201

    assert sender.flush(PATIENCE_S)
    assert sender.dropped == 0


def test_the_token_may_come_from_the_environment_and_a_file_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []

    def seeing(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return answer(201, request)

    (tmp_path / "token").write_text("from-file")
    monkeypatch.setenv("TIDEMARK_TOKEN", " from-environment\n")
    for file in (None, tmp_path / "token"):
        ControllerClient("http://c", file, transport=httpx.MockTransport(seeing)).report(REPORT)
    monkeypatch.delenv("TIDEMARK_TOKEN")
    ControllerClient("http://c", transport=httpx.MockTransport(seeing)).report(REPORT)

    assert seen == ["Bearer from-environment", "Bearer from-file", None]


@pytest.mark.parametrize("content", [b"", b"two words", b"two\nlines", b"t\xf6ken", b"t\x07ken"])
def test_what_is_no_token_is_not_sent_and_not_shown(tmp_path: Path, content: bytes) -> None:
    """A header with a line break in it would be another header, and an error about it would quote it."""
    (tmp_path / "token").write_bytes(content)
    client = ControllerClient("http://c", tmp_path / "token", transport=_refusing(201))
    with pytest.raises(ControllerUnavailable, match="token file") as error:
        client.report(REPORT)

    assert "ken" not in str(error.value).replace("token", "")
    assert "words" not in str(error.value)
