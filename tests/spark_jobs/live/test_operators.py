"""Live on every stateful operator: the watermark is the one that was asked for, and the ledger is what the sink got.

What was asked for is read from the checkpoint: W(n+1) = max(W(n), m(n) - ceiling, the control that batch n read), with
m(n) the greatest event time of batch n. What became of a row follows from the same watermarks, by Spark's late rule.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F

from tidemark.models.duration import parse_duration
from tidemark.models.granules import default_granule_us, granule_index, granule_last_us
from tidemark.models.ledger import Ledger, Tally, judge
from tidemark.models.operators import (
    Operator,
    SessionWindow,
    TimeWindow,
    row_level,
    session,
    sliding,
    tumbling,
)
from tidemark.models.wire import Mode

from support.live_streams import (
    END_US,
    SECOND_US,
    Batches,
    Group,
    Input,
    LiveJob,
    LoggedBatch,
    closing_batch,
    groups_of,
    run_side_by_side,
    trailing_batches,
)
from support.spark_streams import EPOCH_US, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BOUND = "3 seconds"
BEYOND = "10 minutes"
"""A ceiling that no row comes near to, so that the watermark falls on the edges of granules only."""

FILES = 10
COPY = 1_000_000
"""Ids of one event are congruent modulo this."""

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# -- what was compared ----------------------------------------------------------------------------------------


@dataclass
class Compared:
    """How much was compared; a comparison of nothing proves nothing."""

    batches: int = 0
    no_data: int = 0
    """Batches without rows and without a new control."""
    control_only: int = 0
    """Batches without rows, with a new control."""
    control_moves: int = 0
    """Watermarks that the control set."""
    ceiling_moves: int = 0
    """Watermarks that the ceiling set."""
    restarts: int = 0
    replays: int = 0
    """Restarts in the middle of a batch that had rows and a new control."""
    pairs: int = 0
    """(Row, key) pairs that arrived."""
    late: int = 0
    late_partitions: int = 0
    saved: int = 0
    """Pairs that were admitted and that Spark's own watermark with the same bound would have dropped."""
    emitted: int = 0
    copies: int = 0
    """Rows that deduplication left out."""
    lost_by_left: int = 0
    """Pairs of a join that are missing only because the left row was late."""
    lost_by_right: int = 0
    alone: int = 0
    """Left rows of a left outer join that came out without a partner."""

    def missing(self, *names: str) -> list[str]:
        """Return the kinds of which nothing was compared, ``names`` left out."""
        return [item.name for item in fields(self) if not getattr(self, item.name) and item.name not in names]


OF_DISTINCT, OF_JOINS = ("copies",), ("lost_by_left", "lost_by_right", "alone")


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[dict[str, Compared]]:
    """Return what each test compared, to be printed in the end."""
    rows: dict[str, Compared] = {}
    yield rows
    names = [item.name for item in fields(Compared)]
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n{'live':<30}", *(f"{name.replace('_', ' '):>{len(name)}}" for name in names))
        for kind, compared in rows.items():
            print(f"{kind:<30}", *(f"{getattr(compared, name):>{len(name)}}" for name in names))


# -- what the checkpoint says of every row --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one (row, key) pair."""

    row: Row
    key_us: int
    cell: tuple[str, int]
    """Partition and key under which the ledger counts it."""
    batch: int
    late: bool


def fates_of(job: LiveJob, index: int, batches: Batches) -> list[Fate]:
    """Return the fates of the rows of one input: a pair of batch n is late iff its key is at or below W(n-1)."""
    operator, granule_us = job.inputs[index].operator, _granule_us(job.inputs[index])
    log, result = job.log(), []
    for number, rows in enumerate(rows_by_batch(log, index, batches)):
        times = np.array([row.event_time_us for row in rows], np.int64)
        granules = granule_index(times, granule_us, operator.closed)
        which, keys = operator.keys(times)
        _, cells = operator.keys(granule_last_us(granules, granule_us, operator.closed))
        before_us = _before_ms(log, number) * 1_000
        for entry, key, cell in zip(which.tolist(), keys.tolist(), cells.tolist(), strict=True):
            late = job.output_mode != "complete" and key <= before_us
            result.append(Fate(rows[entry], key, (str(rows[entry].partition), cell), number, late))
    return result


def rows_by_batch(log: Sequence[LoggedBatch], index: int, batches: Batches) -> list[list[Row]]:
    """Return the rows of one input by batch of the query."""
    result, start = [], 0
    for logged in log:
        result.append([row for rows in batches[start : logged.files[index]] for row in rows])
        start = logged.files[index]
    return result


def _before_ms(log: Sequence[LoggedBatch], number: int) -> int:
    return log[number - 1].watermark_ms if number else 0


def _asked_ms(logged: LoggedBatch) -> int:
    """Return what the control streams said by then, the greatest of them; 0 before the first word."""
    return max((control for control in logged.controls if control is not None), default=0)


