"""The controller's last good answer for each stream, on disk: what a job starts with while the controller is away."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote

from tidemark.models.protocol.messages import BoundAnswer
from tidemark.spark_jobs.answers import read_answer
from tidemark.spark_jobs.whole_file import write_whole

_log = logging.getLogger("tidemark.spark")


class BoundCache:
    """The last good answer of each stream of a controller, in one small file each.

    Args:
        folder: where the files are; made when first written.
        controller_url: address of the controller; staging's answers are not production's.
    """

    def __init__(self, folder: Path, controller_url: str = "") -> None:
        self._folder = folder / hashlib.sha256(controller_url.encode()).hexdigest()[:16]

    def read(self, job: str, stream: str) -> BoundAnswer | None:
        """Return the last good answer; None when there is none or it cannot be read."""
        path = self._path(job, stream)
        try:
            return read_answer(json.loads(path.read_text()), str(path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _log.warning("the last good bound in %s cannot be read: %s", path, error)
            return None

    def write(self, answer: BoundAnswer) -> None:
        """Write ``answer``; the file is replaced in one step, so a killed driver leaves the old or the new one."""
        path = self._path(answer.job, answer.stream)
        try:
            write_whole(path, json.dumps(asdict(answer)))
        except OSError as error:
            _log.warning("the bound cannot be written to %s: %s", path, error)

    def _path(self, job: str, stream: str) -> Path:
        return self._folder / quote(job, safe="") / f"{quote(stream, safe='')}.json"
