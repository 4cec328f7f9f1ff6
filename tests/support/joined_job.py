"""A job that joins two streams, as the controller sees it: one watermark, the minimum of both sides'."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np

from tidemark.models.base.operators import row_level
from tidemark.models.protocol.messages import Acknowledgement, to_json_object

from support.controller_app import Controller
from support.policies import at_once
from support.reports import START_US
from support.streams import SECOND, report_of

__all__ = ["JOIN", "SIDES", "JoinedJob"]

SIDES = ("clicks", "impressions")
TRAIL_S, SPREAD_S = (20.0, 0.0), (0.5, 8.0)
"""Clicks trail by 20 s; so impressions, whose delays are long, have 20 s for nothing."""

JOIN = "/v1/jobs/job/joins/attribution"


class JoinedJob:
    """One query with two streams; the controller's clock goes along with its batches, one a second.

    Args:
        controller: the controller.
        bound_ms: the job's own bound of both sides.
    """

    def __init__(self, controller: Controller, bound_ms: int = 60_000) -> None:
        self.controller = controller
        self.own_ms = bound_ms
        self.bounds_ms = dict.fromkeys(SIDES, bound_ms)
        self.generations: dict[str, int | None] = dict.fromkeys(SIDES)
        self.query_id = "query"
        self.batch_id = self.run_number = 0
        self.at_us = START_US
        self._dice = np.random.default_rng(1)
        self._watermark_ms = self._late_ms = 0
        self._bases_ms: dict[str, list[int]] = {side: [] for side in SIDES}

    def begin(self, target_ppm: int = 950_000, **policy: Any) -> None:
        """Give each stream an SLO of its own and a policy."""
        for side in SIDES:
            self.put(self.path(side, "/slo"), {"target_ppm": target_ppm})
            self.put(self.path(side, "/policy"), at_once(**policy))

    def run(self, batches: int, *, rows: int = 40, without: str | None = None, slower: float = 1.0) -> None:
        """Report batches; the reports of the side ``without`` are lost, and delays are ``slower`` times as long."""
        for _ in range(batches):
            bases = {side: max(self._bases_ms[side], default=None) for side in SIDES}
            if None not in bases.values():
                trailing = min((bases[side] or 0) - self.bounds_ms[side] for side in SIDES)
                mark_ms = max(self._watermark_ms, trailing)
            else:
                mark_ms = self._watermark_ms
            for side, trail_s, spread_s in zip(SIDES, TRAIL_S, SPREAD_S, strict=True):
                delays_s = trail_s + self._dice.exponential(spread_s * slower, rows)
                times = [self.at_us - round(delay_s * SECOND) for delay_s in delays_s.tolist()]
                if side != without:
                    self._report(side, times, mark_ms)
                self._bases_ms[side].append(max(times) // 1_000)
            self._late_ms = self._watermark_ms = mark_ms
            self.batch_id += 1
            self.at_us += SECOND
        self.controller.tick()

    def _report(self, side: str, times: list[int], mark_ms: int) -> None:
        report = report_of(
            [("0", time) for time in times],
            row_level(),
            late_watermark_ms=self._late_ms,
            stream=side,
            query_id=self.query_id,
            run_id=f"run {self.run_number}",
            batch_id=self.batch_id,
            started_us=self.at_us,
            duration_ms=100,
            watermark_ms=mark_ms,
            late_base_ms=max(self._bases_ms[side][:-1], default=None),
            bound_ms=self.bounds_ms[side],
            generation=self.generations[side],
            state_rows=1_000,
        )
        self.controller.clock.now_us = self.at_us + SECOND
        sent = self.controller.http.post(self.path(side, "/reports"), json=to_json_object(report))
        assert sent.status_code == 201, sent.text

    def restart(self, *, query_id: str | None = None) -> None:
        """Start again with what the controller says and acknowledge it; from a new checkpoint with a ``query_id``."""
        self.run_number += 1
        self._bases_ms = {side: [] for side in SIDES}
        if query_id is not None:
            self.query_id, self.batch_id, self._watermark_ms, self._late_ms = query_id, 0, 0, 0
        for side in SIDES:
            body = self.get(self.path(side, "/bound"))
            given = body["bound_ms"] is not None
            self.bounds_ms[side] = body["bound_ms"] if given else self.own_ms
            self.generations[side] = body["generation"] if given else None
            acknowledgement = Acknowledgement(
                query_id=self.query_id,
                run_id=f"run {self.run_number}",
                bound_ms=self.bounds_ms[side],
                generation=self.generations[side],
                source="controller" if given else "job",
                mode="OnRestart",
                applied_us=self.at_us,
            )
            sent = self.controller.http.post(self.path(side, "/acks"), json=to_json_object(acknowledgement))
            assert sent.status_code == 201, sent.text

    def wait(self, seconds: int) -> None:
        """Let time go by without a batch."""
        self.at_us += seconds * SECOND
        self.controller.clock.now_us = self.at_us

    def path(self, side: str, what: str = "") -> str:
        return f"/v1/jobs/job/streams/{side}{what}"

    def get(self, path: str) -> Any:
        answer = self.controller.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def put(self, path: str, body: dict[str, Any], **params: Any) -> dict[str, Any]:
        """PUT as a caller does who has read what is there."""
        answer = self.try_put(path, body, **params)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def try_put(self, path: str, body: dict[str, Any], **params: Any) -> httpx.Response:
        before = self.controller.http.get(path)
        headers = {"If-Match": before.headers["etag"]} if before.status_code == 200 else {}
        answer: httpx.Response = self.controller.http.put(path, json=body, headers=headers, params=params)
        return answer

    def delete(self, path: str, **params: Any) -> dict[str, Any]:
        headers = {"If-Match": self.controller.http.get(path).headers["etag"]}
        answer = self.controller.http.delete(path, headers=headers, params=params)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def join(self, target_ppm: int = 990_000, **changes: Any) -> dict[str, Any]:
        """Set an SLO on the joined output."""
        return self.put(JOIN, {"streams": [*SIDES], "target_ppm": target_ppm, **changes})

    def steps(self, side: str) -> dict[str, str]:
        """Return the reasons of the newest recommendation by the kind of the step."""
        return {step["kind"]: step["reason"] for step in self.get(self.path(side))["recommended"]["steps"]}

    def recommended_ms(self, side: str) -> int | None:
        found: int | None = self.get(self.path(side))["recommended"]["bound_ms"]
        return found

    def rollout(self, side: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(self.path(side, "/rollouts"))["rollouts"][0]
        return found