def _granule_us(entry: Input) -> int:
    return default_granule_us(entry.operator) if entry.granule is None else parse_duration(entry.granule)


# -- the watermark --------------------------------------------------------------------------------------------


def compare_watermarks(job: LiveJob, streams: Sequence[Batches], compared: Compared) -> list[str]:
    """Compare the watermark of every batch with what was asked for; return what is wrong."""
    log = job.log()
    read = [rows_by_batch(log, index, batches) for index, batches in enumerate(streams)]
    ceilings_ms = [parse_duration(entry.ceiling or entry.bound) // 1_000 for entry in job.inputs]
    wrong = [f"W(0) is {log[0].watermark_ms}"] if log[0].watermark_ms else []
    for number, (now, after) in enumerate(itertools.pairwise(log)):
        asked = _asked_ms(now)
        floors = [
            max(row.event_time_us for row in rows[number]) // 1_000 - ceiling_ms
            for rows, ceiling_ms in zip(read, ceilings_ms, strict=True)
            if rows[number]
        ]
        expected = max(now.watermark_ms, asked, *floors)
        if after.watermark_ms != expected:
            wrong.append(f"W({number + 1}) is {after.watermark_ms}, not {expected}")
        compared.control_moves += asked == expected > now.watermark_ms
        compared.ceiling_moves += expected > max(now.watermark_ms, asked)
        compared.no_data += now.files == after.files and now.controls == after.controls
        compared.control_only += now.files == after.files and now.controls != after.controls
    compared.batches += len(log)
    compared.restarts += job.runs - 1
    compared.replays += len(job.replayed)
    return wrong


@dataclass
class _Newest:
    """The newest event time of each partition of one input."""

    bound_us: int
    bases_us: dict[str, int] = field(default_factory=dict)

    def add(self, rows: Sequence[Row]) -> None:
        """Take the rows of a batch."""
        for row in rows:
            name = str(row.partition)
            self.bases_us[name] = max(self.bases_us.get(name, row.event_time_us), row.event_time_us)

    @property
    def wants_us(self) -> int:
        """The least of them less the bound."""
        return min(self.bases_us.values()) - self.bound_us


def compare_controls(job: LiveJob, streams: Sequence[Batches]) -> list[str]:
    """Compare each control with the least, over the partitions, of newest time less bound; return what is wrong.

    It may not be above that, nor further below than the granules in which the driver knows times. At rest nothing that
    has arrived and lies below it may be open. After a restart the driver knows what the checkpoint's control says.
    """
    log, wrong = job.log(), []
    runs = {report.batch_id: report.run_id for report in job.recorded[job.inputs[0].name].reports}
    slack_us = 2 * max(_granule_us(entry) for entry in job.inputs)
    read = [rows_by_batch(log, index, batches) for index, batches in enumerate(streams)]
    fates = [fate for index, batches in enumerate(streams) for fate in fates_of(job, index, batches)]
    true = [_Newest(parse_duration(entry.bound)) for entry in job.inputs]
    known = [_Newest(parse_duration(entry.bound)) for entry in job.inputs]
    for number, now in enumerate(log):
        if number and runs.get(number) != runs.get(number - 1):
            restored = now if number in job.replayed else log[number - 1]
            for newest, partitions in zip(known, restored.partitions, strict=True):
                newest.bases_us = dict(partitions)
        asked_us = _asked_ms(now) * 1_000
        if number and asked_us != _asked_ms(log[number - 1]) * 1_000 and number not in job.replayed:
            least_us = min(newest.wants_us for newest in known) - slack_us
            most_us = min(newest.wants_us for newest in true)
            if not least_us < asked_us <= most_us:
                wrong.append(f"batch {number}: control {asked_us} is not in ({least_us}, {most_us}]")
        for index, rows in enumerate(read):
            true[index].add(rows[number])
            known[index].add(rows[number])
        if number in job.idle_after:
            due_us = min(newest.wants_us for newest in known) - slack_us
            # In complete mode nothing closes, and so no batch follows to bring the last control into force.
            reached_us = max(now.watermark_ms * 1_000, asked_us)
            wrong += [
                f"at rest after batch {number}: {fate} is open, though due"
                for fate in fates
                if fate.batch <= number and reached_us < fate.key_us <= due_us
            ]
    return wrong


# -- the ledger -----------------------------------------------------------------------------------------------


def compare_ledger(job: LiveJob, index: int, batches: Batches, compared: Compared) -> list[str]:
    """Compare the ledger's word on every batch, partition and key with the rows; return what is wrong."""
    log, fates = job.log(), fates_of(job, index, batches)
    reports = job.recorded[job.inputs[index].name].reports
    true: list[dict[tuple[str, int], Tally]] = [{} for _ in log]
    for fate in fates:
        cells = true[fate.batch]
        cells[fate.cell] = cells.get(fate.cell, Tally()) + Tally(1, fate.late, fate.late)
    ledger, wrong = Ledger(), []
    for report in reports:
        number, told = report.batch_id, judge(report).tallies
        if not ledger.add(report):
            wrong.append(f"batch {number} was told twice")
        if (report.late_watermark_ms, report.watermark_ms) != (
            _before_ms(log, number),
            log[number].watermark_ms,
        ):
            wrong.append(f"batch {number}: other watermarks were told than were logged")
        wrong += [
            f"batch {number}, {cell}: told {told.get(cell)}, not {true[number].get(cell)}"
            for cell in told.keys() | true[number].keys()
            if told.get(cell) != true[number].get(cell)
        ]
    if sorted(report.batch_id for report in reports) != list(range(len(log))):
        wrong.append(f"batches {[report.batch_id for report in reports]} were told of {len(log)}")
    completeness = ledger.completeness()
    if not completeness.exact or completeness.late_least != completeness.late_most:
        wrong.append(f"not exact: {completeness}")
    compared.pairs += len(fates)
    compared.late += completeness.late_least
    compared.late_partitions += len({fate.cell[0] for fate in fates if fate.late})
    return wrong


# -- the operators --------------------------------------------------------------------------------------------

Plan = Callable[[Sequence[DataFrame]], DataFrame]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One operator in one output mode."""

    operator: Operator
    plan: Plan
    output_mode: str = "append"
    ceiling: str = "65 seconds"
    """Near enough to take over now and then while the slow partition holds the control back."""
    closes_us: Callable[[Row], int] | None = None
    """The time at which the operator closes a row, where that is not the ledger's key."""
    at_once: bool = False
    """Whether a row comes out in its own batch, and not when something closes."""
    distinct: bool = False
    """Whether of the rows of one event only the first comes out."""
    conf: tuple[tuple[str, str], ...] = ()
    seed: int = 0


def _collected(windows: GroupedData) -> DataFrame:
    return windows.agg(F.collect_list("id").alias("ids")).select(
        F.unix_micros("window.end").alias("key_us"), "ids"
    )


def _windows(size: str, slide: str | None = None) -> Plan:
    return lambda inputs: _collected(inputs[0].groupBy(F.window("ts", size, slide)))


def _sessions(inputs: Sequence[DataFrame]) -> DataFrame:
    return _collected(inputs[0].groupBy(F.session_window("ts", "3 seconds").alias("window"), "partition"))


def _distinct(inputs: Sequence[DataFrame]) -> DataFrame:
    return inputs[0].withColumn("event", F.expr(f"id % {COPY}")).dropDuplicatesWithinWatermark(["event"])


def _deduplication(inputs: Sequence[DataFrame]) -> DataFrame:
    return _distinct(inputs).select(F.lit(None).cast("long").alias("key_us"), F.array("id").alias("ids"))


def _windows_of_distinct(inputs: Sequence[DataFrame]) -> DataFrame:
    return _collected(_distinct(inputs).groupBy(F.window("ts", "5 seconds")))


def _windows_of_windows(inputs: Sequence[DataFrame]) -> DataFrame:
    inner = (
        inputs[0].groupBy(F.window("ts", "5 seconds"), "partition").agg(F.collect_list("id").alias("some"))
    )
    outer = inner.groupBy(F.window(F.window_time("window"), "20 seconds"))
    ids = F.flatten(F.collect_list("some")).alias("ids")
    return outer.agg(ids).select(F.unix_micros("window.end").alias("key_us"), "ids")


def _timers(inputs: Sequence[DataFrame]) -> DataFrame:
    """Keep rows until a timer at the next whole 5 seconds."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Keep(StatefulProcessor):
        """It stands here so that it travels to the workers by value."""

        def init(self, handle: Any) -> None:
            self.handle = handle
            self.ids = handle.getListState("ids", "id long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: ARG002, N802, N803
            for frame in rows:
                self.ids.appendList([(int(identity),) for identity in frame["id"]])
            self.handle.registerTimer(int(key[1]))
            return iter(())

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: ARG002, N802, N803
            import pandas as pd

            ids = [identity for (identity,) in self.ids.get()]
            self.ids.clear()
            yield pd.DataFrame({"key_us": [int(key[1]) * 1_000], "ids": [ids]})

        def close(self) -> None:
            pass

    due_ms = F.expr("(unix_millis(ts) div 5000 + 1) * 5000").alias("due_ms")
    keyed = inputs[0].select("id", "partition", "ts", due_ms).groupBy("partition", "due_ms")
    return keyed.transformWithStateInPandas(Keep(), "key_us long, ids array<long>", "append", "EventTime")


def _end_of(seconds: int) -> Callable[[Row], int]:
    size_us = seconds * SECOND_US
    return lambda row: (row.event_time_us // size_us + 1) * size_us


FIVE = tumbling("5 s")
KINDS: dict[str, Kind] = {
    "tumbling, append": Kind(operator=FIVE, plan=_windows("5 seconds")),
    "tumbling, update": Kind(operator=FIVE, plan=_windows("5 seconds"), output_mode="update", at_once=True),
    "tumbling, complete": Kind(
        operator=FIVE, plan=_windows("5 seconds"), output_mode="complete", at_once=True
    ),
    "sliding": Kind(operator=sliding("10 s", "4 s"), plan=_windows("10 seconds", "4 seconds")),
    "session": Kind(operator=session("3 s"), plan=_sessions, ceiling=BEYOND),
    "deduplication": Kind(
        operator=row_level(), plan=_deduplication, ceiling=BEYOND, at_once=True, distinct=True
    ),
    "transformWithState, timers": Kind(
        operator=row_level(),
        plan=_timers,
        ceiling=BEYOND,
        closes_us=_end_of(5),
        conf=(("spark.sql.streaming.stateStore.providerClass", ROCKS),),
    ),
    "windows of windows": Kind(operator=FIVE, plan=_windows_of_windows, closes_us=_end_of(20), seed=1),
    "deduplication, then windows": Kind(
        operator=row_level(), plan=_windows_of_distinct, ceiling=BEYOND, closes_us=_end_of(5), distinct=True
    ),
}

Pair = tuple[int, int | None]
"""The id of a row and the time that the sink has beside it."""


def compare_sink(job: LiveJob, kind: Kind, fates: Sequence[Fate], compared: Compared) -> list[str]:
    """Compare what came out with the pairs that the ledger calls admitted; return what is wrong.

    Each comes out exactly once, unless it was late, or is a copy, or still open in the end: in the first batch whose
    watermark has reached the time at which the operator closes it, or, of operators that do not wait, in its own.
    """
    log = job.log()
    copies = _copies(kind, fates, log) if kind.distinct else set()
    expected: dict[Pair, Fate] = {}
    for fate in fates:
        closes_us = kind.closes_us(fate.row) if kind.closes_us else fate.key_us
        still_open = not kind.at_once and closes_us > log[-1].watermark_ms * 1_000
        if not (fate.late or still_open or fate.row.id in copies):
            expected[fate.row.id, closes_us if _has_key(kind) else None] = fate
    first, counts = _emitted(job, kind)
    wrong = [f"{pair} did not come" for pair in expected.keys() - counts.keys()]
    wrong += [f"{pair} came" for pair in counts.keys() - expected.keys()]
    wrong += [
        f"{pair} came {counts[pair]} times" for pair in counts.keys() & expected.keys() if counts[pair] > 1
    ]
    if kind.at_once:
        wrong += [
            f"{pair} came in batch {first[pair]}, not {fate.batch}"
            for pair, fate in expected.items()
            if pair in first and first[pair] != fate.batch
        ]
    else:
        wrong += _untimely(job, kind, fates)
    compared.emitted += len(counts)
    compared.copies += len(copies)
    compared.saved += _saved(job, fates)
    return wrong


def _has_key(kind: Kind) -> bool:
    """Return whether each row's own time of closing stands in the sink; a session's is that of its last row."""
    return kind.closes_us is not None or isinstance(kind.operator, TimeWindow)


def _emitted(job: LiveJob, kind: Kind) -> tuple[dict[Pair, int], Counter[Pair]]:
    """Return the batch in which each pair came first, and how often it came by the last word on its key."""
    first: dict[Pair, int] = {}
    last: dict[object, list[Pair]] = {}
    for number, entries in sorted(job.output.items()):
        for place, (key_us, ids) in enumerate(entries):
            pairs = [
                (identity, key_us if _has_key(kind) else None) for identity in ids if identity is not None
            ]
            for pair in pairs:
                first.setdefault(pair, number)
            last[(number, place) if job.output_mode == "append" else key_us] = pairs
    return first, Counter(pair for pairs in last.values() for pair in pairs)


def _untimely(job: LiveJob, kind: Kind, fates: Sequence[Fate]) -> list[str]:
    """Return what did not come out in the first batch whose watermark had reached its key."""
    log, wrong = job.log(), []
    times = {fate.row.id: fate.row.event_time_us for fate in fates}
    for number, entries in sorted(job.output.items()):
        before_us, now_us = _before_ms(log, number) * 1_000, log[number].watermark_ms * 1_000
        for key_us, ids in entries:
            if key_us is None or not before_us < key_us <= now_us:
                wrong.append(f"batch {number}: {key_us} is not in ({before_us}, {now_us}]")
            if isinstance(kind.operator, SessionWindow):
                end_us = max(times[identity] for identity in ids if identity is not None)
                if key_us != end_us + kind.operator.gap_us:
                    wrong.append(f"batch {number}: a session ends at {key_us}, its last row is at {end_us}")
    return wrong


def _copies(kind: Kind, fates: Sequence[Fate], log: Sequence[LoggedBatch]) -> set[int]:
    """Return the ids of the rows that deduplication leaves out.

    An event is known from its first admitted row on, until the watermark of an earlier batch has reached that row's
    time plus the ceiling.
    """
    horizon_us = parse_duration(kind.ceiling)
    known_until_us: dict[int, int] = {}
    result = set()
    for fate in fates:
        event = fate.row.id % COPY
        if fate.late:
            continue
        if known_until_us.get(event, 0) > _before_ms(log, fate.batch) * 1_000:
            result.add(fate.row.id)
        else:
            known_until_us[event] = fate.row.event_time_us + horizon_us
    return result


def _saved(job: LiveJob, fates: Sequence[Fate]) -> int:
    """Return how many admitted pairs would have been late under Spark's own watermark with the same bound."""
    newest_us: dict[int, int] = {}
    for fate in fates:
        newest_us[fate.batch] = max(newest_us.get(fate.batch, 0), fate.row.event_time_us)
    bound_us = parse_duration(job.inputs[0].bound)
    return sum(
        fate.key_us <= max((newest_us.get(n, 0) for n in range(fate.batch - 1)), default=0) - bound_us
        for fate in fates
        if not fate.late
    )


def _stream_of(kind: Kind, seed: str) -> tuple[Batches, Batches]:
    """Return the stream, and what closes it."""
    batches, closing = trailing_batches(seed, FILES), [closing_batch()]
    if not kind.distinct:
        return batches, closing
    # Once its horizon is behind the watermark an event is new again.
    again = [Row(batches[number][0].id + 99 * COPY, number, END_US) for number in range(2)]
    return _with_copies(random.Random(f"{seed}, copies"), batches), [*closing, [], again]


def _with_copies(rng: random.Random, batches: Batches) -> Batches:
    """Return the stream with some events coming again, in a later batch and dated up to 25 seconds later."""
    result: Batches = []
    for number, rows in enumerate(batches):
        earlier = [row for before in batches[:number] for row in before]
        copies = [
            Row(row.id + number * COPY, row.partition, row.event_time_us + rng.randrange(25 * SECOND_US))
            for row in rng.sample(earlier, min(len(earlier), 4))
        ]
        result.append([*rows, *copies])
    return result


def _runs(seed: str, streams: Sequence[Batches]) -> tuple[list[Group], list[Group]]:
    """Return the groups of two runs; those of the second have batches back to back, for it to die in one of them."""
    half = FILES // 2
    before = groups_of(random.Random(seed), [stream[:half] for stream in streams])
    return before, [[stream[at : at + 3] for stream in streams] for at in range(half, FILES, 3)]


@pytest.mark.parametrize("name", KINDS)
def test_live_moves_the_watermark_as_asked_and_the_ledger_is_what_the_sink_got(
    spark: SparkSession, tmp_path: Path, table: dict[str, Compared], name: str
) -> None:
    """Whatever the operator: over no-data batches, restarts, and batches that are run again."""
    kind = KINDS[name]
    seed = f"{name} {kind.seed}" if kind.seed else name
    batches, closing = _stream_of(kind, seed)
    entry = Input(name="in", operator=kind.operator, bound=BOUND, ceiling=kind.ceiling)
    job = LiveJob(spark, tmp_path, [entry], kind.plan, kind.output_mode)
    before, after = _runs(seed, [batches])
    for key, value in kind.conf:
        spark.conf.set(key, value)
    try:
        job.run(before)
        job.run([*after, [closing]], crash=True)
    finally:
        for key, _ in kind.conf:
            spark.conf.unset(key)
    compared = table[name] = Compared()
    batches = [*batches, *closing]
    wrong = compare_watermarks(job, [batches], compared)
    wrong += compare_controls(job, [batches])
    wrong += compare_ledger(job, 0, batches, compared)
    wrong += compare_sink(job, kind, fates_of(job, 0, batches), compared)

    assert wrong == []
    absent = {*OF_JOINS, *(() if kind.distinct else OF_DISTINCT)}
    if kind.output_mode == "complete":
        absent |= {"no_data", "late", "late_partitions"}  # nothing is ever late, and nothing closes
        assert compared.late == 0
    assert compared.missing(*absent) == []


# -- what stops the control -----------------------------------------------------------------------------------


def test_a_filter_between_the_watermark_and_the_operator_leaves_the_control_in_force(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Filters stand after the watermark as often as before it; an inner join brings its own, that keys are no nulls."""
    entry = Input(name="in", operator=FIVE, bound=BOUND, ceiling=BEYOND)
    job = LiveJob(
        spark, tmp_path, [entry], lambda inputs: _windows("5 seconds")([inputs[0].filter("id >= 0")])
    )
    batches = [_rows(number, (0, second), (1, second)) for number, second in enumerate((100, 110, 120))]
    job.run([[[rows]] for rows in batches])
    compared = Compared()

    assert compare_watermarks(job, [batches], compared) == []
    assert compared.control_moves > 0


# -- what a restart forgets -----------------------------------------------------------------------------------


def _rows(batch: int, *rows: tuple[int, float]) -> list[Row]:
    """Return rows of (partition, seconds)."""
    hour_us = EPOCH_US + 3_600 * SECOND_US
    return [
        Row(100 * batch + number, partition, hour_us + int(seconds * SECOND_US))
        for number, (partition, seconds) in enumerate(rows)
    ]


def test_what_was_open_at_a_restart_closes_as_soon_as_without_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Else the hour before a restart waits for the end of the hour after it."""
    entry = Input(name="in", operator=FIVE, bound=BOUND, ceiling=BEYOND)
    job = LiveJob(spark, tmp_path, [entry], _windows("5 seconds"))
    batches = [_rows(0, (0, 100)), _rows(1, (0, 200))]
    for rows in batches:
        job.run([[[rows]]])

    assert compare_controls(job, [batches]) == []
    assert [ids for entries in job.output.values() for _, ids in entries] == [(0,)]


def test_a_partition_that_holds_the_watermark_back_does_so_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A watermark that went too far is in the checkpoint and cannot be taken back."""
    entry = Input(name="in", operator=FIVE, bound=BOUND, ceiling=BEYOND)
    job = LiveJob(spark, tmp_path, [entry], _windows("5 seconds"))
    seconds: list[list[tuple[int, float]]] = [[(0, 100), (1, 100)], [(0, 120), (1, 120)], [(2, 117.5)]]
    seconds += [[(0, 180), (1, 180)], [(0, 200), (1, 200)], [(2, 118.5)]]
    batches = [_rows(number, *rows) for number, rows in enumerate(seconds)]
    job.run([[[rows]] for rows in batches[:3]])
    job.run([[[rows]] for rows in batches[3:]])

    assert [fate.row for fate in fates_of(job, 0, batches) if fate.late] == []
    assert compare_controls(job, [batches]) == []


def test_the_partitions_of_every_input_are_known_before_the_first_control_after_a_crash(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The batch that is run again may hold the fast partitions only."""
    streams = [
        [_rows(number, (0, second), (1, second)) for number, second in enumerate((100, 110, 120, 130))],
        [
            _rows(10 + number, (0, second), (2, second - 50))
            for number, second in enumerate((100, 110, 120, 130))
        ],
    ]
    streams[0].append(_rows(4, (0, 120.5), (0, 135), (1, 135)))
    streams[1].append(_rows(14, (0, 135)))
    job = LiveJob(spark, tmp_path, JOINED, _join("leftOuter"))
    groups = [[stream[number : number + 1] for stream in streams] for number in range(3)]
    job.run([*groups, [stream[3:] for stream in streams]], crash=True)

    assert compare_controls(job, streams) == []


def test_a_straggler_in_a_batch_that_is_run_again_sets_no_partition_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Else the watermark waits, after a crash, until that partition has rows again."""
    entry = Input(name="in", operator=FIVE, bound=BOUND, ceiling=BEYOND)
    job = LiveJob(spark, tmp_path, [entry], _windows("5 seconds"))
    batches = [
        _rows(0, (0, 100), (1, 100), (2, 60)),
        _rows(1, (0, 110), (1, 110), (2, 70)),
        _rows(2, (0, 120), (1, 120), (2, 80)),
        _rows(3, (1, 90)),
        _rows(4, (0, 130), (2, 110)),
    ]
    job.run([[batches[:1]], [batches[1:2]], [batches[2:4]], [batches[4:]]], crash=True)

    assert compare_controls(job, [batches]) == []


# -- joins ----------------------------------------------------------------------------------------------------

BEFORE_US, AFTER_US = 4 * SECOND_US, 6 * SECOND_US
JOINED = (
    Input(name="left", operator=row_level(), bound="3 seconds", ceiling=BEYOND),
    Input(name="right", operator=row_level(), bound="5 seconds", ceiling=BEYOND),
)


def _join(how: str) -> Plan:
    near = (
        "left_key = right_key and right_ts >= left_ts - interval 4 seconds "
        "and right_ts <= left_ts + interval 6 seconds"
    )

    def plan(inputs: Sequence[DataFrame]) -> DataFrame:
        left, right = (
            frame.selectExpr(f"id as {side}_id", f"id % 4 as {side}_key", f"ts as {side}_ts")
            for frame, side in zip(inputs, ("left", "right"), strict=True)
        )
        ids = F.array("left_id", "right_id").alias("ids")
        return left.join(right, F.expr(near), how).select(F.lit(None).cast("long").alias("key_us"), ids)

    return plan


def _match(left: Row, right: Row) -> bool:
    apart_us = right.event_time_us - left.event_time_us
    return left.id % 4 == right.id % 4 and -BEFORE_US <= apart_us <= AFTER_US


def compare_pairs(
    job: LiveJob, how: str, left: Sequence[Fate], right: Sequence[Fate], compared: Compared
) -> list[str]:
    """Compare the pairs that came out with those of which the ledger calls both rows admitted; return what is wrong.

    Each comes out exactly once, in the batch of the later of its rows. Of a left outer join an admitted left row
    without such a pair comes out once as well, alone, in the first batch whose watermark has left no room for one.
    """
    due: dict[tuple[int | None, ...], list[int]] = {}
    for one in left:
        partners = [other for other in right if _match(one.row, other.row)]
        admitted = [other for other in partners if not other.late]
        if one.late:
            compared.lost_by_left += len(admitted)
            continue
        compared.lost_by_right += len(partners) - len(admitted)
        due |= {(one.row.id, other.row.id): [max(one.batch, other.batch)] for other in admitted}
        if how == "leftOuter" and not admitted:
            closes_in = _closes_in(job, one)
            due |= {} if closes_in is None else {(one.row.id, None): [closes_in]}
    actual: dict[tuple[int | None, ...], list[int]] = {}
    for number, entries in job.output.items():
        for _, ids in entries:
            actual.setdefault(ids, []).append(number)
    compared.emitted += len(actual)
    compared.alone += sum(None in ids for ids in actual)
    return [
        f"{ids} came in batches {actual.get(ids)}, not {due.get(ids)}"
        for ids in due.keys() | actual.keys()
        if actual.get(ids) != due.get(ids)
    ]


def _closes_in(job: LiveJob, one: Fate) -> int | None:
    """Return the batch in which a left row is given up, None when that has not come yet."""
    end_us = one.row.event_time_us + AFTER_US
    closed = (
        number
        for number, logged in enumerate(job.log())
        if number >= one.batch and logged.watermark_ms * 1_000 >= end_us
    )
    return next(closed, None)


@pytest.mark.parametrize("how", ["inner", "leftOuter"])
def test_a_live_join_emits_a_pair_iff_the_ledgers_of_its_inputs_admit_both_rows(
    spark: SparkSession, tmp_path: Path, table: dict[str, Compared], how: str
) -> None:
    """Each input has partitions, a slow one and a bound of its own; one watermark serves both."""
    streams = [
        trailing_batches(f"{how}, left", FILES, trail_us=20 * SECOND_US, stray_us=75 * SECOND_US),
        trailing_batches(f"{how}, right", FILES, partitions=4, first_id=COPY),
    ]
    job = LiveJob(spark, tmp_path, JOINED, _join(how))
    before, after = _runs(how, streams)
    closing = [closing_batch(), closing_batch(10**9 + 10, 4)]
    job.run(before)
    job.run([*after, [[rows] for rows in closing]], crash=True)
    compared = table[f"join, {how}"] = Compared()
    streams = [[*batches, rows] for batches, rows in zip(streams, closing, strict=True)]
    wrong = compare_watermarks(job, streams, compared)
    wrong += compare_controls(job, streams)
    for index, batches in enumerate(streams):
        wrong += compare_ledger(job, index, batches, compared)
    left, right = (fates_of(job, index, batches) for index, batches in enumerate(streams))
    wrong += compare_pairs(job, how, left, right, compared)
    compared.saved = _saved(job, left)

    assert wrong == []
    assert compared.missing(*OF_DISTINCT, *(() if how == "leftOuter" else ("alone",))) == []


# -- pins -----------------------------------------------------------------------------------------------------


def _run_pinned(spark: SparkSession, folder: Path, pin: str, ceiling: str) -> tuple[LiveJob, Batches]:
    batches = trailing_batches(f"pin {pin}", FILES)
    entry = Input(name="in", operator=tumbling("20 s"), bound=BOUND, ceiling=ceiling)
    job = LiveJob(spark, folder, [entry], _windows("20 seconds"))
    spark.conf.set("spark.tidemark.pin", pin)
    try:
        job.run([*groups_of(random.Random(pin), [batches]), [[closing_batch()]]])
    finally:
        spark.conf.unset("spark.tidemark.pin")
    return job, [*batches, closing_batch()]


def test_pin_off_gives_spark_s_own_watermark_one_batch_later_wherever_that_closes_something(
    spark: SparkSession, tmp_path: Path, table: dict[str, Compared]
) -> None:
    """The control of batch n is M(n-1) - bound, M(n-1) the greatest event time of all batches before n.

    Natively that is W(n); here it is W(n+1). It stays where it was as long as no window would close that holds a row
    of a batch before n, since to move it would cost a batch and change nothing.
    """
    job, batches = _run_pinned(spark, tmp_path, "off", BEYOND)
    compared = table["tumbling, pin off"] = Compared()
    wrong = compare_watermarks(job, [batches], compared)
    wrong += compare_ledger(job, 0, batches, compared)
    wrong += compare_sink(job, KINDS["tumbling, append"], fates_of(job, 0, batches), compared)
    log, fates = job.log(), fates_of(job, 0, batches)
    moved = held = 0
    for number in range(1, len(log)):
        native_ms = max(f.row.event_time_us for f in fates if f.batch < number) // 1_000 - 3_000
        before_ms, now_ms = (log[at].controls[0] or 0 for at in (number - 1, number))
        still_open = [
            fate
            for fate in fates
            if fate.batch < number
            and fate.key_us > log[number - 1].watermark_ms * 1_000
            and (fate.batch == number - 1 or fate.key_us > before_ms * 1_000)
        ]
        closes = any(fate.key_us <= native_ms * 1_000 for fate in still_open)
        if now_ms != (native_ms if closes and native_ms > before_ms else before_ms):
            wrong.append(f"batch {number}: control {now_ms}, before {before_ms}, native {native_ms}")
        moved += now_ms > before_ms
        held += now_ms == before_ms < native_ms

    assert wrong == []
    assert moved > 0
    assert held > 0
    absent = (*OF_JOINS, *OF_DISTINCT, "restarts", "replays", "saved")
    assert compared.missing(*absent) == []


def test_pin_ceiling_leaves_the_ceiling_alone_to_move_the_watermark(
    spark: SparkSession, tmp_path: Path, table: dict[str, Compared]
) -> None:
    """W(n+1) = max(W(n), m(n) - ceiling): the control stream says nothing."""
    job, batches = _run_pinned(spark, tmp_path, "ceiling", "20 seconds")
    compared = table["tumbling, pin ceiling"] = Compared()
    wrong = compare_watermarks(job, [batches], compared)
    wrong += compare_ledger(job, 0, batches, compared)
    wrong += compare_sink(job, KINDS["tumbling, append"], fates_of(job, 0, batches), compared)

    assert wrong == []
    assert {logged.controls for logged in job.log()} == {(None,)}
    absent = (*OF_JOINS, *OF_DISTINCT, "restarts", "replays", "control_only", "control_moves")
    assert compared.missing(*absent) == []


# -- a ceiling in the other modes -----------------------------------------------------------------------------


def _beside_native(
    spark: SparkSession,
    folder: Path,
    mode: Mode,
    inputs: Sequence[Input],
    plan: Plan,
    groups: Sequence[Group],
) -> tuple[LiveJob, LiveJob]:
    """Run a query with a silent control stream and one with ``withWatermark`` over the same files, with a restart."""
    native = LiveJob(spark, folder / "native", inputs, plan, native=True, stage=folder)
    silent = LiveJob(spark, folder / "silent", inputs, plan, mode=mode, stage=folder)
    half = len(groups) // 2
    for part in (groups[:half], groups[half:]):
        run_side_by_side([native, silent], part)
    return native, silent


def _batches_of(job: LiveJob) -> list[tuple[int, tuple[int, ...], list[object]]]:
    """Return of each batch the watermark, the files read, and what came out."""
    return [
        (logged.watermark_ms, logged.files, sorted(job.output[number], key=repr))
        for number, logged in enumerate(job.log())
    ]


@pytest.mark.parametrize(("mode", "name"), [("Off", "sliding"), ("OnRestart", "deduplication")])
def test_in_other_modes_a_ceiling_leaves_every_batch_and_its_watermark_as_spark_has_them(
    spark: SparkSession, tmp_path: Path, table: dict[str, Compared], mode: Mode, name: str
) -> None:
    """The control stream is in the plan, so that the mode can change without a new checkpoint, and it is silent."""
    kind = KINDS[name]
    entry = Input(name="in", operator=kind.operator, bound=BOUND, ceiling="2 hours", granule="1 ms")
    batches, closing = trailing_batches(f"{mode}, silent", FILES), closing_batch()
    groups = [*groups_of(random.Random(mode), [batches]), [[closing]]]
    native, silent = _beside_native(spark, tmp_path, mode, [entry], kind.plan, groups)
    compared = table[f"{name}, {mode}"] = Compared()
    in_force = LiveJob(spark, silent.folder, [replace(entry, ceiling=None)], kind.plan)
    in_force.runs, in_force.recorded, in_force.output = silent.runs, silent.recorded, silent.output
    wrong = compare_watermarks(in_force, [[*batches, closing]], compared)
    wrong += compare_ledger(in_force, 0, [*batches, closing], compared)
    compared.emitted = sum(map(len, native.output.values()))

    assert wrong == []
    assert _batches_of(silent) == _batches_of(native)
    assert {logged.controls for logged in silent.log()} == {(None,)}
    assert spark.conf.get("spark.sql.streaming.multipleWatermarkPolicy") == "min"
    live = ("control_only", "control_moves", "replays", "saved")
    assert compared.missing(*live, *OF_JOINS, *OF_DISTINCT) == []


def test_in_mode_off_a_ceiling_on_two_inputs_is_refused_since_the_faster_would_lead(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A job that is only watched must not lose the rows of its slower input: natively (policy min) that one leads."""
    streams = [[_rows(0, (0, 100))], [_rows(10, (0, 70))]]
    job = LiveJob(spark, tmp_path, JOINED, _join("inner"), mode="Off")

    with pytest.raises(StreamingQueryException, match="several inputs with a ceiling runs in mode Live only"):
        job.run([streams])
