"""Shadows end to end: tried beside the SLO in force, counted against the ledger, and promoted by a person."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import update
from typer.testing import CliRunner

from tidemark.controller.cli import app
from tidemark.controller.db.tables import ShadowRow
from tidemark.controller.evidence.upkeep import Upkeep
from tidemark.models.evidence.slots import DAY_US, Retention

from support.controller_app import Controller
from support.policies import at_once
from support.rolled_job import RolledJob
from support.seeded import continued
from support.served import served
from support.soak import with_soak
from support.tokens import bearer, make_token

pytestmark = pytest.mark.slow

TARGET = {"target_ppm": 990_000}
UNPROVEN = {"target_ppm": 999_990}
"""A target that these streams have too few rows to certify."""


def watched_job(controller: Controller) -> RolledJob:
    """Return a job in mode Off with an SLO of 0.8, whose bound of 10 s loses some rows: they are up to 40 s late."""
    job = RolledJob(controller, bound_ms=10_000)
    job.run(30, 40.0, tick=False)
    job.put("slo", {"target_ppm": 800_000, "latency_cap_ms": 600_000, "horizon_ms": 7_200_000})
    controller.tick()
    return job


@pytest.fixture(params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'tidemark.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def job(tmp_path: Path) -> Iterator[RolledJob]:
    with continued(f"sqlite:///{tmp_path / 'tidemark.db'}", watched_job) as found:
        yield found


def shadow(job: RolledJob) -> dict[str, Any]:
    answer = job.controller.http.get(f"{job.path}/shadow")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def counts(outcome: dict[str, Any]) -> tuple[int, ...]:
    names = ("rows", "late_min", "late_max", "windows", "latency_wall_ms")
    return tuple(outcome[name] for name in names)


def decided(status: dict[str, Any]) -> list[Any]:
    return [status["recommended"]["bound_ms"], status["published"], status["rollout"]]


def test_a_shadow_is_decided_as_its_slo_would_be_and_nothing_of_it_reaches_the_job(job: RolledJob) -> None:
    before, bound = job.status(), job.published()
    body = {
        name: value
        for name, value in {**before["slo"], **TARGET, "latency_cap_ms": None}.items()
        if name not in {"generation", "updated_us"}
    }
    would = job.controller.http.put(
        f"{job.path}/slo", params={"dryRun": "All"}, json=body, headers={"If-Match": "*"}
    ).json()
    found = job.put("shadow", TARGET)
    assert found["shadow"]["bound_ms"] == would["recommended"]["bound_ms"] > before["recommended"]["bound_ms"]
    assert found["steps"] == would["recommended"]["steps"]
    job.run(5, 40.0)
    after = job.status()
    assert decided(after) == decided(before)
    assert job.published() == bound
    assert after["shadow_since_us"] == found["since_us"]
    assert job.events("RecommendationChanged")[0]["count"] == 1
    job.put("policy", at_once())
    job.run(2, 40.0)
    assert job.published()["bound_ms"] == before["recommended"]["bound_ms"]


def test_without_a_recommendation_of_its_own_a_shadow_is_counted_as_the_ledger_counts(
    job: RolledJob,
) -> None:
    job.put("shadow", UNPROVEN)
    job.run(20, 40.0)
    found = shadow(job)
    assert found["shadow"]["bound_ms"] is None
    assert any("no bound yet" in note for note in found["notes"])
    assert found["in_use"]["late_min"] > 100
    assert found["in_use"]["windows"] > 5
    assert counts(found["shadow"]) == counts(found["in_use"])


def test_a_wider_shadow_admits_more_rows_and_its_windows_wait_longer(job: RolledJob) -> None:
    job.put("shadow", TARGET)
    job.run(40, 40.0)
    found = shadow(job)
    tried, in_use = found["shadow"], found["in_use"]
    assert in_use["bound_ms"] == 10_000
    assert 20_000 < tried["bound_ms"] <= 30_000
    assert tried["rows"] == in_use["rows"] == 40 * 60
    assert in_use["late_min"] > 500
    assert tried["completeness_min_ppm"] > 980_000
    # Every bound counts once it was recommended; batches come every five seconds.
    wider_ms = tried["bound_ms"] - 10_000
    assert abs(tried["latency_wall_ms"] - in_use["latency_wall_ms"] - wider_ms) < 5_000
    assert [day["shadow"]["rows"] for day in found["days"]] == [40 * 60]
    assert found["days"][0]["from_us"] == job.at_us // DAY_US * DAY_US


def test_what_was_counted_survives_a_restart_and_another_process_may_set_the_shadow(url: str) -> None:
    with continued(url, watched_job) as job:
        # Another process does not decide the stream, so the one that does picks it up.
        first = job.controller
        store = first.service.settings.database_url
        with Controller(store) as other:
            other.clock.now_us = first.clock.now_us
            job.controller = other
            assert job.put("shadow", TARGET)["decided_us"] is None
            job.controller = first
            job.run(6, 40.0)
            job.controller = other
            assert counts(shadow(job)["in_use"])[0] == 6 * 60
            job.controller = first
        before = shadow(job)
        first.service.decider.leases.stop()
        with Controller(store) as again:
            again.clock.now_us = first.clock.now_us
            job.controller = again
            assert counts(shadow(job)["shadow"]) == counts(before["shadow"])
            job.run(6, 40.0)
            after = shadow(job)
            assert after["in_use"]["rows"] == after["shadow"]["rows"] == 12 * 60
            assert after["since_us"] == before["since_us"]


def test_a_shadow_that_fails_leaves_the_decision_of_the_stream_alone(
    job: RolledJob, caplog: pytest.LogCaptureFixture
) -> None:
    job.put("shadow", TARGET)
    with job.controller.service.database.write() as session:
        session.execute(update(ShadowRow).values(recent="not JSON"))
    before = job.status()["recommended"]
    with caplog.at_level(logging.ERROR):
        job.run(4, 2.0, tick=False)
        tick = job.controller.tick()
    assert (tick.decided, tick.failed) == (1, 0)
    assert job.status()["recommended"]["decided_us"] > before["decided_us"]
    assert "the shadow of stream" in caplog.text
    assert shadow(job)["in_use"]["rows"] == 0


def test_a_promoted_shadow_becomes_the_slo_with_its_reason_and_is_gone(job: RolledJob) -> None:
    http, path = job.controller.http, f"{job.path}/shadow"
    job.put("shadow", {**TARGET, "latency_cap_ms": 900_000})
    job.run(3, 40.0)
    version = http.get(path).headers["etag"]
    tried = http.post(f"{path}:promote", params={"dryRun": "All"}, headers={"If-Match": version}).json()
    assert (tried["dry_run"], tried["target_ppm"], tried["latency_cap_ms"]) == (True, 990_000, 900_000)
    assert tried["recommended"]["bound_ms"] == shadow(job)["shadow"]["bound_ms"]
    assert (job.status()["slo"]["target_ppm"], http.get(path).headers["etag"]) == (800_000, version)

    missing = http.post(f"{path}:promote")
    job.put("slo", {"target_ppm": 810_000, "horizon_ms": 7_200_000})
    stale = http.post(f"{path}:promote", headers={"If-Match": version})
    assert (missing.status_code, stale.status_code) == (428, 412)
    assert "read it again" in stale.json()["detail"]

    version = http.get(path).headers["etag"]
    done = http.post(
        f"{path}:promote", params={"reason": "a week of evidence"}, headers={"If-Match": version}
    ).json()
    slo = job.status()["slo"]
    assert (slo["target_ppm"], slo["latency_cap_ms"], slo["horizon_ms"]) == (990_000, 900_000, 7_200_000)
    assert done["generation"] == slo["generation"]
    assert job.status()["recommended"]["bound_ms"] == tried["recommended"]["bound_ms"]
    assert job.status()["shadow_since_us"] is None
    gone = http.get(path)
    assert (gone.status_code, gone.json()["type"]) == (404, "urn:tidemark:problem:shadow-not-set")
    (promoted,), (set_, *_) = job.events("ShadowPromoted"), job.events("SloSet")
    assert promoted["reason"] == set_["reason"] == "a week of evidence"
    assert json.loads(promoted["before"])["counted"]["rows"] == 3 * 60


def test_only_operators_set_remove_and_promote_a_shadow(job: RolledJob) -> None:
    http, path = job.controller.http, f"{job.path}/shadow"
    job.put("shadow", TARGET)
    viewer = bearer(make_token(job.controller, "viewer"))
    assert http.get(path, headers=viewer).status_code == 200
    for answer in (
        http.put(path, json=TARGET, headers=viewer),
        http.delete(path, headers=viewer),
        http.post(f"{path}:promote", headers=viewer),
    ):
        assert answer.status_code == 403


def test_what_cannot_be_tried_is_refused_with_the_reason(job: RolledJob) -> None:
    http, path = job.controller.http, f"{job.path}/shadow"
    same = http.put(path, json={"target_ppm": 800_000, "latency_cap_ms": 600_000})
    assert (same.status_code, same.json()["type"]) == (409, "urn:tidemark:problem:shadow-refused")
    assert "the SLO in force" in same.json()["detail"]
    unknown = http.put(path, json={**TARGET, "horizon_ms": 1})
    assert (unknown.status_code, unknown.json()["errors"][0]["pointer"]) == (422, "/horizon_ms")
    job.put("slo", {"target_ppm": 800_000, "objective": "timeslices"})
    windows = http.put(path, json=TARGET)
    assert windows.status_code == 409
    assert "single windows" in windows.json()["detail"]
    version = http.get(f"{job.path}/slo").headers["etag"]
    http.delete(f"{job.path}/slo", headers={"If-Match": version})
    without = http.put(path, json=TARGET)
    assert (without.status_code, without.json()["type"]) == (404, "urn:tidemark:problem:slo-not-set")


def test_another_shadow_takes_the_place_of_the_first_and_counts_anew(job: RolledJob) -> None:
    http, path = job.controller.http, f"{job.path}/shadow"
    job.put("shadow", TARGET)
    job.run(2, 40.0)
    assert http.put(path, json=TARGET).json()["in_use"]["rows"] == 2 * 60, "the same one changes nothing"
    assert http.put(path, json=UNPROVEN).status_code == 428
    tried = http.put(
        path,
        params={"dryRun": "All"},
        json=UNPROVEN,
        headers={"If-Match": http.get(path).headers["etag"]},
    )
    assert (tried.json()["dry_run"], tried.json()["in_use"]["rows"]) == (True, 0)
    assert shadow(job)["in_use"]["rows"] == 2 * 60
    assert job.put("shadow", UNPROVEN)["in_use"]["rows"] == 0
    assert [json.loads(event["after"])["target_ppm"] for event in job.events("ShadowSet")] == [
        999_990,
        990_000,
    ]


def test_a_shadow_ends_with_the_slo_that_it_is_beside(job: RolledJob) -> None:
    http = job.controller.http
    job.put("shadow", TARGET)
    version = http.get(f"{job.path}/slo").headers["etag"]
    http.delete(f"{job.path}/slo", headers={"If-Match": version})
    assert http.get(f"{job.path}/shadow").status_code == 404
    assert job.events("ShadowRemoved")[0]["reason"] == "the SLO was deleted"


def test_days_that_are_older_than_history_are_deleted(job: RolledJob) -> None:
    job.put("shadow", TARGET)
    job.run(2, 40.0)
    job.wait(60 * 86_400)
    job.run(4, 40.0)
    assert len(shadow(job)["days"]) == 2
    service = job.controller.service
    service.decider.leases.keep(now=True)
    upkeep = Upkeep(service.database, service.decider.leases, Retention(history_days=32))
    while upkeep.age(1) or upkeep.forget(1):
        pass
    assert [day["in_use"]["rows"] for day in shadow(job)["days"]] == [4 * 60]


def test_the_bound_of_a_shadow_is_a_metric_while_there_is_one(job: RolledJob) -> None:
    def samples() -> list[float]:
        text = job.controller.http.get("/metrics").text
        return [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "tidemark_bound_shadow_seconds"
        ]

    assert samples() == []
    found = job.put("shadow", TARGET)
    assert samples() == [found["shadow"]["bound_ms"] / 1_000]


def test_a_shadow_is_tried_and_promoted_on_the_command_line(job: RolledJob) -> None:
    with served(job.controller.app) as url:

        def tidemark(*arguments: str) -> str:
            environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "", "COLUMNS": "200"}
            result = CliRunner().invoke(app, ["shadow", *arguments], env=environment)
            assert result.exit_code == 0, result.output
            return result.stdout

        tried = tidemark("set", "job", "stream", "--target", "0.99", "--reason", "what would it cost?")
        assert "0.99 of the rows, a mean latency of at most 10 min" in tried, "the cap of the SLO stays"
        job.run(10, 40.0)
        shown = tidemark("show", "job", "stream")
        assert "why: what would it cost?" in shown
        assert "in use" in shown
        document = json.loads(tidemark("show", "job", "stream", "--json"))
        assert document == shadow(job)
        before = tidemark("promote", "job", "stream", "--dry-run")
        assert before.startswith("would make the shadow of job/stream its SLO: 0.99 of the rows")
        assert "before: 0.8 of the rows" in before
        assert job.status()["slo"]["target_ppm"] == 800_000
        tidemark("promote", "job", "stream", "--reason", "it is worth it")
        assert job.status()["slo"]["target_ppm"] == 990_000
        tidemark("set", "job", "stream", "--target", "0.5")
        assert tidemark("remove", "job", "stream").startswith("removed the shadow of job/stream: 0.5")
        nothing = CliRunner().invoke(app, ["shadow", "show", "job", "stream", "--url", url])
        assert (nothing.exit_code, "tidemark shadow set job stream" in nothing.stderr) == (1, True)
