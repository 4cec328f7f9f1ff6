"""The folder with a stream's late rows: each read of some batches is a folder of Parquet, written once.

    from_batch=12/     late rows of the batches from 12 on, up to the next folder's or to the last one done
    _done/17           the last batch that was dealt with, and whose batches these are
    _unknown/15-17     batches whose late rows can no longer be known, and why
    _off/18            late rows are not kept after the last batch done: it was switched off when 18 was next
    _off/18-40         it is on again after batch 40, and these batches are read as far as they still can be
    _not_kept/18-25    batches of such a time that can no longer be read
    _future_rows/9     how future-dated rows are treated from batch 9 on
    _runs/9            what reports say of the run that began with batch 9
    _counts/12         what came and was lost by the values of a dimension, in the batches from 12 on

A read is written to ``_writing``, renamed, and then marked done. Whatever a crash leaves of batches that are not done
is deleted and written again. Nothing is written over, since not every file system does that in one step. Names with an
underscore are not read by Spark.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from pyspark.sql import DataFrame

from tidemark.models.base.read_json import read_object
from tidemark.models.evidence.late_counts import LateCounts
from tidemark.models.protocol.messages import OutputMode
from tidemark.spark_jobs.core.bound import ChosenBound
from tidemark.spark_jobs.late.late_rows import FutureRowTreatment, Unknown
from tidemark.spark_jobs.spark.checkpoint import HadoopFiles, numbers_in

_VERSION = 1
_DONE, _UNKNOWN, _WRITING, _FUTURE = "_done", "_unknown", "_writing/rows", "_future_rows"
_OFF, _NOT_KEPT = "_off", "_not_kept"
_COUNTS, _RUNS = "_counts", "_runs"
_FROM = "from_batch="


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """What a report says of the run that had a batch."""

    run_id: str
    output_mode: OutputMode
    bound: ChosenBound


class SideFolderError(ValueError):
    """A folder that belongs to another query or was written by a later version."""


def last_done(files: HadoopFiles) -> int:
    """Return the last batch that a folder's writer has dealt with, -1 for none."""
    return max(numbers_in(files, _DONE), default=-1)


def unknown_in(files: HadoopFiles) -> list[Unknown]:
    """Return the batches whose late rows a folder's writer could no longer know, ascending."""
    return _gaps_in(files, _UNKNOWN)


def not_kept_in(files: HadoopFiles) -> list[Unknown]:
    """Return the batches whose late rows were not to be kept and can no longer be read, ascending."""
    return _gaps_in(files, _NOT_KEPT)


def is_off(files: HadoopFiles) -> bool:
    """Return whether late rows are not kept after the last batch that was dealt with."""
    return bool(numbers_in(files, _OFF))


def _spans_in(files: HadoopFiles, folder: str) -> list[tuple[int, int]]:
    """Return the first and last batches that names in a folder stand for; a crash may have left others there."""
    spans = [re.fullmatch(r"([0-9]+)-([0-9]+)", name) for name in files.names(folder)]
    return [(int(name[1]), int(name[2])) for name in spans if name]


def _gaps_in(files: HadoopFiles, folder: str) -> list[Unknown]:
    texts = (files.read(f"{folder}/{first}-{last}") for first, last in _spans_in(files, folder))
    return sorted(
        (read_object(Unknown, json.loads(text)) for text in texts if text), key=lambda gap: gap.first
    )


