"""A release takes over from another one while drivers report: nothing is lost, doubled or counted wrong.

The drivers are of neither release: of each two, one is later and adds fields, and one is earlier and lacks some.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, text

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.leases import SHARDS
from tidemark.models.protocol.messages import Report, to_json_object
from tidemark.spark_jobs.core.client import ControllerClient
from tidemark.spark_jobs.core.sender import Sender

from support.balancer import balanced
from support.other_releases import OtherRelease, with_unknown, without_optional
from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.postgres import lock_waits
from support.replicas import Replica, next_release
from support.reports import exponential_batches, query_reports
from support.totals import totals, totals_of

pytestmark = [pytest.mark.slow, pytest.mark.long]

STREAMS = 4
BATCHES = 40
"""Reports of each stream."""


@dataclass
class Driver:
    """Sends the reports of a stream as a driver does, and keeps them until they are taken."""

    url: str
    """The one address that it knows."""
    reports: list[Report]
    later: bool
    """Whether it is of a later release than the controllers, else of an earlier one."""
    sent: int = 0

    def __post_init__(self) -> None:
        self.path = f"/v1/jobs/job/streams/{self.reports[0].stream}"
        change = with_unknown if self.later else without_optional_of_a_report
        transport = OtherRelease(httpx.HTTPTransport(), sent=change)
        self.client = ControllerClient(self.url, transport=transport)
        self.sender = Sender(self.client, queue=BATCHES, longest_wait_s=0.5)

    def report(self, batches: int) -> None:
        """Hand the next reports to the sender."""
        for report in self.reports[self.sent : self.sent + batches]:
            self.sender.report(report)
            self.sent += 1

    def delivered(self) -> bool:
        """Wait until everything handed to the sender has been taken."""
        return self.sender.flush(PATIENCE_S)


def drivers(url: str, first: int) -> Iterator[Driver]:
    """Yield drivers that know an address, of streams from a number on."""
    for number in range(first, first + STREAMS // 2):
        batches = exponential_batches(BATCHES, 30, seed=number)
        yield Driver(url, query_reports(batches, stream=f"s{number}"), later=number % 2 == 0)


def without_optional_of_a_report(document: Any) -> Any:
    """Return a report as a release sends it that knows only what must be in it."""
    return without_optional(document, {"$ref": "ReportBody"})


def check_it_writes_nothing(old: Replica, report: Report) -> None:
    """Check what a driver, a person and a probe see of a replica whose database has been migrated."""
    path = f"{old.url}/v1/jobs/job/streams/{report.stream}"
    for answer in (
        httpx.post(f"{path}/reports", json=to_json_object(report), timeout=PATIENCE_S),
        httpx.put(f"{path}/policy", json=at_once(), timeout=PATIENCE_S),
    ):
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5"), answer.text
        assert answer.json()["type"] == "urn:tidemark:problem:store-unavailable"
        assert "another release has migrated the database" in answer.json()["detail"]
    answer = httpx.get(f"{old.url}/readyz", timeout=PATIENCE_S)
    assert answer.status_code == 503
    assert "another release has migrated the database" in answer.json()["detail"]
    assert httpx.get(f"{old.url}/livez", timeout=PATIENCE_S).is_success
    # A job that starts gets its bound all the same.
    assert httpx.get(f"{path}/bound", timeout=PATIENCE_S).is_success


def is_decided(replica: Replica, driver: Driver) -> bool:
    status = httpx.get(replica.url + driver.path, timeout=PATIENCE_S).json()
    return status["recommended"] is not None and bool(status["recommended"]["current"])


def test_nothing_is_lost_or_doubled_while_a_release_takes_over_from_another_one(
    bare_postgres_url: str, tmp_path: Path
) -> None:
    release = next_release(tmp_path / "next")
    with ExitStack() as stack:
        old = Replica(tmp_path, "old", bare_postgres_url, TIDEMARK_LEASE_SECONDS="1.5")
        stack.callback(old.end)
        old.wait_ready()
        replicas = [old.url]
        service = stack.enter_context(balanced(replicas))
        by_service, by_address = list(drivers(service, 0)), list(drivers(old.url, STREAMS // 2))
        every = by_service + by_address
        for driver in every:
            stack.enter_context(closing(driver.sender))
            answer = httpx.put(
                old.url + driver.path + "/slo", json={"target_ppm": 900_000}, timeout=PATIENCE_S
            )
            assert answer.is_success, answer.text
            driver.report(10)
        assert all(driver.delivered() for driver in every)

        engine = create_engine(bare_postgres_url)
        stack.callback(engine.dispose)
        with engine.connect() as begun:
            # As a write that began before: the migration waits for it, and the reports wait for the migration.
            begun.execute(text("SELECT version_num FROM alembic_version FOR KEY SHARE"))
            new = Replica(tmp_path, "new", bare_postgres_url, release, TIDEMARK_LEASE_SECONDS="1.5")
            stack.callback(new.end)
            until(lambda: lock_waits(begun), "the migration", seen=new.log.read_text)
            for driver in every:
                driver.report(10)
            until(lambda: old.metric("tidemark_reports_waiting"), "reports to wait")
        new.wait_ready()
        replicas.append(new.url)

        # Side by side: the old one writes nothing, the new one does everything.
        check_it_writes_nothing(old, every[0].reports[0])
        for driver in every:
            driver.report(10)
        assert all(driver.delivered() for driver in by_service)
        assert not any(driver.sender.flush(0) for driver in by_address)
        until(lambda: new.metric("tidemark_leases_held") == SHARDS, "the new release to decide every stream")
        for driver in by_service:
            until(partial(is_decided, new, driver), f"a decision about {driver.path}")
            assert driver.client.bound("job", driver.reports[0].stream).mode == "Off"

        for driver in every:
            driver.report(10)
        old.stop()
        assert "Traceback" not in old.log.read_text()
        old.start_again(release)
        assert all(driver.delivered() for driver in every)
        assert not any(driver.sender.dropped for driver in every)

        stored = Database(bare_postgres_url)
        with stored.read() as session:
            stored.release_version = session.scalar(text("SELECT version_num FROM alembic_version"))
        assert totals(stored) == totals_of((each for driver in every for each in driver.reports), tmp_path)
        stored.close()


def test_the_streams_of_a_replica_that_drains_pass_on_while_it_still_serves(
    bare_postgres_url: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        replicas = []
        for name in ("ending", "other"):
            replica = Replica(tmp_path, name, bare_postgres_url, TIDEMARK_DRAIN_SECONDS="3600")
            stack.callback(replica.end)
            replica.wait_ready()
            replicas.append(replica)
        ending, other = replicas
        until(lambda: other.metric("tidemark_leases_held") == SHARDS // 2, "its share of the streams")
        ending.process.terminate()
        until(lambda: other.metric("tidemark_leases_held") == SHARDS, "the streams of the one that drains")
        until(lambda: ending.metric("tidemark_leases_held") == 0, "that it notices")
        assert ending.process.poll() is None
