"""The runner: keeps a query running, and starts it again with a new bound where its stream's mode is ``Restart``.

A restart comes between two batches, in the same session and from the same checkpoint: the query ends after the batch
that runs, and ``build`` is called anew, so that ``adaptive_watermark`` in it asks for the bound anew. No batch is cut
off or run twice. In mode ``OnRestart`` the runner never restarts by itself, and without a controller it only waits.

A restart that was for a bound must not cost the job: when the query fails before it has brought a batch to its end, the
bounds that last worked are put back, and the generation that failed is not tried again. Whatever else a query fails of
is raised, as ``awaitTermination`` would.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.models.base.duration import format_about
from tidemark.spark_jobs.core.arguments import checked, instance
from tidemark.spark_jobs.core.bound import Choice, ChosenBound, starting
from tidemark.spark_jobs.core.connections import flush
from tidemark.spark_jobs.core.watch import BoundWatch, watch_of
from tidemark.spark_jobs.restart.between_batches import end_between_batches
from tidemark.spark_jobs.restart.restart_rule import (
    DEFAULT_COOLDOWN_S,
    Change,
    ProvenBounds,
    RestartRule,
    change_of,
    write_marker,
)

EXIT_NEW_BOUND = 75
"""Exit code (EX_TEMPFAIL of sysexits): the job ended between two batches for a new bound; start it again."""

_PATIENCE_S = 600.0
_POLL_S = 1.0
_TRIES = 6
"""Starts with the bounds that worked before the runner gives up: it ended the query, so it has to bring it back."""

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_log = logging.getLogger("tidemark.spark")
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a runner works with, to be replaced where time or Spark is not to be the real one."""

    watch: Callable[[Choice], BoundWatch] = watch_of
    """Returns a watch, not started, of a choice's stream."""
    end: Callable[[StreamingQuery, float], bool] = end_between_batches
    """Ends a query between two batches, with so many seconds of patience; returns whether it has ended."""
    clock_us: Callable[[], int] = lambda: time.time_ns() // 1_000
    """Returns the wall time in microseconds since the epoch."""
    monotonic: Callable[[], float] = time.monotonic
    """Returns a time in seconds that only grows."""
    sleep: Callable[[float], object] | None = None
    """Waits so many seconds; None: returns early when the runner is stopped."""
    draw: Callable[[], float] = random.random
    """Returns a random number between 0 and 1."""
    poll_s: float = _POLL_S
    """How often the query and the watches are checked, in seconds."""


@dataclass(slots=True)
class _Run:
    """One start of the query."""

    query: StreamingQuery
    choices: dict[_Key, Choice]
    on_trial: bool
    """Whether the runner restarted it and it has not brought a batch to its end since."""

    @property
    def bounds(self) -> dict[_Key, ChosenBound]:
        return {key: choice.chosen for key, choice in self.choices.items()}


