"""A job that reports as time goes on; what it reports can be changed."""

from __future__ import annotations

import random
import threading
import time
from typing import Self

import httpx

from tidemark.models.base.operators import tumbling
from tidemark.models.protocol.messages import Report, to_json_object

from support.patience import PATIENCE_S
from support.streams import SECOND, Row, report_of

__all__ = ["PacedJob", "PacedReports"]

TEN_SECONDS = tumbling("10 seconds")
PARTITIONS = 4
ROWS = 40
"""Rows of a partition in a batch."""


class PacedReports:
    """The reports of a job, by Spark's watermark rule, whenever one is asked for.

    Args:
        job: name of the job; its stream is called ``stream``.
        bound_ms: its own bound.
    """

    def __init__(self, job: str, *, bound_ms: int) -> None:
        self.job = job
        self.bound_ms = bound_ms
        self.slow_s: dict[int, float] = {}
        """By partition, how much later its rows are."""
        self.late_share = 0.0
        """Share of the rows that are two minutes late."""
        self.stopped = False
        """Whether nothing is reported for the time being."""
        self._dice = random.Random(job)
        self._bases_ms: list[int] = []
        self._watermark_ms = self._late_ms = 0
        self._batch = 0

    def next(self, now_us: int) -> Report:
        """Return the report of a batch that runs now."""
        rows = [row for number in range(PARTITIONS) for row in self._rows(number, now_us)]
        base_ms = max(self._bases_ms, default=None)
        mark_ms = self._watermark_ms if base_ms is None else max(self._watermark_ms, base_ms - self.bound_ms)
        report = report_of(
            rows,
            TEN_SECONDS,
            granule_us=SECOND,
            job=self.job,
            batch_id=self._batch,
            started_us=now_us,
            duration_ms=100,
            late_watermark_ms=self._late_ms,
            watermark_ms=mark_ms,
            late_base_ms=max(self._bases_ms[:-1], default=None),
            bound_ms=self.bound_ms,
        )
        self._late_ms = self._watermark_ms = mark_ms
        self._bases_ms.append(max(time_us for _, time_us in rows) // 1_000)
        self._batch += 1
        return report

    def _rows(self, number: int, now_us: int) -> list[Row]:
        found = []
        for _ in range(ROWS):
            delay_s = self._dice.random() + self.slow_s.get(number, 0)
            if self._dice.random() < self.late_share:
                delay_s += 120
            found.append((str(number), now_us - round(delay_s * SECOND)))
        return found


class PacedJob(PacedReports):
    """Use it as a context: from its beginning to its end it reports once a second, by the clock, over HTTP.

    Args:
        url: address of the controller.
        job: as of ``PacedReports``.
        bound_ms: as of ``PacedReports``.
    """

    def __init__(self, url: str, job: str, *, bound_ms: int) -> None:
        super().__init__(job, bound_ms=bound_ms)
        self.path = f"{url}/v1/jobs/{job}/streams/stream"
        self._end = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with httpx.Client(timeout=PATIENCE_S) as http:
                while not self._end.wait(1):
                    if not self.stopped:
                        report = to_json_object(self.next(time.time_ns() // 1_000))
                        http.post(self.path + "/reports", json=report).raise_for_status()
        except Exception as error:  # noqa: BLE001 - raised where the job ends
            self._error = error
