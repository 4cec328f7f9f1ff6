"""Deleting a stream: what goes, what stays, what is refused, and that its name begins anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import func, select

from tidemark.controller.base.db.tables import Base, EventRow, StreamRow
from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.models.evidence.slots import DAY_US, Retention

from support.controller_app import STREAM, Controller
from support.policies import at_once
from support.rolled_job import RolledJob
from support.seeded import continued
from support.settled import HOUR, STRICT
from support.streams import SECOND
from support.tokens import bearer, make_token

pytestmark = pytest.mark.slow

RETIRED = {"reason": "the job is retired"}


def two_jobs(controller: Controller) -> RolledJob:
    """Return a job with a published bound and a pin, beside another one; the first has been silent for an hour."""
    other = RolledJob(controller, job="other")
    other.run(5, 3.0)
    job = RolledJob(controller)
    job.put("slo", STRICT)
    job.put("policy", at_once())
    job.run(40, 30.0, tick=False)
    controller.tick()
    job.restart()
    job.run(3, 30.0)
    controller.http.put(job.pin_url, json={"to": "Off", "reason": "INC-8"})
    controller.snapshot()
    controller.clock.now_us += HOUR * SECOND
    return job


@pytest.fixture(params=["sqlite", "postgresql"])
def job(request: pytest.FixtureRequest) -> Iterator[RolledJob]:
    """One on each kind of database."""
    url = request.getfixturevalue("database_url" if request.param == "sqlite" else "postgres_url")
    with continued(url, two_jobs) as found:
        yield found


def delete(job: RolledJob, **options: Any) -> Any:
    """Delete the stream, whatever it is now."""
    options.setdefault("headers", {"If-Match": "*"})
    options["params"] = RETIRED | options.get("params", {})
    return job.controller.http.delete(job.path, **options)


def upkeep_of(controller: Controller) -> Upkeep:
    controller.service.decider.leases.keep(now=True)
    return Upkeep(controller.service.database, controller.service.decider.leases, Retention())


def rows_of(controller: Controller, stream_id: int) -> dict[str, int]:
    """Return how many rows a stream has in each table that names streams."""
    tables = [table for table in Base.metadata.sorted_tables if "stream_id" in table.c]
    with controller.service.database.read() as session:
        counts = {
            table.name: session.scalars(
                select(func.count()).select_from(table).where(table.c.stream_id == stream_id)
            ).one()
            for table in tables
        }
    return {name: count for name, count in counts.items() if count}


def stream_id(controller: Controller, name: str = "job") -> int:
    with controller.service.database.read() as session:
        return session.scalars(
            select(StreamRow.id).where(StreamRow.job == name, StreamRow.stream == "stream")
        ).one()


def test_a_dry_run_says_what_would_be_deleted_and_deletes_nothing(job: RolledJob) -> None:
    held = rows_of(job.controller, stream_id(job.controller))
    answer = delete(job, params={"dryRun": "All"}, headers={})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["dry_run"]
    assert (body["reports"], body["slos"], body["policies"], body["pins"]) == (43, 1, 1, 1)
    for name in ("queries", "partitions", "ledger_keys", "published_bounds", "rollouts", "events"):
        assert body[name] == held[name] > 0, name
    assert rows_of(job.controller, stream_id(job.controller)) == held
    deleted = delete(job, headers={"If-Match": answer.headers["etag"]}).json()
    assert deleted == body | {"dry_run": False}


def test_nothing_of_a_deleted_stream_is_left_but_the_event_of_that(job: RolledJob) -> None:
    controller = job.controller
    gone, other = stream_id(controller), stream_id(controller, "other")
    before = rows_of(controller, other)
    assert delete(job).status_code == 200
    assert controller.http.get(job.path).status_code == 404
    assert [row["job"] for row in controller.http.get("/v1/fleet").json()["streams"]] == ["other"]
    assert [row["job"] for row in controller.http.get("/v1/jobs").json()["jobs"]] == ["other"]
    assert controller.http.get("/v1/rollouts").json()["rollouts"] == []
    assert controller.http.get("/v1/pins").json()["pins"] == []
    assert 'job="job"' not in controller.http.get("/metrics").text
    controller.tick()
    upkeep_of(controller).tick(controller.clock())
    assert rows_of(controller, gone) == {"events": 1}
    assert rows_of(controller, other) == before
    event = controller.http.get("/v1/events").json()["events"][0]
    found = (event["kind"], event["job"], event["stream"], event["reason"])
    assert found == ("StreamDeleted", "job", "stream", "the job is retired")
    assert '"reports": 43' in event["before"]


def test_the_event_goes_when_its_time_is_over_but_no_id_is_used_again(job: RolledJob) -> None:
    controller = job.controller
    gone = stream_id(controller)
    delete(job)
    upkeep_of(controller).tick(controller.clock() + 401 * DAY_US)
    with controller.service.database.read() as session:
        assert session.scalars(select(func.count(EventRow.id)).where(EventRow.stream_id == gone)).one() == 0
        assert session.get(StreamRow, gone) is not None, "SQLite would give its id to the next stream"
    RolledJob(controller, job="later").run(1, 1.0)
    upkeep_of(controller).tick(controller.clock() + 401 * DAY_US)
    with controller.service.database.read() as session:
        assert session.get(StreamRow, gone) is None
        assert session.scalars(select(func.max(StreamRow.id))).one() > gone


def test_a_stream_that_was_deleted_and_reports_again_begins_anew_while_its_rows_are_deleted(
    job: RolledJob,
) -> None:
    controller = job.controller
    gone, upkeep = stream_id(controller), upkeep_of(controller)
    delete(job)
    again = RolledJob(controller)
    again.at_us, again.generation = job.at_us + HOUR * SECOND, job.generation
    for _ in range(3):
        assert upkeep.empty(gone, controller.clock())
        again.run(1, 3.0)
    status = again.status()
    assert (status["evidence"]["batches"], status["mode"], status["slo"]) == (3, "Off", None)
    assert stream_id(controller) > gone
    upkeep.tick(controller.clock())
    assert rows_of(controller, gone) == {"events": 1}
    assert again.status()["evidence"] == status["evidence"]
    # What it decided before is not remembered either.
    again.put("policy", at_once())
    again.put("slo", STRICT)
    again.run(40, 3.0, tick=False)
    controller.tick()
    assert again.status()["recommended"]["bound_ms"] < 5_000


def test_a_stream_whose_job_still_reports_is_deleted_only_by_a_caller_who_says_so(job: RolledJob) -> None:
    job.at_us = job.controller.clock() + SECOND
    job.run(1, 3.0)
    for params in ({}, {"dryRun": "All"}):
        refused = delete(job, params=params)
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:tidemark:problem:stream-reports")
        assert "whileReporting=true" in refused.json()["detail"]
    assert job.status()["evidence"]["batches"] > 0
    assert delete(job, params={"whileReporting": "true"}).status_code == 200


def test_who_deletes_names_the_stream_as_it_is_and_why(job: RolledJob) -> None:
    etag = delete(job, params={"dryRun": "All"}, headers={}).headers["etag"]
    assert delete(job, headers={}).status_code == 428
    job.put("slo", {"target_ppm": 900_000})
    assert delete(job, headers={"If-Match": etag}).status_code == 412
    for reason in ("", "   "):
        assert delete(job, params={"reason": reason}).status_code == 422
    assert job.controller.http.delete(job.path, headers={"If-Match": "*"}).status_code == 422
    assert job.controller.http.delete(f"{STREAM}s", params=RETIRED).status_code == 404
    assert job.status()["evidence"]["batches"] > 0


def test_only_an_admin_of_the_job_deletes_a_stream(job: RolledJob) -> None:
    given = {
        make_token(job.controller, "operator"): 403,
        make_token(job.controller, "admin", "bank"): 403,
        make_token(job.controller, "admin", "jo*"): 200,
    }
    for token, status in given.items():
        assert delete(job, headers={"If-Match": "*", **bearer(token)}).status_code == status
