"""What a live policy begins with where its checkpoint holds nothing for it: the earlier reports of its stream.

Nothing depends on it. Where the controller does not answer, the policy begins anew and is careful while it learns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tidemark.models.base.text import plural
from tidemark.models.live.defaults import HISTORY_BATCHES, HISTORY_CELLS
from tidemark.models.live.history import learned_from
from tidemark.models.live.learned import Learned
from tidemark.models.live.policy import Setup
from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs.client import ControllerClient, RequestRejected

_PAGE = 500
_log = logging.getLogger("tidemark.spark")


@dataclass(frozen=True, slots=True)
class StreamHistory:
    """The earlier reports of one stream, at its controller."""

    client: ControllerClient
    job: str
    stream: str

    def learned(
        self, setup: Setup, ceiling_us: int, due_us: Callable[[int], int], ended: Callable[[], bool]
    ) -> Learned | None:
        """Return what the policy for ``setup`` learns from them; None when that is nothing.

        Args:
            setup: the problem.
            ceiling_us: the static bound that the plan holds, in microseconds.
            due_us: returns when a batch was due that started at a wall time.
            ended: returns whether the query has ended, and nobody needs the answer any more.

        Raises:
            ControllerUnavailable: when the controller does not answer now.
        """
        reports = self._newest(ended)
        learned = None if ended() else learned_from(reports, setup, ceiling_us, due_us)
        if learned is not None:
            batches = plural(len(reports), "earlier batch", "earlier batches")
            _log.info("stream %s: its live policy begins with what %s have shown", self.stream, batches)
        return learned

    def _newest(self, ended: Callable[[], bool]) -> list[Report]:
        """Return the newest reports, the oldest of them first."""
        found: list[Report] = []
        cells, cursor = 0, None
        try:
            while len(found) < HISTORY_BATCHES and cells < HISTORY_CELLS and not ended():
                page, cursor = self.client.sent_reports(self.job, self.stream, _PAGE, cursor)
                found += page
                cells += sum(len(report.counts.rows) for report in page)
                if cursor is None:
                    break
        except RequestRejected as error:
            _log.warning("stream %s: its earlier reports cannot be used: %s", self.stream, error)
        return found[:HISTORY_BATCHES][::-1]
