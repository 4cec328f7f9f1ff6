"""Jobs over Spark Connect: a real server, and clients in processes without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tidemark.spark_jobs.demo.controller_process import ControllerProcess
from tidemark.spark_jobs.spark.jvm import is_since

from support.bound_server import BoundServer
from support.connect_client import (
    JOB,
    Order,
    Result,
    batches_of,
    client,
    job_of,
    numbered_runs,
    results_in,
    run_client,
)
from support.connect_server import running_connect_server
from support.connect_sink import taken
from support.live_comparisons import (
    OF_DISTINCT,
    OF_JOINS,
    compare_ledger,
    compare_sink,
    fates_of,
    rows_by_batch,
)
from support.live_operators import FOUR, KINDS
from support.live_streams import Batches
from support.oracles import Ledger
from support.patience import until
from support.policies import at_once
from support.restarts import (
    Controllers,
    RestartedJob,
    RestartsCompared,
    compare_bounds,
    compare_watermarks,
)
from support.soak import with_soak
from support.spark_streams import RecordingSink

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not is_since(4, 0), reason="before PySpark 4.0 a client has no listeners"),
]

WINDOWS = FOUR[0]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server for all tests of this file."""
    with running_connect_server(tmp_path_factory.mktemp("server")) as url:
        yield url


def _job_with(order: Order, *results: Result) -> RestartedJob:
    """Return the job as what several clients have recorded of it."""
    job = job_of(None, order, Controllers({"in": BoundServer(JOB, "in")}))
    job.recorded["in"] = RecordingSink(
        reports=[report for result in results for report in result.reports],
        acknowledgements=[each for result in results for each in result.acknowledgements],
    )
    for result in results:
        job.bounds_ms |= result.bounds_ms
    # Over Spark Connect a restart may cut a batch off that runs again: its rows are there once all the same.
    job.begun = ()
    job.output = taken(order.folder)
    return job


def _all_batches(kind: str) -> Batches:
    return [batch for part in batches_of(kind) for batch in part]


def _rows_of(job: RestartedJob, kind: str, numbers: Sequence[int]) -> int:
    """Return how many rows some batches of a query have."""
    rows = rows_by_batch(job.log(), 0, _all_batches(kind))
    return sum(len(rows[number]) for number in numbers)


ONE, ALL = FOUR[:1], FOUR


@pytest.mark.long
@pytest.mark.parametrize("names", with_soak([ONE, ALL], [ALL], [ALL]), ids=str)
def test_the_watermark_follows_the_bound_of_each_run_and_the_ledger_equals_the_sink(
    server: str, tmp_path: Path, names: tuple[str, ...]
) -> None:
    """The first run is one client's, the other two another's; of all four, a runner restarts the first between them.

    A runner's restarts come amid a batch, which a function holds up, for which the server starts a Python each time.
    """
    first = [Order(kind=name, folder=tmp_path / name, runs=(0,)) for name in names]
    restarted = ALL[0] if names == ALL else None
    second = [
        Order(kind=name, folder=tmp_path / name, runs=(1, 2), by_runner=name == restarted) for name in names
    ]
    results = zip(
        run_client(server, first, tmp_path / "first"),
        run_client(server, second, tmp_path / "second"),
        strict=True,
    )
    for order, clients in zip(first, results, strict=True):
        kind, job, compared = KINDS[order.kind], _job_with(order, *clients), RestartsCompared()
        batches = _all_batches(order.kind)
        wrong = compare_bounds(job)
        wrong += compare_watermarks(job, [batches], compared)
        wrong += compare_ledger(job, 0, batches, compared)
        wrong += compare_sink(job, kind, fates_of(job, 0, batches), compared)

        assert wrong == [], order.kind
        assert compared.missing(*OF_JOINS, *(() if kind.distinct else OF_DISTINCT)) == []


@pytest.mark.long
def test_what_ran_while_no_client_was_there_is_missing_and_all_else_is_exact(
    server: str, tmp_path: Path
) -> None:
    """A query goes on in the server without the client that reports its batches; the next client restarts it."""
    first = Order(kind=WINDOWS, folder=tmp_path / "job", runs=(0,), stays=True)
    with client(server, [first], tmp_path / "first") as process:
        until(
            lambda: (tmp_path / "first" / "results").exists() or process.poll() is not None,
            "the reports of a client",
            seen=lambda: (tmp_path / "first" / "log").read_text()[-4_000:],
        )
    job = _job_with(first, *results_in(tmp_path / "first"))
    reported = len(job.log())
    ((_, groups),) = numbered_runs(Order(kind=WINDOWS, folder=tmp_path / "job", runs=(1,)))
    for group in groups:
        job.publish(group)
    until(lambda: job.log()[-1].files == (6,), "the batches that nobody reports")
    (second,) = run_client(
        server, [Order(kind=WINDOWS, folder=tmp_path / "job", runs=(2,))], tmp_path / "second"
    )
    ledger = Ledger()
    for report in [*job.recorded["in"].reports, *second.reports]:
        ledger.add(report)
    restarted = second.reports[0].batch_id
    (coverage,) = ledger.coverage().values()

    assert restarted > reported
    assert coverage.missing_batches == restarted - reported
    assert (ledger.unjudged_rows, ledger.completeness().exact) == (0, False)
    assert second.reports[0].late_watermark_ms == job.log()[restarted - 1].watermark_ms


