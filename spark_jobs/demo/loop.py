"""The loop that the demonstration shows: run with a guess, wait for the recommendation, restart with it, compare."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from rich.console import Console

from tidemark.models.operators import TimeWindow
from tidemark.spark_jobs import flush
from tidemark.spark_jobs.demo.controller_process import ControllerProcess, DemoError
from tidemark.spark_jobs.demo.feed import Feed
from tidemark.spark_jobs.demo.outcome import Outcome, outcome_of, read_sink
from tidemark.spark_jobs.demo.plan import Plan
from tidemark.spark_jobs.demo.replaying import Run, replay
from tidemark.spark_jobs.demo.view import View, comparison

JOB, STREAM = "demo", "fleet"
_RECOMMENDATION_SECONDS = 180
_FLUSH_SECONDS = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Everything the two runs share."""

    spark: SparkSession
    plan: Plan
    feed: Feed
    operator: TimeWindow
    guess_ms: int
    controller: ControllerProcess
    folder: Path
    console: Console

    def run(self) -> None:
        """Run both, print the comparison and the reasons.

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
        runs = [
            self._outcome(guessed, self.guess_ms, 0),
            self._outcome(recommended, status["applied"]["bound_ms"], guessed.watermark_ms),
        ]
        self.console.print(comparison(runs[0], runs[1], ("guessed", "recommended")))
        self._explain(status)

    def _replay(self, doing: str, until_rows: int, on_progress: Callable[[Run], None]) -> Run:
        run = replay(
            self.spark,
            self.feed,
            operator=self.operator,
            own_bound=f"{self.guess_ms} milliseconds",
            until_rows=until_rows,
            folder=self.folder,
            names=(JOB, STREAM),
            controller_url=self.controller.url,
            on_progress=on_progress,
        )
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
            operator=self.operator,
            bound_ms=bound_ms,
            watermark_us=np.array([watermark_before_ms, run.watermark_ms], np.int64) * 1_000,
            windows=[window for window in read_sink(self.folder / "sink") if window.batch_id in run.facts],
            facts=run.facts,
        )

    def _explain(self, status: dict[str, Any]) -> None:
        kept = status["applied"]["source"] == "job"
        said = (
            "no bound could be recommended, so the job kept its own:"
            if kept
            else "what the controller says now:"
        )
        self.console.print(said)
        for step in (status.get("recommended") or {}).get("steps", []):
            self.console.print(f"  {step['name']}: {step['reason']}", highlight=False)
