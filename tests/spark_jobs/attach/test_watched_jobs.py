"""Jobs that were never edited, with the jar: their rows are counted, their bounds steered, and nothing stops them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tidemark.models.protocol.messages import Report

from support.jars import built_jar
from support.patience import until
from support.plain_jobs import (
    Job,
    came_out,
    clicks,
    confs_of,
    java_job,
    submitted,
    write_rows,
)
from support.report_server import ReportServer

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
]

READY = "side process ready"


@dataclass(frozen=True, slots=True)
class Watched:
    """A job in Java that was never edited, and its controller."""

    job: Job
    controller: ReportServer
    rows: Path
    folder: Path

    def run(self, name: str, checkpoint: str | None = None, kind: str = "tumbling") -> int:
        """Run a query over all rows; return how many came out."""
        out = self.folder / name
        place = self.folder / (checkpoint or name) / "checkpoint"
        self.job.do("run", "-", kind, self.rows, out, place)
        return came_out(out)

    def run_amid(self, name: str, act: Callable[[], None]) -> int:
        """Run a query of which half of the rows come after something was done; return how many came out."""
        rows, out = write_rows(self.folder / f"{name}-rows", 0, 4), self.folder / name
        self.job.do("start", "-", "tumbling", rows, out, self.folder / name / "checkpoint")
        self.job.do("process")
        act()
        write_rows(rows, 4)
        self.job.do("process")
        self.job.do("stop")
        return came_out(out)

    def run_or_not(self, name: str) -> bool:
        """Run a query anew; return whether it was watched."""
        for each in (self.folder / name, self.folder / f"{name}-rows"):
            shutil.rmtree(each, ignore_errors=True)
        self.run(name)
        return f"{name}.clicks.ts" in self.controller.streams()

    def reports(self, stream: str) -> list[Report]:
        """Return the reports of a stream, when all of its rows are reported."""
        found = self.controller.reports["shop", stream]
        until(
            lambda: sum(each.rows for each in found) == clicks() + 2,
            f"the reports of {stream}",
            seen=self.job.text,
        )
        return found

    def late(self, stream: str) -> int:
        """Return how many rows of a stream were late, by its ledger."""
        self.reports(stream)
        tally = self.controller.ledger(stream)
        assert tally.late_min == tally.late_max
        return tally.late_min

    def anew(self, confs: dict[str, str], *, comes_up: bool = True) -> None:
        """Let the job have a new context with some conf more, which starts its side process at once."""
        ready = len(self.job.lines(READY))
        every = {**confs_of(self.controller), "spark.plugins": "tidemark.attach.TidemarkPlugin", **confs}
        self.job.do("context", *(word for pair in every.items() for word in pair))
        if comes_up:
            until(lambda: len(self.job.lines(READY)) > ready, "a side process", seen=self.job.text)

    def side(self) -> int:
        """Return the process id of the side process that was started last."""
        found = re.findall(r"side process (\d+) started", self.job.text())
        return int(found[-1])


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return Tidemark's jar."""
    return built_jar(tmp_path_factory.mktemp("jar"))


