"""The sinks of queries over Spark Connect, which are in the server, and files that show what they got.

A client shares no memory with a function there: a file tells it to wait, and files tell what it has begun and done.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from support.patience import PATIENCE_S

__all__ = ["CONFS", "BegunBatches", "Going", "function_sink", "json_sink", "taken"]

CONFS: dict[str, Any] = {"spark.sql.streaming.fileSink.log.compactInterval": "1000"}
"""So that there is a file for each batch of the JSON sink."""

_PAUSE_S = 0.01


def json_sink(folder: Path) -> Path:
    """Return where a job in ``folder`` writes JSON to."""
    return folder / "json"


def function_sink(folder: Path) -> partial[None]:
    """Return a function that takes the batches of a job in ``folder``."""
    return partial(_take, str(folder))


def _take(folder: str, df: Any, batch_id: int) -> None:
    here = Path(folder)
    with (here / "begun").open("a") as begun:
        begun.write(f"{batch_id}\n")
    assert Going(here).wait(PATIENCE_S), "nobody let the batch end"
    rows = [(row["key_us"], list(row["ids"])) for row in df.collect()]
    (here / "taken").mkdir(exist_ok=True)
    (here / "taken" / f"{batch_id}.json").write_text(json.dumps(rows))


def taken(folder: Path) -> dict[int, list[tuple[int | None, tuple[int | None, ...]]]]:
    """Return by batch what both sinks of a job in ``folder`` got."""
    found = {
        int(path.stem): [(key_us, tuple(ids)) for key_us, ids in json.loads(path.read_text())]
        for path in (folder / "taken").glob("*.json")
    }
    for log in (json_sink(folder) / "_spark_metadata").glob("[0-9]*"):
        files = [
            Path(unquote(urlparse(json.loads(line)["path"]).path))
            for line in log.read_text().splitlines()[1:]
        ]
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        found[int(log.name)] = [(row.get("key_us"), tuple(row["ids"])) for row in rows]
    return found


class BegunBatches(Sequence[int]):
    """The batches that a sink has begun, in order."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "begun"

    def _read(self) -> list[int]:
        return [int(line) for line in self._path.read_text().split()] if self._path.exists() else []

    def __len__(self) -> int:
        return len(self._read())

    def __getitem__(self, index: Any) -> Any:
        return self._read()[index]


class Going:
    """Batches end only while it is set, as with ``threading.Event``."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "hold"

    def set(self) -> None:
        """Let batches end."""
        self._path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Let no batch end."""
        self._path.touch()

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is set, up to ``timeout_s`` seconds; return whether it is."""
        deadline = time.monotonic() + timeout_s
        while self._path.exists() and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        return not self._path.exists()
