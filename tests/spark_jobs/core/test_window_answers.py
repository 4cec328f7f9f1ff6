"""What is known of windows in the driver: the controller's last answer, for which no batch ever waits."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tidemark.spark_jobs.core import early_results
from tidemark.spark_jobs.core.client import ControllerClient
from tidemark.spark_jobs.core.connections import Connection
from tidemark.spark_jobs.core.early_results import (
    MOST_LISTED,
    WindowAnswers,
    map_of,
    properties_of,
    with_completeness,
)
from tidemark.spark_jobs.core.sender import Sender

from support.patience import PATIENCE_S, until
from support.receipts import receipt_for
from support.reports import dense_report
from support.window_answers import END_US, ESTIMATE, WINDOW

UNKNOWN = replace(WINDOW, end_us=END_US + 1, estimate=None, outcome="NotKnown", unknown="too few rows")
REPORT = dense_report(0, partitions=1, granules=3)


class Controller:
    """Takes reports, and answers questions about windows as a test says."""

    def __init__(self) -> None:
        self.away = False
        self.status = 200
        self.body: Any = {"windows": [asdict(WINDOW), asdict(UNKNOWN)], "next_cursor": None}
        self.asked: list[str] = []
        self.reports = 0
        self.may_answer = threading.Event()
        self.may_answer.set()

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        if self.away:
            raise httpx.ConnectError("connection refused")
        if request.url.path.endswith("/reports"):
            self.reports += 1
            return httpx.Response(201, json=receipt_for(request.content, None))
        self.asked.append(str(request.url))
        await asyncio.to_thread(self.may_answer.wait, PATIENCE_S)
        return httpx.Response(self.status, json=self.body)


class Stream:
    """A stream whose windows are asked about."""

    def __init__(self, controller: Controller) -> None:
        client = ControllerClient("http://controller", transport=httpx.MockTransport(controller))
        self.sender = Sender(client, longest_wait_s=0.02)
        self.answers = WindowAnswers(Connection(client, self.sender), REPORT.job, REPORT.stream)

    def report(self, **changes: Any) -> None:
        """Let a report go out, and what follows from it end."""
        self.sender.report(replace(REPORT, **changes))
        assert self.sender.flush(PATIENCE_S)
        until(lambda: not self.answers._thread.is_alive(), "the end of a question")


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Controller:
    """Return a controller; each report is followed by a question."""
    monkeypatch.setattr(early_results, "_REST", 0)
    return Controller()


@pytest.fixture
def stream(controller: Controller) -> Iterator[Stream]:
    """Return a stream with that controller."""
    made = Stream(controller)
    yield made
    controller.may_answer.set()
    made.sender.close(0.1)


def test_after_a_report_the_windows_are_as_the_controller_says(stream: Stream) -> None:
    assert stream.answers.newest == {}
    stream.report()
    assert stream.answers.newest == {END_US: ESTIMATE}


def test_it_asks_for_those_windows_alone_of_which_another_row_can_come_out(
    controller: Controller, stream: Stream
) -> None:
    stream.report(watermark_ms=60_000)
    stream.report(watermark_ms=60_000, final_watermark_ms=20_000)
    assert [url.partition("?")[2] for url in controller.asked] == [
        "from_us=60000000&limit=100",
        "from_us=20000000&limit=100",
    ]


def test_while_the_controller_is_slow_the_answer_before_stays_and_reports_go_out(
    controller: Controller, stream: Stream
) -> None:
    stream.report()
    controller.may_answer.clear()
    for _ in range(3):
        stream.sender.report(REPORT)
    assert stream.sender.flush(PATIENCE_S)
    assert controller.reports == 4
    until(lambda: len(controller.asked) == 2, "the second question, and no other one meanwhile")
    assert stream.answers.newest == {END_US: ESTIMATE}


def test_while_reports_do_not_go_out_nothing_is_known(controller: Controller, stream: Stream) -> None:
    stream.report()
    controller.away = True
    stream.sender.report(REPORT)
    until(lambda: stream.answers.newest == {}, "the failure of a report")
    controller.away = False
    until(lambda: stream.answers.newest == {END_US: ESTIMATE}, "the controller's return")


@pytest.mark.parametrize("status", [401, 403, 404, 422, 500, 503])
def test_a_question_that_is_refused_makes_windows_unknown_and_costs_no_report(
    controller: Controller, stream: Stream, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    stream.report()
    controller.status = status
    stream.report()
    stream.report()
    assert stream.answers.newest == {}
    assert (stream.sender.dropped, controller.reports) == (0, 3)
    assert caplog.text.count("how complete windows are is not known now") == 1
    controller.status = 200
    stream.report()
    assert stream.answers.newest == {END_US: ESTIMATE}


@pytest.mark.parametrize("body", [[], {}, {"windows": 1}, {"windows": [{"end_us": 5}]}, {"windows": [None]}])
def test_an_answer_that_cannot_be_read_makes_windows_unknown(
    controller: Controller, stream: Stream, body: Any
) -> None:
    controller.body = body
    stream.report()
    assert stream.answers.newest == {}


def test_after_an_answer_it_rests_many_times_as_long(
    controller: Controller, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the controller spends a tenth of its time on one stream, however many windows it has."""
    monkeypatch.setattr(early_results, "_REST", 10**6)
    for _ in range(3):
        stream.report()
    assert len(controller.asked) == 1


def test_the_columns_are_what_the_interface_says_and_none_of_a_window_that_is_not_known() -> None:
    settled = replace(ESTIMATE, came_ppm=1_000_000, came_min_ppm=1, settled=True)
    assert (
        "map(5L, struct(0.915268D, 0.856357D, 1192L, False), 6L, struct(1.000000D, 0.000001D, 1192L, True))"
        in (map_of({5: ESTIMATE, 6: settled}))
    )
    assert map_of({}).startswith("cast(null as map<bigint, struct<share: double")


@pytest.mark.parametrize(
    ("key", "read"),
    [
        ("userMetadata", lambda text: json.loads(text)["tidemark"]),
        ("snapshot-property.tidemark", json.loads),
    ],
)
def test_a_commit_says_its_windows_the_newest_first_to_readers_of_delta_and_iceberg(
    key: str, read: Callable[[str], Any]
) -> None:
    unknown = {"end": END_US, "share": None, "share_low": None, "rows_expected": None, "settled": None}
    windows: list[dict[str, Any]] = [
        {**unknown, "end": END_US + n * 60_000_000} for n in range(MOST_LISTED + 2)
    ]
    windows[-1] |= {"share": 0.5, "share_low": 0.25, "rows_expected": 8, "settled": False}
    said = read(properties_of("shop", "clicks", windows)[key])
    assert (said["job"], said["stream"], said["left_out"], len(said["windows"])) == ("shop", "clicks", 2, 100)
    assert said["windows"][0] == {**windows[-1], "end": "2026-01-01T01:42:00Z"}
    assert said["windows"][-1] == {**unknown, "end": "2026-01-01T00:03:00Z"}


def test_over_spark_connect_the_call_is_refused_with_what_to_do_instead() -> None:
    with pytest.raises(NotImplementedError, match="tidemark windows"):
        with_completeness(SimpleNamespace(sparkSession=None, columns=[]))  # type: ignore[arg-type]
