"""Live queries on real Spark: streams whose partitions are far apart, and what a checkpoint says of each batch.

Files are published in groups, each by one rename of its folder, and every group is worked off before the next one
comes. So which batches there are does not depend on the clock: not which file is in which, nor which have no data.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pyspark.errors.exceptions.base import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidemark.models.base.duration import parse_duration
from tidemark.models.base.granules import SPARK_TICK_US, default_granule_us
from tidemark.models.base.operators import Operator
from tidemark.models.protocol.messages import Mode
from tidemark.spark_jobs import adaptive_watermark, flush
from tidemark.spark_jobs.late.side import Side
from tidemark.spark_jobs.live import live_plan
from tidemark.spark_jobs.live.steering import Steering

from support.patience import PATIENCE_S, until
from support.spark_streams import EPOCH_US, SCHEMA, RecordingSink, Row, started, write_batch

END_US = EPOCH_US + 48 * 3_600_000_000
"""A row this late in event time, in every partition, closes everything before it."""

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """One batch as the offset log of a checkpoint has it; inputs in the order of the plan."""

    watermark_ms: int
    """W(n)."""
    files: tuple[int, ...]
    """Files read by the end of this batch, of each input."""


def offset_log(checkpoint: Path) -> list[LoggedBatch]:
    """Return the batches that were planned, from 0 on, without a gap."""
    result: list[LoggedBatch] = []
    while (entry := checkpoint / "offsets" / str(len(result))).exists():
        _, metadata, *lines = entry.read_text().splitlines()
        offsets = [json.loads(line) if line != "-" else {} for line in lines]
        files = tuple(offset.get("logOffset", -1) + 1 for offset in offsets)
        result.append(LoggedBatch(json.loads(metadata)["batchWatermarkMs"], files))
    return result


# -- what Live requires ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Move:
    """A watermark that Live required."""

    watermark_ms: int
    known: int
    """The last batch that was known for sure when it was decided."""
    may_know: int
    """The last batch that may have been."""


class RecordedSteering(Steering):
    """Records what is required of a run."""

    runs: ClassVar[dict[str, RecordedSteering]] = {}
    """By run, for the whole process."""

    def __init__(self, run_id: str, *given: Any) -> None:
        self.moves: list[Move] = []
        self.rests = 0
        """How often nothing was to be decided, because the query found nothing."""
        self.runs[run_id] = self
        super().__init__(run_id, *given)

    def _decide(self) -> None:
        asked_ms = self._asked_ms
        self._catch_up(self._run_id)
        known = self._last_batch()
        super()._decide()
        if self._asked_ms not in {None, asked_ms}:
            self.moves.append(Move(int(self._asked_ms or 0), known, self._last_batch()))

    def _move(self) -> None:
        super()._move()
        self.rests += not self._busy and self._query.finds_nothing()

    def wait_for_rests(self, more: int, query: StreamingQuery) -> None:
        """Wait until the query was found at rest several times more, or has ended."""
        rests = self.rests + more
        until(lambda: self.rests >= rests or not query.isActive, "Live to have nothing to require")

    def _last_batch(self) -> int:
        listener: Any = self._catch_up.__self__  # type: ignore[attr-defined]
        return int(listener._runs[self._run_id].last_batch)


setattr(live_plan, "Steering", RecordedSteering)  # noqa: B010 - the module does not export it


def work_off_all(query: StreamingQuery) -> None:
    """Wait until a query has read all that is there, and Live has nothing more to require of it."""
    steering = RecordedSteering.runs.get(str(query.runId))

    def worked_off() -> int:
        query.processAllAvailable()
        progress = query.lastProgress
        return -1 if progress is None else int(progress["batchId"])  # of Spark 3.5 it is a dict

    batch = worked_off()
    while steering is not None:
        steering.wait_for_rests(2, query)
        if (last := batch) == (batch := worked_off()):
            return
        assert batch > last


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One input of a query."""

    name: str
    operator: Operator
    bound: str
    ceiling: str | None
    granule: str | None = None
    mode: Mode | None = None
    """Its own mode; the job's unless given."""
    declared: bool = True
    """Whether the call names the operator, which is read from the plan otherwise."""

    @property
    def granule_us(self) -> int:
        """Width of the grid on which its rows are counted, in microseconds."""
        if self.granule is not None:
            return parse_duration(self.granule)
        return default_granule_us(self.operator, SPARK_TICK_US if self.declared else SECOND_US)


Batches = list[list[Row]]
Group = Sequence[Batches]
"""For each input the batches that are published at once."""


