"""Jobs over Spark Connect: a real server, and clients in processes without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.bound_server import BoundServer
from support.connect_client import Order, Result, batches_of, job_of, run_client
from support.connect_server import running_connect_server
from support.connect_sink import taken
from support.live_comparisons import OF_DISTINCT, OF_JOINS, compare_ledger, compare_sink, fates_of
from support.live_operators import FOUR, KINDS
from support.restarts import (
    Controllers,
    RestartedJob,
    RestartsCompared,
    compare_bounds,
    compare_watermarks,
)
from support.soak import with_soak
from support.spark_streams import RecordingSink

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server for all tests of this file."""
    with running_connect_server(tmp_path_factory.mktemp("server")) as url:
        yield url


def _job_with(order: Order, *results: Result) -> RestartedJob:
    """Return the job as what several clients have recorded of it."""
    job = job_of(None, order, Controllers({"in": BoundServer("tidemark-tests", "in")}))
    job.recorded["in"] = RecordingSink(
        reports=[report for result in results for report in result.reports],
        acknowledgements=[each for result in results for each in result.acknowledgements],
    )
    for result in results:
        job.bounds_ms |= result.bounds_ms
    job.output = taken(order.folder / "out")
    return job


@pytest.mark.parametrize(
    "names", with_soak([FOUR[::3], FOUR[1:3]], [FOUR[1:3]], [FOUR[::3], FOUR[1:3]]), ids=str
)
def test_the_watermark_follows_the_bound_of_each_run_and_the_ledger_equals_the_sink(
    server: str, tmp_path: Path, names: tuple[str, ...]
) -> None:
    """The first run is one client's, the second and third another's, whose runner restarts between them."""
    first = [Order(kind=name, folder=tmp_path / name, runs=(0,)) for name in names]
    second = [Order(kind=name, folder=tmp_path / name, runs=(1, 2), by_runner=True) for name in names]
    results = zip(
        run_client(server, first, tmp_path / "first"),
        run_client(server, second, tmp_path / "second"),
        strict=True,
    )
    for order, clients in zip(first, results, strict=True):
        kind, job, compared = KINDS[order.kind], _job_with(order, *clients), RestartsCompared()
        batches = [batch for part in batches_of(order.kind) for batch in part]
        wrong = compare_bounds(job)
        wrong += compare_watermarks(job, [batches], compared)
        wrong += compare_ledger(job, 0, batches, compared)
        wrong += compare_sink(job, kind, fates_of(job, 0, batches), compared)

        assert wrong == [], order.kind
        assert compared.missing(*OF_JOINS, *(() if kind.distinct else OF_DISTINCT)) == []
