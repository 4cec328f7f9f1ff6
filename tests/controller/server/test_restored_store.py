"""A store that is restored from a backup: what jobs and people hold of the history that is lost counts for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from tidemark.controller.tools.cli import app
from tidemark.models.protocol.messages import BoundAnswer
from tidemark.spark_jobs.core.bound import BoundCache
from tidemark.spark_jobs.core.client import ControllerClient
from tidemark.spark_jobs.core.watch import BoundWatch

from support.controller_app import Controller
from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.rolled_job import RolledJob
from support.served import served

pytestmark = pytest.mark.slow


class Reached:
    """The client of a job's watch, which finds the controller under one name wherever it runs."""

    def __init__(self) -> None:
        self.client: ControllerClient | None = None
        self.url = "http://controller"
        self.etags: list[str | None] = []

    def watch(
        self, job: str, stream: str, etag: str | None, wait_s: float
    ) -> tuple[BoundAnswer, str | None] | None:
        client = self.client
        if client is None:
            raise ConnectionError("the controller is being restored")
        self.etags.append(etag)
        return client.watch(job, stream, etag, wait_s)


@contextmanager
def running(path: Path, now_us: int | None = None) -> Iterator[Controller]:
    controller = Controller(f"sqlite:///{path}")
    if now_us is not None:
        controller.clock.now_us = now_us
    with controller:
        yield controller


@contextmanager
def reached(controller: Controller, client: Reached) -> Iterator[None]:
    with served(controller.app) as url:
        client.client = ControllerClient(url, timeout_s=PATIENCE_S)
        try:
            yield
        finally:
            client.client = None
            controller.service.watch.release()


def set_bound(job: RolledJob, bound_ms: int) -> None:
    """Publish a bound as an operator does, by the policy's limits."""
    job.put("policy", at_once(paused=True, min_bound_ms=bound_ms, max_bound_ms=bound_ms))
    # By the status: a job that watches reads the bound in another event loop, and no two loops can share a read.
    assert job.status()["published"]["bound_ms"] == bound_ms


def first_bound(controller: Controller) -> RolledJob:
    """Return a job to which a first bound is published, as generation 1."""
    job = RolledJob(controller)
    job.put("slo", {"target_ppm": 950_000})
    job.run(40, 8.0, tick=False)
    controller.tick()
    job.put("policy", at_once())
    assert job.published()["generation"] == 1
    return job


def backup(source: Path, copy: Path) -> None:
    result = CliRunner().invoke(app, ["backup", str(copy), "--database-url", f"sqlite:///{source}"])
    assert result.exit_code == 0, result.output


def renew(path: Path) -> str:
    result = CliRunner().invoke(app, ["restore", "--database-url", f"sqlite:///{path}"])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("announced", [True, False])
def test_a_job_that_watches_gets_the_bound_of_a_restored_store_under_a_number_it_has_seen(
    tmp_path: Path, announced: bool
) -> None:
    """Backup at generation 1; the job takes generation 3; restored; an operator widens until generation 3 again."""
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    client = Reached()
    asked = cast("ControllerClient", client)
    watch = BoundWatch(asked, "job", "stream", BoundCache(tmp_path / "bounds"), wait_s=30.0)
    watch.start()
    try:
        with running(old) as controller, reached(controller, client):
            job = first_bound(controller)
            now_us = controller.clock.now_us
            backup(old, new)
            set_bound(job, 5_000)
            set_bound(job, 3_000)
            until(lambda: watch.latest is not None and watch.latest.bound_ms == 3_000, "the bound of 3 s")
            held = watch.latest
            assert held is not None
            assert held.generation == 3
        if announced:
            assert "new epoch" in renew(new)
        # The clock too: only the content and the epoch can tell the two histories apart.
        with running(new, now_us) as controller:
            job.controller = controller
            set_bound(job, 200_000)
            set_bound(job, 380_000)
            assert job.published()["generation"] == 3
            with reached(controller, client):
                until(lambda: watch.latest is not None and watch.latest.bound_ms == 380_000, "380 s")
        assert any(etag is not None and etag.startswith('"3-') for etag in client.etags)
    finally:
        watch.close()


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[RolledJob]:
    """Give a restored store, at generation 1, and the job that runs with generation 3, 3 s, of what is lost."""
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    with running(old) as controller:
        job = first_bound(controller)
        now_us = controller.clock.now_us
    backup(old, new)
    with running(old, now_us) as controller:
        job.controller = controller
        set_bound(job, 5_000)
        set_bound(job, 3_000)
        job.restart()
        assert (job.generation, job.bound_ms) == (3, 3_000)
    with running(new, now_us) as controller:
        job.controller = controller
        yield job


