"""Versions of windows without Spark: any batches, any bounds, batches tried again, crashes at any place."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import TimeWindow, sliding, tumbling
from tidemark.spark_jobs.core.bound import ChosenBound
from tidemark.spark_jobs.late.mark import next_mark
from tidemark.spark_jobs.late.revision import Revision, WindowColumns
from tidemark.spark_jobs.late.versions import VersionLog, VersionLogError

from support.spark_streams import EPOCH_US, Row
from support.versions import Window, WindowVersion, check_versions, early_of, watermarks_of

SECOND_US, DELAY_MS = 1_000_000, 12_000
TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("window", pa.struct([("start", TIME), ("end", TIME)])),
        ("partition", pa.int32()),
        ("ids", pa.list_(pa.int64())),
    ]
)
COLUMNS = WindowColumns("window.end", ("partition",))


@dataclass
class Memory:
    """A folder of files."""

    files: dict[str, bytes] = field(default_factory=dict)

    def names(self, folder: str = "") -> list[str]:
        return [name.partition("/")[2] for name in self.files if name.partition("/")[0] == folder]

    def read_bytes(self, name: str) -> bytes | None:
        return self.files.get(name)

    def write_whole(self, name: str, data: bytes) -> None:
        self.files[name] = data

    def delete(self, name: str) -> None:
        self.files.pop(name, None)


def table(windows: dict[Window, list[int]]) -> pa.Table:
    rows = [
        {"window": {"start": 0, "end": end_us}, "partition": key, "ids": ids}
        for (end_us, key), ids in windows.items()
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def versions_in(rows: pa.Table) -> frozenset[WindowVersion]:
    ends = rows.flatten()["window.end"].cast(pa.int64()).to_pylist()
    return frozenset(
        WindowVersion((end, row["partition"]), row["version"], row["is_final"], tuple(sorted(row["ids"])))
        for end, row in zip(ends, rows.drop_columns("window").to_pylist(), strict=True)
    )


def update_mode(
    batches: list[list[Row]], watermarks_ms: list[int], operator: TimeWindow
) -> list[dict[Window, list[int]]]:
    """Return the windows that Spark puts out in each batch: those that changed."""
    import numpy as np

    state: dict[Window, list[int]] = {}
    found, before_us = [], 0
    for rows, watermark_ms in zip(batches, watermarks_ms, strict=True):
        which, ends = operator.keys(np.array([row.event_time_us for row in rows], np.int64))
        changed: dict[Window, list[int]] = {}
        for index, end in zip(which.tolist(), ends.tolist(), strict=True):
            if end > before_us:
                window = end, rows[index].partition
                changed[window] = state[window] = [*state.get(window, []), rows[index].id]
        before_us = watermark_ms * 1_000
        state = {window: ids for window, ids in state.items() if window[0] > before_us}
        found.append(changed)
    return found


CRASHES = ("before it is on disk", "before the output", "after the output")
PLANS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(-15, 5), st.sampled_from([None, 0, 1])), max_size=6),
        st.integers(0, DELAY_MS // 1_000 + 5),
        st.lists(st.tuples(st.sampled_from(CRASHES), st.integers(0, 20)), max_size=2),
        st.booleans(),
    ),
    min_size=6,
    max_size=14,
)


@given(PLANS, st.sampled_from([tumbling("5 seconds"), sliding("10 seconds", "4 seconds")]))
def test_the_first_version_is_append_mode_under_the_bound_and_the_last_one_under_bound_and_grace(
    plan: list[tuple[list[tuple[int, int]], int, list[tuple[str, int]], bool]], operator: TimeWindow
) -> None:
    """The bound moves with every try of every batch; what is on disk of a batch decides it."""
    batches, identity = [], 0
    for number, (rows, *_) in enumerate(plan):
        at_us = EPOCH_US + number * 4 * SECOND_US
        batches.append([Row(identity + i, key, at_us + s * SECOND_US) for i, (s, key) in enumerate(rows)])
        identity += len(rows)
    watermarks_ms = watermarks_of(batches, DELAY_MS)
    memory = Memory()

    def start() -> Revision:
        return Revision(VersionLog(memory), COLUMNS, DELAY_MS, max_files=3, min_rows=8)

    revision, bounds_ms = start(), []
    put_out: dict[int, frozenset[WindowVersion]] = {}
    changes = update_mode(batches, watermarks_ms, operator)
    for number, ((_, bound_s, crashes, restarts), changed) in enumerate(zip(plan, changes, strict=True)):
        decided = None
        for crash, other_s in crashes:
            _, rows = revision.step(
                number, table(changed), watermarks_ms[number], ChosenBound(bound_ms=other_s * 1_000)
            )
            if crash == CRASHES[0] and decided is None:
                memory.delete(f"changed/{number}")
            else:
                decided = other_s if decided is None else decided
            if crash == CRASHES[2] and decided is not None:
                assert put_out.setdefault(number, versions_in(rows)) == versions_in(rows)
            revision = start()
        mark, rows = revision.step(
            number, table(changed), watermarks_ms[number], ChosenBound(bound_ms=bound_s * 1_000)
        )
        assert put_out.setdefault(number, versions_in(rows)) == versions_in(rows)
        bounds_ms.append(min(bound_s if decided is None else decided, DELAY_MS // 1_000) * 1_000)
        assert mark.early_ms == early_of(batches[: number + 1], bounds_ms)[-1]
        revision = start() if restarts else revision

    check_versions(put_out, batches, early_of(batches, bounds_ms), watermarks_ms, operator)
    assert len(memory.names("changed")) <= 4
    assert len(memory.names("open")) <= 1


def test_another_grace_at_a_restart_does_not_let_windows_out_too_early() -> None:
    """The watermark in force was made under the old delay; that much later the new one is reached."""
    bound = ChosenBound(bound_ms=1_000)
    before = next_mark(None, 0, bound, 5_000)
    before = next_mark(before, 95_000, bound, 5_000)
    kept = next_mark(before, 95_000, bound, 60_000)
    moved = next_mark(kept, 96_000, bound, 60_000)

    assert (before.base_ms, before.early_ms) == (100_000, 99_000)
    assert (kept.base_ms, kept.early_ms) == (100_000, 99_000)
    assert (moved.base_ms, moved.early_ms) == (156_000, 155_000)


def test_a_batch_without_those_before_it_is_refused() -> None:
    """A checkpoint that was begun without versions has windows open that nobody knows here."""
    memory = Memory()
    Revision(VersionLog(memory), COLUMNS, DELAY_MS).step(0, table({}), 0, ChosenBound(bound_ms=0))
    with pytest.raises(VersionLogError, match="new checkpoint"):
        Revision(VersionLog(memory), COLUMNS, DELAY_MS).step(2, table({}), 0, ChosenBound(bound_ms=0))


@pytest.mark.parametrize(
    ("columns", "windows", "match"),
    [
        (WindowColumns("window.end", ()), table({(5, 0): [1], (5, 1): [2]}), "two rows"),
        (WindowColumns("end", ()), table({}), "the window's end"),
        (WindowColumns("window.stop", ()), table({}), "the window's end"),
        (WindowColumns("partition", ()), table({}), "the window's end"),
        (WindowColumns("window.end", ("user",)), table({}), "user"),
        (WindowColumns("window.end", ("ids",)), table({}), "cast it"),
        (COLUMNS, table({}).append_column("version", pa.array([], pa.int64())), "otherwise"),
    ],
)
def test_columns_that_cannot_tell_windows_apart_are_refused_and_nothing_is_written(
    columns: WindowColumns, windows: pa.Table, match: str
) -> None:
    memory = Memory()
    with pytest.raises(ValueError, match=match):
        Revision(VersionLog(memory), columns, DELAY_MS).step(0, windows, 0, ChosenBound(bound_ms=0))
    assert not memory.files


def test_other_columns_need_a_new_checkpoint() -> None:
    memory = Memory()
    Revision(VersionLog(memory), COLUMNS, DELAY_MS).step(0, table({(5, 0): [1]}), 0, ChosenBound(bound_ms=0))
    more = table({}).append_column("rows", pa.array([], pa.int64()))
    with pytest.raises(ValueError, match="new checkpoint"):
        Revision(VersionLog(memory), COLUMNS, DELAY_MS).step(1, more, 0, ChosenBound(bound_ms=0))
