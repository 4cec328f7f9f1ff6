"""Jobs that are restarted with other bounds, on real Spark, and what the watermarks of their batches must be.

The watermark of every batch is held against rule 2.2: it is what came back with the checkpoint, or what the newest
event time of this run less this run's bound has reached by then.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.models.base.operators import Operator, TimeWindow
from tidemark.models.protocol.messages import Mode
from tidemark.spark_jobs import flush
from tidemark.spark_jobs.core.bound import starting
from tidemark.spark_jobs.restart.between_batches import end_between_batches
from tidemark.spark_jobs.restart.runner import AdaptiveQuery, Parts

from support.bound_server import BoundServer
from support.connect_sink import Going
from support.live_comparisons import Compared, rows_by_batch
from support.live_operators import Plan
from support.live_streams import SECOND_US, Batches, Group, Input, LiveJob, trailing_batches
from support.patience import PATIENCE_S, until

OWN_BOUND = "60 seconds"
"""The job's own; the controller has another one from the start."""

BOUNDS_MS = {"in": (8_000, 1_000, 60_000), "left": (6_000, 1_000, 60_000), "right": (9_000, 3_000, 50_000)}
"""Of each run: the second one is narrower, the third one wider, by more than event time goes on in a run."""

FILES_A_RUN = 3
LAST_RUN = 2


@dataclass
class RestartsCompared(Compared):
    """The same, and what only restarts show."""

    narrowings: int = 0
    """Restarts with a narrower bound."""
    widenings: int = 0
    """Restarts with a wider bound."""
    kept: int = 0
    """Watermarks above what this run's own rows allow: they came back with the checkpoint."""
    sooner: int = 0
    """Watermarks that moved further than the bound of the run before would have moved them."""
    frozen: int = 0
    """Watermarks that stood still though the bound of the run before would have moved them."""


# -- a job whose bound changes --------------------------------------------------------------------------------


