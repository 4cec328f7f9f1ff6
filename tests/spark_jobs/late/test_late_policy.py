"""The policy says whether late rows are kept: a running job follows, and what was not kept is neither unknown nor 0."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs import flush, side
from tidemark.spark_jobs.late import follower, missing_reports

from support.controller_app import Controller
from support.late_streams import CLOSING_ID, done, late_by_batch
from support.losing import Losing
from support.patience import PATIENCE_S, until
from support.served import served
from support.spark_streams import EPOCH_US, Job, Row, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES = random_batches(31, 12)
CLOSING = [Row(CLOSING_ID, 0, EPOCH_US + 48 * 3_600_000_000)]


class Site:
    """A job that keeps late rows below a folder, and its controller.

    Args:
        spark: the session.
        folder: where all is.
        keep: what the job's call says.
    """

    def __init__(
        self, spark: SparkSession, folder: Path, controller: Controller, *, keep: bool = True
    ) -> None:
        self.controller = controller
        self.losing = Losing(controller.http.app)
        self.folder = folder / "late"
        self.job = Job(spark, folder, tumbling("5 seconds"))
        self.job.late = side(str(self.folder), parse=lambda raw: raw, keep=keep)

    def run(self, batches: list[list[Row]]) -> None:
        """Run over more batches, and wait for what follows them."""
        self.job.write(batches)
        self.job.run_available("1 second")

    @property
    def path(self) -> str:
        """The address of the stream."""
        (entry,) = self.controller.http.get("/v1/jobs").json()["jobs"]
        return f"/v1/jobs/{quote(entry['job'])}/streams/test"

    def says(self, late: str | None) -> None:
        """Set what the policy says of late rows."""
        answer = self.controller.http.put(
            f"{self.path}/policy", json={"late": late}, headers={"If-Match": "*"}
        )
        assert answer.status_code == 200, answer.text

    @property
    def late(self) -> dict[str, Any]:
        """What the status says of late rows."""
        found: dict[str, Any] = self.controller.http.get(self.path).json()["late"]
        return found

    @property
    def in_ledger(self) -> dict[int, int]:
        """The late rows of each batch that has some, by the controller's ledger."""
        reports = self.controller.http.get(f"{self.path}/reports").json()["reports"]
        return {each["batch_id"]: each["late_min"] for each in reports if each["late_min"]}

    def names(self, folder: str) -> list[str]:
        """Return what is in a folder of the one with the late rows."""
        return sorted(path.name for path in (self.folder / folder).glob("[0-9]*"))


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    with Controller(f"sqlite:///{tmp_path / 'tidemark.db'}") as running:
        running.clock.now_us = time.time_ns() // 1_000
        yield running


@pytest.mark.long
def test_a_running_job_stops_keeping_late_rows_and_keeps_them_again_from_the_first_batch_it_can_read(
    spark: SparkSession, tmp_path: Path, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_reports, "_EVERY_S", 0)
    monkeypatch.setattr(follower, "_REST", 0)
    site = Site(spark, tmp_path, controller)
    with served(site.losing) as site.job.controller_url:
        site.run(BATCHES[:4])
        assert site.late["text"] == "side, by the job's call"
        query = site.job.start("1 second")
        try:
            site.says("drop")
            site.job.write(BATCHES[4:6])
            query.processAllAvailable()
            until(lambda: site.names("_off"), "the job to follow the policy")
            site.job.write(BATCHES[6:8])
            query.processAllAvailable()
            until(lambda: site.late["in_force"] == "drop", "the job to acknowledge it")
            (off,) = site.names("_off")
            kept = done(site.folder)
            assert 3 <= kept == int(off) - 1
            assert max(late_by_batch(spark, site.folder)) <= kept, "nothing is kept, and none of it claimed"
            assert max(site.in_ledger) > kept, "but all of it is counted"
            site.says("side")
            site.job.write(BATCHES[8:])
            query.processAllAvailable()
        finally:
            query.stop()
        assert flush(PATIENCE_S)

        assert late_by_batch(spark, site.folder) == site.in_ledger
        assert [site.names(each) for each in ("_off", "_not_kept", "_unknown")] == [[], [], []]


def test_batches_that_were_not_kept_and_are_purged_since_are_said_to_be_that_and_an_outage_changes_nothing(
    spark: SparkSession, tmp_path: Path, controller: Controller
) -> None:
    site = Site(spark, tmp_path, controller, keep=False)
    with served(site.losing) as site.job.controller_url:
        site.run(BATCHES[:5])
        assert site.late["text"] == "drop, by the job's call"
        assert site.names("_off") == ["0"]
        assert site.late["choices"] == ["drop", "side"]
        for number in (0, 1, 2):
            (tmp_path / "checkpoint" / "offsets" / str(number)).unlink()
        site.says("side")
        site.losing.answers = False
        site.run(BATCHES[5:7])
        assert site.names("_off") == ["0"], "who is not answered goes on as before"
        site.losing.answers = True
        (site.folder / "_off" / ".9.a-b.tmp").write_text("a crash left it")
        site.run([*BATCHES[7:], CLOSING])
        assert site.late["text"] == "side, by the policy"

    (gap,) = site.names("_not_kept")
    assert json.loads((site.folder / "_not_kept" / gap).read_text())["first"] == 0
    assert gap == "0-3"
    assert not site.names("_off")
    assert not site.names("_unknown")
    assert late_by_batch(spark, site.folder) == {n: rows for n, rows in site.in_ledger.items() if n > 3}
    assert len(site.in_ledger) > len(late_by_batch(spark, site.folder)) > 3
