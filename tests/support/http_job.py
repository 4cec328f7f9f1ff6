"""A job without Spark: it asks for its bound, acknowledges what it uses, and reports each batch, all by HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemark.controller.tools.client import Client
from tidemark.models.protocol.messages import Acknowledgement, Report

from support.controller_app import Controller
from support.reports import exponential_batches, query_reports, restarted_reports

__all__ = ["OWN_MS", "HttpJob"]

OWN_MS = 60_000
"""The bound in the job's call."""

ROWS = 60
"""Rows in a batch, one a second."""


class HttpJob:
    """Job ``shop`` with the stream ``clicks``, whose rows are two seconds late in the mean.

    Args:
        controller: the controller, whose clock moves with the job's batches.
        client: the way to it.
        batches: how many batches there are, in all runs together.
        sent: what another of these has sent before, which this one goes on with.
    """

    def __init__(
        self, controller: Controller, client: Client, batches: int = 720, *, sent: Sequence[Report] = ()
    ) -> None:
        self.controller = controller
        self._client = client
        self._batches = exponential_batches(batches, ROWS, mean_delay_s=2.0, seed=11)
        self.sent = list(sent)
        """Its reports."""

    def start(self, batches: int = 240) -> None:
        """Start with the bound that there is now and run for some batches; the decision loop ticks meanwhile."""
        body = self._client.bound("shop", "clicks")
        generation = None if body.bound_ms is None else body.generation
        bound_ms = OWN_MS if body.bound_ms is None else body.bound_ms
        names: dict[str, Any] = {
            "job": "shop",
            "stream": "clicks",
            "query_id": "5c9a6a52",
            "run_id": f"from batch {len(self.sent)}",
        }
        acknowledgement = Acknowledgement(
            query_id=names["query_id"],
            run_id=names["run_id"],
            bound_ms=bound_ms,
            generation=generation,
            source="job" if generation is None else "controller",
            mode=body.mode,
            applied_us=self.controller.clock.now_us,
        )
        assert not self._client.acknowledge("shop", "clicks", acknowledgement).duplicate
        rows = self._batches[len(self.sent) :][:batches]
        if self.sent:
            reports = restarted_reports(self.sent, rows, bound_ms=bound_ms, generation=generation, **names)
        else:
            reports = query_reports(rows, bound_ms=bound_ms, **names)
        for report in reports:
            self.controller.clock.now_us = report.started_us + report.duration_ms * 1_000
            self._client.send_report(report)
            self.sent.append(report)
            if report.batch_id % 5 == 4:
                self.controller.tick()
