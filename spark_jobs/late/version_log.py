"""What a query's versions are made from, in a folder of its checkpoint: one file a batch, written before the output.

    changed/12     the windows that changed in batch 12, and its mark
    open/9         every window that was open after batch 9, with its version, and the mark of batch 9

The state before a batch is the newest ``open`` file and every ``changed`` file after it, so a batch costs what changed
in it. A new ``open`` file takes the place of all that is older. Files are Arrow streams.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol

import pyarrow as pa

from tidemark.models.base.read_json import read_object
from tidemark.spark_jobs.late.mark import Mark

_FORMAT = 1
_CHANGED, _OPEN = "changed", "open"
_META = b"tidemark"


class VersionLogError(ValueError):
    """The files of a batch are missing, or a later release wrote them."""


class Files(Protocol):
    """Small files below one folder; ``HadoopFiles`` is one."""

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder."""
        ...

    def read_bytes(self, name: str) -> bytes | None:
        """Return what is in a file; None when it is not there."""
        ...

    def write_whole(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        ...


@dataclass(frozen=True, slots=True)
class LoggedWindows:
    """A file: the mark of its batch, and windows."""

    mark: Mark
    windows: pa.Table


class VersionLog:
    """The files of one query.

    Args:
        files: their folder.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def before(self, batch: int) -> tuple[LoggedWindows | None, list[LoggedWindows]]:
        """Return the windows that were open at some batch before ``batch``, and what changed in each one since.

        Raises:
            VersionLogError: when a file is missing.
        """
        first = max((number for number in self._numbers(_OPEN) if number < batch), default=-1)
        opened = None if first < 0 else self._read(f"{_OPEN}/{first}")
        changed = [self.changed(number) for number in range(first + 1, batch)]
        found = [entry for entry in changed if entry is not None]
        if len(found) < len(changed) or (first >= 0 and opened is None):
            raise VersionLogError(
                f"late=revise cannot go on at batch {batch}: it has not seen every batch before it. A query begins "
                "with late=revise from a new checkpoint; one that had it keeps it"
            )
        return opened, found

    def changed(self, batch: int) -> LoggedWindows | None:
        """Return what changed in a batch; None when it is not there."""
        return self._read(f"{_CHANGED}/{batch}")

    def write_changed(self, batch: int, entry: LoggedWindows) -> None:
        """Write what changed in a batch."""
        self._files.write_whole(f"{_CHANGED}/{batch}", _to_bytes(entry))

    def write_open(self, batch: int, entry: LoggedWindows) -> None:
        """Write the windows that are open after a batch that is committed, and delete what is older."""
        self._files.write_whole(f"{_OPEN}/{batch}", _to_bytes(entry))
        self._delete(_OPEN, lambda number: number < batch)
        self._delete(_CHANGED, lambda number: number <= batch)

    def _numbers(self, folder: str) -> list[int]:
        return [int(name) for name in self._files.names(folder) if name.isascii() and name.isdecimal()]

    def _delete(self, folder: str, old: Callable[[int], bool]) -> None:
        for number in filter(old, self._numbers(folder)):
            self._files.delete(f"{folder}/{number}")

    def _read(self, name: str) -> LoggedWindows | None:
        data = self._files.read_bytes(name)
        return None if data is None else _from_bytes(data)


def _to_bytes(entry: LoggedWindows) -> bytes:
    meta = json.dumps({"format": _FORMAT, "mark": asdict(entry.mark)}).encode()
    windows = entry.windows.replace_schema_metadata({**(entry.windows.schema.metadata or {}), _META: meta})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, windows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        writer.write_table(windows)
    return bytes(sink.getvalue().to_pybytes())


def _from_bytes(data: bytes) -> LoggedWindows:
    windows = pa.ipc.open_stream(data).read_all()
    metadata = dict(windows.schema.metadata)
    meta = json.loads(metadata.pop(_META))
    if meta["format"] != _FORMAT:
        raise VersionLogError(
            f"the files of late=revise are of format {meta['format']}: a newer Tidemark wrote them"
        )
    return LoggedWindows(read_object(Mark, meta["mark"]), windows.replace_schema_metadata(metadata))
