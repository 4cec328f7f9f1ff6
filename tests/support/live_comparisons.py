"""Compares a ``LiveJob`` with its checkpoint, row for row: the ledger, and what the sink got."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pytest

from tidemark.models.base.duration import parse_duration
from tidemark.models.base.granules import granule_index, granule_last_us
from tidemark.models.base.operators import SessionWindow, TimeWindow
from tidemark.models.evidence.ledger import Tally

from support.live_operators import COPY, RETENTION_US, JoinKind, Kind, end_of, match
from support.live_streams import Batches, LiveJob, LoggedBatch
from support.oracles import Ledger, tallies_of
from support.spark_streams import Row


@dataclass
class Compared:
    """How much was compared; a comparison of nothing proves nothing."""

    batches: int = 0
    no_data: int = 0
    """Batches without rows."""
    restarts: int = 0
    pairs: int = 0
    """(Row, key) pairs that arrived."""
    late: int = 0
    late_partitions: int = 0
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
"""What only deduplication, and only a join, has."""


def absent_of(kind: JoinKind) -> tuple[str, ...]:
    """Return what a join does not have."""
    return (*(() if kind.distinct else OF_DISTINCT), *(() if kind.how == "leftOuter" else ("alone",)))


def print_table(request: pytest.FixtureRequest, title: str, rows: Mapping[str, Compared]) -> None:
    """Print what each test compared, past pytest's capture."""
    names = [item.name for item in fields(next(iter(rows.values())))] if rows else []
    width = max(map(len, (title, *rows)))
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n{title:<{width}}", *(f"{name.replace('_', ' '):>{len(name)}}" for name in names))
        for kind, compared in rows.items():
            print(f"{kind:<{width}}", *(f"{getattr(compared, name):>{len(name)}}" for name in names))


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
    operator, granule_us = job.inputs[index].operator, job.inputs[index].granule_us
    log, result = job.log(), []
    for number, rows in enumerate(rows_by_batch(log, index, batches)):
        times = np.array([row.event_time_us for row in rows], np.int64)
        granules = granule_index(times, granule_us, operator.closed)
        which, keys = operator.keys(times)
        _, cells = operator.keys(granule_last_us(granules, granule_us, operator.closed))
        before_us = before_ms(log, number) * 1_000
        for entry, key, cell in zip(which.tolist(), keys.tolist(), cells.tolist(), strict=True):
            late = (
                not (job.output_mode == "complete" and isinstance(operator, TimeWindow)) and key <= before_us
            )
            result.append(Fate(rows[entry], key, (str(rows[entry].partition), cell), number, late))
    return result


def rows_by_batch(log: Sequence[LoggedBatch], index: int, batches: Batches) -> list[list[Row]]:
    """Return the rows of one input by batch of the query."""
    result, start = [], 0
    for logged in log:
        result.append([row for rows in batches[start : logged.files[index]] for row in rows])
        start = logged.files[index]
    return result


def before_ms(log: Sequence[LoggedBatch], number: int) -> int:
    """Return W(n-1), by which batch n judges its rows."""
    return log[number - 1].watermark_ms if number else 0


# -- the watermark --------------------------------------------------------------------------------------------


@dataclass
class LiveCompared(Compared):
    """The same, and what only Live shows."""

    live_moves: int = 0
    """Watermarks that Live set."""
    ceiling_moves: int = 0
    """Watermarks that the ceiling set."""
    replays: int = 0
    """Restarts in the middle of a batch that had rows and a new watermark."""
    saved: int = 0
    """Pairs that were admitted and that Spark's own watermark with the same bound would have dropped."""


