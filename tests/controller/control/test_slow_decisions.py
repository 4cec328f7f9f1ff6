"""A decision that takes too long is given up and said, and tried less often: other streams and probes do not wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path

import pytest
from structlog.contextvars import bind_contextvars, get_contextvars, unbind_contextvars

from tidemark.controller.base import background
from tidemark.controller.base.background import (
    FIRST_PAUSE_SECONDS,
    MAX_LEFT,
    MAX_PAUSE_SECONDS,
    MAX_SECONDS,
    GivenUpError,
    GoOn,
    LimitedRuns,
)
from tidemark.controller.base.settings import Settings
from tidemark.controller.control.decide import decider
from tidemark.controller.control.decide.decision import StreamDecision, decide
from tidemark.controller.control.decide.load import Loaded
from tidemark.controller.control.decide.pace import PAUSE_SECONDS
from tidemark.controller.server.process import loop
from tidemark.models.protocol.messages import to_json_object

from support.controller_app import STREAM, ManualClock, make_app
from support.in_process import InProcessClient
from support.patience import PATIENCE_S, until
from support.reports import exponential_batches, query_reports

OTHER = STREAM.replace("streams/stream", "streams/other")


class Steady:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


class Stuck:
    """A controller whose decisions on the first stream do not return until they are let go.

    The time that a decision may take is over as soon as one hangs, and no sooner, however slow the machine is.
    """

    def __init__(self, folder: Path) -> None:
        self.steady = Steady()
        self.clock = ManualClock()
        self.hangs = threading.Event()
        self.let_go = threading.Event()
        self.tried = 0
        settings = Settings(database_url=f"sqlite:///{folder / 't.db'}", tick_seconds=0.01)
        self.app = make_app(settings, self.clock, self.steady)
        self.http = InProcessClient(self.app)

    def decide(self, loaded: Loaded) -> StreamDecision:
        if loaded.horizon.stream_id == 1:
            self.tried += 1
            if not self.let_go.is_set():
                self.hangs.set()
            assert self.let_go.wait(PATIENCE_S)
        return decide(loaded)

    def wait(self, works: list[Future[object]], _seconds: float) -> None:
        """Wait until a decision has ended or hangs."""
        until(lambda: works[0].done() or self.hangs.is_set(), "a decision to end or to hang", pause_s=0.001)
        self.hangs.clear()

    def after_a_pause(self, happened: Callable[[], object]) -> bool:
        """Let the time pass after which a stream with new reports is decided, and return whether it has happened."""
        self.steady.seconds += PAUSE_SECONDS
        return bool(happened())

    def wait_for_ticks(self, more: int) -> None:
        ticker = self.app.state.service.ticker
        wanted = ticker.ticks + more
        until(lambda: ticker.ticks > wanted, "more ticks")

    def decided(self, path: str) -> bool:
        return self.http.get(path).json()["recommended"] is not None

    def given_up(self) -> bool:
        return "\ntidemark_decisions_given_up_total 0.0\n" not in self.http.get("/metrics").text


@pytest.fixture
def stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Stuck]:
    found = Stuck(tmp_path)
    # Other tests may have taken the root logger's handlers away.
    monkeypatch.setattr(loop._log, "handlers", [caplog.handler])
    monkeypatch.setattr(decider, "decide", found.decide)
    monkeypatch.setattr(background, "wait", found.wait)
    with found.http:
        for path in (STREAM, OTHER):
            assert found.http.put(path + "/slo", json={"target_ppm": 990_000}).is_success
        for path in (STREAM, OTHER):
            for report in query_reports(exponential_batches(20, 20), stream=path.rpartition("/")[2]):
                assert found.http.post(path + "/reports", json=to_json_object(report)).is_success
        until(lambda: found.tried or found.after_a_pause(lambda: found.tried), "the first stream to be tried")
        yield found
        found.let_go.set()


def test_a_decision_that_takes_too_long_is_given_up_and_other_streams_are_decided_meanwhile(
    stuck: Stuck, caplog: pytest.LogCaptureFixture
) -> None:
    until(lambda: stuck.after_a_pause(lambda: stuck.decided(OTHER)), "the other stream's decision")
    until(stuck.given_up, "the stuck one to be given up")
    stuck.wait_for_ticks(1)
    assert stuck.http.get("/livez").status_code == 200
    # It may be given up before the test itself begins.
    logged = [record.getMessage() for phase in ("setup", "call") for record in caplog.get_records(phase)]
    expected = f"1 takes too long: given up after {MAX_SECONDS:g} s; tried again in {FIRST_PAUSE_SECONDS:g} s"
    assert any(expected in message for message in logged), logged


def test_what_was_given_up_writes_nothing_and_is_tried_again_after_a_pause(stuck: Stuck) -> None:
    until(stuck.given_up, "the decision to be given up")
    stuck.wait_for_ticks(3)
    assert stuck.tried == 1
    (left,) = stuck.app.state.service.ticker._runs._left.values()
    stuck.let_go.set()
    wait([left], PATIENCE_S)
    assert not stuck.decided(STREAM)
    stuck.steady.seconds += FIRST_PAUSE_SECONDS
    until(lambda: stuck.decided(STREAM), "the decision that is in time")


# -- the runs themselves -------------------------------------------------------------------------------------------


class Hanging:
    """Work that hangs until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def __call__(self, go_on: GoOn) -> None:
        assert self.let_go.wait(PATIENCE_S)
        go_on()


