"""A controller with streams that have everything, so that each of its metrics has a sample."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tidemark.models.evidence.late_counts import ByValue, LossCounts, hour_of, late_counts
from tidemark.models.protocol.messages import Acknowledgement, to_json_object

from support.controller_app import Controller
from support.issuer import write_issuers
from support.policies import at_once
from support.rolled_job import RolledJob
from support.seeded import continued
from support.streams import SECOND, Row
from support.tokens import bearer, make_token

__all__ = ["run_partitions", "whole_controller"]


def run_partitions(
    job: RolledJob,
    batches: int,
    *,
    partitions: int = 4,
    slow: int | None = None,
    late_s: float = 30,
    tick: bool = True,
    **changes: Any,
) -> None:
    """Report ``batches`` of 60 rows a partition up to 2 s late; those of partition ``slow`` are ``late_s`` later.

    With a tick of the loop at the end.
    """
    dice = random.Random(job.batch_id)
    for _ in range(batches):
        rows: list[Row] = []
        for number in range(partitions):
            more_s = late_s if number == slow else 0
            rows += [
                (str(number), job.at_us - round((2 * dice.random() + more_s) * SECOND)) for _ in range(60)
            ]
        job.report(rows, **changes)
    if tick:
        job.controller.tick()


def _through_a_rollout(controller: Controller) -> RolledJob:
    """Let a job go through a rollout."""
    job = RolledJob(controller)
    run_partitions(job, 2)
    controller.put("/slo", {"target_ppm": 990_000})
    controller.put("/policy", at_once(max_bound_ms=600_000))
    run_partitions(job, 30, slow=3)
    job.restart()
    run_partitions(job, 40)
    # Wider, so that there is a bound before the published one.
    run_partitions(job, 20, slow=3, late_s=90)
    controller.put("/policy", at_once(max_bound_ms=600_000, margin_ppm=100_000))
    job.restart()
    # As many rows as it takes to score a prediction.
    run_partitions(job, 60, slow=3, late_s=90)
    return job


def _count_by_region(job: RolledJob) -> None:
    """Let a job send rows and losses by a dimension."""
    counts = late_counts(
        ByValue({"south": LossCounts(rows=1_000, late=70), "north": LossCounts(rows=11_000, late=100)}),
        query_id="query",
        source="0",
        first_batch=0,
        last_batch=9,
        hour_us=hour_of(job.at_us),
        dimension="region",
    )
    answer = job.controller.http.post(f"{job.path}/late-rows", json=counts.to_json_object())
    assert answer.status_code == 201, answer.text


def _issuers(folder: Path) -> Path:
    nobody = {"issuer": "http://127.0.0.1:9", "audience": "tidemark", "group_roles": "*=viewer"}
    return write_issuers(folder, idp=nobody)


@contextmanager
def whole_controller(database_url: str, **settings: Any) -> Iterator[Controller]:
    """Run a controller with a job that has gone through a rollout, one in Live, and one whose windows miss the target.

    Args:
        database_url: a SQLite file that is not there yet, or the PostgreSQL that tests share.
        settings: the controller's.
    """
    with (
        TemporaryDirectory() as folder,
        continued(database_url, _through_a_rollout, issuers_file=_issuers(Path(folder)), **settings) as job,
    ):
        controller = job.controller
        controller.http.headers.update(bearer(make_token(controller)))
        # What this process has counted is there too.
        run_partitions(job, 1, slow=3, late_s=90)
        live = RolledJob(controller, job="live", live=True)
        live.at_us = job.at_us
        run_partitions(live, 5)
        acknowledged = Acknowledgement(
            query_id="query",
            run_id="run 1",
            bound_ms=live.bound_ms,
            generation=None,
            source="job",
            mode="Live",
            applied_us=live.at_us,
            ceiling_ms=live.bound_ms,
        )
        answer = controller.http.post(live.path + "/acks", json=to_json_object(acknowledged))
        assert answer.status_code == 201, answer.text
        run_partitions(live, 5)
        _count_by_region(live)
        lossy = RolledJob(controller, bound_ms=0, job="lossy")
        lossy.at_us = job.at_us - 400 * SECOND
        controller.http.put(f"{lossy.path}/slo", json={"target_ppm": 990_000})
        run_partitions(lossy, 80, slow=3, late_s=17)
        controller.send("/reports", b"{")
        controller.snapshot()
        yield controller
