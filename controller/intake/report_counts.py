"""What reports add by partition, cached in memory from when they are stored until they are counted (``count_waiting``).

Computing it while the report is at hand costs little; from the stored body it costs as much as storing the report.
It is only a cache: what is missing, or belongs to another report or base, is computed from the body.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.models.evidence.needs import needs_against
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.protocol.messages import Report

_MAX_BYTES = 64 * 1024 * 1024
"""Size of the cache: some 3,000 reports of 64 partitions."""


@dataclass(frozen=True, slots=True)
class ReportCounts:
    """What one report adds by partition."""

    base_ms: int | None
    """The base that its needs are counted against, in milliseconds; None when none is known."""
    needs: PartitionNeeds
    """Its needs."""


def counts_of(report: Report, base_ms: int | None) -> ReportCounts:
    """Return what ``report`` adds, its needs counted against a base in milliseconds."""
    return ReportCounts(base_ms, PartitionNeeds.counted(needs_against(report, base_ms)))


class ReportCountsCache:
    """A cache of what the newest reports add, by the ids of their rows. Thread-safe.

    Args:
        max_bytes: its size; the oldest entries are dropped first.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._held: dict[int, tuple[str, ReportCounts]] = {}
        self._bytes = 0

    def add(self, new: Mapping[int, tuple[str, ReportCounts]]) -> None:
        """Add the counts of committed reports, by id, each with its report's fingerprint."""
        with self._lock:
            for report_id, (digest, counted) in new.items():
                self._drop(report_id)
                self._held[report_id] = digest, counted
                self._bytes += counted.needs.size
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._held)))

    def take(self, report_id: int, digest: str, base_ms: int | None) -> ReportCounts | None:
        """Remove and return the counts of a report; None when they are missing, or of another report or base."""
        with self._lock:
            found = self._drop(report_id)
        if found is None or found[0] != digest or found[1].base_ms != base_ms:
            return None
        return found[1]

    def _drop(self, report_id: int) -> tuple[str, ReportCounts] | None:
        found = self._held.pop(report_id, None)
        if found is not None:
            self._bytes -= found[1].needs.size
        return found
