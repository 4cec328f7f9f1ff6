"""Live on every stateful operator: the watermark is the required one, and the ledger equals the sink."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.duration import parse_duration
from tidemark.models.operators import row_level, tumbling
from tidemark.models.wire import Mode
from tidemark.spark_jobs.this_spark import why_no_live

from support.live_comparisons import (
    OF_DISTINCT,
    OF_JOINS,
    Fate,
    LiveCompared,
    absent_of,
    compare_ledger,
    compare_pairs,
    compare_sink,
    compare_watermarks,
    fates_of,
    print_table,
    required_ms,
    rows_by_batch,
)
from support.live_operators import (
    BEYOND,
    COPY,
    FIVE,
    FOUR,
    JOINS,
    KINDS,
    WINDOWS,
    Plan,
    join,
    stream_of,
    windows,
    with_copies,
)
from support.live_streams import (
    SECOND_US,
    Batches,
    Group,
    Input,
    LiveJob,
    closing_batch,
    groups_of,
    run_side_by_side,
    trailing_batches,
)
from support.soak import with_soak
from support.spark_streams import EPOCH_US, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LIVE = pytest.mark.skipif(why_no_live() is not None, reason="this PySpark has no streaming sources in Python")
BOUND = "3 seconds"
FILES = 6
SHORT = {"tumbling, append", "windows of windows", "transformWithState, timers"}
"""Operators of `make test`; `make soak` has all of them."""
JOIN_FILES = 8
"""Pairs need more rows before each of their fates has come up."""


# -- what was compared ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[dict[str, LiveCompared]]:
    """Return what each test compared, to be printed in the end."""
    rows: dict[str, LiveCompared] = {}
    yield rows
    print_table(request, "live", rows)


# -- the controls ---------------------------------------------------------------------------------------------


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
        """The minimum of them less the bound."""
        return min(self.bases_us.values()) - self.bound_us


def compare_controls(job: LiveJob, streams: Sequence[Batches]) -> list[str]:
    """Compare each control with the minimum, over the partitions, of newest time less bound; return what is wrong.

    It may not be above that, nor further below than the granules in which the driver knows times. At rest nothing that
    has arrived and lies below it may be open. After a restart the driver knows what the checkpoint's control says.
    """
    log, wrong = job.log(), []
    runs = {report.batch_id: report.run_id for report in job.recorded[job.inputs[0].name].reports}
    slack_us = 2 * max(entry.granule_us for entry in job.inputs)
    read = [rows_by_batch(log, index, batches) for index, batches in enumerate(streams)]
    fates = [fate for index, batches in enumerate(streams) for fate in fates_of(job, index, batches)]
    true = [_Newest(parse_duration(entry.bound)) for entry in job.inputs]
    known = [_Newest(parse_duration(entry.bound)) for entry in job.inputs]
    for number, now in enumerate(log):
        if number and runs.get(number) != runs.get(number - 1):
            restored = now if number in job.replayed else log[number - 1]
            for newest, partitions in zip(known, restored.partitions, strict=True):
                newest.bases_us = dict(partitions)
        required_us = required_ms(now) * 1_000
        if number and required_us != required_ms(log[number - 1]) * 1_000 and number not in job.replayed:
            min_us = min(newest.wants_us for newest in known) - slack_us
            max_us = min(newest.wants_us for newest in true)
            if not min_us < required_us <= max_us:
                wrong.append(f"batch {number}: control {required_us} is not in ({min_us}, {max_us}]")
        for index, rows in enumerate(read):
            true[index].add(rows[number])
            known[index].add(rows[number])
        if number in job.idle_after:
            due_us = min(newest.wants_us for newest in known) - slack_us
            # In complete mode nothing closes, and so no batch follows to bring the last control into force.
            reached_us = max(now.watermark_ms * 1_000, required_us)
            wrong += [
                f"at rest after batch {number}: {fate} is open, though due"
                for fate in fates
                if fate.batch <= number and reached_us < fate.key_us <= due_us
            ]
    return wrong


# -- the operators ------------------------------------------------------------------------------------------


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


def _groups(seed: str, streams: Sequence[Batches]) -> tuple[list[Group], list[Group]]:
    """Return groups, and groups of batches back to back, for the query to die in one of them."""
    files = len(streams[0])
    before = groups_of(random.Random(seed), [stream[: files // 2] for stream in streams])
    return before, [[stream[at : at + 3] for stream in streams] for at in range(files // 2, files, 3)]


# What is proven of an operator in one mode says nearly all of it in another: each runs here or over restarts at least.
@LIVE
@pytest.mark.parametrize("name", with_soak(KINDS, KINDS.keys() - SHORT, FOUR))
def test_live_moves_the_watermark_as_required_and_the_ledger_equals_the_sink(
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared], name: str
) -> None:
    """For every operator: over no-data batches, a crash, and a batch that is run again."""
    kind = KINDS[name]
    seed = f"{name} {kind.seed}" if kind.seed else name
    batches, closing = stream_of(kind, seed, trailing_batches(seed, FILES))
    entry = Input(name="in", operator=kind.operator, bound=BOUND, ceiling=kind.ceiling)
    job = LiveJob(spark, tmp_path, [entry], kind.plan, kind.output_mode)
    before, after = _groups(seed, [batches])
    for key, value in kind.conf:
        spark.conf.set(key, value)
    try:
        job.run([*before, *after, [closing]], crash_from=len(before))
    finally:
        for key, _ in kind.conf:
            spark.conf.unset(key)
    compared = table[name] = LiveCompared()
    batches = [*batches, *closing]
    wrong = compare_watermarks(job, [batches], compared)
    wrong += compare_controls(job, [batches])
    wrong += compare_ledger(job, 0, batches, compared)
    fates = fates_of(job, 0, batches)
    wrong += compare_sink(job, kind, fates, compared)
    compared.saved = _saved(job, fates)

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
        spark, tmp_path, [entry], lambda inputs: windows("5 seconds")([inputs[0].filter("id >= 0")])
    )
    batches = [_rows(number, (0, second), (1, second)) for number, second in enumerate((100, 110, 120))]
    job.run([[[rows]] for rows in batches])
    compared = LiveCompared()

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


@LIVE
@pytest.mark.versions
def test_what_was_open_at_a_restart_closes_as_soon_as_without_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Else the hour before a restart waits for the end of the hour after it."""
    entry = Input(name="in", operator=FIVE, bound=BOUND, ceiling=BEYOND)
    job = LiveJob(spark, tmp_path, [entry], windows("5 seconds"))
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
    job = LiveJob(spark, tmp_path, [entry], windows("5 seconds"))
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
    job = LiveJob(spark, tmp_path, JOINED, join("leftOuter"))
    groups = [[stream[number : number + 1] for stream in streams] for number in range(3)]
    job.run([*groups, [stream[3:] for stream in streams]], crash_from=0)

    assert compare_controls(job, streams) == []


