"""The sink of a query over Spark Connect: a function that the server runs, and files that show what it got.

A client shares no memory with it, so it is told by a file to wait, and tells by files what it has begun and done.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from support.patience import PATIENCE_S

__all__ = ["BegunBatches", "Going", "file_sink", "taken"]

_PAUSE_S = 0.01


def file_sink(folder: Path) -> partial[None]:
    """Return a sink that keeps its files in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    return partial(_take, str(folder))


def _take(folder: str, df: Any, batch_id: int) -> None:
    here = Path(folder)
    with (here / "begun").open("a") as begun:
        begun.write(f"{batch_id}\n")
    assert Going(here).wait(PATIENCE_S), "nobody let the batch end"
    rows = [(row["key_us"], list(row["ids"])) for row in df.collect()]
    hidden = here / f".{batch_id}"
    hidden.write_text(json.dumps(rows))
    hidden.rename(here / f"{batch_id}.json")


def taken(folder: Path) -> dict[int, list[tuple[int | None, tuple[int | None, ...]]]]:
    """Return by batch what the sink in ``folder`` got."""
    return {
        int(path.stem): [(key_us, tuple(ids)) for key_us, ids in json.loads(path.read_text())]
        for path in folder.glob("[0-9]*.json")
    }


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