def compare_watermarks(
    job: LiveJob,
    streams: Sequence[Batches],
    compared: LiveCompared,
    combine: Callable[[Iterable[int]], int] = min,
    steered: Sequence[int] | None = None,
) -> list[str]:
    """Compare the watermark of every batch with Spark's own rule and what Live has required; return what is wrong.

    The node of input i is at the maximum, over the batches k of the run so far, of m_i(k) - ceiling, with m_i(k) the
    maximum event time of the input in batch k. W(n+1) is the largest of W(n), the lowest node (or what ``combine``
    makes of the nodes), and of a watermark that was required by then; of inputs that are not steered Spark takes none
    above their nodes. A job that is not steered is compared alike.
    """
    log, moves = job.log(), job.moves()
    read = [rows_by_batch(log, index, batches) for index, batches in enumerate(streams)]
    recorded = job.recorded.get(job.inputs[0].name)
    runs = {} if recorded is None else {report.batch_id: report.run_id for report in recorded.reports}
    others = [] if steered is None else [index for index in range(len(read)) if index not in steered]
    wrong = [f"W(0) is {log[0].watermark_ms}"] if log[0].watermark_ms else []
    nodes = [0] * len(read)
    most = 0
    for number, (now, after) in enumerate(itertools.pairwise(log)):
        if number and runs.get(number) != runs.get(number - 1):
            nodes = [0] * len(read)  # of a run before only the watermark is left
        for index, rows in enumerate(read):
            times_us = [row.event_time_us for row in rows[number]]
            floor = max(times_us) // 1_000 - job.delay_us(index, number) // 1_000 if times_us else 0
            nodes[index] = max(nodes[index], floor)
        own = max(now.watermark_ms, combine(nodes))
        # While a batch runs Spark's nodes are still where the one before has left them.
        before, most = most, min((nodes[index] for index in others), default=after.watermark_ms)
        required = {
            min(move.watermark_ms, limit)
            for move in moves
            if move.known <= number
            for limit in (before, most)
        }
        if after.watermark_ms != own and (after.watermark_ms < own or after.watermark_ms not in required):
            wrong.append(
                f"W({number + 1}) is {after.watermark_ms}, neither {own} nor of {sorted(required)[-3:]}"
            )
        compared.live_moves += after.watermark_ms > own
        compared.ceiling_moves += after.watermark_ms == own > now.watermark_ms
        compared.no_data += now.files == after.files
    compared.batches += len(log)
    compared.restarts += job.runs - 1
    compared.replays += len(job.replayed)
    return wrong


# -- the ledger -----------------------------------------------------------------------------------------------


def compare_ledger(
    job: LiveJob, index: int, batches: Batches, compared: Compared, since: int = 0
) -> list[str]:
    """Compare the ledger on every batch from ``since`` on, partition and key with the rows; return what is wrong."""
    log, fates = job.log(), fates_of(job, index, batches)
    reports = job.recorded[job.inputs[index].name].reports
    true: list[dict[tuple[str, int], Tally]] = [{} for _ in log]
    for fate in fates:
        cells = true[fate.batch]
        cells[fate.cell] = cells.get(fate.cell, Tally()) + Tally(1, fate.late, fate.late)
    ledger, wrong = Ledger(), []
    for report in reports:
        number, body = report.batch_id, tallies_of(report)
        if not ledger.add(report):
            wrong.append(f"batch {number} was reported twice")
        if (report.late_watermark_ms, report.watermark_ms) != (
            before_ms(log, number),
            log[number].watermark_ms,
        ):
            wrong.append(f"batch {number}: other watermarks were reported than were logged")
        wrong += [
            f"batch {number}, {cell}: {body.get(cell)}, not {true[number].get(cell)}"
            for cell in body.keys() | true[number].keys()
            if body.get(cell) != true[number].get(cell)
        ]
    if sorted(report.batch_id for report in reports) != list(range(since, len(log))):
        wrong.append(f"batches {[report.batch_id for report in reports]} were reported of {len(log)}")
    completeness = ledger.completeness()
    if not completeness.exact or completeness.late_min != completeness.late_max:
        wrong.append(f"not exact: {completeness}")
    compared.pairs += len(fates)
    compared.late += completeness.late_min
    compared.late_partitions += len({fate.cell[0] for fate in fates if fate.late})
    return wrong


# -- the sink -------------------------------------------------------------------------------------------------

Pair = tuple[int, int | None]
"""The id of a row and the time that the sink has beside it."""


def compare_sink(job: LiveJob, kind: Kind, fates: Sequence[Fate], compared: Compared) -> list[str]:
    """Compare what came out with the pairs that the ledger calls admitted; return what is wrong.

    Each comes out exactly once, unless it was late, or is a copy, or still open in the end: in the first batch whose
    watermark has reached the time at which the operator closes it, or, of operators that do not wait, in its own.
    """
    log = job.log()
    copies = _copies(job, fates) if kind.distinct else set()
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
    return wrong


