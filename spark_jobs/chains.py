"""A query whose ``transformWithState`` gives its rows an event time of their own: its check, and its last bounds.

A checkpoint does not say which bounds it ran with. So a file in its folder does, for such queries alone: whoever runs
from the checkpoint, wherever, finds it there.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from tidemark.models.specs.findings import Finding, StreamStart, judge_own_times
from tidemark.spark_jobs.binding import Binding
from tidemark.spark_jobs.gateway import Py4JError
from tidemark.spark_jobs.late.hadoop_files import HadoopFiles

FILE = "tidemark/bounds.json"
"""Within the checkpoint: by stream the widest bound of the last run, in milliseconds."""

_log = logging.getLogger("tidemark.spark")


def check_own_times(
    columns: Sequence[str], bindings: Sequence[Binding], last_bounds_ms: Mapping[str, int]
) -> list[Finding]:
    """Return what is to be said about such a query before it runs.

    Args:
        columns: the event times that a ``transformWithState`` of the query gives its rows.
        bindings: the query's streams.
        last_bounds_ms: what ``LastBounds`` has of the checkpoint; nothing for a new one.
    """
    starts = (
        StreamStart(
            stream=binding.stream,
            bound_ms=binding.bound_ms,
            own_bound_ms=binding.own_bound_ms,
            last_bound_ms=last_bounds_ms.get(binding.stream),
            live=binding.orders is not None,
        )
        for binding in bindings
    )
    return judge_own_times(columns, starts, confirmed=any(binding.own_time_confirmed for binding in bindings))


class LastBounds:
    """The bounds that a checkpoint last ran with.

    Args:
        spark: the session of the query.
        checkpoint: the checkpoint's folder; None when it is not known.
        bindings: the query's streams.
    """

    def __init__(self, spark: SparkSession, checkpoint: str | None, bindings: Sequence[Binding]) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        # In Live nobody knows afterwards how far behind the watermark was, at most the ceiling.
        self._now = {
            binding.stream: max(binding.bound_ms, (binding.orders and binding.ceiling_ms) or 0)
            for binding in bindings
        }
        self._recorded = False

    def read(self) -> dict[str, int]:
        """Return them by stream, in milliseconds; nothing for a new checkpoint, or when they cannot be read."""
        if self._checkpoint is None:
            return {}
        try:
            text = HadoopFiles(self._spark, self._checkpoint).read(FILE)
            found = {} if text is None else json.loads(text)
            return {str(stream): int(bound_ms) for stream, bound_ms in found.items()}
        except (Py4JError, ValueError, TypeError, AttributeError) as error:
            _log.warning("the last bounds of %s cannot be read: %s", self._checkpoint, error)
            return {}

    def record(self) -> None:
        """Write down those of this run, once: it has run a batch with them."""
        if self._recorded or self._checkpoint is None:
            return
        self._recorded = True
        try:
            HadoopFiles(self._spark, self._checkpoint).write_whole(FILE, json.dumps(self._now))
        except (Py4JError, OSError) as error:
            _log.warning("the bounds of this run cannot be written into %s: %s", self._checkpoint, error)
