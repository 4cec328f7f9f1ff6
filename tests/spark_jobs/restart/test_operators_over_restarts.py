"""Restart and OnRestart on every stateful operator: the watermark is Spark's with the bound of each run, and the ledger
is what the sink got.

The watermark of every batch is held against rule 2.2: it is what came back with the checkpoint, or what the newest
event time of this run less this run's bound has reached by then. What became of a row follows from the late rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import row_level

from support.bound_server import BoundServer
from support.live_comparisons import (
    OF_DISTINCT,
    OF_JOINS,
    absent_of,
    compare_ledger,
    compare_pairs,
    compare_sink,
    fates_of,
    print_table,
)
from support.live_operators import COPY, FOUR, JOINS, KINDS, stream_of, with_copies
from support.live_streams import closing_batch
from support.restarts import (
    Controllers,
    RestartedJob,
    RestartsCompared,
    Run,
    compare_bounds,
    compare_watermarks,
    restarted_batches,
    restarted_between_batches,
    restarted_job,
    runs_of,
    started_anew,
)
from support.soak import with_soak

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[dict[str, RestartsCompared]]:
    """Return what each test compared, to be printed in the end."""
    rows: dict[str, RestartsCompared] = {}
    yield rows
    print_table(request, "over restarts", rows)


def narrowed_anew_and_widened_by_the_runner(
    job: RestartedJob, controllers: Controllers, runs: Sequence[Run]
) -> None:
    numbered = list(enumerate(runs))
    started_anew(job, controllers, numbered[:1])
    restarted_between_batches(job, controllers, numbered[1:])


def narrowed_by_the_runner_and_widened_anew(
    job: RestartedJob, controllers: Controllers, runs: Sequence[Run]
) -> None:
    numbered = list(enumerate(runs))
    restarted_between_batches(job, controllers, numbered[:-1])
    started_anew(job, controllers, numbered[-1:])


Way = Callable[[RestartedJob, Controllers, Sequence[Run]], None]
WAYS: tuple[Way, Way] = (narrowed_anew_and_widened_by_the_runner, narrowed_by_the_runner_and_widened_anew)
"""Both ways to restart in one story, so that every operator goes through both of them."""


@pytest.fixture
def controllers(spark: SparkSession) -> Iterator[Callable[[Sequence[str]], Controllers]]:
    """Return a function that starts a controller for each input."""
    spark.conf.set("spark.tidemark.watch.seconds", "2")
    with ExitStack() as stack:
        yield lambda names: Controllers(
            {name: stack.enter_context(BoundServer("tidemark-tests", name)) for name in names}
        )
    spark.conf.unset("spark.tidemark.watch.seconds")


# -- the tests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", with_soak(KINDS, KINDS.keys() - {"tumbling, append", "deduplication, then windows"}, FOUR)
)
def test_the_watermark_follows_the_bound_of_each_run_and_the_ledger_equals_the_sink(
    spark: SparkSession,
    tmp_path: Path,
    controllers: Callable[[Sequence[str]], Controllers],
    table: dict[str, RestartsCompared],
    name: str,
) -> None:
    """For every operator: over a narrower and a wider bound, from one checkpoint."""
    kind, body = KINDS[name], controllers(["in"])
    seed = f"{name}, restarts"
    batches, closing = stream_of(kind, seed, restarted_batches(seed))
    job = restarted_job(spark, tmp_path, body, kind.operator, kind.plan, kind.output_mode)
    for key, value in kind.conf:
        spark.conf.set(key, value)
    try:
        WAYS[list(KINDS).index(name) % 2](job, body, runs_of([batches], [closing]))
    finally:
        for key, _ in kind.conf:
            spark.conf.unset(key)
    compared = table[name] = RestartsCompared()
    batches = [*batches, *closing]
    wrong = compare_bounds(job)
    wrong += compare_watermarks(job, [batches], compared)
    wrong += compare_ledger(job, 0, batches, compared)
    wrong += compare_sink(job, kind, fates_of(job, 0, batches), compared)

    assert wrong == []
    absent = {*OF_JOINS, *(() if kind.distinct else OF_DISTINCT)}
    if kind.output_mode == "complete":
        absent |= {"no_data", "late", "late_partitions"}  # nothing is ever late, and nothing closes
        assert compared.late == 0
    assert compared.missing(*absent) == []


@pytest.mark.parametrize("name", with_soak(JOINS, JOINS.keys() - {"inner"}))
def test_a_join_follows_the_bounds_of_both_inputs_in_each_run_and_emits_the_pairs_that_the_ledgers_admit(
    spark: SparkSession,
    tmp_path: Path,
    controllers: Callable[[Sequence[str]], Controllers],
    table: dict[str, RestartsCompared],
    name: str,
) -> None:
    """Each input has a bound of its own, and the slower of them leads."""
    kind, body = JOINS[name], controllers(["left", "right"])
    seed = f"{name}, restarts 4"
    streams = [restarted_batches(f"{seed}, left"), restarted_batches(f"{seed}, right", COPY)]
    if kind.distinct:
        streams[0] = with_copies(seed, streams[0])
    closing = [[closing_batch()], [closing_batch(10**9 + 10)]]
    job = restarted_job(spark, tmp_path, body, row_level(), kind.plan)
    WAYS[list(JOINS).index(name) % 2](job, body, runs_of(streams, closing))
    compared = table[f"join, {name}"] = RestartsCompared()
    streams = [[*batches, *last] for batches, last in zip(streams, closing, strict=True)]
    wrong = compare_bounds(job)
    wrong += compare_watermarks(job, streams, compared)
    for index, batches in enumerate(streams):
        wrong += compare_ledger(job, index, batches, compared)
    left, right = (fates_of(job, index, batches) for index, batches in enumerate(streams))
    wrong += compare_pairs(job, kind, left, right, compared)

    assert wrong == []
    assert compared.missing(*absent_of(kind)) == []
