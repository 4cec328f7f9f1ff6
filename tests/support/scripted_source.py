"""A source whose batches are written down beforehand, with the rows that each partition has left after them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from support.spark_streams import Row

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

__all__ = ["ScriptedSource", "scripted", "write_step"]


@dataclass
class _Slice(InputPartition):
    """The rows of a scripted batch: id, number of the partition, event time."""

    rows: list[tuple[int, int, int]]


class ScriptedSource(DataSource):
    """The source ``scripted``: one file a batch, offsets as Kafka's, and a backlog as the script has it.

    File ``n.json`` of the folder ``path`` holds ``{"read": [[id, partition, ts_us], …], "unread": {partition: rows}}``.
    A batch must read a row.
    """

    @classmethod
    def name(cls) -> str:
        return "scripted"

    def schema(self) -> str:
        return "id long, partition int, ts timestamp"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        return _ScriptedReader(self.options["path"])


class _ScriptedReader(DataSourceStreamReader):
    def __init__(self, path: str) -> None:
        self._path = path
        self._latest: dict[str, dict[str, int]] | None = None

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        return {"t": {"0": 0, "1": 0}}

    def latestOffset(  # noqa: N802 - Spark's name
        self,
        start: dict[str, dict[str, int]],
        limit: ReadLimit,  # noqa: ARG002 - one file a batch
    ) -> dict[str, dict[str, int]]:
        end = start
        for before, after, script in self._steps():
            if after == start:
                self._latest = self._with(after, script["unread"])
            if before == start:
                end, self._latest = after, self._with(after, script["unread"])
        return end

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802 - Spark's name
        return self._latest

    def partitions(
        self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]
    ) -> Sequence[InputPartition]:
        rows: list[tuple[int, int, int]] = []
        inside = False
        for before, after, script in self._steps():
            inside = inside or before == start
            if inside:
                rows += [tuple(row) for row in script["read"]]
            if after == end:
                break
        return [_Slice(rows)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        from datetime import UTC, datetime, timedelta

        assert isinstance(partition, _Slice)
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        for identity, number, time_us in partition.rows:
            yield identity, number, epoch + timedelta(microseconds=time_us)

    def commit(self, end: dict[str, dict[str, int]]) -> None:
        """Nothing is consumed."""

    def _steps(self) -> Iterator[tuple[dict[str, dict[str, int]], dict[str, dict[str, int]], Any]]:
        before, number = self.initialOffset(), 0
        while (file := Path(self._path, f"{number}.json")).exists():
            script = json.loads(file.read_text())
            read: dict[str, int] = {}
            for _, partition, _ in script["read"]:
                read[str(partition)] = read.get(str(partition), 0) + 1
            after = self._with(before, read)
            yield before, after, script
            before, number = after, number + 1

    @staticmethod
    def _with(offset: dict[str, dict[str, int]], more: dict[str, int]) -> dict[str, dict[str, int]]:
        return {"t": {name: rows + more.get(name, 0) for name, rows in offset["t"].items()}}


def scripted(spark: SparkSession, folder: Path) -> Callable[[], DataFrame]:
    """Return the scripted source over a folder, see ``write_step``."""
    folder.mkdir(parents=True, exist_ok=True)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark.dataSource.register(ScriptedSource)
    return lambda: spark.readStream.format("scripted").option("path", str(folder)).load()


def write_step(folder: Path, number: int, rows: Iterable[Row], unread: Mapping[int, int]) -> None:
    """Write a batch of the scripted source, with the rows that each partition has after it."""
    step = {
        "read": [(row.id, row.partition, row.event_time_us) for row in rows],
        "unread": {str(partition): rows_left for partition, rows_left in unread.items()},
    }
    hidden = folder / f".{number}"
    hidden.write_text(json.dumps(step))
    hidden.rename(folder / f"{number}.json")
