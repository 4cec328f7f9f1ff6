"""A query's checkpoint, read only, and files beside it: its id, its offset log and how far it is committed.

An entry is text: a version, metadata as JSON, and a line for each source. In version 1 a source is known by its place
(Spark 4.2, ``OffsetSeqLog``); version 2, which Spark writes where sources have names
(``spark.sql.streaming.offsetLog.formatVersion``), puts the name before the offset.

Files are read and written wherever Hadoop reaches, on local disks, HDFS or S3 alike. Small ones are written by the same
means as Spark's checkpoints, whole or not at all, on object stores too (Spark 4.2, ``CheckpointFileManager``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from tidemark.spark_jobs.spark.jvm import CHECKPOINT_FILES, Py4JJavaError, find, is_since

Offset = Mapping[str, Any] | None
"""An offset as JSON; None while the source has none."""

_NONE = "-"
_PACKAGE = "org.apache.spark.sql.execution.streaming"
# A session's settings come before its JVM, which could be asked.
_MANAGERS = f"{_PACKAGE}.checkpointing" if is_since(4, 1) else _PACKAGE
LOCAL_SPARK: dict[str, bool | float | int | str | None] = {
    "spark.sql.streaming.checkpointFileManagerClass": f"{_MANAGERS}.FileSystemBasedCheckpointFileManager",
    "spark.executor.heartbeat.maxFailures": 2**31 - 1,
}
"""Conf of a Spark on one machine, with its checkpoints on the machine's own disk, as the demo's and the tests' are.

In local mode the driver is its own executor. Once Spark takes that for lost, after a fetch that failed or when the JVM
stood still for ``spark.network.timeout`` (a laptop that sleeps), it goes on working but cannot register it again, and
with the sixtieth heartbeat, ten minutes later, ends the JVM with code 56 (4.2.0). So heartbeats may fail.