class SideFolder:
    """One stream's folder. One process at a time may write to it.

    Args:
        files: the folder.
        query_id: persistent id of the query whose rows it holds.
        source: the source, as the query's offset log names it.
    """

    def __init__(self, files: HadoopFiles, query_id: str, source: str) -> None:
        self._files = files
        self.query_id, self.source = query_id, source
        self._owner = {"version": _VERSION, "query_id": query_id, "source": source}

    def done(self) -> int:
        """Return the last batch that was dealt with, -1 for none.

        Raises:
            SideFolderError: when the folder is not this stream's.
        """
        last = last_done(self._files)
        text = self._files.read(f"{_DONE}/{last}")
        if text is None:
            return -1
        owner = json.loads(text)
        # A later release may write more.
        if not self._owner.items() <= owner.items():
            raise SideFolderError(
                f"{self._files.uri} holds the late rows of {owner}, not of {self._owner}: a stream with a new "
                "checkpoint needs a new folder"
            )
        return last

    def write(self, first: int, rows: DataFrame) -> int:
        """Write the late rows of the batches from ``first`` on; return how many there are.

        Nothing that is written after the last batch done stays: a crash left it.
        """
        self.clear(self.done())
        rows.hint("rebalance").write.mode("overwrite").parquet(self._files.path(_WRITING))
        # Parquet knows it without being read, and an event that Spark drops when it is busy is not waited for.
        late = rows.sparkSession.read.parquet(self._files.path(_WRITING)).count()
        if late:
            self._files.rename(_WRITING, f"{_FROM}{first}")
        return late

    def clear(self, done: int) -> None:
        """Delete what was written for batches after ``done``."""
        for name in self._files.names():
            if name.startswith(_FROM) and int(name.removeprefix(_FROM)) > done:
                self._files.delete(name)
        for first in numbers_in(self._files, _COUNTS):
            if first > done:
                self._files.delete(f"{_COUNTS}/{first}")

    def write_counts(self, counts: LateCounts) -> None:
        """Write what was counted in some batches; it counts once they are marked done."""
        self._files.write_whole(f"{_COUNTS}/{counts.first_batch}", json.dumps(counts.to_json_object()))

    def unsent_counts(self) -> Iterator[tuple[int, str]]:
        """Return what was counted in batches that are done and not forgotten yet: the first batch, and the JSON."""
        done = self.done()
        for first in numbers_in(self._files, _COUNTS):
            text = self._files.read(f"{_COUNTS}/{first}") if first <= done else None
            if text is not None:
                yield first, text

    def forget_counts(self, first: int) -> None:
        """Delete what was counted in the batches from ``first`` on: the controller has it."""
        self._files.delete(f"{_COUNTS}/{first}")

    def mark(self, batch: int) -> None:
        """Record that all batches up to ``batch`` are dealt with."""
        before = numbers_in(self._files, _DONE)
        self._files.write_whole(f"{_DONE}/{batch}", json.dumps(self._owner))
        for number in before:
            self._files.delete(f"{_DONE}/{number}")
        for first, last in self.off():
            if last <= batch:
                self._files.delete(f"{_OFF}/{first}-{last}")

    def record_gaps(self, unknown: Iterable[Unknown], not_kept: Iterable[Unknown] = ()) -> None:
        """Record batches that can no longer be known, or were not to be kept; the same ones again change nothing."""
        for folder, gaps in ((_UNKNOWN, unknown), (_NOT_KEPT, not_kept)):
            for gap in gaps:
                self._files.write_whole(f"{folder}/{gap.first}-{gap.last}", json.dumps(asdict(gap)))

    def switch_off(self) -> int:
        """Record that late rows are not kept after the last batch that was dealt with; return the next one."""
        begun = numbers_in(self._files, _OFF)
        if begun:
            return begun[0]
        first = last_done(self._files) + 1
        self._files.write_whole(f"{_OFF}/{first}", "")
        return first

    def switch_on(self, committed: int) -> None:
        """Record that late rows are kept again; batches up to ``committed`` are read as far as they still can be."""
        for first in numbers_in(self._files, _OFF):
            if committed >= first:
                self._files.write_whole(f"{_OFF}/{first}-{committed}", "")
            self._files.delete(f"{_OFF}/{first}")

    def off(self) -> list[tuple[int, int]]:
        """Return the first and last batches of the times in which late rows were not kept, and that are over."""
        return _spans_in(self._files, _OFF)

    def record_future_rows(self, first: int, future: FutureRowTreatment | None) -> None:
        """Record how future-dated rows are treated from batch ``first`` on: the mode may change with each start."""
        text = json.dumps(None if future is None else future.to_json())
        self._files.write_whole(f"{_FUTURE}/{first}", text)

    def future_rows(self) -> Callable[[int], FutureRowTreatment | None]:
        """Return what says how future-dated rows are treated in a batch; None where they are taken as they are."""
        recorded = self._recorded(_FUTURE)

        def of(batch: int) -> FutureRowTreatment | None:
            treatment = recorded(batch)
            return None if treatment is None else FutureRowTreatment.from_json(treatment)

        return of

    def record_run(self, first: int, run: ReportedRun, kept_from: int) -> None:
        """Record what reports say of a run that begins with batch ``first``.

        Runs all of whose batches are before ``kept_from`` are forgotten.
        """
        begun = numbers_in(self._files, _RUNS)
        for number in begun[: max(bisect_right(begun, kept_from) - 1, 0)]:
            self._files.delete(f"{_RUNS}/{number}")
        self._files.write_whole(f"{_RUNS}/{first}", json.dumps(asdict(run)))

    def run_of(self, batch: int) -> ReportedRun | None:
        """Return what reports say of the run that had a batch; None when it was not recorded."""
        run = self._recorded(_RUNS)(batch)
        return None if run is None else read_object(ReportedRun, run)

    def _recorded(self, name: str) -> Callable[[int], Any]:
        """Return what gives the JSON that was recorded for a batch; None when none was."""
        firsts = numbers_in(self._files, name)
        read = cache(lambda first: json.loads(self._files.read(f"{name}/{first}") or "null"))

        def of(batch: int) -> Any:
            index = bisect_right(firsts, batch) - 1
            return None if index < 0 else read(firsts[index])

        return of

    def knows_future_rows(self) -> bool:
        """Return whether it was ever recorded how future-dated rows are treated."""
        return bool(self._files.names(_FUTURE))