def _has_key(kind: Kind) -> bool:
    """Return whether each row's own time of closing stands in the sink; a session's is that of its last row."""
    return kind.closes_us is not None or isinstance(kind.operator, TimeWindow)


def _emitted(job: LiveJob, kind: Kind) -> tuple[dict[Pair, int], Counter[Pair]]:
    """Return the batch in which each pair came first, and how often it came by the last output of its key."""
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
        before_us, now_us = before_ms(log, number) * 1_000, log[number].watermark_ms * 1_000
        for key_us, ids in entries:
            if key_us is None or not before_us < key_us <= now_us:
                wrong.append(f"batch {number}: {key_us} is not in ({before_us}, {now_us}]")
            if isinstance(kind.operator, SessionWindow):
                end_us = max(times[identity] for identity in ids if identity is not None)
                if key_us != end_us + kind.operator.gap_us:
                    wrong.append(f"batch {number}: a session ends at {key_us}, its last row is at {end_us}")
    return wrong


def _copies(job: LiveJob, fates: Sequence[Fate]) -> set[int]:
    """Return the ids of the rows that deduplication leaves out.

    An event is known from its first admitted row on, until the watermark of an earlier batch has reached that row's
    time plus the delay that was in the plan when it came.
    """
    log = job.log()
    known_until_us: dict[int, int] = {}
    result = set()
    for fate in fates:
        event = fate.row.id % COPY
        if fate.late:
            continue
        if known_until_us.get(event, 0) > before_ms(log, fate.batch) * 1_000:
            result.add(fate.row.id)
        else:
            known_until_us[event] = fate.row.event_time_us + job.delay_us(0, fate.batch)
    return result


def saved(job: LiveJob, fates: Sequence[Fate]) -> int:
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


def compare_pairs(
    job: LiveJob, kind: JoinKind, left: Sequence[Fate], right: Sequence[Fate], compared: Compared
) -> list[str]:
    """Compare the pairs that came out with those of which the ledger calls both rows admitted; return what is wrong.

    Each comes out exactly once, in the batch of the later of its rows. Of a left outer join an admitted left row
    without such a pair comes out once as well, alone, in the first batch whose watermark has left no room for one.
    In windows behind the join both come out in the first batch whose watermark has left no room for another pair.
    """
    copies = _copies(job, left) if kind.distinct else set()
    due: dict[tuple[int | None, ...], list[int]] = {}
    for one in left:
        partners = [other for other in right if match(one.row, other.row)]
        admitted = [other for other in partners if not other.late]
        if one.late:
            compared.lost_by_left += len(admitted)
        if one.late or one.row.id in copies:
            continue
        compared.lost_by_right += len(partners) - len(admitted)
        came: dict[tuple[int | None, ...], int]
        came = {(one.row.id, other.row.id): max(one.batch, other.batch) for other in admitted}
        alone_in = _closes_in(job, one, one.row.event_time_us)
        if kind.how == "leftOuter" and not admitted and alone_in is not None:
            came = {(one.row.id, None): alone_in}
        if kind.windows:
            closes_in = _closes_in(job, one, end_of(5)(one.row))
            came = {} if closes_in is None else dict.fromkeys(came, closes_in)
        due |= {ids: [number] for ids, number in came.items()}
    actual: dict[tuple[int | None, ...], list[int]] = {}
    for number, entries in job.output.items():
        for _, ids in entries:
            for pair in zip(ids[::2], ids[1::2], strict=True):
                actual.setdefault(pair, []).append(number)
    compared.emitted += len(actual)
    compared.copies += len(copies)
    compared.alone += sum(None in ids for ids in actual)
    return [
        f"{ids} came in batches {actual.get(ids)}, not {due.get(ids)}"
        for ids in due.keys() | actual.keys()
        if actual.get(ids) != due.get(ids)
    ]


def _closes_in(job: LiveJob, one: Fate, time_us: int) -> int | None:
    """Return the batch in which the join passes on a time for good, None when that has not come yet."""
    closed = (
        number
        for number, logged in enumerate(job.log())
        if number >= one.batch and logged.watermark_ms * 1_000 >= time_us + RETENTION_US
    )
    return next(closed, None)
