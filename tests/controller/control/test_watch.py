"""Watching the bound: answers that wait for a change, many at a time, over replicas, and at a shutdown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.exc import OperationalError

from tidemark.controller.base.settings import Settings
from tidemark.controller.server.http.parameters import wait_seconds
from tidemark.controller.server.process.service import Service
from tidemark.models.protocol.messages import to_json_object

from support.controller_app import STREAM, Controller, make_app
from support.patience import PATIENCE_S, until_async
from support.reports import exponential_batches, query_reports

BOUND = STREAM + "/bound"
REPORTS = query_reports(exponential_batches(4, 20))
PIN = {"to": "Off", "reason": "INC-1"}


class Replica:
    """One controller on a store that it may share, served without sockets in the test's own event loop."""

    def __init__(self, url: str) -> None:
        # Far more than a test waits: only what wakes a watch can end it early.
        self.app = make_app(Settings(database_url=url, tick_seconds=3_600))
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url="http://controller", timeout=None
        )

    @property
    def service(self) -> Service:
        service: Service = self.app.state.service
        return service

    def hold(self, etag: str | None, seconds: int = 60, path: str = BOUND) -> asyncio.Task[httpx.Response]:
        headers = {"Prefer": f"wait={seconds}", **({"If-None-Match": etag} if etag else {})}
        return asyncio.create_task(self.http.get(path, headers=headers))

    async def etag(self, path: str = BOUND) -> str:
        return (await self.http.get(path)).headers["etag"]

    async def waiting(self, number: int) -> None:
        await until_async(lambda: self.service.watch.waiting == number, f"{number} that wait")

    async def asked(self, more: int) -> None:
        """Wait until the store has been asked so much more often."""
        wanted = self.service.watch.polls + more
        await until_async(lambda: self.service.watch.polls >= wanted, f"{more} more questions")


@asynccontextmanager
async def replica(url: str) -> AsyncIterator[Replica]:
    running = Replica(url)
    async with running.app.router.lifespan_context(running.app), running.http:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind that is there."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'tidemark.db'}"
    found: str = request.getfixturevalue("new_postgres_url")
    return found


def play(url: str, story: Callable[[Replica], Awaitable[None]]) -> None:
    async def run() -> None:
        async with replica(url) as running:
            await story(running)

    asyncio.run(run())


# -- the headers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (None, None),
        ([], None),
        (["wait=10"], 10),
        (["wait=0"], 0),
        (["wait=3600"], 60),
        (["WAIT = 7"], 7),
        (['wait="7"'], 7),
        (["respond-async, wait=5"], 5),
        (["respond-async", "wait=5"], 5),
        (["wait=5; foo=bar, wait=9"], 5),
        (["wait=-1"], None),
        (["wait=1.5"], None),
        (["wait"], None),
        (["wait="], None),
        (["waiting=5"], None),
        (["wait=9999999999999"], None),
        (["wait=soon", "wait=5"], 5),
    ],
    ids=str,
)
def test_the_first_valid_wait_counts_and_is_at_most_a_minute(
    headers: list[str] | None, seconds: int | None
) -> None:
    assert wait_seconds(headers) == seconds


@pytest.mark.slow
def test_an_answer_that_the_caller_does_not_hold_comes_at_once(controller: Controller) -> None:
    first = controller.get("/bound", headers={"Prefer": "wait=60"})
    assert (first.status_code, first.headers["preference-applied"]) == (200, "wait=60")
    other = controller.get("/bound", headers={"Prefer": "wait=60", "If-None-Match": '"7"'})
    assert (other.status_code, other.json()) == (200, first.json())


def test_without_the_preference_nothing_waits_and_no_preference_is_applied(controller: Controller) -> None:
    etag = controller.get("/bound").headers["etag"]
    answer = controller.get("/bound", headers={"If-None-Match": etag})
    assert (answer.status_code, "preference-applied" in answer.headers) == (304, False)


