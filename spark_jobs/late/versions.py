"""The windows of a query that are not final, which of them a batch puts out, and the files that they are made from.

A window comes out first when ``early`` reaches its end, again whenever it changes after that, and a last time when the
watermark reaches its end: Spark drops its state then, so that it never changes again. A window here is that of one key
where a query groups by more than the window.

In a folder of the checkpoint one file a batch is written before the output:

    changed/12     the windows that changed in batch 12, and its mark
    open/9         every window that was open after batch 9, with its version, and the mark of batch 9

The state before a batch is the newest ``open`` file and every ``changed`` file after it, so a batch costs what changed
in it. A new ``open`` file takes the place of all that is older. Files are Arrow streams.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from tidemark.models.base.read_json import read_object
from tidemark.spark_jobs.late.mark import Mark

_FORMAT = 1
_CHANGED, _OPEN = "changed", "open"
_META = b"tidemark"


Key = tuple[Hashable, ...]
"""The values of the grouping columns beside the window."""

V = TypeVar("V")


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
    """The files of one query."""

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
        entries = [entry for entry in changed if entry is not None]
        if len(entries) < len(changed) or (first >= 0 and opened is None):
            raise VersionLogError(
                f"late=revise cannot go on at batch {batch}: it has not seen every batch before it. A query begins "
                "with late=revise from a new checkpoint; one that had it keeps it"
            )
        return opened, entries

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


class DuplicateKeyError(ValueError):
    """A batch has two rows of one window and key: not all grouping columns are named."""


class NewVersion(NamedTuple, Generic[V]):
    """A version of a window."""

    version: int
    """1 for the first one, and one more each time."""
    is_final: bool
    value: V


@dataclass(slots=True)
class OpenWindow(Generic[V]):
    """A window that is not final."""

    value: V
    version: int = 0
    """Its newest version; 0 while it has not come out."""


class OpenWindows(Generic[V]):
    """The open windows of one query.

    Args:
        early_us: all windows that end here or before have come out, in microseconds.
    """

    def __init__(self, early_us: int = 0) -> None:
        self._early_us = early_us
        self._by_end: dict[int, dict[Key, OpenWindow[V]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_end.values()))

    def __iter__(self) -> Iterator[OpenWindow[V]]:
        """Yield every open window, which a caller may give another place for its value."""
        for windows in self._by_end.values():
            yield from windows.values()

    def put_back(self, end_us: int, key: Key, window: OpenWindow[V]) -> None:
        """Add a window as it was when it was saved."""
        self._by_end.setdefault(end_us, {})[key] = window

    def step(
        self, changed: Iterable[tuple[int, Key, V]], early_us: int, watermark_us: int
    ) -> list[NewVersion[V]]:
        """Take the windows that changed in a batch; return the versions that it puts out.

        Work follows the windows that changed or come out, not those that are open.

        Args:
            changed: end in microseconds, key and new value of each.
            early_us: windows that end here or before come out; at least that of the batch before and the watermark.
            watermark_us: windows that end here or before are final.

        Raises:
            DuplicateKeyError: when a window and key comes twice. The state is unusable then.
        """
        touched: dict[int, dict[Key, OpenWindow[V]]] = {}
        for end_us, key, value in changed:
            windows, seen = self._by_end.setdefault(end_us, {}), touched.setdefault(end_us, {})
            if key in seen:
                raise DuplicateKeyError(f"the window that ends at {end_us} us has two rows of the key {key}")
            window = windows.get(key)
            if window is None:
                window = windows[key] = OpenWindow(value)
            else:
                window.value = value
            seen[key] = window
        versions: list[NewVersion[V]] = []
        for end_us in sorted(end_us for end_us in self._by_end if end_us <= early_us):
            is_final = end_us <= watermark_us
            whole = is_final or end_us > self._early_us
            for window in (self._by_end if whole else touched).get(end_us, {}).values():
                window.version += 1
                versions.append(NewVersion(window.version, is_final, window.value))
            if is_final:
                del self._by_end[end_us]
        self._early_us = early_us
        return versions
