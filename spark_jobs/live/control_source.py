"""The control stream: a streaming source whose offset carries the required watermark, and whose only row is that.

The offset is ``{"source": id, "watermark_ms": …, "partitions": {name: base_us}}``. The id is made with a checkpoint and
stays in it: two queries of one plan have two sources of one name, and the driver distinguishes them by it. Spark writes
the offset into the checkpoint before the batch runs, so a replayed batch moves the watermark exactly as the first try
did, and a driver that starts again finds in it how far each partition had come. When the driver has nothing new, or
does not answer, the offset stays as it is: then no batch is run for it, and the plan's ceiling alone moves the
watermark.

Spark plans the source in a Python process of its own beside the driver, which reaches the driver through the Unix
socket that ``channel`` listens on. The class travels there by value: it needs pyspark and nothing of ours.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import uuid
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from tidemark.spark_jobs.this_spark import has_read_limits

if has_read_limits():
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as _AvailableNow
else:

    class _AvailableNow:  # type: ignore[no-redef]
        """Before PySpark 4.2 no source can be one, and such a query reads all there is in one batch."""


CONTROL_COLUMN = "watermark_ms"
"""The one column of the control stream: the required watermark, in milliseconds since the epoch."""

Offset = dict[str, Any]

_PATIENCE_S = 2.0
_IMPATIENCE_S = 0.05


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
        return f"{CONTROL_COLUMN} long"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        """Return the reader."""
        return ControlReader(self.options["socket"], self.options["stream"])


class ControlReader(SimpleDataSourceStreamReader, _AvailableNow):
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

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the offset of a query that has no watermark yet, with an id of its own."""
        return {"source": uuid.uuid4().hex, "watermark_ms": None, "partitions": {}}

    def read(self, start: Offset) -> tuple[Iterator[tuple[int]], Offset]:
        """Return the row of the newest watermark and its offset, or nothing and ``start``. Never stalls.

        An error here would end the user's query, and one without an answer goes on with its ceiling.

        Raises:
            RuntimeError: when the checkpoint has the offset of another source in this one's place.
        """
        if not start.keys() >= {"watermark_ms", "partitions"}:
            raise RuntimeError(
                f"tidemark: the checkpoint holds the offset of another source here, {json.dumps(start)}: it was "
                "written by a plan with other inputs or without a ceiling; the query needs a new checkpoint"
            )
        end = self._ask(start)
        if end is None or not _is_news(end, start):
            return iter(()), start
        return _row(end), end

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[tuple[int]]:  # noqa: ARG002, N802 - Spark's
        """Return the row of ``end``: what a replayed batch had the first time."""
        return _row(end)

    def commit(self, end: Offset) -> None:
        """Do nothing: the offset is all there is."""

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the control follows the batches of the data, and ends with them."""

    def _ask(self, start: Offset) -> Offset | None:
        try:
            request = json.dumps({"stream": self._stream, "start": start}).encode()
            if self._connection is None:
                self._connection = socket.socket(socket.AF_UNIX)
                self._connection.settimeout(self._patience_s)
                self._connection.connect(self._path)
            self._connection.settimeout(self._patience_s)
            self._connection.sendall(len(request).to_bytes(4, "big") + request)
            end = dict(json.loads(self._receive(int.from_bytes(self._receive(4), "big"))))
        except (OSError, ValueError, KeyError, TypeError) as error:
            # A late answer to this question must not be taken for the answer to the next one.
            self.close()
            if self._patience_s != _IMPATIENCE_S:
                print(f"tidemark: no control, the ceiling holds: {error}", file=sys.stderr)  # noqa: T201
            self._patience_s = _IMPATIENCE_S
            return None
        self._patience_s = _PATIENCE_S
        return end

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


def _row(offset: Offset) -> Iterator[tuple[int]]:
    watermark = offset["watermark_ms"]
    return iter(() if watermark is None else ((watermark,),))