Without Hadoop's native library, which PySpark does not bring, Spark's default for checkpoints starts two programs
(``readlink``, ``chmod``) for each file that it reads: 42 a batch of a windowed count, a tenth of a second (4.2.0). With
this manager 8 are left, all ``chmod``. What is written is the same. A shared file system needs none of this.
"""

UNUSABLE = ".unusable"
"""What is added to the name of a file that cannot be used."""


class HadoopFiles:
    """The files below one folder.

    Args:
        spark: the session whose Hadoop configuration is used.
        folder: a path or URI; the paths below are relative to it.

    Methods raise ``Py4JJavaError`` when the file system fails.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way to Hadoop's files
        self._jvm = jvm
        configuration = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - as above
        self._root = self._jvm.org.apache.hadoop.fs.Path(folder)
        self._system = self._root.getFileSystem(configuration)
        self._root = self._system.makeQualified(self._root)
        managers = find(CHECKPOINT_FILES)
        self._manager = None if managers is None else managers.create(self._root, configuration)

    @property
    def uri(self) -> str:
        """The folder, with its scheme."""
        return str(self._root.toString())

    def path(self, name: str) -> str:
        """Return the path of ``name``, with its scheme."""
        return str(self._path(name).toString())

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder; none when it is not there."""
        try:
            return [str(status.getPath().getName()) for status in self._system.listStatus(self._path(folder))]
        except Py4JJavaError as error:
            if _is_missing(error):
                return []
            raise

    def read(self, name: str) -> str | None:
        """Return the text of a file; None when it is not there."""
        data = self.read_bytes(name)
        return None if data is None else data.decode()

    def read_bytes(self, name: str) -> bytes | None:
        """Return what is in a file; None when it is not there."""
        try:
            stream = self._system.open(self._path(name))
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def written_ms(self, name: str) -> int | None:
        """Return when a file was written, in milliseconds since the epoch; None when it is not there."""
        try:
            return int(self._system.getFileStatus(self._path(name)).getModificationTime())
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise

    def write_whole(self, name: str, data: str | bytes) -> None:
        """Write a small file that is new, or replaces one: whoever reads it finds it whole or not at all.

        Raises:
            OSError: when the file system refuses, or this Spark has no way to do so.
        """
        if self._manager is None:
            raise OSError(
                f"{self.path(name)} cannot be written whole: this Spark has no CheckpointFileManager"
            )
        path = self._path(name)
        self._system.mkdirs(path.getParent())
        # Not every file system renames over what is there, and Spark's manager only logs that.
        self._system.delete(path, False)
        stream = self._manager.createAtomic(path, False)
        try:
            stream.write(bytearray(data.encode() if isinstance(data, str) else data))
            stream.close()
        except BaseException:
            stream.cancel()
            raise
        if not self.exists(name):
            raise OSError(f"{self.path(name)} cannot be written")

    def rename(self, name: str, new: str) -> None:
        """Rename a file or folder to one that is not there.

        Raises:
            OSError: when the file system refuses.
        """
        if not self._system.rename(self._path(name), self._path(new)):
            raise OSError(f"{self.path(name)} cannot be renamed to {self.path(new)}")

    def put_aside(self, name: str) -> None:
        """Give a file that cannot be used another name, if it is there, so that it is neither read again nor lost."""
        if self.exists(name):
            self.delete(name + UNUSABLE)
            self.rename(name, name + UNUSABLE)

    def delete(self, name: str) -> None:
        """Delete a file or folder, if it is there."""
        self._system.delete(self._path(name), True)

    def exists(self, name: str) -> bool:
        """Return whether there is a file or folder."""
        return bool(self._system.exists(self._path(name)))

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root


def _is_missing(error: Py4JJavaError) -> bool:
    return "FileNotFoundException" in str(error.java_exception.getClass().getName())


class LogFormatError(ValueError):
    """An entry that cannot be read: written by a later Spark, or damaged."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """What the offset log says of a batch. It is the same whenever the batch is run again."""

    watermark_ms: int
    """W(n): the watermark in force in the batch, in milliseconds."""
    clock_ms: int
    """What ``current_timestamp()`` is in the batch, in milliseconds since the epoch."""
    offsets: Mapping[str, Offset]
    """By source where the batch ends. A source is its name or, without names, its place: ``"0"``, ``"1"``."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark that are fixed for the query, by key."""


def parse_entry(text: str) -> LogEntry:
    """Return the entry in ``text``.

    Raises:
        LogFormatError: when the version is unknown or the text is damaged.
    """
    version, *lines = text.splitlines() or [""]
    if version not in {"v1", "v2"}:
        raise LogFormatError(
            f"the offset log is of version {version[:20]!r}, and only v1 and v2 are known: a newer Spark wrote it; "
            "a newer Tidemark may read it"
        )
    try:
        metadata = json.loads(lines[0])
        named = enumerate(lines[1:]) if version == "v1" else (line.split(":", 1) for line in lines[1:])
        return LogEntry(
            watermark_ms=int(metadata["batchWatermarkMs"]),
            clock_ms=int(metadata["batchTimestampMs"]),
            offsets={str(name): _offset(line) for name, line in named},
            conf=metadata.get("conf") or {},
        )
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise LogFormatError(f"an entry of the offset log cannot be read: {error!r}") from error


def one_source(text: str, source: str) -> tuple[str, str]:
    """Return an entry's text as if the query had one source only, and that source's place or name."""
    version, metadata, *lines = text.splitlines()
    if version == "v1":
        return f"{version}\n{metadata}\n{lines[int(source)]}", "0"
    (line,) = (line for line in lines if line.split(":", 1)[0] == source)
    return f"{version}\n{metadata}\n{line}", source


def _offset(line: str) -> Offset:
    if line == _NONE:
        return None
    offset = json.loads(line)
    # A source of one's own may have a bare number for an offset.
    return offset if isinstance(offset, dict) else {"": offset}


