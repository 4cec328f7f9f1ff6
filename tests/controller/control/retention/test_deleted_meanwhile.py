"""A stream that is deleted while it is worked on: what is under way writes nothing for it, and nothing fails."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from math import inf
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import Base, StreamRow
from tidemark.controller.control.retention.delete_stream import delete_stream
from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.controller.control.rollout.pinned import publish_missing_pins
from tidemark.controller.specs import streams as store
from tidemark.controller.specs.pins import put_pin
from tidemark.controller.specs.streams import lock_known_stream, lock_stream
from tidemark.controller.view.alerts.notifier import Notifier
from tidemark.models.evidence.slots import HOUR_US, Retention
from tidemark.models.specs.pin import PinScope, StoredPin

from support.controller_app import Controller
from support.empty_store import open_empty
from support.notified import tick
from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.postgres import lock_waits
from support.rolled_job import RolledJob
from support.soak import with_soak
from support.webhook import running_webhook
from support.whole_stream import run_partitions

pytestmark = pytest.mark.slow

Rows = set[tuple[str, ...]]
Work = Callable[[RolledJob, int], None]


@pytest.fixture(scope="module", params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def controller(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    """Return a running controller on each kind of database."""
    url = f"sqlite:///{tmp_path_factory.mktemp('deleted') / 'tidemark.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("module_postgres_url")
    with running_webhook() as hook, Controller(url, notify_url=hook.url, notify_seconds=3_600) as running:
        yield running


_names = count()


def new_job(controller: Controller) -> RolledJob:
    """Return a job that everything is to be done for: decide, count, look at partitions."""
    job = RolledJob(controller, job=f"job{next(_names)}", bound_ms=120_000)
    job.put("slo", {"target_ppm": 900_000})
    job.put("policy", at_once())
    run_partitions(job, 8, slow=2, tick=False)
    assert job.status()["evidence"]["batches"] == 8
    job.at_us += 2 * HOUR_US
    controller.clock.now_us = job.at_us
    controller.service.decider.leases.keep(now=True)
    return job


# -- what is done for a stream, by its id --------------------------------------------------------------------------


def decide(job: RolledJob, stream_id: int) -> None:
    job.controller.service.decider.decide(stream_id, job.controller.clock())


def take_snapshot(job: RolledJob, stream_id: int) -> None:
    job.controller.service.overviews.snapshot(stream_id, job.controller.clock())


def run_upkeep(job: RolledJob, stream_id: int) -> None:
    upkeep_of(job)._run(stream_id, job.controller.clock(), ends_s=inf)


def publish_pins(job: RolledJob, _: int) -> None:
    """Publish a pin that another replica has just set."""
    database, now_us = job.controller.service.database, job.controller.clock()
    with database.write() as session:
        put_pin(session, StoredPin.on(PinScope(job.job), "Off", "INC-9", now_us))
    publish_missing_pins(database, now_us)


def report(job: RolledJob, _: int) -> None:
    run_partitions(job, 1, slow=2, tick=False)


def acknowledge(job: RolledJob, _: int) -> None:
    job.restart()


# -- and how it meets the deletion of the stream -------------------------------------------------------------------


def meet(job: RolledJob, work: Work, number: int) -> bool:
    """Delete the stream as ``work`` begins its ``number``-th transaction; return False when it has fewer.

    Raises:
        AssertionError: when something was written for the stream all the same.
    """
    gone, before = stream_id_of(job), Rows()
    with ExitStack() as stack:
        # SQLite has one writer: a deletion is committed before a transaction begins. On PostgreSQL it may be committed
        # while a transaction waits for the stream's lock.
        kinds, begin = ["read", "write"], partial(delete, job)
        if job.controller.service.database.dialect == "postgresql":
            kinds, begin = ["write"], stack.enter_context(committed_once_waited_for(job))

        def call() -> None:
            before.update(rows_of(job.controller, gone))
            begin()

        stack.enter_context(before_transaction(job, number, kinds, call))
        work(job, gone)
    if not before:
        return False
    new = [row for row in rows_of(job.controller, gone) - before if "StreamDeleted" not in row]
    assert not new, (
        f"written after transaction {number} had begun: {sorted({row[0] for row in new})}, {new[0]}"
    )
    return True


def delete(job: RolledJob) -> None:
    params = {"reason": "retired", "whileReporting": "true"}
    answer = job.controller.http.delete(job.path, params=params, headers={"If-Match": "*"})
    assert answer.status_code == 200, answer.text


@contextmanager
def committed_once_waited_for(job: RolledJob) -> Iterator[partial[None]]:
    """Give what begins a deletion, which is committed as soon as somebody waits for that, or nobody will any more."""
    begun, over = threading.Event(), threading.Event()
    deletions: list[Future[None]] = []

    def held(session: Session, *given: Any) -> dict[str, int]:
        found = delete_stream(session, *given)
        begun.set()
        until(lambda: over.is_set() or lock_waits(session), "somebody who waits")
        return found

    def begin() -> None:
        deletions.append(pool.submit(delete, job))
        assert begun.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidemark.controller.server.routes.streams.delete_stream", held)
        try:
            yield partial(begin)
        finally:
            over.set()
        for deletion in deletions:
            deletion.result()


@contextmanager
def before_transaction(
    job: RolledJob, number: int, kinds: list[str], call: Callable[[], None]
) -> Iterator[None]:
    """Call something just before a transaction on the store, once."""
    seen, called = count(1), threading.Event()

    def watched(begin: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def begins(**options: Any) -> Iterator[Any]:
            beats = threading.current_thread().name == "tidemark-leases"
            if not beats and not called.is_set() and next(seen) == number:
                called.set()
                call()
            with begin(**options) as session:
                yield session

        return begins

    service = job.controller.service
    database = service.database
    with pytest.MonkeyPatch.context() as patch:
        # Reading the valid tokens is a transaction too, at times that a slow machine chooses, and nothing that is
        # called from it can send a request: each request waits for the tokens.
        patch.setattr(service.authenticator, "refresh", lambda: None)
        for kind in kinds:
            patch.setattr(database, kind, watched(getattr(database, kind)))
        yield


# -- what there is afterwards --------------------------------------------------------------------------------------


def stream_id_of(job: RolledJob) -> int:
    with job.controller.service.database.read() as session:
        return session.scalars(select(StreamRow.id).where(StreamRow.job == job.job)).one()


def rows_of(controller: Controller, stream_id: int) -> Rows:
    """Return everything that is stored of a stream, but its own row."""
    tables = [table for table in Base.metadata.sorted_tables if "stream_id" in table.c]
    with controller.service.database.read() as session:
        return {
            (table.name, *map(str, row))
            for table in tables
            for row in session.execute(select(table).where(table.c.stream_id == stream_id))
        }


def upkeep_of(job: RolledJob) -> Upkeep:
    service = job.controller.service
    return Upkeep(service.database, service.decider.leases, Retention())


def check_nothing_left(job: RolledJob, gone: int) -> None:
    """Check that upkeep leaves nothing but the event."""
    upkeep_of(job)._empty(gone, job.controller.clock(), ends_s=inf)
    left = rows_of(job.controller, gone)
    assert [row[0] for row in left] == ["events"], left


def check_begun_anew(job: RolledJob, batches: int) -> None:
    """Check that the stream of this name has what came after the deletion, and nothing else."""
    status = job.controller.http.get(job.path).json()
    assert (status["mode"], status["slo"], status["recommended"]) == ("Off", None, None)
    assert (status["evidence"] or {"batches": 0})["batches"] == batches


def check_nothing_failed(caplog: pytest.LogCaptureFixture) -> None:
    failed = [each for each in caplog.records if each.levelno >= logging.ERROR or each.exc_info]
    assert not failed, f"{failed[0].getMessage()} {failed[0].exc_text}"


@pytest.mark.parametrize("work", [decide, take_snapshot, run_upkeep, publish_pins, report, acknowledge])
def test_nothing_is_written_for_a_stream_whose_deletion_comes_between_any_two_steps_of_what_is_under_way(
    controller: Controller, caplog: pytest.LogCaptureFixture, work: Work
) -> None:
    for number in count(1):
        job = new_job(controller)
        gone = stream_id_of(job)
        met = meet(job, work, number)
        check_nothing_failed(caplog)
        if not met:
            assert number > 1
            return
        check_nothing_left(job, gone)
        if work in {report, acknowledge}:
            check_begun_anew(job, batches=work is report)
        else:
            assert job.controller.http.get(job.path).status_code == 404


def test_a_stream_that_others_make_and_delete_meanwhile_is_made_again(
    new_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for the first report of a job that others report on too."""
    database, make = open_empty(new_postgres_url), store._make_stream

    def meanwhile(*given: Any) -> bool:
        monkeypatch.undo()
        with database.write() as session:
            lock_stream(session, "job", "stream")
        made = make(*given)
        with database.write() as session:
            delete_stream(session, lock_known_stream(session, "job", "stream"), "retired", 1)
        return made

    monkeypatch.setattr(store, "_make_stream", meanwhile)
    with database.write() as session:
        assert lock_stream(session, "job", "stream").deleted_us is None
    database.close()


