"""The watch: it always holds the newest answer, costs a fleet's controller little, and no outage ends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import httpx
import pytest

from tidemark.models.protocol.messages import BoundAnswer, to_json_object
from tidemark.spark_jobs.core.bound import BoundCache, OwnBounds, choose_bound_at_start
from tidemark.spark_jobs.core.client import (
    ControllerClient,
    ControllerUnavailable,
    RequestRejected,
    TokenRejected,
)
from tidemark.spark_jobs.core.watch import BoundWatch, watch_of

from support.bound_server import BoundServer
from support.job_settings import read_settings
from support.patience import PATIENCE_S, until

FIRST = BoundAnswer(job="j", stream="s", mode="Restart", generation=1, bound_ms=1_000, reason="r")
SECOND = replace(FIRST, generation=2, bound_ms=2_000)
WAIT_S = 30.0

Told = tuple[BoundAnswer, str | None] | None | Exception


class Script:
    """A controller that says one line after another, on a clock of its own, and ends the watch after the last."""

    url = "http://c"

    def __init__(self, *lines: Told | tuple[float, Told]) -> None:
        self.lines = list(lines)
        self.etags: list[str | None] = []
        self.pauses: list[float] = []
        self.now_s = 1_000.0
        self.watch_: BoundWatch | None = None

    def watch(
        self, job: str, stream: str, etag: str | None, wait_s: float
    ) -> tuple[BoundAnswer, str | None] | None:
        assert (job, stream, wait_s) == ("j", "s", WAIT_S)
        self.etags.append(etag)
        line = self.lines.pop(0)
        if isinstance(line, tuple) and isinstance(line[0], float):
            self.now_s += line[0]
            line = line[1]
        if isinstance(line, Exception):
            raise line
        return line

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds
        if not self.lines and self.watch_ is not None:
            self.watch_.close()

    def run(self, folder: Path, cache: BoundCache | None = None) -> BoundWatch:
        """Let the watch get all lines, each pause as long as it may be, and return it when it has ended."""
        self.watch_ = BoundWatch(
            cast("ControllerClient", self),
            "j",
            "s",
            cache or BoundCache(folder),
            wait_s=WAIT_S,
            clock_us=lambda: round(self.now_s * 1_000_000),
            monotonic=lambda: self.now_s,
            sleep=self.sleep,
            draw=lambda longest: longest,
        )
        self.watch_.start()
        self.watch_._thread.join(PATIENCE_S)
        assert not self.watch_._thread.is_alive()
        return self.watch_


def test_the_newest_answer_is_held_and_asked_for_by_its_etag(tmp_path: Path) -> None:
    script = Script((FIRST, '"1"'), None, (SECOND, '"2"'), None)
    watch = script.run(tmp_path)

    assert script.etags == [None, '"1"', '"1"', '"2"']
    assert watch.latest == SECOND


class RecordingCache(BoundCache):
    """Records each answer that is written, and the one that the watch held by then."""

    def __init__(self, folder: Path, script: Script) -> None:
        super().__init__(folder)
        self.script = script
        self.written: list[tuple[BoundAnswer, BoundAnswer | None]] = []

    def write(self, answer: BoundAnswer) -> None:
        assert self.script.watch_ is not None
        self.written.append((answer, self.script.watch_.latest))


def test_an_answer_is_on_disk_before_the_watch_returns_it(tmp_path: Path) -> None:
    """Whoever restarts for it may find the controller away, and must find the same answer on disk."""
    script = Script((FIRST, '"1"'), (SECOND, '"2"'))
    cache = RecordingCache(tmp_path, script)
    script.run(tmp_path, cache)

    assert cache.written == [(FIRST, None), (SECOND, FIRST)]


def test_nothing_new_is_a_word_of_the_controller_too(tmp_path: Path) -> None:
    """How old the newest word is says whether the controller is there, not whether it changed its mind."""
    script = Script((FIRST, '"1"'), (20.0, None))
    watch = script.run(tmp_path)

    assert watch.last_contact_us == round((script.now_s - script.pauses[-1]) * 1_000_000)


def test_an_outage_leaves_the_answer_and_the_time_of_the_last_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outage = [ControllerUnavailable("refused")] * 3
    script = Script((FIRST, '"1"'), *outage)
    watch = script.run(tmp_path)

    assert watch.latest == FIRST
    assert watch.last_contact_us == 1_000_000_000
    assert caplog.text.count("the last one stays in use") == 1, "once in an outage, not at each try"


def test_each_kind_of_trouble_and_its_end_are_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Script(ControllerUnavailable("gone"), TokenRejected("token rejected: 401"), (FIRST, '"1"')).run(tmp_path)
    body = [record.getMessage() for record in caplog.records]

    assert [
        part in line for part, line in zip(["gone", "token rejected", "answers again"], body, strict=True)
    ] == [
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    "error", [RequestRejected("422"), RuntimeError("whatever"), ControllerUnavailable("x")]
)
def test_no_error_ends_the_watch(tmp_path: Path, error: Exception) -> None:
    """A release that can be read again may come tomorrow."""
    assert Script(error, (FIRST, '"1"')).run(tmp_path).latest == FIRST


def test_an_older_generation_is_followed_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The store may have been restored from a backup; the controller knows, the job does not."""
    assert Script((SECOND, '"2"'), (FIRST, '"1"')).run(tmp_path).latest == FIRST
    assert "went back from generation 2 to 1" in caplog.text