def test_a_straggler_in_a_batch_that_is_run_again_sets_no_partition_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Else the watermark waits, after a crash, until that partition has rows again."""
    entry = Input(name="in", operator=FIVE, bound=BOUND, ceiling=BEYOND)
    job = LiveJob(spark, tmp_path, [entry], windows("5 seconds"))
    batches = [
        _rows(0, (0, 100), (1, 100), (2, 60)),
        _rows(1, (0, 110), (1, 110), (2, 70)),
        _rows(2, (0, 120), (1, 120), (2, 80)),
        _rows(3, (1, 90)),
        _rows(4, (0, 130), (2, 110)),
    ]
    job.run([[batches[:1]], [batches[1:2]], [batches[2:4]], [batches[4:]]], crash_from=0)

    assert compare_controls(job, [batches]) == []


# -- joins ----------------------------------------------------------------------------------------------------

JOINED = (
    Input(name="left", operator=row_level(), bound="3 seconds", ceiling=BEYOND),
    Input(name="right", operator=row_level(), bound="5 seconds", ceiling=BEYOND),
)


@pytest.mark.parametrize("name", with_soak(JOINS, JOINS.keys() - {"leftOuter"}))
def test_a_live_join_emits_a_pair_iff_the_ledgers_of_its_inputs_admit_both_rows(
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared], name: str
) -> None:
    """Each input has partitions, a slow one and a bound of its own; one watermark serves both."""
    kind, seed = JOINS[name], name.removesuffix(WINDOWS)
    streams = [
        trailing_batches(f"{seed}, left", JOIN_FILES, trail_us=20 * SECOND_US, stray_us=75 * SECOND_US),
        trailing_batches(f"{seed}, right", JOIN_FILES, partitions=4, first_id=COPY),
    ]
    if kind.distinct:
        streams[0] = with_copies(seed, streams[0])
    job = LiveJob(spark, tmp_path, JOINED, kind.plan)
    closing = [closing_batch(), closing_batch(10**9 + 10, 4)]
    before, after = _groups(seed, streams)
    job.run([*before, *after, [[rows] for rows in closing]], crash_from=len(before))
    compared = table[f"join, {name}"] = LiveCompared()
    streams = [[*batches, rows] for batches, rows in zip(streams, closing, strict=True)]
    wrong = compare_watermarks(job, streams, compared)
    wrong += compare_controls(job, streams)
    for index, batches in enumerate(streams):
        wrong += compare_ledger(job, index, batches, compared)
    left, right = (fates_of(job, index, batches) for index, batches in enumerate(streams))
    wrong += compare_pairs(job, kind, left, right, compared)
    compared.saved = _saved(job, left)

    assert wrong == []
    assert compared.missing(*absent_of(kind)) == []


# -- pins -----------------------------------------------------------------------------------------------------


def _run_pinned(spark: SparkSession, folder: Path, pin: str, ceiling: str) -> tuple[LiveJob, Batches]:
    batches = trailing_batches(f"pin {pin}", FILES)
    entry = Input(name="in", operator=tumbling("20 s"), bound=BOUND, ceiling=ceiling)
    job = LiveJob(spark, folder, [entry], windows("20 seconds"))
    spark.conf.set("spark.tidemark.pin", pin)
    try:
        job.run([*groups_of(random.Random(pin), [batches]), [[closing_batch()]]])
    finally:
        spark.conf.unset("spark.tidemark.pin")
    return job, [*batches, closing_batch()]


def test_pin_off_gives_spark_s_own_watermark_one_batch_later_wherever_that_closes_something(
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared]
) -> None:
    """The control of batch n is M(n-1) - bound, M(n-1) the maximum event time of all batches before n.

    Natively that is W(n); here it is W(n+1). It stays where it was as long as no window would close that holds a row
    of a batch before n, since to move it would cost a batch and change nothing.
    """
    job, batches = _run_pinned(spark, tmp_path, "off", BEYOND)
    compared = table["tumbling, pin off"] = LiveCompared()
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
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared]
) -> None:
    """W(n+1) = max(W(n), m(n) - ceiling): the control stream says nothing."""
    job, batches = _run_pinned(spark, tmp_path, "ceiling", "20 seconds")
    compared = table["tumbling, pin ceiling"] = LiveCompared()
    wrong = compare_watermarks(job, [batches], compared)
    wrong += compare_ledger(job, 0, batches, compared)
    fates = fates_of(job, 0, batches)
    wrong += compare_sink(job, KINDS["tumbling, append"], fates, compared)
    compared.saved = _saved(job, fates)

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
    """Run a query with a silent control stream and one with ``withWatermark`` over the same files."""
    native = LiveJob(spark, folder / "native", inputs, plan, native=True, stage=folder)
    silent = LiveJob(spark, folder / "silent", inputs, plan, mode=mode, stage=folder)
    run_side_by_side([native, silent], groups)
    return native, silent


def _batches_of(job: LiveJob) -> list[tuple[int, tuple[int, ...], list[object]]]:
    """Return of each batch the watermark, the files read, and what came out."""
    return [
        (logged.watermark_ms, logged.files, sorted(job.output[number], key=repr))
        for number, logged in enumerate(job.log())
    ]


def test_in_other_modes_a_ceiling_leaves_every_batch_and_its_watermark_as_spark_has_them(
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared]
) -> None:
    """The control stream is in the plan, so that the mode can change without a new checkpoint, and it is silent."""
    mode: Mode = "OnRestart"
    name = "sliding"
    kind = KINDS[name]
    entry = Input(name="in", operator=kind.operator, bound=BOUND, ceiling="2 hours", granule="1 ms")
    batches, closing = trailing_batches(f"{mode}, silent", FILES), closing_batch()
    groups = [*groups_of(random.Random(mode), [batches]), [[closing]]]
    native, silent = _beside_native(spark, tmp_path, mode, [entry], kind.plan, groups)
    compared = table[f"{name}, {mode}"] = LiveCompared()
    wrong = compare_watermarks(silent, [[*batches, closing]], compared)
    wrong += compare_ledger(silent, 0, [*batches, closing], compared)
    compared.emitted = sum(map(len, native.output.values()))

    assert wrong == []
    assert _batches_of(silent) == _batches_of(native)
    assert {logged.controls for logged in silent.log()} == {(None,)}
    live = ("restarts", "control_only", "control_moves", "replays", "saved")
    assert compared.missing(*live, *OF_JOINS, *OF_DISTINCT) == []


@pytest.mark.soak
def test_in_mode_off_a_ceiling_on_both_inputs_of_a_join_leaves_every_batch_as_spark_has_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The slower input leads, as it does without Tidemark.

    All files are there from the start: while a query runs, it may list one input before they come and one after.
    """
    streams = [
        trailing_batches("silent join, left", FILES, stray_us=75 * SECOND_US),
        trailing_batches("silent join, right", FILES, partitions=4, first_id=COPY),
    ]
    native, silent = _beside_native(spark, tmp_path, "Off", JOINED, join("inner"), [streams])

    assert _batches_of(silent) == _batches_of(native)
    assert any(silent.output.values())