@dataclass
class RestartedJob(LiveJob):
    """A job that remembers the bounds of each of its runs, and which batches it began."""

    query: StreamingQuery | None = None
    """As it was last started."""
    bounds_ms: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The bounds that were chosen for the inputs, in milliseconds, by run id."""
    begun: Sequence[int] = ()
    going: threading.Event | Going = field(default_factory=threading.Event)
    """Batches end only while it is set."""

    def __post_init__(self) -> None:
        self.going.set()

    def start(self, frame: DataFrame | None = None) -> StreamingQuery:
        """Start the query with what the controllers say now."""
        with starting() as choices:
            query = super().start(frame)
        chosen = {choice.settings.stream: choice.chosen.bound_ms for choice in choices}
        self.query = query
        self.bounds_ms[str(query.runId)] = tuple(chosen[entry.name] for entry in self.inputs)
        return query

    def runs_of_batches(self) -> dict[int, str]:
        """Return the run id of each batch."""
        return {report.batch_id: report.run_id for report in self.recorded[self.inputs[0].name].reports}

    def delay_us(self, index: int, batch: int) -> int:
        """Return the bound of the run that the batch belongs to, in microseconds."""
        return self.bounds_ms[self.runs_of_batches()[batch]][index] * 1_000

    def _collect(self, df: DataFrame, batch_id: int) -> None:
        self.begun = [*self.begun, batch_id]
        assert self.going.wait(PATIENCE_S), "nobody let the batch end"
        super()._collect(df, batch_id)


@dataclass
class Controllers:
    """One that answers for each input, with the bounds of one run after the other."""

    servers: dict[str, BoundServer]

    def publish(self, run: int, mode: Mode) -> tuple[int, ...]:
        """Answer with the bounds of a run and a mode from now on; return the bounds."""
        for name, server in self.servers.items():
            server.publish(BOUNDS_MS[name][run], mode=mode)
        return tuple(BOUNDS_MS[name][run] for name in self.servers)


Run = tuple[Group, Group]
"""Two groups that come one after the other, each of batches back to back."""


Numbered = Sequence[tuple[int, Run]]
"""Runs, each with its number."""


def started_anew(job: RestartedJob, controllers: Controllers, runs: Numbered) -> None:
    """Run the job as something outside would that starts it now and then; it takes what is published by then."""

    def groups(number: int, run: Run) -> Iterator[Group]:
        first, second = run
        yield first
        if number < LAST_RUN:
            controllers.publish(number + 1, "OnRestart")  # the run that goes on is not to be moved by it
        yield second

    for number, run in runs:
        controllers.publish(number, "OnRestart")
        job.run(groups(number, run))


def restarted_between_batches(job: RestartedJob, controllers: Controllers, runs: Numbered) -> None:
    """Run the job under a runner, which gets the next bounds in the midst of a batch that has others behind it."""
    ending, ended = threading.Event(), list[int | BaseException]()

    def end(query: StreamingQuery, patience_s: float) -> bool:
        ending.set()
        return end_between_batches(query, patience_s)

    runner = AdaptiveQuery(job.start, cooldown_s=0.0, parts=Parts(end=end, poll_s=0.05))

    def follow() -> None:
        try:
            ended.append(runner.run())
        except Exception as error:  # noqa: BLE001 - it is looked at below
            ended.append(error)

    def wait_for(true: Callable[[], bool], what: str) -> None:
        until(lambda: true() or ended, what)
        assert not ended, ended

    def restart_amid(group: Group, number: int) -> None:
        begun = len(job.begun)
        job.going.clear()
        ending.clear()
        job.publish(group)
        wait_for(lambda: len(job.begun) > begun, "the next batch")
        bounds_ms = controllers.publish(number, "Restart")
        wait_for(ending.is_set, "a restart to begin")
        job.going.set()
        wait_for(lambda: [*job.bounds_ms.values()][-1] == bounds_ms, f"a start with {bounds_ms} ms")

    thread = threading.Thread(target=follow, daemon=True)
    starts = len(job.bounds_ms)
    first_number, (first, _) = runs[0]
    controllers.publish(first_number, "Restart")
    job.publish(first)
    thread.start()
    try:
        wait_for(lambda: len(job.bounds_ms) > starts, "the first start")
        for number, (first, second) in runs:
            if number > first_number:
                restart_amid(first, number)
            job.publish(second)
            assert job.query is not None
            job.query.processAllAvailable()
    finally:
        job.going.set()
        runner.stop()
        thread.join(PATIENCE_S)
    assert ended == [0]
    assert flush(PATIENCE_S), "the listener did not report all batches"


def restarted_batches(seed: str, first_id: int = 0) -> Batches:
    """Return a stream with rows that are late under each of the bounds."""
    return trailing_batches(
        seed, 3 * FILES_A_RUN, trail_us=8 * SECOND_US, stray_us=25 * SECOND_US, first_id=first_id
    )


def runs_of(streams: Sequence[Batches], closing: Sequence[Batches]) -> list[Run]:
    """Cut streams into as many runs as there are bounds; the last one also has what closes them."""
    runs = [
        [stream[at : at + FILES_A_RUN] for stream in streams] for at in range(0, len(streams[0]), FILES_A_RUN)
    ]
    result: list[Run] = [
        ([part[: FILES_A_RUN - 1] for part in run], [part[FILES_A_RUN - 1 :] for part in run]) for run in runs
    ]
    first, second = result[-1]
    result[-1] = (first, [[*part, *last] for part, last in zip(second, closing, strict=True)])
    return result


def restarted_job(
    spark: SparkSession,
    folder: Path,
    controllers: Controllers,
    operator: Operator,
    plan: Plan,
    output_mode: str = "append",
    make: Callable[..., RestartedJob] = RestartedJob,
) -> RestartedJob:
    """Return a job, made by ``make``, whose inputs ask the controllers."""
    # A watermark is in whole milliseconds: it cuts no granule of the times that are their own keys.
    granule = None if isinstance(operator, TimeWindow) else "1 ms"
    inputs = [
        Input(name=name, operator=operator, bound=OWN_BOUND, ceiling=None, granule=granule)
        for name in controllers.servers
    ]
    urls = {name: server.url for name, server in controllers.servers.items()}
    return make(spark, folder, inputs, plan, output_mode, mode="OnRestart", controllers=urls)


# -- what is compared -----------------------------------------------------------------------------------------


def compare_watermarks(
    job: RestartedJob, streams: Sequence[Batches], compared: RestartsCompared
) -> list[str]:
    """Compare the watermark of every batch with rule 2.2; return what is wrong.

    Of several inputs the slowest leads, and one that has had no row in this run stands at 0.
    """
    log, runs = job.log(), job.runs_of_batches()
    read = [rows_by_batch(log, index, batches) for index, batches in enumerate(streams)]
    newest_ms: list[int | None] = [None] * len(streams)
    watermark_ms, wrong = 0, []
    bounds_ms = before_ms = job.bounds_ms[runs[0]]
    for number, logged in enumerate(log):
        if logged.watermark_ms != watermark_ms:
            wrong.append(f"W({number}) is {logged.watermark_ms}, not {watermark_ms}")
        if number and runs[number] != runs[number - 1]:
            before_ms, bounds_ms = bounds_ms, job.bounds_ms[runs[number]]
            newest_ms = [None] * len(streams)
            compared.restarts += 1
            compared.narrowings += bounds_ms < before_ms
            compared.widenings += bounds_ms > before_ms
        for index, rows in enumerate(read):
            for row in rows[number]:
                newest_ms[index] = max(newest_ms[index] or 0, row.event_time_us // 1_000)
        allowed_ms = _allowed_ms(newest_ms, bounds_ms)
        other_ms = _allowed_ms(newest_ms, before_ms)
        compared.kept += 0 < allowed_ms < watermark_ms
        compared.sooner += allowed_ms > max(watermark_ms, other_ms)
        compared.frozen += allowed_ms < watermark_ms < other_ms
        compared.no_data += not any(rows[number] for rows in read)
        watermark_ms = max(watermark_ms, allowed_ms)
    compared.batches += len(log)
    return wrong


def _allowed_ms(newest_ms: Sequence[int | None], bounds_ms: Sequence[int]) -> int:
    pairs = zip(newest_ms, bounds_ms, strict=True)
    return min(0 if newest is None else newest - bound for newest, bound in pairs)


def compare_bounds(job: RestartedJob) -> list[str]:
    """Compare the bounds of the runs with what was published, acknowledged and reported; return what is wrong."""
    wrong = []
    if [*job.begun] != list(range(len(job.begun))):
        wrong.append(f"batches {job.begun} were begun: one was cut off, or left out")
    for index, entry in enumerate(job.inputs):
        recorded = job.recorded[entry.name]
        started = [bounds_ms[index] for bounds_ms in job.bounds_ms.values()]
        # Two inputs may be heard one after the other, with a start in between.
        if [bound_ms for bound_ms, _ in itertools.groupby(started)] != [*BOUNDS_MS[entry.name]]:
            wrong.append(f"{entry.name}: the runs had {started}")
        if [body.bound_ms for body in recorded.acknowledgements] != started:
            wrong.append(f"{entry.name}: {recorded.acknowledgements} were acknowledged of {started}")
        wrong += [
            f"{entry.name}: batch {report.batch_id} was reported with {report.bound_ms}"
            for report in recorded.reports
            if report.bound_ms != job.bounds_ms[report.run_id][index]
        ]
    return wrong