@pytest.fixture(scope="module")
def watched(jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Return a job for all tests of this file."""
    folder = tmp_path_factory.mktemp("job")
    with (
        ReportServer() as controller,
        submitted(folder, confs_of(controller), "--jars", str(jar), *java_job(folder)) as job,
    ):
        yield Watched(job, controller, write_rows(folder / "rows"), folder)
        job.end()


@dataclass(frozen=True, slots=True)
class Plain:
    """How many rows come out of the job when nobody watches it."""

    run: int
    run_amid: int


@pytest.fixture(scope="module")
def plain(watched: Watched) -> Plain:
    """Return it."""
    watched.job.do("conf", "spark.tidemark.enabled", "false")
    found = Plain(watched.run("plain"), watched.run_amid("plain-amid", lambda: None))
    watched.job.do("conf", "spark.tidemark.enabled", "true")
    assert 0 < found.run_amid <= found.run < clicks()
    assert watched.controller.streams() == set()
    return found


@pytest.mark.long
def test_a_job_that_was_never_edited_is_watched_and_its_ledger_equals_its_sink(
    watched: Watched, plain: Plain
) -> None:
    assert watched.run("first") == plain.run
    assert watched.late("first.clicks.ts") == clicks() - plain.run
    said = watched.controller.acknowledgements["shop", "first.clicks.ts"][-1]["datasets"]
    assert said == {"inputs": [f"file:{watched.rows}/clicks"], "output": f"file:{watched.folder / 'first'}"}


@pytest.mark.long
def test_a_restart_finds_the_same_name_and_takes_the_bound_that_was_published(watched: Watched) -> None:
    stream = "again.clicks.ts"
    rows = write_rows(watched.folder / "more", 0, 4)
    out, place = watched.folder / "again", watched.folder / "again" / "checkpoint"
    watched.job.do("run", "-", "tumbling", rows, out, place)
    watched.controller.publish(stream, "OnRestart", 30_000)
    write_rows(rows, 4)
    watched.job.do("run", "-", "tumbling", rows, out, place)

    assert watched.late(stream) == clicks() - came_out(out)
    bounds = {report.run_id: report.bound_ms for report in watched.reports(stream)}
    assert list(bounds.values()) == [10_000, 30_000]
    assert watched.controller.acknowledgements["shop", stream][-1]["source"] == "controller"


@pytest.mark.long
def test_a_conf_renames_a_stream_and_steers_it_live(watched: Watched) -> None:
    for key, value in {"name": "clicks", "mode": "Live", "ceiling": "60s"}.items():
        watched.job.do("conf", f"spark.tidemark.stream.live.clicks.ts.{key}", value)
    watched.controller.publish("clicks", "Live", 2_000)
    late = clicks() - watched.run("live")

    assert watched.late("clicks") == late > 0
    assert all(report.live is not None for report in watched.reports("clicks"))


@pytest.mark.long
def test_a_conf_keeps_the_rows_that_were_late(watched: Watched, plain: Plain) -> None:
    folder = watched.folder / "late"
    watched.job.do("conf", "spark.tidemark.stream.kept.clicks.ts.late.folder", folder)
    late = clicks() - watched.run("kept")
    assert late == clicks() - plain.run

    def kept() -> int:
        files = (folder / "kept.clicks.ts").glob("from_batch=*/*.parquet")
        return sum(pq.read_metadata(file).num_rows for file in files)

    until(lambda: kept() == late, "the late rows", seen=watched.job.text)


@pytest.mark.long
def test_two_sessions_are_watched_at_once(watched: Watched, plain: Plain) -> None:
    watched.job.do("session")
    assert watched.run("other") == plain.run
    assert watched.late("other.clicks.ts") == clicks() - plain.run


@pytest.mark.long
def test_a_session_cannot_send_reports_elsewhere(watched: Watched, plain: Plain) -> None:
    """A client of a Connect server sets the conf of its session, and the server has a token."""
    watched.job.do("session")
    with ReportServer() as other:
        watched.job.do("conf", "spark.tidemark.controller.url", other.url)
        assert watched.run("elsewhere") == plain.run
        assert watched.late("elsewhere.clicks.ts") == clicks() - plain.run
        assert other.streams() == set()
    watched.job.do("session")


@pytest.mark.long
def test_a_conf_that_does_not_fit_a_stream_is_left_out_and_the_stream_is_judged(
    watched: Watched, plain: Plain
) -> None:
    """Windows of 10 s do not fit this granule, nor the bound that ceiling. A call would have the query ended."""
    stream = "wide.clicks.ts"
    for key, value in {"granule": "7s", "ceiling": "1s", "mode": "Sometimes"}.items():
        watched.job.do("conf", f"spark.tidemark.stream.{stream}.{key}", value)
    assert watched.run("wide") == plain.run
    assert watched.late(stream) == clicks() - plain.run
    assert len(watched.job.lines("is left out")) == 3
    said = watched.controller.acknowledgements["shop", stream][-1]["conf_left_out"]
    assert all(f"{stream}.{key} is left out" in said for key in ("granule", "ceiling", "mode"))


@pytest.mark.long
def test_without_the_controller_a_query_keeps_its_own_bound(watched: Watched, plain: Plain) -> None:
    watched.controller.away = True
    try:
        assert watched.run("alone") == plain.run
    finally:
        watched.controller.away = False
    assert watched.late("alone.clicks.ts") == clicks() - plain.run, "its reports come later"


@pytest.mark.long
def test_a_side_that_is_killed_takes_no_query_with_it_and_is_started_again(
    watched: Watched, plain: Plain
) -> None:
    watched.anew({})
    assert watched.run_amid("killed", lambda: os.kill(watched.side(), signal.SIGKILL)) == plain.run_amid
    until(lambda: watched.run_or_not("later"), "a side that is started again", pause_s=1)


@pytest.mark.long
def test_a_side_that_hangs_holds_nothing_up(watched: Watched, plain: Plain) -> None:
    watched.anew({"spark.tidemark.start.timeout": "3s"})
    os.kill(watched.side(), signal.SIGSTOP)
    assert watched.run("never") == plain.run
    assert watched.job.lines("has not answered within 3000 ms and is ended")

    watched.anew({})
    hung = watched.side()
    assert watched.run_amid("hung", lambda: os.kill(hung, signal.SIGSTOP)) == plain.run_amid
    with contextlib.suppress(ProcessLookupError):  # ended by then, on a machine that is slow
        os.kill(hung, signal.SIGKILL)


@pytest.mark.soak
def test_two_executors_count_the_rows_of_a_job_that_was_never_edited(jar: Path, tmp_path: Path) -> None:
    program = ["--jars", str(jar), *java_job(tmp_path)]
    with (
        ReportServer() as controller,
        submitted(tmp_path, confs_of(controller), *program, master="local-cluster[2,1,1024]") as job,
    ):
        watched = Watched(job, controller, write_rows(tmp_path / "rows"), tmp_path)
        job.do("conf", "spark.tidemark.enabled", "false")
        plain = watched.run("plain")
        job.do("conf", "spark.tidemark.enabled", "true")
        assert watched.run("watched") == plain
        assert watched.late("watched.clicks.ts") == clicks() - plain > 0

        job.do("conf", "spark.tidemark.mode", "Live")
        controller.publish("live.clicks.ts", "Live", 2_000)
        late = clicks() - watched.run("live")
        assert watched.late("live.clicks.ts") == late > 0
        assert watched.late("live.clicks.ts") == clicks() - watched.run("live")
        assert all(report.live is not None for report in watched.reports("live.clicks.ts"))
        assert not job.lines("running without")
        job.end()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["missing", "bare", "slow"])
def test_without_a_python_of_its_own_a_query_runs_as_it_is(watched: Watched, plain: Plain, kind: str) -> None:
    python = watched.folder / kind / "bin" / "python"
    if kind == "bare":
        venv.create(python.parent.parent, symlinks=True)
    elif kind == "slow":
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\nexec sleep 600\n")
        python.chmod(0o755)
    patience = {"spark.tidemark.start.timeout": "2s"} if kind == "slow" else {}
    watched.anew({"spark.tidemark.python": str(python), **patience}, comes_up=False)
    assert watched.run(kind) == plain.run
    why = {"missing": "cannot start", "bare": "has ended with 1", "slow": "has not answered within 2000 ms"}
    (said,) = (line for line in watched.job.lines("runs as it is") if f"/{kind}/checkpoint" in line)
    assert said.endswith(f"the side process {why[kind]}")