class AdaptiveQuery:
    """A query that is started again when its stream's mode is ``Restart`` and a new bound was published.

    Args:
        build: makes the whole plan, from reading on, starts the query and returns it: what a plain job does up to and
            with ``start()`` or ``toTable()``, which is why it does not return the writer. It is called at each
            start, in the thread of ``run``, and must use the same checkpoint each time.
        cooldown_s: minimum time between two restarts, in seconds; a narrower bound must be published for as long.
        exit_on_new_bound: end for good between two batches instead of starting again, for a job that something outside
            starts again; see ``run_and_exit``. The start counts as a restart then, since it may have been one.
        marker: file that says which bound the job ended for; ``spark.tidemark.restart.marker`` unless given.
        patience_s: how long to wait for a gap between two batches where Spark cannot end a query after a batch, in
            seconds. Without a gap the query runs on for a cooldown; a batch is never cut off.
        parts: replacements for time and Spark, for tests.

    Raises:
        ValueError: when the cooldown is negative.
    """

    @checked(parts=instance(Parts, "replacements, for tests").or_none())
    def __init__(
        self,
        build: Callable[[], StreamingQuery],
        *,
        cooldown_s: float = DEFAULT_COOLDOWN_S,
        exit_on_new_bound: bool = False,
        marker: Path | None = None,
        patience_s: float = _PATIENCE_S,
        parts: Parts | None = None,
    ) -> None:
        self._build = build
        self._exit = exit_on_new_bound
        self._marker = marker
        self._patience_s = patience_s
        self._parts = parts or Parts()
        self._stopped = threading.Event()
        self._sleep = self._parts.sleep or self._stopped.wait
        restarted_s = self._parts.monotonic() if exit_on_new_bound else None
        self._rule = RestartRule(cooldown_s, restarted_s, self._parts.draw)
        self._watches: dict[_Key, BoundWatch] = {}
        self._built: list[Choice] = []
        self._proven = ProvenBounds()
        self._tries = 0
        self._logged: Change | None = None
        self._query: StreamingQuery | None = None

    @property
    def query(self) -> StreamingQuery | None:
        """The query as it was last started; None before the first start. A restart replaces it."""
        return self._query

    def stop(self) -> None:
        """Let ``run`` end the query after its batch and return; callable from any thread or signal handler."""
        self._stopped.set()

    def run(self) -> int:
        """Start the query and follow it until it ends; return the code to exit with.

        Returns:
            0 when the query ended by itself or was stopped; ``EXIT_NEW_BOUND`` when it was ended to be started again.

        Raises:
            Exception: what ``build`` raises at the first start, or the query fails of, unless it was restarted for a
                bound and the bounds that last worked could be put back.
        """
        run: _Run | None = self._start({}, on_trial=False)
        try:
            while run is not None:
                try:
                    change = self._wait_for_change(run)
                    if change is None:
                        return 0
                    if not self._parts.end(run.query, self._patience_s):
                        self._leave_alone(change)
                        continue
                except StreamingQueryException as error:
                    if not run.on_trial or _has_committed(run.query):
                        raise
                    run = self._put_back(run.bounds, error)
                    continue
                if self._exit:
                    self._mark(change)
                    return EXIT_NEW_BOUND
                run = self._start_again(run, change)
        finally:
            for watch in self._watches.values():
                watch.close()
        return 0

    # -- following ----------------------------------------------------------------------------------------------

    def _wait_for_change(self, run: _Run) -> Change | None:
        """Return the change that the query is to be ended for; None when it has ended."""
        while not run.query.awaitTermination(self._parts.poll_s):  # type: ignore[arg-type]  # parts of a second are taken
            if self._stopped.is_set():
                if self._parts.end(run.query, self._patience_s):
                    return None
                continue
            self._take_trial(run)
            change = self._due(run)
            if change is not None:
                return change
        return None

    def _take_trial(self, run: _Run) -> None:
        """Note it when a restarted query has brought its first batch to its end."""
        if not run.on_trial or not _has_committed(run.query):
            return
        run.on_trial, self._tries = False, 0
        if self._proven.work(run.bounds):
            self._rule.worked()

    def _due(self, run: _Run) -> Change | None:
        changes = [change for choice in run.choices.values() if (change := self._change(choice))]
        now_s = self._parts.monotonic()
        first = self._rule.first(changes, now_s)
        if first is None:
            self._logged = None
            return None
        if not first.wait_s:
            return first.change
        if first.change != self._logged:
            self._logged = first.change
            _log.warning("%s; the query restarts for it in %s", first.change, _rough(first.wait_s))
        return None

    def _change(self, choice: Choice) -> Change | None:
        watch = self._watches.get(choice.key)
        if watch is None or watch.latest is None:
            return None
        return None if self._proven.has_failed(choice.key, watch.latest) else change_of(choice, watch.latest)

    def _leave_alone(self, change: Change) -> None:
        self._rule.postponed(self._parts.monotonic())
        _log.warning("%s; but there was no gap between two batches, so the query runs on", change)

    # -- starting -----------------------------------------------------------------------------------------------

    def _start(self, bounds: Mapping[_Key, ChosenBound], *, on_trial: bool) -> _Run:
        with starting(bounds) as self._built:
            query = self._build()
        # Over Spark Connect it is another class, without a common one.
        if not hasattr(query, "awaitTermination"):
            raise TypeError(
                f"build must start the query and return it, a StreamingQuery; it returned a {type(query).__name__}"
            )
        self._query = query
        run = _Run(query, {choice.key: choice for choice in self._built}, on_trial)
        self._watch(run)
        return run

    def _watch(self, run: _Run) -> None:
        """Watch the streams of the plan, and no others."""
        # A job with its own pin keeps its bound, so it need not watch.
        movable = {
            key: choice
            for key, choice in run.choices.items()
            if choice.client and choice.settings.pin is None
        }
        for key in self._watches.keys() - movable.keys():
            self._watches.pop(key).close()
        for key in movable.keys() - self._watches.keys():
            self._watches[key] = self._parts.watch(movable[key])
            self._watches[key].start()

    def _start_again(self, ended: _Run, change: Change) -> _Run | None:
        if not ended.on_trial:
            self._proven.work(ended.bounds)
        _log.warning("%s; the query ended after a batch and starts again", change)
        self._rule.restarted(self._parts.monotonic())
        try:
            return self._start(self._newest(ended), on_trial=True)
        except Exception as error:  # noqa: BLE001 - the query ran before the runner ended it, so any error is the runner's
            return self._put_back({choice.key: choice.chosen for choice in self._built}, error)

    def _newest(self, ended: _Run) -> dict[_Key, ChosenBound]:
        """Return the bounds to start with: what the watches heard last, and not from answers that failed."""
        answers = {key: watch.latest for key, watch in self._watches.items()}
        return {
            key: self._proven.instead_of(key, answer) or ended.choices[key].by(answer)
            for key, answer in answers.items()
            if answer is not None
        }

    def _put_back(self, failed: Mapping[_Key, ChosenBound], error: Exception) -> _Run | None:
        """Start again with the bounds that last worked; None when the runner was stopped meanwhile."""
        _log.warning("the query failed before its first batch was done: %s", _first_line(error))
        blamed = self._proven.fail(failed)
        if blamed:
            wait_s = self._rule.failed(self._parts.monotonic())
            _log.warning("%s; a newer one is tried in %s at the earliest", "; ".join(blamed), _rough(wait_s))
        while self._tries < _TRIES:
            self._tries += 1
            longest_s = min(_FIRST_PAUSE_S * 2.0**self._tries, _LONGEST_PAUSE_S)
            self._sleep(longest_s * self._parts.draw())
            if self._stopped.is_set():
                return None
            try:
                return self._start(self._proven.put_back(_first_line(error)), on_trial=True)
            except Exception as again:  # noqa: BLE001 - as above
                _log.warning(
                    "the query does not start with the bounds that last worked: %s", _first_line(again)
                )
                error = again
        _log.error("giving up after %d starts with the bounds that last worked", _TRIES)
        raise error

    # -- ending for good ----------------------------------------------------------------------------------------

    def _mark(self, change: Change) -> None:
        _log.warning("%s; the query ended after a batch, to be started again from outside", change)
        markers = {choice.key: choice.settings.restart_marker for choice in self._built}
        marker = self._marker or markers[change.key]
        if marker is not None:
            write_marker(marker, change, self._parts.clock_us())


