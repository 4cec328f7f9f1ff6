"""Batches of a file source: which files each read, from the source's own log, and the files read again.

The log has an entry for each of the source's batches; every tenth holds all before it (``9.compact``), and the entries
it holds are deleted after a while (Spark 4.2, ``FileStreamSourceLog``, ``CompactibleFileStreamLog``).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.spark_jobs.late.due import DueBatch
from tidemark.spark_jobs.late.hadoop_files import HadoopFiles
from tidemark.spark_jobs.late.offset_log import Offset
from tidemark.spark_jobs.late.origin import Origin

_COMPACT = ".compact"


class FileRanges:
    """Reads the batches of a file source.

    Args:
        spark: the session to read with.
        origin: format, options and schema.
        checkpoint: the checkpoint's folder.
        source: the source, as the offset log names it.
    """

    def __init__(self, spark: SparkSession, origin: Origin, checkpoint: HadoopFiles, source: str) -> None:
        self._spark = spark
        self._origin = origin
        self._checkpoint = checkpoint
        self._log = f"sources/{source}"

    def read(self, batch: DueBatch) -> DataFrame:
        """Return the rows of a batch, as the stream had them from its source.

        Raises:
            LookupError: when the log lacks an entry.
        """
        first, last = _range(batch)
        found = self._files(first, last)
        absent = set(range(first, last + 1)) - found.keys()
        if absent:
            raise LookupError(f"{self._log} lacks {sorted(absent)}")
        options = {name: value for name, value in self._origin.options.items() if name.lower() != "path"}
        root = self._origin.option("path")
        if root is not None and not any(character in root for character in "*?[{"):
            options["basePath"] = root  # folders such as day=2026-01-01 are columns
        # A file that is gone must not be passed over, and the names in the log are no patterns.
        options |= {"ignoreMissingFiles": "false", "__globPaths__": "false"}
        reader = self._spark.read.format(self._origin.format).options(**options)
        if self._origin.schema is not None:
            reader = reader.schema(self._origin.schema)
        return reader.load([path for number in sorted(found) for path in found[number]])

    def read_many(self, batches: Sequence[DueBatch]) -> None:
        """Return None: a row does not say which file it is from."""

    def expiring(self, start: Offset, end: Offset) -> None:
        """Return None: whoever removes files, it is not the source (``cleanSource`` is warned of at the start)."""

    def lost(self, batches: Sequence[DueBatch]) -> dict[int, str]:
        """Return, of batches that could not be read, those that never can be, and why."""
        gone = {}
        for batch in batches:
            first, last = _range(batch)
            found = self._files(first, last)
            if len(found) < last - first + 1:
                gone[batch.batch_id] = f"the source's log {self._log} lacks entries of it"
            elif any(
                not HadoopFiles(self._spark, path).exists("") for paths in found.values() for path in paths
            ):
                gone[batch.batch_id] = "files of it are gone (cleanSource, or deleted); keep them for longer"
        return gone

    def _files(self, first: int, last: int) -> Mapping[int, list[str]]:
        """Return the files of the source's batches ``first`` to ``last``, as far as the log has them."""
        names = self._checkpoint.names(self._log)
        found: dict[int, list[str]] = defaultdict(list)
        wanted = set(range(first, last + 1))
        for number in sorted(wanted):
            text = self._checkpoint.read(f"{self._log}/{number}") if str(number) in names else None
            if text is not None:
                found[number] += [_path(line) for line in text.splitlines()[1:]]
        absent = wanted - found.keys()
        compacted = [int(name.removesuffix(_COMPACT)) for name in names if name.endswith(_COMPACT)]
        holding = min((number for number in compacted if absent and number >= max(absent)), default=None)
        if holding is None:
            return found
        # It grows with all files there ever were, so Spark reads it.
        lines = self._spark.read.text(self._checkpoint.path(f"{self._log}/{holding}{_COMPACT}"))
        batch = F.get_json_object("value", "$.batchId").cast("int")
        for number, line in lines.filter(batch.isin(sorted(absent))).select(batch, "value").collect():
            found[number].append(_path(line))
        return found


def _range(batch: DueBatch) -> tuple[int, int]:
    """Return the first and the last of the source's batches in one of the query's."""
    return _number(batch.start) + 1, _number(batch.end)


def _number(offset: Offset) -> int:
    return -1 if offset is None else int(offset["logOffset"])


def _path(line: str) -> str:
    return unquote(json.loads(line)["path"])
