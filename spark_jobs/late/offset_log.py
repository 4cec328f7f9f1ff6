"""One entry of a checkpoint's offset log: watermark and clock of a batch, and how far it read each source. Pure.

An entry is text: a version, metadata as JSON, and a line for each source. In version 1 a source is known by its place
(Spark 4.2, ``OffsetSeqLog``); version 2, which Spark writes where sources have names
(``spark.sql.streaming.offsetLog.formatVersion``), puts the name before the offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Offset = Mapping[str, Any] | None
"""An offset as JSON; None while the source has none."""

_NONE = "-"
_CONTROL_KEYS = frozenset({"source", "watermark_ms", "partitions"})


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
        )
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise LogFormatError(f"an entry of the offset log cannot be read: {error!r}") from error


def one_source(text: str, source: str) -> tuple[str, str]:
    """Return an entry's text as if the query had one source only, and that source's place or name.

    Args:
        text: the entry.
        source: the source, as ``LogEntry`` names it.
    """
    version, metadata, *lines = text.splitlines()
    if version == "v1":
        return f"{version}\n{metadata}\n{lines[int(source)]}", "0"
    (line,) = (line for line in lines if line.split(":", 1)[0] == source)
    return f"{version}\n{metadata}\n{line}", source


def is_control(offset: Offset) -> bool:
    """Return whether an offset is of the control stream of mode Live."""
    return offset is not None and offset.keys() == _CONTROL_KEYS


def data_sources(entries: Iterable[LogEntry]) -> list[str]:
    """Return the sources of the data in their order, without control streams."""
    found: dict[str, bool] = {}
    for entry in entries:
        for source, offset in entry.offsets.items():
            found[source] = found.get(source, False) or is_control(offset)
    return [source for source, control in found.items() if not control]


def _offset(line: str) -> Offset:
    if line == _NONE:
        return None
    offset = json.loads(line)
    # A source of one's own may have a bare number for an offset.
    return offset if isinstance(offset, dict) else {"": offset}