def test_nothing_is_published_at_or_below_a_generation_that_a_job_has_reported(
    restored: RolledJob,
) -> None:
    job = restored
    before = job.published()
    job.run(1, 2.0)
    again = job.published()
    # The same bound, under a number that the job has never seen.
    assert (again["bound_ms"], again["generation"]) == (before["bound_ms"], 4)
    (event, *_) = job.events("BoundPublished")
    assert "generation 3" in event["reason"]
    job.run(3, 2.0)
    assert job.published()["generation"] == 4
    set_bound(job, 200_000)
    assert job.published()["generation"] == 5


def test_a_report_under_a_generation_that_meant_another_bound_counts_for_no_publication_of_it(
    restored: RolledJob,
) -> None:
    """The first report comes when the number is given out again already."""
    job = restored
    first = job.rollout()
    set_bound(job, 200_000)
    set_bound(job, 100_000)
    job.put("policy", at_once(paused=True, min_bound_ms=first["to_bound_ms"]))
    assert job.published()["generation"] >= 3
    job.run(20, 2.0)
    assert job.published()["generation"] > 3
    assert job.status()["applied"] is None
    predictions: list[dict[str, Any]] = job.controller.http.get(job.path + "/predictions").json()[
        "predictions"
    ]
    assert [each["realised"]["rows"] for each in predictions if each["generation"] >= 3] == [0] * len(
        [each for each in predictions if each["generation"] >= 3]
    )
    assert all(one["judged"]["rows"] == one["at_risk"]["rows"] == 0 for one in job.rollouts())


def test_a_write_that_rests_on_what_was_read_before_a_restore_is_rejected_once_it_is_announced(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tidemark.db"
    with running(path) as controller:
        job = first_bound(controller)
        paths = [job.path + "/slo", job.path + "/policy", job.path + "/bound", job.pin_url]
        controller.http.put(job.pin_url, json={"to": "Off", "reason": "INC-5"})
        before = {each: controller.http.get(each).headers["etag"] for each in paths}
        now_us = controller.clock.now_us
    renew(path)
    with running(path, now_us) as controller:
        for each, held in before.items():
            assert controller.http.get(each, headers={"If-None-Match": held}).status_code == 200
        for each in paths[:2]:
            body = {"target_ppm": 900_000} if each.endswith("slo") else at_once(paused=True)
            headers = {"If-Match": before[each]}
            assert controller.http.put(each, json=body, headers=headers).status_code == 412


@pytest.mark.parametrize(
    ("what", "bodies"),
    [("slo", ({"target_ppm": 900_000}, {"target_ppm": 910_000})), ("policy", ({"min_bound_ms": 1}, {}))],
)
def test_an_etag_never_comes_back_with_another_content(
    controller: Controller, what: str, bodies: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    """Set, deleted, set anew, and the same for a stream that was deleted and began anew, all in one instant."""
    seen: dict[str, Any] = {}

    def read() -> None:
        answer = controller.http.get(f"{path}/{what}")
        if answer.status_code == 200:
            found = answer.json()
            number = found.pop("generation"), found.pop("updated_us")
            assert seen.setdefault(answer.headers["etag"], (number, found)) == (number, found)
            etags.append(answer.headers["etag"])

    etags: list[str] = []
    job = RolledJob(controller)
    path = job.path
    job.run(1, 2.0, tick=False)
    for round_ in range(2):
        for body in bodies:
            read()
            job.put(what, body)
            read()
            held = {"If-Match": controller.http.get(f"{path}/{what}").headers["etag"]}
            assert controller.http.delete(f"{path}/{what}", headers=held).status_code == 200
            read()
        if not round_:
            tag = controller.http.delete(f"{path}?reason=test&whileReporting=true&dryRun=All").headers["etag"]
            gone = controller.http.delete(
                f"{path}?reason=test&whileReporting=true", headers={"If-Match": tag}
            )
            assert gone.status_code == 200, gone.text
            job.run(1, 2.0, tick=False)
    changes = [tag for tag, before in zip(etags, [None, *etags], strict=False) if tag != before]
    if what == "policy":
        # A default that nobody ever set is always the same.
        assert changes.count('"0"') <= 2
        changes = [tag for tag in changes if tag != '"0"']
    assert len(changes) == len(set(changes))


@pytest.mark.parametrize("empty", [False, True])
def test_where_there_is_no_store_none_is_made_and_the_command_says_so(tmp_path: Path, *, empty: bool) -> None:
    """A wrong address must not read as a restore that is announced."""
    path = tmp_path / "mistyped.db"
    if empty:
        path.touch()
    result = CliRunner().invoke(app, ["restore", "--database-url", f"sqlite:///{path}"])
    assert result.exit_code == 2
    assert "there is no store; check the address of the database" in result.output
    assert path.exists() == empty