@pytest.mark.long
def test_a_broken_connection_loses_no_batch_and_what_needs_a_jvm_is_refused(
    server: str, tmp_path: Path
) -> None:
    """Spark drops all listeners then, and says so in a warning that nobody reads. This client has no Py4J, too."""
    broken = Order(kind=WINDOWS, folder=tmp_path / "job", runs=(0,), breaks=True)
    refusals = Order(kind=WINDOWS, folder=tmp_path / "refused", runs=(0,), refused=True)
    found, refused = run_client(server, [broken, refusals], tmp_path / "client", thin=True)
    job = _job_with(broken, found)

    assert any("the listener is added again" in line for line in found.log)
    assert any(
        "among Spark's metrics of a query: they are out of this process's reach" in line for line in found.log
    )
    assert compare_ledger(job, 0, _all_batches(WINDOWS), RestartsCompared()) == []
    assert (
        "mode is Live, but over Spark Connect the watermark that is to be moved is in the server"
        in " ".join(refused.log)
    )
    assert refused.log[-1].startswith("late=side(...) is not possible: it needs the offset log")


@pytest.mark.long
def test_what_a_client_cannot_know_is_unknown_and_never_complete(server: str, tmp_path: Path) -> None:
    """Without rights to the checkpoint it is the first batch of each restart; without an operator it is all."""
    hidden = Order(kind=WINDOWS, folder=tmp_path / "hidden", runs=(0, 1), hidden=True)
    undeclared = Order(kind=WINDOWS, folder=tmp_path / "undeclared", runs=(0,), declared=False)
    first, second = run_client(server, [hidden, undeclared], tmp_path / "client")
    job, ledger = _job_with(hidden, first), Ledger()
    for report in first.reports:
        ledger.add(report)
    begins = next(report.batch_id for report in first.reports if report.run_id != first.reports[0].run_id)
    body = ledger.completeness()

    assert [report.batch_id for report in first.reports if report.late_watermark_ms is None] == [begins]
    assert body.unjudged_rows == _rows_of(job, WINDOWS, [begins]) > 0
    assert not body.exact
    assert any(f"no row of batch {begins} is judged" in line for line in first.log)
    assert {report.contradiction for report in second.reports} == {
        "the call declares no operator, and Spark Connect shows its client no plan"
    }


def _wider(controller: ControllerProcess) -> int | None:
    """Return what is recommended, once it is wider than the job's own bound of 0."""
    recommended = controller.get().get("recommended") or {}
    return recommended["bound_ms"] if recommended.get("current") else None


@pytest.mark.soak
def test_a_job_takes_the_bound_that_a_controller_recommends_at_its_next_start(
    server: str, tmp_path: Path
) -> None:
    """Report, recommend, apply, acknowledge, with a real controller and a new client after the restart."""
    (tmp_path / "controller").mkdir()
    controller = ControllerProcess(tmp_path / "controller", JOB, "in")
    try:
        controller.wait_until_ready()
        order = Order(
            kind=WINDOWS, folder=tmp_path / "job", runs=(0,), bound="0 seconds", controller=controller.url
        )
        run_client(server, [order], tmp_path / "first")
        assert controller.get()["applied"]["source"] == "job"
        # The rows are few, and certify little.
        controller.put("slo", {"target_ppm": 850_000, "confidence_ppm": 300_000})
        run_client(server, [replace(order, runs=(1,))], tmp_path / "second")
        bound_ms = until(lambda: _wider(controller), "a wider bound", seen=controller.get)
        controller.put("policy", at_once())
        run_client(server, [replace(order, runs=(2,))], tmp_path / "third")
        status = controller.get()

        assert (status["applied"]["bound_ms"], status["applied"]["source"]) == (bound_ms, "controller")
        assert status["coverage"][0]["missing"] == []
        assert status["completeness"]["exact"] is True
    finally:
        controller.stop()