def test_an_input_in_live_beside_one_that_is_off_moves_its_own_watermark_and_spark_takes_the_lower_one(
    spark: SparkSession, tmp_path: Path, table: dict[str, LiveCompared]
) -> None:
    streams = [
        trailing_batches("mixed, left", FILES, trail_us=20 * SECOND_US),
        trailing_batches("mixed, right", FILES, partitions=4, first_id=COPY),
    ]
    inputs = [JOINED[0], replace(JOINED[1], mode="Off")]
    job = LiveJob(spark, tmp_path, inputs, join("inner"))
    closing = [closing_batch(), closing_batch(10**9 + 10, 4)]
    job.run([*groups_of(random.Random("mixed"), streams), [[rows] for rows in closing]])
    streams = [[*batches, rows] for batches, rows in zip(streams, closing, strict=True)]
    compared = table["join, Live and Off"] = LiveCompared()
    wrong = compare_watermarks(job, streams, compared)
    for index, batches in enumerate(streams):
        wrong += compare_ledger(job, index, batches, compared)
    left, right = (fates_of(job, index, batches) for index, batches in enumerate(streams))
    wrong += compare_pairs(job, JOINS["inner"], left, right, compared)

    assert wrong == []
    assert {logged.controls[0] for logged in job.log()} != {None}
    assert {logged.controls[1] for logged in job.log()} == {None}
