"""A checkpoint of plain ``withWatermark`` goes on in Live, over drivers that are killed: the ledger equals the sink."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.faults import Survived
from support.killed_live import (
    KilledJob,
    Stream,
    go_on_and_be_killed,
    plain_then_live,
    stream_of_kind,
)
from support.live_comparisons import LiveCompared, compare_ledger, compare_pairs, compare_sink, fates_of
from support.live_operators import JoinKind
from support.soak import with_soak

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

TEN_KILLS = [("tumbling, append", 3), ("session", 2), ("deduplication", 3), ("inner", 2)]
WITHOUT = [(name, 0) for name, _ in TEN_KILLS[1:]]
"""Those of `make test`; tumbling windows have `test_mode_changes`, and `test_restart` a kill."""


def compare(job: KilledJob, stream: Stream, compared: LiveCompared) -> tuple[list[str], list[str]]:
    """Compare ledger and sink of all batches with the rows and the checkpoint's watermarks; return what is wrong."""
    wrong: list[str] = []
    for index, batches in enumerate(stream.batches):
        wrong += compare_ledger(job, index, batches, compared, since=job.first_live)
    fates = [fates_of(job, index, batches) for index, batches in enumerate(stream.batches)]
    if isinstance(stream.kind, JoinKind):
        return wrong, compare_pairs(job, stream.kind, fates[0], fates[1], compared)
    return wrong, compare_sink(job, stream.kind, fates[0], compared)


def live_moves(job: KilledJob) -> int:
    """Return how many watermarks were set by Live: they are what it required when the batch before was reported."""
    (name, *_) = job.recorded
    required = {report.live.control_ms for report in job.recorded[name].reports if report.live is not None}
    return len({logged.watermark_ms for logged in job.log()} & required)


@pytest.mark.parametrize("killed", with_soak([*WITHOUT, *TEN_KILLS], TEN_KILLS), ids=str)
def test_a_plain_checkpoint_goes_on_in_live_and_the_ledger_equals_the_sink_over_kills(
    spark: SparkSession,
    tmp_path: Path,
    table: dict[str, LiveCompared],
    killed: tuple[str, int],
    survived: Survived,
) -> None:
    name, kills = killed
    stream = stream_of_kind(name, kills)
    job = plain_then_live(spark, tmp_path, stream)
    logged = job.log()
    for kill in range(kills):
        go_on_and_be_killed(tmp_path, name, kills, kill, job.first_live)
        before, logged = logged, job.log()
        assert len(logged) > len(before)
        assert logged[: len(before)] == before, "what was logged stays"
        assert not (job.checkpoint / "commits" / str(len(logged) - 1)).exists(), "it died within a batch"
    job.run([stream.next_files(tmp_path)])
    log = job.log()
    assert log[: len(logged)] == logged
    job = job.on_disk()
    compared = table[f"plain, then {name}, {kills} kills"] = LiveCompared(
        batches=len(log), restarts=kills + 1, replays=kills, live_moves=live_moves(job)
    )
    ledger, sink = compare(job, stream, compared)
    if kills:
        survived(
            "a driver is killed within a batch",
            times=kills,
            rows=compared.pairs,
            lost=len(sink),
            verdicts=compared.pairs,
            wrong=len(ledger),
        )

    assert ledger == []
    assert sink == []
    assert compared.live_moves > kills
    assert compared.late > 0
    assert compared.emitted > 0