@pytest.mark.slow
def test_an_answer_that_does_not_change_is_304_when_the_time_is_up(controller: Controller) -> None:
    etag = controller.get("/bound").headers["etag"]
    began = time.monotonic()
    answer = controller.get("/bound", headers={"Prefer": "wait=1", "If-None-Match": etag})
    assert time.monotonic() - began >= 1
    assert (answer.status_code, answer.content) == (304, b"")
    assert (answer.headers["etag"], answer.headers["preference-applied"]) == (etag, "wait=1")


# -- what ends a wait ----------------------------------------------------------------------------------------------


REPLACE = {"If-Match": "*"}

CHANGES: dict[str, tuple[str, str, Any]] = {
    "mode": ("PUT", "/policy", {"mode": "OnRestart"}),
    "envelope": ("PUT", "/policy", {"mode": "Live", "max_bound_ms": 9}),
    "pin": ("PUT", "/v1/pin?job=job&stream=stream", PIN),
    "first report": ("POST", "/reports", to_json_object(REPORTS[0])),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_this_process_ends_the_wait_at_once(url: str, change: str) -> None:
    async def story(here: Replica) -> None:
        if change == "envelope":
            await here.http.put(STREAM + "/policy", json={"mode": "Live"})
        etag = await here.etag()
        # No question of its own is due while the change is made: only the commit can bring one.
        here.service.watch._poll_seconds = 3_600
        held = here.hold(etag)
        await here.waiting(1)
        await until_async(lambda: here.service.watch.polls, "the first question")
        method, path, body = CHANGES[change]
        address = path if path.startswith("/v1") else STREAM + path
        replaces = REPLACE if path == "/policy" else {}
        done = await here.http.request(method, address, json=body, headers=replaces)
        assert done.is_success, done.text
        async with asyncio.timeout(PATIENCE_S):
            answer = await held
        assert (answer.status_code, answer.headers["preference-applied"]) == (200, "wait=60")
        assert answer.headers["etag"] != etag
        assert answer.json() == (await here.http.get(BOUND)).json()
        assert here.service.watch.waiting == 0

    play(url, story)


def test_a_pin_on_the_fleet_reaches_those_who_wait_for_an_unknown_stream(url: str) -> None:
    async def story(here: Replica) -> None:
        held = here.hold(await here.etag())
        await here.waiting(1)
        await here.http.put("/v1/pin", json=PIN)
        async with asyncio.timeout(PATIENCE_S):
            answer = await held
        assert (answer.status_code, answer.json()["pin"], answer.json()["generation"]) == (200, "Off", 0)
        again = here.hold(answer.headers["etag"])
        await here.waiting(1)
        await here.http.delete("/v1/pin")
        async with asyncio.timeout(PATIENCE_S):
            assert (await again).json()["pin"] is None

    play(url, story)


@pytest.mark.slow
def test_a_change_of_another_stream_ends_no_wait(url: str) -> None:
    async def story(here: Replica) -> None:
        await here.http.put(STREAM + "/policy", json={"mode": "OnRestart"})
        held = here.hold(await here.etag(), 2)
        await here.waiting(1)
        # Then both are published, under the same generation.
        await here.http.put("/v1/jobs/job/streams/other/policy", json={"mode": "OnRestart"})
        assert (await held).status_code == 304
        # Each write brings a question, and none is repeated.
        assert here.service.watch.polls < 10

    play(url, story)


@pytest.mark.slow
def test_a_change_that_another_replica_writes_is_seen_within_some_seconds(url: str) -> None:
    async def run() -> None:
        async with AsyncExitStack() as both:
            here = await both.enter_async_context(replica(url))
            there = await both.enter_async_context(replica(url))
            held = here.hold(await here.etag())
            await here.waiting(1)
            await there.http.put(STREAM + "/policy", json={"mode": "Restart"})
            async with asyncio.timeout(PATIENCE_S):
                answer = await held
            assert (answer.status_code, answer.json()["mode"]) == (200, "Restart")

    asyncio.run(run())


def test_a_store_that_does_not_answer_for_a_while_ends_no_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(here: Replica) -> None:
        watch = here.service.watch
        watch._poll_seconds = 0.05
        held = here.hold(await here.etag())
        await here.waiting(1)
        answers = watch._versions

        def away(_: Any) -> Any:
            raise OperationalError("SELECT", {}, Exception("away"))

        monkeypatch.setattr(watch, "_versions", away)
        await here.asked(3)
        assert not held.done()
        monkeypatch.setattr(watch, "_versions", answers)
        await here.http.put(STREAM + "/policy", json={"mode": "OnRestart"})
        async with asyncio.timeout(PATIENCE_S):
            assert (await held).status_code == 200

    play(f"sqlite:///{tmp_path / 't.db'}", story)


def test_a_list_of_etags_waits_while_any_of_them_is_current(url: str) -> None:
    async def story(here: Replica) -> None:
        here.service.watch._poll_seconds = 0.05
        unknown = await here.etag()
        await here.http.put(STREAM + "/policy", json={"mode": "OnRestart"})
        held = here.hold(f"{unknown}, {await here.etag()}")
        await here.waiting(1)
        await here.asked(3)
        assert not held.done()
        await here.http.put(STREAM + "/policy", json={"mode": "Live"}, headers=REPLACE)
        async with asyncio.timeout(PATIENCE_S):
            assert (await held).headers["etag"].startswith('"2-')

    play(url, story)


# -- many, and the end ---------------------------------------------------------------------------------------------


WATCHERS = 200


@pytest.mark.slow
def test_two_hundred_waiting_requests_hold_no_connection_and_block_nobody(url: str) -> None:
    async def story(here: Replica) -> None:
        etag = await here.etag()
        other = "/v1/jobs/job/streams/other/bound"
        held = [here.hold(etag) for _ in range(WATCHERS // 2)]
        held += [here.hold(etag, path=other) for _ in range(WATCHERS // 2)]
        await here.waiting(WATCHERS)
        pool = here.service.database._engine.pool
        await until_async(lambda: not pool.checkedout(), "all connections")  # type: ignore[attr-defined]  # both pools have it
        polls, began = here.service.watch.polls, time.monotonic()
        async with asyncio.timeout(PATIENCE_S):
            served = await asyncio.gather(*(here.http.get("/v1/fleet") for _ in range(50)))
        assert {answer.status_code for answer in served} == {200}
        await here.asked(1)
        # One question for all of them, about once a second.
        assert here.service.watch.polls - polls <= (time.monotonic() - began) + 2
        await here.http.put(STREAM + "/policy", json={"mode": "OnRestart"})
        async with asyncio.timeout(PATIENCE_S):
            woken = await asyncio.gather(*held[: WATCHERS // 2])
        assert {(answer.status_code, answer.headers["etag"]) for answer in woken} == {
            (200, await here.etag())
        }
        assert not any(task.done() for task in held[WATCHERS // 2 :])
        for task in held[WATCHERS // 2 :]:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        assert here.service.watch.waiting == 0

    play(url, story)


@pytest.mark.slow
def test_when_nobody_waits_the_store_is_not_read(tmp_path: Path) -> None:
    async def story(here: Replica) -> None:
        watch = here.service.watch
        watch._poll_seconds = 0.01
        etag = await here.etag()
        assert (await here.hold(etag, 1)).status_code == 304
        await until_async(lambda: not watch._any_waiter.is_set(), "the last question to end")
        polls = watch.polls
        for _ in range(20):
            await here.http.get("/v1/fleet")
        assert watch.polls == polls > 0

    play(f"sqlite:///{tmp_path / 't.db'}", story)


def test_a_server_that_stops_answers_all_with_304(tmp_path: Path) -> None:
    async def story(here: Replica) -> None:
        etag = await here.etag()
        held = [here.hold(etag) for _ in range(20)]
        await here.waiting(20)
        here.service.watch.release()
        async with asyncio.timeout(PATIENCE_S):
            answers = await asyncio.gather(*held)
        assert {(answer.status_code, answer.headers["etag"]) for answer in answers} == {(304, etag)}
        # Who comes later does not wait either.
        async with asyncio.timeout(PATIENCE_S):
            assert (await here.hold(etag)).status_code == 304

    play(f"sqlite:///{tmp_path / 't.db'}", story)