def test_the_pause_after_each_time_is_twice_as_long_up_to_a_limit() -> None:
    steady, hanging = Steady(), Hanging()
    runs = LimitedRuns(steady, max_seconds=0.001)
    pause_s = FIRST_PAUSE_SECONDS
    for _ in range(8):
        hanging.let_go.clear()
        with pytest.raises(GivenUpError, match=f"given up after 0.001 s; tried again in {pause_s:,.0f} s"):
            runs.run("it", hanging)
        hanging.let_go.set()
        wait([runs._left["it"]], PATIENCE_S)
        steady.seconds += pause_s - 1
        assert not runs.is_due("it")
        steady.seconds += 1
        assert runs.is_due("it")
        pause_s = min(2 * pause_s, MAX_PAUSE_SECONDS)
    assert pause_s == MAX_PAUSE_SECONDS


def test_work_that_was_in_time_begins_with_the_first_pause_again() -> None:
    steady, hanging = Steady(), Hanging()
    runs = LimitedRuns(steady, max_seconds=0.001)
    for _ in range(2):
        with pytest.raises(GivenUpError, match=f"again in {FIRST_PAUSE_SECONDS:g} s"):
            runs.run("it", hanging)
        runs._max_seconds = PATIENCE_S
        assert runs.run("it", lambda _: 7) == 7
        runs._max_seconds = 0.001
    hanging.let_go.set()


def test_what_still_runs_is_not_begun_again_however_long_it_takes() -> None:
    steady, hanging = Steady(), Hanging()
    runs = LimitedRuns(steady, max_seconds=0.001)
    with pytest.raises(GivenUpError):
        runs.run("it", hanging)
    steady.seconds += 10 * MAX_PAUSE_SECONDS
    assert not runs.is_due("it")
    assert runs.is_due("another")
    hanging.let_go.set()
    wait([runs._left["it"]], PATIENCE_S)
    assert runs.is_due("it")


def test_after_too_many_that_do_not_end_the_loop_waits_so_that_the_process_is_not_alive() -> None:
    hanging = Hanging()
    runs = LimitedRuns(Steady(), max_seconds=0.001)
    for number in range(MAX_LEFT):
        with pytest.raises(GivenUpError):
            runs.run(number, hanging)
    runs._max_seconds = PATIENCE_S
    done: list[int] = []
    waiting = threading.Thread(target=lambda: done.append(runs.run("next", lambda _: 1)))
    waiting.start()
    waiting.join(0.05)
    assert not done
    hanging.let_go.set()
    waiting.join(PATIENCE_S)
    assert done == [1]


def test_an_error_and_the_logs_context_pass_through() -> None:
    runs = LimitedRuns(Steady())
    bind_contextvars(stream="clicks")
    assert runs.run("it", lambda _: get_contextvars()["stream"]) == "clicks"
    unbind_contextvars("stream")

    def fail(_: GoOn) -> None:
        raise KeyError("the error of the work")

    with pytest.raises(KeyError, match="the error of the work"):
        runs.run("it", fail)
    assert runs.is_due("it")
