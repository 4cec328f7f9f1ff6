"""A job as the controller sees it: it reports by Spark's watermark rule and starts with the published bound."""

from __future__ import annotations

import random
from typing import Any

from tidemark.models.base.operators import Operator, tumbling
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.late_policy import DROPPED, LateTreatment
from tidemark.models.protocol.messages import Acknowledgement, LiveState, Report, to_json_object

from support.controller_app import Controller
from support.reports import START_US
from support.streams import SECOND, Row, report_of

__all__ = ["RolledJob"]

TEN_SECONDS = tumbling("10 seconds")


class RolledJob:
    """One query with one stream; the controller's clock goes along with its batches.

    Args:
        controller: the controller.
        bound_ms: the job's own bound.
        job: name of the job.
        stream: name of its stream.
        seed: of the delays.
        live: whether it can be steered live; then its bound is its ceiling.
    """

    def __init__(
        self,
        controller: Controller,
        *,
        bound_ms: int = 60_000,
        job: str = "job",
        stream: str = "stream",
        seed: int = 1,
        live: bool = False,
    ) -> None:
        self.controller = controller
        self.path = f"/v1/jobs/{job}/streams/{stream}"
        self.pin_url = f"/v1/pin?job={job}&stream={stream}"
        self.job, self.stream = job, stream
        self.own_ms = self.bound_ms = bound_ms
        self.generation: int | None = None
        self.live = live
        self.live_reason = "live"
        self.downstream: Downstream | None = None
        self.late: LateTreatment = DROPPED
        self.batch_id = 0
        self.query_id = "query"
        self.run_number = 0
        self.granule_us = SECOND
        self.at_us = START_US
        self.interval_us = 5 * SECOND
        self.operator: Operator = TEN_SECONDS
        self._random = random.Random(seed)
        self._watermark_ms = self._late_ms = 0
        self._bases_ms: list[int] = []

    def run(self, batches: int, delay_s: float, *, rows: int = 60, tick: bool = True, **changes: Any) -> None:
        """Report ``batches`` whose rows are up to ``delay_s`` late, evenly: one by one with a tick, or all at once."""
        waiting = []
        for _ in range(batches):
            times = [("0", self.at_us - round(self._random.random() * delay_s * SECOND)) for _ in range(rows)]
            waiting.append(self._next(times, **changes))
            if tick:
                self._send(waiting)
                self.controller.tick()
                waiting = []
        self._send(waiting)

    def report(self, rows: list[Row], **changes: Any) -> None:
        """Report the next batch."""
        self._send([self._next(rows, **changes)])

    def _send(self, reports: list[Report]) -> None:
        """Have reports stored, none of which is stored already."""
        receipts = self.controller.report_all(reports)
        assert not any(receipt.duplicate for receipt in receipts), receipts

    def _next(self, rows: list[Row], **changes: Any) -> Report:
        """Return the report of the next batch, with which the clock goes along."""
        base_ms = max(self._bases_ms, default=None)
        mark_ms = self._watermark_ms if base_ms is None else max(self._watermark_ms, base_ms - self.bound_ms)
        fields: dict[str, Any] = {
            "job": self.job,
            "stream": self.stream,
            "query_id": self.query_id,
            "batch_id": self.batch_id,
            "run_id": self.run_id,
            "started_us": self.at_us,
            "duration_ms": 100,
            "watermark_ms": mark_ms,
            "late_base_ms": max(self._bases_ms[:-1], default=None),
            "bound_ms": self.bound_ms,
            "generation": self.generation,
        }
        if self.live:
            fields["live"] = LiveState(
                ceiling_ms=self.bound_ms,
                control_ms=None,
                reason=self.live_reason,
                last_contact_us=self.controller.clock.now_us,
            )
        report: Report = report_of(
            rows,
            self.operator,
            granule_us=self.granule_us,
            **{"late_watermark_ms": self._late_ms, **fields, **changes},
        )
        self.controller.clock.now_us = self.at_us + SECOND
        self._late_ms = self._watermark_ms = mark_ms
        if rows:
            self._bases_ms.append(max(time for _, time in rows) // 1_000)
        self.batch_id += 1
        self.at_us += self.interval_us
        return report

    @property
    def run_id(self) -> str:
        """Spark's id of the run."""
        return f"run {self.run_number}"

    def published(self) -> dict[str, Any]:
        """Return what is published to the job now."""
        answer: dict[str, Any] = self.controller.http.get(self.path + "/bound").json()
        return answer

    def restart(self, *, mode: str = "OnRestart") -> None:
        """Start again with what the controller says, and acknowledge it."""
        body = self.published()
        given = body["bound_ms"] is not None and not self.live
        self.bound_ms = body["bound_ms"] if given else self.own_ms
        self.generation = body["generation"] if given else None
        self.run_number += 1
        self._bases_ms = []
        acknowledgement = Acknowledgement(
            query_id=self.query_id,
            run_id=self.run_id,
            bound_ms=self.bound_ms,
            generation=self.generation,
            source="controller" if given else "job",
            mode=mode,  # type: ignore[arg-type]  # a mode
            applied_us=self.at_us,
            downstream=self.downstream,
            late=self.late,
            ceiling_ms=self.own_ms if self.live else None,
        )
        answer = self.controller.http.post(self.path + "/acks", json=to_json_object(acknowledgement))
        assert answer.status_code == 201, answer.text

    def put(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        """Set the SLO or the policy."""
        before = self.controller.http.get(f"{self.path}/{what}")
        headers = {"If-Match": before.headers["etag"]} if before.status_code == 200 else {}
        answer = self.controller.http.put(f"{self.path}/{what}", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def act(self, path: str, reason: str = "because") -> Any:
        """POST a reason to a path of the stream and return the answer."""
        return self.controller.http.post(self.path + path, json={"reason": reason})

    def rollouts(self) -> list[dict[str, Any]]:
        """Return the stream's rollouts, the newest first."""
        answer = self.controller.http.get(self.path + "/rollouts")
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["rollouts"]
        return found

    def rollout(self) -> dict[str, Any]:
        """Return the newest rollout."""
        return self.rollouts()[0]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the stream's events of a kind, the newest first."""
        answer = self.controller.http.get(self.path + "/events", params={"kind": kind})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["events"]
        return found

    def status(self) -> dict[str, Any]:
        """Return the stream's status."""
        answer: dict[str, Any] = self.controller.http.get(self.path).json()
        return answer

    def wait(self, seconds: int) -> None:
        """Let time go by without a batch."""
        self.at_us += seconds * SECOND
        self.controller.clock.now_us = self.at_us
