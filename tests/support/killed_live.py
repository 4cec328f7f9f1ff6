"""Drivers in Live that go on from a plain checkpoint and are killed, JVM and all, in the middle of a batch.

Run as a module it is such a driver: ``python -m support.killed_live FOLDER KIND KILLS KILL FIRST_LIVE``.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from support.live_operators import BEYOND, JOINED, JOINS, KINDS, JoinKind, Kind, with_copies
from support.live_streams import SECOND_US, Batches, Input, LiveJob, closing_batch, trailing_batches
from support.patience import PATIENCE_S, until
from support.spark_streams import RecordingSink, driver_of_its_own
from support.tree import ROOT

__all__ = ["FILES", "PLAIN_FILES", "Stream", "go_on_and_be_killed", "plain_then_live", "stream_of_kind"]

PLAIN_FILES, FILES = 4, 8
"""Files that the plain query reads, and that a driver reads until it is killed."""
_TRAIL_US = 2 * SECOND_US
"""The plain query's watermark has no regard for a slow partition: one that is far behind would hold Live for long."""
_DEAD = -signal.SIGKILL


@dataclass(frozen=True)
class Stream:
    """What a query reads, and what it is."""

    kind: Kind | JoinKind
    inputs: Sequence[Input]
    batches: Sequence[Batches]

    def next_files(self, folder: Path, count: int | None = None) -> list[Batches]:
        """Return the files of each input that come after those that a query in ``folder`` can see already."""
        seen = sum(1 for _ in (folder / self.inputs[0].name).glob("*/*.json"))
        return [batches[seen:][:count] for batches in self.batches]


def stream_of_kind(name: str, kills: int) -> Stream:
    """Return the stream of a test with so many kills; the last batch of each input closes what is before it."""
    files = PLAIN_FILES + (kills + 1) * FILES
    if name in JOINS:
        left = trailing_batches(f"killed {name}, left", files, trail_us=_TRAIL_US)
        right = trailing_batches(
            f"killed {name}, right", files, trail_us=_TRAIL_US, partitions=4, first_id=1_000_000
        )
        return Stream(JOINS[name], JOINED, [[*left, closing_batch()], [*right, closing_batch(10**9 + 10, 4)]])
    kind = KINDS[name]
    entry = Input(name="in", operator=kind.operator, bound="3 seconds", ceiling=kind.ceiling or BEYOND)
    batches = trailing_batches(f"killed {name}", files, trail_us=_TRAIL_US)
    if kind.distinct:
        batches = with_copies(name, batches)
    return Stream(kind, [entry], [[*batches, closing_batch()]])


class _File(RecordingSink):
    """Reports on disk, each there before the next batch can be killed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def report(self, report: Any) -> None:
        super().report(report)
        with self._path.open("ab") as file:
            pickle.dump(report, file)


@dataclass
class KilledJob(LiveJob):
    """A query whose output and reports are on disk, and that kills its process where another one crashes."""

    first_live: int = 0
    """The first batch in Live: those before it are of a plain query."""
    dies: bool = False

    def delay_us(self, index: int, batch: int) -> int:
        """Return the delay of an input's own watermark in a batch."""
        return super().delay_us(index, batch) if batch >= self.first_live else self.native_delay_us(index)

    def _collect(self, df: DataFrame, batch_id: int) -> None:
        out = self.folder / "out"
        out.mkdir(exist_ok=True)
        crash, self._crash = self._crash, False
        super()._collect(df, batch_id)
        hidden = out / f".{batch_id}"
        hidden.write_bytes(pickle.dumps(self.output[batch_id]))
        hidden.replace(out / str(batch_id))
        log = self.log()
        by_live = {move.watermark_ms for move in self.moves()} & {
            logged.watermark_ms for logged in log[batch_id - 1 : batch_id + 1]
        }
        if self.dies and crash and by_live and log[batch_id - 1].files != log[batch_id].files:
            # What is not reported nobody knows; this test is of what is.
            until(lambda: all(self._reported(name, batch_id - 1) for name in self.recorded), "the reports")
            os.killpg(os.getpgrp(), signal.SIGKILL)
        self._crash = crash

    def _reported(self, name: str, batch_id: int) -> bool:
        return batch_id < self.first_live or any(r.batch_id == batch_id for r in self.recorded[name].reports)

    def on_disk(self) -> KilledJob:
        """Return the job with all that its drivers have put out and reported."""
        output = {
            int(path.name): pickle.loads(path.read_bytes()) for path in (self.folder / "out").glob("[0-9]*")
        }
        recorded = {
            entry.name: RecordingSink(_reports(self.folder / f"{entry.name}.reports"))
            for entry in self.inputs
        }
        return replace(self, output=output, recorded=recorded)


def _reports(path: Path) -> list[Any]:
    found, before = [], path.stat().st_size
    with path.open("rb") as file:
        while file.tell() < before:
            found.append(pickle.load(file))
    return found


def _job(spark: SparkSession, folder: Path, stream: Stream, *, native: bool = False) -> KilledJob:
    sinks = {entry.name: _File(folder / f"{entry.name}.reports") for entry in stream.inputs}
    return KilledJob(
        spark, folder, stream.inputs, stream.kind.plan, native=native, recorded=dict(sinks), first_live=0
    )


def plain_then_live(spark: SparkSession, folder: Path, stream: Stream) -> KilledJob:
    """Let a plain query write the checkpoint; return the job that is to go on from it in Live."""
    plain = _job(spark, folder, stream, native=True)
    plain.run([stream.next_files(folder, PLAIN_FILES)])
    return replace(plain, native=False, first_live=len(plain.log()), output={})


def go_on_and_be_killed(folder: Path, name: str, kills: int, kill: int, first_live: int) -> None:
    """Let a driver go on, until it kills itself in a batch that judges or closes by a watermark of Live's."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "support.killed_live",
            str(folder),
            name,
            str(kills),
            str(kill),
            str(first_live),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        start_new_session=True,
        capture_output=True,
        timeout=4 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == _DEAD, done.stderr.decode()[-3_000:]


def _main(folder: Path, name: str, kills: int, kill: int, first_live: int) -> None:
    spark = driver_of_its_own().getOrCreate()
    stream = stream_of_kind(name, kills)
    job = replace(_job(spark, folder, stream), first_live=first_live, dies=True)
    first, later = random.Random(f"{name} {kill}").randrange(2, 4), FILES
    job.run((stream.next_files(folder, count) for count in (first, later)), crash_from=0)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
