"""The loop that the demonstration shows: run with a guess, wait for the recommendation, restart with it, compare."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from tidemark.spark_jobs import flush
from tidemark.spark_jobs.demo.controller_process import ControllerProcess, DemoError
from tidemark.spark_jobs.demo.feed import FileFeed
from tidemark.spark_jobs.demo.fleet import Fleet
from tidemark.spark_jobs.demo.outcome import Outcome, outcome_of, read_sink
from tidemark.spark_jobs.demo.plan import Plan
from tidemark.spark_jobs.demo.replaying import Job, Run, check
from tidemark.spark_jobs.demo.view import View, comparison
from tidemark.spark_jobs.demo.what_if import LIVE, TraceReplays

JOB, STREAM = "demo", "fleet"
_RECOMMENDATION_SECONDS = 180
_FLUSH_SECONDS = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Everything the runs share."""

    job: Job
    """The job."""
    plan: Plan
    """The trace."""
    target_ppm: int
    """The completeness target in parts per million."""
    guess_ms: int
    """The bound that somebody guessed, in milliseconds."""
    safe_ms: int
    """The bound that somebody thinks is safe, in milliseconds."""
    controller: ControllerProcess
    """The controller."""
    console: Console
    """Where to print."""

    def run(self) -> None:
        """Run the job with both bounds, and print the comparison and the reason.

        Raises:
            DemoError: when the query fails, or the controller does not keep up.
        """
        with View(self.console, self.plan.batches) as view:
            guessed = self._replay("guessed bound", self.plan.switch_rows, self._shown(view, 0))
            self._wait_for_recommendation()
            recommended = self._replay(
                "recommended bound", self.plan.rows, self._shown(view, len(guessed.facts))
            )
        status = self.controller.get()
        between_us = (guessed.watermark_ms * 1_000, recommended.watermark_ms * 1_000)
        what_if = TraceReplays(self.plan, self.job.operator, self.target_ppm)
        columns = {
            "too small": self._outcome(guessed, self.guess_ms, 0),
            "safe": what_if.outcome(f"fixed:{self.safe_ms}ms", between_us, self.safe_ms),
            "Tidemark": self._outcome(recommended, status["applied"]["bound_ms"], guessed.watermark_ms),
            "Live": what_if.outcome(LIVE, between_us),
        }
        self.console.print(comparison(columns))
        self._explain(status)

    def go_on(self, feed: FileFeed, fleet: Fleet) -> None:
        """Let the job run on with the rows of the fleet as they arrive, until somebody stops it.

        Raises:
            DemoError: when the query fails.
        """
        query = self.job.start(self.plan.rows)
        try:
            while query.isActive:
                rows = fleet.arrived(time.time_ns() // 1_000)
                if len(rows.event_time_us):
                    feed.write(rows)
                time.sleep(self.plan.slot_us / 1e6)
            check(query)
        finally:
            # Interrupted in the middle of a call, Spark may not answer any more.
            with suppress(Exception):
                query.stop()

    def _replay(self, doing: str, until_rows: int, on_progress: Callable[[Run], None]) -> Run:
        run = self.job.replay(until_rows, on_progress)
        if not flush(_FLUSH_SECONDS):
            raise DemoError(f"{doing}: reports did not reach the controller; see {self.controller.log}")
        return run

    def _shown(self, view: View, before: int) -> Callable[[Run], None]:
        def show(run: Run) -> None:
            status = self.controller.get()
            newest = run.facts[max(run.facts)].state_rows if run.facts else 0
            view.show(
                doing="recommended bound" if before else "guessed bound",
                batches=min(before + len(run.facts), self.plan.batches),
                status=status,
                partitions=self.controller.get("partitions"),
                state_rows=newest,
            )

        return show

    def _wait_for_recommendation(self) -> None:
        """Wait until the decision rests on every report so far."""
        deadline = time.monotonic() + _RECOMMENDATION_SECONDS
        while time.monotonic() < deadline:
            if (self.controller.get().get("recommended") or {}).get("current"):
                return
            time.sleep(0.2)
        raise DemoError(f"no recommendation within {_RECOMMENDATION_SECONDS} s; see {self.controller.log}")

    def _outcome(self, run: Run, bound_ms: int, watermark_before_ms: int) -> Outcome:
        return outcome_of(
            plan=self.plan,
            operator=self.job.operator,
            bound_ms=bound_ms,
            watermark_us=np.array([watermark_before_ms, run.watermark_ms], np.int64) * 1_000,
            windows=[
                window for window in read_sink(self.job.folder / "sink") if window.batch_id in run.facts
            ],
            facts=run.facts,
        )

    def _explain(self, status: dict[str, Any]) -> None:
        steps = (status.get("recommended") or {}).get("steps", [])
        if status["applied"]["source"] == "job":
            why = steps[-1]["reason"] if steps else "there is too little evidence"
            self.console.print(
                f"no bound could be recommended, so the job kept its own: {why}", highlight=False
            )
