"""Batches of files and of Kafka read again: from the log of a file source, or between the offsets of messages.

The log of a file source has an entry for each of the source's batches; every tenth holds all before it (``9.compact``),
and the entries it holds are deleted after a while (Spark 4.2, ``FileStreamSourceLog``, ``CompactibleFileStreamLog``).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.spark_jobs.late.late_rows import BATCH, DueBatch
from tidemark.spark_jobs.late.origin import KAFKA, Origin
from tidemark.spark_jobs.spark.checkpoint import HadoopFiles, Offset

_COMPACT = ".compact"


_Partition = tuple[str, int]
_Range = tuple[int, int]
"""The first offset, and the one after the last."""

_NOT_RANGES = frozenset(
    {
        "assign",
        "endingoffsets",
        "endingoffsetsbytimestamp",
        "endingtimestamp",
        "failondataloss",
        "maxoffsetspertrigger",
        "maxtriggerdelay",
        "minoffsetspertrigger",
        "startingoffsets",
        "startingoffsetsbytimestamp",
        "startingoffsetsbytimestampstrategy",
        "startingtimestamp",
        "subscribe",
        "subscribepattern",
    }
)
"""Options that say what to read, which here the ranges say."""


class FileRanges:
    """Reads the batches of a file source."""

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
        files = self._files(first, last)
        absent = set(range(first, last + 1)) - files.keys()
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
        return reader.load([path for number in sorted(files) for path in files[number]])

    def read_many(self, batches: Sequence[DueBatch]) -> None:
        """Return None: a row does not say which file it is from."""

    def expiring(self, start: Offset, end: Offset) -> None:
        """Return None: whoever removes files, it is not the source (``cleanSource`` is warned of at the start)."""

    def lost(self, batches: Sequence[DueBatch]) -> dict[int, str]:
        """Return, of batches that could not be read, those that never can be, and why."""
        lost = {}
        for batch in batches:
            first, last = _range(batch)
            files = self._files(first, last)
            if len(files) < last - first + 1:
                lost[batch.batch_id] = f"the source's log {self._log} lacks entries of it"
            elif any(
                not HadoopFiles(self._spark, path).exists("") for paths in files.values() for path in paths
            ):
                lost[batch.batch_id] = "files of it are gone (cleanSource, or deleted); keep them for longer"
        return lost

    def _files(self, first: int, last: int) -> Mapping[int, list[str]]:
        """Return the files of the source's batches ``first`` to ``last``, as far as the log has them."""
        names = self._checkpoint.names(self._log)
        files: dict[int, list[str]] = defaultdict(list)
        wanted = set(range(first, last + 1))
        for number in sorted(wanted):
            text = self._checkpoint.read(f"{self._log}/{number}") if str(number) in names else None
            if text is not None:
                files[number] += [_path(line) for line in text.splitlines()[1:]]
        absent = wanted - files.keys()
        compacted = [int(name.removesuffix(_COMPACT)) for name in names if name.endswith(_COMPACT)]
        holding = min((number for number in compacted if absent and number >= max(absent)), default=None)
        if holding is None:
            return files
        # It grows with all files there ever were, so Spark reads it.
        lines = self._spark.read.text(self._checkpoint.path(f"{self._log}/{holding}{_COMPACT}"))
        batch = F.get_json_object("value", "$.batchId").cast("int")
        for number, line in lines.filter(batch.isin(sorted(absent))).select(batch, "value").collect():
            files[number].append(_path(line))
        return files


def _range(batch: DueBatch) -> tuple[int, int]:
    """Return the first and the last of the source's batches in one of the query's."""
    return _number(batch.start) + 1, _number(batch.end)


def _number(offset: Offset) -> int:
    return -1 if offset is None else int(offset["logOffset"])


def _path(line: str) -> str:
    return unquote(json.loads(line)["path"])