def trailing_batches(
    seed: object,
    batches: int,
    *,
    partitions: int = 3,
    trail_us: int = 45 * SECOND_US,
    stray_us: int = 60 * SECOND_US,
    first_id: int = 0,
) -> Batches:
    """Return a stream whose last partition trails the others by ``trail_us``, and some of whose rows are far too late.

    Delays are exponential, times tie on window edges, batches are of all sizes, and event time has gaps.
    """
    rng = random.Random(str(seed))
    now_us, identity, result = EPOCH_US + 3_600 * SECOND_US, first_id, []
    for _ in range(batches):
        now_us += rng.choice([500_000, 3 * SECOND_US, 3 * SECOND_US, 7 * SECOND_US, 20 * SECOND_US])
        rows = []
        for _ in range(rng.choice([1, 2, 10, 30, 60])):
            partition = rng.randrange(partitions)
            delay_us = int(rng.expovariate(1 / (3 * SECOND_US)))
            if partition == partitions - 1:
                delay_us += trail_us
            if rng.random() < 0.06:
                delay_us += stray_us
            event_us = now_us - rng.randrange(3 * SECOND_US) - delay_us
            grain = rng.choice([1, 1, 1_000, SECOND_US, 5 * SECOND_US])
            rows.append(Row(identity, partition, event_us // grain * grain + rng.choice([0, 0, 1])))
            identity += 1
        result.append(rows)
    return result


def closing_batch(first_id: int = 10**9, partitions: int = 3) -> list[Row]:
    """Return a row at ``END_US`` of each partition: the watermark follows the slowest of them."""
    return [Row(first_id + partition, partition, END_US) for partition in range(partitions)]


def groups_of(rng: random.Random, streams: Sequence[Batches]) -> list[Group]:
    """Cut streams of equal length into groups that run back to back, with an idle moment after each."""
    groups: list[Group] = []
    start, end = 0, len(streams[0])
    while start < end:
        size = rng.choice([1, 1, 2, 3])
        groups.append([stream[start : start + size] for stream in streams])
        start += size
    return groups


class _Crash(RuntimeError):
    """The sink fails before it has taken a batch."""


@dataclass
class LiveJob:
    """A query over folders of batches, run in turns from one checkpoint.

    ``plan`` returns two columns: ``key_us``, the time at which the operator closes what is in the row (null where it
    emits at once), and ``ids``, the rows in it.
    """

    spark: SparkSession
    folder: Path
    inputs: Sequence[Input]
    plan: Callable[[Sequence[DataFrame]], DataFrame]
    output_mode: str = "append"
    mode: Mode = "Live"
    native: bool = False
    """Whether the inputs have Spark's own ``withWatermark`` instead."""
    stage: Path | None = None
    """Folder with the inputs; ``folder`` unless given. Several jobs may read the same."""
    recorded: dict[str, RecordingSink] = field(default_factory=dict)
    output: dict[int, list[tuple[int | None, tuple[int | None, ...]]]] = field(default_factory=dict)
    controllers: Mapping[str, str] = field(default_factory=dict)
    """Address of the controller of each input that has one, by the input's name."""
    sends: bool = False
    """Whether reports go to the controllers instead of being recorded."""
    late: Side | None = None
    """Where the late rows of the only input are kept."""
    run_ids: list[str] = field(default_factory=list)
    """The runs that Live steers."""
    runs: int = 0
    replayed: list[int] = field(default_factory=list)
    """Batches in whose middle the query died and which were run again."""
    idle_after: list[int] = field(default_factory=list)
    """Batches after which there was nothing left to do until more files came."""
    _crash: bool = False

    @property
    def checkpoint(self) -> Path:
        """Where the query keeps its state."""
        return self.folder / "checkpoint"

    def log(self) -> list[LoggedBatch]:
        """Return the batches so far."""
        return offset_log(self.checkpoint)

    def delay_us(self, index: int, batch: int) -> int:  # noqa: ARG002 - here it is the same in every batch
        """Return the delay of an input's own watermark in a batch, in microseconds."""
        entry = self.inputs[index]
        live = (entry.mode or self.mode) == "Live" and not self.native
        return parse_duration(entry.ceiling) if live and entry.ceiling else self.native_delay_us(index)

    def native_delay_us(self, index: int) -> int:
        """Return the bound of an input, in microseconds."""
        return parse_duration(self.inputs[index].bound)

    def moves(self) -> list[Move]:
        """Return what Live has required, in all runs."""
        return [move for run_id in self.run_ids for move in RecordedSteering.runs[run_id].moves]

    def frame(self) -> DataFrame:
        """Build the plan."""
        return self.plan([self._input(entry) for entry in self.inputs])

    def start(self, frame: DataFrame | None = None) -> StreamingQuery:
        """Start the query, from the checkpoint if there is one; its plan is built now unless it is given."""
        self.runs += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        writer = (
            self.into_sink((self.frame() if frame is None else frame).writeStream)
            .outputMode(self.output_mode)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(processingTime="0 seconds")
        )
        query = started(writer.start)
        if str(query.runId) in RecordedSteering.runs:
            self.run_ids.append(str(query.runId))
        return query

    def run(self, groups: Iterable[Group], *, crash_from: int | None = None) -> None:
        """Run the query once over ``groups``; after each group it idles.

        Args:
            groups: what is published, one after the other.
            crash_from: number of a group: from it on, the sink fails in the first batch that has rows and judges them
                or closes by a new watermark. The query is started again, and Spark runs that batch once more. None: it
                never fails.
        """
        self._crash = crash_from == 0
        coming = iter(groups)
        self.publish(next(coming))
        query = self.start()
        try:
            for number, group in enumerate(itertools.chain([None], coming)):
                self._crash = self._crash or number == crash_from != 0
                if group is not None:
                    self.publish(group)
                try:
                    work_off_all(query)
                except StreamingQueryException:
                    if not self.replayed or self._crash:
                        raise
                    query = self.start()
                    work_off_all(query)
                self.idle_after.append(len(self.log()) - 1)
        finally:
            query.stop()
        assert not self._crash, "no batch had both rows and a new watermark, so the query did not die"
        assert flush(PATIENCE_S), "the listener did not report all batches"

    def publish(self, group: Group) -> None:
        """Let the query see the batches of a group, all at once."""
        publish(self.stage or self.folder, [entry.name for entry in self.inputs], group)

    def into_sink(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Let a writer write into the sink."""
        return writer.foreachBatch(self._collect)

    def _input(self, entry: Input) -> DataFrame:
        folder = (self.stage or self.folder) / entry.name
        folder.mkdir(parents=True, exist_ok=True)
        source = (
            self.spark.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .option("recursiveFileLookup", True)
            .json(str(folder))
        )
        if self.native:
            return source.withWatermark("ts", entry.bound)
        return source.transform(
            adaptive_watermark(
                "ts",
                entry.bound,
                entry.operator if entry.declared else None,
                stream=entry.name,
                granule=entry.granule,
                ceiling=entry.ceiling,
                mode=entry.mode or self.mode,
                controller_url=self.controllers.get(entry.name),
                sink=None if self.sends else self.recorded.setdefault(entry.name, RecordingSink()),
                late=self.late,
            )
        )

    def _collect(self, df: DataFrame, batch_id: int) -> None:
        if self._crash and batch_id:
            first, before, now = self.log()[max(batch_id - 2, 0)], *self.log()[batch_id - 1 : batch_id + 1]
            if first.watermark_ms < now.watermark_ms and before.files != now.files:
                self._crash = False
                self.replayed.append(batch_id)
                raise _Crash(f"batch {batch_id}")
        self.output[batch_id] = [(row["key_us"], tuple(row["ids"])) for row in df.collect()]


def publish(stage: Path, names: Sequence[str], group: Group) -> None:
    """Move a group of batches into the folders ``names`` under ``stage``, each folder's by one rename."""
    for name, batches in zip(names, group, strict=True):
        folder = stage / name
        folder.mkdir(parents=True, exist_ok=True)
        number = sum(1 for _ in folder.glob("*/*.json"))
        hidden = stage / f"next-{name}"
        for offset, rows in enumerate(batches):
            write_batch(hidden, number + offset, rows)
        if batches:
            hidden.rename(folder / f"{number:05d}")


def run_side_by_side(jobs: Sequence[LiveJob], groups: Iterable[Group]) -> None:
    """Run jobs that read the same folders at the same time; each works off a group before the next one comes."""
    work_off(jobs[0], lambda: [job.start() for job in jobs], groups)


def work_off(
    publisher: LiveJob, start: Callable[[], Sequence[StreamingQuery]], groups: Iterable[Group]
) -> None:
    """Let queries work off groups, each before the next one comes; then stop them."""
    coming = iter(groups)
    publisher.publish(next(coming))
    queries = start()
    try:
        for group in itertools.chain([None], coming):
            if group is not None:
                publisher.publish(group)
            for query in queries:
                work_off_all(query)
    finally:
        for query in queries:
            query.stop()
    assert flush(PATIENCE_S), "the listener did not report all batches"
