"""What the live policies of a query have learned: kept in its checkpoint, or learned from its stream's earlier reports.

The next driver goes on with it. Nothing depends on it: a file that cannot be used or written costs what the policy
knew, and the log says so; where the controller does not answer, the policy begins anew and is careful while it learns.
What cannot be used, and what a policy knew that failed, is kept beside it under another name.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tidemark.models.base.text import plural
from tidemark.models.live.defaults import HISTORY_BATCHES, HISTORY_CELLS
from tidemark.models.live.history import learned_from
from tidemark.models.live.learned import Learned, unpacked
from tidemark.models.live.policy import Setup
from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs.core.client import ControllerClient, ControllerUnavailable, RequestRejected
from tidemark.spark_jobs.live.queries import LiveQueries
from tidemark.spark_jobs.spark.checkpoint import UNUSABLE, HadoopFiles
from tidemark.spark_jobs.spark.jvm import Py4JError
from tidemark.spark_jobs.spark.running_query import RunningQuery

_PAGE = 500
_log = logging.getLogger("tidemark.spark")


SAVE_SECONDS = 60.0
"""Time between two saves, and between two tries to read earlier reports, in seconds."""

_LOOK_SECONDS = 1.0
"""Time between two looks for policies that have begun anew, in seconds."""

_FINISH_SECONDS = 10.0
_READABLE = 80
"""Characters of a stream's name that its file's name has; after them comes what makes it unique."""


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
        reports: list[Report] = []
        cells, cursor = 0, None
        try:
            while len(reports) < HISTORY_BATCHES and cells < HISTORY_CELLS and not ended():
                page, cursor = self.client.sent_reports(self.job, self.stream, _PAGE, cursor)
                reports += page
                cells += sum(len(report.counts.rows) for report in page)
                if cursor is None:
                    break
        except RequestRejected as error:
            _log.warning("stream %s: its earlier reports cannot be used: %s", self.stream, error)
        return reports[:HISTORY_BATCHES][::-1]


class LearnedFiles:
    """The files of one checkpoint."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        self._written: dict[str, bytes] = {}

    def read(self, stream: str) -> Learned | None:
        """Return what was learned of a stream; None when there is nothing that can be read."""
        name = file_of(stream)
        try:
            data = HadoopFiles(self._spark, self._checkpoint).read_bytes(name)
            return None if data is None else unpacked(data)
        except Exception as error:  # noqa: BLE001 - the file may hold anything
            what = "stream %s: its policy begins anew, because %s/%s cannot be used: %s"
            _log.warning(what, stream, self._checkpoint, name, error)
            self.put_aside(stream)
            return None

    def put_aside(self, stream: str, learned: Learned | None = None) -> None:
        """Keep the file of a stream under another name, in place of an earlier one; first write ``learned`` into it."""
        name = file_of(stream)
        try:
            if learned is not None:
                self.write({stream: learned})
            HadoopFiles(self._spark, self._checkpoint).put_aside(name)
            _log.warning("stream %s: what was learned before is kept as %s%s", stream, name, UNUSABLE)
        except (Py4JError, OSError) as error:
            _log.warning("stream %s: %s/%s is not put aside: %s", stream, self._checkpoint, name, error)

    def write(self, learned: Mapping[str, Learned]) -> None:
        """Write what is new of these streams."""
        for stream, of_stream in learned.items():
            packed = of_stream.packed()
            if self._written.get(stream) == packed:
                continue
            try:
                HadoopFiles(self._spark, self._checkpoint).write_whole(file_of(stream), packed)
                self._written[stream] = packed
            except (Py4JError, OSError) as error:
                what = "stream %s: what its policy has learned cannot be kept in %s: %s"
                _log.warning(what, stream, self._checkpoint, error)


class LearnedSaver:
    """Lets one run of a query go on with what was learned before, and saves what it learns, in a thread of its own.

    Where the checkpoint holds nothing for a policy, as in its first run in Live and after a new target, the policy is
    given what its stream's earlier reports show.
    """

    def __init__(self, files: LearnedFiles, live: LiveQueries, run_id: str) -> None:
        self._files, self._live, self._run_id = files, live, run_id
        self._ended = threading.Event()
        for stream in live.streams_of(run_id):
            learned = files.read(stream)
            if learned is not None and not live.resume(run_id, stream, learned):
                files.put_aside(stream)
        self._asked_s: dict[str, float] = {}
        self._thread = threading.Thread(target=self._keep, name="tidemark-learned", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Save a last time, while the run is still known."""
        self._ended.set()
        self._thread.join(_FINISH_SECONDS)

    def _keep(self) -> None:
        saved_s = time.monotonic()
        while not self._ended.wait(min(_LOOK_SECONDS, SAVE_SECONDS)):
            self._try(self._begin_with_history)
            self._try(self._put_aside)
            if time.monotonic() - saved_s >= SAVE_SECONDS:
                saved_s = time.monotonic()
                self._try(self._save)
        self._try(self._save)

    @staticmethod
    def _try(what: Callable[[], None]) -> None:
        try:
            what()
        except Exception:  # noqa: BLE001 - the query goes on, and the next time may succeed
            _log.exception("what the live policies have learned is not kept")

    def _save(self) -> None:
        self._put_aside()
        self._files.write(self._live.learned(self._run_id))

    def _put_aside(self) -> None:
        unusable = self._live.learned(self._run_id, lambda policy: policy.own.take_unusable())
        for stream, learned in unusable.items():
            self._files.put_aside(stream, learned)

    def _begin_with_history(self) -> None:
        for begun in self._live.begun_anew(self._run_id):
            name, history, now_s = begun.stream.name, begun.stream.history, time.monotonic()
            if history is None or now_s < self._asked_s.get(name, -math.inf) + SAVE_SECONDS:
                continue
            self._asked_s[name] = now_s
            try:
                learned = history.learned(
                    begun.setup, begun.stream.ceiling_us, begun.due_us, self._ended.is_set
                )
            except ControllerUnavailable as error:
                _log.info("stream %s: its live policy begins anew for now: %s", name, error)
                continue
            if learned is None:
                self._live.go_on_anew(self._run_id, name)
            else:
                self._live.resume(self._run_id, name, learned)


def saver_of(query: RunningQuery, live: LiveQueries, run_id: str) -> LearnedSaver | None:
    """Return the saver of a run; None where nothing in it is live or its checkpoint is not known."""
    checkpoint = query.checkpoint() if live.streams_of(run_id) else None
    return None if checkpoint is None else LearnedSaver(LearnedFiles(query.spark, checkpoint), live, run_id)


def file_of(stream: str) -> str:
    """Return the file of a stream, within the checkpoint."""
    readable = re.sub(r"[^A-Za-z0-9-]", "_", stream)[:_READABLE]
    return f"tidemark/learned/{readable}-{hashlib.sha256(stream.encode()).hexdigest()[:8]}"
