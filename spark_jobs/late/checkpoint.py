"""A query's checkpoint, read only: its id, its offset log and how far it is committed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from tidemark.spark_jobs.late.hadoop_files import HadoopFiles
from tidemark.spark_jobs.late.offset_log import LogEntry, data_sources, parse_entry


class CheckpointError(ValueError):
    """A folder that is no checkpoint, or in which it is not clear which source is meant."""


class OffsetLog(Mapping[int, LogEntry]):
    """The entries that are there, each read when it is asked for.

    Args:
        files: the checkpoint's folder.
    """

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
            self._read[number] = parse_entry(text)
        return self._read[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


class Checkpoint:
    """The checkpoint of one query.

    Args:
        files: its folder.
    """

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
        return str(json.loads(text)["id"])

    def committed(self) -> int:
        """Return the last batch that is committed, -1 for none."""
        return max(numbers_in(self.files, "commits"), default=-1)

    def committed_ms(self, batch: int) -> int | None:
        """Return when a batch was committed, in milliseconds since the epoch; None when that is not known."""
        return self.files.written_ms(f"commits/{batch}")

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
        sources = data_sources(ends)
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
