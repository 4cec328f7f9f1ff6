"""The loop that the demonstration shows: run with a guess, wait for the recommendation, restart with it, compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.catalogue import make_policy
from tidemark.models.backtest.run import run
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.operators import TimeWindow
from tidemark.models.base.target import format_share
from tidemark.models.base.text import plural
from tidemark.models.live.policy import Setup
from tidemark.spark_jobs import flush
from tidemark.spark_jobs.demo.controller_process import ControllerProcess, DemoError
from tidemark.spark_jobs.demo.generator import Fleet
from tidemark.spark_jobs.demo.plan import FileFeed, Plan
from tidemark.spark_jobs.demo.replaying import Job, Outcome, Run, check, outcome_of, read_sink

JOB, STREAM = "demo", "fleet"
_RECOMMENDATION_SECONDS = 180
_FLUSH_SECONDS = 180


_SLOWEST = 3
LIVE = "tidemark"
"""The policy that steers a job in Live, by the name that the backtest has for it."""


def policy(mode: str) -> dict[str, Any]:
    """Return the stream's policy: by default a first bound waits for hours of evidence and for approval."""
    return {
        "mode": mode,
        "approval": "none",
        "evidence_ms": 0,
        "evidence_windows": 0,
        "max_narrowing_ppm": None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Everything the runs share."""

    job: Job
    plan: Plan
    target_ppm: int
    guess_ms: int
    """The bound that somebody guessed, in milliseconds."""
    safe_ms: int
    """The bound that somebody thinks is safe, in milliseconds."""
    controller: ControllerProcess
    console: Console

    def run(self) -> None:
        """Run the job with one bound after the other; print what that brought beside what others would have.

        Raises:
            DemoError: when the query fails, or the controller does not keep up.
        """
        with View(self.console, self.plan.batches) as view:
            guessed = self._replay("guessed bound", self.plan.switch_rows, self._shown(view, 0))
            # A policy that somebody wrote is followed at once, new reports alone only after a while.
            self.controller.put("policy", policy("OnRestart"))
            self._wait_for_recommendation()
            recommended = self._replay(
                "recommended bound", self.plan.rows, self._shown(view, len(guessed.facts))
            )
        status = self.controller.get()
        what_if = TraceReplays(self.plan, self.job.operator, self.target_ppm)
        end_ms = max(guessed.watermark_ms, recommended.watermark_ms)
        times_us = (0, guessed.watermark_ms * 1_000, end_ms * 1_000)
        restarted = (self.guess_ms, status["applied"]["bound_ms"])
        columns = {
            "too small": what_if.outcome(f"fixed:{self.guess_ms}ms", times_us, self.guess_ms),
            "safe": what_if.outcome(f"fixed:{self.safe_ms}ms", times_us, self.safe_ms),
            "restarted": outcome_of(
                plan=self.plan,
                operator=self.job.operator,
                bounds_ms=restarted,
                times_us=times_us,
                windows=read_sink(self.job.folder / "sink"),
                facts=guessed.facts | recommended.facts,
            ),
            "Live": what_if.outcome(LIVE, times_us),
        }
        every = plural(max(outcome.rows for outcome in columns.values()), "row")
        self.console.print(
            f"{every} of windows that closed, target {format_share(self.target_ppm)}:", highlight=False
        )
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

    def _explain(self, status: dict[str, Any]) -> None:
        steps = (status.get("recommended") or {}).get("steps", [])
        if status["applied"]["source"] == "job":
            why = steps[-1]["reason"] if steps else "there is too little evidence"
            self.console.print(
                f"no bound could be recommended, so the job kept its own: {why}", highlight=False
            )


class View:
    """The live part. On a terminal it is redrawn; elsewhere a line is printed for every tenth of the way."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._task: TaskID = self._progress.add_task("starting", total=total)
        self._total = total
        self._shown = -1
        self._live = (
            Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        )

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End drawing; what was drawn goes."""
        if self._live is not None:
            self._live.stop()

    def show(
        self,
        *,
        doing: str,
        batches: int,
        status: Mapping[str, Any],
        partitions: Mapping[str, Any],
        state_rows: int,
    ) -> None:
        """Draw the state of things."""
        self._progress.update(self._task, completed=batches, description=doing)
        if self._live is not None:
            self._live.update(Group(self._progress, _table(status, partitions, state_rows)))
        elif batches * 10 // self._total > self._shown:
            self._shown = batches * 10 // self._total
            self._console.print(
                f"{doing}: batch {batches} of {self._total}, completeness {_completeness(status)}"
            )


def _table(status: Mapping[str, Any], partitions: Mapping[str, Any], state_rows: int) -> RenderableType:
    table = Table(show_header=False, box=None, padding=(0, 2))
    recommended = (status.get("recommended") or {}).get("bound_ms")
    applied = (status.get("applied") or {}).get("bound_ms")
    effective = status.get("effective_bound_ms")
    evidence = status.get("evidence") or {}
    table.add_row("bound applied", _ms(applied))
    table.add_row("bound effective", _ms(effective))
    table.add_row(
        "bound recommended", _ms(recommended) if recommended is not None else "not enough evidence yet"
    )
    table.add_row("completeness so far", _completeness(status))
    table.add_row(
        "evidence",
        f"{plural(evidence.get('rows', 0), 'row')} in {plural(evidence.get('batches', 0), 'batch', 'batches')}",
    )
    table.add_row("state", plural(state_rows, "row"))
    every = partitions.get("partitions", [])
    slowest = sorted(every, key=lambda part: -(part.get("need_ms") or 0))[:_SLOWEST]
    needs = ", ".join(f"{part['partition']} needs {_ms(part.get('need_ms'))}" for part in slowest)
    table.add_row(f"partitions ({len(every)})", needs or "none yet")
    return table


def comparison(columns: Mapping[str, Outcome]) -> Table:
    """Return outcomes side by side, by their labels."""
    table = Table()
    table.add_column("")
    for label in columns:
        table.add_column(label, justify="right")
    outcomes = list(columns.values())
    rows = {
        "how": ["replayed" if outcome.replayed else "on Spark" for outcome in outcomes],
        "bound": [", then ".join(map(_ms, outcome.bounds_ms)) or "varies" for outcome in outcomes],
        "rows lost": [f"{outcome.lost:,}" for outcome in outcomes],
        "in the second half": [f"{outcome.lost_later:,}" for outcome in outcomes],
        "completeness": [
            "unknown" if outcome.completeness is None else _percent(outcome) for outcome in outcomes
        ],
        "mean latency": [
            "unknown" if outcome.latency_us is None else format_about(outcome.latency_us)
            for outcome in outcomes
        ],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _percent(run: Outcome) -> str:
    text = f"{100 * (run.rows - run.lost) / run.rows:.2f}"
    return "99.99 %" if run.lost and text == "100.00" else f"{text} %"


def _ms(value: int | None) -> str:
    return "unknown" if value is None else format_duration(value * 1_000)


def _completeness(status: Mapping[str, Any]) -> str:
    completeness = status.get("completeness") or {}
    rows = completeness.get("rows") or 0
    if not rows:
        return "unknown"
    lowest, highest = rows - completeness["late_max"], rows - completeness["late_min"]
    text = f"{100 * lowest / rows:.2f} %"
    return text if lowest == highest else f"{text} to {100 * highest / rows:.2f} %"


class TraceReplays:
    """Replays of one trace."""

    def __init__(self, plan: Plan, operator: TimeWindow, target_ppm: int) -> None:
        self._setup = Setup(operator=operator, trigger_us=plan.slot_us, target_ppm=target_ppm)
        self._arrivals = _counted(plan, self._setup)

    def outcome(self, policy: str, times_us: tuple[int, int, int], *bounds_ms: int) -> Outcome:
        """Return the outcome under a policy.

        Args:
            policy: its name, as in the backtest: ``tidemark`` or such as ``fixed:60s``.
            times_us: windows count that end after the first event time and up to the third, in microseconds; the job
                was restarted at the second.
            bounds_ms: the bound to show, in milliseconds; none for one that moves.
        """
        done = run(self._arrivals, self._setup, make_policy(policy, self._setup))
        keys = self._arrivals.keys_us
        first_us, restarted_us, last_us = times_us
        chosen = (keys > first_us) & (keys <= last_us)
        # Later windows may still have been open when the trace ended.
        timed = chosen & (keys <= self._arrivals.scored_until_us)
        latency = np.maximum(done.emit_wall_us - keys, 0)[timed]
        return Outcome(
            bounds_ms=bounds_ms,
            rows=int(done.rows_by_key[chosen].sum()),
            lost=int(done.late_by_key[chosen].sum()),
            lost_later=int(done.late_by_key[chosen & (keys > restarted_us)].sum()),
            latency_us=float(latency.mean()) if len(latency) else None,
            replayed=True,
        )


def _counted(plan: Plan, setup: Setup) -> Arrivals:
    rows = plan.arrivals
    names, partition = np.unique(rows.partition, return_inverse=True)
    builder = ArrivalsBuilder(setup)
    builder.add(rows.event_time_us, rows.arrival_time_us, partition, len(names))
    return builder.build()
