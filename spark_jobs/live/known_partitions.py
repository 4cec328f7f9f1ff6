"""How far the partitions of a query had come, kept in its checkpoint: the next driver overtakes none of them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from contextlib import suppress

from pyspark.sql import SparkSession

from tidemark.spark_jobs.spark.checkpoint import HadoopFiles, numbers_in
from tidemark.spark_jobs.spark.jvm import Py4JError

FOLDER = "tidemark/partitions"
"""Within the checkpoint: numbered files, of which the newest counts. A query that was steered has one."""

KEEP_SECONDS = 1.0
"""Time between two files while no partition is new, in seconds."""

Bases = Mapping[str, Mapping[str, int]]
"""By stream and partition the maximum event time seen, in microseconds."""

_log = logging.getLogger("tidemark.spark")


class KnownPartitions:
    """The partitions of one run of a query."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        self._kept: Bases | None = None
        self._kept_s = 0.0
        self._number = 0

    def read(self) -> Bases:
        """Return what an earlier run has kept; nothing when it cannot be read."""
        try:
            files = HadoopFiles(self._spark, self._checkpoint)
            numbers = numbers_in(files, FOLDER)
            self._number = max(numbers, default=0)
            text = files.read(f"{FOLDER}/{self._number}") if numbers else None
            kept = {} if text is None else json.loads(text)
            return {
                str(stream): {str(name): int(base_us) for name, base_us in bases.items()}
                for stream, bases in kept.items()
            }
        except Exception as error:  # noqa: BLE001 - the file may hold anything
            _log.warning("how far partitions had come cannot be read from %s: %s", self._checkpoint, error)
            with suppress(Py4JError, OSError):
                HadoopFiles(self._spark, self._checkpoint).put_aside(f"{FOLDER}/{self._number}")
            return {}

    def keep(self, bases: Bases, *, at_once: bool = False) -> None:
        """Keep how far the partitions have come: at once if there is a new one, else once a second."""
        now_s = time.monotonic()
        new = self._kept is None or _names(self._kept) != _names(bases)
        is_time = new or at_once or now_s >= self._kept_s + KEEP_SECONDS
        if not bases or bases == self._kept or not is_time:
            return
        self._kept, self._kept_s = bases, now_s
        try:
            files = HadoopFiles(self._spark, self._checkpoint)
            before = numbers_in(files, FOLDER)
            self._number += 1
            files.write_whole(f"{FOLDER}/{self._number}", json.dumps(bases))
            for number in before:
                files.delete(f"{FOLDER}/{number}")
        except (Py4JError, OSError) as error:
            _log.warning("how far partitions have come cannot be kept in %s: %s", self._checkpoint, error)


def _names(bases: Bases) -> dict[str, frozenset[str]]:
    return {stream: frozenset(partitions) for stream, partitions in bases.items()}
