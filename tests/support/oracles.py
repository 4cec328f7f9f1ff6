"""What reports add up to, computed from the reports alone: the truth that the controller's tables are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tidemark.models.base.granules import SPARK_TICK_US, granule_first_us
from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.completeness import LedgerCompleteness
from tidemark.models.evidence.coverage import Coverage, coverage_of
from tidemark.models.evidence.curve import Replay, spark_bases
from tidemark.models.evidence.ledger import Tally, judge
from tidemark.models.live.policy import NO_BASE_US
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import Report


def tallies_of(report: Report) -> dict[tuple[str, int], Tally]:
    """Return the judgement of a report by (partition, key in microseconds): that of each partition by itself."""
    found: dict[tuple[str, int], Tally] = {}
    for part in report.counts.by_partition():
        judgement = judge(replace(report, counts=GranuleCounts.of((part,))))
        found |= {(part.partition, key_us): tally for key_us, tally in judgement.tallies.items()}
    return found


class Ledger:
    """The judgements of many reports, each counted once."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, int], Tally] = {}
        """By (partition, key in microseconds)."""
        self.unjudged_rows = 0
        """Rows whose fate is unknown."""
        self._batches: dict[str, set[int]] = {}
        self._keys_per_row = 1

    def add(self, report: Report) -> bool:
        """Count ``report``; return False, and change nothing, when its (query id, batch id) was counted before."""
        seen = self._batches.setdefault(report.query_id, set())
        if report.batch_id in seen:
            return False
        seen.add(report.batch_id)
        for cell, tally in tallies_of(report).items():
            self.tallies[cell] = self.tallies.get(cell, Tally()) + tally
        self.unjudged_rows += judge(report).unjudged_rows
        self._keys_per_row = max(self._keys_per_row, report.operator.max_keys)
        return True

    def by_key(self) -> dict[int, Tally]:
        """Return the tallies over all partitions by key (for windows: by window end), in microseconds."""
        result: dict[int, Tally] = {}
        for (_, key), tally in sorted(self.tallies.items(), key=lambda item: item[0][1]):
            result[key] = result.get(key, Tally()) + tally
        return result

    def coverage(self) -> dict[str, Coverage]:
        """Return by query id which batches are known and which are missing."""
        found = {
            query: coverage_of((batch, batch) for batch in batches)
            for query, batches in self._batches.items()
        }
        return {query: coverage for query, coverage in found.items() if coverage is not None}

    def completeness(self) -> LedgerCompleteness:
        """Return the completeness over everything counted."""
        total = sum(self.tallies.values(), Tally())
        missing = sum(coverage.missing_batches for coverage in self.coverage().values())
        return LedgerCompleteness(
            total.rows, total.late_min, total.late_max, self.unjudged_rows, missing, self._keys_per_row
        )


def replay_reports(reports: Sequence[Report]) -> Replay:
    """Return the replay of a query's recorded batches, without a gap and in order, through Spark.

    Raises:
        ValueError: when a batch is missing, given twice or out of order, when rows were not counted by granule, or
            when the reports are of several streams.
    """
    if not reports:
        raise ValueError("there is no report to replay")
    first = reports[0]
    keys, counts, steps = [], [], []
    for position, report in enumerate(reports):
        if report.batch_id != first.batch_id + position or report.query_id != first.query_id:
            raise ValueError(
                f"expected batch {first.batch_id + position} of {first.query_id}, got {report.batch_id}"
            )
        if report.uncounted_rows:
            raise ValueError(
                f"batch {report.batch_id}: {report.uncounted_rows} rows were not counted by granule"
            )
        for part in report.counts.by_partition():
            times = granule_first_us(np.asarray(part.granules, np.int64), report.granule_us, report.closed)
            row, key = report.operator.keys(times)
            keys.append(key)
            counts.append(np.asarray(part.counts, np.int64)[row])
            steps.append(np.full(len(key), position, np.int64))
    maxima = np.array(
        [NO_BASE_US if report.max_event_time_us is None else report.max_event_time_us for report in reports],
        np.int64,
    )
    late, emit = spark_bases(maxima)
    wall = np.array([report.started_us + report.duration_ms * 1_000 for report in reports], np.int64)
    return Replay(_joined(keys), _joined(counts), _joined(steps), late, emit, wall, SPARK_TICK_US)


def _joined(parts: list[Int64s]) -> Int64s:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