class KafkaRanges:
    """Reads the batches of a Kafka source."""

    def __init__(self, spark: SparkSession, origin: Origin, checkpoint: HadoopFiles, source: str) -> None:
        self._spark = spark
        self._options = {
            name: value for name, value in origin.options.items() if name.lower() not in _NOT_RANGES
        }
        self._checkpoint = checkpoint
        self._initial = f"sources/{source}/0"

    def read(self, batch: DueBatch) -> DataFrame:
        """Return the messages of a batch, as the stream had them from its source.

        Raises:
            LookupError: when the offsets of a partition go back.
        """
        return self._between(self._ranges(batch))

    def read_many(self, batches: Sequence[DueBatch]) -> tuple[DataFrame, DataFrame]:
        """Return the messages of several batches, and a table that shows the batch of each.

        Its columns are ``topic``, ``partition``, ``first`` and ``end`` (offsets) and the batch.

        Raises:
            LookupError: when the offsets of a partition go back.
        """
        by_batch = {batch.batch_id: self._ranges(batch) for batch in batches}
        whole: dict[_Partition, _Range] = {}
        for ranges in by_batch.values():
            for partition, (first, end) in ranges.items():
                low, high = whole.get(partition, (first, end))
                whole[partition] = min(low, first), max(high, end)
        table = [
            (topic, partition, first, end, batch)
            for batch, ranges in by_batch.items()
            for (topic, partition), (first, end) in ranges.items()
        ]
        columns = f"topic string, partition int, first long, end long, {BATCH} long"
        return self._between(whole), self._spark.createDataFrame(table, columns)

    def expiring(self, start: Offset, end: Offset) -> str | None:
        """Return which messages may soon expire before they are read again; None while none is near.

        They are near when the oldest message that is still to be read, from ``start`` on, is closer to the first one
        that Kafka has than to ``end``. Where Kafka has deleted nothing yet, none is.
        """
        ends = {
            (topic, int(number)): last
            for topic, lasts in (end or {}).items()
            for number, last in lasts.items()
        }
        for (topic, number), (earliest, _) in sorted(self._there(set(ends)).items()):
            first, last = (start or {}).get(topic, {}).get(str(number), 0), ends[topic, number]
            if earliest and first < last and first - earliest < last - first:
                return (
                    f"the messages of {topic}-{number} from offset {first} to {last} are still to be read again, and "
                    f"Kafka has deleted those before {earliest}; raise the topic's retention.ms"
                )
        return None

    def lost(self, batches: Sequence[DueBatch]) -> dict[int, str]:
        """Return, of batches that could not be read, those that never can be, and why."""
        ranges: dict[int, dict[_Partition, _Range]] = {}
        lost: dict[int, str] = {}
        for batch in batches:
            try:
                ranges[batch.batch_id] = self._ranges(batch)
            except LookupError as error:
                lost[batch.batch_id] = str(error)
        there = self._there(set[_Partition]().union(*ranges.values()))
        for batch_id, of_batch in ranges.items():
            for (topic, number), (first, end) in of_batch.items():
                earliest, latest = there.get((topic, number), (end, end))
                if first < end and (first < earliest or end > latest):
                    lost[batch_id] = (
                        f"messages of {topic}-{number} have expired, or the topic was made anew; "
                        "raise the topic's retention.ms, or catch up more often"
                    )
        return lost

    def _between(self, ranges: Mapping[_Partition, _Range]) -> DataFrame:
        assign: dict[str, list[int]] = {}
        starting: dict[str, dict[str, int]] = {}
        ending: dict[str, dict[str, int]] = {}
        for (topic, partition), (first, end) in sorted(ranges.items()):
            assign.setdefault(topic, []).append(partition)
            starting.setdefault(topic, {})[str(partition)] = first
            ending.setdefault(topic, {})[str(partition)] = end
        return (
            self._spark.read.format(KAFKA)
            .options(**self._options)
            .option("assign", json.dumps(assign))
            .option("startingOffsets", json.dumps(starting))
            .option("endingOffsets", json.dumps(ending))
            .option("failOnDataLoss", "true")
            .load()
        )

    def _ranges(self, batch: DueBatch) -> dict[_Partition, _Range]:
        start = batch.start if batch.start is not None else self._initial_offsets()
        result = {}
        for topic, ends in (batch.end or {}).items():
            for partition, end in ends.items():
                # A partition that is new to the query is read from its beginning.
                first = start.get(topic, {}).get(partition, 0)
                if end < first:
                    raise LookupError(
                        f"the offsets of {topic}-{partition} go back from {first} to {end}: the topic was made anew"
                    )
                result[topic, int(partition)] = first, end
        return result

    def _initial_offsets(self) -> Mapping[str, Any]:
        """Return where the query began, which the source itself wrote down."""
        text = self._checkpoint.read(self._initial)
        if text is None:
            raise LookupError(f"{self._initial} is not in the checkpoint: where the query began is not known")
        # A zero byte and a version stand before it.
        return dict(json.loads(text[text.index("{") :]))

    def _there(self, partitions: set[_Partition]) -> dict[_Partition, _Range]:
        """Return which messages the broker has; partitions that are gone are not in it."""
        jvm: Any = self._spark._jvm  # noqa: SLF001 - Spark does not pass this on
        deserializer = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer().getClass().getName()
        settings = jvm.java.util.HashMap()
        for name, value in self._options.items():
            if name.lower().startswith("kafka."):
                settings.put(name[len("kafka.") :], value)
        for name, value in {
            "key.deserializer": deserializer,
            "value.deserializer": deserializer,
            "enable.auto.commit": "false",
            "allow.auto.create.topics": "false",
        }.items():
            settings.put(name, value)
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        try:
            existing = set()
            for topic in {topic for topic, _ in partitions}:
                existing |= {(topic, info.partition()) for info in consumer.partitionsFor(topic) or ()}
            asked = jvm.java.util.ArrayList()
            for topic, number in partitions & existing:
                asked.add(jvm.org.apache.kafka.common.TopicPartition(topic, number))
            earliest, latest = consumer.beginningOffsets(asked), consumer.endOffsets(asked)
            return {(one.topic(), one.partition()): (earliest[one], latest[one]) for one in asked}
        finally:
            consumer.close()


def keeps(raw: DataFrame, rows: DataFrame, names: Sequence[str]) -> bool:
    """Return whether ``rows``, made of ``raw``, still has the columns ``names`` as they were, by Spark's own ids."""

    def ids(df: DataFrame) -> dict[str, list[int]]:
        output = df._jdf.queryExecution().analyzed().output()  # noqa: SLF001 - ids are not public
        ids_by_name: dict[str, list[int]] = {}
        for index in range(output.length()):
            ids_by_name.setdefault(output.apply(index).name(), []).append(output.apply(index).exprId().id())
        return ids_by_name

    before, after = ids(raw), ids(rows)
    return all(len(before[name]) == 1 and after.get(name) == before[name] for name in names)


def with_batches(rows: DataFrame, table: DataFrame) -> DataFrame:
    """Return ``rows``, which have Kafka's columns, with the batch of each."""
    places = table.select(
        F.col("topic").alias("__t"), F.col("partition").alias("__p"), "first", "end", BATCH
    ).withColumnsRenamed({"first": "__first", "end": "__end"})
    here = (F.col("topic") == F.col("__t")) & (F.col("partition") == F.col("__p"))
    here &= (F.col("offset") >= F.col("__first")) & (F.col("offset") < F.col("__end"))
    return rows.join(F.broadcast(places), here).drop("__t", "__p", "__first", "__end")