def test_the_same_answer_again_is_no_news(tmp_path: Path) -> None:
    """A proxy may strip the ETag."""
    script = Script((FIRST, None), (FIRST, None))
    cache = RecordingCache(tmp_path, script)
    script.run(tmp_path, cache)

    assert cache.written == [(FIRST, None)]
    assert script.etags == [None, None]
    assert script.pauses[-1] == WAIT_S


def test_a_controller_that_does_not_hold_requests_is_not_asked_all_the_time(tmp_path: Path) -> None:
    script = Script((FIRST, '"1"'), (0.1, None), (29.9, None))
    script.run(tmp_path)

    assert script.pauses == [pytest.approx(pause) for pause in (0.1 * WAIT_S, WAIT_S, 0.1 * WAIT_S)]


def test_pauses_in_an_outage_grow_to_a_limit_and_are_drawn_at_random(tmp_path: Path) -> None:
    """Jobs that lost their controller at the same moment must not come back at the same moment."""
    first, second = (Script(*[ControllerUnavailable("x")] * 12, None) for _ in range(2))
    for script in (first, second):
        script.run(tmp_path)

    for number, pause in enumerate(first.pauses[:12]):
        assert 0 <= pause <= min(2.0**number, 60.0)
    assert max(first.pauses) > 10
    assert first.pauses != second.pauses


# -- over HTTP --------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[BoundServer]:
    """Return a controller whose answers a test publishes."""
    with BoundServer("j", "s") as running:
        yield running


@pytest.fixture
def watch(server: BoundServer, tmp_path: Path) -> Iterator[BoundWatch]:
    """Return a running watch of ``server``."""
    client = ControllerClient(server.url, timeout_s=PATIENCE_S)
    watching = BoundWatch(client, "j", "s", BoundCache(tmp_path), wait_s=20.0, longest_wait_s=0.05)
    watching.start()
    yield watching
    watching.close()
    server.leave()
    watching._thread.join(PATIENCE_S)
    client.close()


def test_a_new_bound_is_heard_at_once_where_the_controller_holds_requests(
    server: BoundServer, watch: BoundWatch
) -> None:
    first = watch.wait_for(None, PATIENCE_S)
    assert first is not None
    until(lambda: server.asked >= 2, "a request that is held")
    server.publish(8_000)
    second = watch.wait_for(first.generation, PATIENCE_S)

    assert second is not None
    assert (second.generation, second.bound_ms) == (1, 8_000)
    assert server.asked <= 4


def test_who_waits_for_a_newer_answer_gets_none_when_there_is_none(
    server: BoundServer, watch: BoundWatch
) -> None:
    held = watch.wait_for(None, PATIENCE_S)
    assert held is not None

    assert watch.wait_for(held.generation, 0.05) is None


def test_closing_lets_go_of_everybody_and_does_not_wait_for_the_request(
    server: BoundServer, watch: BoundWatch
) -> None:
    held = watch.wait_for(None, PATIENCE_S)
    assert held is not None
    got: list[BoundAnswer | None] = []
    waiter = threading.Thread(target=lambda: got.append(watch.wait_for(held.generation, 2 * PATIENCE_S)))
    waiter.start()
    watch.close()
    waiter.join(PATIENCE_S)

    assert got == [None]


@pytest.mark.slow
def test_the_watch_goes_on_after_an_outage(server: BoundServer, watch: BoundWatch) -> None:
    held = watch.wait_for(None, PATIENCE_S)
    assert held is not None
    server.leave()
    server.publish(9_000)
    assert watch.wait_for(held.generation, 0.2) is None
    server.come_back()
    newer = watch.wait_for(held.generation, PATIENCE_S)

    assert newer is not None
    assert newer.bound_ms == 9_000


def test_an_answer_that_ignores_the_preference_is_understood() -> None:
    """As of a proxy that drops it."""
    with BoundServer("j", "s", holds=False) as server:
        client = ControllerClient(server.url, timeout_s=PATIENCE_S)
        body = client.watch("j", "s", None, 30)
        assert body is not None
        assert client.watch("j", "s", body[1], 30) is None
        server.publish(1)
        newer = client.watch("j", "s", body[1], 30)
        client.close()

    assert newer is not None
    assert newer[0].bound_ms == 1


def test_a_request_may_take_as_long_as_it_may_be_held_and_the_usual_limit_on_top() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=to_json_object(FIRST), headers={"ETag": '"1"'})

    client = ControllerClient("http://c", timeout_s=3.0, transport=httpx.MockTransport(answer))
    assert client.watch("j", "s", '"0"', 30.0) == (FIRST, '"1"')

    assert seen[0].headers["If-None-Match"] == '"0"'
    assert seen[0].headers["Prefer"] == "wait=30"


def test_not_modified_is_an_answer_only_to_who_asked_for_news() -> None:
    client = ControllerClient("http://c", transport=httpx.MockTransport(lambda _: httpx.Response(304)))

    assert client.watch("j", "s", '"1"', 1.0) is None
    with pytest.raises(ControllerUnavailable, match="304"):
        client.bound("j", "s")


def test_the_watch_of_a_start_lets_the_controller_hold_a_request_as_long_as_the_call_says(
    tmp_path: Path,
) -> None:
    held = threading.Event()

    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers.get("Prefer") == "wait=7":
            held.set()
        return httpx.Response(200, json=to_json_object(FIRST), headers={"ETag": '"1"'})

    settings = read_settings(dict[str, str]().get, job="j", stream="s", cache_dir=tmp_path, watch_seconds=7)
    client = ControllerClient("http://controller", transport=httpx.MockTransport(answer))
    watch = watch_of(choose_bound_at_start(settings, OwnBounds(60_000), client))
    watch.start()
    try:
        assert held.wait(PATIENCE_S)
    finally:
        watch.close()