def _has_committed(query: StreamingQuery) -> bool:
    """Return whether this run of the query has brought a batch to its end; idle triggers make progress, too."""
    return any("addBatch" in progress["durationMs"] for progress in query.recentProgress)


def _rough(seconds: float) -> str:
    return format_about(seconds * 1_000_000)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


@checked()
def run_adaptive(
    build: Callable[[], StreamingQuery],
    *,
    cooldown_s: float = DEFAULT_COOLDOWN_S,
    exit_on_new_bound: bool = False,
    marker: Path | None = None,
) -> int:
    """Run a query to its end, restarting it between batches for new bounds; return the code to exit with.

        def build() -> StreamingQuery:
            return counts(read(spark)).writeStream.option("checkpointLocation", ...).start()

        run_adaptive(build)  # was: build().awaitTermination()

    The arguments and what is raised are those of ``AdaptiveQuery``, which is for those who want to stop the query or
    get hold of it.
    """
    return AdaptiveQuery(
        build, cooldown_s=cooldown_s, exit_on_new_bound=exit_on_new_bound, marker=marker
    ).run()


@checked()
def run_and_exit(
    build: Callable[[], StreamingQuery],
    *,
    exit_on_new_bound: bool = True,
    cooldown_s: float = DEFAULT_COOLDOWN_S,
    marker: Path | None = None,
) -> NoReturn:
    """Be the last line of a job: run its query, let the reports go out, and exit.

    The contract with whatever starts the job, such as Airflow or Kubernetes: when a new bound is due in mode
    ``Restart``, the query ends between two batches and the process exits with 75 (``EXIT_NEW_BOUND``). The job is to be
    started again, with the same checkpoint, and takes the bound then. 0 means that the query ended by itself, and
    everything else is a failure. ``spark-submit`` in client mode exits with the same code. Before it exits with 75 the
    job writes the file that ``spark.tidemark.restart.marker`` names, if it is set; nobody removes it
    (``restart_rule.write_marker`` says what is in it).

    A run lasts at least ``cooldown_s`` seconds before it ends for a bound, except for a kill switch. A bound that makes
    the job fail goes unnoticed, since the next start knows nothing of this one; ``spark.tidemark.pin=off`` helps.

    Args:
        build: makes the plan, starts the query and returns it; see ``AdaptiveQuery``.
        exit_on_new_bound: False for a job that nobody starts again: the query restarts in place, and the code is 0.
        cooldown_s: minimum time between two restarts, and how long a narrower bound must be published, in seconds.
        marker: file to write; ``spark.tidemark.restart.marker`` unless given.

    Raises:
        SystemExit: with the code.
        Exception: what ``AdaptiveQuery.run`` raises.
    """
    try:
        code = run_adaptive(build, cooldown_s=cooldown_s, exit_on_new_bound=exit_on_new_bound, marker=marker)
    finally:
        if not flush():
            _log.warning("some reports did not reach the controller")
    sys.exit(code)