def test_a_stream_that_is_deleted_and_begins_anew_meanwhile_is_locked_as_it_is_now(
    new_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it could change while it is written."""
    database, find = open_empty(new_postgres_url), store.get_stream

    def meanwhile(*given: Any) -> StreamRow:
        monkeypatch.undo()
        with database.write() as session:
            lock_stream(session, "job", "stream")
        return find(*given)

    monkeypatch.setattr(store, "get_stream", meanwhile)
    with database.write() as session, database.connect() as other:
        lock_known_stream(session, "job", "stream")
        with pytest.raises(DBAPIError, match="could not obtain lock"):
            other.execute(text("SELECT id FROM streams FOR UPDATE NOWAIT"))
    database.close()


def test_an_alert_whose_stream_is_deleted_while_it_is_sent_is_not_written_down(
    controller: Controller, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, other = new_job(controller), new_job(controller)
    gone, notifier = stream_id_of(job), controller.service.notifier
    assert isinstance(notifier, Notifier)
    tick(controller)
    receiver = notifier._deliveries["default"]._receiver
    send = receiver.send

    def deleted_meanwhile(message: Any) -> None:
        monkeypatch.undo()
        delete(job)
        send(message)

    monkeypatch.setattr(receiver, "send", deleted_meanwhile)
    assert tick(controller, 30)
    check_nothing_failed(caplog)
    assert other.events("AlertFiring")
    assert not [row for row in rows_of(controller, gone) if "AlertFiring" in row]
    check_nothing_left(job, gone)
