"""The control stream: a streaming source whose offset carries a watermark and whose only row has it as event time.

The offset is ``{"watermark_ms": …, "partitions": {name: base_us}}``. Spark writes it into the checkpoint before the
batch runs, so a replayed batch moves the watermark exactly as the first try did, and a driver that starts again finds
in it how far each partition had come. When the driver has nothing new, or does not answer, the offset stays as it is:
then no batch is run for it, and the plan's ceiling alone moves the watermark.

Spark plans the source in a Python process of its own beside the driver, which reaches the driver through the Unix
socket that ``channel`` listens on. The class travels there by value: it needs pyspark and nothing of ours.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

__all__ = ["CONTROL_COLUMN", "ControlReader", "ControlSource", "Offset", "register_control_source"]

CONTROL_COLUMN = "watermark"
"""The one column of the control stream: a timestamp."""

Offset = dict[str, Any]

_PATIENCE_S = 2.0
_IMPATIENCE_S = 0.05
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def register_control_source(spark: SparkSession) -> None:
    """Make the format ``tidemark_control`` known to a session."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark.dataSource.register(ControlSource)


class ControlSource(DataSource):
    """The data source ``tidemark_control``.

    Options:
        socket: path of the Unix socket on which the driver answers.
        stream: name under which the driver knows the stream.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name to give to ``format()``."""
        return "tidemark_control"

    def schema(self) -> str:
        """Return the columns that come out."""
        return f"{CONTROL_COLUMN} timestamp"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        """Return the reader."""
        return ControlReader(self.options["socket"], self.options["stream"])


class ControlReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Asks the driver for the watermark whenever Spark plans a batch.

    Args:
        path: path of the driver's socket.
        stream: name under which the driver knows the stream.
    """

    def __init__(self, path: str, stream: str) -> None:
        self._path = path
        self._stream = stream
        self._connection: socket.socket | None = None
        self._patience_s = _PATIENCE_S
        self._asked = False

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the offset of a query that has no watermark yet."""
        return {"watermark_ms": None, "partitions": {}}

    def read(self, start: Offset) -> tuple[Iterator[tuple[datetime]], Offset]:
        """Return the row of the newest watermark and its offset, or nothing and ``start``. Never stalls.

        An error here would end the user's query, and one without an answer must go on with its ceiling.

        Raises:
            RuntimeError: when the driver refuses the query: its checkpoint cannot be steered, and without steering its
                watermark would stand still for ever.
        """
        end = self._ask(start)
        if end is None or not _is_news(end, start):
            return iter(()), start
        return _row(end), end

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[tuple[datetime]]:  # noqa: ARG002, N802 - Spark's
        """Return the row of ``end``: what a replayed batch had the first time."""
        return _row(end)

    def commit(self, end: Offset) -> None:
        """Do nothing: the offset is all there is."""

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the control follows the batches of the data, and ends with them."""

    def _ask(self, start: Offset) -> Offset | None:
        try:
            request = json.dumps({"stream": self._stream, "start": start, "first": not self._asked}).encode()
            if self._connection is None:
                self._connection = socket.socket(socket.AF_UNIX)
                self._connection.settimeout(self._patience_s)
                self._connection.connect(self._path)
            self._connection.settimeout(self._patience_s)
            self._connection.sendall(len(request).to_bytes(4, "big") + request)
            answer = json.loads(self._receive(int.from_bytes(self._receive(4), "big")))
            end, refused = answer["offset"], answer.get("refused")
        except (OSError, ValueError, KeyError, TypeError) as error:
            # A late answer to this question must not be taken for the answer to the next one.
            self.close()
            if self._patience_s != _IMPATIENCE_S:
                print(f"tidemark: no control, the ceiling holds: {error}", file=sys.stderr)  # noqa: T201
            self._patience_s = _IMPATIENCE_S
            return None
        if refused is not None:
            raise RuntimeError(f"tidemark: {refused}")
        self._asked = True
        self._patience_s = _PATIENCE_S
        return dict(end)

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            if self._connection is None:
                raise ConnectionError("closed")
            part = self._connection.recv(size - len(received))
            if not part:
                raise ConnectionError(f"the driver (of process {os.getppid()}) hung up")
            received += part
        return received

    def close(self) -> None:
        """Drop the connection; the next question makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _is_news(end: Offset, start: Offset) -> bool:
    """Return whether the watermark moves on, or a partition is new; an offset never goes back."""
    watermark, before = end["watermark_ms"], start["watermark_ms"]
    if before is not None and (watermark is None or watermark < before):
        return False
    return bool(watermark != before or end["partitions"].keys() != start["partitions"].keys())


def _row(offset: Offset) -> Iterator[tuple[datetime]]:
    watermark = offset["watermark_ms"]
    return iter(() if watermark is None else ((_EPOCH + timedelta(milliseconds=watermark),),))
