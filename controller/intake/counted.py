"""What reports add by partition, kept in memory from when they are taken until they are counted (``waiting``).

It is worked out with the report at hand and costs little then; from the stored body it costs as much as taking the
report. Nothing rests on it: what is not here, or is of another report or another base, is worked out from the body.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.models.cells import cells_of
from tidemark.models.late_base import needs_against
from tidemark.models.ledger import Judgement, judge
from tidemark.models.operators import Operator
from tidemark.models.partition_needs import PartitionNeeds
from tidemark.models.wire import Report

__all__ = ["Counted", "CountedReports", "counted_from"]

MAX_BYTES = 64 * 1024 * 1024
"""How much is kept: some 3,000 reports of 64 partitions."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What one report adds by partition."""

    operator: Operator
    """The operator that the judgement's keys are of."""
    judgement: Judgement
    """What became of its rows."""
    base_ms: int | None
    """The base that its needs were counted against, in milliseconds; None when none is known."""
    needs: PartitionNeeds
    """Its needs."""

    @property
    def size(self) -> int:
        """Roughly how many bytes it takes."""
        held = self.judgement
        names = 100 * len(held.partitions)
        return names + held.parts.nbytes + held.keys_us.nbytes + held.counts.nbytes + self.needs.size


def counted_from(report: Report, base_ms: int | None) -> Counted:
    """Return what ``report`` adds against a base in milliseconds."""
    cells = cells_of(report)
    needs = PartitionNeeds.counted(needs_against(report, base_ms, cells))
    return Counted(report.operator, judge(report, cells), base_ms, needs)


class CountedReports:
    """What the newest reports add, by the ids of their rows; for all threads.

    Args:
        max_bytes: how much is kept; what came first goes first.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._held: dict[int, tuple[str, Counted]] = {}
        self._bytes = 0

    def add(self, new: Mapping[int, tuple[str, Counted]]) -> None:
        """Keep what reports add, by id, each with the fingerprint of its report; they are committed."""
        with self._lock:
            for report_id, (digest, counted) in new.items():
                self._drop(report_id)
                self._held[report_id] = digest, counted
                self._bytes += counted.size
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._held)))

    def take(self, report_id: int, digest: str, base_ms: int | None) -> Counted | None:
        """Return, and forget, what a report adds; None when it is not here, or not of this report and base."""
        with self._lock:
            found = self._drop(report_id)
        if found is None or found[0] != digest or found[1].base_ms != base_ms:
            return None
        return found[1]

    def _drop(self, report_id: int) -> tuple[str, Counted] | None:
        found = self._held.pop(report_id, None)
        if found is not None:
            self._bytes -= found[1].size
        return found
