"""Deleting an SLO or a policy: what follows, and that a later one is never taken for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.databases import on_sqlite_alone
from support.policies import at_once
from support.rolled_job import RolledJob
from support.seeded import continued
from support.settled import LOOSE, STRICT, settled

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgresql"])
def job(request: pytest.FixtureRequest) -> Iterator[RolledJob]:
    """One with a verified bound, on each kind of database."""
    url = request.getfixturevalue("database_url" if request.param == "sqlite" else "postgres_url")
    with continued(url, settled) as found:
        yield found


@on_sqlite_alone("job")
def test_without_its_slo_nothing_is_recommended_and_the_published_bound_stays(job: RolledJob) -> None:
    http, path = job.controller.http, f"{job.path}/slo"
    job.put("policy", at_once(approval="all"))
    job.put("slo", LOOSE)
    assert job.rollout()["state"] == "AwaitingApproval"
    before, etag = job.published(), http.get(path).headers["etag"]
    tried = http.delete(path, params={"dryRun": "All"}, headers={"If-Match": etag})
    assert (tried.status_code, tried.json()["recommended"]) == (200, None)
    assert http.get(path).headers["etag"] == etag
    assert http.delete(path).status_code == 428
    assert http.delete(path, headers={"If-Match": '"9"'}).status_code == 412
    done = http.delete(path, params={"reason": "a mistake"}, headers={"If-Match": etag})
    assert done.json() == tried.json() | {"dry_run": False}
    assert http.get(path).status_code == http.delete(path).status_code == 404
    assert (job.rollout()["state"], job.rollout()["reason"]) == ("Superseded", "the SLO was deleted")
    assert job.published() == before
    event = http.get(f"{job.path}/events", params={"kind": "SloDeleted"}).json()["events"][0]
    assert event["reason"] == "a mistake"
    job.run(3, 30.0)
    assert job.published() == before
    assert job.status()["recommended"] is None


def test_a_later_slo_has_a_later_generation_so_that_it_is_decided_without_a_report(job: RolledJob) -> None:
    http, path = job.controller.http, f"{job.path}/slo"
    held = http.get(path)
    before = held.json()
    strict_ms = job.status()["recommended"]["bound_ms"]
    assert http.delete(path, headers={"If-Match": "*"}).status_code == 200
    answer = http.put(path, json=LOOSE).json()
    assert answer["generation"] == before["generation"] + 1
    assert answer["recommended"]["bound_ms"] < strict_ms
    stale = http.put(path, json=STRICT, headers={"If-Match": held.headers["etag"]})
    assert stale.status_code == 412


def test_without_its_policy_a_stream_is_off(job: RolledJob) -> None:
    http, path = job.controller.http, f"{job.path}/policy"
    before = http.get(path).json()
    assert job.published()["bound_ms"] is not None
    answer = http.delete(path, params={"dryRun": "All"}, headers={"If-Match": "*"})
    assert answer.status_code == 200, answer.text
    tried = answer.json()
    assert (tried["mode"], tried["published"]["bound_ms"]) == ("OnRestart", None)
    assert http.get(path).json() == before
    assert http.delete(path).status_code == 428
    assert http.delete(path, headers={"If-Match": "*"}).json() == tried | {"dry_run": False}
    assert (job.published()["mode"], job.published()["bound_ms"]) == ("Off", None)
    default = http.get(path).json()
    assert (default["mode"], default["generation"]) == ("Off", 0)
    refused = http.delete(path, headers={"If-Match": "*"})
    assert refused.json()["type"] == "urn:tidemark:problem:policy-not-set"
    assert http.put(path, json=at_once()).json()["generation"] == before["generation"] + 1