class CheckpointError(ValueError):
    """A folder that is no checkpoint, or in which it is not clear which source is meant."""


class OffsetLog(Mapping[int, LogEntry]):
    """The entries that are there, each read when it is asked for."""

    def __init__(self, files: HadoopFiles) -> None:
        self._files = files
        self._numbers = numbers_in(files, "offsets")
        self._read: dict[int, LogEntry] = {}

    def __getitem__(self, number: int) -> LogEntry:
        """Return an entry; ``KeyError`` when it is purged, even after having been listed."""
        if number not in self._read:
            text = self._files.read(f"offsets/{number}")
            if text is None:
                raise KeyError(number)
            try:
                self._read[number] = parse_entry(text)
            except LogFormatError as error:
                raise LogFormatError(f"{self._files.path(f'offsets/{number}')}: {error}") from error
        return self._read[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


class Checkpoint:
    """The checkpoint of one query."""

    def __init__(self, files: HadoopFiles) -> None:
        self.files = files

    def query_id(self) -> str:
        """Return the query's persistent id.

        Raises:
            CheckpointError: when the folder is no checkpoint.
        """
        text = self.files.read("metadata")
        if text is None:
            raise CheckpointError(
                f"{self.files.uri} is no checkpoint of a query: it has no file named metadata; give the folder that "
                "checkpointLocation names"
            )
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{self.files.path('metadata')} does not hold a query's id: {error!r}; it is damaged, or the folder "
                "is no checkpoint"
            ) from error

    def committed(self) -> int:
        """Return the last batch that is committed, -1 for none."""
        return max(numbers_in(self.files, "commits"), default=-1)

    def committed_ms(self, batch: int) -> int | None:
        """Return when a batch was committed, in milliseconds since the epoch; None when that is not known."""
        return self.files.written_ms(f"commits/{batch}")

    def next_watermark_ms(self, batch: int) -> int | None:
        """Return the watermark of the batch after a committed one, in milliseconds; None when it is not known.

        Raises:
            LogFormatError: when the text is damaged.
        """
        text = self.files.read(f"commits/{batch}")
        if text is None:
            return None
        try:
            next_ms = json.loads(text.splitlines()[1]).get("nextBatchWatermarkMs")
            return None if next_ms is None else int(next_ms)
        except (ValueError, IndexError, TypeError, AttributeError) as error:
            raise LogFormatError(
                f"{self.files.path(f'commits/{batch}')} cannot be read: {error!r}; it is damaged, or a newer Spark "
                "wrote it"
            ) from error

    def offset_log(self) -> OffsetLog:
        """Return the entries that are there now."""
        return OffsetLog(self.files)

    def source(self, log: OffsetLog, chosen: str | None) -> str | None:
        """Return the source whose rows are meant, as the offset log names it; None while the log is empty.

        Raises:
            CheckpointError: when it is not clear which, or there is none of that name.
        """
        ends = [log[number] for number in sorted({*list(log)[:1], *list(log)[-1:]}) if number in log]
        if not ends:
            return None
        sources = list(dict.fromkeys(source for entry in ends for source in entry.offsets))
        if chosen is not None:
            if chosen not in sources:
                raise CheckpointError(
                    f"there is no source {chosen!r} in {self.files.uri}; its sources are {', '.join(sources)}"
                )
            return chosen
        if len(sources) != 1:
            raise CheckpointError(
                f"the query in {self.files.uri} has {len(sources)} sources ({', '.join(sources)}): say which one the "
                "stream reads, by its place in the plan or its name, such as source="
                f"{sources[0] if sources else '0'!r}"
            )
        return sources[0]


def numbers_in(files: HadoopFiles, folder: str) -> list[int]:
    """Return the numbers among the names in a folder, ascending."""
    return sorted(int(name) for name in files.names(folder) if name.isascii() and name.isdecimal())
