"""What of a trace is evidence: misdated rows are left out of replays, counted and explained.

Spark drops them under every bound and every policy (``models.misdated``), so they distinguish none. Rows dated more
than the longest delay after their arrival are left out too: a controller quarantines what is far ahead.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from tidemark.controller.traces.format import Trace, TraceError
from tidemark.models.base.text import plural
from tidemark.models.evidence.misdated import LONGEST_DELAY_US, explained, misdated
from tidemark.models.live.policy import NO_BASE_US
from tidemark.models.recommend.choice import percent_of

_NAMES_SHOWN = 10
"""How many partitions the note names."""

_REASONS_SHOWN = 3
"""How many ways in which rows are misdated it names."""


class PlausibleRows:
    """Leaves misdated rows out of a trace that is read in parts, and counts them.

    Args:
        now_us: wall time in microseconds, by which arrivals are judged.
    """

    def __init__(self, now_us: int) -> None:
        self._now_us = now_us
        self._base_us = NO_BASE_US
        self._clocks_agree: bool | None = None
        self._rows = 0
        self._last_arrival_us: int | None = None
        self._misdated: Counter[str] = Counter()
        self._explained: dict[str, None] = {}

    def of(self, part: Trace) -> Trace:
        """Return the plausible rows of the next part."""
        if not len(part):
            return part
        event_us, arrival_us = part.event_time_us, part.arrival_time_us
        ahead = event_us > arrival_us + LONGEST_DELAY_US
        if self._clocks_agree is None:
            self._clocks_agree = not bool(ahead.all())
        if not self._clocks_agree:
            ahead[:] = False
        reached_us = np.maximum.accumulate(np.where(ahead, NO_BASE_US, event_us))
        base_us = np.maximum(np.concatenate([[NO_BASE_US], reached_us[:-1]]), self._base_us)
        wrong = ahead | misdated(event_us, base_us, arrival_us)
        self._base_us = max(self._base_us, int(reached_us[-1]))
        self._rows += len(part)
        self._last_arrival_us = int(arrival_us[-1])
        if not wrong.any():
            return part
        for partition, rows in enumerate(np.bincount(part.partition[wrong]).tolist()):
            if rows:
                self._misdated[part.partitions[partition]] += rows
        for at in np.flatnonzero(wrong)[:: max(int(wrong.sum()) // _NAMES_SHOWN, 1)].tolist():
            self._explained[explained(int(event_us[at]), int(arrival_us[at]))] = None
        right = ~wrong
        return Trace(event_us[right], arrival_us[right], part.partition[right], part.partitions)

    def reject_if_none(self, path: Path) -> None:
        """Reject a trace of which nothing is left.

        Raises:
            TraceError: when all rows so far are misdated.
        """
        wrong = self._misdated.total()
        if wrong and wrong == self._rows:
            raise TraceError(
                f"{path}: all {plural(wrong, 'row')} are {self._dated} Make the trace again with the right --unit"
            )

    def notes(self, what: str = "left out") -> list[str]:
        """Return what the user should know, a line each, that of misdated rows beginning with ``what``."""
        found = []
        wrong, names = self._misdated.total(), sorted(self._misdated)
        if wrong:
            more = len(names) - _NAMES_SHOWN
            which = f"{'partition' if len(names) == 1 else 'partitions'} {', '.join(map(repr, names[:_NAMES_SHOWN]))}"
            which += f" and {more:,} more" if more > 0 else ""
            share, are = percent_of(wrong, self._rows), "is" if wrong == 1 else "are"
            found.append(
                f"{what}: {plural(wrong, 'row')} of {which}, {share} of all, {are} {self._dated} "
                "No bound is meant for them"
            )
        last_us = self._last_arrival_us
        if last_us is not None and misdated(np.array([last_us]), None, self._now_us).any():
            dated = explained(last_us, self._now_us)
            found.append(f"note: arrivals are {dated} Then all delays here are too short by the same factor")
        return found

    @property
    def _dated(self) -> str:
        text = "; ".join(list(self._explained)[:_REASONS_SHOWN])
        return text if text.endswith("?") else f"{text}."
